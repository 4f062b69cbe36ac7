"""Reading a source in Spark: a bounded JDBC read, as a DataFrame in the types of the lake. Nothing is read before an action."""

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.tables import TableSchema
from cdc_ops.sources.base import JdbcRead


def read_source(spark: SparkSession, read: JdbcRead, schema: TableSchema) -> DataFrame:
    """Returns the rows of a bounded read in the types of the lake, one partition per slice."""
    columns = zip(read.decoders, schema.columns, strict=True)
    return read_rows(spark, read).select(*(F.expr(decoder).cast(column.delta_type).alias(column.name) for decoder, column in columns))


def read_rows(spark: SparkSession, read: JdbcRead) -> DataFrame:
    """Returns what a read's relations yield, as it travels."""
    return reduce(DataFrame.unionAll, [_read_slice(spark, read, relation) for relation in read.relations])


def _read_slice(spark: SparkSession, read: JdbcRead, relation: str) -> DataFrame:
    reader = spark.read.format("jdbc").option("url", read.url).option("driver", read.driver).option("dbtable", relation)
    reader = reader.options(**read.properties).option("preferTimestampNTZ", "true")
    if read.session_init:
        reader = reader.option("sessionInitStatement", read.session_init)
    return reader.load()
