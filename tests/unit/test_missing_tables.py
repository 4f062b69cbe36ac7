"""What a run says of a table that its source does not show: by policy, once, and for what it was asked."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_ops.config.loading import load_pipeline, shown_file
from cdc_ops.core.operation.job import StepResult
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableRule, TargetConfig
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.core.pipeline.tables.dropped_tables import DroppedTables
from cdc_ops.core.schema.declared_tables import DeclaredTable
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import ConfigError, JobLostError, SourceTableError
from cdc_ops.sources.base import Source, open_source
from cdc_ops.state.sql import open_store
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.context import Context
from cdc_ops.steps.discovery import discover_all
from cdc_ops.steps.runs.run import RunReport, run_pipeline
from cdc_ops.steps.table.missing_tables import Absence, find_absence, returned_warnings
from tests.declared_world import DeclaredWorld

GONE, KEPT = TableName.parse("shop.gone"), TableName.parse("shop.kept")


def request(*tables: str) -> RunRequest:
    return RunRequest(run_id="r", trigger="t", holder="h", tables=tables).checked()


def pipeline(*declared: str, policy: DroppedTables = DroppedTables.ALERT) -> Pipeline:
    tables = tuple(DeclaredTable(name=name, columns=(("id", "bigint not null primary key"),)) for name in declared)
    settings = TableSettings.of(method=Method.LOG, dropped_tables=policy)
    return Pipeline(
        name="shop",
        source=SourceConfig(kind=SourceKind.NONE, tables=tables),
        target=TargetConfig(root="/lake", staging="/staging"),
        tables=(TableRule(pattern="shop.*", settings=settings),),
    )


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    """A ledger that has copied `gone` and `kept`."""
    with closing(open_store(f"sqlite:///{tmp_path / 'ledger.db'}")) as store:
        for table in (GONE, KEPT):
            lease = store.acquire("shop", table, "test", ttl=timedelta(minutes=1), live=True)
            store.replace_state(lease, TableState(pipeline="shop", table=table, op_seq=1, committed_op_seq=1, operation_id="x"))
            store.release(lease)
        yield Context(pipeline=pipeline("shop.kept"), store=store, connect=lambda config: open_source(config, ""))


def look(context: Context, asked: RunRequest, state: TableState | None = None) -> Absence | None:
    source: Source = open_source(context.pipeline.source, "")
    [config] = [config for config in discover_all(context, source, asked).tables if config.table == GONE]
    return find_absence(context, source, asked, config, state or context.store.table_state("shop", GONE))


def test_a_copied_table_that_is_not_shown_alerts_until_the_ledger_knows(context: Context) -> None:
    first = look(context, request())
    assert first is not None
    assert first.alert == first.idle
    assert "nothing is deleted" in first.alert
    assert first.error is None
    told = replace(context.store.table_state("shop", GONE), missing_since=first.since)
    again = look(context, request(), told)
    assert again is not None
    assert (again.alert, again.since) == ("", first.since)
    assert "first noticed" in again.idle
    [back] = returned_warnings(told)
    assert "at the source again" in back
    assert not [text for text in (first.idle, again.idle, back) if str(GONE) in text], "whoever shows them says of which table they are"


@pytest.mark.parametrize("policy", list(DroppedTables))
@pytest.mark.parametrize("named", [False, True], ids=["all tables", "named"])
def test_the_policy_decides_unless_the_run_names_the_table(context: Context, policy: DroppedTables, named: bool) -> None:
    found = look(replace(context, pipeline=pipeline("shop.kept", policy=policy)), request("shop.gone") if named else request())
    assert found is not None
    assert str(GONE) not in found.alert
    assert bool(found.alert) == (policy is DroppedTables.ALERT and not named)
    assert (found.error is not None) == (named or policy is DroppedTables.FAIL)
    if found.error is not None:
        assert isinstance(found.error, SourceTableError)
        assert all((found.error.what, found.error.why, found.error.data, found.error.next))
        assert found.error.what.startswith(f"{GONE} is no longer declared")


def test_a_source_that_shows_none_of_several_copied_tables_stops_the_run(context: Context) -> None:
    empty = replace(context, pipeline=pipeline())
    with pytest.raises(SourceTableError, match="shows none of its 2 tables"):
        look(empty, request())
    assert look(replace(context, pipeline=pipeline(policy=DroppedTables.IGNORE)), request()) is not None


def test_a_pattern_that_matches_nothing_is_told_and_a_pipeline_without_any_table_is_refused(context: Context) -> None:
    rules = (*context.pipeline.tables, TableRule(pattern="crm.*", settings=context.pipeline.tables[0].settings, origin="shop.yaml:9"))
    here = replace(context, pipeline=replace(context.pipeline, tables=rules))
    source = open_source(here.pipeline.source, "")
    [text] = discover_all(here, source, request()).warnings
    assert "'crm.*' (shop.yaml:9) matches no table" in text
    assert discover_all(here, source, request("shop.kept")).warnings == ()
    with pytest.raises(ConfigError, match="pattern matches no table"):
        discover_all(replace(here, pipeline=replace(here.pipeline, tables=rules[1:])), source, request())


def test_runs_and_plans_show_a_table_that_is_gone_as_missing_and_it_goes_on_when_it_is_back(tmp_path: Path) -> None:
    world = DeclaredWorld(tmp_path)
    world.archive(0)
    assert world.run().status is TableRunStatus.COMMITTED
    orders = TableName.parse("shop.orders")

    def whole_run(asked: RunRequest) -> tuple[RunReport, TableState]:
        loaded = load_pipeline(world.file, {})
        with closing(world.store()) as store, closing(open_source(loaded.source, "")) as source:
            here = Context(pipeline=loaded, store=store, connect=lambda config: open_source(config, ""))
            report = run_pipeline(here, source, asked, lambda job: _fail())
            assert store.pipeline_versions("shop")[0].text == shown_file(loaded) != "", "the ledger has the file that the run worked by"
            return report, store.table_state("shop", orders)

    def numbered(number: int) -> RunRequest:
        return RunRequest(run_id=f"whole-{number}", trigger="t", holder=f"h{number}").checked()

    world.correct("    shop.orders: {id", "    shop.lines: {id")
    world.correct("  shop.orders:\n", '  "shop.*":\n')
    reports = [whole_run(numbered(number)) for number in range(2)]
    for report, state in reports:
        [line] = [run for run in report.runs if run.table == orders]
        assert line.status is TableRunStatus.IDLE
        assert line.messages.message.startswith("no longer declared")
        assert state.missing_since == reports[0][1].missing_since is not None
        assert orders not in [failure.config.table for failure in report.failures]
    alerts = [run.messages.alert for report, _ in reports for run in report.runs if run.table == orders]
    assert "no longer declared" in alerts[0]
    assert alerts[1] == ""
    world.correct("defaults: {method: log}", "defaults: {method: log, dropped_tables: fail}")
    report, state = whole_run(numbered(2))
    assert orders in [failure.config.table for failure in report.failures]
    assert state.missing_since == reports[0][1].missing_since
    world.correct("    shop.lines: {id", "    shop.orders: {id")
    report, state = whole_run(numbered(3))
    assert report.failures == ()
    assert state.missing_since is None
    assert any(text.startswith(f"{orders}: at the source again") for text in report.warnings)


def _fail() -> StepResult:
    raise JobLostError("No Spark in this test.")
