"""How far a snapshot is, in words: chunks, rows, bytes and what is left at the pace so far. Pure."""

from dataclasses import dataclass

from cdc_ops.core.operations import Counts, OperationSpec


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


def chunk_line(spec: OperationSpec, pace: Pace) -> str:
    """Says how far a snapshot is after a chunk; "" for operations that are none, and for tables of one chunk.

    What is left is estimated from the planned rows: of the chunks to come, at the rows a second of this application.
    """
    progress = spec.snapshot_after or spec.snapshot_before
    if progress is None or not spec.kind.is_snapshot:
        return ""
    last = spec.snapshot_after is None
    done = progress.total if last else progress.done
    parts = [f"{spec.table}: chunk {done:,} of {progress.total:,}"]
    if progress.rows_total:
        rows = progress.rows_total if last else progress.rows_done
        parts.append(f"about {rows:,} of {progress.rows_total:,} rows")
    if pace.bytes:
        parts.append(f"{pace.bytes / 1024**2:,.0f} MiB written")
    if pace.seconds > 0 and pace.rows:
        speed = pace.rows / pace.seconds
        parts.append(f"{speed:,.0f} rows/s")
        if not last and progress.rows_total:
            parts.append(f"about {clock_text((progress.rows_total - progress.rows_done) / speed)} left")
    return ", ".join(parts)


def clock_text(seconds: float) -> str:
    """Returns a span as `h:mm:ss`, or `m:ss` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
