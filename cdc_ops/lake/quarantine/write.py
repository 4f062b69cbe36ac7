"""Writes records that cannot be read, and changes that cannot be ordered, to the quarantine table. Runs in Spark.

They are written before the commit of the rows that were read with them, once an operation: a commit never stands for records that are
nowhere. Reading them needs no Spark: `lake.quarantine.read`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.core.text import quoted
from cdc_ops.lake.quarantine.read import RESOLVED
from cdc_ops.lake.spark.expressions import EXACT_JSON
from cdc_ops.lake.spark.session import idempotent_write, private_session, shared_view
from cdc_ops.lake.table.create import translated_conflicts


def quarantine(spark: SparkSession, operation: Operation, path: str, feed: str) -> None:
    """Appends the bad records of an operation, and landed records of unknown tables; repeating it changes nothing.

    Args:
        spark: A session.
        operation: The operation.
        path: The Delta table.
        feed: Folder of the landed feed.

    Raises:
        LakeConflictError: another process changes that table.
    """
    with _writing(spark, operation) as session:
        unknown = (F.col("kind") == RecordKind.UNKNOWN) & F.col("raw").isNotNull()
        bad = session.read.parquet(feed).where((F.col("kind") == RecordKind.BAD) | unknown)
        parts = ("file", "line", F.to_json("position").alias("position"), "reason", F.col("raw").cast("binary").alias("raw"))
        _append(bad.select(*parts), operation, path)


def resolve(spark: SparkSession, operation: Operation, path: str, feed: str) -> None:
    """Notes that records which were set aside could be read by now, after the commit of their rows; doing it again changes nothing.

    Args:
        spark: A session.
        operation: The operation that has read them again.
        path: The Delta table.
        feed: Folder of the landed feed.

    Raises:
        LakeConflictError: another process changes that table.
    """
    with _writing(spark, operation) as session:
        bad = F.bool_or(F.col("kind").isin(RecordKind.BAD, RecordKind.UNKNOWN)).alias("bad")
        read = session.read.parquet(feed).groupBy("file", "line").agg(bad).where("NOT bad")
        parts = (F.lit(None).cast("string").alias("position"), F.lit(RESOLVED).alias("reason"), F.lit(None).cast("binary").alias("raw"))
        _append(read.select("file", "line", *parts), operation, path)


def set_rows_aside(spark: SparkSession, operation: Operation, path: str, rows: DataFrame, reason: Column) -> None:
    """Appends rows of a query that cannot be ordered; repeating it changes nothing.

    They have no file: they are numbered, always in the same order, as lines of `<table>/operation-<number>`. Their bytes are their JSON.

    Args:
        spark: The session of `rows`.
        operation: The operation.
        path: The Delta table.
        rows: The rows, with the columns of the table.
        reason: What is wrong with each.

    Raises:
        LakeConflictError: another process changes that table.
    """
    names = [F.col(quoted(column.name)) for column in operation.full_schema.columns]
    cursor = [F.col(quoted(name)) for name in operation.source.cursor.column_names]
    raw = F.to_json(F.struct(*names), EXACT_JSON)
    place = F.to_json(F.struct(*cursor), EXACT_JSON) if cursor else F.lit(None).cast("string")
    bad = rows.select(place.alias("position"), reason.alias("reason"), raw.alias("raw"))
    with shared_view(bad) as view, _writing(spark, operation) as session:
        sorted_rows = session.table(view).coalesce(1).sortWithinPartitions("raw", "position")
        file, line = F.lit(f"{operation.table}/operation-{operation.op_seq}").alias("file"), F.monotonically_increasing_id().alias("line")
        _append(sorted_rows.select(file, line, "position", "reason", F.col("raw").cast("binary").alias("raw")), operation, path)


@contextmanager
def _writing(spark: SparkSession, operation: Operation) -> Iterator[SparkSession]:
    conf = idempotent_write(f"{app_id(operation.pipeline, operation.table)}/quarantine", operation.op_seq)
    with private_session(spark, conf) as session, translated_conflicts(f"the quarantine of {operation.table}"):
        yield session


def _append(bad: DataFrame, operation: Operation, path: str) -> None:
    told = {
        "pipeline": operation.pipeline,
        "table": str(operation.table),
        "operation_id": operation.operation_id,
        "run_id": operation.plan.run_id,
    }
    rows = bad.select(
        *(F.lit(value).alias(name) for name, value in told.items()),
        F.lit(operation.op_seq).cast("bigint").alias("op_seq"),
        *bad.columns,
        F.current_timestamp().alias("set_aside_at"),
    )
    rows.coalesce(1).write.format("delta").mode("append").save(path)
