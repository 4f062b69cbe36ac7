"""A whole run without Airflow: the same verbs in the same order, with Spark in this process or wherever `execute` sends a job."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from cdc_ops.core.operation.job import JobSpec, MaintenanceTask, Step, StepResult
from cdc_ops.core.operation.job_size import is_small_maintenance
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, LedgerUnavailableError, Stopped
from cdc_ops.sources.base import Source
from cdc_ops.state.lease import Lease
from cdc_ops.state.lease_renewal import LeaseKeeper
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.context import Context
from cdc_ops.steps.discovery import discover_all
from cdc_ops.steps.maintain import due_maintenance, lease_maintenance
from cdc_ops.steps.plan import TablePlan, build_job
from cdc_ops.steps.reporting.pipeline_file import note_pipeline_file
from cdc_ops.steps.reporting.warned_before import warned_before
from cdc_ops.steps.runs.idle_search import SettledIdle, find_idle
from cdc_ops.steps.runs.run_price import check_run_cost
from cdc_ops.steps.runs.stopped_run import settle_stopped
from cdc_ops.steps.runs.table_groups import TableFailure, commit_group, hold, plan_group
from cdc_ops.steps.runs.work_groups import groups_of_run

Execute = Callable[[JobSpec], StepResult]
logger = logging.getLogger("cdc_ops.run")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run did: a line per table, and the tables that failed with their errors."""

    runs: tuple[TableRun, ...]
    failures: tuple[TableFailure, ...]
    warnings: tuple[str, ...] = ()
    """What the operator should know, alerts and advice included."""
    unchanged: tuple[str, ...] = ()
    """Warnings that the run before this one gave too."""
    stopped_by: str = ""
    """Who ended the run before it was through: `Ctrl-C` or `SIGTERM`."""
    not_begun: tuple[TableName, ...] = ()
    """Tables for which a run that was ended had done nothing yet."""

    @property
    def only_alerts(self) -> "RunReport":
        """The report without warnings but for the alerts: what somebody has to look at although the run goes on."""
        return replace(self, warnings=tuple(f"{run.table}: {run.messages.alert}" for run in self.runs if run.messages.alert), unchanged=())

    @property
    def retryable(self) -> bool:
        """True if every failure may heal by running again."""
        return all(failure.error.retryable for failure in self.failures)


class RunStopped(Stopped):
    """A run was told to end, and has; what it had done by then is in its report.

    Args:
        stop: Who ended it.
        report: What it did.
    """

    def __init__(self, stop: Stopped, report: RunReport) -> None:
        super().__init__(stop.by, may_commit=stop.may_commit)
        self.report = report


def run_pipeline(context: Context, source: Source, request: RunRequest, execute: Execute) -> RunReport:
    """Plans, executes, commits and maintains all tables that the request names, group by group.

    Args:
        context: Pipeline and ledger.
        source: Open source.
        request: What to do.
        execute: Runs a job in Spark; called only when there is something to do. Told to end, it raises `Stopped`.

    Raises:
        CostRefusedError: all tables together would cost more than the pipeline's `max_cost`; nothing was read.
        CdcError: nothing could be started at all; failures of single tables are in the report.
        RunStopped: the process was told to end; the run's leases were given back, but for those of tables that `execute` may still commit.
    """
    found = discover_all(context, source, request)
    note_pipeline_file(context.store, context.pipeline, request.run_id)
    run = _Run(context=context, source=source, request=request, execute=execute, warnings=list(found.warnings))
    searched = find_idle(context, source, request, found.tables)
    run.take(searched.idle)
    check_run_cost(context, source, request, searched.rest)  # tables without news cost nothing
    try:
        run.all(groups_of_run(context, request, searched.rest))
    except KeyboardInterrupt as error:
        stop = Stopped.of(error)
        raise RunStopped(stop, run.stopped(found.tables, stop)) from None
    return run.report(found.tables)


