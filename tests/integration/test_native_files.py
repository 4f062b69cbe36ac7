"""Data files written by the tasks that read natively, end to end: exact as Spark's, Spark's where they could not be, and none left over."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.pipeline.pipeline import Reader
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, MySQLServer, PostgresServer
from cdc_ops.errors import SourceUnreachableError
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.steps.runs.run import RunReport
from tests.corpus import POSTGRES_CASES, cases, create_postgres_table, plain, postgres_name
from tests.integration.test_native_reader import MANY, done, lost_in_the_middle, native_world, on_the_way
from tests.stores import at
from tests.world import ORDERS, World

BY_TASKS, BY_SPARK = "parquet-cpp-arrow", "parquet-mr"


def log_of(world: World, table: str) -> list[dict[str, Any]]:
    """Returns all actions of a table's log."""
    folder = at(f"{world.path(table)}/_delta_log")
    return [json.loads(line) for file in sorted(folder.glob("*.json"), key=str) for line in file.read_text("utf-8").splitlines()]


def files_of(world: World, table: str) -> dict[str, str]:
    """Returns who wrote the data files of a table: all that are there, whether the log names them or not."""
    filesystem, inner = open_filesystem(world.path(table))
    names = [name for name in filesystem.ls(inner, detail=False) if str(name).endswith(".parquet")]
    return {str(name).rpartition("/")[2]: str(pq.read_metadata(name, filesystem=filesystem).created_by) for name in names}


def written_by(world: World, table: str) -> set[str]:
    """Returns who wrote the data files of a table, once it is sure that its log names all of them."""
    found = files_of(world, table)
    assert set(found) == {action["add"]["path"] for action in log_of(world, table) if "add" in action}
    return {writer.partition(" ")[0] for writer in found.values()}


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = native_world(mariadb, tmp_path, spark)
    world.sql(ORDERS, MANY)
    return world


