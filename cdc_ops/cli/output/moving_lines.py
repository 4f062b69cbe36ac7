"""What is going on, on standard error: on a terminal a moving line and a bar for each table at work, plain lines elsewhere."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from cdc_ops.cli.output import render
from cdc_ops.steps.reporting.log_output import shown_by

BAR: Final = 12
"""Columns that a bar takes: at 80 columns the text beside it has its room."""

MOST_LINES: Final = 6
"""Lines that move at the same time; the one that has been still for longest gives way."""

_TABLE: Final = re.compile(r"^[^\s:]+\.[^\s:]+$")


class MovingLines(logging.Handler):
    """Shows of each table the newest line, and one line for all that is about none.

    Args:
        bar: Draws them.
    """

    def __init__(self, bar: Progress) -> None:
        super().__init__()
        self._bar = bar
        self._lines: dict[str, TaskID] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Shows what is logged, with a bar if it says how much is done."""
        self.show(self.format(record), getattr(record, "share", None))

    def show(self, line: str, share: float | None = None) -> None:
        """Shows the first line of a text in its table's line.

        Args:
            line: The text, with the table's name in front.
            share: How much of the work is done, from 0 to 1; None if that is not known.
        """
        first = line.splitlines()[0] if line else ""
        name = first.partition(": ")[0]
        subject = name if _TABLE.match(name) else ""
        task = self._lines.pop(subject, None)
        if task is None:
            if len(self._lines) >= MOST_LINES:
                self._bar.remove_task(self._lines.pop(next(iter(self._lines))))
            task = self._bar.add_task(first, total=None)
        self._bar.update(task, description=first, total=None if share is None else 1.0, completed=share or 0.0)
        self._lines[subject] = task  # behind the others: it has moved last


class _PlainLines(logging.Handler):
    """Shows what is logged line by line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Shows it, on standard error as it is by now."""
        render.show_line(self.format(record))


class _Bar(ProgressColumn):
    """A bar where it is known how much is done, and nothing elsewhere."""

    def __init__(self) -> None:
        super().__init__(table_column=Column(width=BAR))
        self._bar = BarColumn(bar_width=BAR)

    def render(self, task: Task) -> RenderableType:
        """Draws it."""
        return self._bar.render(task) if task.total else ""


@contextmanager
def progress(quiet: bool) -> Iterator[None]:
    """Shows what is logged while the body of the `with` works; with `quiet` nothing of it."""
    if quiet:
        yield
    elif not render.err.is_terminal:
        with shown_by(_PlainLines()):
            yield
    else:
        whole = Column(overflow="fold")  # the end of a line that is cut off may be what somebody waits for
        text = TextColumn("{task.description}", markup=False, table_column=whole)
        columns = (SpinnerColumn(), text, _Bar(), TimeElapsedColumn())
        with Progress(*columns, console=render.err, transient=True) as bar:
            lines = MovingLines(bar)
            lines.show("planning")
            with shown_by(lines, logging.DEBUG):
                yield
