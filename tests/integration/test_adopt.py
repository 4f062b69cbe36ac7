"""A renamed pipeline takes its tables over: no row is read again, none is lost, and nothing of the old name can write any more."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.run_request import RunKind
from cdc_ops.core.pipeline.tables.paths import history_root, quarantine_path, tombstones_path
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import LeaseHeldError, StaleStateError, StateError, TargetForeignError
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import owner_of
from cdc_ops.steps import adopt
from cdc_ops.steps.adopt import Adopted, adopt_tables, plan_adoption
from cdc_ops.steps.recover import rebuild_table
from tests.integration.test_log_method import Sink, change, log_world
from tests.state_values import run
from tests.world import ORDERS, World, request

OLD, NEW = "shop", "webshop"


@pytest.fixture
def orders(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq FROM seq_1_to_100")
    assert not world.run().failures
    world.sql("UPDATE orders SET amount = 7 WHERE id = 1")
    assert not world.run().failures
    return world


def rename(world: World, name: str) -> None:
    world.pipeline = replace(world.pipeline, name=name)


def take_over(world: World, old: str = OLD) -> list[Adopted]:
    context = world.context()
    try:
        return list(adopt_tables(context, plan_adoption(context, old), request(), lambda: world.spark))
    finally:
        context.store.close()


def read_rows(world: World) -> int:
    """Runs once, and returns how many rows were read."""
    report = world.run()
    assert not report.failures, [str(one.error) for one in report.failures]
    return sum(one.result.counts.read for one in report.runs)


def test_a_renamed_pipeline_goes_on_where_it_was(orders: World) -> None:
    [before] = orders.context().store.table_runs(OLD, limit=1)
    rename(orders, NEW)
    orders.sql("UPDATE orders SET amount = 8 WHERE id IN (2, 3)")
    [refused] = orders.run().failures
    assert isinstance(refused.error, TargetForeignError)
    assert f"cdc-ops adopt {NEW} --from {OLD}" in refused.error.next
    [adopted] = take_over(orders)
    assert (adopted.given_up, adopted.state.pipeline, adopted.state.progress.watermark is not None) == (0, NEW, True)
    assert read_rows(orders) <= 4  # the two, and those at the watermark
    assert orders.lake("orders") == orders.source("orders")
    assert orders.context().store.pipelines() == (NEW,)
    kept = [one.run_id for one in orders.context().store.history(NEW, orders.name("orders"))]
    assert before.run_id in kept
    assert len(kept) == 3  # the run that was refused has no place in it
    assert take_over(orders) == []


def test_what_was_planned_under_the_old_name_is_planned_anew_and_its_spark_application_writes_nothing(orders: World) -> None:
    orders.sql("UPDATE orders SET amount = 9 WHERE id = 4", "DELETE FROM orders WHERE id = 5")
    jobs = list[JobSpec]()

    def dies(job: JobSpec) -> StepResult:
        jobs.append(job)
        raise ConnectionError("the driver is away")

    with pytest.raises(ConnectionError):
        orders.run(kind=RunKind.RECONCILE, execute_with=dies)
    rename(orders, NEW)
    with pytest.raises(LeaseHeldError):
        take_over(orders)
    store = orders.context().store
    lease = store.lease(OLD, orders.name("orders"))
    assert lease is not None
    store.unlock(lease)
    staged = Path(jobs[0].operations[0].target.staging).parent
    assert staged.exists()
    [adopted] = take_over(orders)
    assert (adopted.given_up, staged.exists()) == (1, False)
    versions = DeltaLog(orders.path("orders")).newest()
    result = orders.execute(jobs[0])  # it lives on, and comes late
    assert [type(error) for error in result.errors.values()] in ([TargetForeignError], [StaleStateError])
    assert DeltaLog(orders.path("orders")).newest() == versions
    assert read_rows(orders) <= 4
    assert not orders.run(kind=RunKind.RECONCILE).failures
    assert orders.lake("orders") == orders.source("orders")
    numbers = orders.data_commits("orders")
    assert numbers == sorted(numbers)
    assert numbers[-1] > jobs[0].operations[0].op_seq


@pytest.mark.parametrize(
    "broken",
    [pytest.param("hand_over", marks=pytest.mark.long), "move_side_tables", pytest.param("_state_under", marks=pytest.mark.long)],
)
def test_an_adoption_that_is_broken_off_is_completed_by_the_next(orders: World, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rename(orders, NEW)
    with monkeypatch.context() as patched:
        patched.setattr(adopt, broken, _breaks)
        with pytest.raises(ConnectionError):
            take_over(orders)
    assert orders.run().failures  # refused until it is done
    assert len(take_over(orders)) == 1
    orders.sql("UPDATE orders SET amount = 8 WHERE id = 2")
    assert read_rows(orders) <= 3
    assert orders.lake("orders") == orders.source("orders")


def _breaks(*_: object) -> None:
    raise ConnectionError("broken off")


def test_the_old_name_is_refused_afterwards_and_can_take_the_tables_back(orders: World) -> None:
    rename(orders, NEW)
    take_over(orders)
    orders.sql("UPDATE orders SET amount = 8 WHERE id = 2")
    read_rows(orders)
    rename(orders, OLD)
    [refused] = orders.run().failures
    assert isinstance(refused.error, TargetForeignError)
    take_over(orders, NEW)
    orders.sql("UPDATE orders SET amount = 9 WHERE id = 3")
    assert read_rows(orders) <= 3
    assert orders.lake("orders") == orders.source("orders")
    numbers = orders.data_commits("orders")
    assert numbers == sorted(numbers)


@pytest.mark.long
def test_a_ledger_that_lacks_commits_follows_the_lake_and_a_table_that_was_restored_is_left_to_somebody(orders: World) -> None:
    context = orders.context()
    lost = context.store.table_state(OLD, orders.name("orders"))
    orders.sql("UPDATE orders SET amount = 8 WHERE id = 2")
    read_rows(orders)
    lease = context.store.acquire(OLD, orders.name("orders"), "test", ttl=context.lease_ttl, live=True)
    context.store.replace_state(lease, lost)  # the ledger is rolled back by one run
    context.store.release(lease)
    rename(orders, NEW)
    [adopted] = take_over(orders)
    assert adopted.state.op_seq > lost.op_seq
    orders.sql("UPDATE orders SET amount = 9 WHERE id = 3")
    assert read_rows(orders) <= 3
    assert orders.lake("orders") == orders.source("orders")
    restored_to = DeltaLog(orders.path("orders")).newest()
    orders.sql("UPDATE orders SET amount = 10 WHERE id = 4")
    read_rows(orders)
    orders.spark.sql(f"RESTORE delta.`{orders.path('orders')}` TO VERSION AS OF {restored_to}")
    rename(orders, "third")
    with pytest.raises(StateError) as restored:
        take_over(orders, NEW)
    assert restored.value.next.startswith(f"Put the old name back ('pipeline: {NEW}'")


@pytest.mark.long
def test_a_table_that_was_restored_to_before_it_was_taken_over_is_owned_again_by_its_properties(orders: World) -> None:
    rename(orders, NEW)
    take_over(orders)
    orders.sql("UPDATE orders SET amount = 8 WHERE id = 2")
    read_rows(orders)
    orders.spark.sql(f"RESTORE delta.`{orders.path('orders')}` TO VERSION AS OF 1")
    assert orders.run().failures
    properties = f"'cdc_ops.pipeline' = '{NEW}', 'cdc_ops.former_pipelines' = '{OLD}'"
    orders.spark.sql(f"ALTER TABLE delta.`{orders.path('orders')}` SET TBLPROPERTIES ({properties})")  # as docs/recover.md says
    context = orders.context()
    [config] = plan_adoption(context, NEW).tables
    assert rebuild_table(context, request(), config).has_table
    read_rows(orders)
    assert orders.lake("orders") == orders.source("orders")


def test_the_table_of_a_third_pipeline_is_not_taken(orders: World) -> None:
    orders.context().store.record(run("run-1", table=orders.name("orders"), pipeline="other"))  # it was refused the table once
    rename(orders, NEW)
    with pytest.raises(TargetForeignError, match="cannot be taken over from other"):
        take_over(orders, "other")
    assert owner_of(orders.path("orders")) == (OLD, str(orders.name("orders")))


def test_tombstones_quarantine_and_history_go_with_the_table(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(event_history=True)
    world.sql("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20))")
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    row = {"id": 1, "name": "a"}
    sink.write(change("c", 100, after=row, database=db), change("c", 110, after={"id": 2, "name": "b"}, database=db))
    sink.write(change("d", 300, before=row, database=db))
    assert not world.run().failures
    assert world.lake("items", "id, name") == [(2, "b")]
    places = [place(world.pipeline, world.name("items")) for place in (tombstones_path, history_root)]
    assert all(Path(one).is_dir() for one in places)
    rename(world, NEW)
    take_over(world)
    assert not any(Path(one).exists() for one in places)
    sink.write(
        change("u", 200, before=row, after={**row, "name": "late"}, database=db), change("c", 400, after=row | {"id": 3}, database=db)
    )
    assert not world.run().failures
    assert world.lake("items", "id, name") == [(2, "b"), (3, "a")]  # the late change does not bring the deleted row back
    assert not Path(quarantine_path(world.pipeline, world.name("items"))).exists()
    history = Path(history_root(world.pipeline, world.name("items")))
    assert len(list(history.glob("**/_delta_log"))) == 1
