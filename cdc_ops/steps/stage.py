"""stage: from landed rows to a batch with one row per key, ready for one statement. Spark expressions only; nothing is executed here."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.deletes import DELETE_MARK
from cdc_ops.core.merging import quoted
from cdc_ops.core.operations import ApplyMode, OperationSpec
from cdc_ops.lake.keys import numbered_keys


def latest_per_key(rows: DataFrame, spec: OperationSpec) -> DataFrame:
    """Returns one row per key: the one with the largest cursor.

    Slices of a window are read over several connections, and a row that changes meanwhile can be seen in two of them. NULL cursors sort
    first. Without a cursor it is always the same one of them. A table's own order (`sequence_by`) comes before its cursor; if all versions
    are kept, the rows of a key are its versions.
    """
    sequence = spec.stored_as.sequence
    own = sequence.columns if sequence else ()
    if own and spec.stored_as.keeps_versions:
        return rows
    columns = [F.coalesce(*(F.col(quoted(name)) for name in column.columns)) for column in spec.cursor.columns]
    columns = [*(F.col(quoted(name)) for name in own), *columns]
    order = F.struct(*(columns or [F.xxhash64(*(F.col(quoted(name)) for name in rows.columns))]))
    row = F.struct(*(F.col(quoted(name)) for name in rows.columns))
    latest = rows.groupBy(*numbered_keys(spec.keys)).agg(F.max_by(row, order).alias("row"))
    return latest.select(*(F.col(f"row.{quoted(name)}") for name in rows.columns))


def applied(rows: DataFrame, spec: OperationSpec) -> DataFrame:
    """Returns the rows that count: with ignored deletes, those that the table's `apply_as_deletes` is true of are left out.

    They go before the last row of a key is chosen: else what came before a delete would count or not by how a window was cut.
    """
    return rows.where(~is_deleted(spec.delete_where)) if spec.delete_where and spec.stored_as.ignores_deletes else rows


def apply_deletes(rows: DataFrame, spec: OperationSpec) -> DataFrame:
    """Marks the rows that the table's `apply_as_deletes` is true of, for a MERGE; leaves them out of an append or overwrite.

    With soft deletes every row gets the mark with which it is stored. A condition that is NULL deletes nothing.
    """
    if spec.deleted_column:
        return rows.withColumn(spec.deleted_column, is_deleted(spec.delete_where) if spec.delete_where else F.lit(False))
    if not spec.delete_where:
        return rows
    deleted = is_deleted(spec.delete_where)
    marks = spec.mode is ApplyMode.MERGE and not spec.stored_as.ignores_deletes
    return rows.withColumn(DELETE_MARK, deleted) if marks else rows.where(~deleted)


def is_deleted(condition: str) -> Column:
    """Returns a table's `apply_as_deletes` as a column that is never NULL."""
    return F.coalesce(F.expr(condition), F.lit(False))
