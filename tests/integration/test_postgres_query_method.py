"""The query method on Postgres from end to end: real server, real Spark, real Delta; and every value as the server itself prints it."""

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.dev.servers import PostgresServer
from cdc_ops.sources.base import open_source
from cdc_ops.steps.query.jdbc_rows import read_source
from cdc_ops.steps.runs.run import RunReport
from tests.world import World

ORDERS = (
    """CREATE TABLE orders (
         id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, amount numeric(12,2) NOT NULL,
         updated_at timestamptz NOT NULL DEFAULT now())""",
    "CREATE INDEX ON orders (updated_at, id)",
    """CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.updated_at := now(); RETURN NEW; END'""",
    "CREATE TRIGGER touch BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch()",
    "INSERT INTO orders (customer, amount) SELECT 'c' || n, n / 7.0 FROM generate_series(1, 1000) AS n",
)


@pytest.fixture
def world(postgres: PostgresServer, spark: SparkSession, tmp_path: Path) -> World:
    return World(postgres, tmp_path, spark)


def assert_done(report: RunReport) -> None:
    assert not report.failures, [str(failure.error) for failure in report.failures]


def test_snapshot_increment_late_commit_and_backfill_make_the_lake_equal(world: World) -> None:
    world.sql(*ORDERS)
    assert_done(world.run())
    assert world.lake("orders") == naive(world)
    slow = psycopg.connect(world.url)
    try:
        slow.execute("SELECT COUNT(*) FROM orders")
        world.sql("UPDATE orders SET amount = 222 WHERE id = 2", "INSERT INTO orders (customer, amount) VALUES ('new', 1)")
        assert_done(world.run())
        slow.execute("UPDATE orders SET amount = 111 WHERE id = 1")
        slow.commit()
    finally:
        slow.close()
    assert_done(world.run())
    assert world.lake("orders") == naive(world)
    world.sql(
        "ALTER TABLE orders DISABLE TRIGGER touch",
        "UPDATE orders SET amount = 5, updated_at = '2020-01-02 03:00+00' WHERE id = 3",
        "DELETE FROM orders WHERE id = 4",
    )
    report = world.run(kind=RunKind.BACKFILL, since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2020, 2, 1, tzinfo=UTC))
    assert_done(report)
    assert report.runs[0].result.counts.read == 1
    assert_done(world.resync(ResyncMode.KEYS, tables=("public.orders",), keys=(("4",),)))
    assert world.lake("orders") == naive(world)


def test_a_result_that_comes_in_several_pieces_arrives_whole(world: World) -> None:
    world.sql(
        "CREATE TABLE wide (id int PRIMARY KEY, t text)",
        "INSERT INTO wide SELECT n, repeat('x', 100) FROM generate_series(1, 35000) AS n",
    )
    source = open_source(world.pipeline.source, world.url)
    schema = source.schema(world.name("wide"))
    read = source.jdbc_read(schema, ("",))
    assert int(read.properties["fetchsize"]) < 35000
    rows = read_source(world.spark, read, schema)
    assert rows.selectExpr("count(*) AS n", "sum(length(t)) AS bytes").collect()[0].asDict() == {"n": 35000, "bytes": 3500000}
    source.close()


def naive(world: World) -> list[tuple[object, ...]]:
    """The source's rows as Spark's collect shows them: instants in the zone of this machine, without it."""
    rows = world.source("orders")
    return [tuple(value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) else value for value in row) for row in rows]
