"""What the status page says of a table, decided from the ledger's values; pure, so that every colour on the page can be tested."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote

from cdc_ops.core.operation.protocol.table_state import Phase
from cdc_ops.core.operation.run_request import airflow_run_id
from cdc_ops.core.processes import LOCAL
from cdc_ops.state.base import TableGlance, TableOverview
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.web.words import duration, instant

LATE_DEFAULT = timedelta(hours=24)
"""A table counts as late after this time where nothing is known of its schedule."""

_SLACK = timedelta(minutes=10)


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
    Health.LATE: "the table is further behind than its max_lag, or without one than its schedule allows",
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
        dag_ids: Its DAGs in Airflow: the one that carries its tables forward first, then the one that reconciles, if there is one.
        has_database: False if it has an archive alone, so that rows cannot be read again or compared.
    """

    every: timedelta | None = None
    paused: bool = False
    dag_ids: tuple[str, ...] = ()
    has_database: bool = True

    @property
    def late_after(self) -> timedelta:
        """How far behind a table may be: two intervals and some minutes of work."""
        return 2 * self.every + _SLACK if self.every else LATE_DEFAULT

    @property
    def dag_address(self) -> str:
        """The relative address of its DAG's page in Airflow, "" where there is none."""
        return f"../dags/{quote(self.dag_ids[0], safe='')}" if self.dag_ids else ""

    @property
    def runs_address(self) -> str:
        """The relative address at which Airflow's public API takes runs of its DAG, "" where there is none."""
        return f"../api/v2/dags/{quote(self.dag_ids[0], safe='')}/dagRuns" if self.dag_ids else ""

    def dag_of_run(self, run_id: str) -> tuple[str, str] | None:
        """Returns the DAG of a run, and the run's id in Airflow; None for a run of the command line, and where the DAG is not known.

        Args:
            run_id: As the ledger has it.
        """
        of_airflow, reconciles = airflow_run_id(run_id)
        dags = self.dag_ids[1:] if reconciles else self.dag_ids[:1]
        return None if run_id.startswith(LOCAL) or not dags else (dags[0], of_airflow)

    def run_address(self, run_id: str) -> str:
        """Returns the relative address of a run's page in Airflow, "" where there is none.

        Args:
            run_id: As the ledger has it.

        >>> PipelineInfo(dag_ids=("cdc_shop",)).run_address("manual__1+2")
        '../dags/cdc_shop/runs/manual__1%2B2'
        """
        found = self.dag_of_run(run_id)
        return f"../dags/{quote(found[0], safe='')}/runs/{quote(found[1], safe='')}" if found else ""


class Tone(enum.StrEnum):
    """What a lag means, as a colour."""

    GOOD = "good"
    """Within one interval of the schedule."""
    NEAR = "near"
    """More than one interval, and not late yet."""
    OVER = "over"
    """Later than the schedule allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The bar beside a lag: how much of the time that the schedule allows is used up.

    Args:
        share: Of that time, in percent; 100 where the table is late.
        interval: Where on the bar one interval of the schedule ends, in percent; None where no schedule is known.
        tone: What that means.
        words: The same, for those who do not see the bar.
    """

    share: int
    interval: int | None
    tone: Tone
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSign:
    """How a table is: what the tables of a ledger are counted, searched and sorted by.

    Args:
        glance: From the ledger.
        health: How it is.
        lag: How far it is behind its source, None if it has never been complete.
        limit: How far it may be behind.
        info: What is known of its pipeline.
    """

    glance: TableGlance
    health: Health
    lag: timedelta | None
    limit: timedelta
    info: PipelineInfo = PipelineInfo()

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self.glance.pipeline

    @property
    def table(self) -> str:
        """The table as `schema.table`."""
        return str(self.glance.table)

    @property
    def is_late(self) -> bool:
        """True if the table is further behind than it may be, whatever else is wrong with it."""
        return _is_late(self.lag, self.limit)

    @property
    def freshness(self) -> Freshness | None:
        """Its bar, None if the table has never been complete."""
        return None if self.lag is None else freshness(self.lag, self.limit, self.info.every)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow(TableSign):
    """One line of the page.

    Args:
        overview: All that the ledger has of the table.
    """

    overview: TableOverview

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


def table_sign(glance: TableGlance, info: PipelineInfo, now: datetime) -> TableSign:
    """Decides a table's health.

    Args:
        glance: From the ledger.
        info: What is known of its pipeline.
        now: The ledger's clock, UTC.
    """
    lag, limit = glance.lag(now), (glance.last_run.max_lag if glance.last_run else None) or info.late_after
    return TableSign(glance=glance, health=_health(glance, late=_is_late(lag, limit)), lag=lag, limit=limit, info=info)


def table_row(overview: TableOverview, info: PipelineInfo, now: datetime) -> TableRow:
    """Decides a table's health, with all that is shown of it; see `table_sign`."""
    sign = table_sign(overview.glance, info, now)
    return TableRow(glance=sign.glance, health=sign.health, lag=sign.lag, limit=sign.limit, info=info, overview=overview)


def table_signs(glances: Iterable[TableGlance], infos: Mapping[str, PipelineInfo], now: datetime) -> tuple[TableSign, ...]:
    """Decides the health of many tables; pipelines of which `infos` lacks an entry have no schedule."""
    return tuple(table_sign(glance, infos.get(glance.pipeline, PipelineInfo()), now) for glance in glances)


def table_rows(overviews: Iterable[TableOverview], infos: Mapping[str, PipelineInfo], now: datetime) -> tuple[TableRow, ...]:
    """Does what `table_signs` does, with all that is shown of the tables."""
    return tuple(table_row(overview, infos.get(overview.state.pipeline, PipelineInfo()), now) for overview in overviews)


def _is_late(lag: timedelta | None, limit: timedelta) -> bool:
    return lag is not None and timedelta(0) < limit < lag


def freshness(lag: timedelta, limit: timedelta, every: timedelta | None) -> Freshness:
    """Returns the bar of a lag.

    Args:
        lag: How far the table is behind its source.
        limit: How far it may be behind.
        every: Distance of two scheduled runs, None if that is not known.

    >>> freshness(timedelta(minutes=35), timedelta(minutes=70), timedelta(minutes=30)).words
    '50 percent of the 1 h 10 min that a table may be behind'
    """
    share = min(round(100 * (lag / limit)), 100)
    tone = Tone.OVER if lag > limit else Tone.NEAR if every and lag > every else Tone.GOOD
    used = "more than" if lag > limit else f"{share} percent of"
    interval = round(100 * (every / limit)) if every and every < limit else None
    return Freshness(share=share, interval=interval, tone=tone, words=f"{used} the {duration(limit)} that a table may be behind")


def _health(glance: TableGlance, *, late: bool) -> Health:
    run = glance.last_run
    if run is not None and run.status is TableRunStatus.FAILED:
        return Health.FAILED
    if glance.missing_since is not None:
        return Health.MISSING
    if late:
        return Health.LATE
    if glance.is_leased and run is not None and not run.status.has_ended:
        return Health.WORKING
    match glance.phase:
        case Phase.NEW:
            return Health.NEW
        case Phase.SNAPSHOT:
            return Health.SNAPSHOT
        case Phase.READY:
            return Health.IDLE if run is not None and run.status is TableRunStatus.IDLE else Health.FRESH
