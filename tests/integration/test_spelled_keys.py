"""Keys that the source compares loosely, from end to end: one key is one row in the lake, in the source's spelling of now."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.steps.runs.run import RunReport
from tests.world import World

MARIADB = (
    "CREATE TABLE items (code VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT,"
    " updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at))",
)
POSTGRES = (
    "CREATE EXTENSION IF NOT EXISTS citext",
    "CREATE TABLE items (code citext PRIMARY KEY, n int, updated_at timestamp(6) NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'))",
    "CREATE INDEX ON items (updated_at)",
)


def done(report: RunReport) -> tuple[int, int, int]:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    [run] = report.runs
    return run.result.counts.inserted, run.result.counts.updated, run.result.counts.deleted


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_one_key_stays_one_row_however_it_is_written(
    kind: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    server: MariaDBServer | PostgresServer = request.getfixturevalue(kind)
    world = World(server, tmp_path, spark)
    world.configure(cursor=("updated_at",))
    postgres = isinstance(server, PostgresServer)
    world.sql(*(POSTGRES if postgres else MARIADB))
    world.sql("INSERT INTO items (code, n) VALUES ('Abc', 1), ('b', 2), ('c', 3), ('d', 4)")
    assert done(world.run()) == (4, 0, 0)
    now = "now() AT TIME ZONE 'UTC'" if postgres else "NOW(6)"
    padded = "B" if postgres else "b "  # PAD SPACE: 'b ' is 'b'
    world.sql(
        f"UPDATE items SET code = 'ABC', updated_at = {now} WHERE n = 1",
        f"UPDATE items SET code = '{padded}', updated_at = {now} WHERE n = 2",
    )
    assert done(world.run()) == (0, 2, 0)
    assert world.lake("items", "code, n") == [("ABC", 1), (padded, 2), ("c", 3), ("d", 4)]
    # No cursor tells of these: a key that is gone, and one that is only written otherwise.
    world.sql(
        "DELETE FROM items WHERE n = 3",
        f"UPDATE items SET code = 'D', updated_at = {'TIMESTAMP' if postgres else ''} '2020-01-01' WHERE n = 4",
    )
    assert done(world.run(kind=RunKind.RECONCILE)) == (0, 1, 1)
    assert world.lake("items", "code, n") == sorted([("ABC", 1), ("D", 4), (padded, 2)])
    # By keys as people write them.
    name = str(world.name("items"))
    assert done(world.resync(ResyncMode.KEYS, tables=(name,), keys=(("abc",),))) == (0, 1, 0)
    assert {row[0] for row in world.lake("items", "_key_code")} == {row[0] for row in world.sql(f"SELECT {normal(postgres)} FROM items")}


def normal(postgres: bool) -> str:
    return "lower(code::text)" if postgres else "HEX(WEIGHT_STRING(RTRIM(code)))"
