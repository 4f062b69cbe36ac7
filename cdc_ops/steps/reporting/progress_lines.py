"""How far a snapshot is, and what is merged, in words: parts, rows, bytes, time, and what is left at the pace so far. Pure."""

from dataclasses import dataclass

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.text import span_text


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


def merge_line(operation: Operation, rows: int) -> str:
    """Says what a MERGE has to do, before it begins: how many landed rows, and into what."""
    into = "a new table" if operation.target.version is None else f"version {operation.target.version}"
    return f"{operation.table}: merges {rows:,} row{'s' if rows != 1 else ''} into {into} at {operation.target.path}"


def rows_text(rows: int) -> str:
    """Returns a number of rows, shortened where its last digits say nothing.

    >>> [rows_text(rows) for rows in (0, 9_999, 412_300, 1_250_000, 31_000_000_000)]
    ['0', '9,999', '412 k', '1.2 M', '31,000.0 M']
    """
    if rows < 10_000:
        return f"{rows:,}"
    return f"{rows / 1000:,.0f} k" if rows < 1_000_000 else f"{rows / 1_000_000:,.1f} M"
