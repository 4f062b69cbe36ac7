"""Changed keys: the same statement deletes the rows of a batch's old keys. Runs in Spark.

rows read, each perhaps with its old key --+-- the rows ------------------------------> update or insert
                                           +-- old keys that no row of the batch has --> delete, or mark
"""

from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.operation.merge_plan import MergePlan
from cdc_ops.core.operation.operation import Operation
from cdc_ops.lake.diff.changes import key_ranges
from cdc_ops.lake.merge.key_join import numbered_keys, same_key


def with_moved(spec: Operation, plan: MergePlan, batch: DataFrame, landed: DataFrame) -> tuple[MergePlan, DataFrame]:
    """Adds the old keys of a batch as rows to delete.

    That the source has no row with an old key was asked when it was read (`steps.table.previous_keys`). Rows of the batch count too:
    another slice of the same window may have been read a moment later.

    Args:
        spec: The frozen operation.
        plan: Its statement.
        batch: One row per key, with its marks of deletes.
        landed: All rows that were read, also those that the batch does not need.
    """
    if not spec.reads_before:
        return plan, batch
    old = [F.col(column.name) for column in spec.apply.previous_keys]
    named = [column.alias(f"__old_{index}") for index, column in enumerate(old)]
    same = same_key([F.col(f"__old_{index}") for index in range(len(old))])
    known = reduce(and_, (column.isNotNull() for column in old))
    gone = batch.where(known).select(*named).distinct().join(landed.select(*numbered_keys(spec.apply.keys)), same, "left_anti")
    rows = batch.drop(*(column.name for column in spec.apply.previous_keys))
    if gone.isEmpty():
        return plan, rows
    if DELETE_MARK not in rows.columns:
        rows = rows.withColumn(DELETE_MARK, F.lit(False))
    places = {key: f"__old_{index}" for index, key in enumerate(spec.apply.keys)}
    marks = {DELETE_MARK, spec.apply.deleted_column}
    columns = [
        (F.lit(True) if field.name in marks else F.col(places[field.name]) if field.name in places else F.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in rows.schema.fields
    ]
    together = rows.unionByName(gone.select(*columns))
    return replace(plan, deleted_flag=DELETE_MARK, prune=key_ranges(together, spec) if plan.prune else ()), together
