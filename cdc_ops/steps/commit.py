"""commit: the verb after merge. Settles what the lake has committed, records the run and releases the lease. No Spark here."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from cdc_ops.core.approvals import asked_by
from cdc_ops.core.events.column_drift import ColumnDrift
from cdc_ops.core.operation.job import TableResult
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.table_state import abandoned
from cdc_ops.core.operation.reads import CompareRead
from cdc_ops.core.operation.results import Counts, OperationResult, Outcome, Repairs
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.phases import PLANNING, Phases, RunPhase, added
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.tables.paths import staging_root
from cdc_ops.core.pipeline.tables.unknown_tables import UnknownTables
from cdc_ops.core.schema.value_policies import NullifiedValues
from cdc_ops.errors import CdcError, DeletesRefusedError, JobLostError, StaleStateError, from_payload
from cdc_ops.lake.staging.manifests import expire
from cdc_ops.state.base import StateReader
from cdc_ops.state.lease import Lease
from cdc_ops.state.table_run import AssetEvents, RunMessages, RunResult, RunTiming, TableRun, TableRunStatus
from cdc_ops.steps.archive.gaps import with_missing_events
from cdc_ops.steps.context import Context
from cdc_ops.steps.recover import catch_up, follow_lake, settle_unchanged
from cdc_ops.steps.reporting.findings import note_catalog, note_deletes, note_equal
from cdc_ops.steps.reporting.late_rows import with_late_rows
from cdc_ops.steps.reporting.stopwatch import measured, stopwatch
from cdc_ops.steps.reporting.warned_before import is_silent, last_announced_version
from cdc_ops.steps.table.catalog import remember_registration

STAGING_KEPT = timedelta(days=3)
"""How long landed rows of settled operations stay in the staging area, for inspection."""

_EQUAL = "source and lake were compared and are equal"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledTable:
    """One table after its commit step: its entry in the ledger's runs, and why operations of it are still open, None if none is."""

    run: TableRun
    error: CdcError | None


def commit_table(
    context: Context,
    request: RunRequest,
    config: TableConfig,
    result: TableResult | None,
    application: Phases = (),
    lost: CdcError | None = None,
) -> SettledTable:
    """Settles what Spark did with one table, records it in the ledger and releases the table's lease.

    Args:
        context: Ledger and pipeline.
        request: The run.
        config: The table.
        result: What Spark reported, None if it left no report.
        application: Phases of the Spark application itself.
        lost: Why it left no report, None if that is not known.

    Returns:
        The table's run, as it is stored. Operations that were not committed stay frozen for the next run.

    Raises:
        LeaseHeldError: this run lost the lease, and another run works on the table and will settle it.
    """
    store = context.store
    lease = store.acquire(config.pipeline, config.table, request.holder, ttl=context.lease_ttl, live=True, purpose="commit")
    try:
        with stopwatch() as watch, measured(RunPhase.COMMIT):
            settled = _settle(context, lease, request, config, result, lost)
        settled = _with_phases(settled, result, added(application, watch.phases))
        note_deletes(store, settled.run, settled.error)  # before the line: who looks in between would take the refusal for a failure
        store.record(settled.run)
        _expire_staging(context, config)
        return settled
    finally:
        store.release(lease)


def _settle(
    context: Context, lease: Lease, request: RunRequest, config: TableConfig, result: TableResult | None, lost: CdcError | None
) -> SettledTable:
    store = context.store
    frozen = store.open_operations(config.pipeline, config.table)
    told = last_announced_version(_newest_lines(store, config), request.run_id)
    reported = {item.operation_id: item for item in result.operations} if result else {}
    taken = next((item for item in reported.values() if item.outcome is Outcome.NUMBER_TAKEN), None)
    if taken:
        follow_lake(context, lease, config)
        problem: CdcError | None = StaleStateError(
            f"Operation {taken.op_seq} of {config.table} was committed by another run.",
            why="This run's operation was abandoned and a later one was committed, or the ledger was lost or rebuilt while it was open.",
            data="The rows that this run had read were discarded; the ledger has the state of the Delta table.",
            next="Run again: the next run creates a new plan.",
        )
    else:
        catch_up(context, lease, config, reported)
        _settle_without_commit(context, lease, config, reported)
        problem = _problem(config, result, lost) if store.open_operations(config.pipeline, config.table) else None
        if isinstance(problem, DeletesRefusedError):
            _give_up_refused(context, lease, config)
    opened = _opened_run(context, request, config, frozen)
    nothing = bool(reported) and all(item.outcome is Outcome.UNCHANGED for item in reported.values())
    done = TableRunStatus.IDLE if nothing else TableRunStatus.COMMITTED
    if problem is None:
        note_equal(store, frozen)
    counts, note = _total(reported.values()), "" if problem else _note(frozen, reported, lost=result is None)
    told_catalog = result.catalog if result else None
    remember_registration(store, lease, config, told_catalog)
    note = "; ".join(filter(None, (note, note_catalog(store, config.pipeline, config.table, told_catalog, request.run_id))))
    run = replace(
        opened,
        status=TableRunStatus.FAILED if problem else done,
        timing=replace(opened.timing, finished_at=store.now()),
        result=_reached(context, config, replace(opened.result, counts=counts)),
        messages=_messages(opened.messages, counts, problem, note=note, equal=nothing),
        events=replace(opened.events, told_before=told),
        waits_for=replace(opened.waits_for, asks=asked_by(problem)),
        wrong_request=problem is not None and request.is_wrong_by(problem),
    )
    run = with_late_rows(run, config, frozen, reported)
    return SettledTable(run=with_missing_events(run, context, config, frozen), error=problem)


