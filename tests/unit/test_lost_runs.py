"""Runs that ended without a word: their tasks were killed or timed out, and no line of a table says that something failed."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_ops.alerts.conditions import read_conditions
from cdc_ops.alerts.words import Condition
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.pipeline.tables.table_matching import resolve_tables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.notices.alerts import Finding, Subject
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.context import Context
from cdc_ops.steps.runs.ending import end_unfinished, unexplained_tasks, unexplained_text
from tests.alert_case import Wrong, write_file
from tests.operations import made

ORDERS, ITEMS, QUIET = (TableName(schema="shop", name=name) for name in ("orders", "items", "quiet"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStateStore]:
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return load_pipeline(write_file(tmp_path, "  {}") / "shop.yaml")


def record(store: SqlStateStore, run_id: str, status: str, *, ago: timedelta, table: TableName = ORDERS, **parts: object) -> TableRun:
    started = store.now() - ago
    parts = {"trigger": "scheduled", "kind": OperationKind.INCREMENT, "started_at": started, **parts}
    line = made(TableRun, pipeline="shop", table=table, run_id=run_id, status=TableRunStatus(status), **parts)
    store.record(line)
    return line


def failures(store: SqlStateStore, pipeline: Pipeline) -> list[Condition]:
    return [one for one in read_conditions(store, pipeline) if one.subject.kind is AlertKind.FAILURE]


def test_a_run_ends_the_lines_of_tables_that_its_killed_tasks_have_left(store: SqlStateStore, pipeline: Pipeline) -> None:
    record(store, "r1", "committed", ago=timedelta(minutes=30))
    planned = record(store, "r2", "planned", ago=timedelta(minutes=5), silent=True, alert="look at this")
    done = record(store, "r2", "idle", ago=timedelta(minutes=5), table=QUIET)
    request = RunRequest(run_id="r2", trigger="scheduled", holder="r2")
    context = Context(pipeline=pipeline, store=store, connect=lambda _: pytest.fail("nothing is asked of the source"))
    assert failures(store, pipeline) == []
    configs = resolve_tables(pipeline, (ORDERS, ITEMS, QUIET))
    end_unfinished(context, request, configs, {str(run.table): run for run in (planned, done)}, ["tables.commit_0"])
    found = {one.subject.table: one for one in failures(store, pipeline)}
    assert set(found) == {ORDERS, ITEMS}, "planned and never ended, and never looked at"
    assert "ended without a result for shop.orders" in found[ORDERS].what
    assert "tables.commit_0" in found[ORDERS].why
    [line] = store.history("shop", ORDERS, limit=1)
    assert (line.run_id, line.events.silent, line.messages.alert, line.timing.started_at) == (
        "r2",
        True,
        "look at this",
        planned.timing.started_at,
    )
    assert line.timing.finished_at is not None


def test_a_planned_line_that_nobody_works_on_for_an_hour_is_a_failure_and_a_held_one_is_work(
    store: SqlStateStore, pipeline: Pipeline
) -> None:
    record(store, "r1", "committed", ago=timedelta(hours=3))
    record(store, "r2", "planned", ago=timedelta(minutes=50))
    assert failures(store, pipeline) == [], "its next task may wait for a slot"
    record(store, "r2", "planned", ago=timedelta(minutes=70))
    [found] = failures(store, pipeline)
    assert (found.run_id, "nobody works on it" in found.what) == ("r2", True)
    lease = store.acquire("shop", ORDERS, "r2", ttl=timedelta(minutes=5), live=True)
    assert failures(store, pipeline) == []
    store.release(lease)
    record(store, "r3", "committed", ago=timedelta(0))
    assert failures(store, pipeline) == []


def test_a_planned_line_behind_another_run_s_was_left_by_a_run_that_was_ended(store: SqlStateStore, pipeline: Pipeline) -> None:
    record(store, "r1", "committed", ago=timedelta(minutes=40))
    record(store, "r2", "planned", ago=timedelta(minutes=20))
    record(store, "r3", "planned", ago=timedelta(minutes=1))
    store.acquire("shop", ORDERS, "r3", ttl=timedelta(minutes=5), live=True)
    assert [one.run_id for one in failures(store, pipeline)] == ["r2"], "a schedule shorter than an hour hides no run that timed out"


def test_a_lag_says_that_a_run_works_only_while_somebody_holds_the_table(store: SqlStateStore, pipeline: Pipeline) -> None:
    lag = Wrong(store).make(AlertKind.LAG)
    record(store, "r2", "planned", ago=timedelta(minutes=5), table=lag)
    texts = []
    for _ in range(2):
        texts += [one.why for one in read_conditions(store, pipeline) if one.subject.kind is AlertKind.LAG]
        store.acquire("shop", lag, "r2", ttl=timedelta(minutes=5), live=True)
    assert ["A run works on it now." in text for text in texts] == [False, True]


def test_tasks_that_failed_without_a_failed_table_are_named(store: SqlStateStore) -> None:
    runs = {
        str(table): record(store, "r", status, ago=timedelta(0), table=table)
        for table, status in ((ORDERS, "failed"), (ITEMS, "committed"), (QUIET, "idle"))
    }
    groups = {"tables": [[str(ORDERS), str(QUIET)], [str(ITEMS)]], "approved": [[str(ORDERS)], [str(ITEMS)]]}
    failed = ["archive", "tables.maintain_0", "tables.sync_0", "tables.commit_0", "tables.commit_1"]
    assert unexplained_tasks(groups, runs, failed) == ["archive", "tables.maintain_0", "tables.commit_1"]
    assert unexplained_tasks(groups, runs, ["tables.sync_0", "approved.sync_0"]) == []
    assert unexplained_tasks(groups, runs, ["approved.approve_1"]) == ["approved.approve_1"]


def test_failed_tasks_without_a_failed_table_are_told_until_a_run_says_otherwise(store: SqlStateStore, pipeline: Pipeline) -> None:
    subject = Subject(pipeline="shop", table=None, kind=AlertKind.FAILURE)
    text = unexplained_text(["archive"])
    store.put_finding(Finding(subject=subject, text=text, found_at=store.now() - timedelta(minutes=9), run_id="r1"))
    record(store, "r2", "idle", ago=timedelta(minutes=1))
    [found] = failures(store, pipeline)
    assert "archive" in found.what
    assert "No table of this run was read" not in found.data
    record(store, "r3", "idle", ago=timedelta(0), trigger="cli")
    assert failures(store, pipeline) == [], "the command line's runs end nothing by themselves, so their lines do"
