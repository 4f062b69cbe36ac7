"""Runs whose small batches are replaced by tasks: the lake is equal to the source after each, and a late commit is not lost."""

import random
from pathlib import Path

import pymysql
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.run_request import ResyncMode
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.lake.log.delta_log import DeltaLog
from tests.commits import is_by_tasks
from tests.world import ORDERS, World


@pytest.fixture
def orders(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_1000")
    assert not world.run().failures
    return world


def by_tasks(world: World) -> int:
    """How many commits replaced rows by tasks."""
    log = DeltaLog(world.path("orders"))
    return sum(is_by_tasks(info) for _, info in log.commits(log.newest() or 0))


def test_increments_of_any_rows_leave_the_lake_equal_to_the_source(orders: World) -> None:
    choice = random.Random(3)
    for number in range(4):
        keys = ", ".join(map(str, choice.sample(range(1, 1001), 30)))
        orders.sql(
            f"UPDATE orders SET amount = amount + {number} + 0.01 WHERE id IN ({keys})",
            "INSERT INTO orders (customer, amount) VALUES ('new', 1)",
        )
        report = orders.run()
        assert not report.failures
        assert (report.runs[0].result.counts.updated, report.runs[0].result.counts.inserted) == (30, 1)
        assert orders.lake("orders") == orders.source("orders")
    assert by_tasks(orders) == 4


def test_a_transaction_that_commits_late_is_replaced_by_tasks_too(orders: World) -> None:
    login = {"user": orders.server.user, "password": orders.server.password, "database": orders.database}
    with pymysql.connect(host=orders.server.host, port=orders.server.port, **login) as slow:
        with slow.cursor() as cursor:
            cursor.execute("INSERT INTO orders (customer, amount) VALUES ('late', 1)")
        orders.sql("UPDATE orders SET amount = 3 WHERE id = 5")
        assert not orders.run().failures
        slow.commit()
    orders.sql("UPDATE orders SET amount = 4 WHERE id = 6")
    assert not orders.run().failures
    assert orders.lake("orders") == orders.source("orders")
    assert by_tasks(orders) >= 1


def test_a_resync_of_keys_after_increments_by_tasks_is_right(orders: World) -> None:
    orders.sql("UPDATE orders SET amount = 3 WHERE id < 20")
    assert not orders.run().failures
    orders.sql("DELETE FROM orders WHERE id IN (7, 8)", "UPDATE orders SET amount = 11 WHERE id = 9")
    assert not orders.resync(ResyncMode.FULL).failures
    assert orders.lake("orders") == orders.source("orders")
    orders.sql("UPDATE orders SET amount = 12 WHERE id = 10")
    assert not orders.run().failures
    assert orders.lake("orders") == orders.source("orders")
    assert by_tasks(orders) == 2
