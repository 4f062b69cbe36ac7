"""Reading a source in Spark: a bounded read, as a DataFrame in the types of the lake. Nothing is read before an action."""

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.lake.staging.null_counts import mark_columns
from cdc_ops.sources.base import JdbcRead
from cdc_ops.steps.query.native_rows import read_native
from cdc_ops.steps.stage.invalid_values import failing


def read_source(spark: SparkSession, read: JdbcRead, schema: TableSchema) -> DataFrame:
    """Returns the rows of a bounded read in the types of the lake, one partition per slice."""
    return read_rows(spark, read).select(*_stored(read, schema, schema.primary_key))


def read_with_null_counts(spark: SparkSession, read: JdbcRead, schema: TableSchema, keys: tuple[str, ...]) -> DataFrame:
    """Returns the same rows with the marks by which lost values are counted (`lake.staging.null_counts`); `keys` name rows in failures.

    They are read natively if the read has a way to do so.
    """
    marks = mark_columns(schema, read.unstorable) if read.unstorable else []
    rows = read_native(spark, read.native) if read.native else read_rows(spark, read)
    return rows.select(*_stored(read, schema, keys), *marks)


def read_rows(spark: SparkSession, read: JdbcRead) -> DataFrame:
    """Returns what a read's relations yield over JDBC, as it travels."""
    return reduce(DataFrame.unionAll, [_read_slice(spark, read, relation) for relation in read.relations])


def _stored(read: JdbcRead, schema: TableSchema, keys: tuple[str, ...]) -> list[Column]:
    decoders = {column.name.lower(): decoder for column, decoder in zip(schema.columns, read.decoders, strict=True)}
    named = tuple((key, decoders[key.lower()]) for key in keys if key.lower() in decoders)
    columns = []
    for column, decoder, condition in zip(schema.columns, read.decoders, read.unstorable or ("",) * len(schema.columns), strict=True):
        value = decoder if column.lossy or not condition else failing(condition, decoder, column.name, named)
        columns.append(F.expr(value).cast(column.delta_type).alias(column.name))
    return columns


def _read_slice(spark: SparkSession, read: JdbcRead, relation: str) -> DataFrame:
    reader = spark.read.format("jdbc").option("url", read.url).option("driver", read.driver).option("dbtable", relation)
    reader = reader.options(**read.properties).option("preferTimestampNTZ", "true")
    if read.session_init:
        reader = reader.option("sessionInitStatement", read.session_init)
    return reader.load()
