"""The hostile corpus in the lake: each value as the server has it, after a snapshot (JDBC to Delta) and an increment (over Parquet)."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.pipeline.pipeline import Reader
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from cdc_ops.sources.base import open_source
from cdc_ops.steps.query.jdbc_rows import read_source
from cdc_ops.steps.runs.run import RunReport
from tests.corpus import assert_as_postgres_prints, cases, create_postgres_table, plain
from tests.world import World


def counted(report: RunReport) -> tuple[int, int]:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    [run] = report.runs
    return run.result.counts.inserted, run.result.counts.updated


def schema_of(world: World) -> TableSchema:
    source = open_source(world.pipeline.source, world.url)
    try:
        return source.schema(world.name("hostile"))
    finally:
        source.close()


def wrong_values(world: World, server: DatabaseServer) -> list[tuple[str, str, object, object]]:
    """The cases whose value in the lake is not the expected one."""
    types = [column.delta_type for column in schema_of(world).columns]
    [row] = world.spark.read.format("delta").load(world.path("hostile")).where("id = 1").collect()
    return [
        (declared, literal, value, expected)
        for (declared, literal, expected), value, stored in zip(cases(server), row[1:], types[1:], strict=False)
        if plain(value, stored) != expected
    ]


@pytest.mark.parametrize("driver", ["mariadb", pytest.param("mysql", marks=pytest.mark.long), "native"])
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_every_value_of_mysql_lands_as_it_is(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, kind: str, driver: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    world = World(server, tmp_path, spark)
    chosen = {"reader": Reader.NATIVE} if driver == "native" else {"jdbc_driver": driver, "reader": Reader.JDBC}
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, **chosen))
    columns = ", ".join(f"c{index} {declared}" for index, (declared, _, _) in enumerate(cases(server)))
    values = ", ".join(literal for _, literal, _ in cases(server))
    nulls = ", ".join("NULL" for _ in cases(server))
    world.sql(
        f"CREATE TABLE hostile (id INT PRIMARY KEY, {columns}, n INT, updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6))"
        " CHARACTER SET utf8mb4",
        "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
        "SET NAMES utf8mb4",
        f"INSERT INTO hostile VALUES (1, {values}, 1, NOW(6)), (2, {nulls}, 1, NOW(6))",
    )
    assert counted(world.run()) == (2, 0)
    assert wrong_values(world, server) == []
    world.sql("SET sql_mode = 'ALLOW_INVALID_DATES'", "UPDATE hostile SET n = n + 1")
    assert counted(world.run()) == (0, 2)
    assert wrong_values(world, server) == []
    assert world.lake("hostile", "id, n") == [(1, 2), (2, 2)]


@pytest.mark.parametrize("reader", [Reader.JDBC, Reader.NATIVE])
def test_every_value_arrives_as_postgres_prints_it(postgres: PostgresServer, spark: SparkSession, tmp_path: Path, reader: Reader) -> None:
    world = World(postgres, tmp_path, spark)
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, reader=reader))
    create_postgres_table(world)
    schema = schema_of(world)
    source = open_source(world.pipeline.source, world.url)
    assert_as_postgres_prints(world, schema, read_source(world.spark, source.jdbc_read(schema, ("",)), schema))
    source.close()
    inserted, _ = counted(world.run())
    assert_as_postgres_prints(world, schema, world.spark.read.format("delta").load(world.path("hostile")))
    world.sql("UPDATE hostile SET updated_at = clock_timestamp()")
    assert counted(world.run()) == (0, inserted)
    assert_as_postgres_prints(world, schema, world.spark.read.format("delta").load(world.path("hostile")))
