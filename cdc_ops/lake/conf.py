"""The Spark settings that every session with Delta needs; Spark-free, because the Airflow operator hands them to spark-submit."""

import os
from typing import Final

EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def delta_conf() -> dict[str, str]:
    """Returns the settings that must hold wherever a job runs: local, spark-submit to any cluster, Spark Connect.

    Sizes of the machine are left out (`machine_conf`), because the process that submits is not the one that works.
    """
    return {
        "spark.sql.extensions": EXTENSION,
        "spark.sql.catalog.spark_catalog": CATALOG,
        # One zone for literals, landed files and the table: a TIMESTAMP means the same instant in each of them.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.legacy.charVarcharAsString": "true",
        # INT96, the default, carries no statistics: no key ranges for pruning.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A commit whose answer got lost is recognised by its transaction id instead of failing (Delta 4.4, off by default).
        "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
        # Small batches become few files: merge shuffle partitions up to the advisory size instead of one file a core.
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
    }


def machine_conf(cores: int | None = None) -> dict[str, str]:
    """Returns the settings that depend on the size of the machine.

    Delta computes the state of a table in 50 partitions and lists files for VACUUM in 10,000 tasks by default: on a small machine a small
    table would take minutes.

    Args:
        cores: Cores of the machine that works; None = of this one.
    """
    count = cores or os.cpu_count() or 1
    return {
        "spark.databricks.delta.snapshotPartitions": str(min(max(count, 2), 50)),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(min(4 * count, 10_000)),
        "spark.sql.shuffle.partitions": str(min(max(4 * count, 8), 200)),
    }
