"""commit: the verb after merge. The lake has decided already; this brings the ledger up to it and gives the lease back. No Spark here.

The Delta log is asked, not believed second-hand: a Spark application that died after its commit left no result, yet its operation is done.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.events.column_drift import NO_DRIFT, ColumnDrift
from cdc_ops.core.maintenance import carry_over
from cdc_ops.core.operation.commit_record import LakeHead
from cdc_ops.core.operation.job import TableResult
from cdc_ops.core.operation.operation import Counts, Operation, OperationKind, OperationResult, Outcome
from cdc_ops.core.operation.reads import ArchiveRead, CompareRead
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.operation.table_state import (
    LedgerStatus,
    TableState,
    abandoned,
    adopted,
    begun_anew,
    committed,
    compare,
    last_drawn,
    rebuilt,
    rebuilt_from_data,
    unchanged,
)
from cdc_ops.core.phases import PLANNING, Phases, RunPhase, added
from cdc_ops.core.pipeline.paths import staging_root
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.unknown_tables import NONE_UNKNOWN, UnknownTables
from cdc_ops.core.schema.value_policies import NullifiedValues
from cdc_ops.errors import CdcError, DeletesRefusedError, JobLostError, LedgerBehindError, StaleStateError, StateError, from_payload
from cdc_ops.lake.log.head import FoundCommit, commit_counts, find_commit, read_head
from cdc_ops.lake.staging.manifests import expire, find_manifest
from cdc_ops.state.base import OpenNumber, TableRun, TableRunStatus
from cdc_ops.state.lease import Lease
from cdc_ops.steps.archive.frozen_files import record_consumed
from cdc_ops.steps.archive.gaps import keep_gaps, with_missing_events
from cdc_ops.steps.context import Context
from cdc_ops.steps.reporting.late_rows import with_late_rows
from cdc_ops.steps.reporting.stopwatch import measured, stopwatch
from cdc_ops.steps.reporting.told_before import last_announced_version

STAGING_KEPT = timedelta(days=3)
"""How long landed windows stay for whoever wants to look at them."""

MAX_ATTEMPTS = 5
"""Runs that may try a backfill, resync or repair before its number is given up; a live operation is tried for ever, loudly."""

_EQUAL = "source and lake were compared and are the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHead:
    """Where a table stands: in the ledger, and in the lake, which agree."""

    state: TableState
    head: LakeHead | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledTable:
    """One table after its commit step: its line in the run's record, and why operations of it are still open, if any are."""

    run: TableRun
    error: CdcError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What `state rebuild` made of a table's ledger state.

    Args:
        state: As it is now.
        has_table: False if there is no Delta table with rows of ours: the table begins again.
        discarded: Operations that were open; their numbers are burnt.
    """

    state: TableState
    has_table: bool
    discarded: tuple[OpenNumber, ...]


def commit_table(
    context: Context, request: RunRequest, config: TableConfig, result: TableResult | None, application: Phases = ()
) -> SettledTable:
    """Settles what Spark did with one table and releases its lease.

    Args:
        context: Ledger and pipeline.
        request: The run.
        config: The table.
        result: What Spark reported, None if it left no report.
        application: Phases of the Spark application itself.

    Returns:
        The table's line, which is also stored. Operations that did not get through stay frozen for the next run.

    Raises:
        LeaseHeldError: the lease was lost and somebody else works on the table; they finish it.
    """
    store = context.store
    lease = store.acquire(config.pipeline, config.table, request.holder, ttl=context.lease_ttl, live=True, purpose="commit")
    try:
        with stopwatch() as watch, measured(RunPhase.COMMIT):
            settled = _settle(context, lease, request, config, result)
        settled = _with_phases(settled, result, added(application, watch.phases))
        store.record(settled.run)
        _expire_staging(context, config)
        return settled
    finally:
        store.release(lease)


def _with_phases(settled: SettledTable, result: TableResult | None, others: Phases) -> SettledTable:
    """Adds to the phases of the plan, which stand in the run's line already, those of Spark's work and others."""
    planned = tuple(item for item in settled.run.phases if item.phase in PLANNING)
    return replace(settled, run=replace(settled.run, phases=added(planned, result.phases if result else (), others)))


def catch_up(context: Context, lease: Lease, config: TableConfig, reported: dict[str, OperationResult] | None = None) -> TableHead:
    """Brings the ledger up to the lake: settles operations that were committed while the ledger did not hear of it.

    Args:
        context, lease, config: The table, under its lease.
        reported: Results by operation id, for their counts, where Spark left any; what is found out of the others is added.

    Returns:
        Where the table stands.

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
                _settle_next(context, lease, state, unfinished[0], {} if reported is None else reported)
            case LedgerStatus.AHEAD_ABANDONED:
                if head is None or head.record is None or head.record_version is None:
                    raise StateError(f"The abandoned operation in the lake of {config.table} has no commit record.")
                store.settle(lease, state, adopted(state, head.record, head.record_version), None, None)


