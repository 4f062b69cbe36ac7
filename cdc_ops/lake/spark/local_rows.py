"""Rows of this process as a DataFrame, without Python on executors; inside Spark.

PySpark sends a list of rows through a Python worker on an executor, which hands each row on as it is. Arrow's batches go to the JVM of the
driver and stay there as a local relation. So executors need no Python, and no job starts for a handful of rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_TYPES: Final = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}


def no_rows(spark: SparkSession, columns: Mapping[str, str]) -> DataFrame:
    """Returns a DataFrame without a row; `columns` = types by names."""
    return spark.range(0).select(*(F.lit(None).cast(kind).alias(name) for name, kind in columns.items()))


def local_rows(spark: SparkSession, rows: Iterable[Sequence[object]], columns: Mapping[str, str]) -> DataFrame:
    """Returns rows as a DataFrame.

    Args:
        spark: The session.
        rows: One sequence per row, in the order of the columns; None is NULL.
        columns: Types by names: `string`, `int` or `bigint`.
    """
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(column, _TYPES[kind]) for column, kind in zip(values, columns.values(), strict=True)]
    table = pa.table(arrays, names=list(columns))
    if table.num_rows == 0:  # a session on a Spark Connect server asks for the schema of a table without rows
        return spark.createDataFrame(table, ", ".join(f"`{name}` {kind}" for name, kind in columns.items()))
    return spark.createDataFrame(table)
