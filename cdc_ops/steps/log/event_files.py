"""The files of a frozen operation of the log method as Spark reads them, and which of their records the operation wants. Runs in Spark."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.archives.base import Archive
from cdc_ops.core.archive.binlog_facts import BinlogFacts
from cdc_ops.core.archive.binlog_sequence import is_proven_whole
from cdc_ops.core.archive.file_names import BinlogName, KafkaName
from cdc_ops.core.archive.files import FrozenFiles
from cdc_ops.core.archive.offsets import OffsetRange
from cdc_ops.core.binlog.refusals import shortened
from cdc_ops.core.binlog.unfollowed import UnfollowedChange
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.pipeline.archive_config import store_options
from cdc_ops.core.schema.tables import TableName
from cdc_ops.formats.files.containers import open_files
from cdc_ops.formats.files.json_lines import FileLines, RecordFile
from cdc_ops.formats.files.local_rows import local_rows
from cdc_ops.formats.registry import open_format
from cdc_ops.steps.archive.frozen_files import check_unchanged, names_of

RecordFilter = Callable[[DataFrame], DataFrame]
"""Leaves of records, or of their envelopes, those that an operation wants; both have `file` and `line`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFiles:
    """Files of an operation whose records have been counted.

    Args:
        files: What each of them holds.
        read: Paths of all files that `envelopes` has records of: those of the operation, or more where it shares its reading.
        envelopes: Makes the envelopes of the records that are wanted.
    """

    files: tuple[FileLines, ...]
    read: tuple[str, ...]
    envelopes: Callable[[RecordFilter], DataFrame]


def open_alone(spark: SparkSession, log: LogBatch, archive: Archive) -> CountedFiles:
    """Counts the records of an operation's files: an action.

    Raises:
        ArchiveChangedError: a file is not what it was when it was frozen.
        ArchiveFileError: a file cannot be read.
    """
    check_unchanged(archive, FrozenFiles(files=log.files))
    form, options = open_format(log.archive.events.format), chosen_format(log)
    opened = open_files(spark, record_files(log), form.spec, options, archive, store_options(dict(log.archive.options)))
    paths = tuple(file.path for file in log.files)
    # What is not wanted is left out before it is parsed.
    return CountedFiles(files=opened.files, read=paths, envelopes=lambda wanted: form.envelopes(wanted(opened.records()), options))


def chosen_format(log: LogBatch) -> FormatOptions:
    """Returns what the pipeline file says of the format."""
    return log.archive.format_options


def kafka_names(log: LogBatch) -> dict[str, KafkaName]:
    """Returns what the names of those files say, by path, that tell an offset."""
    return {path: name for path, name in names_of(log).items() if isinstance(name, KafkaName)}


def record_files(log: LogBatch) -> tuple[RecordFile, ...]:
    """Returns the files of an operation as Spark reads them."""
    names, found = kafka_names(log), []
    for file in log.files:
        name = names.get(file.path)
        partition, offset = (name.partition, name.start_offset) if name is not None else (None, None)
        uri = uri_of(log.url, file.path)
        found.append(RecordFile(path=file.path, uri=uri, size=file.size, partition=partition, start_offset=offset))
    return tuple(found)


def uri_of(url: str, path: str) -> str:
    """Returns what Spark calls a file of an archive."""
    scheme, is_url, rest = url.rpartition("://") if "://" in url else ("", "", url)
    place = f"{rest.rstrip('/')}/{path}"
    return f"{ {'s3': 's3a'}.get(scheme, scheme) }://{place}" if is_url and scheme != "file" else place


def placed_names(log: LogBatch) -> dict[str, KafkaName | BinlogName]:
    """Returns what the names of those files say, by path, that tell a position: an offset, or the number of a binlog."""
    return {path: name for path, name in names_of(log).items() if isinstance(name, KafkaName | BinlogName)}


