"""The ledger in a SQL database: `open_reader` for whoever looks, `open_store` for the steps that write.

    StateReader <- SqlStateReader (database refuses writes)        SqlStateStore (compare-and-set under a lease) -> StateStore

Every write of a table's state is one transaction that locks the table's row, compares the lease's token and the stored state, and only then
writes. What the rows mean is in db/schema.py; leases, operations and runs have a module each.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Row, select, update

from cdc_ops.core import json_codec
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.results import OperationResult, Outcome
from cdc_ops.core.reconcile.diff import AbandonedOperation
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import ConfigError, LeaseHeldError, StaleStateError
from cdc_ops.state.base import FreeTable, IdleTable, OpenNumber, StateReader, StateStore, TableGlance, TableOverview
from cdc_ops.state.db import adoption, forgetting, idle_tables, leases, operations, pruning, runs, table_rows, totals
from cdc_ops.state.db.archives import SqlArchiveReader, SqlArchiveStore
from cdc_ops.state.db.database import PATIENCE, Database
from cdc_ops.state.db.notices import alerts, approvals
from cdc_ops.state.db.notices.alerts import SqlAlertReader, SqlAlertStore
from cdc_ops.state.db.notices.approvals import SqlApprovalReader, SqlApprovalStore
from cdc_ops.state.db.notices.notified_files import SqlNotifiedFilesReader, SqlNotifiedFilesStore
from cdc_ops.state.db.notices.pipeline_files import SqlPipelineFileReader, SqlPipelineFileStore
from cdc_ops.state.db.operations import OperationStatus
from cdc_ops.state.db.schema import tables
from cdc_ops.state.lease import Lease
from cdc_ops.state.migrate import is_current, ledger_version, outdated, upgrade
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.state.totals import Totals

T = TypeVar("T")


def open_reader(url: str, *, patience: timedelta = PATIENCE) -> "SqlStateReader":
    """Opens a ledger for reading. Nothing is connected, created or upgraded; where there is no ledger, everything is empty.

    Args:
        url: SQLAlchemy URL. A SQLite file in WAL mode needs a folder that the reader may write, for SQLite's own index of the log.
        patience: How long a statement waits for a lock.

    Raises:
        ConfigError: the URL cannot be meant.
    """
    return SqlStateReader(Database(url, read_only=True, patience=patience))


def open_store(url: str, *, patience: timedelta = PATIENCE) -> "SqlStateStore":
    """Opens a ledger for writing; creates or upgrades it first if need be.

    Args:
        url: SQLAlchemy URL; the file and folder of a SQLite ledger are created.
        patience: How long a statement waits for a lock.

    Raises:
        ConfigError: the URL cannot be meant, or the database refuses the login.
        StateError: the ledger is newer than this code.
        LedgerUnavailableError: its database does not answer.
    """
    database = Database(url, read_only=False, patience=patience)
    try:
        upgrade(database)
    except BaseException:
        database.close()
        raise
    return SqlStateStore(database)


class SqlStateReader(SqlArchiveReader, SqlAlertReader, SqlApprovalReader, SqlNotifiedFilesReader, SqlPipelineFileReader, StateReader):
    """Reads the ledger; see `StateReader` for what each method promises. Threads may share it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checked = False
        self._parsed: runs.Parsed = {}
        self._glanced: runs.Glances = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._database.safe_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._database.close()

    def required(self) -> Self:
        """Returns this reader where there is a ledger.

        Raises:
            ConfigError: there is none.
            LedgerUnavailableError: its database does not answer, or it waits to be upgraded.
            StateError: it is newer than this code.
        """
        with self._database.read() as connection:
            if self._has_ledger(connection):
                return self
        raise ConfigError(
            f"There is no ledger at {self._database.safe_url}.",
            why="The first run makes it. Either nothing has run yet, or CDC_OPS_LEDGER is not what it is for the runs.",
            data="Nothing was read or written.",
            next="Set CDC_OPS_LEDGER as the runs have it. For a first run: cdc-ops run",
        )

    def now(self) -> datetime:
        """See `StateReader`."""
        with self._database.read() as connection:
            return leases.clock(connection)

    def table_state(self, pipeline: str, table: TableName) -> TableState:
        """See `StateReader`."""
        row = self._table_row(pipeline, table)
        return TableState(pipeline=pipeline, table=table) if row is None else runs.state_of(row)

    def open_operations(self, pipeline: str, table: TableName) -> tuple[Operation, ...]:
        """See `StateReader`."""
        return self._read(lambda connection: operations.open_specs(connection, pipeline, table), ())

    def open_numbers(self, pipeline: str, table: TableName) -> tuple[OpenNumber, ...]:
        """See `StateReader`."""
        return self._read(lambda connection: operations.open_numbers(connection, pipeline, table), ())

    def abandoned_ids(self, pipeline: str, table: TableName) -> frozenset[str]:
        """See `StateReader`."""
        return self._read(lambda connection: operations.abandoned_ids(connection, pipeline, table), frozenset())

    def last_abandoned(self, pipeline: str, table: TableName) -> AbandonedOperation | None:
        """See `StateReader`."""
        known = self.table_state(pipeline, table).committed_op_seq
        return self._read(lambda connection: operations.last_abandoned(connection, pipeline, table, above=known), None)

    def attempts(self, operation: Operation) -> int:
        """See `StateReader`."""
        return self._read(lambda connection: operations.attempts(connection, operation), 0)

    def stats(self, pipeline: str, table: TableName) -> TableStats | None:
        """See `StateReader`."""
        row = self._table_row(pipeline, table)
        return None if row is None or row.stats is None else json_codec.loads(TableStats, row.stats)

    def lease(self, pipeline: str, table: TableName) -> Lease | None:
        """See `StateReader`."""
        return self._read(lambda connection: leases.current(connection, pipeline, table), None)

    def table_runs(
        self, pipeline: str | None = None, *, run_id: str | None = None, status: TableRunStatus | None = None, limit: int = 100
    ) -> tuple[TableRun, ...]:
        """See `StateReader`."""
        return self._read(lambda connection: runs.newest(connection, pipeline, run_id, status, limit), ())

    def newest_runs(self, pipelines: Sequence[str] = (), *, limit: int = 20) -> tuple[tuple[TableRun, ...], ...]:
        """See `StateReader`."""
        return self._read(lambda connection: runs.newest_runs(connection, pipelines, limit), ())

    def history(self, pipeline: str, table: TableName, *, status: TableRunStatus | None = None, limit: int = 50) -> tuple[TableRun, ...]:
        """See `StateReader`."""
        return self._read(lambda connection: runs.history(connection, pipeline, table, status, limit), ())

    def table_run(self, pipeline: str, table: TableName, run_id: str) -> TableRun | None:
        """See `StateReader`."""
        return self._read(lambda connection: runs.table_run(connection, pipeline, table, run_id), None)

    def rows_written(self, since: datetime) -> dict[str, int]:
        """See `StateReader`."""
        return self._read(lambda connection: runs.rows_written(connection, since), {})

    def totals(self, pipeline: str | None = None) -> tuple[Totals, ...]:
        """See `StateReader`."""
        return self._read(lambda connection: totals.read(connection, pipeline), ())

    def overview(self, pipeline: str | None = None, table: TableName | None = None) -> tuple[TableOverview, ...]:
        """See `StateReader`."""
        empty: tuple[tuple[TableOverview, ...], runs.Parsed] = ((), {})
        found, parsed = self._read(lambda connection: runs.overview(connection, pipeline, table, self._parsed), empty)
        if pipeline is None and table is None:
            self._parsed = parsed  # of the tables that there are: it does not grow with time
        return found

    def glances(self) -> tuple[TableGlance, ...]:
        """See `StateReader`."""
        empty: tuple[tuple[TableGlance, ...], runs.Glances] = ((), {})
        found, self._glanced = self._read(lambda connection: runs.glances(connection, self._glanced), empty)
        return found

    def overviews(self, tables: Sequence[tuple[str, TableName]]) -> tuple[TableOverview, ...]:
        """See `StateReader`."""
        return self._read(lambda connection: runs.overview(connection, None, among=tables)[0], ()) if tables else ()

    def pipelines(self) -> tuple[str, ...]:
        """See `StateReader`."""
        return self._read(forgetting.pipelines, ())

    def free_tables(self, pipeline: str, among: Sequence[TableName]) -> tuple[FreeTable, ...]:
        """See `StateReader`."""
        return self._read(lambda connection: idle_tables.free_tables(connection, pipeline, among), ())

    def _table_row(self, pipeline: str, table: TableName) -> Row[Any] | None:
        query = select(tables).where(table_rows.of_table(tables, pipeline, table))
        return self._read(lambda connection: connection.execute(query).first(), None)

    def _read(self, query: Callable[[Connection], T], empty: T) -> T:
        with self._database.read() as connection:
            return query(connection) if self._has_ledger(connection) else empty

    def _has_ledger(self, connection: Connection) -> bool:
        """False before the first run has created the ledger; a ledger of our version is asked for it only once."""
        if not self._checked:
            version = ledger_version(connection)
            if version is None:
                return False
            if not is_current(version, self._database.safe_url):
                raise outdated(version, self._database.safe_url)
            self._checked = True
        return True


