"""What is going on, on standard error: on a terminal a moving line and a bar for each table at work, plain lines elsewhere."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from cdc_ops.cli.output import render
from cdc_ops.core.progress import ProgressLine, sparse

BAR: Final = 12
"""Columns that a bar takes: at 80 columns the text beside it has its room."""

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
        share = line.share if isinstance(line, ProgressLine) else None
        self._bar.update(task, description=first, total=None if share is None else 1.0, completed=share or 0.0)
        self._lines[subject] = task  # behind the others: it has moved last


class _Bar(ProgressColumn):
    """A bar where it is known how much is done, and nothing elsewhere."""

    def __init__(self) -> None:
        super().__init__(table_column=Column(width=BAR))
        self._bar = BarColumn(bar_width=BAR)

    def render(self, task: Task) -> RenderableType:
        """Draws it."""
        return self._bar.render(task) if task.total else ""


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yields a function that shows a line of what is going on; with `quiet` it shows nothing."""
    if quiet:
        yield lambda line: None
    elif not render.err.is_terminal:
        yield sparse(render.show_line)
    else:
        whole = Column(overflow="fold")  # the end of a line that is cut off may be what somebody waits for
        text = TextColumn("{task.description}", markup=False, table_column=whole)
        columns = (SpinnerColumn(), text, _Bar(), TimeElapsedColumn())
        with Progress(*columns, console=render.err, transient=True) as bar:
            lines = MovingLines(bar)
            lines.say("planning")
            yield lines.say
