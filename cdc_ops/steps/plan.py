"""plan: the first verb. Decides, without Spark and in seconds, what a run has to do for each table, and freezes it in the ledger.

    discover -> plan_table (reads only; `cdc-ops plan` prints it)  or  freeze_table (under the table's lease, for a run) -> build_job

A run resumes an unfinished operation and never plans the same changes again. A table without new changes ends here: its `scanned_to`
moves, and no JVM starts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from cdc_ops import __version__
from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.windows import fresh_instant
from cdc_ops.core.operation.job import JobSpec, Step
from cdc_ops.core.operation.job_size import is_small
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.commit_record import LakeHead, with_rows
from cdc_ops.core.operation.protocol.ledger_and_lake import LedgerStatus, compare
from cdc_ops.core.operation.protocol.table_state import TableState, projected, scanned
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.results import OperationResult
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig, current_settings, known_tables
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.processes import holder_name
from cdc_ops.core.run_cost import PlannedCost
from cdc_ops.core.schema.table_identity import TableIdentity
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.staging.manifests import find_landed, is_landed
from cdc_ops.sources.base import Source
from cdc_ops.state.base import StateReader
from cdc_ops.state.lease import Lease
from cdc_ops.state.table_run import AssetEvents, RunMessages, RunResult, RunTiming, TableRun, TableRunStatus, Waiting
from cdc_ops.steps.archive.frozen_files import record_frozen, record_scan, with_hashes
from cdc_ops.steps.context import Context
from cdc_ops.steps.cost import check_table_cost, plan_cost
from cdc_ops.steps.planning.draft import draft_operations, with_current_settings
from cdc_ops.steps.planning.reconcile import method_summary
from cdc_ops.steps.planning.request import EMPTY_DRAFT, Draft, TableRequest, with_current_quarantine
from cdc_ops.steps.planning.warnings import added_columns, corrected_settings, event_key_warnings, foreign_warnings, key_warnings
from cdc_ops.steps.planning.whole_tables.first_load import begun_anew, first_load_warning
from cdc_ops.steps.recover import TableHead, abandon_exhausted, catch_up
from cdc_ops.steps.reporting.stopwatch import measured, stopwatch
from cdc_ops.steps.reporting.warned_before import is_silent, still_told
from cdc_ops.steps.table.catalog import catalog_entries
from cdc_ops.steps.table.columns.schema_evolution import apply_schema_policy, rebase_on_current_columns
from cdc_ops.steps.table.identity import check_identity, settled_identity, unsettled_warnings
from cdc_ops.steps.table.layout import layout_warnings
from cdc_ops.steps.table.missing_tables import find_absence, returned_warnings
from cdc_ops.steps.table.source_table import SourceTable, read_source_table

KIND_OF_RUN = {
    RunKind.INCREMENT: OperationKind.INCREMENT,
    RunKind.BACKFILL: OperationKind.BACKFILL,
    RunKind.RESYNC: OperationKind.RESYNC,
    RunKind.RECONCILE: OperationKind.RECONCILE,
}
"""The kind under which a run is recorded for a table without an operation."""

MAX_QUEUED = 3
"""Unfinished backfills and resyncs that a table may have; a run that would add another one is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """What a run would do, or has frozen, for one table.

    Args:
        config: The table and its settings.
        state: The table's state in the ledger, for which the plan is made.
        unfinished: Operations that an earlier run, or an earlier try of this run, has frozen. They are executed first, unchanged.
        new: What the run plans behind them, or why nothing.
        method: How the table is kept equal, and why in this way; "" if the run only finishes operations of an earlier run.
        table_warnings: Warnings that do not come from `new`: commits by others, keys, columns, operations of earlier runs.
        schema_changes: Those of the warnings that are about changed columns.
        fresh_at: Instant (UTC) up to which the lake has all changes, known for tables without new changes; else None.
        missing_since: When (UTC) a run first noticed that the source no longer shows the table, None while the source shows it.
        cost: What the operations are estimated to cost, None if there are none.
        identity: The table and the server that the lake stands for if nothing is new, None if no bound was taken.
    """

    config: TableConfig
    state: TableState
    unfinished: tuple[Operation, ...] = ()
    new: Draft = EMPTY_DRAFT
    method: str = ""
    table_warnings: tuple[str, ...] = ()
    schema_changes: tuple[str, ...] = ()
    fresh_at: datetime | None = None
    missing_since: datetime | None = None
    cost: PlannedCost | None = None
    identity: TableIdentity | None = None

    @property
    def table(self) -> TableName:
        """The table's name."""
        return self.config.table

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations, in the order in which they are executed; empty for an idle table."""
        return self.unfinished + self.new.operations

    @property
    def warnings(self) -> tuple[str, ...]:
        """All warnings for the operator, each with its remedy."""
        return (*self.table_warnings, *(self.new.bound.warnings if self.new.bound else ()), *self.new.warnings)

    @property
    def alert(self) -> str:
        """What a person has to look at now although the run continues, "" if nothing."""
        missing = self.new.missing_events.alert(str(self.table)) if self.new.missing_events else ""
        return " ".join(filter(None, (self.new.alert, missing)))

    @property
    def readings(self) -> CounterSamples | None:
        """The samples of an auto-increment cursor's counter, for the ledger; None for other cursors."""
        return self.new.bound.readings if self.new.bound else self.state.readings

    @property
    def only_finishes(self) -> bool:
        """True if the run only finishes operations of an earlier run: then it reads no cursor, no archive listing and no bound."""
        return bool(self.unfinished) and not self.new.operations

    def warned(self, texts: Iterable[str]) -> "TablePlan":
        """Returns the plan with more warnings."""
        return replace(self, table_warnings=(*self.table_warnings, *texts))


