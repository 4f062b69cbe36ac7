"""A run above its limits is refused before anything is read: real MariaDB, Spark and Delta."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.run_request import Accepts, ResyncMode
from cdc_ops.core.run_cost import CostBasis, MaxCost
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import CostRefusedError
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.plan import plan_table
from cdc_ops.steps.runs.table_groups import plan_group
from tests.world import ORDERS, World, request


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_3000", "ANALYZE TABLE orders")
    world.sql("CREATE TABLE tags (id INT PRIMARY KEY, updated_at DATETIME(6) NOT NULL, KEY (updated_at))")
    world.sql("INSERT INTO tags SELECT seq, NOW(6) FROM seq_1_to_5", "ANALYZE TABLE tags")
    return world


def limited(world: World, limits: MaxCost) -> None:
    world.pipeline = replace(world.pipeline, runs=replace(world.pipeline.runs, max_cost=limits))


def assert_untouched(world: World, table: str) -> None:
    store = world.context().store
    try:
        assert store.open_operations("shop", world.name(table)) == ()
        assert store.lease("shop", world.name(table)) is None
        state = store.table_state("shop", world.name(table))
        assert (state.op_seq, state.progress.watermark, state.delta_version) == (0, None, None)
    finally:
        store.close()
    assert not Path(world.path(table)).exists()


def test_a_table_above_its_limit_is_refused_and_the_others_go_on_until_somebody_accepts_it(world: World) -> None:
    world.configure(max_cost=MaxCost(rows=1_000))
    report = world.run()
    (failure,) = report.failures
    assert (failure.config.table, type(failure.error)) == (world.name("orders"), CostRefusedError)
    assert "max_cost.rows is 1,000" in failure.error.why
    assert_untouched(world, "orders")
    assert world.lake("tags", "id") == world.source("tags", "id")
    assert {run.table.name: run.status for run in report.runs} == {"orders": TableRunStatus.FAILED, "tags": TableRunStatus.COMMITTED}

    accepted = world.run(accepts=Accepts(cost=True))
    assert not accepted.failures
    assert world.lake("orders") == world.source("orders")
    (run,) = [run for run in accepted.runs if run.table == world.name("orders")]
    assert run.cost is not None
    assert run.cost.rows.value is not None
    assert 1_500 < run.cost.rows.value < 6_000, "an estimate of the server"
    assert "actual 3,000 rows" in run.cost_text

    world.sql("UPDATE orders SET amount = 1001 WHERE id <= 1200")
    (failure,) = world.run().failures
    assert "the estimate is 1,200 (counted)" in failure.error.why, "an increment is refused as well"
    world.sql("UPDATE orders SET amount = 1002 WHERE id <= 900")
    world.configure(max_cost=MaxCost(rows=1_200))
    assert not world.run().failures
    assert world.lake("orders") == world.source("orders")


def test_a_run_above_the_limit_of_all_tables_together_leaves_no_trace(world: World) -> None:
    limited(world, MaxCost(rows=1_000))
    with pytest.raises(CostRefusedError) as caught:
        world.run()
    assert "2 tables together" in caught.value.what
    for table in ("orders", "tags"):
        assert_untouched(world, table)
    assert world.jobs == 0
    tags = (str(world.name("tags")),)
    assert not world.run(tables=tags).failures, "what is below the limit runs"
    assert not world.run(accepts=Accepts(cost=True)).failures
    assert world.lake("orders") == world.source("orders")
    with pytest.raises(CostRefusedError, match="1 table"):
        world.resync(ResyncMode.FULL, tables=(str(world.name("orders")),))
    assert world.data_commits("orders") == [1]


def test_work_that_a_run_has_frozen_is_finished_whatever_the_limit_says_by_then(world: World) -> None:
    context = world.context()
    source = context.connect(context.pipeline.source)
    asked = request(accepts=Accepts(cost=True), tables=(str(world.name("orders")),))
    try:
        from cdc_ops.steps.discovery import discover_all

        configs = discover_all(context, source, asked).tables
        frozen = plan_group(context, source, asked, configs)
        assert frozen.operations
        for plan in frozen.plans:
            context.store.release(context.store.acquire("shop", plan.table, asked.holder, ttl=context.lease_ttl, live=True))
        limited(world, MaxCost(rows=1, refuse_unknown=True))
        plan = plan_table(replace(context, pipeline=world.pipeline), source, request(), configs[0])
        assert plan.cost is not None
        assert (plan.cost.new, plan.cost.all.rows.bases) == (None, (CostBasis.STATISTICS,))
    finally:
        source.close()
        context.store.close()
    assert not world.run(tables=asked.tables).failures
    assert world.lake("orders") == world.source("orders")


def test_a_refused_table_that_has_come_back_is_told_of_when_its_cost_is_accepted(world: World) -> None:
    tags = (str(world.name("tags")),)
    assert not world.run(tables=tags).failures
    world.sql("RENAME TABLE tags TO away")
    assert [run.status for run in world.run().runs if run.table == world.name("tags")] == [TableRunStatus.IDLE]
    world.sql("RENAME TABLE away TO tags", "INSERT INTO tags SELECT seq, NOW(6) FROM seq_6_to_9")
    world.configure(max_cost=MaxCost(rows=1))
    (failure,) = world.run(tables=tags).failures
    assert isinstance(failure.error, CostRefusedError)
    accepted = world.run(tables=tags, accepts=Accepts(cost=True))
    assert not accepted.failures
    assert any("at the source again" in text for text in accepted.warnings)
    assert world.lake("tags", "id") == world.source("tags", "id")
