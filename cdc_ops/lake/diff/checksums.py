"""Checksums of a Delta table, bucket by bucket: the lake's half of a comparison. Runs in Spark, reads only."""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.reconcile.diff import Digests, added
from cdc_ops.core.reconcile.key_buckets import Buckets, BucketSelection, span_condition
from cdc_ops.core.reconcile.row_text import spark_text
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.text import quoted
from cdc_ops.lake.spark.session import private_session
from cdc_ops.lake.table.live_rows import LiveRows

_SETTINGS: Final = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}
"""What the canonical texts of instants and decimals rely on."""


def lake_digests(
    spark: SparkSession,
    rows: LiveRows,
    schema: TableSchema,
    columns: tuple[str, ...],
    buckets: Buckets,
    within: BucketSelection | None = None,
) -> Digests:
    """Computes row counts and sums of hashes per bucket.

    Args:
        spark: Any session.
        rows: Rows of the Delta table.
        schema: Its columns, as the source has them.
        columns: What is hashed of each row; each must have a canonical text.
        buckets: How rows are grouped.
        within: Only these buckets of a coarser cut.
    """
    hashed = f"CAST(conv(substr({_hash(schema, columns)}, 1, 15), 16, 10) AS DECIMAL(20,0))"
    condition = scope_condition(schema, within) if within else ""
    with private_session(spark, _SETTINGS) as session:
        living = rows.read(session)
        wanted = living.where(condition) if condition else living
        hashes = wanted.selectExpr(f"{_number(schema, buckets)} AS bucket", f"{hashed} AS hashed")
        sums = hashes.groupBy("bucket").agg(F.count(F.lit(1)).alias("row_count"), F.sum("hashed").alias("total")).collect()
    return added((int(row["bucket"]), int(row["row_count"]), int(row["total"])) for row in sums)


def scope_condition(schema: TableSchema, scope: BucketSelection) -> str:
    """Returns the condition that a stored row is in some buckets, as Spark SQL; "" for the whole table."""
    if scope.buckets is None:
        return ""
    if scope.buckets.by_range:
        return span_condition(quoted(scope.buckets.keys[0]), scope.spans())
    return f"{_number(schema, scope.buckets)} IN ({', '.join(map(str, scope.members))})" if scope.members else "FALSE"


def _number(schema: TableSchema, buckets: Buckets) -> str:
    if not buckets.by_range:
        return f"(CAST(conv(substr({_hash(schema, buckets.keys)}, 57, 8), 16, 10) AS BIGINT) % {buckets.count})"
    column = schema.column(buckets.keys[0])
    wide = column is not None and column.delta_type.startswith("decimal")
    name = quoted(buckets.keys[0])
    return buckets.number_sql(name if wide else f"CAST({name} AS BIGINT)", "({0} DIV {1})")


def _hash(schema: TableSchema, columns: tuple[str, ...]) -> str:
    fields = [field for name in columns if (column := schema.column(name)) and (field := spark_text(column))]
    if len(fields) != len(columns):
        raise ValueError(f"not all of {columns} of {schema.table} have a canonical text")
    return f"sha2(CAST(CONCAT_WS(',', {', '.join(fields)}) AS BINARY), 256)"