class SqlStateStore(
    SqlArchiveStore, SqlAlertStore, SqlApprovalStore, SqlNotifiedFilesStore, SqlPipelineFileStore, SqlStateReader, StateStore
):
    """Writes the ledger; see `StateStore` for what each method promises. Threads may share it."""

    def acquire(self, pipeline: str, table: TableName, holder: str, *, ttl: timedelta, live: bool, purpose: str = "") -> Lease:
        """See `StateStore`."""
        claim = leases.Claim(pipeline=pipeline, table=table, holder=holder, ttl=ttl, live=live, purpose=purpose)
        with self._database.write() as connection:
            answer = leases.acquire(connection, claim)
        if isinstance(answer, LeaseHeldError):
            raise answer
        return answer

    def renew(self, lease: Lease, ttl: timedelta) -> Lease:
        """See `StateStore`. A lease that has expired but was taken by nobody is extended."""
        with self._database.write() as connection:
            return leases.renew(connection, lease, ttl)

    def release(self, lease: Lease) -> None:
        """See `StateStore`."""
        with self._database.write() as connection:
            leases.release(connection, lease)

    def unlock(self, lease: Lease) -> None:
        """See `StateStore`. The token moves on, so that the old holder cannot write either."""
        with self._database.write() as connection:
            leases.unlock(connection, lease)

    def freeze(self, lease: Lease, expected: TableState, planned: tuple[Operation, ...]) -> None:
        """See `StateStore`."""
        _check_table(lease, (expected, *planned))
        with self._database.write() as connection:
            _compare(leases.hold(connection, lease), expected)
            _check_numbers(connection, expected, planned)
            operations.freeze(connection, planned)
            approvals.use(connection, planned)

    def refreeze(self, lease: Lease, specs: tuple[Operation, ...]) -> None:
        """See `StateStore`."""
        _check_table(lease, specs)
        if not specs:
            return
        known = {operation.operation_id: operation for operation in self.open_operations(lease.pipeline, lease.table)}
        changed = [operation for operation in specs if known.get(operation.operation_id) != operation]
        if not changed:
            return
        with self._database.write() as connection:
            leases.hold(connection, lease)
            for operation in changed:
                operations.refreeze(connection, operation)

    def start_attempt(self, lease: Lease, operation: Operation) -> int:
        """See `StateStore`.

        Raises:
            StaleStateError: the lease is lost or the operation is not open any more.
        """
        _check_table(lease, (operation,))
        with self._database.write() as connection:
            leases.hold(connection, lease)
            return operations.count_attempt(connection, operation)

    def settle(
        self, lease: Lease, expected: TableState, new: TableState, operation: Operation | None, result: OperationResult | None
    ) -> None:
        """See `StateStore`. Settling again what is settled the same way changes nothing."""
        _check_table(lease, (expected, new, *((operation,) if operation else ())))
        with self._database.write() as connection:
            row = leases.hold(connection, lease)
            if operation is not None:
                committed = result is not None and result.outcome is not Outcome.UNCHANGED
                target = OperationStatus.COMMITTED if committed else OperationStatus.ABANDONED
                status = operations.status_of(connection, operation)
                if status is target and runs.state_of(row) == new:
                    return
                if status is not OperationStatus.OPEN:
                    raise operations.not_open(operation, status)
                operations.settle(connection, operation, target, result)
            _compare(row, expected)
            _store(connection, lease, new, result.stats if result else None)

    def settle_idle(self, pipeline: str, idle: Sequence[IdleTable]) -> frozenset[TableName]:
        """See `StateStore`."""
        settled: list[TableName] = []
        items = {item.seen.state.table: item for item in idle}
        for some in idle_tables.portions(items):
            with self._database.write() as connection:
                settled += idle_tables.settle(connection, pipeline, [items[table] for table in some])
        return frozenset(settled)

    def prune_idle(self, pipeline: str, settled: Iterable[TableName], before: datetime) -> int:
        """See `StateStore`. Nothing is locked where nothing is old."""
        removed = 0
        for some in idle_tables.portions(settled):
            with self._database.read() as connection:
                run_ids = idle_tables.old_lines(connection, pipeline, some, before)
            if run_ids:
                with self._database.write() as connection:
                    removed += idle_tables.prune(connection, pipeline, some, run_ids, before)
        return removed

    def replace_state(self, lease: Lease, new: TableState) -> None:
        """See `StateStore`."""
        _check_table(lease, (new,))
        with self._database.write() as connection:
            leases.hold(connection, lease)
            operations.discard_open(connection, lease.pipeline, lease.table)
            _store(connection, lease, new, None)

    def put_stats(self, lease: Lease, pipeline: str, table: TableName, stats: TableStats) -> None:
        """See `StateStore`."""
        _check_table(lease, (TableState(pipeline=pipeline, table=table),))
        with self._database.write() as connection:
            leases.hold(connection, lease)
            connection.execute(update(tables).where(table_rows.of_table(tables, pipeline, table)).values(stats=json_codec.dumps(stats)))

    def forget(self, pipeline: str) -> tuple[TableName, ...]:
        """See `StateStore`."""
        with self._database.write() as connection:
            forgotten = forgetting.forget(connection, pipeline)
        if isinstance(forgotten, Lease):
            raise leases.lease_held(forgotten)
        return forgotten

    def adopt(self, old: Lease, new: Lease, state: TableState) -> None:
        """See `StateStore`."""
        _check_table(new, (state,))
        with self._database.write() as connection:
            adoption.adopt(connection, old, new, state)

    def adopt_rest(self, old: str, new: str) -> None:
        """See `StateStore`."""
        with self._database.write() as connection:
            adoption.adopt_rest(connection, old, new)

    def prune(self, pipeline: str, table: TableName, before: datetime) -> int:
        """See `StateStore`. Nothing is locked where nothing is old."""
        with self._database.read() as connection:
            run_ids = pruning.old_runs(connection, pipeline, table, before)
            operation_ids = pruning.old_operations(connection, pipeline, table, before)
        if run_ids or operation_ids:
            with self._database.write() as connection:
                pruning.remove(connection, pipeline, table, run_ids, operation_ids)
                alerts.prune(connection, pipeline, table, before)
                approvals.prune(connection, pipeline, table, before)
        return len(run_ids) + len(operation_ids)

    def record(self, run: TableRun) -> None:
        """See `StateStore`."""
        with self._database.write() as connection:
            runs.record(connection, run)
            alerts.record(connection, run)


