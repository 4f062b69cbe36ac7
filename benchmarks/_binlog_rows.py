"""The table whose binlogs are measured, and its file as the decoders want it."""

from pathlib import Path
from typing import Final

import numpy as np

from benchmarks._harness import DATABASE
from cdc_ops.decode.compiler import Bytes
from cdc_ops.decode.program import Field, Program
from cdc_ops.events.binlog.decoder import BinlogFile
from cdc_ops.events.binlog.files import open_binlog
from cdc_ops.events.fast_binlog.change_batches import Target
from cdc_ops.events.fast_binlog.quick_scan import scan_content

COLUMNS: Final = {
    **{"id": "decimal(20,0)", "customer_id": "int", "status": "string", "total": "decimal(12,2)", "currency": "string"},
    **{"quantity": "smallint", "weight": "double", "note": "string", "express": "tinyint", "ordered_on": "date"},
    **{"created_at": "timestamp_ntz", "updated_at": "timestamp_ntz"},
}


def scanned(path: Path) -> tuple[BinlogFile, Bytes]:
    data = np.memmap(path, np.uint8, "r")
    return BinlogFile(name=str(path), open_file=open_binlog(str(path)), scan=scan_content(str(path), data)), data


def target_of(table: str) -> Target:
    program = Program.of([Field.of(column, ddl) for column, ddl in COLUMNS.items()])
    return Target(database=DATABASE, table=table, program=program)
