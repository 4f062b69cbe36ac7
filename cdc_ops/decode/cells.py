"""Cells: what kernels write, one per row and column, two words of 64 bits and a state. Record batches are made of them."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

NULL: Final = 0
VALUE: Final = 1
"""The words hold the value; of texts and bytes, where it begins and ends in the input."""
ASIDE: Final = 2
"""Of texts and bytes: where the value begins and ends in the batch's own buffer, because its bytes are not in the input as they are."""
TEXT: Final = 3
"""Where a text begins and ends in the input that a kernel has yet to make the value of (`cdc_ops.decode.text_columns`)."""
MARKED: Final = 4
"""Not plain: where the value's bytes begin and end in the input. Plain Python reads it, and nothing is said about it yet."""
ABSENT: Final = 5
"""The record does not have this column. NULL in the record batch; whoever needs the difference looks at the states."""


class Cells(NamedTuple):
    """Growable by making larger ones; numba takes a named tuple of arrays as it stands. The first index is the column, the second the row.

    Args:
        low: int64. The value of integers, booleans (0, 1), dates (days since 1970) and timestamps (microseconds since 1970);
            the bits of floats and doubles; the low 64 bits of the unscaled value of decimals; the beginning of texts and bytes.
        high: int64. The high 64 bits of decimals; the end of texts and bytes.
        state: uint8. NULL, VALUE, ASIDE, TEXT, MARKED or ABSENT.
    """

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    state: npt.NDArray[np.uint8]

    @classmethod
    def empty(cls, columns: int, rows: int) -> "Cells":
        """Makes cells of which all are NULL."""
        return cls(np.zeros((columns, rows), np.int64), np.zeros((columns, rows), np.int64), np.zeros((columns, rows), np.uint8))

    @property
    def rows(self) -> int:
        """How many rows there is room for."""
        return int(self.state.shape[1])
