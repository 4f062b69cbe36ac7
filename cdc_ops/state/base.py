"""The ledger as two types: `StateReader` for whoever only looks (plugin page, CLI status, plans), `StateStore` for the steps that write.

The ledger is a cache of the Delta log plus the frozen plans; core.operation.protocol.table_state says how states move, this says how they
are kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.table_state import Phase, TableState
from cdc_ops.core.operation.results import OperationResult
from cdc_ops.core.reconcile.diff import AbandonedOperation
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.archive_base import ArchiveReader, ArchiveStore
from cdc_ops.state.lease import Lease
from cdc_ops.state.notices.alerts import AlertReader, AlertStore
from cdc_ops.state.notices.approvals import ApprovalReader, ApprovalStore
from cdc_ops.state.notices.notified_files import NotifiedFilesReader, NotifiedFilesStore
from cdc_ops.state.notices.pipeline_files import PipelineFileReader, PipelineFileStore
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.state.totals import Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGlance:
    """What a list of many tables needs of a run of one.

    Args:
        status: How the table fared.
        started_at: By the ledger's clock, UTC.
        read: Rows that it read.
        max_lag: How far the table may be behind, by the pipeline file that the run knew; None without a limit.
    """

    status: TableRunStatus
    started_at: datetime
    read: int = 0
    max_lag: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGlance:
    """What lists of many tables are searched, sorted and counted by; far less work than a `TableOverview`.

    Args:
        pipeline, table: Which.
        phase: Where the table is in its life.
        fresh_at: Up to when it is known to hold the source's changes, UTC; None if it has never been complete.
        missing_since: When a run first found that the source does not show it any more, None while it does.
        is_leased: Somebody holds it.
        size_bytes: Of its Delta table, as far as that is known.
        last_run: Its newest line, None if it has none.
    """

    pipeline: str
    table: TableName
    phase: Phase = Phase.NEW
    fresh_at: datetime | None = None
    missing_since: datetime | None = None
    is_leased: bool = False
    size_bytes: int | None = None
    last_run: RunGlance | None = None

    def lag(self, now: datetime) -> timedelta | None:
        """Returns how far the table is behind its source, at least 0; None if it has never been complete.

        Args:
            now: The ledger's clock, UTC.
        """
        return None if self.fresh_at is None else max(now - self.fresh_at, timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOverview:
    """Everything that the status page shows of a table."""

    state: TableState
    stats: TableStats | None
    last_run: TableRun | None
    lease: Lease | None
    method: str = "query"

    @property
    def max_lag(self) -> timedelta | None:
        """How far the table may be behind its source, as its last run knew it; None without a limit."""
        return self.last_run.max_lag if self.last_run else None

    def is_over_max_lag(self, now: datetime) -> bool:
        """True if the table is further behind than its last run's `max_lag`.

        Args:
            now: The ledger's clock, UTC.
        """
        return self.state.exceeds(self.max_lag, now)

    @property
    def glance(self) -> TableGlance:
        """The same at a glance."""
        run = self.last_run
        return TableGlance(
            pipeline=self.state.pipeline,
            table=self.state.table,
            phase=self.state.phase,
            fresh_at=self.state.progress.fresh_at,
            missing_since=self.state.missing_since,
            is_leased=self.lease is not None,
            size_bytes=self.stats.size_bytes if self.stats else None,
            last_run=RunGlance(status=run.status, started_at=run.timing.started_at, read=run.result.counts.read, max_lag=run.max_lag)
            if run
            else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNumber:
    """Number and identity of an open operation."""

    op_seq: int
    operation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeTable:
    """A table that nobody held and that had no open operation when it was looked at.

    Args:
        state: Its state.
        token: Fencing number of its last lease: it moves with every lease.
        stats: The last known numbers of its Delta table.
        last_run: Its newest line, None if it has none.
    """

    state: TableState
    token: int
    stats: TableStats | None = None
    last_run: TableRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTable:
    """A table in which a run has found nothing new.

    Args:
        seen: The table as it was when the run looked at it.
        new: Its state after the run.
        run: Its line of the run.
    """

    seen: FreeTable
    new: TableState
    run: TableRun


class StateReader(ArchiveReader, AlertReader, ApprovalReader, NotifiedFilesReader, PipelineFileReader, ABC):
    """Reads the ledger; offers no way to change it."""

    @abstractmethod
    def now(self) -> datetime:
        """Returns the ledger database's clock, UTC."""

    @abstractmethod
    def table_state(self, pipeline: str, table: TableName) -> TableState:
        """Returns a table's state; a fresh one if the ledger does not know the table."""

    @abstractmethod
    def open_operations(self, pipeline: str, table: TableName) -> tuple[Operation, ...]:
        """Returns the frozen operations that are neither committed nor abandoned, in op_seq order.

        Raises:
            StateError: this version of cdc-ops cannot read one of them; the text names the command that discards it.
        """

    @abstractmethod
    def open_numbers(self, pipeline: str, table: TableName) -> tuple[OpenNumber, ...]:
        """Returns the numbers of those operations, also of such as this version of cdc-ops cannot read."""

    @abstractmethod
    def abandoned_ids(self, pipeline: str, table: TableName) -> frozenset[str]:
        """Returns the operation ids that were given up."""

    @abstractmethod
    def last_abandoned(self, pipeline: str, table: TableName) -> AbandonedOperation | None:
        """Returns the last operation that was given up, if nothing has been committed since; none that compared and found nothing."""

    @abstractmethod
    def attempts(self, operation: Operation) -> int:
        """Returns how many runs have tried the operation so far."""

    @abstractmethod
    def stats(self, pipeline: str, table: TableName) -> TableStats | None:
        """Returns the last known numbers of the Delta table."""

    @abstractmethod
    def lease(self, pipeline: str, table: TableName) -> Lease | None:
        """Returns the unexpired lease of a table."""

    @abstractmethod
    def table_runs(
        self, pipeline: str | None = None, *, run_id: str | None = None, status: TableRunStatus | None = None, limit: int = 100
    ) -> tuple[TableRun, ...]:
        """Returns runs of tables, newest first; only those of a run, or that fared so, if one is given."""

    @abstractmethod
    def newest_runs(self, pipelines: Sequence[str] = (), *, limit: int = 20) -> tuple[tuple[TableRun, ...], ...]:
        """Returns the lines of the runs of some pipelines, or of all: for each run its tables, the newest run first."""

    @abstractmethod
    def history(self, pipeline: str, table: TableName, *, status: TableRunStatus | None = None, limit: int = 50) -> tuple[TableRun, ...]:
        """Returns the runs of one table, newest first; only those that fared so, if a status is given."""

    @abstractmethod
    def table_run(self, pipeline: str, table: TableName, run_id: str) -> TableRun | None:
        """Returns one table's line of a run, None if the run has not come to it."""

    @abstractmethod
    def rows_written(self, since: datetime) -> dict[str, int]:
        """Returns how many rows the runs that began at an instant or later have inserted, updated and deleted, by pipeline.

        Runs that have not committed count nothing, and a pipeline without any is not named.

        Args:
            since: UTC.
        """

    @abstractmethod
    def totals(self, pipeline: str | None = None) -> tuple[Totals, ...]:
        """Returns what was counted of each table, and of pipelines as a whole; forgetting old lines leaves it as it is.

        A ledger that was lost, and a pipeline that was forgotten, count from 0 again.
        """

    @abstractmethod
    def overview(self, pipeline: str | None = None, table: TableName | None = None) -> tuple[TableOverview, ...]:
        """Returns every known table with its state, numbers, last run and lease, sorted by pipeline and table; or those of a name.

        The number of queries is fixed.
        """

    @abstractmethod
    def glances(self) -> tuple[TableGlance, ...]:
        """Returns every known table at a glance, sorted by pipeline and table; one query, for a page that is looked at every minute."""

    @abstractmethod
    def overviews(self, tables: Sequence[tuple[str, TableName]]) -> tuple[TableOverview, ...]:
        """Returns those of some tables that the ledger knows, sorted by pipeline and table; one query.

        Args:
            tables: Pipelines with their tables, at most some hundred.
        """

    @abstractmethod
    def pipelines(self) -> tuple[str, ...]:
        """Returns the names of all pipelines of which the ledger knows anything, sorted."""

    @abstractmethod
    def free_tables(self, pipeline: str, among: Sequence[TableName]) -> tuple[FreeTable, ...]:
        """Returns those of some tables that have a state, no holder, not even of an expired lease, and no open operation.

        A query answers for some hundred tables.
        """


