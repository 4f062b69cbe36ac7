"""The query method from end to end: real MariaDB, real Spark, real Delta, the steps as Airflow and the CLI run them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pymysql
import pytest
from delta.exceptions import ConcurrentTransactionException
from pyspark.sql import SparkSession

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.protocol.table_state import Phase
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.phases import RunPhase
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import JobLostError, LeaseHeldError, LedgerBehindError, RequestError, TargetForeignError, TargetNotDeltaError
from cdc_ops.lake.log.head import read_head
from cdc_ops.state.sql import open_store
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.runs.run import RunReport
from tests.stores import at
from tests.world import ORDERS, World, request


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    return World(mariadb, tmp_path, spark)


@pytest.fixture
def orders(world: World) -> World:
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_1000")
    report = world.run()
    assert_done(report)
    assert [item.phase for item in report.runs[0].timing.phases] == [RunPhase.PLAN, RunPhase.COPY, RunPhase.STATISTICS, RunPhase.COMMIT]
    return world


def assert_done(report: RunReport) -> None:
    assert not report.failures, [str(failure.error) for failure in report.failures]


def statuses(report: RunReport) -> set[TableRunStatus]:
    return {run.status for run in report.runs}


def test_snapshot_then_increment_makes_the_lake_equal_to_the_source(orders: World) -> None:
    assert orders.lake("orders") == orders.source("orders")
    assert orders.state("orders").phase is Phase.READY
    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 10", "INSERT INTO orders (customer, amount) VALUES ('new', 1)")
    report = orders.run()
    assert_done(report)
    assert report.runs[0].result.counts.read == 11
    assert (report.runs[0].result.counts.updated, report.runs[0].result.counts.inserted) == (10, 1)
    phases = ["plan", "source read", "landing", "merge", "statistics", "commit"]
    assert [item.phase.value for item in report.runs[0].timing.phases] == phases
    assert orders.lake("orders") == orders.source("orders")
    assert orders.data_commits("orders") == [1, 2]


def test_an_idle_table_starts_no_spark_and_moves_scanned_to_only(orders: World) -> None:
    before, jobs = orders.state("orders"), orders.jobs
    report = orders.run()
    after = orders.state("orders")
    assert statuses(report) == {TableRunStatus.IDLE}
    assert orders.jobs == jobs
    assert after.progress.watermark == before.progress.watermark
    assert after.scanned_to is not None
    assert before.scanned_to is not None
    assert after.scanned_to.parts > before.scanned_to.parts
    assert orders.data_commits("orders") == [1]


def test_a_transaction_that_commits_late_is_not_lost(orders: World) -> None:
    slow = pymysql.connect(
        host=orders.server.host, port=orders.server.port, user=orders.server.user, password=orders.server.password, database=orders.database
    )
    try:
        with slow.cursor() as cursor:
            cursor.execute("UPDATE orders SET amount = 111 WHERE id = 1")
        orders.sql("UPDATE orders SET amount = 222 WHERE id = 2")
        assert_done(orders.run())
        slow.commit()
    finally:
        slow.close()
    assert_done(orders.run())
    assert orders.lake("orders") == orders.source("orders")
    assert orders.lake("orders", "id, amount")[:2] == [(1, Decimal("111.00")), (2, Decimal("222.00"))]


def test_the_watermark_travels_in_the_commit_of_the_rows(orders: World) -> None:
    head = read_head(orders.path("orders"), "shop", orders.name("orders"))
    assert head is not None
    assert head.record is not None
    assert head.txn_version == 1
    assert head.record.progress.watermark == orders.state("orders").progress.watermark


def test_a_backfill_rereads_its_range_and_leaves_the_watermark(orders: World) -> None:
    # Rows changed behind the cursor's back, as a client-set timestamp does it, one inside the range and one outside.
    orders.sql(
        "UPDATE orders SET amount = 5, updated_at = '2020-01-02 03:00:00' WHERE id = 3",
        "UPDATE orders SET amount = 5, updated_at = '2021-01-02 03:00:00' WHERE id = 4",
    )
    assert_done(orders.run())
    watermark = orders.state("orders").progress.watermark
    report = orders.run(kind=RunKind.BACKFILL, since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2020, 2, 1, tzinfo=UTC))
    assert_done(report)
    assert report.runs[0].result.counts.read == 1
    assert dict(orders.lake("orders", "id, amount"))[3] == Decimal("5.00")
    assert dict(orders.lake("orders", "id, amount"))[4] != Decimal("5.00")
    assert orders.state("orders").progress.watermark == watermark


def test_a_resync_of_keys_brings_back_what_differs_and_deletes_what_is_gone(orders: World) -> None:
    orders.sql("DELETE FROM orders WHERE id = 1", "UPDATE orders SET amount = 5, updated_at = '2020-01-02' WHERE id = 3")
    watermark = orders.state("orders").progress.watermark
    assert_done(orders.resync(ResyncMode.KEYS, tables=(f"{orders.database}.orders",), keys=(("1",), ("3",), ("999999",))))
    assert orders.lake("orders") == orders.source("orders")
    assert orders.state("orders").progress.watermark == watermark


def test_a_full_resync_replaces_the_table_in_one_commit_of_a_new_generation(orders: World) -> None:
    orders.sql("DELETE FROM orders WHERE id <= 500", "UPDATE orders SET amount = 5, updated_at = '2020-01-02' WHERE id = 700")
    before = orders.state("orders")
    assert_done(orders.resync(ResyncMode.FULL))
    after = orders.state("orders")
    assert orders.lake("orders") == orders.source("orders")
    assert (after.generation, after.op_seq, after.progress.watermark) == (
        before.generation + 1,
        before.op_seq + 1,
        before.progress.watermark,
    )
    orders.sql("UPDATE orders SET amount = 6 WHERE id = 900")
    assert_done(orders.run())
    assert orders.lake("orders") == orders.source("orders")


@pytest.mark.parametrize("reported", [True, False], ids=["before its commit", "after its commit"])
def test_a_job_that_dies_is_finished_by_the_next_run_with_the_same_window(orders: World, reported: bool) -> None:
    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 10")

    def dies(job: JobSpec) -> StepResult:
        if not reported:
            orders.execute(job)
        raise JobLostError("killed")

    report = orders.run(execute_with=dies)
    orders.sql("UPDATE orders SET amount = 10 WHERE id <= 5")
    if reported:
        assert statuses(report) == {TableRunStatus.FAILED}
        assert_done(orders.run())
    assert_done(orders.run())
    assert orders.lake("orders") == orders.source("orders")
    assert orders.data_commits("orders") == [1, 2, 3]


def test_rows_that_somebody_deletes_in_the_lake_are_warned_of_until_our_next_commit(orders: World) -> None:
    orders.spark.sql(f"DELETE FROM delta.`{orders.path('orders')}` WHERE id <= 3")
    told = orders.run().warnings
    assert any("DELETE in Delta version" in text for text in told), told
    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 3")
    report = orders.run()
    assert_done(report)
    assert any("DELETE" in text for text in report.unchanged), "the run before said it"
    assert "DELETE in Delta version" in report.runs[0].messages.message
    report = orders.run()
    assert not (*report.warnings, *report.unchanged)
    assert orders.lake("orders") == orders.source("orders")


def test_a_doubled_job_changes_nothing(orders: World) -> None:
    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 10")

    def twice(job: JobSpec) -> StepResult:
        orders.execute(job)
        return orders.execute(job)

    assert_done(orders.run(execute_with=twice))
    assert orders.lake("orders") == orders.source("orders")
    assert orders.data_commits("orders") == [1, 2]


def test_an_attempt_that_loses_to_another_one_says_so_with_the_counts_of_the_commit(
    orders: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What Delta raises if the same number is committed while a statement runs."""
    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 10")
    jobs: list[JobSpec] = []

    def beaten(*_: object) -> object:
        monkeypatch.undo()
        orders.execute(jobs[0])
        raise ConcurrentTransactionException("[DELTA_CONCURRENT_TRANSACTION] the same txnAppId")

    def execute(job: JobSpec) -> StepResult:
        jobs.append(job)
        monkeypatch.setattr("cdc_ops.lake.merge.apply.execute", beaten)
        return orders.execute(job)

    report = orders.run(execute_with=execute)
    assert_done(report)
    [run] = report.runs
    assert (run.status, run.result.counts.read, run.result.counts.updated) == (TableRunStatus.COMMITTED, 10, 10)
    assert any("operation 2 was committed by another attempt (Delta version 2)" in text for text in report.warnings), report.warnings
    assert run.messages.note in run.messages.message
    assert "Somebody else" not in capfd.readouterr().out
    assert orders.data_commits("orders") == [1, 2]


