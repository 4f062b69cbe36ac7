"""The kernels of keys: they are the same in both images and not NULL."""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from numba import types

from cdc_ops.decode.cells import Cells
from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.json.members import SPANS, Spans
from cdc_ops.decode.program import ProgramArrays
from cdc_ops.decode.text_columns import CELLS, PROGRAM

_NULL, _ASIDE = 0, 2
_STRINGS = 8


@kernel(types.void(PROGRAM, CELLS, INT64S, CELLS, BYTES, BYTES, SPANS, INT64S, types.int64), makes_arrays=False)
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


@kernel(types.void(CELLS, INT64S, CELLS, INT64S, types.int64), makes_arrays=False)
def take_keys(after: Cells, columns: Int64s, keys: Cells, wanted: Int64s, count: int) -> None:
    """Copies the key columns of an image to the cells of keys, for some rows."""
    for key in range(columns.size):
        column = columns[key]
        for index in range(count):
            row = wanted[index]
            keys.low[key, row] = after.low[column, row]
            keys.high[key, row] = after.high[column, row]
            keys.state[key, row] = after.state[column, row]


@kernel(types.void(CELLS, SPANS, types.int64), makes_arrays=False)
def refuse_null_keys(keys: Cells, spans: Spans, rows: int) -> None:
    """Sets records aside that have NULL in a column of their key."""
    for row in range(rows):
        for key in range(keys.state.shape[0]):
            if keys.state[key, row] == _NULL:
                spans.plain[row] = 0
