"""Scans one archived binlog for all tables that want it: kernels decode what is plain, the reference decoder the rest, row by row.

bytes --scan_content--> which transactions count --kernels, table by table--> changes, and the places of those that are left
--the reference decoder, if something is left--> records: rows that are left, statements, unknown tables
"""

from collections.abc import Sequence
from typing import IO, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_ops.archives.base import Archive
from cdc_ops.core.archive.binlog_sequence import binlog_name, facts_of
from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.decode.compiler import Bytes
from cdc_ops.events.binlog.decoder import BadRows, BinlogFile, Change, Definition, Place
from cdc_ops.events.binlog.table_map import TableMap
from cdc_ops.events.binlog.texts import record_of
from cdc_ops.events.change import NAMES, ChangeTypes
from cdc_ops.events.fast_binlog.change_batches import Changes, LeftEvents
from cdc_ops.events.fast_binlog.changes import TableChanges
from cdc_ops.events.fast_binlog.commit_times import CommitTimes
from cdc_ops.events.fast_binlog.mapped_files import mapped_content
from cdc_ops.events.fast_binlog.plain import PlainBinlog, left_rows, plain_binlog
from cdc_ops.events.fast_binlog.quick_scan import scan_content
from cdc_ops.events.format import Format
from cdc_ops.events.record import Record
from cdc_ops.events.scan.facts import FileFacts
from cdc_ops.events.scan.request import FileTask, TableTask
from cdc_ops.events.scan.spreading import Spreader
from cdc_ops.events.scan.tables import TableScan

_FIRST_EVENT: Final = 4
_MANY_LEFT: Final = 20_000
"""So many rows that are left are no loss, whatever their share is."""
_LETTERS: Final = np.array([one.value for one in (EventOperation.CREATE, EventOperation.UPDATE, EventOperation.DELETE)])
_DELETE: Final = 2


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
    with mapped_content(path, lambda: cast(IO[bytes], archive.open(path))) as (data, open_again):
        binlog = BinlogFile(name=path, open_file=open_again, scan=scan_content(path, data))
        if binlog.scan.size != data.size:
            raise OSError("the file changed while it was read")
        committed = CommitTimes(data, checksummed=binlog.scan.description.checksummed)
        tables = [_Table(form, tasks[file.table], file, binlog, data, committed) for file in files]
        for table in tables:
            table.read()
        _read_left(form, binlog, tables)
        facts = facts_of(path, binlog.scan, binlog.undecided())
        lines = len(binlog.scan.ends)
        return [
            FileFacts(
                path=path, table=one.scan.file.table, lines=lines, found=one.scan.finish(), binlog=facts, too_large=one.scan.too_large
            )
            for one in tables
        ]


