"""A first load that has committed nothing follows the pipeline file: columns, keys and partitions are those of its next plan. No Spark.

Once a batch is committed, the table's rows say what may change. Before that nothing is lost with a plan that is given up: its number is
burnt, and the table that it may have left without a row becomes what the new plan needs (`lake.table.create.make_first_table`).
"""

from functools import partial

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.table_state import TableState, last_drawn, restarted_state
from cdc_ops.core.operation.reads import ChunkRead
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.lake.staging.manifests import is_landed
from cdc_ops.sources.base import Source
from cdc_ops.steps.context import Context
from cdc_ops.steps.planning.request import TableRequest, new_operation
from cdc_ops.steps.table.columns.schema_evolution import apply_schema_policy
from cdc_ops.steps.table.source_table import read_source_table


def begun_anew(
    context: Context, source: Source, run: RunRequest, config: TableConfig, state: TableState, frozen: tuple[Operation, ...]
) -> TableState | None:
    """Returns the state of a table without rows if its first load begins anew; None if the frozen plan still fits, or there is none.

    Args:
        context, source, run, config: The table, and the run that plans it.
        state: What the ledger has of it.
        frozen: Its unfinished operations.

    Raises:
        SourceError: the source cannot answer.
    """
    if state.committed_op_seq or not frozen or run.kind is not RunKind.INCREMENT:
        return None
    first = frozen[0]
    if _otherwise_keyed(config, first) if is_landed(first) else _laid_out_otherwise(context, source, run, config, state, first):
        return restarted_state(state, settled=last_drawn(state, (operation.op_seq for operation in frozen)))
    return None


def first_load_warning(config: TableConfig, frozen: tuple[Operation, ...]) -> str:
    """Returns what is said of a first load that is given up."""
    return (
        f"the first load of {config.table} begins anew, with the columns, keys and partitions that pipeline file and source have now:"
        f" operation {frozen[0].op_seq}, which was planned with others, has committed nothing and is given up"
    )


def _otherwise_keyed(config: TableConfig, first: Operation) -> bool:
    """True if rows that are landed would be told apart by other keys, or go to other partitions. The source is not asked: it may be gone.

    Landed events stay: they are in the history already, under the operation's number.
    """
    pairs = (
        (config.settings.keys or first.source.schema.primary_key, first.source_keys),
        (config.settings.storage.partition_by, first.target.partition_by),
    )
    other = any(tuple(map(str.lower, now)) != tuple(map(str.lower, then)) for now, then in pairs)
    return other and isinstance(first.read, ChunkRead)


def _laid_out_otherwise(
    context: Context, source: Source, run: RunRequest, config: TableConfig, state: TableState, first: Operation
) -> bool:
    source_table = apply_schema_policy(read_source_table(context.pipeline, source, config), None, run)
    tables = partial(context.tables, source)
    request = TableRequest(source=source, run=run, source_table=source_table, state=state, ledger=context.store, tables=tables)
    return _layout(new_operation(request, first.kind, first.plan.planned_at, first.read)) != _layout(first)


def _layout(operation: Operation) -> tuple[object, ...]:
    """Returns what of an operation a table is made by, and what is stored in it."""
    apply = operation.apply
    return (
        operation.target.path,
        operation.target.partition_by,
        *(apply.keys, apply.stored_as, apply.deleted_column, apply.delete_where, apply.truncate_where),
        operation.source.cursor.column_names,
        tuple((column.name, column.delta_type, column.source_type) for column in operation.source.schema.columns),
    )
