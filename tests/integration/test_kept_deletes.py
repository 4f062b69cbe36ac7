"""Soft deletes from end to end: what the source deletes stays in the lake, marked, with its last values, until it comes back."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.pipeline.tables.table_matching import resolve_tables
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import DeletesRefusedError, SchemaChangedError
from cdc_ops.lake.diff.comparison import TableComparison
from cdc_ops.sources.base import open_source
from cdc_ops.steps.planning.reconcile import plan_verification
from cdc_ops.steps.runs.run import RunReport
from cdc_ops.steps.table.source_table import read_source_table
from cdc_ops.steps.verify import verify
from tests.world import World

ITEMS = (
    "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20), gone TINYINT(1) NOT NULL DEFAULT 0,"
    " updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at, id))",
    "INSERT INTO items (id, name) SELECT seq, CONCAT('v', seq) FROM seq_1_to_20",
)


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    made = World(mariadb, tmp_path, spark)
    made.sql(*ITEMS)
    return made


def counted(report: RunReport) -> tuple[int, int, int]:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    [run] = report.runs
    return run.result.counts.inserted, run.result.counts.updated, run.result.counts.deleted


def marks(world: World, *ids: int) -> list[tuple[object, ...]]:
    return [row for row in world.lake("items", "id, name, _deleted") if row[0] in ids]


def compared(world: World) -> TableComparison:
    source = open_source(world.pipeline.source, world.url)
    try:
        [config] = resolve_tables(world.pipeline, source.tables())
        return verify(world.spark, source, plan_verification(source, read_source_table(world.pipeline, source, config), 2))
    finally:
        source.close()


def is_equal(world: World) -> bool:
    return compared(world).equal


def reconcile(world: World) -> RunReport:
    return world.run(kind=RunKind.RECONCILE)


def test_rows_stay_marked_until_they_come_back_and_verify_does_not_miss_them(world: World) -> None:
    world.configure(deletes=Deletes.SOFT)
    assert counted(world.run()) == (20, 0, 0)
    assert set(world.lake("items", "_deleted")) == {(False,)}
    world.sql("DELETE FROM items WHERE id IN (1, 2)")
    assert not is_equal(world)
    assert counted(reconcile(world)) == (0, 0, 2)
    assert marks(world, 1, 2, 3) == [(1, "v1", True), (2, "v2", True), (3, "v3", False)]
    assert is_equal(world)
    commits = world.data_commits("items")
    assert not reconcile(world).failures
    assert world.data_commits("items") == commits  # what is marked already is no difference
    # One comes back by an increment, one by a reconcile: its cursor is where no window comes.
    world.sql("INSERT INTO items (id, name) VALUES (1, 'back')")
    assert counted(world.run()) == (0, 1, 0)
    world.sql("INSERT INTO items (id, name, updated_at) VALUES (2, 'old', '2020-01-01')")
    assert counted(reconcile(world)) == (0, 1, 0)
    assert marks(world, 1, 2) == [(1, "back", False), (2, "old", False)]
    # A resync of keys marks what it does not find, once.
    world.sql("DELETE FROM items WHERE id IN (3, 4)")
    keys = {"tables": (f"{world.database}.items",), "keys": (("3",), ("5",))}
    assert counted(world.resync(ResyncMode.KEYS, **keys)) == (0, 1, 1)
    assert counted(world.resync(ResyncMode.KEYS, **keys)) == (0, 1, 0)
    # A new generation keeps what was marked, and marks what is gone.
    counted(world.resync(ResyncMode.FULL))
    assert marks(world, 3, 4, 5) == [(3, "v3", True), (4, "v4", True), (5, "v5", False)]
    assert is_equal(world)
    # The guard counts living rows, and marking is deleting to it.
    world.sql("DELETE FROM items")
    [failure] = reconcile(world).failures
    assert isinstance(failure.error, DeletesRefusedError)
    assert "18 of 18 rows" in failure.error.what


def test_rows_that_the_application_marks_are_stored_with_their_mark(world: World) -> None:
    world.configure(deletes=Deletes.SOFT, apply_as_deletes="gone = 1")
    world.sql("UPDATE items SET gone = 1 WHERE id = 1")
    assert counted(world.run()) == (20, 0, 0)
    world.sql("UPDATE items SET gone = 1, name = 'last' WHERE id = 2", "UPDATE items SET name = 'once more' WHERE id = 1")
    assert counted(world.run()) == (0, 1, 1)
    world.sql("UPDATE items SET gone = 0 WHERE id = 1", "DELETE FROM items WHERE id = 3")
    assert counted(world.run()) == (0, 1, 0)
    assert counted(reconcile(world)) == (0, 0, 1)
    assert marks(world, 1, 2, 3) == [(1, "once more", False), (2, "last", True), (3, "v3", True)]
    assert is_equal(world)


def test_a_hard_table_becomes_soft_at_the_cost_of_what_changes_and_hard_again_by_a_full_resync(world: World) -> None:
    world.configure(cursor=())
    counted(world.run())
    world.configure(deletes=Deletes.SOFT)
    world.sql("DELETE FROM items WHERE id = 1", "UPDATE items SET name = 'new' WHERE id = 2")
    assert counted(world.run()) == (0, 1, 1)
    assert marks(world, 1, 2, 3) == [(1, "v1", True), (2, "new", False), (3, "v3", None)]
    assert is_equal(world)
    counted(world.run(kind=RunKind.BACKFILL, columns=("_deleted",)))
    assert marks(world, 1, 3) == [(1, "v1", True), (3, "v3", False)]
    world.configure(deletes=Deletes.HARD)
    [failure] = world.run().failures
    assert isinstance(failure.error, SchemaChangedError)
    counted(world.resync(ResyncMode.FULL))
    assert world.lake("items", "*") == world.source("items", "*")
    assert is_equal(world)


def test_what_ignores_deletes_keeps_every_row_in_every_kind_of_run(world: World) -> None:
    world.configure(deletes=Deletes.IGNORE, apply_as_deletes="gone = 1", except_column_list=("gone",))
    assert counted(world.run()) == (20, 0, 0)
    world.sql(
        "UPDATE items SET gone = 1, name = 'never seen' WHERE id = 1",
        "DELETE FROM items WHERE id IN (2, 3)",
        "UPDATE items SET name = 'new' WHERE id = 4",
        "UPDATE items SET name = 'lost', updated_at = '2020-01-01' WHERE id = 5",
    )
    assert counted(world.run()) == (0, 1, 0)
    assert counted(reconcile(world)) == (0, 1, 0)
    commits = world.data_commits("items")
    assert counted(reconcile(world)) == (0, 0, 0)
    assert world.data_commits("items") == commits
    assert counted(world.resync(ResyncMode.KEYS, tables=(f"{world.database}.items",), keys=(("2",), ("4",)))) == (0, 1, 0)
    counted(world.resync(ResyncMode.FULL))
    names = [name for _, name in world.lake("items", "id, name")]
    assert names[:6] == ["v1", "v2", "v3", "new", "lost", "v6"]
    assert len(names) == 20
    found = compared(world)
    assert found.equal
    assert (found.kept, found.only_in_lake, found.samples) == (3, 0, ())
