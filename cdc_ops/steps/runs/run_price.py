"""The price of a whole run, before anything is frozen: all tables are planned once more, and nothing is written."""

from collections.abc import Iterable

from cdc_ops.core.operation.job import PARALLEL_TABLES
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.run_cost import RunCost, excesses, total_cost
from cdc_ops.errors import CdcError, CostRefusedError
from cdc_ops.sources.base import Source
from cdc_ops.steps.context import Context
from cdc_ops.steps.cost import cost_refused
from cdc_ops.steps.plan import plan_table


def check_run_cost(context: Context, source: Source, request: RunRequest, configs: Iterable[TableConfig]) -> None:
    """Checks what a run would begin of all its tables together against the pipeline's `max_cost`. Costs nothing without such a limit.

    A table that cannot be planned counts nothing here: the run plans it again, and reports why.

    Raises:
        CostRefusedError: it costs more, and nobody has accepted that.
    """
    if request.accepts.cost or not context.pipeline.runs.max_cost.is_set:
        return
    costs = []
    for config in configs:
        try:
            cost = plan_table(context, source, request, config).cost
        except CdcError:
            continue
        if cost is not None and cost.new is not None:
            costs.append(cost.new)
    if (refused := refused_run(context.pipeline, costs)) is not None:
        raise refused


def refused_run(pipeline: Pipeline, costs: list[RunCost]) -> CostRefusedError | None:
    """Returns why tables may not be begun together, None if they may.

    Args:
        pipeline: Whose limits.
        costs: What is begun of each table.
    """
    found = excesses(run_total(pipeline, costs), pipeline.runs.max_cost) if costs else ()
    tables = f"{len(costs)} table{'s together' if len(costs) != 1 else ''}"
    return cost_refused(f"this run of pipeline {pipeline.name} ({tables})", found) if found else None


def run_total(pipeline: Pipeline, costs: Iterable[RunCost]) -> RunCost:
    """Returns what tables cost together."""
    return total_cost(costs, PARALLEL_TABLES, pipeline.source.max_connections)
