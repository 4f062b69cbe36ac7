"""Tables in Spark's catalog, from end to end, on Hive's metastore: registered after a commit, and never at its cost."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.cli.session import LocalSpark
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.state.sql import open_reader
from tests.lake_case import history
from tests.metastore import metastore_session, stored_columns
from tests.world import ORDERS, World

ROW = "INSERT INTO orders (customer, amount) VALUES ('ann', 1.5)"


@pytest.fixture(scope="module")
def metastore(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return metastore_session(spark, tmp_path_factory.mktemp("metastore"))


def world_with_orders(server: MariaDBServer, folder: Path, spark: SparkSession) -> World:
    world = World(server, folder, spark)
    world.pipeline = replace(world.pipeline, target=replace(world.pipeline.target, catalog="{schema}.{table}"))
    world.sql(ORDERS, ROW)
    return world


@pytest.fixture
def world(mariadb: MariaDBServer, metastore: SparkSession, tmp_path: Path) -> World:
    return world_with_orders(mariadb, tmp_path, metastore)


@pytest.fixture
def command(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of `cdc-ops register` for the world, in its session."""
    pipelines = world.folder / "pipelines"
    pipelines.mkdir()
    target = world.pipeline.target
    (pipelines / "shop.yaml").write_text(
        f"pipeline: shop\nsource: {{kind: mariadb, connection: shop_db}}\n"
        f"target: {{root: {target.root}, staging: {target.staging}, catalog: '{{schema}}.{{table}}'}}\n"
        f"tables:\n  {world.schema}.*: {{cursor: [updated_at, id]}}\n"
    )
    monkeypatch.setenv("CDC_OPS_LEDGER", world.ledger)
    monkeypatch.setattr(LocalSpark, "session", lambda _, **__: world.spark)
    return ["register", "shop", "--pipelines", str(pipelines)]


def told(world: World) -> str:
    """What the ledger remembers of the registration."""
    with open_reader(world.ledger) as reader:
        stats = reader.stats("shop", world.name("orders"))
    assert stats is not None
    return stats.catalog


def by_name(world: World, columns: str = "*") -> list[tuple[object, ...]]:
    rows = world.spark.sql(f"SELECT {columns} FROM {world.schema}.orders").collect()
    return sorted(tuple(row) for row in rows)


def test_a_table_is_registered_with_its_first_commit_and_told_of_again_only_with_new_columns(world: World) -> None:
    assert not world.run().warnings
    assert by_name(world) == world.lake("orders")
    assert stored_columns(world.spark, world.schema, "orders")[0] == ("id", "long")
    first = told(world)
    world.sql("ALTER TABLE orders ADD note VARCHAR(20)", "ALTER TABLE orders MODIFY amount DECIMAL(18,2) NOT NULL", ROW)
    report = world.run()
    assert not report.failures
    assert dict(stored_columns(world.spark, world.schema, "orders")).keys() >= {"note"}
    assert dict(stored_columns(world.spark, world.schema, "orders"))["amount"] == "decimal(18,2)"
    assert len(by_name(world, "note")) == 2
    assert told(world) != first != ""
    assert world.data_commits("orders") == [1, 2], "what tells the metastore is no commit of an operation"
    second = told(world)
    world.sql(ROW)
    assert not world.run().failures, "and the next operation finds the table where it stands"
    assert told(world) == second
    assert [name for _, name in _commits(world)].count("SET TBLPROPERTIES") == 1, "a table whose columns stay costs nothing"
    assert world.lake("orders", "id, note") == world.source("orders", "id, note")


def _commits(world: World) -> list[tuple[int, str]]:
    return [(row["version"], row["operation"]) for row in history(world.spark, world.path("orders"))]


def test_a_name_that_is_taken_fails_no_run_is_an_alert_and_is_tried_again_when_it_is_free(world: World, command: list[str]) -> None:
    elsewhere = world.folder / "elsewhere"
    world.spark.sql(f"CREATE SCHEMA {world.schema}")
    world.spark.sql(f"CREATE TABLE {world.schema}.orders (x INT) USING delta LOCATION '{elsewhere}'")
    report = world.run()
    assert not report.failures
    assert world.lake("orders", "id") == [(1,)]
    [text] = [text for text in report.warnings if "catalog" in text]
    assert str(elsewhere) in text
    assert world.path("orders") in text
    assert world.wrong() == [AlertKind.CATALOG]
    assert told(world) == ""
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 4
    assert "catalog_name" in refused.output, "it says what to do"
    assert [column for column, _ in by_name_columns(world)] == ["x"], "and leaves the other table alone"
    world.spark.sql(f"DROP TABLE {world.schema}.orders")
    world.sql(ROW)
    assert not world.run().warnings
    assert len(by_name(world)) == 2
    assert world.wrong() == []


def by_name_columns(world: World) -> list[tuple[str, str]]:
    return [(column.name, column.dataType) for column in world.spark.catalog.listColumns(f"{world.schema}.orders")]


def test_register_brings_back_a_name_that_somebody_dropped_and_names_tables_that_were_there_before(
    world: World, command: list[str]
) -> None:
    named, world.pipeline = world.pipeline, replace(world.pipeline, target=replace(world.pipeline.target, catalog=""))
    world.run()
    assert not world.spark.catalog.tableExists(f"{world.schema}.orders")
    world.pipeline = named
    for expected in ("registered as", "is registered as"):
        done = CliRunner().invoke(app, command)
        assert (done.exit_code, f"{world.schema}.orders {expected} {world.schema}.orders" in done.output) == (0, True), done.output
    world.spark.sql(f"DROP TABLE {world.schema}.orders")
    assert CliRunner().invoke(app, [*command, "--table", f"{world.schema}.orders"]).exit_code == 0
    assert by_name(world) == world.lake("orders")


def test_a_catalog_in_memory_is_refused_because_the_name_would_be_gone_and_the_rows_are_committed(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = world_with_orders(mariadb, tmp_path, spark)
    report = world.run()
    assert not report.failures
    assert world.lake("orders", "id") == [(1,)]
    assert "Spark has no metastore" in " ".join(report.warnings)
    assert world.wrong() == [AlertKind.CATALOG]
