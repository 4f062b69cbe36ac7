"""Which figures there are of a table, decided from the ledger's values; pure. `openmetrics` writes them for Prometheus, Airflow for StatsD.

Counters are the ledger's sums (`state.totals`), which stay when it forgets old runs. Gauges say how a table is now, and how its last run
went.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.state.base import StateReader, TableOverview
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.state.totals import Totals

UNITS: Final = ("seconds", "bytes")
"""Base units, with which names of metrics end."""

_QUESTIONS: Final = 10_000
"""Open questions that are counted, at most."""

Runs = tuple[tuple[TableOverview, TableRun], ...]
"""Tables with their last runs."""


class FamilyKind(enum.StrEnum):
    """How values of a family behave."""

    GAUGE = "gauge"
    COUNTER = "counter"
    """It only grows; a ledger that was lost begins at 0 again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value of a table.

    Args:
        pipeline, table: Of which table; `table` is `schema.table`, "" of the pipeline as a whole.
        value: In the unit of its family; 1 and 0 for true and false.
        part: What it is a part of the family of, e.g. `insert` of the rows; "" where a family has one value per table.
    """

    pipeline: str
    table: str
    value: float
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The values of all tables that mean the same.

    Args:
        name: Without the prefix `cdc_ops_`, and of counters without `_total`; ends in its unit.
        meaning: One sentence.
        samples: Tables of which nothing is known have none.
        part_name: The label of `Sample.part`, "" if there is none.
        kind: How the values behave.
        together: Of a gauge: what stands for several tables where there is room for one value, such as the largest.
    """

    name: str
    meaning: str
    samples: tuple[Sample, ...]
    part_name: str = ""
    kind: FamilyKind = FamilyKind.GAUGE
    together: Callable[[Iterable[float]], float] = max

    @property
    def unit(self) -> str:
        """The unit of the values, "" for numbers of things."""
        return next((unit for unit in UNITS if self.name.endswith(f"_{unit}")), "")


def read_families(reader: StateReader, overviews: Iterable[TableOverview]) -> tuple[Family, ...]:
    """Returns the figures of tables, with what the ledger has found about their pipelines, counted of them and asked.

    Args:
        reader: The ledger, for its clock, its findings, its sums and its questions.
        overviews: The tables, from the same ledger.
    """
    known = tuple(overviews)
    pipelines = frozenset(one.state.pipeline for one in known)
    findings = (one for name in sorted(pipelines) for one in reader.findings(name) if one.subject.kind is AlertKind.DELETES)
    now, sums = reader.now(), _sums(reader, known)
    asked = [one for one in reader.approvals(status=ApprovalStatus.ASKED, limit=_QUESTIONS) if one.is_open(now)]
    return (
        *table_families(known, now, refused={(one.subject.pipeline, str(one.subject.table)) for one in findings}),
        _of_successes(sums),
        _of_questions(known, asked),
        *run_counters(sums),
        *_question_counters(sums),
    )


def _sums(reader: StateReader, overviews: Iterable[TableOverview]) -> tuple[Totals, ...]:
    """Returns the sums of tables, 0 where nothing was counted yet, and of their pipelines as a whole."""
    found = {(one.pipeline, one.table): one for one in reader.totals()}
    tables = [(one.state.pipeline, one.state.table) for one in overviews]
    whole = [key for pipeline in sorted({pipeline for pipeline, _ in tables}) if (key := (pipeline, None)) in found]
    return tuple(found.get(key) or Totals(pipeline=key[0], table=key[1]) for key in (*tables, *whole))


def table_families(overviews: Iterable[TableOverview], now: datetime, *, refused: Set[tuple[str, str]] = frozenset()) -> tuple[Family, ...]:
    """Returns how tables are, and how their last runs went.

    Args:
        overviews: From the ledger.
        now: The ledger's clock, UTC.
        refused: Pipeline and table of those whose deletes are over the guard.
    """
    known = tuple(overviews)
    runs = tuple((one, one.last_run) for one in known if one.last_run is not None)
    return (*_of_tables(known, now), _of_deletes(known, refused), *_of_outcomes(runs), _of_lateness(runs), *_of_files(known))


def run_counters(sums: Iterable[Totals]) -> tuple[Family, ...]:
    """Returns what runs have done with tables.

    Args:
        sums: From the ledger, or what one run adds to them.
    """
    tables = tuple(one for one in sums if one.table is not None)
    return (
        _counter("runs", "Ends of runs of the table; one that failed and was tried again has several.", tables, _RUNS, "result"),
        _counter("run_seconds", "How long runs have worked on the table.", tables, {"": "run_seconds"}),
        _counter("rows", "Rows of the table that were inserted, updated and deleted.", tables, _ROWS, "operation"),
        _counter("read_rows", "Rows or events that were read for the table.", tables, {"": "read_rows"}),
        _counter(
            "late_rows",
            "Rows that turned up below the watermark, and were merged: the lookback is too short.",
            tables,
            {"": "late_rows"},
        ),
        _counter("quarantined_records", "Records that were set aside.", tables, {"": "quarantined_records"}),
        _counter("written_bytes", "Bytes that were written to the table.", tables, {"": "written_bytes"}),
    )


