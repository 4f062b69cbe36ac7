"""The lookback window below a window: rows that the lake already has are dropped before the MERGE, others are late. Runs in Spark.

    landed rows --+-- rows of the window ------------------------------------------> MERGE
                  +-- rows of the band --(not as they are in the lake)-- late -----> MERGE

The lake is read by the band's literals, so files are skipped as for any range of time, and a band without news rewrites nothing.
"""

from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.balanced import balanced_reduce
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.late_rows import NONE_LATE, LateRows, measured
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.merging.merge_plan import spark_literal
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import WindowRead
from cdc_ops.core.text import quoted
from cdc_ops.lake.diff.equality import Equality
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.expressions import is_true
from cdc_ops.lake.table.live_rows import current_versions, is_marked

_IN_LAKE: Final = "__cdc_in_lake"


def drop_unchanged_rows(operation: Operation, batch: Batch) -> Batch:
    """Drops rows of the lookback window, and rows whose cursor is NULL, that are already equal in the lake; counts the late ones.

    A row of which the lake has another version with the same cursor is merged, and is not late: columns of whole seconds or days can
    change twice within one value. Late are rows of which the lake has no row of their key with their cursor, which is below the watermark
    that the operation was planned on. Rows that `apply_as_deletes` marks are not counted.

    Args:
        operation: The frozen operation, whose table exists.
        batch: One row per key.
    """
    match operation.read:
        case WindowRead(rereads=True) as read:
            rows, late = _news(operation, read, batch.rows)
            return replace(batch, rows=rows, late=late)
        case _:
            return batch


def _news(operation: Operation, read: WindowRead, batch: DataFrame) -> tuple[DataFrame, LateRows]:
    lead = _lead(operation)
    band = read.lookback or Window(low=operation.before.watermark, high=operation.before.watermark)
    above = F.lit(False) if band.high is None else F.coalesce(lead >= _literal(operation, band.high), F.lit(False))
    within = _within(operation, band)
    table = batch.sparkSession.read.format("delta").load(operation.target.path)
    lake = table.where(within | lead.isNull() if read.with_nulls else within)
    if operation.apply.stored_as.keeps_versions:
        lake = current_versions(lake)
    unknown, fresh = _unknown(operation, batch.where(~above), lake), batch.where(above)
    rows, late = _counted(operation, unknown)
    if operation.apply.schema_changes:  # the table is altered before the statement, after which it cannot be read as it was here
        return batch, late
    return (fresh.unionByName(unknown.drop(_IN_LAKE)) if rows else fresh), late


def _unknown(operation: Operation, rows: DataFrame, lake: DataFrame) -> DataFrame:
    """Rows that the lake lacks or has otherwise; `_IN_LAKE` is true where it has the same key with the same cursor."""
    stored = {name.lower(): name for name in lake.columns}
    known = lake.select(*(F.col(quoted(name)).alias(f"__lake_{name.lower()}") for name in stored.values()), F.lit(True).alias(_IN_LAKE))
    same_key = reduce(and_, (F.col(quoted(key)) == F.col(quoted(f"__lake_{key.lower()}")) for key in operation.apply.keys))
    joined = rows.join(known, same_key, "left")

    equality = Equality.between(rows, lake)

    def same(name: str) -> Column:
        return equality.equal_values(name, equality.source_value(name), equality.lake_value(name, f"__lake_{name.lower()}"))

    found = F.coalesce(F.col(_IN_LAKE), F.lit(False))
    deleted = is_true(operation.apply.delete_where)
    if operation.apply.deleted_column:  # a row that is marked there and living here, or the other way round, is another one
        marker = operation.apply.deleted_column.lower()
        found = found & ((is_marked(F.col(quoted(f"__lake_{marker}"))) if marker in stored else F.lit(False)) == deleted)
    equal = found & balanced_reduce(and_, (same(column.name) for column in operation.source.schema.columns))
    if (
        operation.apply.delete_where and not operation.apply.deleted_column
    ):  # a deleted row that the lake lacks is as it should be, and one that it has is not
        equal = (equal & ~deleted) | (~found & deleted)
    same_cursor = reduce(and_, (same(name) for name in operation.source.cursor.column_names), found)
    return joined.where(~equal).select(*(F.col(quoted(name)) for name in rows.columns), same_cursor.alias(_IN_LAKE))


def _counted(operation: Operation, unknown: DataFrame) -> tuple[int, LateRows]:
    """Counts the rows that the lake does not have as they are, and the late ones among them."""
    watermark, lead = operation.before.watermark, _lead(operation)
    late = F.lit(False) if watermark is None else ~F.col(_IN_LAKE) & (lead < _literal(operation, watermark))
    if operation.apply.delete_where:  # the lake never has such rows: they are merged, for the rows that they delete, and are not late
        late = late & ~is_true(operation.apply.delete_where)
    counts = (F.count(F.lit(1)).alias("rows"), F.count_if(late).alias("late"), F.min(F.when(late, lead)).cast("string").alias("oldest"))
    [found] = unknown.agg(*counts).collect()
    if watermark is None:
        return found["rows"], NONE_LATE
    return found["rows"], measured(operation.source.cursor, found["late"], found["oldest"] or "", watermark)


def _lead(operation: Operation) -> Column:
    return F.coalesce(*(F.col(quoted(name)) for name in operation.source.cursor.lead.columns))


def _within(operation: Operation, band: Window) -> Column:
    """The lead lies in the band, said column by column, so that files are skipped also where it is the first of several."""
    branches, before = [], F.lit(True)
    for name in operation.source.cursor.lead.columns:
        column = F.col(quoted(name))
        low = F.lit(True) if band.low is None else column >= _literal(operation, band.low)
        high = F.lit(True) if band.high is None else column < _literal(operation, band.high)
        branches.append(before & low & high)
        before = before & column.isNull()
    return reduce(or_, branches)


def _literal(operation: Operation, value: CursorValue) -> Column:
    column = operation.source.schema.column(operation.source.cursor.lead.columns[0])
    kind = column.delta_type if column else "string"
    zone = "Z" if kind == "timestamp" else ""
    return F.expr(spark_literal(kind, value.parts[0] + zone))
