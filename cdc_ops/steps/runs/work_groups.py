"""Which tables of a run share one Spark application, by what they took in earlier runs. Asks the ledger once."""

from typing import Final

from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.phases import worked_seconds
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.work_groups import work_groups
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.context import Context

_RUNS_OF_A_TABLE: Final = 2
_MOST_RUNS: Final = 2_000


def groups_of_run(context: Context, request: RunRequest, tables: tuple[TableConfig, ...]) -> tuple[tuple[TableConfig, ...], ...]:
    """Cuts the tables of a run into the groups that share one Spark application.

    Args:
        context: Pipeline and ledger.
        request: What the run is for; a table is expected to take what the newest run of that kind took.
        tables: The tables of the run.
    """
    return work_groups(tables, context.pipeline.runs.tables_per_job, _expected_seconds(context, request, tables))


def _expected_seconds(context: Context, request: RunRequest, tables: tuple[TableConfig, ...]) -> dict[TableName, float]:
    # Tables of one archive share its reading: taken apart, each application would read all of it.
    alone = {one.table for one in tables if one.settings.method is Method.QUERY}
    if len(tables) < 2 or not alone:
        return {}
    limit = min(_RUNS_OF_A_TABLE * len(tables), _MOST_RUNS)
    found: dict[TableName, float] = {}
    for run in context.store.table_runs(context.pipeline.name, status=TableRunStatus.COMMITTED, limit=limit):  # newest first
        if run.table in alone and _is_of(request.kind, run.kind):
            found.setdefault(run.table, worked_seconds(run.timing.phases))
    return found


def _is_of(asked: RunKind, done: str) -> bool:
    return asked.value == done
