"""plan: the first verb. Decides, without Spark and in seconds, what a run has to do for each table, and freezes it in the ledger.

    discover -> plan_table (reads only; `cdc-ops plan` prints it)  or  freeze_table (under the table's lease, for a run)

An unfinished operation is resumed, never planned over. A table with nothing new ends here: its `scanned_to` moves, no JVM starts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from cdc_ops import __version__
from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.archive.completeness import MissingEvents
from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.windows import SafeBound, fresh_instant
from cdc_ops.core.operation.commit_record import LakeHead
from cdc_ops.core.operation.job import JobSpec, Step
from cdc_ops.core.operation.operation import Operation, OperationKind, OperationResult
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.operation.table_state import LedgerStatus, TableState, compare, projected, scanned
from cdc_ops.core.phases import Phases, RunPhase
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig, current_settings, known_tables
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.processes import holder_name
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, RequestError
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.staging.manifests import find_landed, is_landed
from cdc_ops.sources.base import Source
from cdc_ops.state.base import StateReader, TableRun, TableRunStatus
from cdc_ops.state.lease import Lease
from cdc_ops.steps.archive.frozen_files import record_frozen, record_scan, with_hashes
from cdc_ops.steps.archive.scan import ArchiveScan
from cdc_ops.steps.context import Context
from cdc_ops.steps.planning.draft import draft_operations, reading_as_now
from cdc_ops.steps.planning.log import reads_otherwise
from cdc_ops.steps.planning.reconcile import method_of
from cdc_ops.steps.planning.request import Draft, TableRequest, choosing_quarantine
from cdc_ops.steps.planning.warnings import event_key_warnings, foreign_warnings, key_warnings
from cdc_ops.steps.recover import TableHead, abandon_exhausted, catch_up
from cdc_ops.steps.reporting.stopwatch import measured, stopwatch
from cdc_ops.steps.reporting.told_before import still_told
from cdc_ops.steps.table.missing_tables import Absence, find_absence, returned_warnings
from cdc_ops.steps.table.schema_evolution import apply_schema_policy, rebase_on_current_columns
from cdc_ops.steps.table.source_table import SourceTable, read_source_table
from cdc_ops.steps.table.storage import can_fill_columns

KIND_OF_RUN = {
    RunKind.INCREMENT: OperationKind.INCREMENT,
    RunKind.BACKFILL: OperationKind.BACKFILL,
    RunKind.RESYNC: OperationKind.RESYNC,
    RunKind.RECONCILE: OperationKind.RECONCILE,
}
"""How a run is recorded for a table that has no operation in it."""

MAX_QUEUED = 3
"""Unfinished backfills and resyncs of a table behind which another one is still planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """What a run would do, or has frozen, for one table.

    Args:
        config: The table and its settings.
        state: The ledger's state that the plan is made for.
        unfinished: Operations that an earlier run, or an earlier try of this one, has frozen; they are executed first, as they are.
        planned: New operations, to be frozen behind them.
        idle: Why nothing new was planned, "" if something was.
        bound: The safe bound, if one was taken and has passed the watermark.
        readings: What is to be kept of an auto-increment cursor's counter.
        survey: What was seen of the table's archive.
        stopped: Why the table cannot go on, although what was seen is worth keeping.
        fresh_at: Instant (UTC) up to which the table is complete, known for idle tables.
        warnings: What the operator should know, each with its fix.
        how: How a snapshot was cut into chunks.
        method: How the table is kept equal, and why this way; "" while an earlier run's operations are finished.
        schema_changes: Those of the warnings that are about changed columns.
        alert: What somebody has to look at now although the run goes on, "" if nothing.
        missing: What the table's archive misses behind the files that are read, a part of the alert; None if nothing.
        missing_since: When a run first found that the source does not show the table, None while it does.
    """

    config: TableConfig
    state: TableState
    unfinished: tuple[Operation, ...] = ()
    planned: tuple[Operation, ...] = ()
    idle: str = ""
    bound: SafeBound | None = None
    fresh_at: datetime | None = None
    warnings: tuple[str, ...] = ()
    how: str = ""
    schema_changes: tuple[str, ...] = ()
    alert: str = ""
    missing: MissingEvents | None = None
    method: str = ""
    readings: CounterSamples | None = None
    survey: ArchiveScan | None = None
    stopped: CdcError | None = None
    missing_since: datetime | None = None

    @property
    def table(self) -> TableName:
        """The table's name."""
        return self.config.table

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What to execute, in order; empty for an idle table."""
        return self.unfinished + self.planned

    @property
    def only_finishes(self) -> bool:
        """True if the plan is to finish what an earlier run began: cursor, archive and bound were not looked at."""
        return bool(self.unfinished) and not self.planned


def group_tables(tables: tuple[TableConfig, ...], per_job: int) -> tuple[tuple[TableConfig, ...], ...]:
    """Cuts tables into the groups that share one Spark application."""
    return tuple(tables[start : start + per_job] for start in range(0, len(tables), per_job))


def plan_table(context: Context, source: Source, request: RunRequest, config: TableConfig) -> TablePlan:
    """Says what a run would do for a table, without writing anything anywhere.

    Raises:
        CdcError: the source, the lake or the request make it impossible; the text says what to do.
    """
    reader = context.store
    state = reader.table_state(config.pipeline, config.table)
    head = read_head(config.path, config.pipeline, config.table)
    standing = check_standing(reader, state, head)
    if standing is not LedgerStatus.EQUAL:
        return TablePlan(config=config, state=state, idle="the lake is ahead of the ledger by a known operation; the next run catches up")
    plan = _plan(context, source, request, config, TableHead(state=state, head=head))
    if plan.stopped is not None:
        raise plan.stopped
    return replace(plan, warnings=(*plan.warnings, *_damaged(plan.unfinished)))


def _damaged(unfinished: Iterable[Operation]) -> tuple[str, ...]:
    """Says which operations a run would read again; a run says it itself, when it has done so."""
    found = ((spec, find_landed(spec).damage) for spec in unfinished if spec.apply.landing is Landing.STAGED)
    return tuple(
        f"the landed rows of operation {spec.op_seq} are damaged ({damage}); a run reads the same window again"
        for spec, damage in found
        if damage
    )


def freeze_table(context: Context, source: Source, request: RunRequest, config: TableConfig) -> TablePlan:
    """Plans a table under its lease and writes the plan to the ledger.

    An idle table's lease is released at once; otherwise it is kept for the steps that follow.

    Raises:
        LeaseHeldError: another run works on the table.
        CdcError: as for `plan_table`; the lease is released.
    """
    store = context.store
    started = store.now()
    live = request.kind is RunKind.INCREMENT
    lease = store.acquire(config.pipeline, config.table, request.holder, ttl=context.lease_ttl, live=live, purpose=request.kind.value)
    try:
        with stopwatch() as watch, measured(RunPhase.PLAN):
            plan = _freeze(context, source, request, config, lease)
        if lease.instead_of:
            taken = f"the table was held by {holder_name(lease.instead_of)}, a process of this machine that is gone; this run took over"
            plan = replace(plan, warnings=(*plan.warnings, taken))
        before = still_told(store, config.pipeline, config.table, request.run_id) if plan.only_finishes else ()
        told = (*plan.warnings, *(text for text in before if text not in plan.warnings))
        store.record(replace(_table_run(request, plan, started, watch.phases), warnings=told))
    except BaseException:
        store.release(lease)
        raise
    if not plan.operations:
        store.release(lease)
    return plan


def build_job(pipeline: Pipeline, request: RunRequest, step: Step, operations: Iterable[Operation], result_path: str) -> JobSpec:
    """Returns the job of one Spark application for frozen operations of a group of tables."""
    frozen = tuple(_relaxed(pipeline, spec) for spec in operations)
    reads_archives = any(isinstance(spec.read, ArchiveRead) for spec in frozen)
    return JobSpec(
        step=step,
        pipeline=pipeline.name,
        run_id=request.run_id,
        source=pipeline.source,
        operations=frozen,
        result_path=result_path,
        package_version=__version__,
        known=known_tables(pipeline) if reads_archives else None,
    )


def _relaxed(pipeline: Pipeline, spec: Operation) -> Operation:
    """A frozen operation whose table no longer fails for values that cannot be stored: else nobody could let it through."""
    settings = current_settings(pipeline, spec.table)
    relaxed = replace(spec.source, schema=spec.source.schema.relaxed(settings.types)) if settings else spec.source
    return replace(spec, source=relaxed)


def check_standing(reader: StateReader, state: TableState, head: LakeHead | None) -> LedgerStatus:
    """Compares a table's ledger and lake; see `cdc_ops.core.operation.table_state.compare` for the errors."""
    operations = reader.open_operations(state.pipeline, state.table)
    return compare(state, head, operations, reader.abandoned_ids(state.pipeline, state.table))


