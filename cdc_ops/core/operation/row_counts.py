"""Rows read against rows counted by the plan: when to ask the source again, and which answer shows that rows are missing. Pure.

Rows may leave a window between plan and read: an update moves them above its end, a delete removes them. So fewer rows than the plan
counted prove nothing; that the source still has them does. It is asked only where too few were read, and no further than it takes.
"""

from dataclasses import dataclass

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import KeysRead, WindowRead


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsExpected:
    """What a plan says of the number of rows of a read.

    Args:
        rows: How many there were, or are estimated; 0 if nothing is known.
        exact: They were counted, and no row can come into what is read but by a late commit: only fewer can be read. Else rows may come
            and go, or the number is an estimate.
    """

    rows: int
    exact: bool

    @classmethod
    def of(cls, operation: Operation) -> "RowsExpected":
        """Returns what an operation's plan says."""
        read = operation.read
        exact = isinstance(read, KeysRead) or (isinstance(read, WindowRead) and not read.rereads)
        return cls(rows=operation.expected_rows, exact=exact)

    def is_doubtful(self, read: int) -> bool:
        """True if so few rows were read that the source has to be asked: fewer than were counted, far fewer than were estimated, or none.

        >>> RowsExpected(rows=10, exact=True).is_doubtful(9), RowsExpected(rows=10, exact=False).is_doubtful(9)
        (True, False)
        """
        return read < self.rows if self.exact else read == 0 or 2 * read < self.rows

    def too_many(self, read: int) -> int:
        """Returns how many rows the source must still have to show that rows are missing among those that were read.

        One more, where none can come; else half of what is missing, because some may have come since.

        >>> RowsExpected(rows=500, exact=False).too_many(80), RowsExpected(rows=500, exact=True).too_many(80)
        (290, 81)
        """
        return read + (1 if self.exact else max((self.rows - read) // 2, 1))
