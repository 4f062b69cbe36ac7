"""How the status page writes spans, sizes, instants and counts for people. Pure."""

from datetime import datetime, timedelta
from typing import Final

from cdc_ops.core.phases import phases_text
from cdc_ops.core.text import size_text
from cdc_ops.state.table_run import TableRun

NOTHING: Final = "\u2013"
"""Stands where nothing is known."""

_SIZES: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def duration(value: timedelta | None) -> str:
    """Returns a span in its two largest units at most, e.g. `3 min`, `2 h 5 min`, `4 d 3 h`."""
    if value is None:
        return NOTHING
    seconds = int(value.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86400
    if days:
        return f"{days} d {hours} h" if hours and days < 10 else f"{days} d"
    return (f"{hours} h {minutes} min" if minutes else f"{hours} h") if hours else f"{minutes} min"


def ago(value: datetime | None, now: datetime) -> str:
    """Returns how long ago an instant was."""
    return NOTHING if value is None else f"{duration(max(now - value, timedelta(0)))} ago"


def size(value: int | None) -> str:
    """Returns a number of bytes in the unit that makes it readable."""
    return NOTHING if value is None else size_text(value, _SIZES)


def instant(value: datetime | None) -> str:
    """Returns an instant to the second, UTC."""
    return NOTHING if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def spent(run: TableRun) -> str:
    """Returns what a run spent its time on, "" if that was not measured."""
    return phases_text(run.timing.phases)


def took(run: TableRun) -> str:
    """Returns how long a run worked on a table."""
    timing = run.timing
    return duration(timing.finished_at - timing.started_at) if timing.finished_at else NOTHING


def count(value: float) -> str:
    """Returns a whole number with separators, e.g. `12,345`."""
    return f"{round(value):,}"
