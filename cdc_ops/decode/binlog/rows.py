"""Rows of binlog events become cells: the loop over rows and columns, which a program of the source's columns steers.

    RowEvents + bytes --decode_rows--> cells of the rows, cells of the images before them, and what each row is

A value that is not plain is marked with its bytes, length and all. An event that does not fit its table as a whole is Python's.
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Final

import numpy as np
from numba import types

from cdc_ops.decode.binlog.bytes_of_events import u16, u32, unsigned
from cdc_ops.decode.binlog.events import ROW_EVENTS, UPDATE, RowEvents
from cdc_ops.decode.binlog.layout import LAYOUT, OUTPUT, Cursor, Layout, Output, Table
from cdc_ops.decode.binlog.values import date, date_time, decimal, fits, instant, natural, signed
from cdc_ops.decode.cells import Cells
from cdc_ops.decode.compiler import BYTES, BYTES_OUT, INT64S, Bytes, Int64s, helper, inlined, kernel
from cdc_ops.decode.plain.texts import is_ascii, is_utf8

# numba makes constants of plain numbers; members of an enumeration cost a look-up while it compiles.
_NULL, _VALUE, _ASIDE, _MARKED, _ABSENT = 0, 1, 2, 4, 5
_, _SIGNED, _UNSIGNED, _WIDE_SIGNED, _WIDE_UNSIGNED, _FLOAT, _DOUBLE, _DECIMAL, _DATE, _DATETIME = range(10)
_TIMESTAMP, _OLD_TIMESTAMP, _YEAR, _UTF8, _SHORT_UTF8, _ASCII, _BYTES, _PADDED, _LABEL, _FLAGS = range(10, 20)
_EVENT, _AT, _ROW, _FILLED, _IMAGES = range(len(Cursor))
_UPDATE: Final = int(UPDATE)
_DONE, _FULL, _ODD = 0, 1, 2
_FIRST_YEAR: Final = 1900
_FOUR_BYTES: Final = 0xF0


@helper
def _value(data: Bytes, at: int, column: tuple[int, int, int, int]) -> tuple[int, int, bool]:
    """Returns the words of a value of fixed size, and whether it is plain."""
    size, how, a, b = column
    if how == _SIGNED:
        value = signed(data, at, size)
        return value, 0, fits(value, a)
    if how == _UNSIGNED:
        value = natural(data, at, size)
        return value, 0, value >= 0 and fits(value, a)
    if how == _DECIMAL:
        return decimal(data, at, a, b)
    if how == _DATETIME:
        value, plain = date_time(data, at, a)
        return value, 0, plain
    return _rarer_value(data, at, how, size, a)


@helper
def _rarer_value(data: Bytes, at: int, how: int, size: int, a: int) -> tuple[int, int, bool]:
    value, more, plain = np.int64(0), np.int64(0), True
    if how in (_DOUBLE, _WIDE_UNSIGNED):
        value = natural(data, at, size)
    elif how == _FLOAT:
        value = signed(data, at, 4)
    elif how == _WIDE_SIGNED:
        value = signed(data, at, size)
        more = value >> 63
    elif how == _DATE:
        value, plain = date(data, at)
    elif how == _TIMESTAMP:
        value, plain = instant(data, at, a)
    elif how == _OLD_TIMESTAMP:
        value = u32(data, at) * 1_000_000
        plain = value > 0
    elif how == _YEAR:
        value = np.int64(data[at]) + _FIRST_YEAR
        plain = value > _FIRST_YEAR
    else:
        plain = False
    return value, more, plain


@helper
def _is_plain_text(data: Bytes, start: int, end: int, how: int, a: int) -> bool:
    """True if texts or bytes are those of the value as they stand."""
    if how == _UTF8:
        return is_utf8(data, start, end)
    if how == _ASCII:
        return is_ascii(data, start, end)
    if how == _SHORT_UTF8:
        if is_ascii(data, start, end):
            return True
        highest = np.uint8(0)
        for place in range(start, end):
            highest = max(highest, data[place])
        return highest < _FOUR_BYTES and is_utf8(data, start, end)
    return how == _BYTES or (how == _PADDED and end - start == a)


@helper
def _label(data: Bytes, at: int, column: tuple[int, int, int, int]) -> int:
    """Returns which label a value is, from 0; -1 = it is none, or not plain."""
    size, how, count, _ = column
    if how == _LABEL:
        number = unsigned(data, at, size)
        return number - 1 if number <= count else -1
    found = -1
    for place in range(8 * size):
        if _bit(data, at, place):
            if found >= 0:
                return -1
            found = place
    return found if found < count else -1


@helper
def _cell(data: Bytes, span: tuple[int, int], column: tuple[int, int, int, int], labels: Table) -> tuple[int, int, int]:
    """Returns the words and the state of the value whose bytes, length and all, stand in a span."""
    (at, end), (size, how, a, b) = span, column
    if size < 0:
        if _is_plain_text(data, at - size, end, how, a):
            return at - size, end, _VALUE
    elif how >= _LABEL:
        label = _label(data, at, column)
        if label >= 0:
            return labels[b + label, 0], labels[b + label, 1], _ASIDE
    else:
        low, high, plain = _value(data, at, column)
        if plain:
            return low, high, _VALUE
    return at, end, _MARKED


@helper
def _length(data: Bytes, at: int, end: int, size: int) -> int:
    """Returns how many bytes a value has with its length; if they do not end within, more than there are."""
    if size >= 0:
        return size
    if end - at < -size:
        return end - at + 1
    return unsigned(data, at, -size) - size


@helper
def _bit(data: Bytes, at: int, place: int) -> bool:
    return data[at + (place >> 3)] >> np.uint8(place & 7) & np.uint8(1) != 0


@inlined
def _image(
    data: Bytes, span: tuple[int, int], sides: tuple[int, int, int, int], layout: Layout, cells: Cells, into: tuple[int, int]
) -> int:
    """Reads one image of a row; returns where it ends, -1 if it does not fit.

    Args:
        data: The bytes.
        span: Where the image begins, and where its event ends.
        sides: Where the bits of the columns that are there begin, the first column of the table, their count, and how many are there.
        layout: The columns.
        cells: What is filled.
        into: The row, -1 = none, and what is added to the columns of the cells.
    """
    (nulls, end), (present, first, count, there), (row, shift) = span, sides, into
    at = nulls + ((there + 7) >> 3)
    if at > end:
        return -1
    seen, bits, is_whole = 0, np.uint8(0), there == count
    for number in range(count):
        if not is_whole and not _bit(data, present, number):
            continue
        column = first + number
        size, target = layout.columns[column, 0], layout.columns[column, 4]
        wanted = row >= 0 and target >= 0
        bits = bits >> np.uint8(1) if seen & 7 else data[nulls + (seen >> 3)]
        is_null = bits & np.uint8(1)
        seen += 1
        if is_null:
            if wanted:
                cells.state[target + shift, row] = _NULL
            continue
        behind = at + _length(data, at, end, size)
        if behind > end:
            return -1
        if wanted:
            own = (size, layout.columns[column, 1], layout.columns[column, 2], layout.columns[column, 3])
            low, high, state = _cell(data, (at, behind), own, layout.labels)
            cells.low[target + shift, row], cells.high[target + shift, row] = low, high
            cells.state[target + shift, row] = state
        at = behind
    return at


@helper
def _count_bits(data: Bytes, at: int, bits: int) -> int:
    count = 0
    for place in range(bits):
        count += _bit(data, at, place)
    return count


@helper
def _column_count(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Reads how many columns an event speaks of; returns that, -1 if it does not fit, and where it ends."""
    if at >= end:
        return -1, at
    first = np.int64(data[at])
    if first < 0xFB:
        return first, at + 1
    if first == 0xFC and at + 3 <= end:
        return u16(data, at + 1), at + 3
    return -1, at


