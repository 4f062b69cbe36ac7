"""Folders that executors, driver and this process must share: whether they do, before anything is read and after each write. Runs in Spark.

Executors write what lands, the driver moves it to its place, and this process lists what is there. With a path of the local file system,
each of them may mean a folder of its own machine. Then nothing fails: the driver finds no file to move, the landed window looks empty, and
its rows would be lost in silence.
"""

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.spark.connect import application_of, is_connected
from cdc_ops.lake.staging.manifests import landed_files

_TASKS: Final = 16
"""Files of a trial. With more tasks than cores each executor gets one at least; on a larger cluster the check of each write is left."""


def is_local(path: str) -> bool:
    """True for a path of the local file system."""
    return "://" not in path or path.startswith("file:")


def has_remote_executors(spark: SparkSession) -> bool:
    """True if a session's executors may be on other machines than this process."""
    master = spark.conf.get("spark.master", None) or "local"
    if master.startswith("local-cluster") or not master.startswith("local"):
        return True
    application = application_of(spark)
    return application is not None and not application.address.is_local


def check_shared(spark: SparkSession, folders: Iterable[str]) -> None:
    """Lets executors write files into folders of the local file system, and looks for them here; paths of object stores pass.

    Args:
        spark: The application's session.
        folders: Folders that belong to cdc-ops. The files are removed.

    Raises:
        EnvironmentSetupError: a folder is not the same for all.
    """
    local = [folder for folder in dict.fromkeys(folders) if is_local(folder)]
    if not local or not has_remote_executors(spark):
        return
    for folder in local:
        trial = f"{folder.rstrip('/')}/.cdc-ops-shared-{uuid.uuid4().hex[:12]}"
        filesystem, inner = open_filesystem(trial)
        try:
            spark.range(0, _TASKS, 1, _TASKS).write.parquet(trial)
            found = len(_parts(trial))
        finally:
            with suppress(OSError):
                filesystem.rm(inner, recursive=True)
        if found != _TASKS:
            raise not_shared(folder, f"Spark wrote {_TASKS} files there, of which {found} can be seen by this process.")


def write_seen(rows: DataFrame, folder: str, partition_by: Sequence[str] = ()) -> None:
    """Writes rows as Parquet, in place of what is there, and makes sure that this process sees all of them.

    Raises:
        EnvironmentSetupError: rows were written that cannot be seen here.
    """
    spark = rows.sparkSession
    watched = is_local(folder) and (has_remote_executors(spark) or is_connected(spark))
    written = Observation()
    observed = rows.observe(written, F.count(F.lit(1)).alias("rows")) if watched else rows
    observed.write.mode("overwrite").partitionBy(*partition_by).parquet(folder)
    if not watched:
        return
    wrote, seen = int(written.get["rows"]), sum(_rows_of(folder, part) for part in _parts(folder))
    if seen < wrote:
        raise not_shared(folder, f"Spark wrote {wrote:,} rows there, of which {seen:,} can be seen by this process.")


def check_written(folder: str, written: Mapping[str, int]) -> list[str]:
    """Makes sure that this process sees what tasks say that they wrote.

    Args:
        folder: Where they wrote.
        written: The files of tasks that finished, each with its bytes.

    Returns:
        The other files there, as paths in their file system: of tasks that ran twice.

    Raises:
        EnvironmentSetupError: a file is not there, or has another size.
    """
    parent, _, attempt = folder.rstrip("/").rpartition("/")
    seen = {file.path.rpartition("/")[2]: file for file in landed_files(parent, attempt)}
    for name, size in written.items():
        if name not in seen or seen[name].bytes != size:
            found = "cannot be seen by this process" if name not in seen else f"has {seen[name].bytes:,} bytes here"
            raise not_shared(folder, f"An executor wrote {name} of {size:,} bytes there, which {found}.")
    return [file.path for name, file in seen.items() if name not in written]


def roots_of(paths: Iterable[str]) -> tuple[str, ...]:
    """Returns one folder for all local paths of a kind: the deepest that all of them are below."""
    local = [path.removeprefix("file://").removeprefix("file:") for path in paths if is_local(path)]
    return (os.path.commonpath([os.path.dirname(path.rstrip("/")) for path in local]),) if local else ()


def _parts(folder: str) -> list[str]:
    filesystem, inner = open_filesystem(folder)
    names = (str(name) for name in filesystem.find(inner))
    return [name for name in names if name.rpartition("/")[2].startswith("part-") and name.endswith(".parquet")]


def _rows_of(folder: str, part: str) -> int:
    filesystem, _ = open_filesystem(folder)
    with filesystem.open(part, "rb") as stream:
        return int(pq.ParquetFile(stream).metadata.num_rows)


def not_shared(folder: str, why: str) -> EnvironmentSetupError:
    """Returns the error for a folder that executors and this process do not share."""
    return EnvironmentSetupError(
        f"Spark's executors and this process do not share the folder {folder}.",
        why=f"{why} A path of the local file system is a folder of each machine, unless a shared one is mounted there.",
        data="Nothing was committed; the watermark stays.",
        next="Put lake and staging area of the pipeline on an object store (s3a://...), or into a folder that is mounted on every machine"
        " (docs/install.md#a-spark-cluster).",
    )
