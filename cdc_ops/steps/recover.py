"""recover: the ledger from the lake. Each plan and each commit begins here; `cdc-ops state rebuild` needs nothing else. No Spark here.

    catch_up             settles the operations that the lake has committed and the ledger still holds as open
    abandon_exhausted    gives up backfills, resyncs and repairs that have failed too often
    rebuild_table        writes the ledger's state again, from the newest commit record in the Delta log

The Delta log decides, not the report of a job: a Spark application that died after its commit left no report, yet its operation is done.
"""

from dataclasses import dataclass, replace

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.maintenance import carry_over
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.operation.protocol.ledger_and_lake import LedgerStatus, compare, foreign_error
from cdc_ops.core.operation.protocol.table_state import (
    TableState,
    abandoned,
    adopted,
    committed,
    last_drawn,
    rebuilt,
    rebuilt_from_data,
    restarted_state,
    unchanged,
)
from cdc_ops.core.operation.reads import ArchiveRead, CompareRead
from cdc_ops.core.operation.results import OperationResult, Outcome
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.value_policies import NullifiedValues
from cdc_ops.errors import LedgerBehindError, StateError
from cdc_ops.lake.log.head import FoundCommit, commit_counts, find_commit, read_head
from cdc_ops.lake.staging.manifests import find_manifest
from cdc_ops.state.base import OpenNumber
from cdc_ops.state.lease import Lease
from cdc_ops.steps.archive.frozen_files import record_consumed
from cdc_ops.steps.archive.gaps import keep_gaps
from cdc_ops.steps.context import Context

