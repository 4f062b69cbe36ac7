"""The kernel that finds the lines of a buffer."""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from numba import types

from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.sixteen import SIXTEEN, before_line_feed


@kernel(types.int64(BYTES, types.int64, types.int64, INT64S, INT64S), makes_arrays=False)
def find_lines(data: Bytes, start: int, end: int, starts: Int64s, ends: Int64s) -> int:
    """Finds lines that end with LF, until their places are full; returns how many.

    Args:
        data: The input.
        start: Where the first line begins.
        end: Where the input ends; what stands behind the last LF is no line yet.
        starts: Becomes where each line begins.
        ends: Becomes where its LF is.
    """
    found = 0
    begin = start
    place = start
    while place < end and found < starts.size:
        if place + SIXTEEN <= data.size:
            before = before_line_feed(data, place)
            if before == SIXTEEN:  # a constant, so that the next sixteen need not wait for the number
                place += SIXTEEN
                continue
            place += before
        elif data[place] != 10:
            place += 1
            continue
        if place < end:
            starts[found] = begin
            ends[found] = place
            found += 1
            place += 1
            begin = place
    return found


@kernel(types.int64(BYTES, INT64S, INT64S, types.int64, types.uint8[::1]), makes_arrays=False)
def find_blank(data: Bytes, starts: Int64s, ends: Int64s, count: int, blank: Bytes) -> int:
    """Notes which lines are empty: at most 8 blanks, tabs and CR. Returns the number behind the last line that is not."""
    last = 0
    for line in range(count):
        blank[line] = 1 if _is_blank(data, starts[line], ends[line]) else 0
        if blank[line] == 0:
            last = line + 1
    return last


@helper
def _is_blank(data: Bytes, start: int, end: int) -> bool:
    if end - start > 8:
        return False
    for place in range(start, end):
        if data[place] != 32 and data[place] != 9 and data[place] != 13:
            return False
    return True