def _question_counters(sums: Iterable[Totals]) -> tuple[Family, ...]:
    known = tuple(sums)
    return (
        _counter("approvals_asked", "Questions to a person about the table.", known, {"": "asked"}),
        _counter("approvals_ended", "Ends of such questions.", known, _ANSWERS, "result"),
    )


_RUNS: Final = {"committed": "committed_runs", "idle": "idle_runs", "failed": "failed_runs"}
_ROWS: Final = {"insert": "inserted_rows", "update": "updated_rows", "delete": "deleted_rows"}
_ANSWERS: Final = {name: name for name in ("granted", "refused", "timed_out", "withdrawn")}


def _counter(name: str, meaning: str, sums: Iterable[Totals], parts: Mapping[str, str], part_name: str = "") -> Family:
    """Returns a family of counters; `parts` has the sum of each value of its label."""
    samples = tuple(
        Sample(pipeline=one.pipeline, table=str(one.table or ""), value=float(one.sums[attribute]), part=part)
        for one in sums
        for part, attribute in parts.items()
    )
    return Family(name=name, meaning=meaning, samples=samples, part_name=part_name, kind=FamilyKind.COUNTER)


def _of_successes(sums: Iterable[Totals]) -> Family:
    known = ((one, one.succeeded_at) for one in sums if one.table is not None)
    return Family(
        name="last_success_timestamp_seconds",
        meaning="When a run last committed the table or found nothing new, Unix time.",
        samples=tuple(
            Sample(pipeline=one.pipeline, table=str(one.table), value=instant.timestamp()) for one, instant in known if instant is not None
        ),
        together=min,
    )


def _of_questions(overviews: tuple[TableOverview, ...], asked: Iterable[ApprovalRecord]) -> Family:
    pipelines = {one.state.pipeline for one in overviews}
    waiting = Counter((one.pipeline, str(one.table or "")) for one in asked if one.pipeline in pipelines)
    places = dict.fromkeys([(one.state.pipeline, str(one.state.table)) for one in overviews] + list(waiting))
    return Family(
        name="approvals_waiting",
        meaning="Questions that a person can answer now.",
        samples=tuple(Sample(pipeline=pipeline, table=table, value=float(waiting[pipeline, table])) for pipeline, table in places),
        together=sum,
    )


def _of_tables(overviews: tuple[TableOverview, ...], now: datetime) -> tuple[Family, ...]:
    lags = ((one, one.state.lag(now)) for one in overviews)
    return (
        _family(
            "lag_seconds",
            "How far the table is behind its source; it grows while no run comes.",
            [(one, lag.total_seconds()) for one, lag in lags if lag is not None],
        ),
        _family(
            "watermark_timestamp_seconds",
            "Up to when the table has all changes of its source, Unix time.",
            [(one, fresh.timestamp()) for one in overviews if (fresh := one.state.progress.fresh_at) is not None],
            together=min,
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
            together=min,
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


def _of_lateness(runs: Runs) -> Family:
    return _family(
        "last_run_late_by_seconds",
        "How far below the watermark the oldest late row of the last run was.",
        [(one, run.result.max_commit_lag) for one, run in runs],
    )


def _of_files(overviews: tuple[TableOverview, ...]) -> tuple[Family, ...]:
    sized = [(one, one.stats) for one in overviews if one.stats is not None]
    return (
        _family("delta_files", "Data files of the Delta table.", [(one, stats.files) for one, stats in sized], together=sum),
        _family("delta_size_bytes", "Their size together.", [(one, stats.size_bytes) for one, stats in sized], together=sum),
        _family(
            "delta_deleted_rows",
            "Rows that deletion vectors leave out of its files.",
            [(one, stats.deleted_rows) for one, stats in sized],
            together=sum,
        ),
    )


def _held_seconds(run: TableRun) -> float | None:
    """Returns None of a run that was held back and whose end is not known: it works, or is of an earlier version."""
    if not run.messages.held_by:
        return 0.0
    fresh = run.result.fresh_at
    return None if fresh is None else max(0.0, (run.timing.started_at - fresh).total_seconds())


def _family(
    name: str,
    meaning: str,
    values: Iterable[tuple[TableOverview, float | None]],
    *,
    together: Callable[[Iterable[float]], float] = max,
) -> Family:
    samples = tuple(_sample(one, value) for one, value in values if value is not None)
    return Family(name=name, meaning=meaning, samples=samples, together=together)


def _sample(overview: TableOverview, value: float, part: str = "") -> Sample:
    return Sample(pipeline=overview.state.pipeline, table=str(overview.state.table), value=float(value), part=part)
