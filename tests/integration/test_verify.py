"""verify from end to end: equal tables ship nothing, and what differs is named."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.lake.compare import TableComparison
from cdc_ops.sources.base import JdbcRead, open_source
from cdc_ops.steps.orders import read_facts
from cdc_ops.steps.plan import discover
from cdc_ops.steps.reconciling import ask
from cdc_ops.steps.verify import verify
from cdc_ops.testing.servers import MariaDBServer
from tests.world import ORDERS, World, request

ROWS = 3_000


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    fill = f"INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_{ROWS}"
    world.sql(ORDERS, fill, "ANALYZE TABLE orders")
    assert not world.run().failures
    return world


def compared(world: World, reads: list[JdbcRead]) -> TableComparison:
    source = open_source(world.pipeline.source, world.url)
    make_read = source.jdbc_read
    try:
        [config] = discover(world.pipeline, source, request())
        question = ask(source, read_facts(world.pipeline, source, config), 2)
        source.jdbc_read = lambda schema, slices: reads.append(make_read(schema, slices)) or reads[-1]  # type: ignore[method-assign]
        return verify(world.spark, source, question)
    finally:
        source.close()


def test_equal_tables_are_compared_without_reading_a_row_of_them(world: World) -> None:
    reads: list[JdbcRead] = []
    found = compared(world, reads)
    assert found.equal
    assert (found.rows_source, found.rows_lake) == (ROWS, ROWS)
    assert len(reads) == 1  # the one that the checksums borrow their settings from


def test_what_differs_is_counted_and_named(world: World) -> None:
    world.sql("DELETE FROM orders WHERE id = 5", "UPDATE orders SET amount = 1 WHERE id = 1000")
    world.spark.sql(f"DELETE FROM delta.`{world.path('orders')}` WHERE id = 2000")
    found = compared(world, [])
    assert (found.only_in_lake, found.only_in_source, found.different) == (1, 1, 1)
    assert (found.rows_source, found.rows_lake) == (ROWS - 1, ROWS - 1)
    assert found.samples == (("different", ("1000",)), ("only in lake", ("5",)), ("only in source", ("2000",)))
