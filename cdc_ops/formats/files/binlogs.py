"""Reads binlogs as records, each with its running number in its file; inside Spark.

    RecordFile ... -> open_binlogs (one task a file: scans all of it) -> Binlogs -> binlog_records (one task a file: decodes it)

Binlogs are decoded by Python on the executors, in Arrow batches: see `formats.binlog`. Executors open the files through fsspec, with the
archive's options. A file that is not what it was when it was scanned fails the job. `core.archive.binlog_sequence` proves that files
follow each other.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, cast

import fsspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core import json_codec
from cdc_ops.core.archive.binlog_facts import BinlogFacts
from cdc_ops.core.archive.binlog_sequence import binlog_name, check_sequence, facts_of
from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.errors import ArchiveFileError, from_payload
from cdc_ops.formats.files.json_lines import FileLines, RecordFile
from cdc_ops.lake.spark.local_rows import local_rows

_SCANNED: Final = "at int, error string, what string, why string, data string, next string, facts string"
_BATCH: Final = 2000
_BATCH_CHARACTERS: Final = 16 * 2**20
"""Records of a batch have at most so many characters, unless one alone has more."""
_ARROW: Final = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Binlogs:
    """Files that were scanned.

    Args:
        files: Each, in the order of the request; `lines` counts its transactions.
        opened: The same files, as the tasks open them.
        sizes: Length of the content of each.
        options: Of the store.
    """

    files: tuple[FileLines, ...]
    opened: tuple[RecordFile, ...]
    sizes: tuple[int, ...]
    options: Mapping[str, Any]


def open_binlogs(spark: SparkSession, files: Sequence[RecordFile], options: Mapping[str, Any]) -> Binlogs:
    """Scans files: an action that reads all of each, and verifies it.

    Args:
        spark: The session, in which the records are read too.
        files: The files to open.
        options: Of the store, as fsspec takes them.

    Raises:
        BinlogError: a file cannot be read, or has what cannot be followed.
        ArchiveOrderError: a file does not follow the one before it.
        ArchiveFileError: its name has no number.
    """
    listed = tuple(files)
    if not listed:
        return Binlogs(files=(), opened=(), sizes=(), options=options)
    for file in listed:
        binlog_name(file.path)
    rows = {row["at"]: row for row in _per_file(spark, len(listed), _scan_task(listed, dict(options)), _SCANNED).collect()}
    found = []
    for at in range(len(listed)):
        row = rows[at]
        if row["error"]:
            raise from_payload({part: row[part] for part in ("error", "what", "why", "data", "next")})
        found.append(json_codec.loads(BinlogFacts, row["facts"]))
    check_sequence(found)
    return Binlogs(files=tuple(map(lines_of, found)), opened=listed, sizes=tuple(one.size for one in found), options=options)


def lines_of(facts: BinlogFacts) -> FileLines:
    """Returns what a file holds; its lines are its transactions."""
    return FileLines(
        path=facts.path,
        partition=None,
        start_offset=None,
        lines=facts.transactions,
        before=facts.before,
        after=facts.after,
        binlog=facts,
    )


def binlog_records(spark: SparkSession, opened: Binlogs) -> DataFrame:
    """Returns the changes of files as JSON documents, with the columns of `core.events.change_feed.RECORD_COLUMNS`.

    `line` is the running number of a change in its file, from 0; the same in every try.
    """
    if not opened.opened:
        return local_rows(spark, (), dict(RECORD_COLUMNS))
    types = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS)
    return _per_file(spark, len(opened.opened), _record_task(opened), types)


def _per_file(
    spark: SparkSession, count: int, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], types: str
) -> DataFrame:
    """Runs a function once for each file, each in a task of its own; its input has the numbers of the files."""
    numbers = spark.range(0, count, 1, count).select(F.col("id").cast("int").alias("at"))
    return numbers.mapInArrow(cast(Any, work), types)


def _scan_task(files: tuple[RecordFile, ...], options: dict[str, Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield _batch([_scanned(at, files[at], options)], _SCANNED)

    return work


def _scanned(at: int, file: RecordFile, options: dict[str, Any]) -> tuple[object, ...]:
    from cdc_ops.formats.binlog.decoder import BinlogFile

    try:
        found = BinlogFile.open(file.path, opener(file.uri, options))
        facts = facts_of(file.path, found.scan, found.undecided())
    except ArchiveFileError as error:
        said = error.to_payload()
        return (at, *(said[part] for part in ("error", "what", "why", "data", "next")), None)
    return (at, *(None,) * 5, json_codec.dumps(facts))


def _record_task(opened: Binlogs) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from _decoded(opened.opened[at], opened.sizes[at], dict(opened.options))

    return work


def _decoded(file: RecordFile, size: int, options: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    from cdc_ops.formats.binlog.decoder import BinlogFile
    from cdc_ops.formats.binlog.texts import record_of

    found = BinlogFile.open(file.path, opener(file.uri, options))
    if found.scan.size != size:
        raise RuntimeError(f"The file was replaced after it was scanned. Nothing was applied; the next try scans again: {file.path}")
    types = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS)
    number, rows, characters = binlog_name(file.path).number, list[tuple[object, ...]](), 0
    for line, change in enumerate(found.changes()):
        text = record_of(change, number)
        rows.append((text, file.path, line, None, None))
        characters += len(text)
        if len(rows) >= _BATCH or characters >= _BATCH_CHARACTERS:
            yield _batch(rows, types)
            rows, characters = [], 0
    if rows:
        yield _batch(rows, types)


def _batch(rows: Sequence[tuple[object, ...]], types: str) -> pa.RecordBatch:
    columns = [column.split() for column in types.split(", ")]
    arrays = [pa.array(values, _ARROW[kind]) for values, (_, kind) in zip(zip(*rows, strict=True), columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in columns])


def opener(uri: str, options: Mapping[str, Any]) -> Callable[[], IO[bytes]]:
    """Returns what opens a file of a store on an executor; logins come from its environment, as on the driver."""
    place = uri.replace("s3a://", "s3://", 1)
    given = options if "://" in place and not place.startswith("file:") else {}
    return lambda: cast(IO[bytes], fsspec.open(place, "rb", **given).open())