def _freeze(context: Context, source: Source, request: RunRequest, config: TableConfig, lease: Lease) -> TablePlan:
    found: dict[str, OperationResult] = {}
    base = catch_up(context, lease, config, found)
    state = abandon_exhausted(context, lease, base.state)
    plan = _plan(context, source, request, config, replace(base, state=state))
    context.store.refreeze(lease, plan.unfinished)
    for spec in plan.unfinished:
        record_frozen(context.store, lease, spec, context.store.now())
    earlier = tuple(f"an earlier run: {result.counts.warning}" for result in found.values() if result.counts.warning)
    if earlier:
        plan = replace(plan, warnings=(*plan.warnings, *earlier))
    state = _keep(context, lease, state, plan)
    if plan.survey is not None:
        record_scan(context.store, lease, plan.survey)
    if plan.stopped is not None:
        raise plan.stopped
    if plan.planned:
        plan = replace(plan, planned=tuple(map(with_hashes, plan.planned)))
        context.store.freeze(lease, state, plan.planned)
        for spec in plan.planned:
            record_frozen(context.store, lease, spec, context.store.now())
    return plan


def _keep(context: Context, lease: Lease, state: TableState, plan: TablePlan) -> TableState:
    """Writes what the look at the source told, and returns the state with it: readings, and how far an idle table was searched."""
    told = replace(state, readings=plan.readings, missing_since=plan.missing_since)
    if plan.bound is not None and not plan.operations and state.progress.watermark is not None:
        told = scanned(told, plan.bound.value, plan.fresh_at)
    if told != state:
        context.store.settle(lease, state, told, None, None)
    return told


