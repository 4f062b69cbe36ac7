"""Records of archives that cannot be read, set aside in a Delta table beside the lake's own. Runs in Spark.

They are written before the commit of the rows that were read with them, once an operation: a commit never stands for records that are
nowhere. Reading them needs no Spark: `lake.quarantined`.
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.events import RecordKind
from cdc_ops.core.operations import OperationSpec, app_id
from cdc_ops.lake.session import once, private_session
from cdc_ops.lake.tables import translated_conflicts


def set_aside(spark: SparkSession, spec: OperationSpec, path: str, feed: str) -> None:
    """Appends the bad records of an operation; doing it again changes nothing.

    Args:
        spark: A session.
        spec: The operation.
        path: The Delta table.
        feed: Folder of the landed feed.

    Raises:
        LakeConflictError: somebody else changes that table.
    """
    conf = once(f"{app_id(spec.pipeline, spec.table)}/quarantine", spec.op_seq)
    with private_session(spark, conf) as session, translated_conflicts(f"the quarantine of {spec.table}"):
        bad = session.read.parquet(feed).where(F.col("kind") == RecordKind.BAD)
        told = {"pipeline": spec.pipeline, "table": str(spec.table), "operation_id": spec.operation_id, "run_id": spec.run_id}
        rows = bad.select(
            *(F.lit(value).alias(name) for name, value in told.items()),
            F.lit(spec.op_seq).cast("bigint").alias("op_seq"),
            "file",
            "line",
            F.to_json("position").alias("position"),
            "reason",
            F.col("raw").cast("binary").alias("raw"),
            F.current_timestamp().alias("set_aside_at"),
        )
        rows.coalesce(1).write.format("delta").mode("append").save(path)