class StateStore(StateReader, ArchiveStore, AlertStore, ApprovalStore, NotifiedFilesStore, PipelineFileStore):
    """Writes the ledger. Every write that moves a table's state is a compare-and-set under a lease token."""

    @abstractmethod
    def acquire(self, pipeline: str, table: TableName, holder: str, *, ttl: timedelta, live: bool, purpose: str = "") -> Lease:
        """Takes or renews the table's lease, at once.

        The same holder gets its own lease back with its token. A lease that has expired goes to the caller with a larger token, and so does
        one whose holder was a process of this machine and is certain to be gone. While a live run waits for the table, other kinds are
        refused.

        Raises:
            LeaseHeldError: another holder has it; the message has the holder, its purpose and the time of expiry.
        """

    @abstractmethod
    def renew(self, lease: Lease, ttl: timedelta) -> Lease:
        """Extends a lease.

        Raises:
            StaleStateError: it is no longer ours.
        """

    @abstractmethod
    def release(self, lease: Lease) -> None:
        """Gives a lease back; a lease that is no longer ours is left alone."""

    @abstractmethod
    def unlock(self, lease: Lease) -> None:
        """Takes a lease away from its holder, whoever that is: its next renewal fails, and its operation is finished by another run.

        Raises:
            StaleStateError: the lease has ended or is another one by now.
        """

    @abstractmethod
    def freeze(self, lease: Lease, expected: TableState, planned: tuple[Operation, ...]) -> None:
        """Writes planned operations, all or none, before their first try, behind those that are unfinished.

        Raises:
            StaleStateError: the state is not `expected`, the first operation does not follow the last unfinished one (or the state, if
                there is none), the lease is lost, or an operation's approval was not granted to its table and run, or has let
                through another plan.
        """

    @abstractmethod
    def refreeze(self, lease: Lease, specs: tuple[Operation, ...]) -> None:
        """Replaces what open operations read and alter, under their own ids and numbers; those that are stored like this are left alone.

        Raises:
            StaleStateError: one is not open any more, or the lease is lost.
        """

    @abstractmethod
    def start_attempt(self, lease: Lease, operation: Operation) -> int:
        """Counts a try of an operation and returns the number of tries including this one."""

    @abstractmethod
    def settle(
        self, lease: Lease, expected: TableState, new: TableState, operation: Operation | None, result: OperationResult | None
    ) -> None:
        """Moves the table's state by compare-and-set, in one transaction with the operation's status.

        Args:
            lease: The right to do so.
            expected: The state that `new` was computed from.
            new: The state to store.
            operation: The operation that this settles: committed if `result` is given, else abandoned, and so is one whose result is
                `UNCHANGED`; None for a scan that found nothing.
            result: What Spark reported; its stats become the table's.

        Raises:
            StaleStateError: the stored state is not `expected` or the lease is lost.
        """

    @abstractmethod
    def settle_idle(self, pipeline: str, idle: Sequence[IdleTable]) -> frozenset[TableName]:
        """Settles tables without news together, each as if the run had taken its lease, moved its state and given it back.

        The number of statements grows by one group of statements for some hundred tables.

        Returns:
            The tables that were settled. One that is not as it was seen, because somebody holds it, had it meanwhile, has planned an
            operation or changed its state, is left alone.
        """

    @abstractmethod
    def replace_state(self, lease: Lease, new: TableState) -> None:
        """Overwrites a table's state with one rebuilt from the lake and discards its open operations."""

    @abstractmethod
    def put_stats(self, lease: Lease, pipeline: str, table: TableName, stats: TableStats) -> None:
        """Stores the numbers after maintenance."""

    @abstractmethod
    def forget(self, pipeline: str) -> tuple[TableName, ...]:
        """Removes everything that the ledger knows of a pipeline, which is gone, and returns its tables; () if it knew nothing.

        Raises:
            LeaseHeldError: a run holds one of its tables; nothing was removed.
        """

    @abstractmethod
    def adopt(self, old: Lease, new: Lease, state: TableState) -> None:
        """Gives all that is known of a table to another pipeline, which has taken its Delta table over.

        Open operations are discarded, and what the other pipeline had of the table is removed. The old pipeline knows nothing of it
        afterwards, and has no lease any more.

        Args:
            old, new: The leases of both on the table.
            state: Its state under the new pipeline.

        Raises:
            StaleStateError: one of the leases is lost; nothing was changed.
        """

    @abstractmethod
    def adopt_rest(self, old: str, new: str) -> None:
        """Gives another pipeline what is known of a pipeline as a whole: files of its archive, alerts and questions without a table."""

    @abstractmethod
    def prune(self, pipeline: str, table: TableName, before: datetime) -> int:
        """Forgets lines of runs and settled operations of a table from before an instant.

        Its newest line, the newest one that committed, and all that is open stays.

        Returns:
            How many were removed; a call removes a bounded number.
        """

    @abstractmethod
    def prune_idle(self, pipeline: str, settled: Iterable[TableName], before: datetime) -> int:
        """Does what `prune` does for tables that were just settled by `settle_idle`, together; lines that committed stay until `prune`.

        Returns:
            How many were removed; a call removes a bounded number.
        """

    @abstractmethod
    def record(self, run: TableRun) -> None:
        """Writes or replaces one table's line of a run, one per pipeline, table and run_id, and what it has found (`findings_of`)."""
