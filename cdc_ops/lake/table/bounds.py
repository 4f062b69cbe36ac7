"""Corrects bounds of decimals that an earlier version wrote wrong into a table's log (`lake.log.bounds`), once for each table."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from cdc_ops.lake.data_files.commit import can_commit, commit_statistics
from cdc_ops.lake.log.bounds import EXACT_BOUNDS, corrected_entries, has_exact_bounds, uncertain_files
from cdc_ops.lake.log.delta_log import DeltaLog, LogState
from cdc_ops.lake.sql_text import path_name, text_literal


def correct_bounds(spark: SparkSession, path: str) -> int:
    """Sees to it that no file's bounds hide a row; returns of how many files they were not as they should be.

    A commit has the entries of these files again, with the right bounds: no row changes, and no data file is written. Where Spark's JVM
    cannot be asked for it (Spark Connect), the files are written again, by REORG. Then a property of the table says that it was done.

    Args:
        spark: Any session, without transaction id or user metadata.
        path: The table.

    Raises:
        PySparkException: Delta found a conflict (`lake.table.create.translated_conflicts`).
    """
    log = DeltaLog(path)
    version = log.newest() or 0
    state = log.state(version)
    if has_exact_bounds(state):
        return 0
    if can_commit(spark):
        corrected = commit_statistics(spark, path, partial(_corrected, path, state))
    else:
        corrected = _written_again(spark, path, uncertain_files(state, list(log.adds(version))))
    name, value = map(text_literal, EXACT_BOUNDS)
    spark.sql(f"ALTER TABLE {path_name(path)} SET TBLPROPERTIES ({name} = {value})")
    return corrected


def _corrected(path: str, state: LogState, version: int) -> Sequence[Mapping[str, Any]]:
    return corrected_entries(path, state, uncertain_files(state, list(DeltaLog(path).adds(version))))


def _written_again(spark: SparkSession, path: str, files: Sequence[Mapping[str, Any]]) -> int:
    if files:
        spark.sql(f"REORG TABLE {path_name(path)} APPLY (PURGE)").collect()
    return len(files)
