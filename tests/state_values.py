"""Values, threads and processes for the tests of the ledger, and the fixtures that its contracts share."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from cdc_ops.core.apply.apply_spec import ApplyMode, Landing
from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.maintenance import TableStats, Upkeep
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.table_state import TableState, committed
from cdc_ops.core.operation.results import Counts, OperationResult, Outcome
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.state.db.database import Database
from cdc_ops.state.lease import Lease
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import TableRun, TableRunStatus
from tests.operations import made, operation_with

T = TypeVar("T")
PIPELINE = "shop"
ORDERS = TableName(schema="shop", name="orders")
TTL = timedelta(minutes=5)
NOON = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)


def make_operation(
    op_seq: int = 1, kind: OperationKind = OperationKind.INCREMENT, *, name: str = "", table: TableName = ORDERS
) -> Operation:
    column = Column(name="id", source_type="bigint", delta_type="bigint", nullable=False, expression="`id`")
    return operation_with(
        pipeline=PIPELINE,
        table=table,
        op_seq=op_seq,
        operation_id=name or f"{table}-{op_seq}",
        run_id="run-1",
        kind=kind,
        generation=1,
        planned_at=NOON,
        path="/lake/orders",
        staging=f"/staging/{op_seq}",
        schema=TableSchema(table=table, columns=(column,), primary_key=("id",)),
        keys=("id",),
        cursor=Cursor(columns=(CursorColumn(name="at", type=CursorType.DATETIME, precision=6),)),
        slices=("name = 'Zoë 🚲'",),
        mode=ApplyMode.MERGE,
        landing=Landing.STAGED,
        window=Window(low=None, high=CursorValue(parts=(f"2026-01-31 12:00:0{op_seq % 10}",))),
        watermark_after=CursorValue(parts=(f"2026-01-31 12:00:0{op_seq % 10}",)),
        fresh_at=NOON,
    )


def result(done: Operation, files: int = 3) -> OperationResult:
    stats = TableStats(delta_version=done.op_seq, files=files, size_bytes=1000, upkeep=Upkeep(optimized_at=NOON))
    return OperationResult(
        op_seq=done.op_seq,
        operation_id=done.operation_id,
        outcome=Outcome.APPLIED,
        delta_version=done.op_seq,
        counts=Counts(read=7),
        stats=stats,
    )


def run(run_id: str, started_at: datetime = NOON, *, table: TableName = ORDERS, pipeline: str = PIPELINE, message: str = "") -> TableRun:
    return made(
        TableRun,
        pipeline=pipeline,
        table=table,
        run_id=run_id,
        trigger="scheduled",
        kind=OperationKind.INCREMENT,
        status=TableRunStatus.COMMITTED,
        started_at=started_at,
        counts=Counts(read=2, inserted=1),
        message=message,
    )


def fresh(table: TableName = ORDERS) -> TableState:
    return TableState(pipeline=PIPELINE, table=table)


def take(store: SqlStateStore, holder: str = "a", *, live: bool = True, ttl: timedelta = TTL, table: TableName = ORDERS) -> Lease:
    return store.acquire(PIPELINE, table, holder, ttl=ttl, live=live, purpose=f"work of {holder}")


def settle(store: SqlStateStore, lease: Lease, done: Operation) -> TableState:
    state = store.table_state(PIPELINE, done.table)
    new = committed(state, done, done.op_seq)
    store.settle(lease, state, new, done, result(done))
    return new


def at_once(count: int, action: Callable[[int], T]) -> list[T | Exception]:
    """Runs an action in several threads that start together, and returns what each returned or raised."""
    barrier, answers = threading.Barrier(count), dict[int, T | Exception]()

    def work(index: int) -> None:
        barrier.wait()
        try:
            answers[index] = action(index)
        except Exception as error:
            answers[index] = error

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[index] for index in range(count)]


def python(code: str, url: str) -> subprocess.Popen[str]:
    """Starts Python code that finds the ledger's URL in `url`; the URL is not in its command line."""
    start = f"import os; from datetime import timedelta; url = os.environ['LEDGER']\n{code}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", start], env=os.environ | {"LEDGER": url}, text=True, **pipes)


def expect_done(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def race(count: int, imports: str, code: str, url: str) -> list[str]:
    """Runs code in several processes that start it together once they have imported what it needs, and returns what they print."""
    processes = [python(f"{imports}\nprint('ready', flush=True); input()\n{code}", url) for _ in range(count)]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return sorted(expect_done(process).strip() for process in processes)


def migrate_to(url: str, version: str) -> None:
    """Creates a ledger as an older version of this package left it."""
    config = Config()
    config.set_main_option("script_location", "cdc_ops.state:migrations")
    database = Database(url, read_only=False)
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, version)
    database.close()


class LedgerFixtures:
    """A ledger at the fixture `url`, which a test class has to give."""

    @pytest.fixture
    def store(self, url: str) -> Iterator[SqlStateStore]:
        with open_store(url) as store:
            yield store

    @pytest.fixture
    def expire(self, store: SqlStateStore) -> Callable[[sa.Table, str], None]:
        """Moves an instant of a table of the ledger into the past."""

        def move(table: sa.Table, column: str) -> None:
            with store._database.write() as connection:
                connection.execute(sa.update(table).values({column: datetime(2020, 1, 1, tzinfo=UTC)}))

        return move
