"""Scans one archived binlog in a Python worker for all tables that want it: kernels decode, the rest becomes records. Spark-free.

    bytes --scan_content--> which transactions count --kernels, table by table--> plain rows, and the places of those that are left
          --the reference decoder, if something is left--> records for the exact way: rows that are left, statements, unknown tables

The exact way reads these records as it reads those of whole files; the number of a record is the offset of its event.
"""

from collections.abc import Sequence
from contextlib import closing
from typing import IO, Final, cast

import numpy as np
import pyarrow as pa

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.binlog_sequence import binlog_name, facts_of
from cdc_ops.decode.compiler import Bytes
from cdc_ops.errors import CdcError
from cdc_ops.formats.binlog.decoder import BadRows, BinlogFile, Change, Definition
from cdc_ops.formats.binlog.table_map import TableMap
from cdc_ops.formats.binlog.texts import record_of
from cdc_ops.formats.fast_binlog.change_batches import Changes, LeftEvents
from cdc_ops.formats.fast_binlog.changes import TableChanges
from cdc_ops.formats.fast_binlog.commit_times import CommitTimes
from cdc_ops.formats.fast_binlog.mapped_files import mapped_content
from cdc_ops.formats.fast_binlog.plain import PlainBinlog, left_rows, plain_rows
from cdc_ops.formats.fast_binlog.quick_scan import scan_content
from cdc_ops.formats.feed.plain import plain_format
from cdc_ops.steps.log.plain.file_scan import FileScan, FileTask, ScanTask
from cdc_ops.steps.log.plain.parts import FileParts

_FIRST_EVENT: Final = 4
_MOST_LEFT: Final = 500_000
_MANY_LEFT: Final = 20_000
"""So many rows that are left are no loss, whatever their share is; more cost more than the exact way does, and memory for their places."""


def scan_binlog(tasks: Sequence[ScanTask], files: Sequence[FileTask]) -> list[FileScan]:
    """Scans one file. What its store or its contents raise is a failure that is told: the exact way says it better.

    Args:
        tasks: What is wanted of each table; all of one archive.
        files: The file, once for each table that wants it.
    """
    path = files[0].path
    try:
        with closing(open_archive(tasks[0].url, dict(tasks[0].options))) as archive:
            return _scanned(tasks, files, archive)
    except (OSError, EOFError, pa.ArrowException, ValueError, OverflowError, CdcError) as error:
        return [FileScan(path=path, table=file.table, failure=f"{type(error).__name__}: {error}") for file in files]


def _scanned(tasks: Sequence[ScanTask], files: Sequence[FileTask], archive: Archive) -> list[FileScan]:
    path = files[0].path
    with mapped_content(path, lambda: cast(IO[bytes], archive.open(path))) as (data, open_again):
        binlog = BinlogFile(name=path, open_file=open_again, scan=scan_content(path, data))
        if binlog.scan.size != data.size:
            raise ValueError("the file changed while it was read")
        committed = CommitTimes(data, checksummed=binlog.scan.description.checksummed)
        found, tables = list[FileScan](), list[_Table]()
        for file in files:
            task = tasks[file.table]
            form = plain_format(task.schema, task.keys, task.format)
            if isinstance(form, PlainBinlog):
                tables.append(_Table(task, file, form, binlog, data, committed))
            else:
                found.append(FileScan(path=path, table=file.table, failure="the table has columns or keys that the decoder cannot read"))
        for table in tables:
            table.read()
        if taken := [table for table in tables if not table.failure]:
            _leave(binlog, taken)
    return [*found, *(table.finished() for table in tables)]


