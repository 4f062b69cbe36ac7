"""Checksums of both sides: row by row the same for the same values, and no two different rows alike."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.reconcile.diff import Digests, added
from cdc_ops.core.reconcile.key_buckets import Buckets
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from cdc_ops.lake.diff.checksums import lake_digests
from cdc_ops.lake.table.live_rows import LiveRows
from cdc_ops.sources.base import DigestQuery, open_source
from tests.world import World

COLUMNS = ("a", "b", "d", "n", "day", "at", "instant", "big", "last")
ROWS = (
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "'', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "'', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "'-', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "NULL, '-', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "'a,b', 'c', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "'a', 'b,c', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "'1:a', 'b', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "'a', '1:b', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "'ä', '日本', NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "'a', 'b', 0, NULL, NULL, NULL, NULL, NULL, NULL",
    "'a', 'b', 0.0000000001, NULL, NULL, NULL, NULL, NULL, NULL",
    "'a', 'b', -0.5, NULL, NULL, NULL, NULL, NULL, NULL",
    "'a', 'b', 12345678.9, NULL, NULL, NULL, NULL, NULL, NULL",
    "'a', 'b', NULL, 0, NULL, NULL, NULL, NULL, NULL",
    "'a', 'b', NULL, -1, NULL, NULL, NULL, NULL, NULL",
    "'a', 'b', NULL, NULL, '1969-12-31', NULL, NULL, NULL, NULL",
    "'a', 'b', NULL, NULL, '1582-10-04', NULL, NULL, NULL, NULL",
    "'a', 'b', NULL, NULL, NULL, '2024-03-31 02:30:00', NULL, NULL, NULL",
    "'a', 'b', NULL, NULL, NULL, '2024-03-31 02:30:00.000001', NULL, NULL, NULL",
    "'a', 'b', NULL, NULL, NULL, NULL, '2024-03-31 02:30:00', NULL, NULL",
    "'a', 'b', NULL, NULL, NULL, NULL, '2024-03-31 02:30:00.000001', NULL, NULL",
    "'a', 'b', NULL, NULL, NULL, NULL, NULL, 9223372036854775807, NULL",
    "'a', 'b', NULL, NULL, NULL, NULL, NULL, 9223372036854775806, NULL",
    "'a', 'b', NULL, NULL, NULL, NULL, NULL, NULL, 1",
    "'a', 'b', NULL, NULL, NULL, NULL, NULL, NULL, 2",
)
BUCKETS = Buckets(keys=("id",), count=len(ROWS) + 1, low=0, width=1)
"""A bucket for each row."""


def in_lake(world: World, schema: TableSchema, columns: tuple[str, ...]) -> Digests:
    # Whatever the session that asks is set to: zones and the text of decimals must not depend on it.
    session = world.spark.newSession()
    for name, value in (("spark.sql.session.timeZone", "America/New_York"), ("spark.sql.ansi.enabled", "false")):
        session.conf.set(name, value)
    return lake_digests(session, LiveRows(path=world.path("pairs")), schema, columns, BUCKETS)


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_both_sides_sum_up_each_row_alike_and_no_other_row_so(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    world = World(server, tmp_path, spark)
    world.configure(cursor=())
    instant = "timestamptz" if isinstance(server, PostgresServer) else "TIMESTAMP(6) NULL"
    moment = "timestamp" if isinstance(server, PostgresServer) else "DATETIME(6)"
    kinds = ("VARCHAR(9)", "VARCHAR(9)", "DECIMAL(20,10)", "INT", "DATE", moment, instant, "BIGINT", "INT")
    declared = ", ".join(f"{name} {kind}" for name, kind in zip(COLUMNS, kinds, strict=True))
    world.sql(
        "SET TIME ZONE 'UTC'" if isinstance(server, PostgresServer) else "SET time_zone = '+00:00'",
        f"CREATE TABLE pairs (id INT PRIMARY KEY, {declared})",
        "INSERT INTO pairs VALUES " + ", ".join(f"({number}, {values})" for number, values in enumerate(ROWS)),
    )
    assert not world.run().failures
    source = open_source(world.pipeline.source, world.url)
    schema = source.schema(world.name("pairs"))
    for columns in (COLUMNS, tuple(reversed(COLUMNS)), ("id", *COLUMNS)):
        query = DigestQuery(schema=schema, columns=columns, buckets=BUCKETS, slices=("",))
        [relation] = source.digest_read(query).relations
        there = added(tuple(map(int, row)) for row in world.sql(f"SELECT * FROM {relation}"))
        assert in_lake(world, schema, columns) == there
        assert [digest.rows for digest in there.values()] == [1] * len(ROWS)
        assert len({digest.total for digest in there.values()}) == len(ROWS), "two different rows have the same checksum"
    source.close()
