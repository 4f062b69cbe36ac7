"""What the status page says of a table, decided from the ledger's values; pure, so that every colour on the page can be tested."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_ops.core.operation.table_state import Phase
from cdc_ops.core.phases import phases_text
from cdc_ops.state.base import TableOverview
from cdc_ops.state.table_run import TableRun, TableRunStatus

LATE_DEFAULT = timedelta(hours=24)
"""A table counts as late after this time where nothing is known of its schedule."""

_NOTHING = "\u2013"
_SLACK = timedelta(minutes=10)
_OPEN = (TableRunStatus.PLANNED, TableRunStatus.LANDED, TableRunStatus.MERGED)
_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


class Health(enum.StrEnum):
    """How a table is, worst first; the page sorts and colours by it."""

    FAILED = "failed"
    MISSING = "missing"
    LATE = "late"
    WORKING = "working"
    SNAPSHOT = "snapshot"
    NEW = "new"
    FRESH = "fresh"
    IDLE = "idle"

    @property
    def meaning(self) -> str:
        """What it says, for the legend and tooltips."""
        return _MEANINGS[self]


_MEANINGS = {
    Health.FAILED: "the last run of the table failed",
    Health.MISSING: "the source no longer shows the table: dropped, renamed, or hidden from the user; the lake keeps its rows",
    Health.LATE: "the table is further behind than its schedule allows",
    Health.WORKING: "a run works on the table now",
    Health.SNAPSHOT: "the snapshot of the table is not finished",
    Health.NEW: "the table has not been read yet",
    Health.FRESH: "the last run merged changes",
    Health.IDLE: "the last run found no changes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineInfo:
    """What is known of a pipeline outside the ledger.

    Args:
        every: Distance of two scheduled runs, None if there is no schedule or it is not known.
        paused: True if its DAG is paused.
    """

    every: timedelta | None = None
    paused: bool = False

    @property
    def late_after(self) -> timedelta:
        """How far behind a table may be: two intervals and some minutes of work."""
        return 2 * self.every + _SLACK if self.every else LATE_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One line of the page."""

    overview: TableOverview
    health: Health
    lag: timedelta | None

    @property
    def error(self) -> str:
        """The last run's error text, "" if it did not fail."""
        run = self.overview.last_run
        return run.messages.message if run and run.status is TableRunStatus.FAILED else ""

    @property
    def notices(self) -> tuple[str, ...]:
        """What the last run has to say besides its status, and since when the table is missing."""
        texts = self.overview.last_run.notices if self.overview.last_run else ()
        since = self.overview.state.missing_since
        missing = f"No longer at the source, or not visible to the user; first noticed {instant(since)}. The lake keeps its rows."
        return texts if since is None or any("not at the source" in text for text in texts) else (missing, *texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSection:
    """The tables of one pipeline, worst first."""

    name: str
    info: PipelineInfo
    rows: tuple[TableRow, ...]


def sections(
    overviews: Iterable[TableOverview], infos: Mapping[str, PipelineInfo], now: datetime, only: Health | None = None
) -> tuple[PipelineSection, ...]:
    """Groups tables by pipeline.

    Args:
        overviews: From the ledger.
        infos: By pipeline, as far as known.
        now: The ledger's clock, UTC.
        only: Show tables of this health only.
    """
    by_pipeline: dict[str, list[TableRow]] = {}
    for overview in overviews:
        name = overview.state.pipeline
        row = table_row(overview, infos.get(name, PipelineInfo()), now)
        if only is None or row.health is only:
            by_pipeline.setdefault(name, []).append(row)
    order = list(Health)
    return tuple(
        PipelineSection(
            name=name,
            info=infos.get(name, PipelineInfo()),
            rows=tuple(sorted(rows, key=lambda row: (order.index(row.health), row.overview.state.table))),
        )
        for name, rows in sorted(by_pipeline.items())
    )


def table_row(overview: TableOverview, info: PipelineInfo, now: datetime) -> TableRow:
    """Decides a table's health."""
    lag = overview.state.lag(now)
    return TableRow(overview=overview, health=_health(overview, lag, info), lag=lag)


def tally(sections: Iterable[PipelineSection]) -> dict[Health, int]:
    """Returns how many tables there are of each health, in the order of `Health`, without those of which there is none."""
    healths = [row.health for section in sections for row in section.rows]
    return {health: healths.count(health) for health in Health if health in healths}


def _health(overview: TableOverview, lag: timedelta | None, info: PipelineInfo) -> Health:
    run = overview.last_run
    if run is not None and run.status is TableRunStatus.FAILED:
        return Health.FAILED
    if overview.state.missing_since is not None:
        return Health.MISSING
    if lag is not None and lag > info.late_after:
        return Health.LATE
    if overview.lease is not None and run is not None and run.status in _OPEN:
        return Health.WORKING
    match overview.state.phase:
        case Phase.NEW:
            return Health.NEW
        case Phase.SNAPSHOT:
            return Health.SNAPSHOT
        case Phase.READY:
            return Health.IDLE if run is not None and run.status is TableRunStatus.IDLE else Health.FRESH


def duration(value: timedelta | None) -> str:
    """Returns a span in its two largest units at most, e.g. `3 min`, `2 h 5 min`, `4 d 3 h`."""
    if value is None:
        return _NOTHING
    seconds = int(value.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86400
    if days:
        return f"{days} d {hours} h" if hours and days < 10 else f"{days} d"
    return (f"{hours} h {minutes} min" if minutes else f"{hours} h") if hours else f"{minutes} min"


def ago(value: datetime | None, now: datetime) -> str:
    """Returns how long ago an instant was."""
    return _NOTHING if value is None else f"{duration(max(now - value, timedelta(0)))} ago"


def size(value: int | None) -> str:
    """Returns a number of bytes in the unit that makes it readable."""
    if value is None:
        return _NOTHING
    amount, unit = float(value), 0
    while amount >= 1024 and unit < len(_SIZES) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_SIZES[unit]}" if unit == 0 or amount >= 100 else f"{amount:.1f} {_SIZES[unit]}"


def instant(value: datetime | None) -> str:
    """Returns an instant to the second, UTC."""
    return _NOTHING if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def spent(run: TableRun) -> str:
    """Returns what a run spent its time on, "" if that was not measured."""
    return phases_text(run.timing.phases)


def took(run: TableRun) -> str:
    """Returns how long a run worked on a table."""
    timing = run.timing
    return duration(timing.finished_at - timing.started_at) if timing.finished_at else _NOTHING
