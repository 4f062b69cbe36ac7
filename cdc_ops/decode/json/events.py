"""What the envelope of a change event says, as numbers a row: filled by the kernel of a format, read by whoever hands the rows over."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

READ, CREATE, UPDATE, DELETE = ord("r"), ord("c"), ord("u"), ord("d")


class Events(NamedTuple):
    """The events of some records; of those that are not plain it says nothing.

    Args:
        operation: READ, CREATE, UPDATE or DELETE, uint8.
        numbers: The parts of the position, where Kafka's offset is put in afterwards; the first index is the part, int64.
        by_offset: Of each row the part that the offset stands for too, -1 for none, int64.
        moment: When the source says that it happened, microseconds since 1970, int64.
        has_moment: 1 if it says so, uint8.
        rows: Room for the numbers of rows, three lists of them, int64.
    """

    operation: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.int64]
    by_offset: npt.NDArray[np.int64]
    moment: npt.NDArray[np.int64]
    has_moment: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.int64]

    @classmethod
    def empty(cls, parts: int, rows: int) -> "Events":
        """Makes room for so many rows, whose positions have so many parts."""
        return cls(
            np.zeros(rows, np.uint8), np.zeros((parts, rows), np.int64), np.full(rows, -1, np.int64), np.zeros(rows, np.int64),
            np.zeros(rows, np.uint8), np.zeros((3, rows), np.int64),
        )  # fmt: skip


WITH_AFTER: Final = 0
"""List of rows: those with an image of all columns."""
WITH_BEFORE: Final = 1
"""List of rows: those of which the key before is read."""
WITH_BOTH: Final = 2
"""List of rows: those whose key before has to be the key after."""
