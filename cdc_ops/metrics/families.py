"""Which figures there are of a table, decided from the ledger's values; pure. `openmetrics` writes them for Prometheus, Airflow for StatsD.

All are gauges: the ledger forgets old runs, so nothing that is counted over them would only grow.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime

from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.state.base import StateReader, TableOverview
from cdc_ops.state.table_run import TableRun, TableRunStatus

Runs = tuple[tuple[TableOverview, TableRun], ...]
"""Tables with their last runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value of a table.

    Args:
        pipeline, table: Of which table; `table` is `schema.table`.
        value: In the unit of its family; 1 and 0 for true and false.
        part: What it is a part of the family of, e.g. `inserted` of the rows; "" where a family has one value per table.
    """

    pipeline: str
    table: str
    value: float
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The values of all tables that mean the same.

    Args:
        name: Without the prefix `cdc_ops_`; ends in its unit.
        meaning: One sentence.
        samples: Tables of which nothing is known have none.
        part_name: The label of `Sample.part`, "" if there is none.
    """

    name: str
    meaning: str
    samples: tuple[Sample, ...]
    part_name: str = ""


def read_families(reader: StateReader, overviews: Iterable[TableOverview]) -> tuple[Family, ...]:
    """Returns the figures of tables, with what the ledger has found about their pipelines.

    Args:
        reader: The ledger, for its clock and its findings.
        overviews: The tables, from the same ledger.
    """
    known = tuple(overviews)
    pipelines = sorted({one.state.pipeline for one in known})
    findings = (one for name in pipelines for one in reader.findings(name) if one.subject.kind is AlertKind.DELETES)
    return table_families(known, reader.now(), refused={(one.subject.pipeline, str(one.subject.table)) for one in findings})


def table_families(overviews: Iterable[TableOverview], now: datetime, *, refused: Set[tuple[str, str]] = frozenset()) -> tuple[Family, ...]:
    """Returns the figures of tables.

    Args:
        overviews: From the ledger.
        now: The ledger's clock, UTC.
        refused: Pipeline and table of those whose deletes are over the guard.
    """
    known = tuple(overviews)
    runs = tuple((one, one.last_run) for one in known if one.last_run is not None)
    return (*_of_tables(known, now), _of_deletes(known, refused), *_of_outcomes(runs), *_of_rows(runs), *_of_files(known))


def _of_tables(overviews: tuple[TableOverview, ...], now: datetime) -> tuple[Family, ...]:
    lags = ((one, one.state.lag(now)) for one in overviews)
    return (
        _family(
            "lag_seconds",
            "How far the table is behind its source; it grows while no run comes.",
            [(one, lag.total_seconds()) for one, lag in lags if lag is not None],
        ),
        _family(
            "max_lag_seconds",
            "How far the table may be behind (max_lag); tables without a limit have none.",
            [(one, limit.total_seconds()) for one in overviews if (limit := one.max_lag)],
        ),
        _family(
            "over_max_lag",
            "1 if the table is further behind than its max_lag; tables without a limit have none.",
            [(one, float(one.is_over_max_lag(now))) for one in overviews if one.max_lag],
        ),
        _family(
            "missing_at_source",
            "1 if the source no longer shows the table.",
            [(one, float(one.state.missing_since is not None)) for one in overviews],
        ),
        _family(
            "leased",
            "1 if a run holds the table now.",
            [(one, float(one.lease is not None)) for one in overviews],
        ),
    )


def _of_deletes(overviews: tuple[TableOverview, ...], refused: Set[tuple[str, str]]) -> Family:
    return _family(
        "deletes_refused",
        "1 if a comparison found more deletes than the guard allows, and nobody has accepted them yet.",
        [(one, float((one.state.pipeline, str(one.state.table)) in refused)) for one in overviews],
    )


def _of_outcomes(runs: Runs) -> tuple[Family, ...]:
    return (
        _family(
            "last_run_started_timestamp_seconds",
            "When the table's last run began, Unix time.",
            [(one, run.timing.started_at.timestamp()) for one, run in runs],
        ),
        _family(
            "last_run_failed",
            "1 if the table's last run failed.",
            [(one, float(run.status is TableRunStatus.FAILED)) for one, run in runs],
        ),
        _family(
            "last_run_waits_for_somebody",
            "1 if the table's archive misses events, and it goes on only when somebody has acted.",
            [(one, float(run.waits_for_somebody)) for one, run in runs],
        ),
        _family(
            "last_run_bound_held",
            "1 if somebody who was writing at the source held back how far the table's last run could read.",
            [(one, float(bool(run.messages.held_by))) for one, run in runs],
        ),
        _family(
            "last_run_bound_held_seconds",
            "How far below its beginning the last run's bound was held back; 0 if nobody held it.",
            [(one, _held_seconds(run)) for one, run in runs],
        ),
        Family(
            name="last_run_phase_seconds",
            meaning="What the table's last run spent its time on.",
            samples=tuple(_sample(one, phase.seconds, phase.phase.value) for one, run in runs for phase in run.timing.phases),
            part_name="phase",
        ),
    )


def _of_rows(runs: Runs) -> tuple[Family, ...]:
    counted = ("read", "inserted", "updated", "deleted")
    return (
        Family(
            name="last_run_rows",
            meaning="Rows that the table's last run read, inserted, updated and deleted.",
            samples=tuple(_sample(one, getattr(run.result.counts, part), part) for one, run in runs for part in counted),
            part_name="operation",
        ),
        _family(
            "last_run_late_rows",
            "Rows that turned up below the watermark, and were merged: the lookback is too short.",
            [(one, run.result.late_rows) for one, run in runs],
        ),
        _family(
            "last_run_late_by_seconds",
            "How far below the watermark the oldest late row was.",
            [(one, run.result.max_commit_lag) for one, run in runs],
        ),
        _family(
            "last_run_quarantined_records",
            "Records that the last run set aside.",
            [(one, run.result.counts.quarantined) for one, run in runs],
        ),
        _family(
            "last_run_written_bytes",
            "Bytes that the last run wrote to the table.",
            [(one, run.result.counts.bytes) for one, run in runs],
        ),
    )


def _of_files(overviews: tuple[TableOverview, ...]) -> tuple[Family, ...]:
    sized = [(one, one.stats) for one in overviews if one.stats is not None]
    return (
        _family("delta_files", "Data files of the Delta table.", [(one, stats.files) for one, stats in sized]),
        _family("delta_size_bytes", "Their size together.", [(one, stats.size_bytes) for one, stats in sized]),
        _family(
            "delta_deleted_rows",
            "Rows that deletion vectors leave out of its files.",
            [(one, stats.deleted_rows) for one, stats in sized],
        ),
    )


def _held_seconds(run: TableRun) -> float | None:
    """Returns None of a run that was held back and whose end is not known: it works, or is of an earlier version."""
    if not run.messages.held_by:
        return 0.0
    fresh = run.result.fresh_at
    return None if fresh is None else max(0.0, (run.timing.started_at - fresh).total_seconds())


def _family(name: str, meaning: str, values: Iterable[tuple[TableOverview, float | None]]) -> Family:
    return Family(name=name, meaning=meaning, samples=tuple(_sample(one, value) for one, value in values if value is not None))


def _sample(overview: TableOverview, value: float, part: str = "") -> Sample:
    return Sample(pipeline=overview.state.pipeline, table=str(overview.state.table), value=float(value), part=part)
