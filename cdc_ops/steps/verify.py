"""verify: compares source and lake and says which keys differ. Runs in Spark; writes nothing."""

from pyspark.sql import SparkSession

from cdc_ops.core.tables import TableSchema
from cdc_ops.lake.compare import TableComparison, compare_tables
from cdc_ops.sources.base import JdbcRead
from cdc_ops.steps.reading import read_source


def verify(spark: SparkSession, read: JdbcRead, schema: TableSchema, keys: tuple[str, ...], path: str) -> TableComparison:
    """Compares a table at the source, as it is now, with the lake.

    Args:
        spark: Any session.
        read: How to read the whole table.
        schema: Its columns.
        keys: What to compare by.
        path: The Delta table.
    """
    rows = read_source(spark, read, schema)
    lake = spark.read.format("delta").load(path).select(*rows.columns)
    return compare_tables(rows, lake, keys)
