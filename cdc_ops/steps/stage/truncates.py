"""Rows of a table of changes that empty it (`apply_as_truncates`): what is older goes, from the batch and from the table. Runs in Spark.

rows of a batch --+-- the last that empties the table -- its place as a literal -- rows of the table below it are deleted
+-- the others ---------------------- those below it are left out ---> MERGE
"""

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import MergePlan, older_than, spark_literal
from cdc_ops.core.operation.operation import Operation
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.expressions import is_true


def apply_truncates(operation: Operation, batch: Batch) -> Batch:
    """Leaves out what is older than the last row that empties the table, and has the statement delete what is older in the table."""
    if not operation.lands_rows or not operation.apply.truncate_where:
        return batch
    place = _last_truncate(batch.rows, operation)
    rows = _rows_since(batch.rows, operation, place)
    return replace(batch, rows=rows, plan=delete_older(batch.plan, operation.apply.stored_as.own.sequence, place))


def is_emptying(operation: Operation) -> Column:
    """Returns whether a row empties the table, never NULL."""
    return is_true(operation.apply.truncate_where)


def _last_truncate(rows: DataFrame, operation: Operation) -> str:
    """Returns the place of the last row that empties the table as a Spark SQL literal, "" if there is none, by reading them."""
    sequence = operation.apply.stored_as.sequence
    if sequence is None:
        return ""
    place = F.struct(*(F.expr(part).alias(f"p{index}") for index, part in enumerate(sequence.parts)))
    last = rows.where(is_emptying(operation)).agg(F.max(place).alias("last"))
    [found] = last.select(*(F.col(f"last.p{index}").cast("string") for index in range(len(sequence.types)))).collect()
    if found[0] is None:
        return ""
    parts = [spark_literal(kind, text) for kind, text in zip(sequence.types, found, strict=True)]
    return parts[0] if len(parts) == 1 else f"CAST(struct({', '.join(parts)}) AS {sequence.type})"


def _rows_since(rows: DataFrame, operation: Operation, place: str) -> DataFrame:
    """Leaves out what is older than a place at which the table was emptied, and the rows that say so."""
    kept = rows.where(~is_emptying(operation))
    parts = operation.apply.stored_as.sequence.parts if operation.apply.stored_as.sequence else ()
    own = parts[0] if len(parts) == 1 else f"struct({', '.join(parts)})"
    return kept.where(f"{own} >= {place}") if place else kept


def delete_older(plan: MergePlan, sequence: str, place: str) -> MergePlan:
    """Returns the statement that deletes also what is older, by the table's column `sequence`, than a place."""
    if not place:
        return plan
    if plan.mode is not ApplyMode.MERGE:  # it has no rows of before anyway
        return replace(plan, truncates=(place,))
    return replace(plan, delete_missing_where=older_than(sequence, place), prune=(), truncates=(place,))