def rebuild_table(context: Context, request: RunRequest, config: TableConfig, *, watermark: CursorValue | None = None) -> Rebuilt:
    """Rebuilds a table's ledger state from the newest commit record in its Delta log; open operations are discarded.

    Args:
        context, request, config: The table.
        watermark: Where to go on if the log holds no record any more: at most the true watermark, so that rows are read twice, not lost.

    Returns:
        The state, and what was discarded. Without a Delta table the table begins again, under numbers that were never drawn.

    Raises:
        StateError: the log holds no commit record any more; the text says how to go on.
    """
    store = context.store
    lease = store.acquire(config.pipeline, config.table, request.holder, ttl=context.lease_ttl, live=True, purpose="state rebuild")
    try:
        return _rebuild(context, lease, config, watermark)
    finally:
        store.release(lease)


def abandon_exhausted(context: Context, lease: Lease, state: TableState) -> TableState:
    """Burns the numbers of backfills, resyncs and repairs that have failed too often, so that live increments go on."""
    for spec in context.store.open_operations(state.pipeline, state.table):
        if spec.kind.is_live or context.store.attempts(spec) < MAX_ATTEMPTS:
            break
        new = abandoned(state, spec)
        context.store.settle(lease, state, new, spec, None)
        state = new
    return state


def _expire_staging(context: Context, config: TableConfig) -> None:
    """Removes what was landed long ago for operations that are settled; never what an unfinished one may still read."""
    store = context.store
    keep = [spec.target.staging for spec in store.open_operations(config.pipeline, config.table)]
    expire(staging_root(context.pipeline, config.table), store.now() - STAGING_KEPT, keep)


def _settle_next(context: Context, lease: Lease, state: TableState, spec: Operation, reported: dict[str, OperationResult]) -> None:
    found = find_commit(spec.target.path, spec.operation_id)
    if found is None and isinstance(spec.read, CompareRead):
        _settle_unchanged(
            context, lease, state, spec, reported.get(spec.operation_id)
        )  # a later one is in the lake, so this one never will be
        return
    if found is None:
        raise StateError(
            f"Operation {spec.op_seq} of {spec.table} must be in the lake, because a later one is, but its commit is not in the Delta log.",
            why="The log was cleaned up, or the table was edited by others.",
            data="Nothing was written; the watermark stays.",
            next=f"cdc-ops state rebuild --pipeline {spec.pipeline} --table {spec.table}",
        )
    result = reported.setdefault(spec.operation_id, _unreported(spec, found))
    if result.stats is not None:
        previous = context.store.stats(spec.pipeline, spec.table)
        result = replace(result, stats=carry_over(previous, result.stats, context.store.now()))
    reading = manifest.log if isinstance(spec.read, ArchiveRead) and (manifest := find_manifest(spec.target.staging)) else None
    if reading and reading.last_change:
        spec = replace(spec, after=replace(spec.after, fresh_at=reading.last_change))
    after = committed(state, spec, found.version, found.record.progress.archive)
    context.store.settle(lease, state, after, spec, result)
    if reading:
        record_consumed(context.store, lease, spec, reading, context.store.now())
    keep_gaps(context.store, lease, after.progress.archive, reading.gaps if reading else ())