@helper
def _shape(data: Bytes, events: RowEvents, event: int, layout: Layout) -> tuple[int, int, int, int, int, int]:
    """Reads what stands before the rows of an event; returns where these begin, -1 = it does not fit, and the shape of its rows.

    The shape: where the bits of its columns begin, the first column of the table, their count, how many are there, and how many of them in
    the images after an update, -1 = it is no update.
    """
    slot, end, update = events.slot[event], events.end[event], events.kind[event] == _UPDATE
    first, count = layout.tables[slot, 0], layout.tables[slot, 1]
    said, present = _column_count(data, events.start[event], end)
    bitmap = (count + 7) >> 3
    begin = present + (2 * bitmap if update else bitmap)
    if said != count or begin >= end:
        return -1, present, first, count, 0, 0
    then_there = _count_bits(data, present + bitmap, count) if update else -1
    return begin, present, first, count, _count_bits(data, present, count), then_there


@inlined
def _row(
    data: Bytes, span: tuple[int, int], shape: tuple[int, int, int, int, int, int], layout: Layout, cells: Cells, into: tuple[int, int]
) -> int:
    """Reads one row, of an update both images; returns where it ends, -1 if it does not fit.

    The image before an update is read into the row, too, where the one after does not have all columns: what it lacks has not changed.
    """
    (at, end), (_, present, first, count, there, then_there), (row, images) = span, shape, into
    is_update, is_short = then_there >= 0, there < count or 0 <= then_there < count
    if is_short:
        _make_absent(layout, first, count, cells, into)
    # The steps: 0 = the only image, or that before into its own columns; 1 = that before into the row, or nowhere; 2 = that after.
    step = 0 if not is_update or images > 0 else 1
    last = 2 if is_update else 0
    while step <= last:
        shift = images if step == 0 and is_update else 0
        to = -1 if step == 1 and then_there == count else row
        bits = present + ((count + 7) >> 3) if step == 2 else present
        behind = _image(data, (at, end), (bits, first, count, then_there if step == 2 else there), layout, cells, (to, shift))
        if behind <= at:  # each image has bytes, as the reference decoder demands: rows without any could not be counted
            return -1
        if step != 0 or not is_update:
            at = behind
        step += 1
    return at