@dataclass(slots=True, kw_only=True)
class _Run:
    """A run under way: what is known of its tables is kept, whatever ends it."""

    context: Context
    source: Source
    request: RunRequest
    execute: Execute
    runs: dict[TableName, TableRun] = field(default_factory=dict)
    failures: list[TableFailure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)

    def take(self, idle: Iterable[SettledIdle]) -> None:
        """Takes over the tables without news, which are settled already."""
        for item in idle:
            self._add_warnings(item.plan, item.warned_before)
            self.runs[item.run.table] = item.run
            self.warnings += [f"{item.run.table}: {text}" for text in item.run.notices]

    def all(self, groups: tuple[tuple[TableConfig, ...], ...]) -> None:
        """Takes the groups through all verbs, one after the other."""
        for number, group in enumerate(groups):
            try:
                self.group(group)
            except LedgerUnavailableError as error:
                self.fail(tuple(config for left in groups[number:] for config in left), error)
                break  # nothing can be planned or settled without a ledger
            except CdcError as error:
                self.fail(group, error)

    def report(self, tables: tuple[TableConfig, ...]) -> RunReport:
        """Returns what became of the tables."""
        runs = tuple(self.runs[config.table] for config in tables if config.table in self.runs)
        return RunReport(runs=runs, failures=tuple(self.failures), warnings=tuple(self.warnings), unchanged=tuple(self.unchanged))

    def stopped(self, tables: tuple[TableConfig, ...], stop: Stopped) -> RunReport:
        """Settles the tables of a run that was told to end, and returns what became of them."""
        settled = settle_stopped(self.context, self.request, tables, stop)
        self.runs |= {run.table: run for run in settled.runs}
        known = {failure.config.table for failure in settled.failures}
        self.failures = [failure for failure in self.failures if failure.config.table not in known] + list(settled.failures)
        begun = {*self.runs, *(failure.config.table for failure in self.failures)}
        left = tuple(config.table for config in tables if config.table not in begun)
        return replace(self.report(tables), stopped_by=stop.by, not_begun=left)

    def group(self, group: tuple[TableConfig, ...]) -> None:
        """Takes one group through all verbs.

        Raises:
            CdcError: the group as a whole cannot go on, because its ledger does not answer, say.
        """
        context, request = self.context, self.request
        plan = plan_group(context, self.source, request, group)
        self.failures += plan.failures
        for item in plan.plans:
            self._warn(item)
        busy = tuple(item for item in plan.plans if item.operations)
        if busy:
            self._work(busy)
        self.warnings += _maintain(context, request, group, self.execute)
        for config in group:
            known = context.store.table_run(config.pipeline, config.table, request.run_id)
            if known is not None:
                self.runs[known.table] = known
                texts = (*known.notices, known.messages.note, known.result.counts.warning)
                self.warnings += [f"{known.table}: {text}" for text in texts if text]

    def fail(self, configs: tuple[TableConfig, ...], error: CdcError) -> None:
        """Puts an error to the tables whose own outcome is not known."""
        known = {failure.config.table for failure in self.failures}
        known |= {table for table, run in self.runs.items() if run.status is TableRunStatus.COMMITTED}
        self.failures += [TableFailure(config=config, error=error) for config in configs if config.table not in known]

    def _warn(self, plan: TablePlan) -> None:
        self._add_warnings(
            plan, warned_before(self.context.store, plan.config.pipeline, plan.table, self.request.run_id) if plan.warnings else ()
        )

    def _add_warnings(self, plan: TablePlan, before: tuple[str, ...]) -> None:
        for text in plan.warnings:
            (self.unchanged if text in before else self.warnings).append(f"{plan.table}: {text}")

    def _work(self, busy: tuple[TablePlan, ...]) -> None:
        context, request, lost = self.context, self.request, None
        configs = tuple(plan.config for plan in busy)
        leases = hold(context, request, configs)
        operations = tuple(operation for plan in busy for operation in plan.operations)
        start_attempts(context, leases, operations)
        result = None
        with LeaseKeeper(context.store, leases, context.lease_ttl, self._lost):
            try:
                result = self.execute(build_job(context, request, Step.SYNC, operations, ""))
            except CdcError as error:
                lost = error
        runs, failures = commit_group(context, request, configs, result)
        self.runs |= {run.table: run for run in runs}
        self.failures += failures if lost is None else [replace(failure, error=lost) for failure in failures]

    def _lost(self, lease: Lease) -> None:
        logger.warning(f"lease of {lease.table} lost; another run finishes it")


def start_attempts(context: Context, leases: tuple[Lease, ...], operations: tuple[Operation, ...]) -> None:
    """Counts a try of every operation that is about to be executed."""
    by_table = {lease.table: lease for lease in leases}
    for operation in operations:
        context.store.start_attempt(by_table[operation.table], operation)


def _maintain(context: Context, request: RunRequest, group: tuple[TableConfig, ...], execute: Execute) -> list[str]:
    """Does the maintenance that is due, and returns what of it failed: that fails no table, for its rows are committed already."""
    leased = lease_maintenance(context, request, due_maintenance(context, group))
    if not leased:
        return []
    may_commit = False
    try:
        with LeaseKeeper(context.store, [lease for _, lease in leased], context.lease_ttl, lambda lease: None):
            result = execute(maintenance_job(context, request, tuple(task for task, _ in leased), ""))
        settle_maintenance(context, leased, result)
        errors = result.errors
    except LedgerUnavailableError:
        raise
    except CdcError as error:
        errors = {str(task.table): error for task, _ in leased}
    except Stopped as stop:
        may_commit = stop.may_commit
        raise
    finally:
        for _, lease in () if may_commit else leased:
            context.store.release(lease)
    return [f"{name}: The maintenance failed and stays due; the table's rows are complete. {error.what}" for name, error in errors.items()]


def maintenance_job(context: Context, request: RunRequest, tasks: tuple[MaintenanceTask, ...], result_path: str) -> JobSpec:
    """Returns the job of one Spark application for due maintenance."""
    job = build_job(context, request, Step.MAINTAIN, (), result_path)
    return replace(job, maintenance=tasks, small=is_small_maintenance(tasks))


def settle_maintenance(context: Context, leased: tuple[tuple[MaintenanceTask, Lease], ...], result: StepResult) -> None:
    """Stores the tables' numbers after maintenance; a table whose maintenance failed keeps its old ones and is due again."""
    seen = {table.table: table.maintenance for table in result.tables}
    for task, lease in leased:
        stats = seen.get(task.table)
        if stats is not None:
            context.store.put_stats(lease, context.pipeline.name, task.table, stats)
