"""Tables of one folder through whole runs: one reading, records of unknown tables, a failure in the middle."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.run_request import ResyncMode
from cdc_ops.core.pipeline.archive_config import OnUnknownTable
from cdc_ops.core.pipeline.pipeline import TableRule
from cdc_ops.core.pipeline.tables.paths import quarantine_path
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import UnforeseenJobError, UnknownTablesError
from cdc_ops.lake.quarantine.read import read_quarantine
from cdc_ops.steps.log import land_events
from cdc_ops.steps.runs.run import RunReport
from tests.integration.test_log_method import ITEMS, Sink, change, log_world
from tests.stores import place
from tests.world import World


def with_policy(world: World, policy: OnUnknownTable, *rules: TableRule) -> None:
    archive = replace(world.pipeline.archive, unknown_tables=policy)
    world.pipeline = replace(world.pipeline, archive=archive, tables=(*world.pipeline.tables, *rules))


def errors(report: RunReport) -> dict[str, type[Exception]]:
    return {failure.config.table.name: type(failure.error) for failure in report.failures}


def test_records_of_unknown_tables_are_set_aside_once_and_a_run_after_a_failure_in_the_middle_loses_and_doubles_nothing(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.pipeline = replace(world.pipeline, archive=replace(world.pipeline.archive, url=str(place(tmp_path) / "archive")))
    world.sql(ITEMS.replace("items", "a"), ITEMS.replace("items", "b"))
    sink = Sink(tmp_path / "archive", world.database, "all")

    def event(table: str, number: int, database: str = "") -> dict[str, Any]:
        row = {"id": number, "name": table, "price": "1.00"}
        return change("c", 100 * sink.offset + number, after=row, table=table, database=database or world.database)

    def set_aside(table: str) -> list[tuple[int, str]]:
        return [(one.line, one.reason) for one in read_quarantine(quarantine_path(world.pipeline, world.name(table)))]

    genuine = land_events.land_folded

    def fails_for_b(session: Any, operation: Any, *others: Any) -> Any:
        if operation.table.name == "b":
            raise RuntimeError("the disk is full")
        return genuine(session, operation, *others)

    sink.write(event("a", 1), event("b", 1), event("tmp", 1, "elsewhere"), event("b", 2), event("tmp", 2, "elsewhere"))
    with_policy(world, OnUnknownTable.FAIL)
    report = world.run()
    assert errors(report) == {"a": UnknownTablesError, "b": UnknownTablesError}
    assert "2 of elsewhere.tmp" in str(report.failures[0].error)
    assert [line for line in caplog.messages if "read once for 2 tables" in line]
    # What the pipeline file says now holds for what was frozen before.
    with_policy(world, OnUnknownTable.QUARANTINE)
    monkeypatch.setattr(land_events, "land_folded", fails_for_b)
    report = world.run()
    assert errors(report) == {"b": UnforeseenJobError}
    [told] = [text for text in report.warnings if "2 of elsewhere.tmp" in text]
    assert told.startswith(f"{world.name('a')}: 2 records are in quarantine")
    monkeypatch.setattr(land_events, "land_folded", genuine)
    report = world.run()
    assert not report.failures
    assert not [text for text in report.warnings if "elsewhere.tmp" in text]  # the table that looks after them has passed them
    assert (world.lake("a", "id"), world.lake("b", "id")) == ([(1,)], [(1,), (2,)])
    reason = "the record is of table elsewhere.tmp, which the pipeline file does not name"
    assert (set_aside("a"), set_aside("b")) == ([(2, reason), (4, reason)], [])
    # A table that is known by now is in quarantine no longer.
    with_policy(world, OnUnknownTable.QUARANTINE, TableRule(pattern="elsewhere.*", settings=world.settings, exclude=True))
    assert not world.resync(ResyncMode.QUARANTINE, tables=(str(world.name("a")),)).failures
    assert (set_aside("a"), world.lake("a", "id")) == ([], [(1,)])