class _Table:
    """What a file holds of one table."""

    def __init__(self, task: ScanTask, file: FileTask, form: PlainBinlog, binlog: BinlogFile, data: Bytes, committed: CommitTimes) -> None:
        self.name = (task.schema.table.schema, task.schema.table.name)
        self.left = LeftEvents(settled=form.settled)
        self._task, self._file, self._form, self._binlog, self._data, self._committed = task, file, form, binlog, data, committed
        self._number = binlog_name(file.path).number
        self._parts = FileParts(task, file, form, ordered=True)
        self.failure = ""
        self._taken = 0
        self._rows: set[tuple[int, int, int]] = set()
        self._offsets: set[int] = set()

    def read(self) -> None:
        """Decodes the rows of the table, unless most of them turn out to be left: `failure` says so then."""
        changes = TableChanges(self._file.path, self._data, self._binlog.scan, self._form.target, left=self.left)
        for batch in changes.read(_FIRST_EVENT, self._binlog.scan.complete_to):
            self._take(batch)
            if self._leaves_too_much():
                self.failure = "most of its rows have values that the decoder does not take, such as those of TIME, BIT or UUID"
                return
        self._parts.write_plain()
        self._offsets = {offset for offset, _, _ in self._rows} | {offset for offset, _ in self.left.events}

    def _leaves_too_much(self) -> bool:
        left = len(self._rows) + len(self.left.events)
        return left > _MOST_LEFT or left > max(_MANY_LEFT, self._taken)

    def _take(self, changes: Changes) -> None:
        left = left_rows(self._form, changes)
        for row in np.flatnonzero(left).tolist():
            self._rows.add((int(changes.offset[row]), int(changes.inner[row]), int(changes.row[row])))
        self._taken += int(left.size - left.sum())
        if not left.all():
            committed = self._committed.of(changes.transaction)
            self._parts.add(plain_rows(self._form, changes, self._number, committed, pa.array(~left)))

    def knows(self, database: str, table: str) -> bool:
        """True for a table whose records are not this one's business."""
        return self._task.known is None or (database, table) == self.name or self._task.known.knows(f"{database}.{table}")

    @property
    def leaves(self) -> bool:
        """True if something of the table is left."""
        return bool(self._offsets)

    def has_left(self, offset: int) -> bool:
        """True if something of the event at an offset is left."""
        return offset in self._offsets

    def is_left(self, change: Change) -> bool:
        """True for a change that the exact way is to read for this table."""
        if isinstance(change, Definition):
            return True
        if (change.table.database, change.table.table) != self.name:
            return not self.knows(change.table.database, change.table.table)
        if isinstance(change, BadRows):  # it stands for all rows of its event
            return True
        place = change.place
        first = self.left.events.get((place.offset, place.inner))
        return (place.offset, place.inner, place.row) in self._rows or (first is not None and place.row >= first)

    def add_marked(self, text: bytes, offset: int) -> None:
        """Takes a record for the exact way."""
        self._parts.add_marked(text, offset)
        if self._parts.is_full():
            self._parts.write_marked()

    def finished(self) -> FileScan:
        """Writes what is not written yet, and tells what the file holds."""
        if self.failure:
            return FileScan(path=self._file.path, table=self._file.table, failure=self.failure)
        self._parts.finish()
        return FileScan(
            path=self._file.path,
            lines=len(self._binlog.scan.ends),
            seen=self._parts.seen(),
            plain=tuple(self._parts.plain),
            marked=tuple(self._parts.marked),
            table=self._file.table,
            binlog=facts_of(self._file.path, self._binlog.scan, self._binlog.undecided()),
        )


def _leave(binlog: BinlogFile, tables: Sequence[_Table]) -> None:
    """Makes records of what is left: rows, all statements, and all that concerns tables that nobody knows."""
    there = set().union(*(table.left.tables for table in tables))
    unknown = {name for name in there if any(not table.knows(*name) for table in tables)}
    leaving = {table.name for table in tables if table.leaves}
    if not (unknown or leaving or binlog.scan.may_define):
        return

    def rows_at(table: TableMap, offset: int) -> bool:
        name = (table.database, table.table)
        return name in unknown or any(one.has_left(offset) for one in tables if one.name == name)

    for change in binlog.changes(lambda *name: name in unknown or name in leaving, rows_at=rows_at):
        takers = [table for table in tables if table.is_left(change)]
        if takers:
            text = record_of(change, binlog_name(binlog.name).number).encode()
            for table in takers:
                table.add_marked(text, change.place.offset)
