"""Metadata columns from end to end: each row says which commit wrote it last, what that did to it, and when."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import cdc_ops
from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.apply.metadata_columns import MetadataColumns
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import SchemaChangedError
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.read.current import find_current, view_statement
from cdc_ops.steps.runs.run import RunReport
from tests.world import World

ITEMS = (
    "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20), updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6),"
    " KEY (updated_at, id))",
    "INSERT INTO items (id, name) SELECT seq, CONCAT('v', seq) FROM seq_1_to_5",
)
OWN = MetadataColumns(op="did", synced_at="seen_at", operation="batch", deleted="is_gone", deleted_at="gone_at")


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    made = World(mariadb, tmp_path, spark)
    made.sql(*ITEMS)
    return made


def done(report: RunReport) -> None:
    assert not report.failures, [str(failure.error) for failure in report.failures]


def metadata_of(world: World) -> dict[object, tuple[object, ...]]:
    return {row[0]: row[1:] for row in world.lake("items", "id, did, batch, is_gone, gone_at = seen_at")}


def test_each_row_says_what_the_commit_that_wrote_it_last_did_to_it(world: World) -> None:
    path = world.path("items")
    world.configure(change_feed=True)
    done(world.run())
    # A table that exists gets the columns; of the rows that are there nothing is known.
    world.configure(change_feed=True, deletes=Deletes.SOFT, metadata_columns=OWN)
    world.sql("UPDATE items SET name = 'new' WHERE id = 2", "INSERT INTO items (id, name) VALUES (6, 'v6')")
    done(world.run())
    assert metadata_of(world) == {
        **dict.fromkeys((1, 3, 4, 5), (None, None, None, None)),
        2: ("u", 2, False, None),
        6: ("i", 2, False, None),
    }
    world.sql("DELETE FROM items WHERE id IN (1, 2)")
    done(world.run(kind=RunKind.RECONCILE))
    first = world.lake("items", "id, seen_at, gone_at")
    assert {key: metadata_of(world)[key] for key in (1, 2)} == {1: ("d", 3, True, True), 2: ("d", 3, True, True)}
    world.sql("DELETE FROM items WHERE id = 3", "INSERT INTO items (id, name) VALUES (2, 'back')")
    done(world.run(kind=RunKind.RECONCILE))
    assert {key: metadata_of(world)[key] for key in (1, 2, 3)} == {
        1: ("d", 3, True, True),
        2: ("u", 4, False, None),
        3: ("d", 4, True, True),
    }
    # A new generation is written as a whole; what only the lake has stays as it was.
    done(world.resync(ResyncMode.FULL))
    assert metadata_of(world) == {
        **dict.fromkeys((2, 4, 5, 6), ("r", 5, False, None)),
        1: ("d", 3, True, True),
        3: ("d", 4, True, True),
    }
    assert world.lake("items", "id, seen_at, gone_at")[0] == first[0]
    [start] = world.spark.sql(f"SELECT max(seen_at) FROM delta.`{path}`").first() or ()
    assert abs((start - world.source("items", "NOW(6)")[0][0]).total_seconds()) < 86_400  # an instant of the source's clock
    # Who follows the table, or looks at its current rows, is not told of them; the marks of deletes are the row's.
    world.sql("UPDATE items SET name = 'newer' WHERE id = 4")
    done(world.run())
    [change] = cdc_ops.changes(world.spark, path, begin=(DeltaLog(path).newest() or 0) - 1).collect()
    assert list(change["after"].asDict()) == ["id", "name", "updated_at", "is_gone", "gone_at"]
    assert (change["op"], change["after"]["name"]) == ("u", "newer")
    assert find_current(path).query.endswith("WHERE NOT COALESCE(`is_gone`, FALSE)")
    world.spark.sql(view_statement("items_now", path).replace("VIEW", "TEMPORARY VIEW"))
    assert sorted(map(tuple, world.spark.table("items_now").collect())) == world.source("items", "*")
    # A name stays, until the table is replaced.
    world.configure(deletes=Deletes.SOFT, metadata_columns=MetadataColumns(deleted="is_gone", deleted_at="gone_at", op="what"))
    [failure] = world.run().failures
    assert isinstance(failure.error, SchemaChangedError)
    assert "has the metadata column 'did', which the pipeline file calls 'what'" in str(failure.error)
