"""maintain, without Spark: which maintenance is due, its leases and its results. The other half is `lake.table.maintenance`."""

from dataclasses import replace

from cdc_ops.core.maintenance import MaintenancePlan, TableStats, choose_files, plan_maintenance, with_bounds
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.tables.paths import event_history
from cdc_ops.errors import LeaseHeldError
from cdc_ops.lake.log.bounds import has_exact_bounds
from cdc_ops.lake.log.data_files import partitioning, read_files
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.state.lease import Lease
from cdc_ops.steps.context import Context


def due_maintenance(context: Context, configs: tuple[TableConfig, ...]) -> tuple[MaintenanceTask, ...]:
    """Returns the maintenance that is due, from the numbers that the last merges left; of tables to be optimized also from their files.

    Nothing is asked of a table's log while the numbers say that its files cannot be worth it, and that its bounds are right.
    """
    store, now = context.store, context.store.now()
    tasks = []
    for config in configs:
        stats = store.stats(config.pipeline, config.table)
        policy = config.settings.storage.maintenance
        plan = with_files(config, plan_maintenance(policy, stats, now), stats)
        if policy.enabled and stats is not None and not stats.exact_bounds and may_hide_rows(config.path):
            plan = with_bounds(plan)
        if stats is not None and plan.due:
            generation = store.table_state(config.pipeline, config.table).generation
            history = event_history(context.pipeline, config, generation)
            tasks.append(MaintenanceTask(table=config.table, path=config.path, plan=plan, stats=stats, history=history))
    return tuple(tasks)


def may_hide_rows(path: str) -> bool:
    """True for a table whose log may have bounds that an earlier version wrote wrong: nobody has looked at them since."""
    log = DeltaLog(path)
    version = log.newest()
    return version is not None and not has_exact_bounds(log.state(version))


def with_files(config: TableConfig, plan: MaintenancePlan, stats: TableStats | None) -> MaintenancePlan:
    """Returns a plan with the files that its OPTIMIZE takes, by the table's log; without OPTIMIZE if none is worth it."""
    if not plan.optimize:
        return plan
    log = DeltaLog(config.path)
    version = log.newest()
    if version is None:
        return replace(plan, optimize=False)
    last = stats.upkeep.last_upkeep if stats else None
    return choose_files(plan, config.settings.storage.maintenance, read_files(log, version), partitioning(log, version), last)


def lease_maintenance(
    context: Context, request: RunRequest, tasks: tuple[MaintenanceTask, ...]
) -> tuple[tuple[MaintenanceTask, Lease], ...]:
    """Takes the leases for maintenance; a table that somebody works on is left for the next run."""
    leased = []
    for task in tasks:
        try:
            lease = context.store.acquire(
                context.pipeline.name, task.table, request.holder, ttl=context.lease_ttl, live=False, purpose="maintenance"
            )
        except LeaseHeldError:
            continue
        leased.append((task, lease))
    return tuple(leased)
