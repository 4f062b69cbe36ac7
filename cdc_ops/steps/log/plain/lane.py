"""The fast lane in the driver: one Spark job reads an operation's files once, in Python workers. Runs in Spark.

    files --one job--> what each holds, plain events (Parquet), other lines (Parquet) --> the exact way, as records of their files

Whatever keeps the lane from reading a file, the exact way reads all of them instead: it says better what is wrong with one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core import json_codec
from cdc_ops.core.events.change_feed import RECORD_COLUMNS, key_columns, struct_type
from cdc_ops.core.events.format_spec import FormatSpec, RecordKind
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.pipeline.archive_config import Decoder
from cdc_ops.formats.feed.canonical import all_names
from cdc_ops.formats.feed.plain import has_plain_format
from cdc_ops.formats.files.json_lines import FileLines, by_place
from cdc_ops.formats.files.local_rows import local_rows
from cdc_ops.formats.registry import open_format
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.spark.session import pinned
from cdc_ops.steps.log.event_files import CountedFiles, chosen_format, first_wanted_line, kafka_names, record_files
from cdc_ops.steps.log.plain.fold import Bucket, FoldTask, RowGroup, folded_batches
from cdc_ops.steps.log.plain.probe import why_not
from cdc_ops.steps.log.plain.scan import FileScan, FileTask, ScanTask, scans_of

_BUCKET_BYTES: Final = 256 * 2**20
"""Bytes of files whose keys one task folds: some hundred thousand events, which take a few hundred MB then."""
_MOST_BUCKETS: Final = 512
_TASK_BYTES: Final = 128 * 2**20
_LEAST_TASKS: Final = 8
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
            place = (name.partition, name.start_offset) if name else (None, None)
            found.append(FileLines(path=file.path, partition=place[0], start_offset=place[1], lines=scan.lines, blank=scan.blank))
        partitions = {path: name.partition for path, name in names.items()}
        return CountedFiles(
            files=tuple(found),
            read=tuple(self.scans),
            envelopes=lambda wanted: form.envelopes(wanted(self._marked(partitions)), options),
        )

    def marked(self, merged: Iterable[str]) -> int:
        """Returns how many lines of some files are left to the exact way."""
        return sum(part.lines for path in merged for part in self.scans[path].marked)

    def takes_all(self, operation: Operation, merged: Iterable[str]) -> bool:
        """True if the exact way has nothing to read of some files, and the workers fold what is there."""
        return folds_in_workers(operation) and not self.marked(merged)

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
        buckets: dict[int, list[RowGroup]] = {}
        for path in merged:
            for part in self.scans[path].plain:
                for number, bucket in enumerate(part.buckets):
                    buckets.setdefault(bucket, []).append(RowGroup(name=part.name, number=number))
        texts = [(json_codec.dumps(Bucket(groups=tuple(groups))),) for groups in buckets.values()]
        schema, task = self.task.schema, self.task
        keyed = struct_type(key_columns(schema, task.keys))
        asked = FoldTask(format=task.format, spec=self.spec, schema=schema, keys=task.keys, folder=task.folder)
        shape = (
            f"key {keyed}, deleted boolean, whole boolean, row {struct_type(schema.columns)}, present array<string>,"
            f" position {self.spec.position_type}, tied boolean"
        )
        return _spread(self.spark, texts, "bucket", len(texts)).mapInArrow(partial(folded_batches, task=asked), shape)

    def remove(self) -> None:
        """Removes what the lane has written; what cannot be removed goes when the staging area is cleared."""
        filesystem, inner = open_filesystem(self.task.folder)
        filesystem.rm(inner, recursive=True)

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


def open_plain(
    spark: SparkSession, operation: Operation, log: LogBatch, attempt: str, say: Callable[[str], None] | None = None
) -> PlainEvents | None:
    """Reads the files of an operation by the fast lane: an action. None if the exact way is to read them.

    Args:
        spark: A session of its own.
        operation: The frozen operation.
        log: What it reads.
        attempt: Folder name of this try, unique.
        say: Receives a line if the lane would be taken but cannot.

    Raises:
        ConfigError: the format would lose data by a setting that nobody has accepted.
        ArchiveFileError: a file cannot be read by its name.
    """
    form, options = open_format(log.archive.events.format), chosen_format(log)
    if log.again or log.history or log.archive.decoder is Decoder.EXACT or not has_plain_format(form.spec.name) or form.spec.sparse:
        return None
    schema, keys = operation.full_schema, tuple(column.name for column in key_columns(operation.full_schema, operation.apply.keys))
    check_format(form.spec, options, schema, operation.apply.keys)
    if not by_place(record_files(log)):
        return None
    tell = say or _nobody
    if missing := why_not(spark):
        tell(f"{operation.table}: Spark reads all events, because the compiled decoder cannot run: {missing}")
        return None
    size = sum(file.size for file in log.files)
    task = ScanTask(
        url=log.url,
        options=log.archive.options,
        format=options,
        schema=schema,
        keys=keys,
        folder=f"{operation.target.staging.rstrip('/')}/{attempt}-plain",
        buckets=buckets_of(size),
        early=folds_in_workers(operation),
    )
    found = PlainEvents(spark=spark, task=task, spec=form.spec, scans=scanned(spark, task, _files(log), tell))
    return found if found.scans else None


def _nobody(_: str) -> None:
    """Hears a line."""


def folds_in_workers(operation: Operation) -> bool:
    """True if of the plain events of a key the last one is all that a table wants."""
    stored = operation.apply.stored_as
    return not (stored.keeps_versions or stored.ignores_deletes or stored.nulls_ignored or operation.apply.delete_where)


def buckets_of(size: int) -> int:
    """Returns into how many parts the keys of files of so many bytes are split."""
    return max(1, min(_MOST_BUCKETS, -(-size // _BUCKET_BYTES)))


def scanned(spark: SparkSession, task: ScanTask, files: Sequence[FileTask], say: Callable[[str], None]) -> dict[str, FileScan]:
    """Scans files: an action. Returns nothing if one of them could not be."""
    filesystem, inner = open_filesystem(task.folder)
    if "file" in (filesystem.protocol if isinstance(filesystem.protocol, tuple) else (filesystem.protocol,)):
        filesystem.makedirs(inner, exist_ok=True)
    full = [file for file in files if file.size]
    size = sum(file.size for file in full)
    slices = max(1, min(len(full), max(_LEAST_TASKS, -(-size // _TASK_BYTES))))
    texts = [(json_codec.dumps(file),) for file in full]
    rows = _spread(spark, texts, "file", slices).mapInArrow(partial(scans_of, task=task), "scan string").collect()
    scans = {scan.path: scan for scan in (json_codec.loads(FileScan, row["scan"]) for row in rows)}
    failure = next((f"{scan.path}: {scan.failure}" for scan in scans.values() if scan.failure), "") or _missing(task, scans.values())
    if failure:
        say(f"Spark reads all events of {task.schema.table}, because the compiled decoder could not: {failure}")
        return {}
    return {file.path: scans.get(file.path, FileScan(path=file.path)) for file in files}


def _missing(task: ScanTask, scans: Iterable[FileScan]) -> str:
    """Returns what of the results this process does not see; executors may have written it to a folder of their own."""
    filesystem, inner = open_filesystem(task.folder)
    seen = {str(entry["name"]).rpartition("/")[2]: int(entry["size"] or 0) for entry in filesystem.ls(inner, detail=True)}
    parts = [(part.name, part.size) for scan in scans for part in scan.plain]
    parts += [(part.name, part.size) for scan in scans for part in scan.marked]
    return next((f"{name} cannot be seen in {task.folder}" for name, size in parts if seen.get(name) != size), "")


def _spread(spark: SparkSession, rows: Sequence[tuple[str]], name: str, slices: int) -> DataFrame:
    """Returns texts as a DataFrame of so many partitions."""
    return local_rows(spark, rows, {name: "string"}).repartition(slices)


def _files(log: LogBatch) -> tuple[FileTask, ...]:
    names, newest, found = kafka_names(log), {item.stream: item.place for item in log.before.newest}, []
    for file in log.files:
        name = names.get(file.path)
        found.append(
            FileTask(
                path=file.path,
                size=file.size,
                start_offset=-1 if name is None else name.start_offset,
                first_line=first_wanted_line(log, file.path, names),
                newest=newest.get(name.stream if name else "", ()),
            )
        )
    return tuple(found)
