"""stage: from landed rows to a batch with one row per key, ready for one statement. Spark expressions only; nothing is executed here."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.merging import quoted
from cdc_ops.core.operations import OperationSpec


def latest_per_key(rows: DataFrame, spec: OperationSpec) -> DataFrame:
    """Returns one row per key: the one with the largest cursor.

    Slices of a window are read over several connections, and a row that changes meanwhile can be seen in two of them. NULL cursors sort
    first.
    """
    order = F.struct(*(F.coalesce(*(F.col(quoted(name)) for name in column.columns)) for column in spec.cursor.columns))
    row = F.struct(*(F.col(quoted(name)) for name in rows.columns))
    latest = rows.groupBy(*(F.col(quoted(key)).alias(f"__key_{index}") for index, key in enumerate(spec.keys))).agg(
        F.max_by(row, order).alias("row")
    )
    return latest.select(*(F.col(f"row.{quoted(name)}") for name in rows.columns))
