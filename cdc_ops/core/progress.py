"""A line of progress: a text that also says how much of its work is done, for those who draw a bar. Pure."""

import time
from collections.abc import Callable
from typing import Final

SPARSE: Final = 15.0
"""Seconds between two lines of progress of one table where each line stays, as in a log."""


class ProgressLine(str):
    """A line that the next one of the same table makes obsolete.

    Args:
        text: What is told, with the table's name in front.
        share: How much of the work is done, from 0 to 1; None if that is not known.
    """

    __slots__ = ("share",)
    share: float | None

    def __new__(cls, text: str, share: float | None = None) -> "ProgressLine":
        """Makes a text of it, which everybody else takes it for."""
        line = super().__new__(cls, text)
        line.share = None if share is None else min(max(share, 0.0), 1.0)
        return line


def sparse(say: Callable[[str], None], clock: Callable[[], float] = time.monotonic, every: float = SPARSE) -> Callable[[str], None]:
    """Returns a function that leaves most lines of progress out, for logs: one a table in `every` seconds, the first after that time.

    Args:
        say: Receives the lines that stay.
        clock: Seconds, from any begin on.
        every: Seconds between two lines of one table.
    """
    begun = clock()
    last: dict[str, float] = {}

    def said(line: str) -> None:
        subject = line.partition(": ")[0]
        if not isinstance(line, ProgressLine):
            last[subject] = clock()
        elif clock() - last.get(subject, begun) < every:
            return
        else:
            last[subject] = clock()
        say(line)

    return said
