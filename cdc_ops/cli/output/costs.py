"""What a plan is estimated to cost, and what a run has cost: for people, within 80 columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import Grid, print_sentence, show_grid
from cdc_ops.core.run_cost import RunCost, cost_text, files_text, rows_figure_text, size_figure_text, span_figure_text
from cdc_ops.errors import CdcError

if TYPE_CHECKING:
    from cdc_ops.core.pipeline.pipeline import Pipeline
    from cdc_ops.core.schema.tables import TableName
    from cdc_ops.errors import CostRefusedError
    from cdc_ops.steps.plan import TablePlan
    from cdc_ops.steps.runs.run import RunReport


def print_costs(pipeline: "Pipeline", plans: "Sequence[tuple[TableName, TablePlan | CdcError]]") -> None:
    """Shows what each table with work to do is estimated to cost, what all of them cost, and what the figures come from."""
    from cdc_ops.steps.runs.run_price import run_total

    costs = [(name, plan.cost.all) for name, plan in plans if not isinstance(plan, CdcError) and plan.cost is not None]
    if not costs:
        return
    columns = ("table", "rows", "written", "time", "connections", "files")
    groups = render.by_schema((name, _cells(cost)) for name, cost in costs)
    show_grid(render.out, Grid(title=f"Estimated cost of {pipeline.name}", columns=columns, groups=groups))
    total = run_total(pipeline, (cost for _, cost in costs))
    print_sentence(render.out, cost_text(total), name="in total", colour="bold")


def refusals(pipeline: "Pipeline", plans: "Sequence[tuple[TableName, TablePlan | CdcError]]") -> "list[CostRefusedError]":
    """Returns why `run` would refuse the plans, or some of them, for what they cost."""
    from cdc_ops.steps.cost import refused_table
    from cdc_ops.steps.runs.run_price import refused_run

    priced = [plan for _, plan in plans if not isinstance(plan, CdcError)]
    whole = refused_run(pipeline, [plan.cost.new for plan in priced if plan.cost is not None and plan.cost.new is not None])
    if whole is not None:
        return [whole]
    return [error for plan in priced if (error := refused_table(pipeline, plan.config, plan.cost)) is not None]


def print_actual_costs(report: "RunReport") -> None:
    """Shows of each table that was worked on what it was estimated to cost and what it cost."""
    for run in report.runs:
        if run.cost_text:
            print_sentence(render.out, run.cost_text, name=str(run.table), colour="dim")


def _cells(cost: RunCost) -> tuple[str, ...]:
    files = "unknown" if cost.files is None else files_text(cost)
    return (rows_figure_text(cost.rows), size_figure_text(cost.written_bytes), span_figure_text(cost.seconds), str(cost.connections), files)
