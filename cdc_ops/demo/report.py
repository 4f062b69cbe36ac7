"""The demo's output: a moving line on a terminal, plain lines elsewhere, and never silent for more than some seconds."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from cdc_ops.demo.check import TableCheck

QUIET_SECONDS: Final = 4.0
"""Seconds between two lines of a step without a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """One table after a phase.

    Args:
        table: `schema.table`.
        status: The table's status in the run, "" if the run did not include the table.
        read, inserted, updated, deleted: Numbers of rows.
        window: The window that was read, as text.
        watermark: The table's watermark after the run, as text.
        position: Up to where the table has all of its archive, as text; "" for tables without one.
        delta_version: The table's Delta version after the run.
        message: The run's message for the table.
        check: The comparison of source and lake, None if they were not compared because the source goes on changing.
        excused: Why a difference is expected here, "" if there must be none.
    """

    table: str
    status: str
    check: TableCheck | None
    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    window: str = ""
    watermark: str = ""
    position: str = ""
    delta_version: int | None = None
    message: str = ""
    excused: str = ""


@dataclass(slots=True)
class _Step:
    title: str
    detail: str = ""
    started: float = field(default_factory=time.monotonic)


class Screen:
    """Prints lines, and shows the current step.

    Args:
        console: The console; without a terminal it gets plain lines.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._step: _Step | None = None
        self._printed = time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None
        self._started = time.monotonic()
        if not console.is_terminal:
            threading.Thread(target=self._keep_talking, daemon=True).start()

    @property
    def seconds(self) -> float:
        """Returns the seconds since the demo began."""
        return time.monotonic() - self._started

    def line(self, text: str = "") -> None:
        """Prints a line of rich markup."""
        self._printed = time.monotonic()
        self._console.print(text, highlight=False, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Prints a heading."""
        self.line()
        self.line(f"[bold cyan]{escape(text)}[/]")

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Shows a step during the `with`, and its seconds at the end."""
        self._step = step = _Step(title)
        try:
            with self._shown(step):
                yield
        finally:
            self._step = None
        self.line(f"  [green]done[/] {escape(title)} [dim]({time.monotonic() - step.started:.1f} s)[/]")

    def detail(self, text: str) -> None:
        """Shows a detail of the current step."""
        step = self._step
        if step is None or step.detail == text:
            return
        step.detail = text
        if self._bar:
            progress, task = self._bar
            progress.update(task, description=f"{step.title}: {text}")
        else:
            self.line(f"  [dim]{self.seconds:5.0f} s[/]  {escape(text)}")

    @contextmanager
    def _shown(self, step: _Step) -> Iterator[None]:
        if not self._console.is_terminal:
            self.line(f"  [dim]{self.seconds:5.0f} s[/]  {escape(step.title)} ...")
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            self._bar = (progress, progress.add_task(step.title, total=None))
            try:
                yield
            finally:
                self._bar = None

    def _keep_talking(self) -> None:
        while True:
            time.sleep(0.5)
            step = self._step
            if step is not None and time.monotonic() - self._printed > QUIET_SECONDS:
                text = f"{step.title}: {step.detail}" if step.detail else step.title
                self.line(f"  [dim]{self.seconds:5.0f} s[/]  ... {escape(text)} ({time.monotonic() - step.started:.0f} s)")


def print_tables(screen: Screen, tables: Sequence[TableReport]) -> None:
    """Prints each table's changes in a phase, and whether the lake equals the source."""
    for one in tables:
        screen.line(f"  [bold]{one.table}[/]  {escape(_did(one))}")
        for name, value in (("window", one.window), ("watermark", one.watermark), ("position", one.position), ("note", one.message)):
            if value:
                screen.line(f"      {name:10} {escape(value)}")
        screen.line(f"      {'equal?':10} {verdict(one)}")


def verdict(one: TableReport) -> str:
    """Returns the result of the comparison with its differences, as markup."""
    check = one.check
    if check is None:
        return "[dim]not compared: the shop goes on writing[/]"
    if check.equal:
        return f"[green]lake = source[/]: {check.rows_lake:,} rows on both sides, no key differs"
    kinds = (("only in source", check.only_in_source), ("only in lake", check.only_in_lake), ("different", check.different))
    found = [f"{count:,} {'key' if count == 1 else 'keys'} {kind}" for kind, count in kinds if count]
    found += [f"{check.duplicates:,} duplicates"] if check.duplicates else []
    samples = f" ({'; '.join(check.samples)})" if check.samples else ""
    rows = f"{check.rows_source:,} rows at the source, {check.rows_lake:,} in the lake; {', '.join(found)}{samples}"
    if one.excused:
        return f"[yellow]differs, as expected here[/]: {escape(rows)}\n                 {escape(one.excused)}"
    return f"[bold red]differs[/]: {escape(rows)}"


def _did(one: TableReport) -> str:
    version = f", Delta version {one.delta_version}" if one.delta_version is not None else ""
    if one.status == "committed":
        return f"{one.read:,} rows read: {one.inserted:,} inserted, {one.updated:,} updated, {one.deleted:,} deleted{version}"
    return f"{one.status or 'not part of this run'}{version}"
