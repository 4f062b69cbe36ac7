"""The changes of one table in a range of a binlog, as record batches: kernels decode, and the reference decoder takes what they mark.

BinlogFile + bytes + target --changes_of--> Changes: rows, what each row is, the images before updates
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_ops.core.binlog import refusals
from cdc_ops.core.binlog.byte_reader import MalformedBytesError
from cdc_ops.core.binlog.events import HEADER_SIZE, read_header
from cdc_ops.core.binlog.file_scan import FileScan
from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.decode.batch import Batch
from cdc_ops.decode.binlog.events import RowEvents
from cdc_ops.decode.binlog.layout import CURSOR_PLACES, Cursor, Layout, Output
from cdc_ops.decode.binlog.rows import decode_rows, find_short
from cdc_ops.decode.cells import ABSENT, NULL
from cdc_ops.decode.compiler import Bytes, Int64s
from cdc_ops.decode.program import Program
from cdc_ops.errors import UnstorableValueError
from cdc_ops.events.binlog.rows import Image, RowImages, TableReader, read_rows
from cdc_ops.events.fast_binlog.change_batches import KIND_OF, Changes, LeftEvents, Target, unfit
from cdc_ops.events.fast_binlog.columns import TableColumns, layout_of
from cdc_ops.events.fast_binlog.exact_values import UnfitValueError, stored
from cdc_ops.events.fast_binlog.known_tables import Descriptions
from cdc_ops.events.fast_binlog.row_events import Listed, RowEventWalk

ROWS: Final = 20_000
"""Rows of a batch at most."""


class TableChanges:
    """Decodes the changes of one table of one file.

    Args:
        file: Its name, for messages.
        data: All of its bytes, unpacked.
        scan: What it holds.
        target: What is read.
        rows: Rows of a batch at most.
        left: Takes what is left to another reader; None = the reference decoder makes all that is marked.
    """

    def __init__(self, file: str, data: Bytes, scan: FileScan, target: Target, rows: int = ROWS, left: LeftEvents | None = None) -> None:
        self._file = file
        self._data = data
        self._scan = scan
        self._target = target
        self._tables = Descriptions(target.database, target.table, scan.description)
        self._fields = target.program.fields
        both = Program.of((*self._fields, *self._fields)) if target.images else target.program
        self._batch = Batch(both, rows)
        self._out = Output(self._batch.cells, np.zeros(rows, np.int64), np.zeros(rows, np.int64))
        self._layout: Layout | None = None
        self._labels = b""
        self._columns: list[TableColumns] = []
        self._dropped = np.array(scan.dropped, np.int64).reshape(-1, 2)
        self._left = left
        self._settled = frozenset(range(len(both.fields)))
        if left is not None:
            self._settled = frozenset(place for place, one in enumerate(both.fields) if one.name in left.settled)

    def read(self, start: int, end: int) -> Iterator[Changes]:
        """Yields the changes of a range that begins and ends between transactions.

        Raises:
            BinlogError: bytes do not fit the format, or rows not their table.
            UnstorableValueError: a column does not hold a value.
        """
        walk = RowEventWalk(self._file, self._data, self._scan, self._tables)
        for listed in walk.listed(start, end):
            yield from self._decoded(listed)

    def _decoded(self, listed: Listed) -> Iterator[Changes]:
        self._lay_out()
        chosen = np.flatnonzero(~self._is_dropped(listed.events.position[: listed.count]))
        if listed.exact:
            for event in chosen.tolist():
                yield from self._exact(listed, event)
            return
        assert self._layout is not None
        if self._left is not None:
            chosen = self._without_left(listed, chosen, self._layout, self._left)
        cursor = np.zeros(CURSOR_PLACES, np.int64)
        cursor[Cursor.IMAGES] = len(self._fields) if self._target.images else 0
        while cursor[Cursor.EVENT] < chosen.size:
            self._clear()
            odd = decode_rows(listed.data, listed.events, chosen, self._layout, self._out, cursor) == 2
            if cursor[Cursor.FILLED]:
                yield self._handed_over(listed, int(cursor[Cursor.FILLED]))
                cursor[Cursor.FILLED] = 0
            if odd:
                yield from self._exact(listed, int(chosen[cursor[Cursor.EVENT]]), int(cursor[Cursor.ROW]))
                cursor[Cursor.EVENT] += 1
                cursor[Cursor.AT] = cursor[Cursor.ROW] = 0

    def _without_left(self, listed: Listed, chosen: Int64s, layout: Layout, left: LeftEvents) -> Int64s:
        """Leaves events whose images lack columns, or whose tables have columns that are not asked for."""
        short = np.zeros(chosen.size, np.uint8)
        find_short(listed.data, listed.events, chosen, layout, short)
        asked = {field.name for field in self._fields}
        unasked = [slot for slot, one in enumerate(self._columns) if not {column.name for column in one.columns} <= asked]
        is_left = (short != 0) | np.isin(listed.events.slot[chosen], unasked)
        for event in chosen[is_left].tolist():
            left.events[_number(listed, event)] = 0
        return np.ascontiguousarray(chosen[~is_left])

    def _is_dropped(self, offsets: Int64s) -> np.ndarray:
        dropped = np.zeros(offsets.size, np.bool_)
        for first, behind in self._dropped:
            dropped |= (offsets >= first) & (offsets < behind)
        return dropped

    def _lay_out(self) -> None:
        """Tells the kernels of descriptions that are new."""
        readers = self._tables.readers
        if self._layout is not None and len(self._columns) == len(readers):
            return
        names = {field.name: place for place, field in enumerate(self._target.program.fields)}
        for reader in readers[len(self._columns) :]:
            columns = () if reader is None else reader.table.columns
            self._columns.append(TableColumns(columns, tuple(names.get(column.name, -1) for column in columns)))
        self._layout, self._labels = layout_of(self._columns, self._target.program.fields)

    def _clear(self) -> None:
        self._batch.clear()
        self._batch.put_aside(self._labels)

    def _handed_over(self, listed: Listed, rows: int) -> Changes:
        """Settles what is marked, and makes record batches."""
        self._note_missing(listed.events.slot[self._out.event[:rows]])
        left = self._settle(listed, rows)
        return self._changes(listed, rows, left if left.any() else None)

    def _changes(self, listed: Listed, rows: int, left: npt.NDArray[np.bool_] | None = None) -> Changes:
        events, of_event, count = listed.events, self._out.event[:rows], len(self._fields)
        made = self._batch.record_batch(listed.data, rows)
        absent = self._batch.cells.state[:count, :rows] == ABSENT
        return Changes(
            rows=_part(made, self._target.program, 0),
            before=_part(made, self._target.program, count) if self._target.images else None,
            absent=absent if absent.any() else None,
            kind=events.kind[of_event],
            offset=events.position[of_event],
            inner=events.inner[of_event],
            row=self._out.row[:rows].copy(),
            time=events.time[of_event],
            transaction=events.gtid[of_event],
            left=left,
        )

    def _note_missing(self, slots: Int64s) -> None:
        """A description of the table that lacks a column says nothing of it."""
        for slot, columns in enumerate(self._columns):
            if columns.columns and (missing := set(range(len(self._fields))) - set(columns.targets)):
                of_slot = np.flatnonzero(slots == slot)
                for field in missing:
                    self._batch.cells.state[field, of_slot] = ABSENT

    def _settle(self, listed: Listed, rows: int) -> npt.NDArray[np.bool_]:
        """Puts the values of the reference decoder where the kernels marked their bytes; returns the rows with a value that is left."""
        left = np.zeros(rows, np.bool_)
        for row, column in self._batch.marked(rows):
            if column not in self._settled or not self._is_settled(listed, row, column):
                left[row] = True
                self._batch.cells.state[column, row] = NULL
        return left

    def _is_settled(self, listed: Listed, row: int, column: int) -> bool:
        """Puts the value of the reference decoder into a marked cell; False if its column does not hold it, and the row is left."""
        event = int(self._out.event[row])
        slot = int(listed.events.slot[event])
        source = self._columns[slot].targets.index(column % len(self._fields))
        try:
            value, _ = self._reader(slot).readers[source](self._batch.bytes_of(row, column, listed.data), 0)
            if self._left is not None and not isinstance(value, str | int):
                return False  # of values that have several spellings, records have one of their own
            self._put((row, column), value, self._columns[slot].columns[source].scale)
        except UnfitValueError as error:
            if self._left is not None:
                return False
            raise self._unfit(int(listed.events.position[event]), column, str(error)) from None
        except (IndexError, ValueError) as error:
            if self._left is not None:
                return False
            raise refusals.damaged(self._file, int(listed.events.position[event]), f"a row cannot be read: {error}") from None
        return True

    def _put(self, cell: tuple[int, int], value: Any, digits: int) -> None:
        try:
            self._batch.put(*cell, stored(value, self._batch.program.fields[cell[1]], digits))
        except OverflowError as error:
            raise UnfitValueError(str(error)) from None

    def _reader(self, slot: int) -> TableReader:
        reader = self._tables.readers[slot]
        assert reader is not None
        return reader

    def _exact(self, listed: Listed, event: int, skipped: int = 0) -> Iterator[Changes]:
        """Decodes an event as the reference decoder does.

        Args:
            listed: The list.
            event: Its number in it.
            skipped: How many of its rows were handed over before.
        """
        if self._left is not None:
            self._left.events[_number(listed, event)] = skipped
            return
        at, end = int(listed.events.at[event]), int(listed.events.end[event])
        raw = listed.data[at:end].tobytes()
        reader = self._reader(int(listed.events.slot[event]))
        try:
            images = list(read_rows(read_header(raw).type, raw[HEADER_SIZE:], reader, self._scan.description))
        except MalformedBytesError as error:
            raise refusals.damaged(self._file, int(listed.events.position[event]), str(error)) from None
        for first in range(skipped, len(images), self._batch.cells.rows):
            part = images[first : first + self._batch.cells.rows]
            self._put_images(listed.events, event, part, first)
            yield self._changes(listed, len(part))

    def _put_images(self, events: RowEvents, event: int, images: list[RowImages], first: int) -> None:
        self._clear()
        for row, image in enumerate(images):
            self._out.event[row], self._out.row[row] = event, first + row
            events.kind[event] = KIND_OF[image.op]
            self._put_image((row, 0), {**(image.before or {}), **(image.after or {})}, events, event)
            if self._target.images and image.op is EventOperation.UPDATE:
                self._put_image((row, len(self._fields)), image.before or {}, events, event)

    def _put_image(self, into: tuple[int, int], image: Image, events: RowEvents, event: int) -> None:
        row, shift = into
        scales = {column.name: column.scale for column in self._columns[int(events.slot[event])].columns}
        for column, field in enumerate(self._fields):
            if field.name not in image:
                self._batch.cells.state[column + shift, row] = ABSENT
                continue
            try:
                self._put((row, column + shift), image[field.name], scales[field.name])
            except UnfitValueError as error:
                raise self._unfit(int(events.position[event]), column, str(error)) from None

    def _unfit(self, offset: int, column: int, why: str) -> UnstorableValueError:
        return unfit(self._file, offset, self._target, self._batch.program.fields[column], why)


def _number(listed: Listed, event: int) -> tuple[int, int]:
    """Returns the offset of an event, and its number within a compressed transaction."""
    return int(listed.events.position[event]), int(listed.events.inner[event])


def _part(batch: pa.RecordBatch, program: Program, first: int) -> pa.RecordBatch:
    """Returns the columns of a program from a column on."""
    return pa.RecordBatch.from_arrays(batch.columns[first : first + len(program.fields)], schema=program.arrow)