MAX_ATTEMPTS = 5
"""Runs that may try a backfill, resync or repair before it is abandoned. An increment or snapshot is tried again in every run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHead:
    """A table's state in the ledger and its newest commit in the lake, which agree. `head` is None if there is no Delta table."""

    state: TableState
    head: LakeHead | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The result of `state rebuild` for one table.

    Args:
        state: The table's new state in the ledger.
        has_table: False if there is no Delta table with rows of cdc-ops: the table begins with a new snapshot.
        discarded: Operations that were open. Their numbers are never used again.
        by_hand: True if the log had no commit record, so that the watermark is the one that was given.
    """

    state: TableState
    has_table: bool
    discarded: tuple[OpenNumber, ...]
    by_hand: bool = False


def catch_up(context: Context, lease: Lease, config: TableConfig, reported: dict[str, OperationResult] | None = None) -> TableHead:
    """Brings the ledger up to the lake: settles operations that the lake has committed and the ledger still holds as open.

    Args:
        context, lease, config: The table, under its lease.
        reported: Results by operation id, as far as Spark reported them: the source of row counts. The results of other settled
            operations are added, with counts from the Delta log and the manifest.

    Returns:
        The table's state and newest commit, which agree now.

    Raises:
        LedgerBehindError, LakeBehindError, TargetForeignError: ledger and lake cannot be reconciled without a decision.
    """
    store = context.store
    while True:
        state = store.table_state(config.pipeline, config.table)
        head = read_head(config.path, config.pipeline, config.table)
        unfinished = store.open_operations(config.pipeline, config.table)
        match compare(state, head, unfinished, store.abandoned_ids(config.pipeline, config.table)):
            case LedgerStatus.EQUAL:
                return TableHead(state=state, head=head)
            case LedgerStatus.AHEAD_OURS:
                _settle_committed(context, lease, state, unfinished[0], {} if reported is None else reported)
            case LedgerStatus.AHEAD_ABANDONED:
                if head is None or head.record is None or head.record_version is None:
                    raise StateError(
                        f"The abandoned operation in the lake of {config.table} has no commit record.",
                        why="Its Delta commit was made by others, or its metadata was removed.",
                        data="Nothing was written; the watermark stays.",
                        next=f"cdc-ops state rebuild --pipeline {config.pipeline} --table {config.table}",
                    )
                store.settle(lease, state, adopted(state, head.record, head.record_version), None, None)


def _settle_committed(
    context: Context, lease: Lease, state: TableState, operation: Operation, reported: dict[str, OperationResult]
) -> None:
    """Settles the first open operation of a table whose lake has a commit of it, or of a later one."""
    found = find_commit(operation.target.path, operation.operation_id)
    if found is None and isinstance(operation.read, CompareRead):
        # The lake has a later operation, so this one will never be committed: Delta skips its number.
        settle_unchanged(context, lease, state, operation, reported.get(operation.operation_id))
        return
    if found is None:
        raise StateError(
            f"Operation {operation.op_seq} of {operation.table} must be in the lake, because a later one is, but the Delta log"
            " lacks its commit.",
            why="The log was cleaned up, or others edited the table.",
            data="Nothing was written; the watermark stays.",
            next=f"cdc-ops state rebuild --pipeline {operation.pipeline} --table {operation.table}",
        )
    result = reported.setdefault(operation.operation_id, _unreported(operation, found))
    if result.stats is not None:
        previous = context.store.stats(operation.pipeline, operation.table)
        result = replace(result, stats=carry_over(previous, result.stats, context.store.now()))
    reading = manifest.log if isinstance(operation.read, ArchiveRead) and (manifest := find_manifest(operation.target.staging)) else None
    if reading and reading.last_change:
        operation = replace(operation, after=replace(operation.after, fresh_at=reading.last_change))
    after = committed(state, operation, found.version, found.record.progress.archive)
    context.store.settle(lease, state, after, operation, result)
    if reading:
        record_consumed(context.store, lease, operation, reading, context.store.now())
    keep_gaps(context.store, lease, after.progress.archive, reading.gaps if reading else ())


def _unreported(operation: Operation, found: FoundCommit) -> OperationResult:
    """Returns the result of an operation without a report, from its Delta commit and its manifest.

    Its Spark application ended after the commit, or another attempt committed the operation.
    """
    manifest = find_manifest(operation.target.staging)
    counts = commit_counts(found, found.record.counts.rows)
    lossy = any(column.lossy for column in operation.source.schema.columns)
    return OperationResult(
        op_seq=operation.op_seq,
        operation_id=operation.operation_id,
        outcome=Outcome.ALREADY_APPLIED,
        delta_version=found.version,
        late=found.record.counts.late,
        counts=counts.with_landed(manifest) if manifest else replace(counts, nulled=NullifiedValues(counted=not lossy)),
    )


def settle_unchanged(context: Context, lease: Lease, state: TableState, operation: Operation, reported: OperationResult | None) -> None:
    """Settles a comparison that found source and lake equal, so that it made no commit; `reported` is None if Spark left no report."""
    result = reported or OperationResult(op_seq=operation.op_seq, operation_id=operation.operation_id, outcome=Outcome.UNCHANGED)
    context.store.settle(lease, state, unchanged(state, operation), operation, result)


def abandon_exhausted(context: Context, lease: Lease, state: TableState) -> TableState:
    """Abandons the first backfills, resyncs and repairs of a table that have failed `MAX_ATTEMPTS` times, so that increments continue.

    Returns:
        The table's state without them; their numbers are never used again.
    """
    for operation in context.store.open_operations(state.pipeline, state.table):
        if operation.kind.is_live or context.store.attempts(operation) < MAX_ATTEMPTS:
            break
        new = abandoned(state, operation)
        context.store.settle(lease, state, new, operation, None)
        state = new
    return state


def follow_lake(context: Context, lease: Lease, config: TableConfig) -> None:
    """Brings the ledger to the lake's state after another run committed an operation under the same number.

    A ledger that has caught up keeps its open operations; only a ledger that is behind is rebuilt.
    """
    try:
        catch_up(context, lease, config)
    except LedgerBehindError:
        _rebuild(context, lease, config)


def rebuild_table(context: Context, request: RunRequest, config: TableConfig, *, watermark: CursorValue | None = None) -> Rebuilt:
    """Rebuilds a table's ledger state from the newest commit record in its Delta log. Open operations are discarded.

    Args:
        context, request, config: The table.
        watermark: Where increments continue if the log no longer has a commit record: at most the true watermark, so that rows are read
            twice, not lost.

    Returns:
        The new state and the discarded operations. Without a Delta table the next run begins with a snapshot, under new numbers.

    Raises:
        LeaseHeldError: another run works on the table.
        StateError: the log no longer has a commit record, and no `watermark` is given.
        TargetForeignError: another pipeline writes the table.
    """
    store = context.store
    lease = store.acquire(config.pipeline, config.table, request.holder, ttl=context.lease_ttl, live=True, purpose="state rebuild")
    try:
        return _rebuild(context, lease, config, watermark)
    finally:
        store.release(lease)


def _rebuild(context: Context, lease: Lease, config: TableConfig, watermark: CursorValue | None = None) -> Rebuilt:
    head = read_head(config.path, config.pipeline, config.table)
    old, discarded = context.store.table_state(config.pipeline, config.table), context.store.open_numbers(config.pipeline, config.table)
    settled = last_drawn(old, (one.op_seq for one in discarded))
    has_table = head is not None and not head.created_by_us
    by_hand = False
    if head is None or head.created_by_us:
        state = restarted_state(old, settled=max(settled, (head.txn_version if head else None) or 0))
    elif head.record is not None and head.record_version is not None:
        state = rebuilt(head.record, head.version, txn_version=head.txn_version, settled=settled)
    elif watermark is not None and head.txn_version is not None:
        by_hand = True
        state = rebuilt_from_data(config.pipeline, config.table, head.txn_version, watermark, delta_version=head.version, settled=settled)
    elif head.txn_version is None and head.foreign_app_ids:
        raise foreign_error(old, head)
    else:
        raise StateError(
            f"The Delta log of {config.table} no longer has a commit record of cdc-ops"
            + (f" (its checkpoint names operation {head.txn_version})." if head.txn_version else "."),
            why="The table was idle for longer than 'delta.logRetentionDuration', or cdc-ops never wrote it.",
            data="Nothing was written; the ledger is unchanged.",
            next=f"cdc-ops state rebuild --pipeline {config.pipeline} --table {config.table} --watermark VALUE\n"
            "        VALUE is a cursor value up to which the table is certainly complete; the next run reads rows from there on again.",
        )
    context.store.replace_state(lease, state)
    return Rebuilt(state=state, has_table=has_table, discarded=discarded, by_hand=by_hand)