def test_a_snapshot_is_one_commit_of_files_that_tasks_wrote_and_increments_go_on_from_it(world: World) -> None:
    report = done(world.run())
    [run] = report.runs
    assert (run.result.counts.inserted, run.result.counts.read) == (30_000, 30_000)
    assert written_by(world, "orders") == {BY_TASKS}
    assert world.data_commits("orders") == [1]
    assert world.lake("orders") == world.source("orders")
    world.sql(
        "UPDATE orders SET amount = 1 WHERE id = 7",
        "DELETE FROM orders WHERE id = 8",
        "INSERT INTO orders (customer, amount) VALUES ('x', 2)",
    )
    done(world.run())
    assert world.lake("orders", "id, amount")[5:7] == [(6, world.lake("orders")[5][2]), (7, 1)]
    assert len(world.lake("orders")) == 30_001


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_every_plain_value_of_mysql_is_in_the_files_of_tasks_as_spark_would_store_it(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    world = native_world(server, tmp_path, spark)
    chosen = [case for case in cases(server) if case[2] is not None and case[:2] != ("BIGINT UNSIGNED", str(2**64 - 1))]
    columns = ", ".join(f"c{index} {declared}" for index, (declared, _, _) in enumerate(chosen))
    world.sql(
        f"CREATE TABLE hostile (id INT PRIMARY KEY, {columns}, updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6)) CHARACTER SET utf8mb4",
        "SET sql_mode = '', time_zone = '+00:00'",
        "SET NAMES utf8mb4",
        f"INSERT INTO hostile VALUES (1, {', '.join(literal for _, literal, _ in chosen)}, NOW(6)), (2, {'NULL, ' * len(chosen)} NOW(6))",
    )
    done(world.run())
    frame = world.spark.read.format("delta").load(world.path("hostile"))
    first, second = frame.orderBy("id").collect()
    types = [field.dataType.simpleString() for field in frame.schema.fields][1:-1]
    found = [plain(value, stored) for value, stored in zip(first[1:-1], types, strict=True)]
    wrong = [(case, value) for case, value in zip(chosen, found, strict=True) if value != case[2]]
    assert wrong == []
    assert set(second[1:-1]) == {None}
    assert len(found) > 40
    assert written_by(world, "hostile") == {BY_TASKS}


@pytest.mark.parametrize(
    ("values", "nulled"),
    [
        ("'0000-00-00', '2024-01-01'", 1),
        ("'2024-02-31', '2024-01-01'", 1),
        ("'2024-01-01', '0000-00-00'", 1),
        ("'0000-02-01', '2024-01-01'", 0),
    ],
)
def test_rows_with_a_date_that_is_not_plain_are_sparks_and_what_was_lost_is_counted(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, values: str, nulled: int
) -> None:
    world = native_world(mariadb, tmp_path, spark)
    world.sql(
        "CREATE TABLE people (id INT PRIMARY KEY, born DATE, seen DATETIME, updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6),"
        " KEY (updated_at, id))",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        f"INSERT INTO people (id, born, seen) VALUES (1, {values}), (2, '2024-01-02', '2024-01-02 03:04:05')",
    )
    [run] = done(world.run()).runs
    assert sum(one.values for one in run.result.counts.nulled.columns) == nulled
    [why] = run.result.counts.repairs.not_by_tasks
    assert why in [f"column {name!r} has a date that is none, or before March of the year 0" for name in ("born", "seen")]
    assert f"Spark read the rows once more and wrote them, because tasks could not ({why})" in run.result.counts.warning
    assert written_by(world, "people") == {BY_SPARK}
    assert [row[1:] for row in world.lake("people", "id, born IS NULL OR seen IS NULL")] == [(bool(nulled),), (False,)]


def test_a_value_that_a_bigint_does_not_hold_widens_the_column_and_leaves_no_file_behind(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = native_world(mariadb, tmp_path, spark)
    world.sql(
        "CREATE TABLE items (id BIGINT UNSIGNED PRIMARY KEY, updated_at DATETIME(6) NOT NULL DEFAULT NOW(6), KEY (updated_at, id))",
        f"INSERT INTO items (id) VALUES (1), ({2**63 - 1})",
    )
    done(world.run())
    assert written_by(world, "items") == {BY_TASKS}
    world.sql(f"INSERT INTO items (id) VALUES ({2**64 - 1})")
    done(world.run())
    assert [int(row[0]) for row in world.lake("items", "id")] == [1, 2**63 - 1, 2**64 - 1]


def test_a_connection_that_ends_in_the_middle_leaves_no_file_of_any_slice(mysql: MySQLServer, spark: SparkSession, tmp_path: Path) -> None:
    world = native_world(mysql, tmp_path, spark)
    world.configure(parallelism=4)
    world.sql(ORDERS, MANY)
    cut: list[bool] = []

    def act() -> bool:
        cut.append(True)
        return len(cut) != 3  # two slices come through

    with on_the_way(world, 100_000, act):
        report = world.run()
    assert len(cut) >= 3
    [failure] = report.failures
    assert isinstance(failure.error, SourceUnreachableError), failure.error
    assert files_of(world, "orders") == {}
    done(world.run())
    assert written_by(world, "orders") == {BY_TASKS}
    assert world.lake("orders") == world.source("orders")


@pytest.mark.parametrize(
    "settings",
    [{"properties": (("delta.enableRowTracking", "true"),)}, {"partition_by": ("customer",)}],
    ids=["row tracking", "partitions"],
)
def test_a_table_that_asks_more_of_its_files_gets_those_of_spark(world: World, settings: dict[str, Any]) -> None:
    world.configure(**settings)
    world.sql("DELETE FROM orders WHERE id > 100")
    done(world.run())
    assert {writer.partition(" ")[0] for writer in kinds(world)} == {BY_SPARK}
    assert world.lake("orders") == world.source("orders")


def kinds(world: World) -> list[str]:
    filesystem, inner = open_filesystem(world.path("orders"))
    return [str(pq.read_metadata(name, filesystem=filesystem).created_by) for name in filesystem.glob(f"{inner}/**/part-*.parquet")]


def test_jdbc_reads_as_before(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = native_world(mariadb, tmp_path, spark, Reader.JDBC)
    world.sql(ORDERS, MANY)
    report: RunReport = done(world.run())
    assert report.runs[0].result.counts.inserted == 30_000
    assert written_by(world, "orders") == {BY_SPARK}
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, reader=Reader.NATIVE))
    world.sql("UPDATE orders SET amount = 3 WHERE id = 1")
    done(world.run())
    assert world.lake("orders") == world.source("orders")


PLACES = (
    "CREATE TABLE places (id bigint PRIMARY KEY, name text, born date, seen timestamp, since timestamptz, price numeric(10,2),"
    " updated_at timestamptz NOT NULL DEFAULT clock_timestamp())",
    "CREATE INDEX ON places (updated_at, id)",
)


def test_every_plain_value_of_postgres_is_in_the_files_of_tasks_as_spark_would_store_it(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path
) -> None:
    worlds = [native_world(postgres, tmp_path / reader, spark, reader) for reader in (Reader.NATIVE, Reader.JDBC)]
    none = [index for index, (kind, printed, _) in enumerate(POSTGRES_CASES) if printed.startswith("NULL")]
    found = []
    for world in worlds:
        world.folder.mkdir()
        create_postgres_table(world)
        world.sql(f"DELETE FROM hostile WHERE id / 100 IN ({', '.join(map(str, none))})")
        for index, _ in enumerate(POSTGRES_CASES):  # names that need no mapping of columns
            world.sql(f'ALTER TABLE hostile RENAME COLUMN "{postgres_name(index).replace(chr(34), chr(34) * 2)}" TO c{index}')
        done(world.run())
        frame = world.spark.read.format("delta").load(world.path("hostile")).drop("updated_at").orderBy("id")
        found.append((frame.schema, [repr(row) for row in frame.collect()]))
    assert found[0] == found[1]
    assert len(found[0][1]) > 50
    assert [written_by(world, "hostile") for world in worlds] == [{BY_TASKS}, {BY_SPARK}]


@pytest.mark.parametrize("column", ["born = '-infinity'", "seen = 'infinity'", "since = '-infinity'", "price = 'NaN'"])
def test_rows_of_postgres_with_a_value_that_is_none_are_sparks_and_what_was_lost_is_counted(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path, column: str
) -> None:
    world = native_world(postgres, tmp_path, spark)
    day, price = "'2024-01-02 03:04:05.678901'", "1.50"
    world.sql(*PLACES, f"INSERT INTO places SELECT n, 'p' || n, {day}, {day}, {day}, {price} FROM generate_series(1, 100) AS n")
    world.sql(f"UPDATE places SET {column} WHERE id = 7")
    [run] = done(world.run()).runs
    assert sum(one.values for one in run.result.counts.nulled.columns) == 1
    assert len(run.result.counts.repairs.not_by_tasks) == 1
    assert written_by(world, "places") == {BY_SPARK}
    name = column.partition(" ")[0]
    assert [row[0] for row in world.lake("places", "id, name, born, seen, since, price") if None in row] == [7]
    assert world.lake("places", f"id, {name} IS NULL")[6] == (7, True)


def test_postgres_rows_of_any_size_arrive_and_increments_go_on(postgres: PostgresServer, spark: SparkSession, tmp_path: Path) -> None:
    world = native_world(postgres, tmp_path, spark)
    size = 32 << 20
    world.sql(*PLACES, "INSERT INTO places (id, name) SELECT n, 'p' || n FROM generate_series(1, 40000) AS n")
    world.sql(f"UPDATE places SET name = repeat('ü', {size // 2}) WHERE id = 4711")
    [run] = done(world.run()).runs
    assert run.result.counts.inserted == 40_000
    assert written_by(world, "places") == {BY_TASKS}
    assert world.lake("places", "id, octet_length(name)")[4710] == (4711, size)
    world.sql(
        "UPDATE places SET price = 9, updated_at = now() WHERE id <= 5",
        "UPDATE places SET name = 'short', updated_at = now() WHERE id = 4711",
    )
    done(world.run())
    assert [row[0] for row in world.lake("places", "id, price") if row[1] is not None] == [1, 2, 3, 4, 5]
    assert world.lake("places", "id, name") == world.source("places", "id, name")


def test_a_connection_to_postgres_that_ends_in_the_middle_is_a_retry_and_leaves_no_file(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = native_world(postgres, tmp_path, spark)
    world.sql(*PLACES, "INSERT INTO places (id, name) SELECT n, repeat('p', 50) FROM generate_series(1, 40000) AS n")
    lost_in_the_middle(world)
    assert files_of(world, "places") == {}
    done(world.run())
    assert len(world.lake("places")) == 40_000