@helper
def _make_absent(layout: Layout, first: int, count: int, cells: Cells, into: tuple[int, int]) -> None:
    row, images = into
    for column in range(first, first + count):
        target = layout.columns[column, 4]
        if target >= 0:
            cells.state[target, row] = _ABSENT
            if images:
                cells.state[target + images, row] = _ABSENT


@kernel(types.void(BYTES, ROW_EVENTS, INT64S, LAYOUT, BYTES_OUT), makes_arrays=False)
def find_short(data: Bytes, events: RowEvents, chosen: Int64s, layout: Layout, short: Bytes) -> None:
    """Sets 1 for each of the chosen events whose images lack columns of their table, or which do not fit it; 0 for the others."""
    for index in range(chosen.size):
        begin, _, _, count, there, then_there = _shape(data, events, chosen[index], layout)
        short[index] = begin < 0 or there < count or 0 <= then_there < count


@kernel(types.int64(BYTES, ROW_EVENTS, INT64S, LAYOUT, OUTPUT, INT64S), makes_arrays=False)
def decode_rows(data: Bytes, events: RowEvents, chosen: Int64s, layout: Layout, out: Output, cursor: Int64s) -> int:
    """Decodes the rows of events of one target, until all are done or the cells are full.

    Args:
        data: The bytes that the events stand in.
        events: The list of events.
        chosen: Which of them, in their order.
        layout: The columns of all descriptions of tables.
        out: What is filled.
        cursor: See `Cursor`; changed in place.

    Returns:
        0 if all are done, 1 if the cells are full, 2 if the event at the cursor does not fit its table: then none of its rows is in the
        cells, except those of earlier calls.
    """
    room = out.cells.state.shape[1]
    while cursor[_EVENT] < chosen.size:
        event = chosen[cursor[_EVENT]]
        end, started, first = events.end[event], cursor[_FILLED], cursor[_ROW]
        shape = _shape(data, events, event, layout)
        if shape[0] < 0:
            return _ODD
        at = shape[0] if cursor[_AT] == 0 else cursor[_AT]
        while at < end:
            row = cursor[_FILLED]
            if row == room:
                cursor[_AT] = at
                return _FULL
            behind = _row(data, (at, end), shape, layout, out.cells, (row, cursor[_IMAGES]))
            if behind <= at:
                cursor[_FILLED], cursor[_ROW] = started, first
                return _ODD
            at = behind
            out.event[row], out.row[row] = event, cursor[_ROW]
            cursor[_FILLED] += 1
            cursor[_ROW] += 1
        cursor[_EVENT] += 1
        cursor[_AT] = cursor[_ROW] = 0
    return _DONE
