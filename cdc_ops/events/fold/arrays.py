"""Types of arrays, one element a row."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Bools: TypeAlias = npt.NDArray[np.bool_]
Int64s: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Column: TypeAlias = Any
"""pyarrow's Array or ChunkedArray."""


def one_form(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns floating-point numbers of which equal ones have the same bits: one zero, and one NaN."""
    found = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers)
    found += numbers.dtype.type(0)  # -0.0 + 0.0 is 0.0
    return found
