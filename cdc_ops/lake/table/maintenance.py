"""Maintenance of a Delta table: bounds, OPTIMIZE, PURGE and VACUUM, as far as the plan finds them due. Runs in Spark, under its lease."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from cdc_ops.core.layout.compaction import Rewrite
from cdc_ops.core.maintenance import Maintenance, MaintenancePlan, TableStats, Upkeep, Vacuum
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.lake.log.data_files import read_files
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.spark.session import private_session
from cdc_ops.lake.sql_text import path_name
from cdc_ops.lake.table.bounds import correct_bounds
from cdc_ops.lake.table.create import table_stats, translated_conflicts

_OPTIMIZE: Final = "spark.databricks.delta.optimize"
_CUBES: Final = f"{_OPTIMIZE}.clustering.mergeStrategy.minCubeSize"
_PRUNED: Final = "DELTA_CANNOT_VACUUM_LITE"
"""Delta's refusal of VACUUM LITE: the log does not reach back to the VACUUM before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """A statement that was executed: its name, and the bytes of the files that it took and of those that it made."""

    did: str
    taken: int = 0
    made: int = 0


def maintain(spark: SparkSession, task: MaintenanceTask, now: datetime) -> TableStats:
    """Does what is due for a table, in sessions without transaction id or user metadata: maintenance is never taken for an operation.

    Which files OPTIMIZE writes again is set by its session (`core.layout.compaction`). What VACUUM may remove is decided by the table's
    `delta.deletedFileRetentionDuration`; Delta 4.4 ignores RETAIN.

    Args:
        spark: Any session.
        task: The table and what is due.
        now: The time to be recorded, UTC.

    Returns:
        The table's numbers afterwards, with what was done.

    Raises:
        LakeConflictError: another writer wrote the table meanwhile.
    """
    plan, started = task.plan, time.monotonic()
    with translated_conflicts(f"the maintenance of {task.table}"):
        before = table_stats(task.path, DeltaLog(task.path).newest() or 0)
        done = list(_statements(spark, task.path, plan))
        log = DeltaLog(task.path)
        seen = table_stats(task.path, log.newest() or 0)
    if (plan.optimize or plan.purge) and seen.rows is None:
        rows = [file.rows for file in read_files(log, seen.delta_version)]
        seen = replace(seen, rows=None if None in rows else sum(row or 0 for row in rows))
    maintenance = Maintenance(
        at=now,
        did=", ".join(dict.fromkeys(one.did for one in done)),
        files_before=before.files,
        files_after=seen.files,
        bytes_before=before.size_bytes,
        bytes_after=seen.size_bytes,
        rewritten_bytes=sum(one.taken for one in done),
        written_bytes=sum(one.made for one in done),
        seconds=round(time.monotonic() - started, 3),
    )
    return _remembered(task, seen, maintenance)


def _remembered(task: MaintenanceTask, seen: TableStats, maintenance: Maintenance) -> TableStats:
    """Returns the numbers after maintenance, with when what was done last."""
    plan, stats, before, now = task.plan, task.stats, task.stats.upkeep, maintenance.at
    return replace(
        seen,
        rows=stats.rows if seen.rows is None else seen.rows,
        upkeep=Upkeep(
            optimized_at=now if plan.optimize else before.optimized_at,
            optimized_files=seen.files if plan.optimize else min(before.optimized_files, seen.files),
            vacuumed_at=now if plan.vacuum else before.vacuumed_at,
            vacuumed_fully_at=now if "VACUUM FULL" in maintenance.did else before.vacuumed_fully_at,
            purged_at=now if plan.purge else before.purged_at,
            commits_since_vacuum=0 if plan.vacuum else before.commits_since_vacuum,
            last_upkeep=maintenance,
            upkeep_bytes=before.upkeep_bytes + maintenance.written_bytes,
        ),
        catalog=stats.catalog,
        exact_bounds=plan.bounds or stats.exact_bounds,
    )


def _statements(spark: SparkSession, path: str, plan: MaintenancePlan) -> Iterator[_Done]:
    """Executes what is due, each statement in a session of its own, and yields what it did."""
    if plan.bounds:  # first: the conditions of OPTIMIZE leave files out by them
        yield _Done(did=_corrected(correct_bounds(spark, path)))
    until = time.monotonic() + plan.max_duration.total_seconds() if plan.max_duration else None
    for rewrite in plan.rewrites:
        if until is not None and time.monotonic() >= until:
            break
        where = f" WHERE {rewrite.where}" if rewrite.where else ""
        yield _rewritten(spark, "OPTIMIZE", f"OPTIMIZE {path_name(path)}{where}", _settings(rewrite))
    if plan.purge:
        yield _rewritten(spark, "PURGE", f"REORG TABLE {path_name(path)} APPLY (PURGE)", {})
    if plan.vacuum:
        yield _vacuum(spark, path, plan.vacuum)


def _corrected(files: int) -> str:
    return f"bounds of decimals corrected for {files:,} files" if files else "bounds of decimals checked"


def _settings(rewrite: Rewrite) -> dict[str, str]:
    cubes = {f"{_CUBES}.threshold": rewrite.cube_bytes, f"{_CUBES}.targetCubeSize": max(rewrite.bytes, rewrite.cube_bytes) + 1}
    return {
        f"{_OPTIMIZE}.minFileSize": str(rewrite.small_below),
        f"{_OPTIMIZE}.maxFileSize": str(rewrite.file_bytes),
        f"{_OPTIMIZE}.maxDeletedRowsRatio": str(rewrite.deleted_above),
        **({name: str(value) for name, value in cubes.items()} if rewrite.cube_bytes else {}),
    }


def _rewritten(spark: SparkSession, did: str, statement: str, settings: dict[str, str]) -> _Done:
    with private_session(spark, settings) as session:
        [row] = session.sql(statement).select("metrics.filesRemoved.totalSize", "metrics.filesAdded.totalSize").collect()
    return _Done(did=did, taken=int(row[0] or 0), made=int(row[1] or 0))


def _vacuum(spark: SparkSession, path: str, how: Vacuum) -> _Done:
    """Removes files; where the log has been cut too short for VACUUM LITE, the folder is listed."""
    try:
        _remove(spark, path, how)
    except Exception as error:  # py4j does not translate this one into an error of PySpark
        if how is not Vacuum.LITE or _PRUNED not in str(error):
            raise
        how = Vacuum.FULL
        _remove(spark, path, how)
    return _Done(did=f"VACUUM {how.upper()}")


def _remove(spark: SparkSession, path: str, how: Vacuum) -> None:
    with private_session(spark, {}) as session:
        session.sql(f"VACUUM {path_name(path)} {how.upper()}").collect()
