"""What is going on, on standard error: on a terminal a moving line for each table that is worked on, plain lines elsewhere."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from cdc_ops.cli.output import render

MOST_LINES: Final = 6
"""Lines that move at the same time; the one that has been still for longest gives way."""

_TABLE: Final = re.compile(r"^[^\s:]+\.[^\s:]+$")


class MovingLines:
    """Shows of each table the newest line, and one line for all that is about none.

    Args:
        bar: Draws them.
    """

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._lines: dict[str, TaskID] = {}

    def say(self, line: str) -> None:
        """Shows the first line of a text in its table's line."""
        first = line.splitlines()[0] if line else ""
        name = first.partition(": ")[0]
        subject = name if _TABLE.match(name) else ""
        task = self._lines.pop(subject, None)
        if task is None:
            if len(self._lines) >= MOST_LINES:
                self._bar.remove_task(self._lines.pop(next(iter(self._lines))))
            task = self._bar.add_task(first, total=None)
        self._bar.update(task, description=first)
        self._lines[subject] = task  # behind the others: it has moved last


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yields a function that shows a line of what is going on; with `quiet` it shows nothing."""
    if quiet:
        yield lambda line: None
    elif not render.err.is_terminal:
        yield render.show_line
    else:
        whole = Column(overflow="fold")  # the end of a line that is cut off may be what somebody waits for
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False, table_column=whole), TimeElapsedColumn())
        with Progress(*columns, console=render.err, transient=True) as bar:
            lines = MovingLines(bar)
            lines.say("planning")
            yield lines.say
