"""SIGKILL for the Spark JVM in the middle of a snapshot of many chunks: what was committed is not read again, and the table is equal."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.dev.servers import MariaDBServer
from tests.integration.test_killed_jvm import PATIENCE, TRY_AGAIN, environment, java_children, wait_for
from tests.stores import at
from tests.world import ORDERS, World

ROWS, CHUNKS, KILL_AFTER = 100_000, 10, 6
OVERHEAD = 5000
"""Rows that plans and drivers ask the catalogs for."""


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    world.sql(
        ORDERS,
        # Most ids lie together, one is far away: equal ranges of numbers would put all rows into one chunk.
        f"INSERT INTO orders (id, customer, amount) SELECT IF(seq = 1, 4000000000000, seq), CONCAT('c', seq), seq / 7 FROM seq_1_to_{ROWS}",
        "ANALYZE TABLE orders",
    )
    return world


def committed(world: World) -> int:
    logs = at(world.path("orders")).glob("_delta_log/*.json")
    return sum('\\"snapshot-chunk\\"' in log.read_text() for log in logs)


def rows_sent(world: World) -> int:
    return int(world.sql("SHOW GLOBAL STATUS LIKE 'Rows_sent'")[0][1])


def test_a_snapshot_killed_at_60_percent_reads_at_most_one_chunk_again(world: World, jar_folder: Path) -> None:
    variables = environment(world, jar_folder)
    file = Path(variables["CDC_OPS_PIPELINES"]) / "shop.yaml"
    file.write_text(file.read_text().replace("lookback: 0s", f"lookback: 0s, parallelism: 2, chunk_rows: {ROWS // CHUNKS + 1000}"))
    before = rows_sent(world)
    command = subprocess.Popen(
        [sys.executable, "-m", "cdc_ops.cli", "run"], env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        wait_for(lambda: committed(world) >= KILL_AFTER or command.poll() is not None)
        for pid in java_children(command.pid):
            os.kill(pid, signal.SIGKILL)
        output = command.communicate(timeout=PATIENCE)[0].decode()
    finally:
        command.kill()
    assert command.returncode == TRY_AGAIN, output
    assert "the JVM of Spark has died" in output
    after_the_death = output.rpartition("the JVM of Spark has died")[2]
    assert "orders: maintenance (" in after_the_death, "the maintenance of the parts needs another JVM, and gets it"
    done = committed(world)
    assert KILL_AFTER <= done < CHUNKS
    assert not world.run().failures
    assert rows_sent(world) - before <= ROWS + ROWS // CHUNKS * 1.5 + OVERHEAD
    assert world.lake("orders") == world.source("orders")
    total = world.data_commits("orders")
    assert total == list(range(1, len(total) + 1))
    assert CHUNKS - 1 <= len(total) <= CHUNKS + 1
