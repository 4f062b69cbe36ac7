"""The kernels of columns: texts become values, in their cells, column by column; texts and bytes are put side by side for Arrow."""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Final

import numpy as np
from numba import types

from cdc_ops.decode.cells import Cells
from cdc_ops.decode.compiler import BYTES, BYTES_OUT, INT32S, INT64S, Bytes, Int32s, Int64s, helper, kernel
from cdc_ops.decode.plain.floats import float_of_double, plain_double
from cdc_ops.decode.plain.numbers import plain_boolean, plain_decimal, plain_integer
from cdc_ops.decode.plain.texts import is_utf8
from cdc_ops.decode.plain.times import plain_date, plain_date_time, plain_instant
from cdc_ops.decode.program import ProgramArrays
from cdc_ops.decode.sixteen import SIXTEEN, copy_sixteen

CELLS: Final = types.NamedTuple((types.int64[:, ::1], types.int64[:, ::1], types.uint8[:, ::1]), Cells)
"""numba's type of `Cells`."""
PROGRAM: Final = types.NamedUniTuple(types.uint8[::1], 5, ProgramArrays)
"""numba's type of `ProgramArrays`."""

# numba makes constants of plain numbers; members of an enumeration cost a look-up while it compiles.
_NULL, _VALUE, _ASIDE, _TEXT, _MARKED = 0, 1, 2, 3, 4
_BOOLEAN, _INTEGER, _DECIMAL, _FLOAT, _DOUBLE, _DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _STRING = range(9)


@kernel(types.int64(PROGRAM, CELLS, BYTES, types.int64, types.int64), makes_arrays=False)
def decode_texts(program: ProgramArrays, cells: Cells, data: Bytes, rows: int, separator: int) -> int:
    """Makes values of all cells in the state TEXT: VALUE where the text is plain, else MARKED with the text's place unchanged.

    A NULL in a column that has none becomes MARKED, too.

    Args:
        program: What the columns are.
        cells: Changed in place.
        data: The input that the cells point into.
        rows: How many rows of the cells are filled.
        separator: The sign between date and time, e.g. 32 for a blank.

    Returns:
        How many cells are marked.
    """
    marked = 0
    for column in range(program.kind.size):
        kind = program.kind[column]
        if kind == _INTEGER:
            _integers(cells, column, data, rows, np.int64(program.width[column]))
        elif kind == _DECIMAL:
            _decimals(cells, column, data, rows, np.int64(program.precision[column]), np.int64(program.scale[column]))
        elif kind in (_FLOAT, _DOUBLE):
            _floats(cells, column, data, rows, kind == _FLOAT)
        elif kind in (_DATE, _TIMESTAMP, _TIMESTAMP_NTZ):
            _times(cells, column, data, rows, kind, separator)
        else:
            _texts(cells, column, data, rows, kind)
        marked += _count_marked(cells, column, rows, program.nullable[column] == 1)
    return marked


@helper
def _count_marked(cells: Cells, column: int, rows: int, nullable: bool) -> int:
    marked = 0
    for row in range(rows):
        if not nullable and cells.state[column, row] == _NULL:
            cells.state[column, row] = _MARKED
            cells.low[column, row] = cells.high[column, row] = 0
        marked += cells.state[column, row] == _MARKED
    return marked


@helper
def _integers(cells: Cells, column: int, data: Bytes, rows: int, width: int) -> None:
    for row in range(rows):
        if cells.state[column, row] == _TEXT:
            value, taken = plain_integer(data, cells.low[column, row], cells.high[column, row], width)
            if taken:
                cells.low[column, row] = value
            cells.state[column, row] = _VALUE if taken else _MARKED


@helper
def _decimals(cells: Cells, column: int, data: Bytes, rows: int, precision: int, scale: int) -> None:
    for row in range(rows):
        if cells.state[column, row] == _TEXT:
            low, high, taken = plain_decimal(data, cells.low[column, row], cells.high[column, row], precision, scale)
            if taken:
                cells.low[column, row] = low
                cells.high[column, row] = high
            cells.state[column, row] = _VALUE if taken else _MARKED