def _unreported(spec: Operation, found: FoundCommit) -> OperationResult:
    """What commit and manifest tell of an operation whose application died after its commit, or lost to another attempt."""
    manifest = find_manifest(spec.target.staging)
    lossy = any(column.lossy for column in spec.source.schema.columns)
    return OperationResult(
        op_seq=spec.op_seq,
        operation_id=spec.operation_id,
        outcome=Outcome.ALREADY_APPLIED,
        delta_version=found.version,
        late=found.record.late,
        counts=replace(
            commit_counts(found, manifest.log.events if manifest and manifest.log else found.record.rows),
            nulled=manifest.nulled if manifest else NullifiedValues(counted=not lossy),
            quarantined=(manifest.log.quarantined if manifest.log else manifest.quarantined) if manifest else 0,
            behind=manifest.log.behind if manifest and manifest.log else 0,
            blank=manifest.log.blank if manifest and manifest.log else 0,
            columns=manifest.log.columns if manifest and manifest.log else NO_DRIFT,
            unknown=manifest.log.unknown if manifest and manifest.log else NONE_UNKNOWN,
            reread=(manifest.reread,) if manifest and manifest.reread else (),
        ),
    )


def _settle_unchanged(context: Context, lease: Lease, state: TableState, spec: Operation, reported: OperationResult | None) -> None:
    result = reported or OperationResult(op_seq=spec.op_seq, operation_id=spec.operation_id, outcome=Outcome.UNCHANGED)
    context.store.settle(lease, state, unchanged(state, spec), spec, result)


def _settle_without_commit(context: Context, lease: Lease, config: TableConfig, reported: dict[str, OperationResult]) -> None:
    """Settles comparisons that found nothing to do: the lake cannot tell, so Spark's word counts, once the lake was asked for a commit."""
    for spec in context.store.open_operations(config.pipeline, config.table):
        result = reported.get(spec.operation_id)
        if result is None or result.outcome is not Outcome.UNCHANGED:
            return
        _settle_unchanged(context, lease, context.store.table_state(config.pipeline, config.table), spec, result)


def _give_up_refused(context: Context, lease: Lease, config: TableConfig) -> None:
    """Gives up a comparison whose deletes were refused: somebody has to decide, and increments must not wait for it."""
    for spec in context.store.open_operations(config.pipeline, config.table)[:1]:
        if isinstance(spec.read, CompareRead):
            state = context.store.table_state(config.pipeline, config.table)
            context.store.settle(lease, state, abandoned(state, spec), spec, None)


def _settle(context: Context, lease: Lease, request: RunRequest, config: TableConfig, result: TableResult | None) -> SettledTable:
    store = context.store
    frozen = store.open_operations(config.pipeline, config.table)
    lines, state = store.history(config.pipeline, config.table), store.table_state(config.pipeline, config.table)
    told = last_announced_version(lines, request.run_id, state.delta_version)
    reported = {item.operation_id: item for item in result.operations} if result else {}
    taken = next((item for item in reported.values() if item.outcome is Outcome.NUMBER_TAKEN), None)
    if taken:
        _follow_lake(context, lease, config)
        problem: CdcError | None = StaleStateError(
            f"Operation {taken.op_seq} of {config.table} was committed by another run.",
            why="It was given up and a later one has been committed, or the ledger was lost or rebuilt while it was open.",
            data="What it had read was discarded; the ledger stands where the table does.",
            next="Run again: the next run creates a new plan.",
        )
    else:
        catch_up(context, lease, config, reported)
        _settle_without_commit(context, lease, config, reported)
        problem = _problem(config, result) if store.open_operations(config.pipeline, config.table) else None
        if isinstance(problem, DeletesRefusedError):
            _give_up_refused(context, lease, config)
    opened = _opened_run(context, request, config, frozen)
    nothing = bool(reported) and all(item.outcome is Outcome.UNCHANGED for item in reported.values())
    done = TableRunStatus.IDLE if nothing else TableRunStatus.COMMITTED
    run = replace(
        opened,
        status=TableRunStatus.FAILED if problem else done,
        finished_at=store.now(),
        delta_version=store.table_state(config.pipeline, config.table).delta_version,
        told_before=told,
        counts=(counts := _total(reported.values())),
        note=(note := "" if problem else _note(frozen, reported, lost=result is None)),
        alert=_alert(opened.alert, counts.columns.alert),
        message=str(problem) if problem else "; ".join(filter(None, (_EQUAL if nothing else "", opened.message, note, counts.warning))),
    )
    run = with_late_rows(run, config, frozen, reported)
    return SettledTable(run=with_missing_events(run, context, config, frozen), error=problem)


