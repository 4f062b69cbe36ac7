"""Scans one archived binlog for all tables that want it: kernels decode what is plain, the reference decoder the rest, row by row.

a small file ---the reference decoder---> records of all rows and statements
bytes --kernels, table by table (`fast_binlog`)--> changes, and the places of those that are left
--the reference decoder, if something is left--> records: rows that are left, statements, unknown tables
"""

import hashlib
import io
from collections.abc import Sequence
from typing import IO, Final, cast

from cdc_ops.archives.base import Archive
from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts
from cdc_ops.core.archive.binlogs.binlog_sequence import binlog_name, facts_of
from cdc_ops.events.binlog.decoder import BinlogFile, Change, Definition, Place
from cdc_ops.events.binlog.table_map import TableMap
from cdc_ops.events.binlog.texts import record_of
from cdc_ops.events.format import Format
from cdc_ops.events.record import Record
from cdc_ops.events.scan.facts import FileFacts
from cdc_ops.events.scan.request import FileTask, TableTask
from cdc_ops.events.scan.spreading import Spreader
from cdc_ops.events.scan.tables import TableScan

SMALL: Final = 2**20
"""Bytes of files that the reference decoder reads alone: some thousand rows, in less time than kernels take to load."""

_TOGETHER: Final = 1024
"""Records that are handed over at once."""
WITHIN_PAYLOAD: Final = 1 << 62
"""Numbers of changes from here on are those of changes within compressed transactions."""


def scan_binlog(form: Format, tasks: Sequence[TableTask], files: Sequence[FileTask], archive: Archive) -> list[FileFacts]:
    """Scans one file.

    Args:
        form: The format, opened.
        tasks: What is wanted of each table; all of one archive.
        files: The file, once for each table that wants it.
        archive: The archive.

    Raises:
        ArchiveFileError: the file is damaged, or has what cannot be followed.
    """
    path = files[0].path
    tables = [TableScan(form, tasks[file.table], file, len(files)) for file in files]

    def open_file() -> IO[bytes]:
        return cast(IO[bytes], archive.open(path))

    if files[0].size >= SMALL:
        from cdc_ops.events.scan.fast_binlog import scan_by_kernels  # numba takes a while to load

        return scan_by_kernels(form, tables, path, open_file)
    with open_file() as raw:
        content = raw.read()  # once: a store would be asked several times, and may answer with another file
    binlog = BinlogFile.open(path, lambda: io.BytesIO(content))
    read_left(form, binlog, [LeftRows(table) for table in tables])
    return binlog_facts(binlog, tables)


def binlog_facts(binlog: BinlogFile, tables: Sequence[TableScan]) -> list[FileFacts]:
    """Returns what a file holds for each table, once all of it has been read."""
    facts: BinlogFacts = facts_of(binlog.name, binlog.scan, binlog.undecided())
    lines = len(binlog.scan.ends)
    return [
        FileFacts(path=binlog.name, table=one.file.table, lines=lines, found=one.finish(), binlog=facts, too_large=one.too_large)
        for one in tables
    ]


class LeftRows:
    """What the reference decoder reads of one table: all of it.

    Args:
        scan: Takes the rows.
    """

    def __init__(self, scan: TableScan) -> None:
        self.scan = scan

    def leaves(self) -> bool:
        """True if something of the table is left to the reference decoder."""
        return True

    def has_left(self, offset: int) -> bool:
        """True if something of the event at an offset is left."""
        return offset >= 0

    def is_left(self, change: Change) -> bool:
        """True for a change of this table that the reference decoder is to read."""
        return change.place.offset >= 0


def read_left(form: Format, binlog: BinlogFile, tables: Sequence[LeftRows]) -> None:
    """Makes records of what is left: rows, all statements, and all that concerns tables that nobody knows."""
    spread = Spreader(form, [table.scan for table in tables])
    leaving = {table.scan.name: table for table in tables if table.leaves()}
    known, watching = {table.scan.name for table in tables}, spread.watches
    if not (leaving or binlog.scan.may_define or watching):
        return

    def wants(database: str, name: str) -> bool:
        return (database, name) in leaving or (watching and (database, name) not in known)

    def rows_at(table: TableMap, offset: int) -> bool:
        one = leaving.get((table.database, table.table))
        return one.has_left(offset) if one is not None else watching

    number, records = binlog_name(binlog.name).number, list[Record]()
    for change in binlog.changes(wants, rows_at=rows_at):
        if not isinstance(change, Definition):
            own = leaving.get((change.table.database, change.table.table))
            if own is not None and not own.is_left(change):
                continue
        records.append(Record(record_of(change, number).encode(), binlog.name, line_of(change.place)))
        if len(records) == _TOGETHER:
            spread.add(records)
            records = []
    spread.add(records)


def line_of(place: Place) -> int:
    """Returns the number of a change in its file: each has its own of 63 bits, the same in every try.

    Outside of compressed transactions it is where the row's event begins, plus the number of the row, which takes a byte at least.
    """
    if not place.inner:
        return place.offset + place.row
    known = hashlib.blake2b(f"{place.offset}:{place.inner}:{place.row}".encode(), digest_size=8).digest()
    return WITHIN_PAYLOAD | int.from_bytes(known, "big") >> 2
