"""Rows of MySQL's and MariaDB's text protocol: packets of three bytes of length, one of number, and a text with its length per column.

The kernels only find texts; `text_columns.decode_texts` makes values of them.
"""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Final

import numpy as np
from numba import types

from cdc_ops.decode.cells import Cells
from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.text_columns import CELLS

MORE: Final = 0
"""The next packet is not whole yet."""
FULL: Final = 1
"""There is no room for another row."""
END: Final = 2
"""The next packet ends the rows."""
ERROR: Final = 3
"""The next packet is an error of the server."""
LARGE: Final = 4
"""The next row takes several packets of 16 MB."""
BROKEN: Final = 5
"""The next packet is no row of so many columns, or not the next one."""

_NULL, _TEXT = 0, 3


@helper
def _size(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Reads the length of a text; returns it and where the text begins, -1 for a NULL, -2 for what is no length."""
    first = np.int64(data[at])
    if first < 251:
        return first, at + 1
    if first == 251:
        return -1, at + 1
    width = 2 if first == 252 else 3 if first == 253 else 8
    if first == 255 or at + 1 + width > stop:
        return -2, at
    size = np.int64(0)
    for place in range(width):
        size |= np.int64(data[at + 1 + place]) << np.int64(8 * place)
    return size if size >= 0 else -2, at + 1 + width


@helper
def _find_texts(cells: Cells, row: int, data: Bytes, start: int, stop: int) -> bool:
    """Puts the texts of one row into its cells; False if the bytes are no row of so many columns."""
    at = start
    for column in range(cells.state.shape[0]):
        if at >= stop:
            return False
        size, at = _size(data, at, stop)
        if size == -1:
            cells.state[column, row] = _NULL
            continue
        if size < 0 or size > stop - at:
            return False
        cells.low[column, row] = at
        at += size
        cells.high[column, row] = at
        cells.state[column, row] = _TEXT
    return at == stop


@kernel(types.int64(CELLS, BYTES, INT64S), makes_arrays=False)
def scan_packets(cells: Cells, data: Bytes, place: Int64s) -> int:
    """Finds the texts of whole packets.

    Args:
        cells: Are filled from `place[2]` on.
        data: The buffer.
        place: Where the next packet begins, where the buffer's bytes end, the rows found so far, the number of the next packet; moved on.

    Returns:
        Why it stopped: MORE, FULL, END, ERROR, LARGE or BROKEN.
    """
    at, end, row, number = place[0], place[1], place[2], place[3]
    why = 0
    while why == 0:
        if row == cells.state.shape[1]:
            why = 1
            break
        if end - at < 4:
            break
        size = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16
        if size == 0xFFFFFF:
            why = 4
        elif end - at - 4 < size:
            break
        elif size > 0 and data[at + 4] == 0xFF:
            why = 3
        elif size == 0 or np.int64(data[at + 3]) != number:
            why = 5
        elif data[at + 4] == 0xFE and size < 9:
            why = 2
        elif not _find_texts(cells, row, data, at + 4, at + 4 + size):
            why = 5
        else:
            at += 4 + size
            row += 1
            number = (number + 1) & 255
    place[0], place[2], place[3] = at, row, number
    return why


@kernel(types.boolean(CELLS, BYTES), makes_arrays=False)
def scan_row(cells: Cells, data: Bytes) -> bool:
    """Finds the texts of one row without the heads of its packets, for row 0; False if the bytes are no row of so many columns."""
    return _find_texts(cells, 0, data, 0, data.size)
