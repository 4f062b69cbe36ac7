"""Rows of a binlog by kernels, table by table; what these do not take is left to the reference decoder.

Where most rows of a table are left, the reference decoder reads all of them.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_ops.core.archive.binlogs.binlog_sequence import binlog_name
from cdc_ops.core.binlog.events import MAGIC
from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.decode.compiler import Bytes
from cdc_ops.events.binlog.decoder import BadRows, BinlogFile, Change
from cdc_ops.events.binlog.files import Open
from cdc_ops.events.change import NAMES, ChangeTypes
from cdc_ops.events.fast_binlog.change_batches import Changes, LeftEvents
from cdc_ops.events.fast_binlog.changes import TableChanges
from cdc_ops.events.fast_binlog.commit_times import CommitTimes
from cdc_ops.events.fast_binlog.mapped_files import mapped_content
from cdc_ops.events.fast_binlog.plain import PlainBinlog, left_rows, plain_binlog
from cdc_ops.events.fast_binlog.quick_scan import scan_content
from cdc_ops.events.format import Format
from cdc_ops.events.scan.binlog import LeftRows, binlog_facts, read_left
from cdc_ops.events.scan.facts import FileFacts
from cdc_ops.events.scan.tables import TableScan

_MANY_LEFT: Final = 20_000
"""So many rows that are left are no loss, whatever their share is."""
_LETTERS: Final = np.array([one.value for one in (EventOperation.CREATE, EventOperation.UPDATE, EventOperation.DELETE)])
_DELETE: Final = 2
_Rows = tuple[pa.Table, npt.NDArray[np.int64]]
"""Changes, and when the source made each: microseconds since 1970."""


def scan_by_kernels(form: Format, tables: Sequence[TableScan], path: str, open_file: Open) -> list[FileFacts]:
    """Scans one file for its tables; see `binlog.scan_binlog`."""
    with mapped_content(path, open_file) as (data, open_again):
        binlog = BinlogFile(name=path, open_file=open_again, scan=scan_content(path, data))
        if binlog.scan.size != data.size:
            raise OSError("the file changed while it was read")
        committed = CommitTimes(data, checksummed=binlog.scan.description.checksummed)
        exact: frozenset[int] = frozenset()
        while True:
            fast = [FastRows(table, binlog, data, committed, by_kernels=table.file.table not in exact) for table in tables]
            for one in fast:
                one.read()
            try:
                read_left(form, binlog, fast)
            except UnfitEventError as error:
                exact |= {error.table}
                tables = [TableScan(form, table.task, table.file, len(tables)) for table in tables]
            else:
                return binlog_facts(binlog, tables)


class UnfitEventError(Exception):
    """An event does not fit the description of its table, so that none of its rows counts: kernels may have read some of them.

    Args:
        table: Whose rows the reference decoder is to read, all of them: the number of a `TableTask`.
    """

    def __init__(self, table: int) -> None:
        super().__init__(table)
        self.table = table


class FastRows(LeftRows):
    """What kernels take of one table, and what they leave."""

    def __init__(self, scan: TableScan, binlog: BinlogFile, data: Bytes, committed: CommitTimes, *, by_kernels: bool = True) -> None:
        super().__init__(scan)
        task = scan.task
        self._binlog, self._data, self._committed = binlog, data, committed
        self._number = binlog_name(binlog.name).number
        self._types = ChangeTypes(scan.spec, task.schema, task.keys)
        self._plain = plain_binlog(task.schema, task.keys) if by_kernels and not task.keeps_all else None
        self._left = LeftEvents(settled=self._plain.settled if self._plain else frozenset())
        self._taken = 0
        self._rows: set[tuple[int, int, int]] = set()
        self._offsets: set[int] = set()

    def read(self) -> None:
        """Decodes the rows of the table, unless most of them turn out to be left: then the reference decoder reads all of them."""
        if self._plain is None:
            return
        waiting: list[_Rows] = []
        changes = TableChanges(self._binlog.name, self._data, self._binlog.scan, self._plain.target, left=self._left)
        for batch in changes.read(len(MAGIC), self._binlog.scan.complete_to):
            waiting += self._take(self._plain, batch)
            if self._taken > _MANY_LEFT:
                waiting = self._hand_over(waiting)
            elif self._leaves_too_much():
                self._plain = None
                return
        self._hand_over(waiting)
        self._offsets = {offset for offset, _, _ in self._rows} | {offset for offset, _ in self._left.events}

    def _hand_over(self, waiting: list[_Rows]) -> list[_Rows]:
        for rows, moments in waiting:
            self.scan.add_plain(rows, moments)
        return []

    def _leaves_too_much(self) -> bool:
        left = len(self._rows) + len(self._left.events)
        return left > _MANY_LEFT and left > self._taken

    def _take(self, plain: PlainBinlog, changes: Changes) -> list[_Rows]:
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

    def leaves(self) -> bool:
        """See `LeftRows`."""
        return self._plain is None or bool(self._offsets)

    def has_left(self, offset: int) -> bool:
        """See `LeftRows`."""
        return self._plain is None or offset in self._offsets

    def is_left(self, change: Change) -> bool:
        """See `LeftRows`.

        Raises:
            UnfitEventError: the change stands for all rows of its event, and kernels may have read some of them.
        """
        if self._plain is None:
            return True
        place = change.place
        first = self._left.events.get((place.offset, place.inner))
        if isinstance(change, BadRows):
            if first or (place.offset, place.inner) in {(offset, inner) for offset, inner, _ in self._rows}:
                raise UnfitEventError(self.scan.file.table)
            return True
        return (place.offset, place.inner, place.row) in self._rows or (first is not None and place.row >= first)
