"""Soft deletes: the rows of a Delta table that the source has, and those that it deleted. Runs in Spark, reads only."""

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import MergePlan
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import CompareRead, ReplayRead
from cdc_ops.core.text import quoted
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.merge.commit_columns import with_commit_columns
from cdc_ops.lake.spark.expressions import numbered_keys, same_key
from cdc_ops.lake.table.live_rows import LiveRows, is_marked


def keep_deleted_rows(operation: Operation, batch: Batch) -> Batch:
    """Keeps the rows that a new generation would lose, unless deletes are hard; with soft ones, counts those that a batch marks.

    What a comparison found says so of itself, and a history has all versions.
    """
    soft, kept = bool(operation.apply.deleted_column), operation.apply.stored_as.ignores_deletes
    if not (soft or kept) or isinstance(operation.read, CompareRead):
        return batch
    if operation.apply.mode is ApplyMode.OVERWRITE:
        all_versions = isinstance(operation.read, ReplayRead) and operation.apply.stored_as.keeps_versions
        return batch if all_versions else replace(batch, rows=_with_kept(operation, batch.rows, batch.plan))
    marks = soft and operation.apply.mode is ApplyMode.MERGE and not operation.apply.update_only
    if not marks or not (operation.apply.delete_where or batch.plan.deleted_flag):
        return batch
    return replace(batch, newly_deleted=_count_newly_deleted(operation, batch))


def _count_newly_deleted(operation: Operation, batch: Batch) -> int:
    """Returns how many living rows of the table a batch marks as deleted; Delta counts them as updated like all others.

    Costs a look at the keys in the table, where the batch has such rows at all; files are skipped as in the MERGE.
    """
    marked = batch.rows.where(F.col(quoted(operation.apply.deleted_column))).select(*numbered_keys(operation.apply.keys))
    if marked.isEmpty():
        return 0
    living = LiveRows(path=operation.target.path, deleted_column=operation.apply.deleted_column).read(marked.sparkSession)
    for one in batch.plan.prune:
        living = living.where(f"{quoted(one.column)} BETWEEN {one.low} AND {one.high}")
    return living.join(marked, same_key(_keys(operation)), "left_semi").count()


def _with_kept(operation: Operation, batch: DataFrame, plan: MergePlan) -> DataFrame:
    """Adds to all rows of the source those of the table that the source has not: what replaces the table keeps them.

    With soft deletes they are marked; a table that ignores deletes does not keep what soft ones have marked. Columns that the source has
    not any more go; the plan has seen to it that what stays fits its column.

    Args:
        operation: An operation that replaces the table, which exists.
        batch: One row per key, with the column that marks deleted rows, if there is one.
        plan: The statement.
    """
    lake = batch.sparkSession.read.format("delta").load(operation.target.path)
    stored = {name.lower() for name in lake.columns}
    if any(key.lower() not in stored for key in operation.apply.keys):
        return batch
    marks = [F.lit(True).alias(operation.apply.deleted_column)] if operation.apply.deleted_column else []
    marker = operation.apply.stored_as.own.deleted
    if not marks and marker.lower() in stored and operation.source.schema.column(marker) is None:
        lake = lake.where(~is_marked(F.col(quoted(marker))))
    read = batch.select(*numbered_keys(operation.apply.keys))
    kept = [
        (F.col(quoted(column.name)) if column.name.lower() in stored else F.lit(None)).cast(column.delta_type).alias(column.name)
        for column in operation.source.schema.columns
    ]
    own = [(F.col(quoted(name)) if name.lower() in stored else F.lit(None)).cast(kind).alias(name) for name, kind in plan.metadata.columns]
    gone = lake.join(read, same_key(_keys(operation)), "left_anti").select(*kept, *marks, *own)
    return with_commit_columns(batch, plan).select(*(F.col(quoted(name)) for name in gone.columns)).unionByName(gone)


def _keys(operation: Operation) -> list[Column]:
    return [F.col(quoted(key)) for key in operation.apply.keys]
