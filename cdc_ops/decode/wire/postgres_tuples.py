"""Rows of Postgres' `COPY ... TO STDOUT (FORMAT binary)`: a number of fields, and each field's length and bytes, big-endian.

One kernel finds the fields of rows, the other makes values of them, column by column, by the types in which they travel to Spark.
What it does not take it marks.
"""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Final

import numpy as np
from numba import types

from cdc_ops.decode.cells import Cells
from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.plain.numbers import times_ten
from cdc_ops.decode.plain.texts import is_utf8
from cdc_ops.decode.program import ProgramArrays
from cdc_ops.decode.text_columns import CELLS, PROGRAM

MORE: Final = 0
"""The next row is not whole yet."""
FULL: Final = 1
"""There is no room for another row."""
END: Final = 2
"""The mark behind the last row."""
BROKEN: Final = 3
"""What comes next is no row of these columns."""

AS_IS: Final = 0
"""The bytes are those of the type in which the column travels."""
DAYS: Final = 1
"""Days since 2000 become days since 1970; neither infinity is one."""
MICROS: Final = 2
"""Microseconds since 2000 become those since 1970; neither infinity is such a number, nor what 64 bits cannot count from 1970."""

# numba makes constants of plain numbers; members of an enumeration cost a look-up while it compiles.
_NULL, _VALUE, _FIELD, _MARKED = 0, 1, 3, 4
_DECIMAL, _STRING, _BINARY = 2, 8, 9
_AS_DAYS, _AS_MICROS = 1, 2
_NO_DAY, _NO_MICROS = -2147483647, -9223372036854775807  # what travels for a date or a time that is none (`postgres_types`)
_DAYS_TO_2000 = 10957
_MICROS_TO_2000 = 946684800000000
_LEAST_DAY, _LARGEST_DAY = -(2**31), 2**31 - 1
_LATEST = 9222424560000000000  # 294247-01-01 in microseconds since 2000
_LEAST = -(2**63)
_POSITIVE, _NEGATIVE = 0, 0x4000


@helper
def _number(data: Bytes, at: int, width: int) -> int:
    """Reads a signed number of 1, 2, 4 or 8 bytes."""
    total = np.int64(data[at])
    if total > 127:
        total -= 256
    for place in range(1, width):
        total = (total << 8) | np.int64(data[at + place])
    return total


@helper
def _unsigned(data: Bytes, at: int) -> int:
    """Reads a number of 2 bytes without a sign."""
    return (np.int64(data[at]) << 8) | np.int64(data[at + 1])


@helper
def _find_fields(cells: Cells, row: int, data: Bytes, start: int, end: int) -> int:
    """Puts the fields of one row into its cells; returns where the row ends, -1 if the bytes end before, -2 if it is none."""
    at = start
    for column in range(cells.state.shape[0]):
        if end - at < 4:
            return -1
        size = _number(data, at, 4)
        at += 4
        if size < -1:
            return -2
        if size > end - at:
            return -1
        cells.state[column, row] = _NULL if size == -1 else _FIELD
        cells.low[column, row] = at
        at += max(size, 0)
        cells.high[column, row] = at
    return at


@kernel(types.int64(CELLS, BYTES, INT64S), makes_arrays=False)
def scan_tuples(cells: Cells, data: Bytes, place: Int64s) -> int:
    """Finds the fields of whole rows.

    Args:
        cells: Are filled from `place[2]` on.
        data: The buffer.
        place: Where the next row begins, where the buffer's bytes end, the rows found so far; moved on.

    Returns:
        Why it stopped: MORE, FULL, END or BROKEN.
    """
    end = place[1]
    while end - place[0] >= 2:
        fields = _number(data, place[0], 2)
        if fields == -1:
            return 2
        if fields != cells.state.shape[0]:
            return 3
        if place[2] == cells.state.shape[1]:
            return 1
        at = _find_fields(cells, place[2], data, place[0] + 2, end)
        if at == -1:
            return 0
        if at == -2:
            return 3
        place[0] = at
        place[2] += 1
    return 0


@helper
def _fixed(cells: Cells, column: int, data: Bytes, rows: int, width: int, form: int) -> None:
    """Makes values of numbers of one width."""
    for row in range(rows):
        if cells.state[column, row] != _FIELD:
            continue
        at = cells.low[column, row]
        if cells.high[column, row] - at != width:
            cells.state[column, row] = _MARKED
            continue
        value = _number(data, at, width)
        if form == _AS_DAYS:
            value = _NO_DAY if value in (_LEAST_DAY, _LARGEST_DAY) else value + _DAYS_TO_2000
        elif form == _AS_MICROS:
            value = _NO_MICROS if value == _LEAST or value >= _LATEST else value + _MICROS_TO_2000
        cells.low[column, row] = value
        cells.state[column, row] = _VALUE


