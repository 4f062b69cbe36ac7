"""replay: rebuilds a table from its event history, or applies some events to it again; the source is not read. Runs in Spark."""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import START
from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.events.event_history import HistoryKind, Replay
from cdc_ops.core.operation.log_batch import PRESENT, REST_IS_NULL, LogBatchResult
from cdc_ops.core.operation.merging.merge_plan import plan_merge, position_literal
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ReplayRead
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.text import quoted
from cdc_ops.errors import RequestError
from cdc_ops.events.fold.history import RANK
from cdc_ops.events.fold.rules import FoldRules
from cdc_ops.lake.history.read import History, open_history, truncates, with_pending
from cdc_ops.lake.history.rows import Kept
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.merge.sql import INCOMPLETE
from cdc_ops.steps.history.folded_history import fold_rows, of_today
from cdc_ops.steps.stage.batch_request import BatchRequest


def read_history(request: BatchRequest, replay: Replay) -> Batch:
    """Returns the events of a table's history as a batch: they replace the table, or are merged from some time on.

    Args:
        request: The operation.
        replay: Which events.

    Raises:
        HistoryUnavailableError: there is no history.
        RequestError: the table has versions from before its history, which would be lost.
        ChangesUnavailableError: rows were changed by something else than events since the last one, and what was changed is gone.
    """
    operation, plan = request.operation, request.plan
    history = open_history(request.spark, replay.path)
    rows = with_pending(request.spark, Kept.of(operation), history)
    if replay.since is not None:
        rows = rows.where((F.col("kind") != HistoryKind.STATE.value) & (F.col("happened_at") >= F.lit(replay.since)))
    stored = operation.apply.stored_as
    emptied = () if stored.ignores_deletes else truncates(rows)
    rules = FoldRules(
        schema=operation.full_schema,
        keys=operation.apply.keys,
        order=(),
        deletes=not stored.ignores_deletes,
        versions=stored.keeps_versions,
        nulls_ignored=stored.nulls_ignored,
    )
    leaving_out = operation.apply.delete_where if stored.ignores_deletes else ""
    today = of_today(rows, operation.full_schema.columns, operation.apply.keys)
    folded = fold_rows(today, rules, (history.path, operation.target.path), leaving_out, emptied)
    if replay.since is not None:
        plan = plan_merge(operation, _manifest(operation, emptied))
    elif stored.keeps_versions:
        _check_versions(operation, history)
        plan = replace(plan, deleted_flag=DELETE_MARK, present=PRESENT, truncates=tuple(map(position_literal, emptied)))
    return replace(request.batch_of(folded.drop(RANK)), plan=plan)


def keep_whole_rows(operation: Operation, batch: Batch) -> Batch:
    """Leaves of a history that replaces a table the rows that are not deleted; each has to be known as a whole."""
    match operation.read:
        case ReplayRead(replay=Replay(since=None)) if not operation.apply.stored_as.keeps_versions:
            return replace(batch, rows=_living(batch.rows, operation))
        case _:
            return batch


def _manifest(operation: Operation, emptied: tuple[tuple[int, ...], ...]) -> Manifest:
    """What is known of merged events: rows may be partial, and there may be deletes among them."""
    reading = LogBatchResult.of(watermark=operation.after.archive or ArchiveWatermark(), truncates=emptied, partial=1, deletes=1)
    return Manifest.of(
        operation_id=operation.operation_id,
        attempt="",
        rows=0,
        bytes=0,
        schema_fingerprint=operation.source.schema.fingerprint,
        log=reading,
    )


def _living(batch: DataFrame, operation: Operation) -> DataFrame:
    """The rows that are there, all of which have to be whole."""
    gone = F.col(quoted(operation.apply.deleted_column or DELETE_MARK))
    key = F.hex(F.concat_ws(", ", *(F.col(quoted(name)).cast("string") for name in operation.apply.keys)))
    first = operation.full_schema.columns[0]
    failure = F.raise_error(F.concat(F.lit(INCOMPLETE), key, F.lit(":"))).cast(first.delta_type)
    insertable = F.col(PRESENT).isNull() | F.array_contains(PRESENT, REST_IS_NULL)
    value = F.when(insertable, F.col(quoted(first.name))).otherwise(failure)
    return batch.where(~gone).withColumn(first.name, value)


def _check_versions(operation: Operation, history: History) -> None:
    if START in history.begin.columns:
        raise RequestError(
            f"Table {operation.table} cannot be rebuilt from its event history: it has versions from before that.",
            why=f"The history begins at {history.begin.at:%Y-%m-%d %H:%M:%S} UTC with the rows of that time; older versions would be lost.",
            data="Nothing was written; the watermark stays.",
            next="Replay from a time on (--since), which keeps them.",
        )