def test_a_run_whose_application_is_lost_after_its_commit_has_the_counts_of_the_commit(orders: World) -> None:
    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 10", "INSERT INTO orders (customer, amount) VALUES ('new', 1)")

    def dies(job: JobSpec) -> StepResult:
        orders.execute(job)
        raise JobLostError("killed")

    report = orders.run(execute_with=dies)
    assert_done(report)
    [run] = report.runs
    assert (run.result.counts.read, run.result.counts.updated, run.result.counts.inserted) == (11, 10, 1)
    assert "operation 2 was committed before its Spark application was lost (Delta version 2)" in run.messages.note


def test_a_run_that_lost_its_lease_after_its_commit_says_that_its_rows_are_in_the_table(orders: World) -> None:
    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 10")

    def overtaken(job: JobSpec) -> StepResult:
        result = orders.execute(job)
        with open_store(orders.ledger) as store:
            held = store.lease("shop", orders.name("orders"))
            assert held is not None
            store.unlock(held)
            store.acquire("shop", orders.name("orders"), "rival", ttl=timedelta(minutes=5), live=True)
        return result

    [failure] = orders.run(execute_with=overtaken).failures
    assert isinstance(failure.error, LeaseHeldError)
    assert failure.error.what.startswith(f"This run lost its lease on {orders.database}.orders while it worked.")
    assert "Committed, once: operation 2 in Delta version 2." in failure.error.data
    assert "Nothing was read or written" not in str(failure.error)
    assert orders.lake("orders") == orders.source("orders")


