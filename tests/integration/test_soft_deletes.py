"""Rows that the application only marks as deleted: gone from the lake in every kind of run, back when the mark is taken away."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.run_request import ResyncMode
from cdc_ops.core.pipeline.tables.table_matching import resolve_tables
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import ConfigError
from cdc_ops.lake.diff.comparison import TableComparison
from cdc_ops.sources.base import open_source
from cdc_ops.steps.planning.reconcile import plan_verification
from cdc_ops.steps.runs.run import RunReport
from cdc_ops.steps.table.source_table import read_source_table
from cdc_ops.steps.verify import verify
from tests.world import World

ITEMS = (
    "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20), is_deleted TINYINT(1) NULL,"
    " updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at, id))",
    "INSERT INTO items (id, name, is_deleted) VALUES (1, 'a', 0), (2, 'b', 1), (3, 'c', NULL), (4, 'd', 0), (5, 'e', 0)",
)
DELETED = "is_deleted = 1"


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    made = World(mariadb, tmp_path, spark)
    made.configure(apply_as_deletes=DELETED)
    made.sql(*ITEMS)
    return made


def counted(report: RunReport) -> tuple[int, int, int, int]:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    [run] = report.runs
    return run.result.counts.read, run.result.counts.inserted, run.result.counts.updated, run.result.counts.deleted


def names(world: World) -> str:
    return "".join(name for _, name in world.lake("items", "id, name"))


def compared(world: World, delete_where: str) -> TableComparison:
    source = open_source(world.pipeline.source, world.url)
    try:
        [config] = resolve_tables(world.pipeline, source.tables())
        question = plan_verification(source, read_source_table(world.pipeline, source, config), 2)
        return verify(world.spark, source, replace(question, delete_where=delete_where))
    finally:
        source.close()


def test_marked_rows_are_deleted_and_come_back_in_increments(world: World) -> None:
    counted(world.run())
    assert names(world) == "acde"
    world.sql(
        "UPDATE items SET is_deleted = 1 WHERE id IN (1, 3)",
        "INSERT INTO items (id, name, is_deleted) VALUES (6, 'never seen', 1), (7, 'g', 0)",
        # Marked, taken out and put in again within one window.
        "UPDATE items SET is_deleted = 1 WHERE id = 4",
        "DELETE FROM items WHERE id = 4",
        "INSERT INTO items (id, name, is_deleted) VALUES (4, 'D', 0)",
    )
    assert counted(world.run()) == (5, 1, 1, 2)
    assert names(world) == "Deg"
    world.sql("UPDATE items SET is_deleted = 0 WHERE id IN (1, 2)")
    assert counted(world.run()) == (2, 2, 0, 0)
    assert names(world) == "abDeg"
    assert compared(world, DELETED).equal
    assert compared(world, "").only_in_source == 2


def test_resyncs_leave_marked_rows_out_too_also_by_a_column_that_is_not_stored(world: World) -> None:
    world.configure(except_column_list=("is_deleted",))
    counted(world.run())
    world.sql("UPDATE items SET is_deleted = 1, updated_at = '2020-01-01' WHERE id IN (1, 4)")
    counted(world.resync(ResyncMode.KEYS, tables=(f"{world.database}.items",), keys=(("1",), ("2",), ("3",))))
    assert names(world) == "cde"
    counted(world.resync(ResyncMode.FULL))
    assert names(world) == "ce"
    assert compared(world, DELETED).equal


def test_a_condition_on_a_column_that_is_not_there_is_refused_by_the_plan(world: World) -> None:
    world.configure(apply_as_deletes="is_delted = 1")
    [failure] = world.run().failures
    assert isinstance(failure.error, ConfigError)
    assert "Did you mean 'is_deleted'?" in str(failure.error)
    assert world.jobs == 0
