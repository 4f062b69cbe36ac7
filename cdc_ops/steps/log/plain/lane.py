"""What the fast lane has read of an operation's files: their counts, the feed and the fold of their plain events. Runs in Spark."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core import json_codec
from cdc_ops.core.events.change_feed import RECORD_COLUMNS, key_columns, struct_type
from cdc_ops.core.events.format_spec import FormatSpec, RecordKind
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.formats.feed.canonical import all_names
from cdc_ops.formats.files.binlogs import lines_of
from cdc_ops.formats.files.json_lines import FileLines
from cdc_ops.lake.spark.local_rows import local_rows
from cdc_ops.formats.registry import open_format
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.spark.session import pinned
from cdc_ops.steps.log.event_files import CountedFiles, chosen_format, kafka_names
from cdc_ops.steps.log.plain.buckets import Bucket, FoldTask, LandedBucket, RowGroup, folded_batches, land_buckets
from cdc_ops.steps.log.plain.file_scan import FileScan, ScanTask

_PART: Final = "operation tinyint, line bigint"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainEvents:
    """What the fast lane has read of an operation's files.

    Args:
        spark: The session.
        task: What was asked for.
        spec: The format's declaration.
        scans: What each file holds, by path.
    """

    spark: SparkSession
    task: ScanTask
    spec: FormatSpec
    scans: dict[str, FileScan]

    def counted(self, log: LogBatch) -> CountedFiles:
        """Returns the counts of the files; the envelopes are those of the lines that are not plain."""
        form, options = open_format(log.archive.events.format), chosen_format(log)
        names, found = kafka_names(log), []
        for file in log.files:
            name, scan = names.get(file.path), self.scans[file.path]
            if scan.binlog is not None:
                found.append(lines_of(scan.binlog))
                continue
            place = (name.partition, name.start_offset) if name else (None, None)
            found.append(FileLines(path=file.path, partition=place[0], start_offset=place[1], lines=scan.lines, blank=scan.blank))
        partitions = {path: name.partition for path, name in names.items()}
        return CountedFiles(
            files=tuple(found),
            read=tuple(self.scans),
            envelopes=lambda wanted: form.envelopes(wanted(self._marked(partitions)), options),
        )

    @property
    def numbers_records(self) -> bool:
        """True if a record that the lane left has the number that it has in a reading of the whole file."""
        return not self.spec.is_binlog

    def marked(self, merged: Iterable[str]) -> int:
        """Returns how many lines of some files are left to the exact way."""
        return sum(part.lines for path in merged for part in self.scans[path].marked)

    def takes_all(self, operation: Operation, merged: Sequence[str]) -> bool:
        """True if the exact way has nothing to read of some files, and the workers fold what is there."""
        return folds_in_workers(operation) and bool(self.events(merged)) and not self.marked(merged)

    def events(self, merged: Iterable[str]) -> int:
        """Returns how many plain events some files hold."""
        return sum(self.scans[path].seen.events for path in merged)

    def looks(self, merged: Iterable[str]) -> list[dict[str, Any]]:
        """Returns what a look at the feed of the plain events would show of each file, by the names of the columns of that look."""
        none: dict[str, Any] = {name: [] for name in ("truncates", "undeclared", "told", "unmapped", "statements")}
        none |= dict.fromkeys(("bad", "unknown", "part", "lacking"), 0)
        none |= {f"n{index}": 0 for index, _ in enumerate(self.task.schema.columns)}
        found = []
        for path in merged:
            seen = self.scans[path].seen
            if seen.events:
                given = {name: getattr(seen, name) or None for name in ("last", "lowest", "place", "at", "behind_at")}
                found.append({**none, "file": path, "events": seen.events, "behind": seen.behind, **given})
        return found

    def feed(self, merged: Iterable[str], like: DataFrame) -> DataFrame:
        """Returns the plain events of some files as a feed with the columns of another one."""
        names = [part.name for path in merged for part in self.scans[path].plain]
        schema, keys = self.task.schema, key_columns(self.task.schema, self.task.keys)
        columns = [f"c{index} {column.delta_type}" for index, column in enumerate(schema.columns)]
        columns += [f"k{index} {column.delta_type}" for index, column in enumerate(keys)]
        columns += [f"p{index} bigint" for index, _ in enumerate(self.spec.order)]
        paths = [f"{self.task.folder}/{name}" for name in names]
        rows = pinned(self.spark.read.schema(f"{_PART}, {', '.join(columns)}").parquet(*paths))
        given = self._feed_columns()
        types = {field.name: field.dataType for field in like.schema.fields}
        return rows.select(*(given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in types.items()))

    def folded(self, merged: Iterable[str]) -> DataFrame:
        """Returns the last of the plain events of each key in some files: the rows of `latest_per_key`."""
        schema = self.task.schema
        keyed = struct_type(key_columns(schema, self.task.keys))
        shape = (
            f"key {keyed}, deleted boolean, whole boolean, row {struct_type(schema.columns)}, present array<string>,"
            f" position {self.spec.position_type}, tied boolean"
        )
        return self._buckets(merged).mapInArrow(partial(folded_batches, task=self._fold_task()), shape)

    def land(self, merged: Iterable[str], folder: str, codec: str, indexed: tuple[str, ...] = ()) -> list[LandedBucket]:
        """Has workers fold the plain events of some files, and write what they come to as landed rows: an action.

        Args:
            merged: Paths of the files.
            folder: Where the rows go.
            codec: How their files are compressed.
            indexed: Columns whose bounds are told with each file.
        """
        task = partial(land_buckets, task=self._fold_task(), folder=folder, codec=codec, indexed=indexed)
        return [json_codec.loads(LandedBucket, row["landed"]) for row in self._buckets(merged).mapInArrow(task, "landed string").collect()]

    def remove(self) -> None:
        """Removes what the lane has written; what cannot be removed goes when the staging area is cleared."""
        with suppress(OSError):
            filesystem, inner = open_filesystem(self.task.folder)
            filesystem.rm(inner, recursive=True)

    def _buckets(self, merged: Iterable[str]) -> DataFrame:
        """Returns the buckets of some files, each a partition."""
        buckets: dict[int, list[RowGroup]] = {}
        for path in merged:
            for part in self.scans[path].plain:
                for number, bucket in enumerate(part.buckets):
                    buckets.setdefault(bucket, []).append(RowGroup(name=part.name, number=number))
        texts = [(json_codec.dumps(Bucket(groups=tuple(groups))),) for groups in buckets.values()]
        return spread(self.spark, texts, "bucket", len(texts))

    def _fold_task(self) -> FoldTask:
        task = self.task
        return FoldTask(format=task.format, spec=self.spec, schema=task.schema, keys=task.keys, folder=task.folder)

    def _marked(self, partitions: dict[str, int]) -> DataFrame:
        """Returns the lines that are not plain, as records."""
        names = [part.name for scan in self.scans.values() for part in scan.marked]
        types = dict(RECORD_COLUMNS)
        if not names:
            return local_rows(self.spark, (), types)
        rows = pinned(
            self.spark.read.schema("value binary, file string, line bigint, offset bigint").parquet(
                *(f"{self.task.folder}/{name}" for name in names)
            )
        )
        places = F.broadcast(local_rows(self.spark, list(partitions.items()), {"file": "string", "partition": "int"}))
        placed = rows.join(places, "file", "left")
        return placed.select(*(F.col(name).cast(kind).alias(name) for name, kind in types.items()))

    def _feed_columns(self) -> dict[str, Column]:
        """Returns what the feed's columns are for plain events, by name; the others are NULL."""
        schema, none = self.task.schema, F.array().cast("array<string>")
        keys = key_columns(schema, self.task.keys)
        delete = F.col("operation") == ord("d")
        row = F.struct(*(F.col(f"c{index}").alias(column.name) for index, column in enumerate(schema.columns)))
        return {
            "kind": F.lit(RecordKind.CHANGE.value),
            "op": F.char(F.col("operation")),
            "key": F.struct(*(F.col(f"k{index}").alias(column.name) for index, column in enumerate(keys))),
            "after": F.when(~delete, row),
            "present": F.when(delete, none).otherwise(all_names(schema.columns)),
            "nulled": none,
            "unmapped": none,
            "position": F.struct(*(F.col(f"p{index}").cast(one.type).alias(one.name) for index, one in enumerate(self.spec.order))),
            "file": F.lit(""),
            "line": F.col("line"),
        }


def folds_in_workers(operation: Operation) -> bool:
    """True if of the plain events of a key the last one is all that a table wants."""
    stored = operation.apply.stored_as
    return not (stored.keeps_versions or stored.ignores_deletes or stored.nulls_ignored or operation.apply.delete_where)


def spread(spark: SparkSession, rows: Sequence[tuple[str]], name: str, slices: int) -> DataFrame:
    """Returns texts as a DataFrame of so many partitions."""
    return local_rows(spark, rows, {name: "string"}).repartition(slices)