def test_a_resync_queues_behind_an_interrupted_increment(orders: World) -> None:
    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 10", "DELETE FROM orders WHERE id = 20")

    def dies(job: JobSpec) -> StepResult:
        raise JobLostError("killed")

    orders.run(execute_with=dies)
    assert_done(orders.resync(ResyncMode.KEYS, tables=(f"{orders.database}.orders",), keys=(("20",),)))
    assert orders.lake("orders") == orders.source("orders")
    assert orders.data_commits("orders") == [1, 2, 3]


def test_a_lost_ledger_stops_the_table_and_rebuild_continues_without_a_reload(orders: World) -> None:
    from cdc_ops.steps.discovery import discover
    from cdc_ops.steps.recover import rebuild_table

    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 10")
    assert_done(orders.run())
    before = orders.state("orders")
    orders.ledger = f"sqlite:///{orders.folder / 'new.db'}"
    report = orders.run()
    assert [type(failure.error) for failure in report.failures] == [LedgerBehindError]
    assert "cdc-ops state rebuild" in report.failures[0].error.next
    context, asked = orders.context(), request()
    source = context.connect(orders.pipeline.source)
    for config in discover(orders.pipeline, source, asked):
        rebuild_table(context, asked, config)
    source.close()
    context.store.close()
    assert orders.state("orders").progress.watermark == before.progress.watermark
    orders.sql("INSERT INTO orders (customer, amount) VALUES ('after', 1)")
    report = orders.run()
    assert_done(report)
    assert report.runs[0].result.counts.read == 1
    assert orders.lake("orders") == orders.source("orders")


