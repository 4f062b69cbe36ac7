"""What the events of a history come to: the last state of each key, or each change of it, in the columns of a batch. Runs in Spark."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.operation.log_batch import PRESENT, REST_IS_NULL
from cdc_ops.core.operation.operation import Operation
from cdc_ops.lake.history.event_fold import DELETED, WHOLE, changes_per_key, latest_per_key, without_nulls
from cdc_ops.lake.spark.expressions import leave_out, stored_value


def fold_events(feed: DataFrame, operation: Operation, *, truncated: bool) -> DataFrame:
    """Returns what a table wants of a feed: the last state of each key, or each change of it for a table that keeps versions.

    Args:
        feed: The landed feed.
        operation: The operation.
        truncated: False if the feed is known to have no TRUNCATE.
    """
    deletes = not operation.apply.stored_as.ignores_deletes
    if operation.apply.delete_where and not deletes:
        feed = leave_out(feed, operation.apply.delete_where)
    if nulls := operation.apply.stored_as.nulls_ignored:
        feed = without_nulls(feed, operation.full_schema, nulls)
    if operation.apply.stored_as.keeps_versions:
        return changes_per_key(feed, deletes=deletes)
    return latest_per_key(feed, operation.full_schema, truncated=truncated, deletes=deletes, nulls=not nulls)


def landed_rows(latest: DataFrame, operation: Operation, place: Column) -> DataFrame:
    """Returns rows as they are landed: the columns, whether the row is gone, which columns are known if not all are, and their place."""
    keys, all_of_them = set(operation.apply.keys), len(operation.full_schema.columns)
    values = [
        stored_value(column, F.col("key" if column.name in keys else "row")[column.name]).alias(column.name)
        for column in operation.full_schema.columns
    ]
    known = F.col(DELETED) | F.col(WHOLE) | ((F.size("present") == all_of_them) & ~F.array_contains("present", REST_IS_NULL))
    marks = F.col(DELETED).alias(DELETE_MARK), F.when(~known, F.col("present")).alias(PRESENT)
    return latest.select(*values, *marks, place.alias(SEQUENCE))