def _note(frozen: tuple[Operation, ...], reported: dict[str, OperationResult], *, lost: bool) -> str:
    """Says which operations were committed, and not by a statement whose report this run has.

    Args:
        frozen: What the run worked on.
        reported: What became of it.
        lost: There is no report at all.
    """
    how = "was committed before its Spark application was lost" if lost else "was committed by another attempt"
    known = (item for spec in frozen if (item := reported.get(spec.operation_id)))
    elsewhere = [item for item in known if item.outcome is Outcome.ALREADY_APPLIED]
    return "; ".join(f"operation {item.op_seq} {how} (Delta version {item.delta_version}), whose counts these are" for item in elsewhere)


def _alert(planned: str, found: str) -> str:
    """Returns what somebody has to look at: what the plan said, and what reading showed; a step that is done again says it once."""
    return planned if found in planned else "; ".join(filter(None, (planned, found)))


def _problem(config: TableConfig, result: TableResult | None) -> CdcError:
    if result is not None and result.error is not None:
        return from_payload(result.error)
    return JobLostError(
        f"The Spark application ended without a result for {config.table}.",
        why="It was killed, ran out of memory, or could not start.",
        data="Its operation is frozen in the ledger and not committed; the watermark stays.",
        next="Run again; it continues where it stopped.",
    )


def _opened_run(context: Context, request: RunRequest, config: TableConfig, frozen: tuple[Operation, ...]) -> TableRun:
    """The line that the plan wrote for this run, or a new one where the ledger has lost it."""
    opened = context.store.table_run(config.pipeline, config.table, request.run_id)
    if opened is not None:
        return opened
    return TableRun(
        pipeline=config.pipeline,
        table=config.table,
        run_id=request.run_id,
        trigger=request.trigger,
        kind=frozen[0].kind if frozen else OperationKind.INCREMENT,
        status=TableRunStatus.PLANNED,
        started_at=context.store.now(),
    )


def _total(results: Iterable[OperationResult]) -> Counts:
    counts = [item.counts for item in results]
    return Counts(
        read=sum(c.read for c in counts),
        inserted=sum(c.inserted for c in counts),
        updated=sum(c.updated for c in counts),
        deleted=sum(c.deleted for c in counts),
        bytes=sum(c.bytes for c in counts),
        nulled=NullifiedValues.total(c.nulled for c in counts),
        quarantined=sum(c.quarantined for c in counts),
        behind=sum(c.behind for c in counts),
        columns=ColumnDrift.total(c.columns for c in counts),
        unknown=UnknownTables.total(c.unknown for c in counts),
        reread=tuple(dict.fromkeys(why for c in counts for why in c.reread)),
        blank=sum(c.blank for c in counts),
    )


def _follow_lake(context: Context, lease: Lease, config: TableConfig) -> None:
    """Follows the table after a number turned out to be somebody else's; a ledger that follows it already keeps the plans of others."""
    try:
        catch_up(context, lease, config)
    except LedgerBehindError:
        _rebuild(context, lease, config)


def _rebuild(context: Context, lease: Lease, config: TableConfig, watermark: CursorValue | None = None) -> Rebuilt:
    head = read_head(config.path, config.pipeline, config.table)
    old, discarded = context.store.table_state(config.pipeline, config.table), context.store.open_numbers(config.pipeline, config.table)
    settled = last_drawn(old, (one.op_seq for one in discarded))
    has_table = head is not None and not head.created_by_us
    if head is None or head.created_by_us:
        state = begun_anew(old, settled=settled)
    elif head.record is not None and head.record_version is not None:
        state = rebuilt(head.record, head.version, txn_version=head.txn_version, settled=settled)
    elif watermark is not None and head.txn_version is not None:
        state = rebuilt_from_data(config.pipeline, config.table, head.txn_version, watermark, delta_version=head.version, settled=settled)
    else:
        raise StateError(
            f"The Delta log of {config.table} holds no cdc-ops commit record any more"
            + (f" (operation {head.txn_version} is known from its checkpoint)." if head.txn_version else "."),
            why="The table was idle for longer than 'delta.logRetentionDuration', or cdc-ops never wrote it.",
            data="Nothing was written; the ledger is as it was.",
            next=f"cdc-ops state rebuild --pipeline {config.pipeline} --table {config.table} --watermark VALUE\n"
            "        VALUE is a cursor value up to which the table is surely complete; rows from there on are read again.",
        )
    context.store.replace_state(lease, state)
    return Rebuilt(state=state, has_table=has_table, discarded=discarded)
