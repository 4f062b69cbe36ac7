"""maintain, the half that needs no Spark: which upkeep is due, its leases and its results. The other half is `lake.table.maintenance`."""

from cdc_ops.core.maintenance import plan_maintenance
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.paths import event_history
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.errors import LeaseHeldError
from cdc_ops.state.lease import Lease
from cdc_ops.steps.context import Context


def due_maintenance(context: Context, configs: tuple[TableConfig, ...]) -> tuple[MaintenanceTask, ...]:
    """Returns the upkeep that is due, from the numbers that the last merges left; nothing is asked of the lake."""
    store, now = context.store, context.store.now()
    tasks = []
    for config in configs:
        stats = store.stats(config.pipeline, config.table)
        plan = plan_maintenance(config.settings.upkeep.maintenance, stats, now)
        if stats is not None and plan.due:
            generation = store.table_state(config.pipeline, config.table).generation
            history = event_history(context.pipeline, config, generation)
            tasks.append(MaintenanceTask(table=config.table, path=config.path, plan=plan, stats=stats, history=history))
    return tuple(tasks)


def lease_maintenance(
    context: Context, request: RunRequest, tasks: tuple[MaintenanceTask, ...]
) -> tuple[tuple[MaintenanceTask, Lease], ...]:
    """Takes the leases for upkeep; a table that somebody works on is left for the next run."""
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
