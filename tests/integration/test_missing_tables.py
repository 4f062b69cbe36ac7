"""Tables that the source does not show any more: dropped, renamed, hidden from the user; and entries that mean no table."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import TableRule
from cdc_ops.core.pipeline.tables.dropped_tables import DroppedTables
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import ConfigError, SourceTableError
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.discovery import discover_all
from cdc_ops.steps.plan import TablePlan, plan_table
from cdc_ops.steps.runs.run import RunReport
from tests.world import World, request

TABLE = "CREATE TABLE {} (id BIGINT PRIMARY KEY, v INT, updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at))"


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    """Three tables, two of them copied under a pattern and the third, `kept`, too: so that the source always shows one."""
    world = World(mariadb, tmp_path, spark)
    for name in ("gone", "kept"):
        world.sql(TABLE.format(name), f"INSERT INTO {name} (id, v) VALUES (1, 1), (2, 2)")
    world.configure(cursor=("updated_at",))
    assert not world.run().failures
    return world


def line(report: RunReport, name: str) -> tuple[TableRunStatus, str]:
    [run] = [run for run in report.runs if run.table.name == name]
    return run.status, run.messages.alert


def planned(world: World) -> dict[str, TablePlan]:
    context, source = world.context(), world._connect(world.pipeline.source)
    try:
        configs = discover_all(context, source, request()).tables
        return {config.table.name: plan_table(context, source, request(), config) for config in configs}
    finally:
        source.close()
        context.store.close()


def test_a_dropped_table_is_named_alerts_once_and_goes_on_when_it_is_back(world: World) -> None:
    before = world.lake("gone")
    world.sql("DROP TABLE gone", "INSERT INTO kept (id, v) VALUES (3, 3)")
    assert "dropped or renamed, or the user lost the SELECT privilege" in planned(world)["gone"].alert
    first = world.run()
    assert not first.failures
    status, alert = line(first, "gone")
    assert status is TableRunStatus.IDLE
    assert "dropped or renamed, or the user lost the SELECT privilege" in alert
    [told] = [text for text in first.warnings if "no longer at the source" in text]
    assert told.startswith(f"{world.database}.gone: no longer at the source: it was dropped")
    assert line(first, "kept")[0] is TableRunStatus.COMMITTED
    since = world.state("gone").missing_since
    assert since is not None

    second = world.run()
    assert line(second, "gone") == (TableRunStatus.IDLE, "")
    assert next(run.messages.message for run in second.runs if run.table.name == "gone").startswith("no longer at the source")
    assert not any("gone" in text for text in second.warnings)
    assert world.state("gone").missing_since == since
    assert world.lake("gone") == before
    plan = planned(world)["gone"]
    assert (plan.alert, plan.operations) == ("", ())
    assert "no longer at the source" in plan.new.idle

    named = world.run(tables=(f"{world.database}.gone",))
    assert [type(failure.error) for failure in named.failures] == [SourceTableError]
    world.configure(dropped_tables=DroppedTables.FAIL)
    failing = world.run()
    assert [failure.config.table.name for failure in failing.failures] == ["gone"]
    assert "SELECT" in str(failing.failures[0].error)
    world.configure(dropped_tables=DroppedTables.IGNORE)
    assert not world.run().failures

    world.sql(TABLE.format("gone"), "INSERT INTO gone (id, v) VALUES (1, 10), (7, 7)")
    back = world.run()
    assert not back.failures
    assert any("at the source again" in text and "resync" in text for text in back.warnings)
    assert world.state("gone").missing_since is None
    assert dict(world.lake("gone", "id, v")) == {1: 10, 2: 2, 7: 7}
    assert not any("again" in text for text in world.run().warnings)


def test_tables_that_are_excluded_or_no_longer_covered_are_not_missing(world: World) -> None:
    world.sql("RENAME TABLE gone TO away")
    rules = world.pipeline.tables
    world.pipeline = replace(world.pipeline, tables=(*rules, TableRule(pattern="*.gone", settings=world.settings, exclude=True)))
    assert "gone" not in planned(world)
    world.pipeline = replace(world.pipeline, tables=(TableRule(pattern=f"{world.database}.kept", settings=world.settings),))
    assert set(planned(world)) == {"kept"}
    world.pipeline = replace(world.pipeline, tables=rules)
    plans = planned(world)
    assert plans["gone"].alert
    assert plans["away"].operations, "under its new name it is a new table"


def test_a_revoked_grant_looks_like_a_dropped_table_and_a_source_that_shows_nothing_stops_the_run(world: World) -> None:
    user, account = f"few_{world.database}", f"'few_{world.database}'@'%'"
    world.sql(f"CREATE USER {account} IDENTIFIED BY 'pw'", f"GRANT PROCESS ON *.* TO {account}", f"GRANT SELECT ON kept TO {account}")
    world.sql(f"GRANT EXECUTE ON {world.database}.* TO {account}")  # lets the user into the database, and shows none of its tables
    server = world.server
    world.url = ConnectionUrl.from_parts("mysql", server.host, server.port, user, "pw", world.database).render()
    assert "the user lost the SELECT privilege" in planned(world)["gone"].alert
    world.sql(f"GRANT SELECT ON gone TO {account}", f"REVOKE SELECT ON kept FROM {account}")
    assert "the user lost the SELECT privilege" in planned(world)["kept"].alert
    world.sql(f"REVOKE SELECT ON gone FROM {account}")
    with pytest.raises(SourceTableError, match="shows none of its 2 tables"):
        planned(world)


def test_an_exact_name_that_the_source_has_not_fails_alone_and_a_pattern_without_tables_is_a_warning(world: World) -> None:
    def rule(pattern: str) -> TableRule:
        return TableRule(pattern=f"{world.database}.{pattern}", settings=world.settings)

    world.pipeline = replace(world.pipeline, tables=(rule("never"), rule("kept"), rule("invoice_*")))
    world.sql("INSERT INTO kept (id, v) VALUES (4, 4)")
    report = world.run()
    assert [failure.config.table.name for failure in report.failures] == ["never"]
    error = report.failures[0].error
    assert isinstance(error, SourceTableError)
    assert all((error.what, error.why, error.data, error.next))
    assert not report.retryable
    assert line(report, "kept")[0] is TableRunStatus.COMMITTED
    assert line(report, "never")[0] is TableRunStatus.FAILED
    assert any("invoice_*" in text and "matches no table" in text for text in report.warnings)
    world.pipeline = replace(world.pipeline, tables=(rule("never"),))
    with pytest.raises(ConfigError, match="no such table"):
        world.run()