def _check_table(lease: Lease, values: tuple[TableState | Operation, ...]) -> None:
    for value in values:
        if (value.pipeline, value.table) != (lease.pipeline, lease.table):
            raise ValueError(f"a lease on {lease.pipeline}/{lease.table} does not allow to write {value.pipeline}/{value.table}")


def _compare(row: Row[Any], expected: TableState) -> None:
    stored = runs.state_of(row)
    if stored != expected:
        raise StaleStateError(
            f"Another run changed the ledger's state of {expected.table} during this step.",
            why=f"The ledger has operation {stored.op_seq}; the step expected {expected.op_seq}"
            + (", with another state." if stored.op_seq == expected.op_seq else "."),
            data="The ledger was not changed. The Delta table shows whether the operation was committed.",
            next="Nothing to do: the next run creates a new plan from the newest state.",
        )


def _check_numbers(connection: Connection, expected: TableState, specs: tuple[Operation, ...]) -> None:
    last = operations.last_open_number(connection, expected.pipeline, expected.table) or expected.op_seq
    numbers = [operation.op_seq for operation in specs]
    if numbers != list(range(last + 1, last + 1 + len(specs))):
        raise StaleStateError(
            f"Operations {', '.join(map(str, numbers))} of {expected.table} do not follow operation {last}.",
            why="Another run froze operations in the meantime.",
            data="The new plan was not written.",
            next="Nothing to do: the next run continues these operations.",
        )


def _store(connection: Connection, lease: Lease, new: TableState, stats: TableStats | None) -> None:
    values = {"state": json_codec.dumps(new)} | ({"stats": json_codec.dumps(stats)} if stats else {})
    connection.execute(update(tables).where(table_rows.of_table(tables, lease.pipeline, lease.table)).values(values))
