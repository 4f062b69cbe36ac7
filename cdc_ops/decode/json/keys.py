"""The kernels of keys: they are the same in both images and not NULL, and have a hash."""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

import numpy as np
from numba import types

from cdc_ops.decode.cells import Cells
from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.json.members import SPANS, Spans
from cdc_ops.decode.program import ProgramArrays
from cdc_ops.decode.text_columns import CELLS, PROGRAM

_NULL, _ASIDE = 0, 2
_STRINGS = 8


@kernel(types.void(PROGRAM, CELLS, INT64S, CELLS, BYTES, BYTES, SPANS, INT64S, types.int64))
def check_keys(
    keys: ProgramArrays, after: Cells, columns: Int64s, before: Cells, data: Bytes, aside: Bytes, spans: Spans, wanted: Int64s, count: int
) -> None:
    """Sets records aside whose key columns are not the same in both images, or NULL in one.

    Args:
        keys: What the key columns are.
        after: Cells of an image with all columns.
        columns: Those of them that are the key.
        before: Cells of the key columns of the other image.
        data: The input.
        aside: Texts and bytes that are not in the input.
        spans: `plain` becomes 0 for such records.
        wanted: The rows.
        count: How many they are.
    """
    for index in range(count):
        row = wanted[index]
        for key in range(columns.size):
            column = columns[key]
            state, other = after.state[column, row], before.state[key, row]
            if state == _NULL or state != other:
                spans.plain[row] = 0
            elif after.low[column, row] != before.low[key, row] or after.high[column, row] != before.high[key, row]:
                # Texts and bytes may be the same in different places; numbers are not.
                if keys.kind[key] < _STRINGS or not _same_bytes(after, column, before, key, row, aside if state == _ASIDE else data):
                    spans.plain[row] = 0


@helper
def _same_bytes(after: Cells, column: int, before: Cells, key: int, row: int, data: Bytes) -> bool:
    start, other = after.low[column, row], before.low[key, row]
    size = after.high[column, row] - start
    if size != before.high[key, row] - other:
        return False
    for place in range(size):
        if data[start + place] != data[other + place]:
            return False
    return True


@kernel(types.void(CELLS, INT64S, CELLS, INT64S, types.int64))
def take_keys(after: Cells, columns: Int64s, keys: Cells, wanted: Int64s, count: int) -> None:
    """Copies the key columns of an image to the cells of keys, for some rows."""
    for key in range(columns.size):
        column = columns[key]
        for index in range(count):
            row = wanted[index]
            keys.low[key, row] = after.low[column, row]
            keys.high[key, row] = after.high[column, row]
            keys.state[key, row] = after.state[column, row]


@kernel(types.void(CELLS, SPANS, types.int64))
def refuse_null_keys(keys: Cells, spans: Spans, rows: int) -> None:
    """Sets records aside that have NULL in a column of their key."""
    for row in range(rows):
        for key in range(keys.state.shape[0]):
            if keys.state[key, row] == _NULL:
                spans.plain[row] = 0


@kernel(types.void(PROGRAM, CELLS, BYTES, BYTES, types.int64, INT64S))
def hash_keys(keys: ProgramArrays, cells: Cells, data: Bytes, aside: Bytes, rows: int, out: Int64s) -> None:
    """Fills in a hash of each row's key: equal keys have equal ones, whichever buffer their bytes are in."""
    for row in range(rows):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for key in range(keys.kind.size):
            low, high = cells.low[key, row], cells.high[key, row]
            if keys.kind[key] < _STRINGS:
                mixed = _mixed(mixed ^ np.uint64(low))
                mixed = _mixed(mixed ^ np.uint64(high))
            else:
                source = aside if cells.state[key, row] == _ASIDE else data
                for place in range(low, high):
                    mixed = (mixed ^ np.uint64(source[place])) * np.uint64(0x100000001B3)
                mixed = _mixed(mixed ^ np.uint64(high - low))
        out[row] = np.int64(mixed)


@helper
def _mixed(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