def plan_table(context: Context, source: Source, request: RunRequest, config: TableConfig) -> TablePlan:
    """Returns what a run would do for a table, without writing anything anywhere.

    Raises:
        CdcError: the source, the lake or the request make it impossible; the text says what to do.
    """
    state = context.store.table_state(config.pipeline, config.table)
    head = read_head(config.path, config.pipeline, config.table)
    if _compare_with_lake(context.store, state, head) is not LedgerStatus.EQUAL:
        idle = "the lake is ahead of the ledger by a known operation; the next run catches up"
        return TablePlan(config=config, state=state, new=Draft(idle=idle))
    plan = _plan(context, source, request, config, TableHead(state=state, head=head))
    if plan.new.error is not None:
        raise plan.new.error
    cost = plan_cost(context, source, request, config, plan.unfinished, plan.new.operations)
    return replace(plan, cost=cost).warned(_damaged(plan.unfinished))


def _compare_with_lake(reader: StateReader, state: TableState, head: LakeHead | None) -> LedgerStatus:
    """Compares a table's ledger and lake; see `cdc_ops.core.operation.protocol.ledger_and_lake.compare` for the errors."""
    operations = reader.open_operations(state.pipeline, state.table)
    return compare(state, head, operations, reader.abandoned_ids(state.pipeline, state.table))


def _damaged(unfinished: Iterable[Operation]) -> tuple[str, ...]:
    """Returns warnings about operations whose landed rows are damaged. A run warns of them itself, when it has read them again."""
    damages = ((operation, find_landed(operation).damage) for operation in unfinished if operation.apply.landing is Landing.STAGED)
    return tuple(
        f"the landed rows of operation {operation.op_seq} are damaged ({damage}); a run reads the same window again"
        for operation, damage in damages
        if damage
    )


def freeze_table(context: Context, source: Source, request: RunRequest, config: TableConfig) -> TablePlan:
    """Plans a table under its lease and writes the plan to the ledger.

    An idle table's lease is released at once; otherwise the run keeps it for the steps that follow.

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
            holder = holder_name(lease.instead_of)
            plan = plan.warned([f"the lease of {holder}, a process of this machine that has ended, was taken over by this run"])
        before = still_told(store, config.pipeline, config.table, request.run_id) if plan.only_finishes else ()
        warnings = (*plan.warnings, *(text for text in before if text not in plan.warnings))
        store.record(line_of_plan(request, plan, warnings, RunTiming(started_at=started, phases=watch.phases)))
    except BaseException:
        store.release(lease)
        raise
    if not plan.operations:
        store.release(lease)
    return plan


def _freeze(context: Context, source: Source, request: RunRequest, config: TableConfig, lease: Lease) -> TablePlan:
    settled: dict[str, OperationResult] = {}
    base = catch_up(context, lease, config, settled)
    state = abandon_exhausted(context, lease, base.state)
    plan = _plan(context, source, request, config, replace(base, state=state))
    context.store.refreeze(lease, plan.unfinished)
    for operation in plan.unfinished:
        record_frozen(context.store, lease, operation, context.store.now())
    plan = plan.warned(f"an earlier run: {result.counts.warning}" for result in settled.values() if result.counts.warning)
    if plan.new.error is None:  # what is told once is told again after a refusal: nothing is recorded before it
        plan = replace(plan, cost=plan_cost(context, source, request, config, plan.unfinished, plan.new.operations))
        check_table_cost(context, request, config, plan.cost)
    if plan.state != state:  # its first load begins anew
        context.store.replace_state(lease, plan.state)
        state = plan.state
    if (new := observed_state(state, plan)) != state:
        context.store.settle(lease, state, new, None, None)
        state = new
    if plan.new.scan is not None:
        record_scan(context.store, lease, plan.new.scan)
    if plan.new.error is not None:
        raise plan.new.error
    if plan.new.operations:
        plan = replace(plan, new=replace(plan.new, operations=tuple(map(with_hashes, plan.new.operations))))
        context.store.freeze(lease, state, plan.new.operations)
        for operation in plan.new.operations:
            record_frozen(context.store, lease, operation, context.store.now())
    return plan


def observed_state(state: TableState, plan: TablePlan) -> TableState:
    """Returns a table's state with the counter samples of its plan, and with how far the table was searched if it is idle."""
    new, bound = replace(state, readings=plan.readings, missing_since=plan.missing_since), plan.new.bound
    if bound is not None and not plan.operations and state.progress.watermark is not None:
        new = replace(new, identity=plan.identity or new.identity)
        new = scanned(new, bound.value, plan.fresh_at) if plan.new.bound_advanced else new
    return new