def test_a_snapshot_in_chunks_continues_after_the_last_committed_one(world: World) -> None:
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_1000", "ANALYZE TABLE orders")
    world.configure(chunk_rows=300)

    def first_only(job: JobSpec) -> StepResult:
        from dataclasses import replace

        assert len(job.operations) > 2
        world.execute(replace(job, operations=job.operations[:2]))
        raise JobLostError("killed")

    world.run(execute_with=first_only)
    assert world.state("orders").phase is Phase.SNAPSHOT
    assert world.state("orders").progress.watermark is None
    world.sql("UPDATE orders SET amount = 1 WHERE id IN (1, 999)", "INSERT INTO orders (customer, amount) VALUES ('late', 1)")
    assert_done(world.run())
    assert world.state("orders").phase is Phase.READY
    assert_done(world.run())
    assert world.lake("orders") == world.source("orders")
    assert len(world.data_commits("orders")) == len(set(world.data_commits("orders")))


def test_one_bad_table_fails_alone(orders: World) -> None:
    orders.sql("CREATE TABLE nokey (a INT, updated_at DATETIME(6) DEFAULT NOW(6), id INT)", "INSERT INTO nokey (a, id) VALUES (1, 1)")
    orders.sql("UPDATE orders SET amount = 9 WHERE id <= 10")
    report = orders.run()
    assert [failure.config.table.name for failure in report.failures] == ["nokey"]
    assert "keys: [id]" in report.failures[0].error.next
    assert orders.lake("orders") == orders.source("orders")


def test_auto_increment_cursor_brings_appended_rows(world: World) -> None:
    world.configure(cursor=("id",))
    world.sql("CREATE TABLE log (id BIGINT PRIMARY KEY AUTO_INCREMENT, line TEXT)", "INSERT INTO log (line) VALUES ('a'), ('b')")
    assert_done(world.run())
    world.sql("INSERT INTO log (line) VALUES ('c')")
    assert_done(world.run())
    assert world.lake("log") == world.source("log")


def test_an_empty_table_arrives_and_follows(world: World) -> None:
    world.sql(ORDERS)
    assert_done(world.run())
    assert world.lake("orders") == []
    world.sql("INSERT INTO orders (customer, amount) VALUES ('a', 1)")
    assert_done(world.run())
    assert world.lake("orders") == world.source("orders")


def test_backfill_before_the_snapshot_is_refused(world: World) -> None:
    world.sql(ORDERS)
    report = world.run(kind=RunKind.BACKFILL, since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2020, 1, 2, tzinfo=UTC))
    assert [type(failure.error) for failure in report.failures] == [RequestError]


def test_a_target_with_files_but_no_delta_log_is_left_alone(world: World) -> None:
    world.sql(ORDERS)
    folder = at(world.path("orders"))
    folder.mkdir(parents=True)
    (folder / "precious.parquet").write_text("x")
    report = world.run()
    assert [type(failure.error) for failure in report.failures] == [TargetNotDeltaError]
    assert (folder / "precious.parquet").read_text() == "x"
    assert world.jobs == 0


def test_a_table_of_another_pipeline_is_left_alone(orders: World) -> None:
    from dataclasses import replace

    orders.pipeline = replace(orders.pipeline, name="other")
    report = orders.run()
    assert [type(failure.error) for failure in report.failures] == [TargetForeignError]
    assert "cdc-ops/shop/" in str(report.failures[0].error)


def test_the_same_window_is_planned_again_while_the_watermark_rests(orders: World) -> None:
    watermark = orders.state("orders").progress.watermark
    assert_done(orders.run())
    # A row that turns up below scanned_to, but above the watermark: found although the table was idle.
    assert watermark is not None
    late = datetime.fromisoformat(watermark.parts[0]) + timedelta(microseconds=10)
    orders.sql(f"UPDATE orders SET amount = 77, updated_at = '{late}' WHERE id = 8")
    assert_done(orders.run())
    assert orders.lake("orders") == orders.source("orders")
    assert CursorValue(parts=watermark.parts) != orders.state("orders").progress.watermark