def covers_of_files(files: Iterable[FileLines], log: LogBatch, table: TableName) -> tuple[OffsetRange, ...]:
    """Returns what files hold for a table by their contents; names without positions cover nothing that could be proven.

    A binlog without an end that is not proven to be whole ends behind its last transaction, and what may follow there is a gap. So is what
    it has of the table that cannot be followed: see `core.binlog.unfollowed`.

    Args:
        files: What was read of each.
        log: What the operation reads.
        table: The table.
    """
    files, names = tuple(files), placed_names(log)
    binlogs = {(name.stream, name.number): file.binlog for file in files if isinstance(name := names.get(file.path), BinlogName)}
    covers: list[OffsetRange] = []
    for file in files:
        match names.get(file.path):
            case KafkaName() as name:
                end = (name.start_offset + file.lines,)
                covers.append(OffsetRange(file=file.path, stream=name.stream, low=(name.start_offset,), high=end))
            case BinlogName() as name:
                covers += _covers_of_binlog(file, name, binlogs, log, table)
            case None:
                continue
    return tuple(covers)


def _covers_of_binlog(
    file: FileLines, name: BinlogName, binlogs: Mapping[tuple[str, int], BinlogFacts | None], log: LogBatch, table: TableName
) -> list[OffsetRange]:
    """Returns what a binlog holds: all of it, or what lies before and behind what is missing."""
    here, following = file.binlog, binlogs.get((name.stream, name.number + 1))
    whole = OffsetRange(file=file.path, stream=name.stream, low=(name.number, 0), high=(name.number + 1, 0))
    before = binlogs.get((name.stream, name.number - 1))
    if before is not None and not is_proven_whole(before, here, is_checked_copy=log.archive.copy.is_set):
        why = f"{before.path} has no end: it was copied while the server wrote it, or the server crashed"
        whole = replace(whole, missing=why)
    if here is None:
        return [whole]
    if not is_proven_whole(here, following, is_checked_copy=log.archive.copy.is_set):
        whole = replace(whole, high=(name.number, here.complete_to))
    mine = _of_table(here.unfollowed, table)
    if not mine:
        return [whole]
    first, last = min(change.start for change in mine), max(change.end for change in mine)
    return [
        replace(whole, high=(name.number, first)),
        replace(whole, low=(name.number, last), missing=_unfollowed_text(mine, table)),
    ]


def _of_table(changes: Sequence[UnfollowedChange], table: TableName) -> tuple[UnfollowedChange, ...]:
    if not changes:
        return ()
    from cdc_ops.formats.feed.statement_tables import concerns  # brings a parser of SQL, which few batches need

    return tuple(change for change in changes if concerns(change, table))


def _unfollowed_text(changes: Sequence[UnfollowedChange], table: TableName) -> str:
    first, more = changes[0], len(changes) - 1
    what = "a distributed transaction (XA) that is decided in another file" if first.tables is not None else "a statement and no rows"
    text = f": {shortened(first.sql)}" if first.sql else ""
    return f"{table} was changed by {what}{text}" + (f", and {more:,} more" if more else "")


def unread(frame: DataFrame, read: Iterable[str], log: LogBatch, merged: Iterable[str]) -> DataFrame:
    """Leaves out the records of files that are not merged, and those below the watermark: the table has them, and what came after them.

    Args:
        frame: Records or envelopes.
        read: Paths of the files that it may have records of.
        log: What the operation reads.
        merged: Paths of its files that lie before the first gap.
    """
    wanted, names = set(merged), kafka_names(log)
    if left_out := [(path,) for path in read if path not in wanted]:
        others = F.broadcast(local_rows(frame.sparkSession, left_out, {"file": "string"}))
        frame = frame.join(others, "file", "left_anti").select(*frame.columns)
    old = [
        (F.col("file") == path) & (F.col("line") < first)
        for path in names
        if path in wanted and (first := first_wanted_line(log, path, names))
    ]
    return frame.where(~reduce(or_, old)) if old else frame


def first_wanted_line(log: LogBatch, path: str, names: Mapping[str, KafkaName]) -> int:
    """Returns the first line of a file that the table does not have."""
    name = names.get(path)
    reached = log.before.position_of(name.stream) if name is not None else None
    if name is None or reached is None or name.start_offset >= reached[0] or _came_before(log, name):
        return 0
    return int(reached[0] - name.start_offset)


def _came_before(log: LogBatch, name: KafkaName) -> bool:
    """True for a file from before the place where the table began with its partition: it was never read."""
    since = log.before.since(name.stream)
    return since is not None and (name.start_offset,) < since
