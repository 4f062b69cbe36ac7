"""Maintenance of a Delta table: OPTIMIZE and VACUUM, if the plan finds them due. Runs in Spark, under the table's lease."""

from datetime import datetime

from pyspark.sql import SparkSession

from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.spark.session import private_session
from cdc_ops.lake.sql_text import path_name
from cdc_ops.lake.table.create import table_stats, translated_conflicts


def maintain(spark: SparkSession, task: MaintenanceTask, now: datetime) -> TableStats:
    """Does what is due for a table, in a session without transaction id or user metadata: upkeep is never taken for an operation.

    OPTIMIZE puts small files together and rewrites files of which more than 5 % of the rows are deleted, so deletion vectors need no
    step of their own. VACUUM runs FULL: it lists the table's folder and so finds the files of killed writers too, which LITE, by the log
    alone, never does. What it may remove is decided by the table's `delta.deletedFileRetentionDuration`; Delta 4.4 ignores RETAIN.

    Args:
        spark: Any session.
        task: The table and what is due.
        now: The time to be recorded, UTC.

    Returns:
        The table's numbers afterwards.

    Raises:
        LakeConflictError: another writer wrote the table meanwhile.
    """
    stats = task.stats
    with private_session(spark, {}) as session, translated_conflicts(f"the maintenance of {task.table}"):
        if task.plan.optimize:
            session.sql(f"OPTIMIZE {path_name(task.path)}").collect()
        if task.plan.vacuum:
            session.sql(f"VACUUM {path_name(task.path)} FULL").collect()
        seen = table_stats(session, task.path, DeltaLog(task.path).newest() or 0)
    return TableStats(
        delta_version=seen.delta_version,
        files=seen.files,
        size_bytes=seen.size_bytes,
        optimized_at=now if task.plan.optimize else stats.optimized_at,
        optimized_files=seen.files if task.plan.optimize else min(stats.optimized_files, seen.files),
        vacuumed_at=now if task.plan.vacuum else stats.vacuumed_at,
        commits_since_vacuum=0 if task.plan.vacuum else stats.commits_since_vacuum,
    )
