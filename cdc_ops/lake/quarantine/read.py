"""Reads the quarantine of a table without Spark.

Nothing is ever removed from it, so its files are its rows: that a record could be read after all is one row more. A try that died
before its commit left the same records as the one that followed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_ops.core.schema.tables import TableName, name_of_folder
from cdc_ops.lake.file_io import open_filesystem


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class QuarantinedRecord:
    """A record that could not be read.

    Args:
        file, line: Where it stands in the archive; lines count from 0.
        reason: Why it could not be read.
        raw: Its bytes.
        position: Its place in the order as JSON, "" if it is not known.
        op_seq, operation_id, run_id: Of the operation that met it.
        set_aside_at: When, UTC.
    """

    file: str
    line: int
    reason: str
    raw: bytes
    position: str
    op_seq: int
    operation_id: str
    run_id: str
    set_aside_at: datetime


RESOLVED: Final = ""
"""The reason of a row which says that the record of its file and line has been read since."""


def read_quarantine(path: str) -> tuple[QuarantinedRecord, ...]:
    """Returns the records of a table's quarantine by operation, file and line, without those that could be read since.

    None if there is no such table.
    """
    found = {(one.op_seq, one.operation_id, one.file, one.line): one for one in _rows(path)}
    resolved: dict[tuple[str, int], int] = {}
    for one in found.values():
        if one.reason == RESOLVED:
            resolved[one.file, one.line] = max(one.op_seq, resolved.get((one.file, one.line), 0))
    return tuple(record for _, record in sorted(found.items()) if record.op_seq > resolved.get((record.file, record.line), 0))


def quarantined_tables(root: str) -> tuple[TableName, ...]:
    """Returns the tables that have a quarantine below a pipeline's folder of them, by name."""
    filesystem, top = open_filesystem(root)

    def below(folder: str) -> list[str]:
        try:
            return sorted(str(entry["name"]).rstrip("/") for entry in filesystem.ls(folder, detail=True) if entry["type"] == "directory")
        except (FileNotFoundError, NotADirectoryError):
            return []

    places = (table for schema in below(top) for table in below(schema))
    names = ([name_of_folder(part) for part in place.split("/")[-2:]] for place in places)
    return tuple(TableName(schema=schema, name=name) for schema, name in names)


def _rows(path: str) -> Iterator[QuarantinedRecord]:
    import pyarrow.parquet as pq  # takes a while, and whoever plans a run comes by here

    filesystem, root = open_filesystem(path)
    try:
        names = [name for name in filesystem.ls(root, detail=False) if str(name).endswith(".parquet")]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in sorted(names):
        with filesystem.open(name, "rb") as stream:
            for row in pq.read_table(stream).to_pylist():
                yield QuarantinedRecord(
                    file=row["file"] or "",
                    line=row["line"] or 0,
                    reason=row["reason"] or "",
                    raw=row["raw"] or b"",
                    position=row["position"] or "",
                    op_seq=row["op_seq"],
                    operation_id=row["operation_id"],
                    run_id=row["run_id"],
                    set_aside_at=row["set_aside_at"],
                )
