"""Tables of hundreds of columns: what goes through all columns of a table stays within Spark's, Java's and the server's limits."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.run_request import RunKind
from cdc_ops.dev.servers import MariaDBServer
from tests.world import World

COLUMNS = 250
KINDS = ("INT", "VARCHAR(12)", "DECIMAL(12,2)", "DATETIME(6)", "DATE", "DOUBLE", "BIGINT UNSIGNED", "TINYINT(1)")
VALUES = ("{n}", "'v{n}'", "{n}.25", "'2026-03-01 10:11:12.{n:06}'", "'2026-03-{d:02}'", "{n}.5", "{n}", "{b}")


def values(number: int) -> str:
    return ", ".join(VALUES[i % 8].format(n=number + i, d=1 + i % 28, b=i % 2) for i in range(COLUMNS))


@pytest.fixture
def wide(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    columns = ", ".join(f"c{i:03} {KINDS[i % 8]}" for i in range(COLUMNS))
    stamp = "updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6)"
    world.sql(f"CREATE TABLE orders (id BIGINT PRIMARY KEY, {stamp}, {columns}, KEY (updated_at, id))")
    names = ", ".join(f"c{i:03}" for i in range(COLUMNS))
    for key in (1, 2, 3):
        world.sql(f"INSERT INTO orders (id, {names}) VALUES ({key}, {values(key)})")
    return world


@pytest.mark.long
def test_a_table_of_hundreds_of_columns_is_read_merged_and_compared(wide: World) -> None:
    assert not wide.run().failures
    wide.sql("UPDATE orders SET c000 = NULL, c249 = 1 WHERE id = 2", f"INSERT INTO orders VALUES (4, NOW(6), {values(9)})")
    assert not wide.run().failures
    assert wide.lake("orders") == wide.source("orders")
    wide.sql("DELETE FROM orders WHERE id = 1")
    assert not wide.run(kind=RunKind.RECONCILE).failures
    assert wide.lake("orders") == wide.source("orders")
