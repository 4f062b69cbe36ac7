"""Changed keys: the same statement deletes the rows of a batch's old keys. Runs in Spark.

rows read, each perhaps with its old key --+-- the rows ------------------------------> update or insert
                                           +-- old keys that no row of the batch has --> delete, or mark
"""

from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.operation.operation import Operation
from cdc_ops.lake.diff.changes import key_ranges
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.expressions import numbered_keys, same_key


def delete_previous_keys(operation: Operation, batch: Batch) -> Batch:
    """Adds the old keys of a batch as rows to delete.

    That the source has no row with an old key was asked when it was read (`steps.table.columns.previous_keys`). Rows of the batch count
    too: another slice of the same window may have been read a moment later.

    Args:
        operation: The frozen operation.
        batch: One row per key, with its marks of deletes.
    """
    if not operation.reads_before or batch.latest is None:
        return batch
    old = [F.col(column.name) for column in operation.apply.previous_keys]
    named = [column.alias(f"__old_{index}") for index, column in enumerate(old)]
    same = same_key([F.col(f"__old_{index}") for index in range(len(old))])
    known = reduce(and_, (column.isNotNull() for column in old))
    read = batch.latest.select(*numbered_keys(operation.apply.keys))
    gone = batch.rows.where(known).select(*named).distinct().join(read, same, "left_anti")
    rows = batch.rows.drop(*(column.name for column in operation.apply.previous_keys))
    if gone.isEmpty():
        return replace(batch, rows=rows)
    if DELETE_MARK not in rows.columns:
        rows = rows.withColumn(DELETE_MARK, F.lit(False))
    places = {key: f"__old_{index}" for index, key in enumerate(operation.apply.keys)}
    marks = {DELETE_MARK, operation.apply.deleted_column}
    columns = [
        (F.lit(True) if field.name in marks else F.col(places[field.name]) if field.name in places else F.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in rows.schema.fields
    ]
    together = rows.unionByName(gone.select(*columns))
    prune = key_ranges(together, operation) if batch.plan.prune else ()
    return replace(batch, plan=replace(batch.plan, deleted_flag=DELETE_MARK, prune=prune), rows=together)
