"""stage: from landed rows to a batch with one row per key, ready for one statement. Spark expressions only; nothing is executed here."""

from dataclasses import replace
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.balanced import balanced_reduce
from cdc_ops.core.operation.log_batch import PRESENT, REST_IS_NULL
from cdc_ops.core.operation.merging.merge_plan import folds_nulls
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.text import quoted
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.expressions import numbered_keys
from cdc_ops.steps.stage.deletes import marked_rows


def latest_per_key(rows: DataFrame, operation: Operation) -> DataFrame:
    """Returns one row per key: the one with the largest cursor.

    Slices of a window are read over several connections, and a row that changes meanwhile can be seen in two of them. NULL cursors sort
    first. Without a cursor it is always the same one of them. A table's own order (`sequence_by`) comes before its cursor; if all versions
    are kept, the rows of a key are its versions.
    """
    sequence = operation.apply.stored_as.sequence
    if sequence and sequence.columns and operation.apply.stored_as.keeps_versions:
        return rows
    row = F.struct(*(F.col(quoted(name)) for name in rows.columns))
    latest = rows.groupBy(*numbered_keys(operation.apply.keys)).agg(F.max_by(row, place_in(rows, operation)).alias("row"))
    return latest.select(*(F.col(f"row.{quoted(name)}") for name in rows.columns))


def keep_latest_rows(operation: Operation, batch: Batch) -> Batch:
    """Keeps of landed rows one per key."""
    if not operation.lands_rows:
        return batch
    rows = latest_rows(batch.rows, operation)
    return replace(batch, rows=rows, latest=rows)


def latest_rows(rows: DataFrame, operation: Operation) -> DataFrame:
    """Returns what a MERGE needs of rows that were read: one per key, or of tables that keep versions of changes all.

    Where a NULL may leave what is there (`ignore_null_updates`), each column has its last value since the key's last delete, and `PRESENT`
    names the columns that the rows say something of.
    """
    if not folds_nulls(operation):
        return latest_per_key(rows, operation)
    rows = marked_rows(rows, operation)
    may_keep = {name.lower() for name in operation.apply.stored_as.nulls_ignored}
    kept = [name for name in rows.columns if name.lower() in may_keep]
    gone = F.col(DELETE_MARK) if DELETE_MARK in rows.columns else F.lit(False)
    if operation.apply.stored_as.keeps_versions:
        return rows.withColumn(PRESENT, _present(operation, {name: F.col(quoted(name)) for name in kept}, gone))
    place = place_in(rows, operation)
    # A delete says of every column that there is nothing.
    said = [F.struct(F.when(~gone, F.col(quoted(name))).alias("value")) for name in kept]
    places = [F.when(gone | F.col(quoted(name)).isNotNull(), place) for name in kept]
    last = [F.max_by(value, at).alias(f"__last_{index}") for index, (value, at) in enumerate(zip(said, places, strict=True))]
    row = F.max_by(F.struct(*(F.col(quoted(name)) for name in rows.columns), gone.alias("__gone")), place).alias("__row")
    folded = rows.groupBy(*numbered_keys(operation.apply.keys)).agg(row, F.bool_or(gone).alias("__is_new"), *last)
    own = {name: F.col(f"__row.{quoted(name)}") for name in rows.columns}
    found = {name: F.col(f"__last_{index}.value") for index, name in enumerate(kept)}
    values = {name: F.when(F.col("__row.__gone"), value).otherwise(found.get(name, value)) for name, value in own.items()}
    present = _present(operation, {name: values[name] for name in kept}, F.col("__is_new"))
    return folded.select(*(value.alias(name) for name, value in values.items()), present.alias(PRESENT))


def _present(operation: Operation, kept: dict[str, Column], is_new: Column) -> Column:
    """Returns the names of the columns that a row has; NULL for a row with all columns, such as one after a delete."""
    names = [F.when(kept[name].isNotNull(), F.lit(name)) if name in kept else F.lit(name) for name in operation.source.schema.names]
    silent = balanced_reduce(or_, (value.isNull() for value in kept.values()), F.lit(False))
    return F.when(silent & ~is_new, F.array_compact(F.array(*names, F.lit(REST_IS_NULL))))


def place_in(rows: DataFrame, operation: Operation) -> Column:
    """Returns the order of rows with one key: a table's own, then its cursor; without either, always the same."""
    own = operation.apply.stored_as.sequence.parts if operation.apply.stored_as.sequence else ()
    cursor = [F.coalesce(*(F.col(quoted(name)) for name in column.columns)) for column in operation.source.cursor.columns]
    columns = [*map(F.expr, own), *cursor]
    return F.struct(*(columns or [F.xxhash64(*(F.col(quoted(name)) for name in rows.columns))]))
