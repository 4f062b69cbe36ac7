"""What a run is estimated to cost: from the plan, earlier runs and the source's statistics; and when it is refused for that."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
import typer
from rich.cells import cell_len
from rich.console import Console

from cdc_ops.cli import one_run
from cdc_ops.cli.output import render
from cdc_ops.cli.output.costs import print_actual_costs, print_costs, refusals
from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.archive.files import ListedFile
from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.planned_cost import CostEvidence, CostSample, planned_cost
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.reads import ArchiveRead, ChunkRead, WindowRead
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.operation.run_request import Accepts, RunRequest
from cdc_ops.core.phases import PhaseSeconds, RunPhase
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.run_cost import NO_LIMIT, UNKNOWN, CostBasis, Figure, MaxCost, PlannedCost, RunCost, excesses, figure, total_cost
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CostRefusedError, SourceInterruptedError, SourceTableError
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import RunResult, RunTiming, TableRun, TableRunStatus
from cdc_ops.steps.context import Context
from cdc_ops.steps.cost import MOST_COUNTED, check_table_cost, plan_cost
from cdc_ops.steps.plan import TablePlan
from cdc_ops.steps.planning.request import COUNT_LIMIT, Draft
from cdc_ops.steps.runs import run_price
from cdc_ops.steps.runs.run import RunReport
from cdc_ops.steps.runs.run_price import check_run_cost
from tests.state_values import NOON, ORDERS, make_operation
from tests.state_values import run as made_run

REQUEST = RunRequest(run_id="r", trigger="t", holder="h")
LINES = TableName(schema="shop", name="lines")


def window(rows: int) -> Operation:
    operation = make_operation(1)
    assert isinstance(operation.read, WindowRead)
    return replace(operation, target=replace(operation.target, version=3), read=replace(operation.read, expected_rows=rows))


def load(rows: int, row_bytes: int = 0, slices: tuple[str, ...] = ("",)) -> Operation:
    operation = make_operation(1, OperationKind.SNAPSHOT_CHUNK)
    source = replace(operation.source, schema=replace(operation.source.schema, row_bytes=row_bytes))
    read = ChunkRead(slices=slices, expected_rows=rows)
    return replace(operation, source=source, apply=replace(operation.apply, mode=ApplyMode.APPEND), read=read)


def archived(size: int) -> Operation:
    batch = LogBatch(archive=ArchiveConfig(), url="/a", files=(ListedFile(path="f", size=size),), before=ArchiveWatermark())
    return replace(make_operation(1), read=ArchiveRead(batch=batch))


def sample(rows: float, seconds: float, written: float = 0, **parts: Any) -> CostSample:
    return CostSample(**{"kind": OperationKind.INCREMENT, "rows": rows, "written_bytes": written, "seconds": seconds, **parts})


# --- figures ---


def test_earlier_runs_of_the_table_tell_bytes_and_time_and_the_plan_tells_rows() -> None:
    own = (sample(100, 5, 1_000), sample(300, 7, 3_000), sample(0, 4), sample(9, 9, 9, kind=OperationKind.RECONCILE))
    evidence = CostEvidence(
        rows=figure(200, CostBasis.COUNTED), own=own, others=(sample(1, 99),), size=TableStats(delta_version=3, files=7, size_bytes=70)
    )
    cost = planned_cost([window(200)], evidence, 4)
    assert (cost.rows.value, cost.written_bytes.value, cost.seconds.value) == (200, 2_000, 6)
    assert (cost.rows.bases, cost.written_bytes.bases, cost.seconds.bases) == ((CostBasis.COUNTED,), (CostBasis.RUNS,), (CostBasis.RUNS,))
    assert (cost.connections, cost.files, cost.file_bytes) == (4, 7, 70)


def test_a_first_load_has_its_bytes_by_the_sources_average_row_and_its_time_by_first_loads_of_other_tables() -> None:
    evidence = CostEvidence(rows=figure(1_000, CostBasis.STATISTICS))
    assert planned_cost([load(1_000, row_bytes=50)], evidence, 1).written_bytes == figure(50_000, CostBasis.STATISTICS)
    assert planned_cost([load(1_000)], evidence, 1).written_bytes is UNKNOWN
    assert planned_cost([load(1_000)], evidence, 1).seconds is UNKNOWN
    others = (sample(500, 3), sample(500, 10, kind=OperationKind.SNAPSHOT_CHUNK))
    assert planned_cost([load(1_000)], replace(evidence, others=others), 1).seconds == figure(20, CostBasis.OTHERS)


def test_events_of_an_archive_are_estimated_by_the_size_of_its_files_once_a_run_has_read_some() -> None:
    first = planned_cost([archived(4_000)], CostEvidence(), 0)
    assert (first.rows, first.written_bytes, first.seconds, first.archive_bytes) == (UNKNOWN, UNKNOWN, UNKNOWN, 4_000)
    later = planned_cost([archived(4_000)], CostEvidence(own=(sample(10, 2, 50, archive_bytes=1_000),)), 0)
    assert (later.rows, later.written_bytes.value) == (figure(40, CostBasis.RUNS), 200)


def test_a_sum_with_something_unknown_in_it_is_a_lower_bound() -> None:
    total = total_cost(
        [RunCost(rows=figure(5, CostBasis.COUNTED), connections=4, files=1), RunCost(connections=2), RunCost(connections=1)], 2, 5
    )
    assert total.rows == Figure(value=5, bases=(CostBasis.COUNTED,), at_least=True)
    assert (total.seconds, total.files) == (UNKNOWN, None)
    assert total.connections == 5, "of two tables at a time, and no more than the source allows"


# --- limits ---


def test_each_figure_has_a_limit_of_its_own_and_a_limit_of_nothing_is_none() -> None:
    cost = RunCost(rows=figure(10, CostBasis.COUNTED), written_bytes=figure(2048, CostBasis.RUNS), seconds=figure(120, CostBasis.OTHERS))
    assert excesses(cost, MaxCost()) == ()
    assert excesses(cost, MaxCost(rows=10, written_bytes=2048, duration=timedelta(minutes=2))) == ()
    found = excesses(cost, MaxCost(rows=9, written_bytes=2047, duration=timedelta(minutes=1)))
    assert [text.split()[0] for text in found] == ["max_cost.rows", "max_cost.written_bytes", "max_cost.duration"]
    assert "2.0 KiB (earlier runs of the table)" in found[1]


def test_what_nobody_knows_is_refused_only_if_the_file_says_so() -> None:
    some = RunCost(seconds=figure(1, CostBasis.RUNS, at_least=True))
    limits = MaxCost(rows=1, duration=timedelta(seconds=5))
    assert excesses(some, limits) == ()
    assert len(excesses(some, replace(limits, refuse_unknown=True))) == 2


# --- what is asked before a run ---


@dataclass
class Asked:
    """A source that counts rows, and remembers up to where it was asked to."""

    rows: int
    limits: list[int] = field(default_factory=list)

    def count(self, table: TableName, where: str, limit: int) -> int:
        self.limits.append(limit)
        return min(self.rows, limit)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


def pipeline(max_cost: MaxCost = NO_LIMIT) -> Pipeline:
    return Pipeline.of(
        name="shop",
        source=SourceConfig(kind=SourceKind.MYSQL, connection="db"),
        target=TargetConfig(root="/lake", staging="/staging"),
        tables=(),
        max_cost=max_cost,
    )


def config(max_cost: MaxCost = NO_LIMIT, table: TableName = ORDERS) -> TableConfig:
    return TableConfig(pipeline="shop", table=table, settings=TableSettings.of(max_cost=max_cost), path="/lake/none")


def context(store: SqlStateStore, max_cost: MaxCost = NO_LIMIT) -> Context:
    return Context(pipeline=pipeline(max_cost), store=store, connect=cast(Any, None))


def priced(
    store: SqlStateStore, source: Asked, new: Operation, *, run: MaxCost = NO_LIMIT, table: MaxCost = NO_LIMIT, accepted: bool = False
) -> PlannedCost:
    asked = replace(REQUEST, accepts=Accepts(cost=accepted))
    found = plan_cost(context(store, run), cast(Any, source), asked, config(table), (), (new,))
    assert found is not None
    return found


def test_a_window_whose_count_stopped_is_counted_up_to_the_limit_that_it_has_to_keep(store: SqlStateStore) -> None:
    source = Asked(rows=700_000)
    cost = priced(store, source, window(COUNT_LIMIT), table=MaxCost(rows=500_000))
    assert source.limits == [500_001]
    assert cost.new is not None
    assert (cost.new.rows.value, cost.new.rows.at_least) == (500_001, True)
    assert priced(store, source, window(COUNT_LIMIT), run=MaxCost(rows=900_000)).all.rows == figure(700_000, CostBasis.COUNTED)
    priced(store, source, window(COUNT_LIMIT), run=MaxCost(duration=timedelta(hours=1)))
    assert source.limits[-1] == MOST_COUNTED
    source.limits.clear()
    for limit in (MaxCost(), MaxCost(rows=COUNT_LIMIT - 1)):
        assert priced(store, source, window(COUNT_LIMIT), run=limit).all.rows.at_least
    assert source.limits == [], "what the plan has counted is enough"
    assert priced(store, source, window(COUNT_LIMIT), run=MaxCost(rows=COUNT_LIMIT)).all.rows.value == COUNT_LIMIT + 1
    source.limits.clear()
    priced(store, source, window(COUNT_LIMIT), run=MaxCost(rows=COUNT_LIMIT), accepted=True)
    assert source.limits == [], "nobody asks for the price of what is accepted"


def test_a_window_of_more_rows_than_are_ever_counted_is_estimated_as_the_whole_table(store: SqlStateStore) -> None:
    new = window(COUNT_LIMIT)
    schema = replace(new.source.schema, approximate_rows=5 * MOST_COUNTED)
    new = replace(new, source=replace(new.source, schema=schema))
    cost = priced(store, Asked(rows=MOST_COUNTED), new, table=MaxCost(duration=timedelta(hours=1)))
    assert cost.all.rows == figure(5 * MOST_COUNTED, CostBasis.STATISTICS, at_least=True)


def test_a_window_below_the_count_and_a_table_with_statistics_are_not_counted_again(store: SqlStateStore) -> None:
    source = Asked(rows=9)
    assert priced(store, source, window(7), run=MaxCost(rows=5)).all.rows == figure(7, CostBasis.COUNTED)
    assert priced(store, source, load(7), run=MaxCost(rows=5)).all.rows == figure(7, CostBasis.STATISTICS)
    assert source.limits == []


def test_a_table_without_statistics_is_counted_over_all_its_slices(store: SqlStateStore) -> None:
    source = Asked(rows=150_000)
    cost = priced(store, source, load(0, slices=("a", "b", "c")))
    assert source.limits == [COUNT_LIMIT, COUNT_LIMIT - 150_000], "the third need not be asked"
    assert cost.all.rows == figure(COUNT_LIMIT, CostBasis.COUNTED, at_least=True)


def test_a_count_that_the_server_ends_early_leaves_what_the_plan_has_counted(store: SqlStateStore) -> None:
    class Impatient(Asked):
        def count(self, table: TableName, where: str, limit: int) -> int:
            super().count(table, where, limit)
            raise SourceInterruptedError("The server ended a statement early.", why="", data="", next="")

    source = Impatient(rows=9)
    cost = priced(store, source, window(COUNT_LIMIT), run=MaxCost(rows=10 * COUNT_LIMIT))
    assert source.limits == [10 * COUNT_LIMIT + 1]
    assert cost.all.rows == figure(COUNT_LIMIT, CostBasis.COUNTED, at_least=True)


def test_what_an_earlier_run_froze_is_never_refused_nor_counted(store: SqlStateStore) -> None:
    limit, source = MaxCost(rows=1, refuse_unknown=True), Asked(rows=9)
    here, table = context(store, limit), config(limit)
    cost = plan_cost(here, cast(Any, source), REQUEST, table, (window(COUNT_LIMIT),), ())
    assert cost is not None
    assert (cost.new, cost.all.rows.at_least, source.limits) == (None, True, [])
    check_table_cost(here, REQUEST, table, cost)
    both = plan_cost(here, cast(Any, source), REQUEST, table, (window(5),), (window(2),))
    assert both is not None
    assert both.new is not None
    assert (both.all.rows.value, both.new.rows.value) == (7, 2)


def test_a_run_of_the_table_teaches_what_the_next_one_costs(store: SqlStateStore) -> None:
    store.record(done(rows=1_000, written=80_000, seconds=10))
    for number in range(30):
        later = RunTiming(started_at=NOON + timedelta(hours=1 + number))
        store.record(replace(done(0, 0, 0), run_id=str(number), status=TableRunStatus.IDLE, timing=later))
    cost = priced(store, Asked(0), window(2_000)).all
    assert (cost.written_bytes, cost.seconds) == (figure(160_000, CostBasis.RUNS), figure(20, CostBasis.RUNS))
    other = plan_cost(context(store), cast(Any, Asked(0)), REQUEST, config(table=LINES), (), (replace(window(2_000), table=LINES),))
    assert other is not None
    assert (other.all.written_bytes, other.all.seconds) == (UNKNOWN, figure(20, CostBasis.OTHERS))


def done(rows: int, written: int, seconds: float, cost: RunCost | None = None) -> TableRun:
    phases = (PhaseSeconds(phase=RunPhase.SPARK_START, seconds=99), PhaseSeconds(phase=RunPhase.MERGE, seconds=seconds))
    return replace(
        made_run("before"),
        timing=RunTiming(started_at=NOON, finished_at=NOON, phases=phases),
        result=RunResult(counts=Counts(read=rows, bytes=written)),
        cost=cost,
    )


# --- refusals ---


def test_a_table_above_its_own_or_the_runs_limit_is_refused_unless_its_cost_is_accepted(store: SqlStateStore) -> None:
    cost = priced(store, Asked(0), window(1_000))
    for here, table in ((context(store), config(MaxCost(rows=999))), (context(store, MaxCost(rows=999)), config())):
        with pytest.raises(CostRefusedError) as caught:
            check_table_cost(here, REQUEST, table, cost)
        assert "max_cost.rows is 999, and the estimate is 1,000 (counted)" in caught.value.why
        assert "Nothing was read" in caught.value.data
        assert "--accept-cost" in caught.value.next
        assert not caught.value.retryable
        check_table_cost(here, replace(REQUEST, accepts=Accepts(cost=True)), table, cost)
    check_table_cost(context(store, MaxCost(rows=1_000)), REQUEST, config(MaxCost(rows=1_000)), cost)


def planned(table: TableName, rows: int | None) -> TablePlan:
    cost = RunCost(rows=UNKNOWN if rows is None else figure(rows, CostBasis.COUNTED))
    return TablePlan(
        config=config(table=table),
        state=TableState(pipeline="shop", table=table),
        new=Draft(operations=(window(1),)),
        cost=PlannedCost(all=cost, new=cost),
    )


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[TableName]:
    asked: list[TableName] = []

    def plan_table(context: Any, source: Any, request: Any, config: TableConfig) -> TablePlan:
        asked.append(config.table)
        if config.table.name == "broken":
            raise SourceTableError("no such table")
        return planned(config.table, 600)

    monkeypatch.setattr(run_price, "plan_table", plan_table)
    return asked


CONFIGS = tuple(config(table=TableName(schema="shop", name=name)) for name in ("broken", "lines", "orders"))


def test_a_run_is_refused_for_all_its_tables_together(store: SqlStateStore, plans: list[TableName]) -> None:
    with pytest.raises(CostRefusedError, match=r"pipeline shop \(2 tables together\)") as caught:
        check_run_cost(context(store, MaxCost(rows=1_000)), cast(Any, None), REQUEST, CONFIGS)
    assert "1,200" in caught.value.why
    assert len(plans) == 3
    check_run_cost(context(store, MaxCost(rows=1_200)), cast(Any, None), REQUEST, CONFIGS)


def test_without_a_limit_or_with_the_cost_accepted_nothing_is_planned_twice(store: SqlStateStore, plans: list[TableName]) -> None:
    check_run_cost(context(store), cast(Any, None), REQUEST, CONFIGS)
    check_run_cost(context(store, MaxCost(rows=1)), cast(Any, None), replace(REQUEST, accepts=Accepts(cost=True)), CONFIGS)
    assert plans == []


# --- who accepts ---


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_a_person_is_asked_and_elsewhere_the_run_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: bool
) -> None:
    from contextlib import nullcontext
    from types import SimpleNamespace
    from unittest.mock import Mock

    noted: list[str] = []
    monkeypatch.setattr("cdc_ops.steps.reporting.findings.note_failed_run", lambda store, name, run, why="", **_: noted.append(why))
    runs: list[bool] = []
    asked: list[str] = []

    def run_pipeline(context: Any, source: Any, request: RunRequest, execute: Any) -> str:
        runs.append(request.accepts.cost)
        if not request.accepts.cost:
            raise CostRefusedError("too much", why="max_cost.rows is 1")
        return "report"

    monkeypatch.setattr("cdc_ops.steps.runs.run.run_pipeline", run_pipeline)
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setattr(one_run, "opened", lambda pipeline: nullcontext((Mock(), None)))
    monkeypatch.setattr(typer, "confirm", lambda text, err: asked.append(text) or answer)
    monkeypatch.setattr(render, "err", Console(file=StringIO(), force_terminal=True))
    call = {"as_json": False, "quiet": False}
    monkeypatch.setattr(one_run.sys, "stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(CostRefusedError):
        one_run.run_one(pipeline(), REQUEST, **call)
    monkeypatch.setattr(one_run.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    with pytest.raises(CostRefusedError):
        one_run.run_one(pipeline(), REQUEST, as_json=True, quiet=False)
    assert asked == []
    if answer:
        assert one_run.run_one(pipeline(), REQUEST, **call)[0] == "report"
        assert runs[-2:] == [False, True]
    else:
        with pytest.raises(CostRefusedError):
            one_run.run_one(pipeline(), REQUEST, **call)
        assert runs[-1] is False
    assert len(asked) == 1
    assert "max_cost.rows is 1" in asked[0]
    assert [bool(why) for why in noted] == [True, True, *([False] if answer else [])]  # who says no at a terminal need not be told


# --- what is shown ---


@pytest.mark.parametrize("width", [80, 120])
def test_plan_shows_the_cost_of_each_table_and_of_all_within_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    text = StringIO()
    monkeypatch.setattr(render, "out", Console(file=text, width=width, force_terminal=True, color_system=None))
    cost = RunCost(
        rows=figure(1_234_567, CostBasis.STATISTICS),
        written_bytes=figure(5 << 20, CostBasis.RUNS),
        connections=4,
        files=1_200,
        file_bytes=3 << 30,
    )
    plan = replace(planned(ORDERS, 1), cost=PlannedCost(all=cost, new=cost))
    print_costs(pipeline(), [(ORDERS, plan), (LINES, replace(plan, cost=None)), (ORDERS, SourceTableError("gone"))])
    lines = text.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= width
    (row,) = [line for line in lines if "orders" in line]
    assert row.split()[1:] == ["1,234,567", "5.0", "MiB", "unknown", "4", "1,200", "(3.0", "GiB)"]
    words = " ".join(text.getvalue().split())
    assert (
        "in total: 1,234,567 rows (the source's statistics), 5.0 MiB written (earlier runs of the table), time unknown, up to 4 connections"
        in words
    )


def test_plan_says_that_run_would_refuse(store: SqlStateStore) -> None:
    plan = planned(ORDERS, 600)
    both = [(ORDERS, plan), (LINES, planned(LINES, 600))]
    assert refusals(pipeline(MaxCost(rows=1_200)), both) == []
    (whole,) = refusals(pipeline(MaxCost(rows=1_199)), both)
    assert "2 tables together" in whole.what
    (one,) = refusals(pipeline(), [(ORDERS, replace(plan, config=config(MaxCost(rows=599)))), both[1]])
    assert "table shop.orders" in one.what


def test_a_runs_record_has_its_estimate_beside_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    text = StringIO()
    monkeypatch.setattr(render, "out", Console(file=text, width=200))
    estimate = RunCost(rows=figure(900, CostBasis.STATISTICS), written_bytes=figure(1024, CostBasis.STATISTICS))
    run = done(rows=1_000, written=2048, seconds=12, cost=estimate)
    print_actual_costs(RunReport(runs=(run, done(rows=1, written=1, seconds=1)), failures=()))
    assert text.getvalue().strip() == (
        "shop.orders: estimated 900 rows, 1.0 KiB written, time unknown; actual 1,000 rows, 2.0 KiB written, 12 s of work"
    )
    assert replace(run, status=TableRunStatus.FAILED).cost_text == ""