def _plan(context: Context, source: Source, request: RunRequest, config: TableConfig, base: TableHead) -> TablePlan:
    """Plans one table: unfinished operations of an earlier run first, and new ones where they may queue behind them."""
    base = replace(base, head=with_rows(base.head))
    state, frozen = base.state, context.store.open_operations(config.pipeline, config.table)
    landed = bool(frozen) and all(is_landed(operation) for operation in frozen)  # then a run does not need the source
    if not landed and (absence := find_absence(context, source, request, config, state)) is not None:
        new = Draft(idle=absence.idle, alert=absence.alert, error=absence.error)
        return TablePlan(config=config, state=state, new=new, missing_since=absence.since)
    if base.head is None and (anew := begun_anew(context, source, request, config, state, frozen)) is not None:
        return plan_new(context, source, request, config, replace(base, state=anew)).warned([first_load_warning(config, frozen)])
    unfinished = _brought_up_to_date(context, source, request, config, base, frozen)
    if unfinished and not _queues_behind(request, config, unfinished):
        news = (*corrected_settings(frozen, unfinished), *added_columns(unfinished, config, declared=context.pipeline.source.is_declared))
        return TablePlan(
            config=config,
            state=state,
            unfinished=unfinished,
            new=Draft(idle="finishes what an earlier run began"),
            table_warnings=(*foreign_warnings(base.head), *news),
            missing_since=state.missing_since,
        )
    return plan_new(context, source, request, config, base, unfinished)


def plan_new(
    context: Context, source: Source, request: RunRequest, config: TableConfig, base: TableHead, unfinished: tuple[Operation, ...] = ()
) -> TablePlan:
    """Plans the new operations of a table that the source shows, behind its unfinished ones. Writes nothing.

    Raises:
        CdcError: as for `plan_table`.
    """
    state, after = base.state, projected(base.state, unfinished)
    source_table = read_source_table(context.pipeline, source, config)
    replaced = check_identity(source, source_table, after, request)
    source_table = apply_schema_policy(source_table, base.head, request)
    table_request = _table_request(context, source, request, source_table, after)
    new = draft_operations(table_request)
    return TablePlan(
        config=config,
        state=state,
        unfinished=unfinished,
        new=new,
        method=method_summary(source, source_table),
        table_warnings=(
            *foreign_warnings(base.head),
            *layout_warnings(config, base.head),
            *returned_warnings(state),
            *replaced,
            *unsettled_warnings(source_table, new.operations),
            *source_table.warnings,
            *key_warnings(source_table, state),
            *event_key_warnings(source_table),
        ),
        schema_changes=source_table.notes,
        fresh_at=_fresh_at(source_table, state, new),
        identity=None if unfinished or new.bound is None else settled_identity(source, source_table, state, request, whole=False),
    )


def _brought_up_to_date(
    context: Context, source: Source, request: RunRequest, config: TableConfig, base: TableHead, frozen: tuple[Operation, ...]
) -> tuple[Operation, ...]:
    """Returns the unfinished operations. Those that have landed nothing get the current columns and the current archive settings."""
    if all(is_landed(operation) for operation in frozen):
        return frozen
    source_table = read_source_table(context.pipeline, source, config)
    table_request = _table_request(context, source, request, source_table, base.state)

    def current(operation: Operation) -> Operation:
        rebased = rebase_on_current_columns(operation, source_table, base.head, request)
        return with_current_settings(table_request, with_current_quarantine(rebased, source_table))

    return tuple(operation if is_landed(operation) else current(operation) for operation in frozen)


