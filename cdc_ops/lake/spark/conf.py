"""The Spark settings of every session; Spark-free, because the Airflow operator hands those of stores to spark-submit."""

import os
from collections.abc import Callable, Mapping
from typing import Final

EXTENSIONS: Final = "spark.sql.extensions"
EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
REPLACE_BY_TASKS: Final = "spark.cdc_ops.replaceByTasks"
"""`true`: small batches of whole rows enter plain tables by `lake.merge.replace_by_tasks`."""
USER_METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"
"""The setting of a session that its commits carry."""
CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
FILE_PARTITIONS: Final = "spark.sql.files.minPartitionNum"
"""The setting by which files are cut, whatever executors there are."""

_UNKNOWN_CORES: Final = 50

_CREDENTIALS: Final = "spark.hadoop.fs.s3a.aws.credentials.provider"
_SDK_CHAIN: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_FILES_OF_LOGINS: Final = ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE")
"""Variables by which the AWS tools find a login that is no key in a variable."""


HIDDEN_OPTIONS: Final = r'(?is:key:\s*"[^"]*(?:passw|secret|token|user|url)[^"]*"\s*value:\s*"(?:[^"\\]|\\.)*")'
"""Options of a reader with a login in them, as the pages and the event log of a server write the plans that clients send."""


def needed_conf(extensions: str = "") -> dict[str, str]:
    """Returns the settings that must hold wherever a job runs, whoever has chosen others: values, commits and Delta itself depend on them.

    Args:
        extensions: Names of classes that somebody has chosen for `spark.sql.extensions`, separated by commas; Delta's goes with them.
    """
    chosen = [name for part in extensions.split(",") if (name := part.strip())]
    return {
        EXTENSIONS: ",".join(dict.fromkeys((*chosen, EXTENSION))),
        "spark.sql.catalog.spark_catalog": CATALOG,
        # One zone for literals, landed files and the table: a TIMESTAMP means the same instant in each of them.
        "spark.sql.session.timeZone": "UTC",
        # A cast that does not fit fails; without it NULL or another number would be merged.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.legacy.charVarcharAsString": "true",
        # INT96, the default, carries no statistics: no key ranges for pruning; milliseconds would cut values.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A commit whose answer got lost is recognised by its transaction id instead of failing (Delta 4.4, off by default).
        "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
    }


def usual_conf() -> dict[str, str]:
    """Returns settings for speed and quiet, of which anybody may choose others.

    Sizes of the machine are left out (`machine_conf`), because the process that submits is not the one that works.
    """
    return {
        **session_conf(),
        # Spark keeps 100 generated classes, Delta's own plans need more for one table: each small MERGE compiled 43 of them again, now 6.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # PySpark would look up the line of Python of each Column function, and tell Java: half of the time that a feed takes to be planned.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
    }


def session_conf() -> dict[str, str]:
    """Returns those of the usual settings that a session can be given after Spark was started."""
    return {
        # Small batches become few files: merge shuffle partitions up to the advisory size instead of one file a core.
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }


def server_conf(chosen: Mapping[str, str] = {}) -> dict[str, str]:
    """Returns the settings with which a Spark Connect server is started that cdc-ops works on, sized by what was chosen of its master."""
    return {
        **usual_conf(),
        **machine_conf(cluster_cores(chosen.get)),
        **needed_conf(),
        "spark.redaction.string.regex": HIDDEN_OPTIONS,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        # Sessions share class loaders, and with them the code that Spark has generated and Java has made fast. None of ours brings classes.
        "spark.sql.artifact.isolation.enabled": "false",
    }


def machine_conf(cores: int | None = None) -> dict[str, str]:
    """Returns the settings that depend on the size of the machine.

    Delta computes the state of a table in 50 partitions and lists files for VACUUM in 10,000 tasks by default: on a small machine a small
    table would take minutes. Spark cuts files by the cores of the executors that it has at that moment; a number that stays makes the
    same statement have the same tasks, whatever executors come or go.

    Args:
        cores: Cores of the machine that works; None = of this one.
    """
    count = cores or os.cpu_count() or 1
    return {
        FILE_PARTITIONS: str(min(count, 200)),
        "spark.databricks.delta.snapshotPartitions": str(min(max(count, 2), 50)),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(min(4 * count, 10_000)),
        "spark.sql.shuffle.partitions": str(min(max(4 * count, 8), 200)),
    }


def cluster_cores(setting_of: Callable[[str], str | None]) -> int | None:
    """Returns the cores of the cluster that a job works on, None for a job on this machine.

    A cluster that does not tell counts as one of 50: Spark's own 200 partitions. Adaptive plans join those that are too small.

    Args:
        setting_of: Returns the value of a setting, None if nobody has chosen one.
    """
    master = setting_of("spark.master") or "local"
    if master.startswith("local") and not master.startswith("local-cluster"):
        return None
    if limit := _number(setting_of("spark.cores.max")):
        return limit
    executors = _number(setting_of("spark.dynamicAllocation.maxExecutors")) or _number(setting_of("spark.executor.instances"))
    return executors * (_number(setting_of("spark.executor.cores")) or 1) if executors else _UNKNOWN_CORES


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def store_conf(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings by which Spark finds S3 and its login as the Spark-free steps do: by the variables of the AWS tools.

    Keys in variables need no setting: s3a reads AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY itself, or asks the machine for its role. A
    file of credentials, a profile, and the role of a Kubernetes service account it takes only by the SDK's own chain.

    Args:
        environ: Environment variables; without AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL s3a goes to AWS.
    """
    has_keys = bool(environ.get("AWS_ACCESS_KEY_ID"))
    login = {_CREDENTIALS: _SDK_CHAIN} if not has_keys and any(environ.get(name) for name in _FILES_OF_LOGINS) else {}
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    if not endpoint:
        return login
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
    found = {**_endpoint("spark.hadoop.fs.s3a", endpoint), **login}
    return {**found, "spark.hadoop.fs.s3a.endpoint.region": region} if region else found


def _endpoint(prefix: str, endpoint: str) -> dict[str, str]:
    """Other stores than AWS know a bucket by its path, as boto takes them to; Alibaba's OSS wants the setting back."""
    return {f"{prefix}.endpoint": endpoint, f"{prefix}.path.style.access": "true"}
