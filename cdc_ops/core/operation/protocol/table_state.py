"""The commit protocol as pure transitions (docs/adr/0002, 0003): how a table's state moves, and what is refused.

The Delta log is the truth: each data commit carries its number (txnVersion = op_seq) and the whole state (`CommitRecord`). The ledger holds
`TableState` as a cache, plus the frozen operations. Nothing here does I/O; the steps call these functions and persist what they return, and
tests/unit/test_commit_protocol.py drives them through crashes, pauses, doubles and lost ledgers.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_record import CommitRecord
from cdc_ops.core.operation.protocol.table_progress import NO_PROGRESS, TableProgress
from cdc_ops.core.operation.reads import ArchiveRead, CompareRead
from cdc_ops.core.schema.table_identity import NO_IDENTITY, TableIdentity
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import StaleStateError


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """What the ledger believes of one table.

    Args:
        pipeline, table: Which.
        generation: 0 = never written; goes up when the whole table is replaced.
        op_seq: The last number that is settled: committed or abandoned. The next operation draws `op_seq + 1`.
        committed_op_seq: The last number that the lake is known to hold; below `op_seq` only after an abandoned operation.
        operation_id: Operation that committed it.
        progress: How far it is, as the last commit left it.
        scanned_to: How far the source was searched, at least the watermark; runs ahead of it on idle tables.
        delta_version: Version of the last data commit.
        readings: Of an auto-increment cursor that writers hold back: the readings of its counter (`core.cursor.auto_increment`), for the
            next plan.
        compared_at: Of a table without cursor, which is compared as a whole: up to when it has been, UTC. Its watermark never moves.
        missing_since: When a run first found that the source does not show the table any more, None while it does.
        identity: The table at the source of which the lake has the rows.
    """

    JSON_INLINE: ClassVar[tuple[str, ...]] = ("progress",)
    pipeline: str
    table: TableName
    generation: int = 0
    op_seq: int = 0
    committed_op_seq: int = 0
    operation_id: str = ""
    progress: TableProgress = NO_PROGRESS
    scanned_to: CursorValue | None = None
    delta_version: int | None = None
    readings: CounterSamples | None = None
    compared_at: datetime | None = None
    missing_since: datetime | None = None
    identity: TableIdentity = NO_IDENTITY

    @property
    def phase(self) -> "Phase":
        """Where the table is in its life."""
        if self.progress.watermark is not None:
            return Phase.READY
        return Phase.SNAPSHOT if self.progress.snapshot is not None else Phase.NEW

    def lag(self, now: datetime) -> timedelta | None:
        """Returns how far the table is behind its source, at least 0; None if it has never been complete.

        Args:
            now: The ledger's clock, UTC.
        """
        fresh_at = self.progress.fresh_at
        return None if fresh_at is None else max(now - fresh_at, timedelta(0))

    def exceeds(self, max_lag: timedelta | None, now: datetime) -> bool:
        """True if the table is further behind its source than it may be; false without a limit, and if it has never been complete.

        Args:
            max_lag: None or 0 = no limit.
            now: The ledger's clock, UTC.
        """
        lag = self.lag(now)
        return max_lag is not None and lag is not None and timedelta(0) < max_lag < lag


class Phase(enum.StrEnum):
    """Life of a table: never read, first read under way, following."""

    NEW = "new"
    SNAPSHOT = "snapshot"
    READY = "ready"


def committed(state: TableState, operation: Operation, delta_version: int, archive: ArchiveWatermark | None = None) -> TableState:
    """Returns the state after `operation` has been committed to the lake: the compare half of compare-and-set.

    Calling it again with the state that it returned gives the same state: a doubled commit step changes nothing.

    Args:
        state: Before.
        operation: The operation.
        delta_version: Of its commit.
        archive: The archive's watermark that the commit carries, for operations that learnt it by reading.

    Raises:
        StaleStateError: the state has moved past this operation, or has not reached it.
    """
    if state.committed_op_seq == operation.op_seq and state.operation_id == operation.operation_id:
        return state
    live = operation.kind.is_live
    if state.op_seq != operation.op_seq - 1:
        raise _stale(state, operation)
    return replace(
        state,
        generation=operation.generation,
        op_seq=operation.op_seq,
        committed_op_seq=operation.op_seq,
        operation_id=operation.operation_id,
        progress=TableProgress(
            watermark=operation.after.watermark,
            snapshot=operation.after.snapshot,
            archive=archive or operation.after.archive or state.progress.archive,
            seen=operation.after.seen if live else state.progress.seen,
            nulls=operation.after.nulls if live else state.progress.nulls,
            fresh_at=operation.after.fresh_at if live or operation.after.fresh_at else state.progress.fresh_at,
        ),
        scanned_to=operation.after.watermark if live else state.scanned_to,
        delta_version=delta_version,
        compared_at=_compared_at(state, operation),
        identity=operation.source.identity,
    )


def _compared_at(state: TableState, operation: Operation) -> datetime | None:
    """Returns up to when a table without cursor has been compared, or read, as a whole; None for tables with a cursor or an archive."""
    if operation.source.cursor.columns or isinstance(operation.read, ArchiveRead) or operation.after.archive is not None:
        return None
    return operation.after.fresh_at or state.compared_at


def projected(state: TableState, unfinished: tuple[Operation, ...]) -> TableState:
    """Returns the state as it will be once all unfinished operations have committed, for planning behind them.

    An operation that is queued behind others is sound for the same reason as one that follows a commit: numbers are committed in
    order, and it reads the source after them. Nothing is queued behind by live runs, so a table that is stuck does not pile up plans.
    """
    for operation in unfinished:
        state = committed(state, operation, state.delta_version or 0)
    return state


def adopted(state: TableState, record: CommitRecord, record_version: int) -> TableState:
    """Returns the state after an abandoned operation turned up in the lake all the same.

    Its number was burnt already, the watermark stays.
    """
    return replace(
        state,
        committed_op_seq=record.op_seq,
        operation_id=record.operation_id,
        delta_version=record_version,
        identity=record.columns.identity,
    )


def abandoned(state: TableState, operation: Operation) -> TableState:
    """Returns the state after an operation was given up: its number is burnt, nothing else moves.

    Raises:
        StaleStateError: the operation is not the table's next one, or it is live: a live operation that cannot finish holds its table.
    """
    if operation.kind.is_live or state.op_seq != operation.op_seq - 1:
        raise _stale(state, operation)
    return replace(state, op_seq=operation.op_seq)


def unchanged(state: TableState, operation: Operation) -> TableState:
    """Returns the state after an operation compared source and lake and found nothing to do.

    The lake has no commit of it, so its number is burnt like that of an abandoned one. A double of it that does find something, because the
    source has moved on meanwhile, may still commit: it is adopted then (`adopted`).

    Raises:
        StaleStateError: the operation is not the table's next one, or none that may end without a commit.
    """
    if not isinstance(operation.read, CompareRead) or state.op_seq != operation.op_seq - 1:
        raise _stale(state, operation)
    progress = replace(state.progress, fresh_at=operation.after.fresh_at or state.progress.fresh_at)
    state = replace(state, identity=operation.source.identity)
    return replace(state, op_seq=operation.op_seq, progress=progress, compared_at=_compared_at(state, operation))


def scanned(state: TableState, to: CursorValue, fresh_at: datetime | None) -> TableState:
    """Returns the state after a plan that found nothing below `to`.

    The watermark does not move, because nothing was committed, and the next window starts at the watermark again: an empty index
    range costs nothing to search twice, and a row that turns up late is still found.
    """
    return replace(state, scanned_to=to, progress=replace(state.progress, fresh_at=fresh_at))


def rebuilt(record: CommitRecord, delta_version: int, *, txn_version: int | None = None, settled: int = 0) -> TableState:
    """Returns the state that a table's commit record in force stands for: `cdc-ops state rebuild`.

    Args:
        record: The record of `LakeHead`; after a RESTORE an older one than the newest.
        delta_version: The head's version, so that a RESTORE up to there counts as seen.
        txn_version: The recorded txnVersion: numbers that the log has seen stay used, also when the rows were restored to before them.
        settled: The last number that the ledger's old state had settled or drawn, if it has one (`last_drawn`): it stays used.
    """
    taken = max(record.op_seq, txn_version or 0)
    return TableState(
        pipeline=record.pipeline,
        table=record.table,
        generation=record.generation,
        op_seq=max(taken, settled),
        committed_op_seq=taken,
        operation_id=record.operation_id,
        progress=record.progress,
        scanned_to=record.progress.watermark,
        delta_version=delta_version,
        identity=record.columns.identity,
    )


def rebuilt_from_data(
    pipeline: str, table: TableName, txn_version: int, low: CursorValue, *, delta_version: int | None = None, settled: int = 0
) -> TableState:
    """Returns the state of a table whose log shows no record any more: the next increment merges everything from `low` on.

    Args:
        pipeline, table: Which.
        txn_version: From the checkpoint; it outlives the records.
        low: A position that the true watermark had reached: somebody's decision. The largest cursor in the table is *not* one, because
            snapshots, backfills and resyncs read rows from above the safe bound (docs/adr/0002).
        delta_version: The head's version.
        settled: As for `rebuilt`.
    """
    return TableState(
        pipeline=pipeline,
        table=table,
        generation=1,
        op_seq=max(txn_version, settled),
        committed_op_seq=txn_version,
        progress=TableProgress(watermark=low),
        scanned_to=low,
        delta_version=delta_version,
    )


def restarted_state(state: TableState, *, settled: int) -> TableState:
    """Returns the state of a table that the lake does not have (any more): it starts again, and no operation number is used twice.

    Args:
        state: The ledger's old state.
        settled: As for `rebuilt`.
    """
    generation = state.generation + (1 if state.committed_op_seq else 0)
    return TableState(pipeline=state.pipeline, table=state.table, generation=generation, op_seq=settled)


def last_drawn(state: TableState, open_numbers: Iterable[int]) -> int:
    """Returns the last number that the ledger has settled or drawn: operations that are discarded burn theirs.

    A try of a discarded operation that is still alive commits under a number that is less than any that follows: Delta skips it after
    the next commit, and before that the next plan finds in the lake what the ledger does not know.
    """
    return max((state.op_seq, *open_numbers))


def _stale(state: TableState, operation: Operation) -> StaleStateError:
    return StaleStateError(
        f"Operation {operation.op_seq} ({operation.kind}) of {operation.table} does not follow the ledger's last operation,"
        f" {state.op_seq}.",
        why="Another run finished or replaced it in the meantime, or the ledger was rebuilt.",
        data="Delta never applies an operation twice; this step did not change the watermark.",
        next="Nothing to do: the next run creates a new plan.",
    )