def _grown(unfinished: Iterable[Operation], config: TableConfig, *, declared: bool) -> tuple[str, ...]:
    """Returns what is said of columns that operations of an archive have got since their plan."""
    logs = (spec for spec in unfinished if isinstance(spec.read, ArchiveRead))
    news = (
        change.meaning(config.pipeline, config.table, declared=declared, fills=can_fill_columns(spec.apply.stored_as, spec.apply.keys))
        for spec in logs
        for change in spec.apply.schema_changes
    )
    return tuple(dict.fromkeys(news))


def _corrected(frozen: Iterable[Operation], unfinished: Iterable[Operation]) -> tuple[str, ...]:
    """Says which operations are read by other settings of the archive than those that they were planned with."""
    return tuple(
        f"operation {now.op_seq} had landed nothing, and its files are read by the settings of now: the pipeline's archive was changed"
        for before, now in zip(frozen, unfinished, strict=True)
        if reads_otherwise(before, now)
    )


def _plan(context: Context, source: Source, request: RunRequest, config: TableConfig, base: TableHead) -> TablePlan:
    state, frozen = base.state, context.store.open_operations(config.pipeline, config.table)
    ready = bool(frozen) and all(is_landed(spec) for spec in frozen)  # then the source is not needed
    if not ready and (absence := find_absence(context, source, request, config, state)) is not None:
        return _absent(config, state, absence)
    unfinished = _readable(context, source, request, config, base, frozen)
    if unfinished and not _queues_behind(request, config, unfinished):
        news = (*_corrected(frozen, unfinished), *_grown(unfinished, config, declared=context.pipeline.source.is_declared))
        return _finishing(config, base, unfinished, news)
    facts = apply_schema_policy(read_source_table(context.pipeline, source, config), base.head, request)
    order = _order(context, source, request, facts, projected(state, unfinished))
    draft = draft_operations(order)
    taken = draft.bound or draft.unpassed
    return TablePlan(
        config=config,
        state=state,
        unfinished=unfinished,
        planned=draft.operations,
        idle=draft.idle,
        bound=draft.bound,
        fresh_at=_fresh_at(facts, state, draft),
        warnings=(
            *foreign_warnings(base.head),
            *returned_warnings(state),
            *facts.warnings,
            *key_warnings(facts, state),
            *event_key_warnings(facts),
            *(taken.warnings if taken else ()),
            *draft.warnings,
        ),
        how=draft.how,
        schema_changes=facts.notes,
        alert=" ".join(filter(None, (draft.alert, draft.missing.alert(str(config.table)) if draft.missing else ""))),
        missing=draft.missing,
        method=method_of(source, facts),
        readings=taken.readings if taken else state.readings,
        survey=draft.survey,
        stopped=draft.stopped,
    )


