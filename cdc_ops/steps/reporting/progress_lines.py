"""How far a snapshot is, and what is merged, in words: parts, rows, bytes, time, and what is left at the pace so far. Pure."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Counts, OperationResult
from cdc_ops.core.text import plural, span_text

logger = logging.getLogger("cdc_ops.job")

SPARSE: Final = 15.0
"""Seconds between two lines of an operation that stay, as in a log; those between them are for who draws a bar."""


@dataclass(slots=True)
class Pace:
    """What one application has read of one table so far.

    Args:
        rows: Rows read.
        bytes: Bytes written for them.
        seconds: Time taken.
    """

    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def add(self, counts: Counts, seconds: float) -> None:
        """Takes a chunk into account."""
        self.rows += counts.read
        self.bytes += counts.bytes
        self.seconds += seconds


def chunk_line(operation: Operation, pace: Pace) -> str:
    """Says how far a snapshot is after a chunk; "" for operations that are none, and for tables of one chunk.

    What is left is estimated from the planned rows: of the chunks to come, at the rows a second of this application.
    """
    progress = operation.after.snapshot or operation.before.snapshot
    if progress is None or not operation.kind.is_snapshot:
        return ""
    last = operation.after.snapshot is None
    done = progress.total if last else progress.done
    parts = [f"{operation.table}: {done:,} of {progress.total:,} parts"]
    if progress.rows_total:
        rows = progress.rows_total if last else progress.rows_done
        parts.append(f"{rows_text(rows)} of about {rows_text(progress.rows_total)} rows")
    if pace.seconds > 0:
        parts.append(span_text(pace.seconds))
    if pace.seconds > 0 and pace.rows:
        speed = pace.rows / pace.seconds
        if not last and progress.rows_total:
            parts.append(f"about {span_text((progress.rows_total - progress.rows_done) / speed)} left")
        parts.append(f"{speed:,.0f} rows/s")
    if pace.bytes:
        parts.append(f"{pace.bytes / 1024**2:,.0f} MiB written")
    return ", ".join(parts)


_ENOUGH: Final = 0.01
"""The share of the rows from which on what is left can be estimated; less may be what Delta reads of its own log."""


@dataclass(slots=True)
class Meter:
    """Logs how far one operation is, while it reads or merges: at INFO once in `SPARSE` seconds, at DEBUG in between.

    A record also has `share`: how much of the work is done, from 0 to 1.

    Args:
        operation: The operation.
        verb: What it does, in the third person: `reads` or `merges`.
        expected: Rows that it is about to read or merge; 0 if nobody knows.
        clock: Seconds, from any begin on.
    """

    operation: Operation
    verb: str
    expected: int
    clock: Callable[[], float] = time.monotonic
    _begun: float = field(init=False)
    _kept: float = field(init=False)

    def __post_init__(self) -> None:
        self._begun = self._kept = self.clock()

    def log_progress(self, *, rows: int, tasks_done: int, tasks: int, stages_done: int) -> None:
        """Logs how far it is.

        Args:
            rows: Rows that were read so far, 0 if they are not counted.
            tasks_done: Tasks of Spark's stages at work that have ended.
            tasks: All tasks of these stages, 0 if none is at work.
            stages_done: Stages that have ended.
        """
        now = self.clock()
        seconds = max(now - self._begun, 0.001)
        share = tasks_done / tasks if tasks else 0.0
        counted = self.verb == "reads" and self.expected > 0 and rows >= self.expected * _ENOUGH
        if counted:
            share = min(rows / self.expected, 0.99)
        known = counted or (self.verb == "reads" and tasks_done > 0)
        done = rows if counted else round(self.expected * share)
        parts = [self._rows(done if known else 0)]
        if not counted and tasks:
            step = f"step {stages_done + 1}: " if self.verb == "merges" else ""
            parts.append(f"{step}{tasks_done:,} of {plural(tasks, 'task')}")
        if known and done:
            parts.append(f"{done / seconds:,.0f} rows/s")
        if known and share:
            parts.append(f"about {span_text(seconds * (1 - share) / share)} left")
        else:
            parts.append(span_text(seconds))
        level = logging.DEBUG if now - self._kept < SPARSE else logging.INFO
        if level == logging.INFO:
            self._kept = now
        logger.log(level, f"{self.operation.table}: {self.verb} {', '.join(filter(None, parts))}", extra={"share": share})

    def _rows(self, done: int) -> str:
        if not self.expected:
            return ""
        whole = f"{rows_text(self.expected)} row{'s' if self.expected != 1 else ''}"
        return f"{rows_text(done)} of about {whole}" if done else whole


def merge_line(operation: Operation, rows: int) -> str:
    """Says what a MERGE has to do, before it begins: how many landed rows, and into what."""
    into = "a new table" if operation.target.version is None else f"version {operation.target.version}"
    return f"{operation.table}: merges {rows:,} row{'s' if rows != 1 else ''} into {into} at {operation.target.path}"


def end_line(operation: Operation, result: OperationResult, seconds: float) -> str:
    """Says how an operation ended: rows, time, and rows a second."""
    rows = result.counts.read
    pace = f", {rows / seconds:,.0f} rows/s" if rows and seconds > 0 else ""
    return f"{operation.table}: operation {operation.op_seq} {result.outcome}, {rows:,} rows read, {seconds:.1f} s{pace}"


def rows_text(rows: int) -> str:
    """Returns a number of rows, shortened where its last digits say nothing.

    >>> [rows_text(rows) for rows in (0, 9_999, 412_300, 1_250_000, 31_000_000_000)]
    ['0', '9,999', '412 k', '1.2 M', '31,000.0 M']
    """
    if rows < 10_000:
        return f"{rows:,}"
    return f"{rows / 1000:,.0f} k" if rows < 1_000_000 else f"{rows / 1_000_000:,.1f} M"
