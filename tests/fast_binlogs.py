"""Both ways to read the changes of a table of a binlog: what the fast one gives has to equal what the reference decoder alone gives."""

import io
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cdc_ops.core.binlog.events import CHECKSUM_SIZE, HEADER_SIZE, read_header
from cdc_ops.decode.program import Field, Program
from cdc_ops.errors import CdcError
from cdc_ops.events.binlog.charsets import BINARY
from cdc_ops.events.binlog.decoder import BinlogFile
from cdc_ops.events.binlog.table_map import BinlogColumn, ColumnType
from cdc_ops.events.fast_binlog.change_batches import Changes, Target
from cdc_ops.events.fast_binlog.changes import TableChanges
from cdc_ops.events.fast_binlog.exact_changes import exact_changes

_SIGNED = {
    ColumnType.TINY: "tinyint",
    ColumnType.SHORT: "smallint",
    ColumnType.INT24: "int",
    ColumnType.LONG: "int",
    ColumnType.LONGLONG: "bigint",
}
_UNSIGNED = {
    ColumnType.TINY: "smallint",
    ColumnType.SHORT: "int",
    ColumnType.INT24: "int",
    ColumnType.LONG: "bigint",
    ColumnType.LONGLONG: "decimal(20,0)",
}
_OTHERS = {
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
    ColumnType.YEAR: "smallint",
    ColumnType.DATE: "date",
    ColumnType.DATETIME2: "timestamp_ntz",
    ColumnType.TIMESTAMP2: "timestamp",
    ColumnType.BIT: "decimal(20,0)",
    ColumnType.GEOMETRY: "binary",
    ColumnType.VECTOR: "binary",
}


def ddl_of(column: BinlogColumn) -> str:
    """Returns the type in which the lake stores a column."""
    if column.type in _SIGNED:
        return (_UNSIGNED if column.unsigned else _SIGNED)[column.type]
    if column.type is ColumnType.NEWDECIMAL:
        return f"decimal({column.precision},{column.scale})" if column.precision <= 38 else "string"
    return _OTHERS.get(column.type, "binary" if column.is_character and column.collation == BINARY else "string")


def target(table: str, columns: dict[str, str], *, images: bool = False) -> Target:
    database, name = table.split(".")
    program = Program.of([Field.of(column, ddl) for column, ddl in columns.items()])
    return Target(database=database, table=name, program=program, images=images)


def opened(data: bytes) -> BinlogFile:
    return BinlogFile.open("binlog.000001", lambda: io.BytesIO(data))


def fast(file: BinlogFile, data: bytes, wanted: Target, rows: int = 20_000) -> Any:
    return _outcome(
        lambda: TableChanges(file.name, np.frombuffer(data, np.uint8), file.scan, wanted, rows).read(4, file.scan.complete_to), wanted
    )


def exact(file: BinlogFile, wanted: Target) -> Any:
    return _outcome(lambda: exact_changes(file, wanted, 0, file.scan.complete_to), wanted)


def with_changed_bytes(data: bytes, offset: int, chance: random.Random) -> bytes:
    """Returns a file with one or two other bytes in the body of the event at an offset, and its right checksum."""
    found = bytearray(data)
    end = offset + read_header(data[offset:]).size - CHECKSUM_SIZE
    for _ in range(chance.choice((1, 1, 2))):
        place = offset + HEADER_SIZE + chance.randrange(min(chance.choice((16, 64, 1 << 30)), end - offset - HEADER_SIZE))
        found[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFB, 0xFC, 0xFF, found[place] ^ 1 << chance.randrange(8), chance.randrange(256)))
    found[end : end + CHECKSUM_SIZE] = zlib.crc32(bytes(found[offset:end])).to_bytes(CHECKSUM_SIZE, "little")
    return bytes(found)


def _outcome(read: Any, wanted: Target) -> Any:
    """Returns all that was read, or the class of the error."""
    try:
        return _joined(list(read()), wanted)
    except CdcError as error:
        return type(error)


def _joined(parts: list[Changes], wanted: Target) -> dict[str, Any]:
    schema = wanted.program.arrow
    images = [part.before for part in parts if part.before is not None]
    columns = len(schema)
    absent = [np.zeros((columns, part.kind.size), np.bool_) if part.absent is None else part.absent for part in parts]
    return {
        "rows": pa.Table.from_batches([part.rows for part in parts], schema).to_pylist(),
        "before": pa.Table.from_batches(images, schema).to_pylist(),
        "absent": np.concatenate(absent, axis=1).tolist() if parts else [],
        **{
            name: np.concatenate([getattr(part, name) for part in parts]).tolist() if parts else []
            for name in ("kind", "offset", "inner", "row", "time")
        },
    }


def assert_equal_ways(path: Path, table: str, columns: dict[str, str], rows: int = 20_000) -> Any:
    """Reads a file in both ways, and returns what both gave."""
    file, data = BinlogFile.open(path.name, lambda: path.open("rb")), path.read_bytes()
    wanted = target(table, columns, images=True)
    quick = fast(file, data, wanted, rows)
    assert quick == exact(file, wanted)
    return quick