@helper
def _texts(cells: Cells, column: int, data: Bytes, rows: int) -> None:
    """Takes texts that are UTF-8."""
    for row in range(rows):
        if cells.state[column, row] == _FIELD:
            plain = is_utf8(data, cells.low[column, row], cells.high[column, row])
            cells.state[column, row] = _VALUE if plain else _MARKED


@helper
def _bytes(cells: Cells, column: int, rows: int) -> None:
    for row in range(rows):
        if cells.state[column, row] == _FIELD:
            cells.state[column, row] = _VALUE


@helper
def _digits(number: int) -> int:
    """Returns how many decimal digits a number below 10,000 has; 0 has none."""
    return 0 if number == 0 else 1 if number < 10 else 2 if number < 100 else 3 if number < 1000 else 4


@helper
def _unscaled(data: Bytes, start: int, groups: int, zeros: int) -> tuple[np.uint64, np.uint64, bool]:
    """Reads groups of four digits.

    Args:
        data: The buffer.
        start: Of the first group.
        groups: How many.
        zeros: How many zeros follow them; negative for digits of the last group that are not to be there, unless they are zeros.
    """
    low, high = np.uint64(0), np.uint64(0)
    plain = True
    for group in range(groups):
        number = _unsigned(data, start + 2 * group)
        plain &= number < 10_000
        wanted = 4 + zeros if group == groups - 1 and zeros < 0 else 4
        power = np.int64(1000)
        for place in range(4):
            digit = number // power % 10
            if place < wanted:
                low, high = times_ten(low, high, np.uint64(digit))
            else:
                plain &= digit == 0
            power //= 10
    for _ in range(zeros):
        low, high = times_ten(low, high, np.uint64(0))
    return low, high, plain


@helper
def _numeric(data: Bytes, start: int, end: int, precision: int, scale: int) -> tuple[int, int, bool]:
    """Reads a numeric: groups of four digits, of which the first counts 10,000 to the power of `weight`.

    Returns:
        The low and the high 64 bits of its unscaled value, two's complement; and whether it is one that the target holds as it stands.
    """
    if end - start < 8:
        return 0, 0, False
    groups, weight, sign = _unsigned(data, start), _number(data, start + 2, 2), _unsigned(data, start + 4)
    if end - start != 8 + 2 * groups or sign not in (_POSITIVE, _NEGATIVE):
        return 0, 0, False
    if groups == 0:
        return 0, 0, True
    zeros = scale + 4 * (weight - groups + 1)
    first = _unsigned(data, start + 8)
    if first == 0 or zeros <= -4 or _digits(first) + 4 * (groups - 1) + zeros > precision:
        return 0, 0, False
    low, high, plain = _unscaled(data, start + 8, groups, zeros)
    if sign == _NEGATIVE:
        low = ~low + np.uint64(1)
        high = ~high + (np.uint64(1) if low == np.uint64(0) else np.uint64(0))
    return np.int64(low), np.int64(high), plain


@helper
def _decimals(cells: Cells, column: int, data: Bytes, rows: int, precision: int, scale: int) -> None:
    """Makes values of numerics."""
    for row in range(rows):
        if cells.state[column, row] != _FIELD:
            continue
        low, high, taken = _numeric(data, cells.low[column, row], cells.high[column, row], precision, scale)
        if taken:
            cells.low[column, row], cells.high[column, row] = low, high
        cells.state[column, row] = _VALUE if taken else _MARKED


@kernel(types.void(PROGRAM, INT64S, CELLS, BYTES, types.int64), makes_arrays=False)
def decode_fields(program: ProgramArrays, forms: Int64s, cells: Cells, data: Bytes, rows: int) -> None:
    """Makes values of fields: VALUE where they are plain, else MARKED with the field's place unchanged.

    Args:
        program: What the columns are as they travel.
        forms: AS_IS, DAYS or MICROS, per column.
        cells: Changed in place.
        data: The buffer that the cells point into.
        rows: How many rows of the cells are filled.
    """
    for column in range(program.kind.size):
        kind = program.kind[column]
        if kind == _STRING:
            _texts(cells, column, data, rows)
        elif kind == _BINARY:
            _bytes(cells, column, rows)
        elif kind == _DECIMAL:
            _decimals(cells, column, data, rows, np.int64(program.precision[column]), np.int64(program.scale[column]))
        else:
            _fixed(cells, column, data, rows, np.int64(program.width[column]), forms[column])