def _finishing(config: TableConfig, base: TableHead, unfinished: tuple[Operation, ...], news: tuple[str, ...]) -> TablePlan:
    return TablePlan(
        config=config,
        state=base.state,
        unfinished=unfinished,
        idle="finishes what an earlier run began",
        warnings=(*foreign_warnings(base.head), *news),
        readings=base.state.readings,
        missing_since=base.state.missing_since,
    )


def _absent(config: TableConfig, state: TableState, absence: Absence) -> TablePlan:
    return TablePlan(
        config=config,
        state=state,
        idle=absence.idle,
        alert=absence.alert,
        readings=state.readings,
        stopped=absence.stopped,
        missing_since=absence.since,
    )


def _order(context: Context, source: Source, request: RunRequest, facts: SourceTable, state: TableState) -> TableRequest:
    return TableRequest(
        source=source, request=request, facts=facts, state=state, ledger=context.store, tables=partial(context.tables, source)
    )


def _fresh_at(facts: SourceTable, state: TableState, draft: Draft) -> datetime | None:
    """How fresh an idle table is: an archive does not tell up to when the source has written into it."""
    if facts.config.settings.method is Method.LOG:
        return state.progress.fresh_at
    return fresh_instant(facts.cursor, draft.bound) if draft.bound else None


def _readable(
    context: Context, source: Source, request: RunRequest, config: TableConfig, base: TableHead, frozen: tuple[Operation, ...]
) -> tuple[Operation, ...]:
    """The unfinished operations, those that have landed nothing brought to the columns, and the archive's settings, of now."""
    if all(is_landed(spec) for spec in frozen):
        return frozen
    facts = read_source_table(context.pipeline, source, config)
    order = _order(context, source, request, facts, base.state)

    def brought_up(spec: Operation) -> Operation:
        return reading_as_now(order, choosing_quarantine(rebase_on_current_columns(spec, facts, base.head, request), facts))

    return tuple(spec if is_landed(spec) else brought_up(spec) for spec in frozen)


def _queues_behind(request: RunRequest, config: TableConfig, unfinished: tuple[Operation, ...]) -> bool:
    """True if a run plans something of its own behind unfinished operations: backfills and resyncs do, once.

    Live runs wait for the next.
    """
    queued = [spec for spec in unfinished if not spec.kind.is_live]
    if request.kind is RunKind.INCREMENT or any(spec.run_id == request.run_id for spec in queued):
        return False
    if len(queued) >= MAX_QUEUED:
        raise RequestError(
            f"Table {config.table} has {len(queued)} unfinished backfills or resyncs; no further one is queued.",
            why=f"The first, operation {queued[0].op_seq} of run {queued[0].run_id}, is not committed yet.",
            data="Nothing was read or written; the watermark stays.",
            next="See 'cdc-ops status' for its error; scheduled runs try it again and give it up after some tries.",
        )
    return True


def _table_run(request: RunRequest, plan: TablePlan, started: datetime, phases: Phases) -> TableRun:
    first = plan.operations[0] if plan.operations else None
    return TableRun(
        pipeline=plan.config.pipeline,
        table=plan.table,
        run_id=request.run_id,
        trigger=request.trigger,
        kind=first.kind if first else KIND_OF_RUN[request.kind],
        status=TableRunStatus.PLANNED if first else TableRunStatus.IDLE,
        started_at=started,
        finished_at=None if first else started,
        window=first.window if first else None,
        op_seq=None,
        message="; ".join(part for part in (plan.idle, *plan.warnings) if part),
        schema_changes=plan.schema_changes,
        alert=plan.alert,
        phases=phases,
        missing=plan.missing,
    )
