"""Soft deletes: the rows of a Delta table that the source has, and those that it deleted. Runs in Spark, reads only."""

from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merge_plan import MergePlan
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.text import quoted
from cdc_ops.lake.merge.key_join import numbered_keys, same_key
from cdc_ops.lake.merge.sql import stamp_values
from cdc_ops.lake.table.live_rows import LiveRows, is_marked


def count_newly_marked(spark: SparkSession, spec: Operation, batch: DataFrame, plan: MergePlan) -> int:
    """Returns how many living rows of the table a batch marks as deleted; Delta counts them as updated like all others.

    Costs a look at the keys in the table, where the batch has such rows at all; files are skipped as in the MERGE.
    """
    marked = batch.where(F.col(quoted(spec.apply.deleted_column))).select(*numbered_keys(spec.apply.keys))
    if marked.isEmpty():
        return 0
    living = LiveRows(path=spec.target.path, deleted_column=spec.apply.deleted_column).read(spark)
    for one in plan.prune:
        living = living.where(f"{quoted(one.column)} BETWEEN {one.low} AND {one.high}")
    return living.join(marked, same_key(_keys(spec)), "left_semi").count()


def stamped(batch: DataFrame, plan: MergePlan) -> DataFrame:
    """Adds to rows that are written with the whole table what commit that is; those of the table that stay have it."""
    kinds, there = dict(plan.stamps.columns), set(batch.columns)
    return batch.withColumns({name: F.expr(value).cast(kinds[name]) for name, value in stamp_values(plan).items() if name not in there})


def with_kept(spark: SparkSession, spec: Operation, batch: DataFrame, plan: MergePlan) -> DataFrame:
    """Adds to all rows of the source those of the table that the source has not: what replaces the table keeps them.

    With soft deletes they are marked; a table that ignores deletes does not keep what soft ones have marked. Columns that the source has
    not any more go; the plan has seen to it that what stays fits its column.

    Args:
        spark: The session of `batch`.
        spec: An operation that replaces the table, which exists.
        batch: One row per key, with the column that marks deleted rows, if there is one.
        plan: The statement.
    """
    lake = spark.read.format("delta").load(spec.target.path)
    stored = {name.lower() for name in lake.columns}
    if any(key.lower() not in stored for key in spec.apply.keys):
        return batch
    marks = [F.lit(True).alias(spec.apply.deleted_column)] if spec.apply.deleted_column else []
    marker = spec.apply.stored_as.own.deleted
    if not marks and marker.lower() in stored and spec.source.schema.column(marker) is None:
        lake = lake.where(~is_marked(F.col(quoted(marker))))
    read = batch.select(*numbered_keys(spec.apply.keys))
    kept = [
        (F.col(quoted(column.name)) if column.name.lower() in stored else F.lit(None)).cast(column.delta_type).alias(column.name)
        for column in spec.source.schema.columns
    ]
    own = [(F.col(quoted(name)) if name.lower() in stored else F.lit(None)).cast(kind).alias(name) for name, kind in plan.stamps.columns]
    gone = lake.join(read, same_key(_keys(spec)), "left_anti").select(*kept, *marks, *own)
    return stamped(batch, plan).select(*(F.col(quoted(name)) for name in gone.columns)).unionByName(gone)


def _keys(spec: Operation) -> list[Column]:
    return [F.col(quoted(key)) for key in spec.apply.keys]


def with_deleted(spark: SparkSession, spec: Operation, plan: MergePlan, batch: DataFrame) -> tuple[MergePlan, DataFrame]:
    """Keeps the rows that a new generation would lose, unless deletes are hard; with soft ones, counts those that the batch marks."""
    if not spec.apply.deleted_column and not spec.apply.stored_as.ignores_deletes:
        return plan, batch
    if spec.apply.mode is ApplyMode.OVERWRITE:
        return plan, with_kept(spark, spec, batch, plan)
    counts = (
        spec.apply.deleted_column
        and (spec.apply.delete_where or plan.deleted_flag)
        and spec.apply.mode is ApplyMode.MERGE
        and not spec.apply.update_only
    )
    return (replace(plan, marked=count_newly_marked(spark, spec, batch, plan)) if counts else plan), batch
