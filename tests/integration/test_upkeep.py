"""Maintenance and advice of a table that runs keep equal: real MariaDB, Spark and Delta."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.maintenance import MaintenancePolicy
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.sources.base import open_source
from cdc_ops.steps.advise import TableAdvice, advise
from cdc_ops.steps.discovery import discover
from tests.world import ORDERS, World, request


def advice(world: World) -> TableAdvice:
    context = world.context()
    with closing(open_source(world.pipeline.source, world.url)) as source, closing(context.store):
        [config] = discover(world.pipeline, source, request())
        return advise(context, source, config)


def test_runs_put_small_files_together_and_say_so_and_advice_tells_before_and_after(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(mariadb, tmp_path, spark)
    policy = MaintenancePolicy(min_small_files=8, optimize_every=timedelta(0))
    world.configure(maintenance=policy)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_50")
    assert not world.run().failures
    world.sql("INSERT INTO orders (customer, amount) VALUES ('new', 1)")
    assert not world.run().failures
    before = advice(world)
    assert before.profile.files == before.profile.small_files >= 2  # how many a snapshot writes depends on the machine's cores
    assert (before.rewrites, before.due) == ((), ())
    assert [one.setting for one in before.advice] == [""]
    changed = 0
    while not any("OPTIMIZE" in line for line in caplog.messages):
        changed += 1  # another row each time: a file whose rows are all changed again is gone
        assert changed < 30
        world.sql(f"UPDATE orders SET amount = amount + 1 WHERE id = {changed}")
        assert not world.run().failures
    after = advice(world)
    assert after.last_upkeep is not None
    assert after.last_upkeep.did == "OPTIMIZE"
    assert after.profile.files == after.last_upkeep.files_after < after.last_upkeep.files_before
    assert after.upkeep_bytes == after.last_upkeep.written_bytes > 0
    assert [line for line in caplog.messages if "OPTIMIZE" in line] == [f"{world.name('orders')}: {after.last_upkeep.words}"]
    assert world.lake("orders", "id, amount") == world.source("orders", "id, amount")