def _table_request(context: Context, source: Source, request: RunRequest, source_table: SourceTable, state: TableState) -> TableRequest:
    tables = partial(context.tables, source)
    return TableRequest(source=source, run=request, source_table=source_table, state=state, ledger=context.store, tables=tables)


def _queues_behind(request: RunRequest, config: TableConfig, unfinished: tuple[Operation, ...]) -> bool:
    """True if a run plans operations of its own behind unfinished ones: backfills and resyncs do, once; increments wait for the next run.

    Raises:
        RequestError: `MAX_QUEUED` backfills and resyncs are unfinished.
    """
    queued = [operation for operation in unfinished if not operation.kind.is_live]
    if request.kind is RunKind.INCREMENT or any(operation.plan.run_id == request.run_id for operation in queued):
        return False
    if len(queued) >= MAX_QUEUED:
        raise RequestError(
            f"Table {config.table} has {len(queued)} unfinished backfills or resyncs; cdc-ops does not queue another one.",
            why=f"The first, operation {queued[0].op_seq} of run {queued[0].plan.run_id}, is not committed yet.",
            data="Nothing was read or written; the watermark stays.",
            next="'cdc-ops status' shows its error. Scheduled runs retry it, and abandon it after several tries.",
        )
    return True


def _fresh_at(source_table: SourceTable, state: TableState, new: Draft) -> datetime | None:
    """Returns up to when an idle table is complete. The files of an archive do not show when the source last wrote to it."""
    if source_table.config.settings.method is Method.LOG:
        return state.progress.fresh_at
    return fresh_instant(source_table.cursor, new.bound) if new.bound and new.bound_advanced else None


def line_of_plan(request: RunRequest, plan: TablePlan, warnings: tuple[str, ...], timing: RunTiming) -> TableRun:
    """Returns the table's run as the ledger records it; `warnings` are those of the plan, and those that an earlier run showed."""
    first = plan.operations[0] if plan.operations else None
    return TableRun(
        pipeline=plan.config.pipeline,
        table=plan.table,
        run_id=request.run_id,
        trigger=request.trigger,
        kind=first.kind if first else KIND_OF_RUN[request.kind],
        status=TableRunStatus.PLANNED if first else TableRunStatus.IDLE,
        timing=timing if first else replace(timing, finished_at=timing.started_at),
        result=RunResult(window=first.window if first else None, fresh_at=None if first else plan.fresh_at or plan.state.progress.fresh_at),
        messages=RunMessages(
            message="; ".join(part for part in (plan.new.idle, *plan.warnings) if part),
            alert=plan.alert,
            warnings=warnings,
            schema_changes=plan.schema_changes,
            held_by=plan.new.bound.held_by if plan.new.bound else "",
        ),
        events=AssetEvents(silent=is_silent(request, plan.operations)),
        waits_for=Waiting(missing=plan.new.missing_events),
        cost=plan.cost.all if plan.cost else None,
        max_lag=plan.config.settings.load.max_lag or None,
    )


def build_job(context: Context, request: RunRequest, step: Step, operations: Iterable[Operation], result_path: str) -> JobSpec:
    """Returns the job of one Spark application for frozen operations of a group of tables."""
    pipeline = context.pipeline
    frozen = tuple(_relaxed(pipeline, operation) for operation in operations)
    sizes = {operation.table: context.store.stats(pipeline.name, operation.table) for operation in frozen}
    reads_archives = any(isinstance(operation.read, ArchiveRead) for operation in frozen)
    return JobSpec(
        step=step,
        pipeline=pipeline.name,
        run_id=request.run_id,
        source=pipeline.source,
        operations=frozen,
        result_path=result_path,
        package_version=__version__,
        known=known_tables(pipeline) if reads_archives else None,
        small=is_small(frozen, sizes),
        spark=pipeline.spark if pipeline.spark.connect else None,
        catalog=catalog_entries(pipeline, sizes),
    )


def _relaxed(pipeline: Pipeline, operation: Operation) -> Operation:
    """Returns a frozen operation with the current policies for values that the lake cannot store.

    Without them an operation that failed for such a value would fail again after the pipeline file was corrected.
    """
    settings = current_settings(pipeline, operation.table)
    relaxed = replace(operation.source, schema=operation.source.schema.relaxed(settings.types)) if settings else operation.source
    return replace(operation, source=relaxed)
