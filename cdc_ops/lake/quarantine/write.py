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
from cdc_ops.lake.spark.session import idempotent_write, private_session, shared_view
from cdc_ops.lake.table.create import translated_conflicts


def set_aside(spark: SparkSession, spec: Operation, path: str, feed: str) -> None:
    """Appends the bad records of an operation, and landed records of unknown tables; repeating it changes nothing.

    Args:
        spark: A session.
        spec: The operation.
        path: The Delta table.
        feed: Folder of the landed feed.

    Raises:
        LakeConflictError: another process changes that table.
    """
    with _writing(spark, spec) as session:
        unknown = (F.col("kind") == RecordKind.UNKNOWN) & F.col("raw").isNotNull()
        bad = session.read.parquet(feed).where((F.col("kind") == RecordKind.BAD) | unknown)
        parts = ("file", "line", F.to_json("position").alias("position"), "reason", F.col("raw").cast("binary").alias("raw"))
        _append(bad.select(*parts), spec, path)


def records_again(spark: SparkSession, spec: Operation, path: str) -> DataFrame:
    """Returns the records of archives in a quarantine that could not be read since: `value`, `file` and `line`."""
    last = F.max_by(F.struct("raw", "reason"), F.col("op_seq")).alias("last")
    rows = spark.read.format("delta").load(path).where(~F.col("file").startswith(f"{spec.table}/operation-"))
    found = rows.groupBy("file", "line").agg(last).where(F.col("last.reason") != RESOLVED)
    return found.select(F.col("last.raw").cast("string").alias("value"), "file", "line")


def resolve(spark: SparkSession, spec: Operation, path: str, feed: str) -> None:
    """Notes that records which were set aside could be read by now, after the commit of their rows; doing it again changes nothing.

    Args:
        spark: A session.
        spec: The operation that has read them again.
        path: The Delta table.
        feed: Folder of the landed feed.

    Raises:
        LakeConflictError: another process changes that table.
    """
    with _writing(spark, spec) as session:
        bad = F.bool_or(F.col("kind").isin(RecordKind.BAD, RecordKind.UNKNOWN)).alias("bad")
        read = session.read.parquet(feed).groupBy("file", "line").agg(bad).where("NOT bad")
        parts = (F.lit(None).cast("string").alias("position"), F.lit(RESOLVED).alias("reason"), F.lit(None).cast("binary").alias("raw"))
        _append(read.select("file", "line", *parts), spec, path)


def set_rows_aside(spark: SparkSession, spec: Operation, path: str, rows: DataFrame, reason: Column) -> None:
    """Appends rows of a query that cannot be ordered; repeating it changes nothing.

    They have no file: they are numbered, always in the same order, as lines of `<table>/operation-<number>`. Their bytes are their JSON.

    Args:
        spark: The session of `rows`.
        spec: The operation.
        path: The Delta table.
        rows: The rows, with the columns of the table.
        reason: What is wrong with each.

    Raises:
        LakeConflictError: another process changes that table.
    """
    names = [F.col(quoted(column.name)) for column in spec.full_schema.columns]
    cursor = [F.col(quoted(name)) for name in spec.source.cursor.column_names]
    raw = F.to_json(F.struct(*names), {"ignoreNullFields": "false"})
    place = F.to_json(F.struct(*cursor)) if cursor else F.lit(None).cast("string")
    bad = rows.select(place.alias("position"), reason.alias("reason"), raw.alias("raw"))
    with shared_view(bad) as view, _writing(spark, spec) as session:
        sorted_rows = session.table(view).coalesce(1).sortWithinPartitions("raw", "position")
        file, line = F.lit(f"{spec.table}/operation-{spec.op_seq}").alias("file"), F.monotonically_increasing_id().alias("line")
        _append(sorted_rows.select(file, line, "position", "reason", F.col("raw").cast("binary").alias("raw")), spec, path)


@contextmanager
def _writing(spark: SparkSession, spec: Operation) -> Iterator[SparkSession]:
    conf = idempotent_write(f"{app_id(spec.pipeline, spec.table)}/quarantine", spec.op_seq)
    with private_session(spark, conf) as session, translated_conflicts(f"the quarantine of {spec.table}"):
        yield session


def _append(bad: DataFrame, spec: Operation, path: str) -> None:
    told = {"pipeline": spec.pipeline, "table": str(spec.table), "operation_id": spec.operation_id, "run_id": spec.run_id}
    rows = bad.select(
        *(F.lit(value).alias(name) for name, value in told.items()),
        F.lit(spec.op_seq).cast("bigint").alias("op_seq"),
        *bad.columns,
        F.current_timestamp().alias("set_aside_at"),
    )
    rows.coalesce(1).write.format("delta").mode("append").save(path)
