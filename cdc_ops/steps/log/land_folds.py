"""Folds what was read of an operation's files, bucket of keys by bucket, and lands it: in tasks of Spark, or here where it is little.

parts of the changes --events.fold--> the rows of a bucket --> a Parquet file of the staging area, as Spark would land it
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core import json_codec
from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import TiedEventsError
from cdc_ops.events.fold import Folded, FoldRules, Tie, fold_feed
from cdc_ops.events.registry import spec_of
from cdc_ops.events.scan.facts import Part
from cdc_ops.lake.data_files.task_files import codec_of
from cdc_ops.lake.data_files.writer import DataFile, write_data_file
from cdc_ops.lake.file_io import make_folder, open_filesystem
from cdc_ops.lake.spark.expressions import leave_out
from cdc_ops.lake.spark.session import pinned
from cdc_ops.lake.staging.landing import declare_landed, landing_folder
from cdc_ops.lake.staging.shared_folder import check_written
from cdc_ops.steps.log.scanned_files import ScannedTable, spread
from cdc_ops.steps.stage import executors

_HERE: Final = 4 * 2**20
"""Changes of so many bytes are folded in this process."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedCounts:
    """What landed rows are: those of which not every column is known, and those that are gone."""

    partial: int
    deletes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group of a file of changes."""

    name: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """All row groups that have rows of a bucket's keys."""

    groups: tuple[RowGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedBucket:
    """What has been landed of a bucket.

    Args:
        file: Its rows, None if there are none.
        partial, deletes: As in `FoldedCounts`.
        tied: Keys with two different events at one place: the first of them.
    """

    file: DataFile | None = None
    partial: int = 0
    deletes: int = 0
    tied: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldTask:
    """What is the same for all buckets.

    Args:
        rules: What the table wants of its events.
        changes: Where the changes are.
        folder: Where landed rows go.
        codec: How their files are compressed: one of `lake.data_files.writer.CODECS`.
    """

    rules: FoldRules
    changes: str
    folder: str
    codec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """What is folded and landed of an operation.

    Args:
        scanned: What was read.
        merged: Paths of the files that lie before the first gap.
        check: See `lake.staging.landing.land`.
        finish: Puts into the manifest what else is to be said.
    """

    scanned: ScannedTable
    merged: Sequence[str]
    check: Callable[[], None]
    finish: Callable[[Manifest, FoldedCounts], Manifest]


def land_folded(spark: SparkSession, operation: Operation, attempt: str, landing: Landing) -> Manifest:
    """Folds the changes of some files and lands what they come to.

    A task that ran twice has left a file that no answer names: it is removed, and one that comes later is no file of the manifest's.

    Args:
        spark: The session.
        operation: The operation.
        attempt: Folder name of this try, unique.
        landing: What is folded.

    Raises:
        TiedEventsError: two events at one place say different things.
        CdcError: what the check raises.
    """
    task = _task(spark, operation, attempt, landing)
    make_folder(task.folder)
    landed = _landed(spark, operation, landing, task)
    if tied := [tie for one in landed for tie in one.tied]:
        landing.check()
        raise _tied(operation.table, tied)
    _check_seen(task.folder, landed)
    counts = FoldedCounts(partial=sum(one.partial for one in landed), deletes=sum(one.deletes for one in landed))
    return declare_landed(spark, operation, attempt, landing.check, lambda manifest: landing.finish(manifest, counts))


def _task(spark: SparkSession, operation: Operation, attempt: str, landing: Landing) -> FoldTask:
    stored, scanned = operation.apply.stored_as, landing.scanned
    deletes = not stored.ignores_deletes
    truncates = [place for one in landing.scanned.of(landing.merged).values() for place in one.truncates]
    rules = FoldRules(
        schema=operation.full_schema,
        keys=scanned.task.keys,
        order=spec_of(scanned.task.archive.format).order,
        deletes=deletes,
        versions=stored.keeps_versions,
        nulls_ignored=stored.nulls_ignored,
        barrier=max(truncates) if truncates and deletes and not stored.keeps_versions else None,
    )
    return FoldTask(rules=rules, changes=scanned.task.changes, folder=landing_folder(operation, attempt), codec=codec_of(spark) or "snappy")


def _landed(spark: SparkSession, operation: Operation, landing: Landing, task: FoldTask) -> Sequence[LandedBucket]:
    parts = [part for one in landing.scanned.of(landing.merged).values() for part in one.changes]
    if not parts:
        return ()
    if operation.apply.delete_where and operation.apply.stored_as.ignores_deletes:
        rows = _without_deleted(spark, landing.scanned, parts, operation.apply.delete_where)
        if executors.why_not(spark):
            return [land_changes(task, rows.toArrow())]
        return _answers(rows.mapInArrow(partial(land_partition, task=task), "landed string"))
    return fold_buckets(spark, task, parts)


def fold_buckets(spark: SparkSession, task: FoldTask, parts: Sequence[Part]) -> list[LandedBucket]:
    """Folds changes, bucket by bucket, and writes what they come to.

    Args:
        spark: The session.
        task: What is the same for all buckets.
        parts: The files with the changes.
    """
    buckets = _buckets(parts)
    if not executors.do_the_work(spark, sum(part.size for part in parts), least=_HERE):
        return [land_bucket(task, bucket) for bucket in buckets]
    texts = [(json_codec.dumps(bucket),) for bucket in buckets]
    return _answers(spread(spark, texts, "bucket", len(texts)).mapInArrow(partial(land_buckets, task=task), "landed string"))


def _answers(rows: DataFrame) -> list[LandedBucket]:
    return [json_codec.loads(LandedBucket, row["landed"]) for row in rows.collect()]


def _buckets(parts: Iterable[Part]) -> list[Bucket]:
    found: dict[int, list[RowGroup]] = {}
    for part in parts:
        for number, bucket in enumerate(part.buckets):
            found.setdefault(bucket, []).append(RowGroup(name=part.name, number=number))
    return [Bucket(groups=tuple(groups)) for _, groups in sorted(found.items())]


def _without_deleted(spark: SparkSession, scanned: ScannedTable, parts: Sequence[Part], condition: str) -> DataFrame:
    """Leaves out the events of which a table's `apply_as_deletes` is true; columns that an event does not have are NULL in it.

    All rows of a key are in one partition.
    """
    changes = pinned(spark.read.parquet(*(f"{scanned.task.changes}/{part.name}" for part in parts)))
    return leave_out(changes, condition).repartition(scanned.task.buckets, "key")


def land_buckets(batches: Iterator[pa.RecordBatch], task: FoldTask) -> Iterator[pa.RecordBatch]:
    """Folds the buckets of a partition; rows in have one text, a `Bucket` as JSON, rows out a `LandedBucket`."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            yield _as_answer(land_bucket(task, json_codec.loads(Bucket, text)))


def land_partition(batches: Iterator[pa.RecordBatch], task: FoldTask) -> Iterator[pa.RecordBatch]:
    """Folds the changes of a partition, which has all rows of its keys; rows out have one text, a `LandedBucket` as JSON."""
    if found := list(batches):
        yield _as_answer(land_changes(task, pa.Table.from_batches(found)))


def land_bucket(task: FoldTask, bucket: Bucket) -> LandedBucket:
    """Folds all rows of some keys, and writes what they come to as one file."""
    filesystem, inner = open_filesystem(task.changes)
    tables = []
    for group in bucket.groups:
        with filesystem.open(f"{inner}/{group.name}", "rb") as file:
            tables.append(pq.ParquetFile(file).read_row_group(group.number))
    return land_changes(task, pa.concat_tables(tables))


def land_changes(task: FoldTask, changes: pa.Table) -> LandedBucket:
    """Folds all rows of some keys, and writes what they come to as one file."""
    folded: Folded = fold_feed(_as_feed(changes), task.rules)
    if folded.tied:
        return LandedBucket(tied=tuple((tie.key, tie.position) for tie in folded.tied))
    file = write_data_file(task.folder, folded.rows.combine_chunks().to_batches(), (), task.codec)
    return LandedBucket(file=file, partial=folded.partial, deletes=folded.deletes)


def _as_feed(changes: pa.Table) -> pa.Table:
    """Returns changes with the columns of a feed that are the same for all of them: a moved key is a delete and an insert by now."""
    count = changes.num_rows
    kind = pa.array(np.zeros(count, np.int32)).cast(pa.int32())
    change = pa.DictionaryArray.from_arrays(kind, pa.array([RecordKind.CHANGE.value])).cast(pa.string())
    return changes.append_column("kind", change).append_column("previous_key", pa.nulls(count, changes.schema.field("key").type))


def _as_answer(bucket: LandedBucket) -> pa.RecordBatch:
    return pa.record_batch({"landed": pa.array([json_codec.dumps(bucket)], pa.string())})


def _check_seen(folder: str, landed: Sequence[LandedBucket]) -> None:
    """Refuses a folder that executors and this process do not share, and removes what tasks that ran twice left beside."""
    written = {one.file.name: one.file.size for one in landed if one.file}
    filesystem, _ = open_filesystem(folder)
    for path in check_written(folder, written):
        filesystem.rm_file(path)


def _tied(table: TableName, tied: Sequence[Tie | tuple[str, str]]) -> TiedEventsError:
    shown = "; ".join(f"key {key} at {position}" for key, position in tied[:_SHOWN])
    return TiedEventsError(
        f"Events of {table} have no total order: {shown}.",
        why="Two different events of one key have the same position, so cdc-ops cannot tell which is the last.",
        data="Nothing was written to the table; the watermark stays.",
        next="Let the tool write the fields that order them (docs/formats.md names these for each format), or resync these keys.",
    )