class _Table:
    """What a file holds of one table."""

    def __init__(self, form: Format, task: TableTask, file: FileTask, binlog: BinlogFile, data: Bytes, committed: CommitTimes) -> None:
        self.scan = TableScan(form, task, file)
        self._task, self._binlog, self._data, self._committed = task, binlog, data, committed
        self._number = binlog_name(file.path).number
        self._types = ChangeTypes(form.spec, task.schema, task.keys)
        self._plain = None if task.keeps_all else plain_binlog(task.schema, task.keys)
        self.left = LeftEvents(settled=self._plain.settled if self._plain else frozenset())
        self._taken = 0
        self._rows: set[tuple[int, int, int]] = set()
        self._offsets: set[int] = set()

    @property
    def takes_all(self) -> bool:
        """True if the reference decoder reads all rows of the table."""
        return self._plain is None

    def read(self) -> None:
        """Decodes the rows of the table, unless most of them turn out to be left: then the reference decoder reads all of them."""
        if self._plain is None:
            return
        found: list[tuple[pa.Table, npt.NDArray[np.int64]]] = []
        changes = TableChanges(self.scan.file.path, self._data, self._binlog.scan, self._plain.target, left=self.left)
        for batch in changes.read(_FIRST_EVENT, self._binlog.scan.complete_to):
            found += self._take(self._plain, batch)
            if self._leaves_too_much():
                self._plain = None
                return
            if self._taken > _MANY_LEFT:  # few rows are left, or there would be as many
                for rows, moments in found:
                    self.scan.add_plain(rows, moments)
                found = []
        for rows, moments in found:
            self.scan.add_plain(rows, moments)
        self._offsets = {offset for offset, _, _ in self._rows} | {offset for offset, _ in self.left.events}

    def _leaves_too_much(self) -> bool:
        left = len(self._rows) + len(self.left.events)
        return self._taken <= _MANY_LEFT and left > _MANY_LEFT and left > self._taken

    def _take(self, plain: PlainBinlog, changes: Changes) -> list[tuple[pa.Table, npt.NDArray[np.int64]]]:
        left = left_rows(plain, changes)
        for row in np.flatnonzero(left).tolist():
            self._rows.add((int(changes.offset[row]), int(changes.inner[row]), int(changes.row[row])))
        self._taken += int(left.size - left.sum())
        if left.all():
            return []
        return [(self._changes(plain, changes, ~left), self._committed.of(changes.transaction)[~left])]

    def _changes(self, plain: PlainBinlog, changes: Changes, kept: npt.NDArray[np.bool_]) -> pa.Table:
        """Returns the rows that are not left, as `TableScan` writes changes."""
        count, deleted = changes.kind.size, changes.kind == _DELETE
        columns = changes.rows.columns
        numbers = (np.full(count, self._number), changes.offset, changes.inner, changes.row)
        position = [pa.array(values).cast(kind) for values, kind in zip(numbers, self._types.position, strict=True)]
        mask = pa.array(deleted) if deleted.any() else None
        table = pa.table(
            {
                "op": pa.array(_LETTERS[changes.kind]),
                "key": pa.StructArray.from_arrays([columns[index] for index in plain.keys], fields=list(self._types.key)),
                "after": pa.StructArray.from_arrays(columns, fields=list(self._types.image), mask=mask),
                "present": pa.nulls(count, NAMES),
                "nulled": pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.string())),
                "position": pa.StructArray.from_arrays(position, names=[part.name for part in self._types.spec.order]),
            }
        )
        return table if kept.all() else table.filter(pa.array(kept))

    @property
    def leaves(self) -> bool:
        """True if something of the table is left."""
        return self.takes_all or bool(self._offsets)

    def has_left(self, offset: int) -> bool:
        """True if something of the event at an offset is left."""
        return self.takes_all or offset in self._offsets

    def is_left(self, change: Change) -> bool:
        """True for a change of this table that its records are to speak of."""
        place = change.place
        if self.takes_all or isinstance(change, BadRows):  # it stands for all rows of its event
            return True
        first = self.left.events.get((place.offset, place.inner))
        return (place.offset, place.inner, place.row) in self._rows or (first is not None and place.row >= first)


def _read_left(form: Format, binlog: BinlogFile, tables: Sequence[_Table]) -> None:
    """Makes records of what is left: rows, all statements, and all that concerns tables that nobody knows."""
    spread = Spreader(form, [table.scan for table in tables])
    leaving = {table.scan.name: table for table in tables if table.leaves}
    known = {table.scan.name for table in tables}
    there = set().union(*(table.left.tables for table in tables)) if not any(table.takes_all for table in tables) else None
    watching = spread.watches
    if not leaving and not binlog.scan.may_define and not watching and there is not None:
        return

    def wants(database: str, name: str) -> bool:
        return (database, name) in leaving or (watching and (database, name) not in known)

    def rows_at(table: TableMap, offset: int) -> bool:
        one = leaving.get((table.database, table.table))
        return one.has_left(offset) if one is not None else watching

    number = binlog_name(binlog.name).number
    for change in binlog.changes(wants, rows_at=rows_at):
        if not isinstance(change, Definition):
            own = leaving.get((change.table.database, change.table.table))
            if own is not None and not own.is_left(change):
                continue
        spread.add(Record(record_of(change, number).encode(), binlog.name, _line_of(change.place)))


def _line_of(place: Place) -> int:
    """Returns the number of a change in its file: each has its own, the same in every try."""
    if not place.inner:
        return place.offset + place.row  # a row takes a byte at least
    return (((place.inner << 20) | (place.row & 0xFFFFF)) << 32) | place.offset
