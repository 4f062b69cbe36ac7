"""Reconcile and tables without cursor from end to end: real servers, real Spark, real Delta."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.job import JobSpec, Step, StepResult
from cdc_ops.core.operation.results import Outcome
from cdc_ops.core.operation.run_request import Accepts, AskedComparison, ResyncMode, RunKind
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.errors import DeletesRefusedError, JobLostError
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.reconcile.differing_buckets import DifferingBuckets, TableChecksums
from cdc_ops.steps.runs.run import RunReport
from tests.world import ORDERS, World

ROWS = 2_000
MARIADB_ORDERS = """CREATE TABLE orders (
    id BIGINT PRIMARY KEY AUTO_INCREMENT,
    customer VARCHAR(40) CHARACTER SET latin1,
    amount DECIMAL(12,2) ZEROFILL NOT NULL,
    day DATE, at TIMESTAMP(6) NULL, serial BIGINT UNSIGNED, small INT(8) ZEROFILL, flag BIT(3), raw VARBINARY(20), kind ENUM('a','b,c'),
    updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6),
    KEY (updated_at, id))"""
MARIADB_FILL = f"""INSERT INTO orders (id, customer, amount, day, at, serial, small, flag, raw, kind)
    SELECT seq, ELT(1 + seq % 4, NULL, '', CONCAT('Ä,', seq), '1:x'), seq / 7, IF(seq % 3, '1582-10-04' + INTERVAL seq DAY, NULL),
        IF(seq % 5, FROM_UNIXTIME(seq * 1000.000001), NULL), 18446744073709551615 - seq, seq, seq % 8,
        UNHEX(HEX(seq)), ELT(seq % 3, 'a', 'b,c')
    FROM seq_1_to_{ROWS}"""
POSTGRES_ORDERS = """CREATE TABLE orders (
    id bigint PRIMARY KEY, customer text, amount numeric(12,2) NOT NULL, day date, at timestamptz, flag boolean, raw bytea,
    price numeric(20,8), tags text[], doc jsonb, updated_at timestamp(6) NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'))"""
POSTGRES_FILL = f"""INSERT INTO orders SELECT seq, (ARRAY[NULL, '', 'Ä,' || seq, '1:x'])[1 + seq % 4], seq / 7.0,
        CASE WHEN seq % 3 > 0 THEN DATE '1582-10-04' + seq END, CASE WHEN seq % 5 > 0 THEN to_timestamp(seq * 1000.000001) END, seq % 2 = 0,
        decode(md5(seq::text), 'hex'), seq / 1e8, ARRAY[seq::text, NULL], jsonb_build_object('b', seq, 'a', NULL)
    FROM generate_series(1, {ROWS}) AS seq"""

NOW = {False: "NOW(6)", True: "now() AT TIME ZONE 'UTC'"}


@pytest.fixture(params=["mariadb", pytest.param("postgres", marks=pytest.mark.long)])
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> World:
    server: MariaDBServer | PostgresServer = request.getfixturevalue(request.param)
    return World(server, tmp_path, spark)


@pytest.fixture
def orders(world: World) -> World:
    postgres = isinstance(world.server, PostgresServer)
    world.sql(POSTGRES_ORDERS if postgres else MARIADB_ORDERS)
    world.sql(POSTGRES_FILL if postgres else MARIADB_FILL)
    world.sql(
        "CREATE INDEX ON orders (updated_at, id)" if postgres else "SELECT 1", "ANALYZE orders" if postgres else "ANALYZE TABLE orders"
    )
    assert_done(world.run())
    return world


def assert_done(report: RunReport) -> RunReport:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    return report


def reconcile(world: World, **parts: Any) -> RunReport:
    return world.run(kind=RunKind.RECONCILE, **parts)


def equal(world: World, table: str = "orders") -> bool:
    return world.lake(table, "id, amount") == world.source(table, "id, amount")


def test_an_equal_table_ships_nothing_and_makes_no_commit(orders: World) -> None:
    before = orders.state("orders")
    for parts in ({}, {"compare": AskedComparison(strength=CompareLevel.ROWS)}):
        [run] = assert_done(reconcile(orders, **parts)).runs
        assert (run.status, run.result.counts.read) == (TableRunStatus.IDLE, 0)
        assert "are equal" in run.messages.message
        assert [item.phase.value for item in run.timing.phases] == ["plan", "comparing", "landing", "merge", "commit"]
    after = orders.state("orders")
    assert orders.data_commits("orders") == [1]
    assert (after.op_seq, after.committed_op_seq, after.progress.watermark) == (before.op_seq + 2, before.op_seq, before.progress.watermark)
    orders.sql(f"UPDATE orders SET amount = 9, updated_at = {NOW[orders.schema == 'public']} WHERE id = 1")
    assert_done(orders.run())
    assert orders.data_commits("orders") == [1, 4]


def test_deletes_changed_keys_and_lost_rows_are_found_by_reading_little(orders: World) -> None:
    orders.sql(
        "DELETE FROM orders WHERE id IN (7, 700, 1999)",
        "UPDATE orders SET id = 5000, updated_at = '2020-01-01' WHERE id = 12",  # the cursor goes where no window comes
    )
    orders.spark.sql(f"DELETE FROM delta.`{orders.path('orders')}` WHERE id = 1500")
    watermark = orders.state("orders").progress.watermark
    [run] = assert_done(reconcile(orders)).runs
    assert run.result.counts.deleted == 4
    assert run.result.counts.inserted == 2
    assert run.result.counts.read < ROWS / 2
    assert equal(orders)
    assert orders.state("orders").progress.watermark == watermark


def test_a_change_that_the_cursor_did_not_see_is_found_by_comparing_rows(orders: World) -> None:
    orders.sql("UPDATE orders SET amount = 4, updated_at = '2020-01-01' WHERE id IN (5, 1005)")
    assert [run.result.counts.read for run in assert_done(reconcile(orders)).runs] == [0]
    [run] = assert_done(reconcile(orders, compare=AskedComparison(strength=CompareLevel.ROWS))).runs
    assert (run.result.counts.updated, run.result.counts.inserted, run.result.counts.deleted) == (2, 0, 0)
    assert equal(orders)


def test_more_deletes_than_are_allowed_stop_before_anything_is_written(orders: World) -> None:
    orders.sql("DELETE FROM orders")
    before = orders.lake("orders", "id")
    [failure] = reconcile(orders).failures
    assert isinstance(failure.error, DeletesRefusedError)
    assert f"{ROWS:,} of {ROWS:,} rows" in failure.error.what
    assert "--accept-deletes 100%" in failure.error.next
    assert orders.lake("orders", "id") == before
    orders.sql(f"INSERT INTO orders (id, amount, updated_at) VALUES (1, 1, {NOW[orders.schema == 'public']})")
    assert_done(orders.run())  # increments do not wait for the decision
    assert orders.wrong() == [AlertKind.DELETES], "and end no alert"
    assert orders.data_commits("orders") == [1, 3]
    name = str(orders.name("orders"))
    assert reconcile(orders, tables=(name,), accepts=Accepts(deletes=ROWS - 2)).failures
    assert reconcile(orders, tables=(name,), accepts=Accepts(delete_ratio=0.5)).failures
    assert_done(reconcile(orders, tables=(name,), accepts=Accepts(delete_ratio=1.0)))
    assert equal(orders)
    assert orders.wrong() == []


def dies_before(step: Step | None) -> Callable[[World], Callable[[JobSpec], StepResult]]:
    """An application that is killed: before it does anything, between extract and merge, or after its commit."""

    def dying(world: World) -> Callable[[JobSpec], StepResult]:
        def run(job: JobSpec) -> StepResult:
            if step is Step.MERGE:
                world.execute(replace(job, step=Step.EXTRACT))
            elif step is None:
                world.execute(job)
            raise JobLostError("killed")

        return run

    return dying


@pytest.mark.parametrize("step", [Step.EXTRACT, Step.MERGE, None], ids=["before extract", "between extract and merge", "after the commit"])
def test_a_killed_reconcile_is_finished_by_the_next_run(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, step: Step | None
) -> None:
    world = World(mariadb, tmp_path, spark)
    world.sql(MARIADB_ORDERS, MARIADB_FILL, "ANALYZE TABLE orders")
    assert_done(world.run())
    world.sql("DELETE FROM orders WHERE id = 7")
    world.run(kind=RunKind.RECONCILE, execute_with=dies_before(step)(world))
    # What comes back after it was read is not deleted for good: the next increment brings it, as its cursor is newer.
    world.sql("INSERT INTO orders (id, amount) VALUES (7, 77)", "UPDATE orders SET amount = 5 WHERE id = 8")
    assert_done(world.run())
    assert_done(world.run())
    assert equal(world)
    assert world.data_commits("orders")[0] == 1


def test_an_application_that_lives_on_although_it_was_given_up_brings_nothing_back_behind_a_comparison(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_ops.steps.recover.MAX_ATTEMPTS", 1)
    world = World(mariadb, tmp_path, spark)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq FROM seq_1_to_50", "ANALYZE TABLE orders")
    assert_done(world.run())
    jobs = []

    def falls_silent(job: JobSpec) -> StepResult:
        jobs.append(job)
        world.execute(replace(job, step=Step.EXTRACT))
        raise JobLostError("nothing was heard of it")

    world.sql("INSERT INTO orders (id, customer, amount) VALUES (99, 'short-lived', 1)")
    world.resync(ResyncMode.KEYS, tables=(str(world.name("orders")),), keys=(("99",),), execute_with=falls_silent)
    world.sql("DELETE FROM orders WHERE id = 99")
    [compared] = assert_done(reconcile(world)).runs
    assert (compared.status, world.data_commits("orders")) == (TableRunStatus.IDLE, [1, 2])
    [told] = world.execute(replace(jobs[0], step=Step.MERGE)).tables
    assert [one.outcome for one in told.operations] == [Outcome.ALREADY_APPLIED], "its number was taken, in its own name"
    assert_done(world.run())
    assert (equal(world), world.data_commits("orders")) == (True, [1, 2])
    # Once is enough: another comparison finds the number taken.
    assert_done(reconcile(world))
    assert world.data_commits("orders") == [1, 2]


def test_a_comparison_that_is_committed_already_and_merged_again_says_so_and_not_that_nothing_differs(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(mariadb, tmp_path, spark)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq FROM seq_1_to_50", "ANALYZE TABLE orders")
    assert_done(world.run())
    outcomes = []

    def merges_twice(job: JobSpec) -> StepResult:
        world.execute(replace(job, step=Step.EXTRACT))
        for _ in range(2):
            result = world.execute(replace(job, step=Step.MERGE))
            outcomes.extend(one.outcome for table in result.tables for one in table.operations)
        return result

    world.sql("DELETE FROM orders WHERE id = 7")
    [run] = assert_done(reconcile(world, execute_with=merges_twice)).runs
    assert outcomes == [Outcome.APPLIED, Outcome.ALREADY_APPLIED]
    assert (run.status, run.result.counts.deleted) == (TableRunStatus.COMMITTED, 1)
    assert (equal(world), world.data_commits("orders")) == (True, [1, 2])


def test_a_table_without_cursor_is_compared_by_every_run_and_only_what_differs_is_merged(world: World) -> None:
    world.sql("CREATE TABLE plain (id VARCHAR(20) PRIMARY KEY, amount DECIMAL(12,2))")
    numbers = "generate_series(1, 500) AS seq" if world.schema == "public" else "seq_1_to_500"
    world.sql(f"INSERT INTO plain SELECT CONCAT('k', seq), seq FROM {numbers}")
    world.configure(cursor=())
    assert_done(world.run())
    before = world.state("plain")
    [run] = assert_done(world.run()).runs
    assert (run.status, run.result.counts.read) == (TableRunStatus.IDLE, 0)
    world.sql(
        "UPDATE plain SET amount = 5 WHERE id = 'k7'",
        "DELETE FROM plain WHERE id = 'k8'",
        "INSERT INTO plain VALUES ('K7', 1)" if world.schema == "public" else "UPDATE plain SET id = 'k9b' WHERE id = 'k9'",
    )
    [run] = assert_done(world.run()).runs
    assert run.result.counts.updated == 1
    assert run.result.counts.read < 100
    assert equal(world, "plain")
    after = world.state("plain")
    assert after.progress.watermark == before.progress.watermark
    assert before.progress.fresh_at is not None
    assert after.progress.fresh_at is not None
    assert after.progress.fresh_at > before.progress.fresh_at


def test_a_table_without_keys_is_replaced_only_when_it_differs(world: World) -> None:
    kinds = {"by_checksums": "INT", "read_whole": "DOUBLE PRECISION"}
    world.configure(cursor=())
    for table, kind in kinds.items():
        world.sql(f"CREATE TABLE {table} (id INT, amount {kind})", f"INSERT INTO {table} VALUES (1, 1), (1, 1), (NULL, 2)")
    assert_done(world.run())
    assert {run.status for run in assert_done(world.run()).runs} == {TableRunStatus.IDLE}
    for table in kinds:
        world.sql(f"DELETE FROM {table} WHERE id IS NULL", f"INSERT INTO {table} VALUES (3, 3)")
    assert_done(world.run())
    for table in kinds:
        assert equal(world, table), table
        assert world.data_commits(table) == [1, 3], table


def test_a_table_with_a_column_that_has_no_checksum_is_read_whole_and_merged_by_what_differs(world: World) -> None:
    world.sql("CREATE TABLE waves (id INT PRIMARY KEY, amount DOUBLE PRECISION)", "INSERT INTO waves VALUES (1, 0.1), (2, 0.2), (3, NULL)")
    world.configure(cursor=())
    assert_done(world.run())
    world.sql("UPDATE waves SET amount = 0.3 WHERE id = 3", "DELETE FROM waves WHERE id = 1")
    [run] = assert_done(world.run()).runs
    assert (run.result.counts.read, run.result.counts.updated, run.result.counts.deleted) == (2, 1, 1)
    [run] = assert_done(world.run()).runs
    assert run.status is TableRunStatus.IDLE
    assert equal(world, "waves")


def test_what_changes_between_checksums_and_read_is_judged_by_the_read(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cdc_ops.steps.reconcile import land_differences

    world = World(mariadb, tmp_path, spark)
    world.sql(MARIADB_ORDERS, MARIADB_FILL, "ANALYZE TABLE orders")
    assert_done(world.run())
    world.sql("DELETE FROM orders WHERE id IN (7, 8)")
    find = land_differences.find_differing_buckets

    def find_then_move(checksums: TableChecksums, buckets: Any) -> DifferingBuckets:
        found = find(checksums, buckets)
        world.sql("INSERT INTO orders (id, amount) VALUES (7, 77)", "DELETE FROM orders WHERE id IN (9, 1999)")
        return found

    monkeypatch.setattr(land_differences, "find_differing_buckets", find_then_move)
    [run] = assert_done(reconcile(world)).runs
    ids = {row[0] for row in world.lake("orders", "id")}
    assert 7 in ids  # it came back before its bucket was read
    assert not {8, 9} & ids
    assert 1999 in ids  # its bucket was equal when it was compared; the next reconcile finds it
    assert run.result.counts.deleted == 2
    monkeypatch.undo()
    assert_done(reconcile(world))
    assert_done(world.run())
    assert equal(world)