@helper
def _floats(cells: Cells, column: int, data: Bytes, rows: int, single: bool) -> None:
    for row in range(rows):
        if cells.state[column, row] == _TEXT:
            bits, taken = plain_double(data, cells.low[column, row], cells.high[column, row])
            if taken and single:
                bits, taken = float_of_double(bits)
            if taken:
                cells.low[column, row] = np.int64(bits)
            cells.state[column, row] = _VALUE if taken else _MARKED


@helper
def _times(cells: Cells, column: int, data: Bytes, rows: int, kind: int, separator: int) -> None:
    for row in range(rows):
        if cells.state[column, row] == _TEXT:
            start, end = cells.low[column, row], cells.high[column, row]
            if kind == _DATE:
                value, taken = plain_date(data, start, end)
            elif kind == _TIMESTAMP:
                value, taken = plain_instant(data, start, end, separator)
            else:
                value, taken = plain_date_time(data, start, end, separator)
            if taken:
                cells.low[column, row] = value
            cells.state[column, row] = _VALUE if taken else _MARKED


@helper
def _texts(cells: Cells, column: int, data: Bytes, rows: int, kind: int) -> None:
    for row in range(rows):
        if cells.state[column, row] == _TEXT:
            start, end = cells.low[column, row], cells.high[column, row]
            taken = True
            if kind == _STRING:
                taken = is_utf8(data, start, end)
            elif kind == _BOOLEAN:
                value, taken = plain_boolean(data, start, end)
                if taken:
                    cells.low[column, row] = value
            cells.state[column, row] = _VALUE if taken else _MARKED


@kernel(types.int64(CELLS, types.int64, types.int64, INT32S), makes_arrays=False)
def lay_out(cells: Cells, column: int, rows: int, offsets: Int32s) -> int:
    """Fills Arrow's offsets of a column of texts or bytes; returns how many bytes they have, -1 if an offset of 32 bits is too small."""
    total = 0
    offsets[0] = 0
    for row in range(rows):
        if cells.state[column, row] in (_VALUE, _ASIDE):
            total += cells.high[column, row] - cells.low[column, row]
            if total > 0x7FFFFFFF:
                return -1
        offsets[row + 1] = total
    return total


@helper
def _copy(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    """Copies bytes, and up to fifteen more where both arrays have them; returns where the next ones go."""
    behind = at + end - start
    while at < behind and start + SIXTEEN <= data.size and at + SIXTEEN <= out.size:
        copy_sixteen(out, at, data, start)
        at += SIXTEEN
        start += SIXTEEN
    for place in range(behind - at):
        out[at + place] = data[start + place]
    return behind


@kernel(types.void(CELLS, types.int64, types.int64, BYTES, BYTES, BYTES_OUT), makes_arrays=False)
def gather(cells: Cells, column: int, rows: int, data: Bytes, aside: Bytes, out: Bytes) -> None:
    """Copies the texts or bytes of a column to `out`, one behind the other; `aside` is the batch's own buffer."""
    at = 0
    for row in range(rows):
        state = cells.state[column, row]
        if state == _VALUE:
            at = _copy(data, cells.low[column, row], cells.high[column, row], out, at)
        elif state == _ASIDE:
            at = _copy(aside, cells.low[column, row], cells.high[column, row], out, at)


@kernel(types.int64(CELLS, types.int64, INT64S, INT64S), makes_arrays=False)
def find_marked(cells: Cells, rows: int, out_rows: Int64s, out_columns: Int64s) -> int:
    """Lists the marked cells, row by row; returns how many there are, of which the outputs hold the first ones."""
    found = 0
    for row in range(rows):
        for column in range(cells.state.shape[0]):
            if cells.state[column, row] == _MARKED:
                if found < out_rows.size:
                    out_rows[found] = row
                    out_columns[found] = column
                found += 1
    return found