def _reached(context: Context, config: TableConfig, result: RunResult) -> RunResult:
    """Adds to a run's result how the table is after it."""
    state, stats = context.store.table_state(config.pipeline, config.table), context.store.stats(config.pipeline, config.table)
    reached = replace(result, delta_version=state.delta_version, fresh_at=state.progress.fresh_at)
    return reached if stats is None else replace(reached, files=stats.files, size_bytes=stats.size_bytes)


def _newest_lines(store: StateReader, config: TableConfig) -> tuple[TableRun, ...]:
    """Returns a table's newest lines, and the newest that committed: many idle runs may stand before it."""
    lines = store.history(config.pipeline, config.table)
    if any(line.status is TableRunStatus.COMMITTED for line in lines):
        return lines
    return (*lines, *store.history(config.pipeline, config.table, status=TableRunStatus.COMMITTED, limit=1))


def _settle_without_commit(context: Context, lease: Lease, config: TableConfig, reported: dict[str, OperationResult]) -> None:
    """Settles comparisons that found no difference. They make no commit, so Spark's report decides; `catch_up` has read the lake before."""
    for operation in context.store.open_operations(config.pipeline, config.table):
        result = reported.get(operation.operation_id)
        if result is None or result.outcome is not Outcome.UNCHANGED:
            return
        settle_unchanged(context, lease, context.store.table_state(config.pipeline, config.table), operation, result)


def _problem(config: TableConfig, result: TableResult | None, lost: CdcError | None) -> CdcError:
    if result is not None and result.error is not None:
        return from_payload(result.error)
    return lost or JobLostError(
        f"The Spark application ended without a result for {config.table}.",
        why="It was killed, ran out of memory, or could not start.",
        data="Its operation is frozen in the ledger and not committed; the watermark stays.",
        next="Run again: the next run continues this operation.",
    )


def _give_up_refused(context: Context, lease: Lease, config: TableConfig) -> None:
    """Abandons a comparison whose deletes were refused: a person has to decide, and increments must not wait for that."""
    for operation in context.store.open_operations(config.pipeline, config.table)[:1]:
        if isinstance(operation.read, CompareRead):
            state = context.store.table_state(config.pipeline, config.table)
            context.store.settle(lease, state, abandoned(state, operation), operation, None)


def _opened_run(context: Context, request: RunRequest, config: TableConfig, frozen: tuple[Operation, ...]) -> TableRun:
    """Returns the table's run as the plan recorded it, or a new one if the ledger has lost it."""
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
        timing=RunTiming(started_at=context.store.now()),
        events=AssetEvents(silent=is_silent(request, frozen)),
        max_lag=config.settings.load.max_lag or None,
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
        blank=sum(c.blank for c in counts),
        repairs=Repairs.total(c.repairs for c in counts),
    )


def _messages(planned: RunMessages, counts: Counts, problem: CdcError | None, *, note: str, equal: bool) -> RunMessages:
    """Returns the messages of the plan together with those of the commit."""
    texts = (_EQUAL if equal else "", planned.message, note, counts.warning)
    message = str(problem) if problem else "; ".join(filter(None, texts))
    return replace(planned, message=message, alert=_alert(planned.alert, counts.columns.alert), note=note)


def _note(frozen: tuple[Operation, ...], reported: dict[str, OperationResult], *, lost: bool) -> str:
    """Names the operations that another attempt committed, or an application that left no report.

    Args:
        frozen: The operations that were open when the commit step began.
        reported: Their results by operation id.
        lost: The Spark application left no report at all.
    """
    how = "was committed before its Spark application was lost" if lost else "was committed by another attempt"
    known = (item for operation in frozen if (item := reported.get(operation.operation_id)))
    elsewhere = [item for item in known if item.outcome is Outcome.ALREADY_APPLIED]
    return "; ".join(
        f"operation {item.op_seq} {how} (Delta version {item.delta_version}); the counts are from that commit" for item in elsewhere
    )


def _alert(planned: str, found: str) -> str:
    """Joins the alert of the plan and the alert of the read; a commit step that is repeated does not add it again."""
    return planned if found in planned else "; ".join(filter(None, (planned, found)))


def _with_phases(settled: SettledTable, result: TableResult | None, others: Phases) -> SettledTable:
    """Adds the phases of Spark's work and others to the phases of the plan, which the run has already."""
    planned = tuple(item for item in settled.run.timing.phases if item.phase in PLANNING)
    timing = replace(settled.run.timing, phases=added(planned, result.phases if result else (), others))
    return replace(settled, run=replace(settled.run, timing=timing))


def _expire_staging(context: Context, config: TableConfig) -> None:
    """Removes rows that were landed longer than `STAGING_KEPT` ago, but not those that an open operation may still read."""
    store = context.store
    keep = [operation.target.staging for operation in store.open_operations(config.pipeline, config.table)]
    expire(staging_root(context.pipeline, config.table), store.now() - STAGING_KEPT, keep)
