"""A whole run without Airflow: the same verbs in the same order, with Spark in this process or wherever `execute` sends a job."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc_ops.core.job_specs import JobSpec, MaintenanceTask, Step, StepResult
from cdc_ops.core.operations import OperationSpec
from cdc_ops.core.pipeline import TableConfig
from cdc_ops.core.requests import RunRequest
from cdc_ops.errors import CdcError
from cdc_ops.sources.base import Source
from cdc_ops.state.base import Lease, TableRun
from cdc_ops.steps.context import Context
from cdc_ops.steps.groups import TableFailure, commit_group, hold, plan_group
from cdc_ops.steps.leases import LeaseKeeper
from cdc_ops.steps.plan import TablePlan, build_job, discover, group_tables
from cdc_ops.steps.upkeep import due_maintenance, lease_maintenance

Execute = Callable[[JobSpec], StepResult]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run did: a line per table, and the tables that failed with their errors."""

    runs: tuple[TableRun, ...]
    failures: tuple[TableFailure, ...]
    warnings: tuple[str, ...] = ()
    """What the operator should know, alerts and advice included."""

    @property
    def retryable(self) -> bool:
        """True if every failure may heal by running again."""
        return all(failure.error.retryable for failure in self.failures)


def run_pipeline(context: Context, source: Source, request: RunRequest, execute: Execute, say: Say) -> RunReport:
    """Plans, executes, commits and maintains all tables that the request names, group by group.

    Args:
        context: Pipeline and ledger.
        source: Open source.
        request: What to do.
        execute: Runs a job in Spark; called only when there is something to do.
        say: Receives one line per event.

    Raises:
        CdcError: nothing could be started at all; failures of single tables are in the report.
    """
    configs = discover(context.pipeline, source, request)
    runs: list[TableRun] = []
    failures: list[TableFailure] = []
    warnings: list[str] = []
    for group in group_tables(configs, context.pipeline.tables_per_job):
        plan = plan_group(context, source, request, group, say)
        failures += plan.failures
        warnings += [f"{item.table}: {text}" for item in plan.plans for text in item.warnings]
        busy = tuple(item for item in plan.plans if item.operations)
        if busy:
            failures += _work(context, request, busy, execute, say)
        _maintain(context, request, group, execute)
        recorded = (context.store.table_run(c.pipeline, c.table, request.run_id) for c in group)
        known = [run for run in recorded if run is not None]
        warnings += [f"{run.table}: {text}" for run in known for text in (run.alert, run.advice, run.counts.warning) if text]
        runs += known
    return RunReport(runs=tuple(runs), failures=tuple(failures), warnings=tuple(warnings))


def _work(context: Context, request: RunRequest, busy: tuple[TablePlan, ...], execute: Execute, say: Say) -> tuple[TableFailure, ...]:
    leases = hold(context, request, tuple(plan.config for plan in busy))
    operations = tuple(spec for plan in busy for spec in plan.operations)
    start_attempts(context, leases, operations)
    result, lost = None, None
    with LeaseKeeper(context.store, leases, context.lease_ttl, lambda lease: say(f"lease of {lease.table} lost; another run finishes it")):
        try:
            result = execute(build_job(context.pipeline, request, Step.SYNC, operations, ""))
        except CdcError as error:
            lost = error
    _, failures = commit_group(context, request, tuple(plan.config for plan in busy), result)
    return failures if lost is None else tuple(replace(failure, error=lost) for failure in failures)


def start_attempts(context: Context, leases: tuple[Lease, ...], operations: tuple[OperationSpec, ...]) -> None:
    """Counts a try of every operation that is about to be executed."""
    by_table = {lease.table: lease for lease in leases}
    for spec in operations:
        context.store.start_attempt(by_table[spec.table], spec)


def _maintain(context: Context, request: RunRequest, group: tuple[TableConfig, ...], execute: Execute) -> None:
    leased = lease_maintenance(context, request, due_maintenance(context, group))
    if not leased:
        return
    try:
        with LeaseKeeper(context.store, [lease for _, lease in leased], context.lease_ttl, lambda lease: None):
            result = execute(maintenance_job(context, request, tuple(task for task, _ in leased), ""))
        settle_maintenance(context, leased, result)
    finally:
        for _, lease in leased:
            context.store.release(lease)


def maintenance_job(context: Context, request: RunRequest, tasks: tuple[MaintenanceTask, ...], result_path: str) -> JobSpec:
    """Returns the job of one Spark application for due upkeep."""
    return replace(build_job(context.pipeline, request, Step.MAINTAIN, (), result_path), maintenance=tasks)


def settle_maintenance(context: Context, leased: tuple[tuple[MaintenanceTask, Lease], ...], result: StepResult) -> None:
    """Stores the tables' numbers after upkeep; a table whose upkeep failed keeps its old ones and is due again."""
    seen = {table.table: table.maintenance for table in result.tables}
    for task, lease in leased:
        stats = seen.get(task.table)
        if stats is not None:
            context.store.put_stats(lease, context.pipeline.name, task.table, stats)
