"""Reads binlogs as records, each with its running number in its file; inside Spark.

    RecordFile ... -> open_binlogs (one task a file: scans all of it) -> Binlogs -> binlog_records (one task a file: decodes it)

Binlogs are decoded by Python on the executors, in Arrow batches: see `formats.binlog`. Executors open the files through fsspec, with the
archive's options. A file that is not what it was when it was scanned fails the job.

That a file follows the one before is proven by what both say: the name in ROTATE, and the transactions that the begin of the later one
lists (PREVIOUS_GTIDS, GTID_LIST) against those at the end of the earlier one. Numbers alone would not show another server's file.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final, cast

import fsspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.archive.file_names import BinlogName, Layout, parse_name
from cdc_ops.core.binlog.event_stream import FileEnd
from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.errors import ArchiveFileError, ArchiveOrderError, BinlogCutError, from_payload
from cdc_ops.formats.files.json_lines import FileLines, RecordFile
from cdc_ops.formats.files.local_rows import local_rows

_SCANNED: Final = (
    "at int, error string, what string, why string, data string, next string, size bigint, complete_to bigint, end string,"
    " next_name string, server_id bigint, before string, after string, transactions bigint"
)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scanned:
    """What a task says of a file."""

    file: RecordFile
    name: BinlogName
    size: int
    complete_to: int
    end: str
    next_name: str
    server_id: int
    before: str
    after: str
    transactions: int


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
    names = [_name(file) for file in listed]
    rows = {row["at"]: row for row in _per_file(spark, len(listed), _scan_task(listed, dict(options)), _SCANNED).collect()}
    found = []
    for at, (file, name) in enumerate(zip(listed, names, strict=True)):
        row = rows[at]
        if row["error"]:
            raise from_payload({part: row[part] for part in ("error", "what", "why", "data", "next")})
        facts = {part: row[part] for part in ("size", "complete_to", "end", "next_name", "server_id", "before", "after", "transactions")}
        found.append(_Scanned(file=file, name=name, **facts))
    _check_sequence(sorted(found, key=lambda one: (one.name.stream, one.name.number)))
    lines = tuple(
        FileLines(path=one.file.path, partition=None, start_offset=None, lines=one.transactions, before=one.before, after=one.after)
        for one in found
    )
    return Binlogs(files=lines, opened=listed, sizes=tuple(one.size for one in found), options=options)


def binlog_records(spark: SparkSession, opened: Binlogs) -> DataFrame:
    """Returns the changes of files as JSON documents, with the columns of `core.events.change_feed.RECORD_COLUMNS`.

    `line` is the running number of a change in its file, from 0; the same in every try.
    """
    if not opened.opened:
        return local_rows(spark, (), dict(RECORD_COLUMNS))
    types = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS)
    return _per_file(spark, len(opened.opened), _record_task(opened), types)


def follows(after: str, before: str) -> bool:
    """True if a file that lists some transactions before it can follow one that ends with some.

    Args:
        after: At the end of the earlier file, as `FileLines.after`; empty = nothing is known.
        before: At the begin of the later file, as `FileLines.before`; empty = nothing is known.
    """
    return not after or not before or after == before


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
        scan = BinlogFile.open(file.path, opener(file.uri, options)).scan
    except ArchiveFileError as error:
        said = error.to_payload()
        return (at, *(said[part] for part in ("error", "what", "why", "data", "next")), *(None,) * 8)
    before, after = (_gtids(scan.server_id, gtids) for gtids in (scan.gtids_before, scan.gtids_after))
    facts = (scan.size, scan.complete_to, scan.end.value, scan.next_name, scan.server_id, before, after, len(scan.ends))
    return (at, *(None,) * 5, *facts)


def _gtids(server_id: int, gtids: object) -> str:
    """Server and transactions as one text, by which files are told apart."""
    return f"server {server_id}; {gtids}" if gtids is not None else ""


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
    number, rows, characters = _name(file).number, list[tuple[object, ...]](), 0
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


def _name(file: RecordFile) -> BinlogName:
    name = parse_name(Layout.BINLOG, file.path)
    if isinstance(name, BinlogName):
        return name
    raise ArchiveFileError(
        f"{file.path} cannot be read as a binlog: its name has no number.",
        why="The number at the end of its name is the first part of the order of its events.",
        data="Nothing of the batch was read.",
        next="Keep the names that the server gave, such as binlog.000123, and set 'layout: binlog'.",
    )


def _check_sequence(files: Sequence[_Scanned]) -> None:
    """Checks that files follow each other, as far as they say, and that all are closed.

    Raises:
        BinlogCutError: one ends within a transaction, or the last was not closed.
        ArchiveOrderError: one does not follow the one before.
    """
    for one in files:
        named = parse_name(Layout.BINLOG, one.next_name) if one.next_name else None
        if isinstance(named, BinlogName) and (named.base, named.number) != (one.name.base, one.name.number + 1):
            raise _foreign(one.name.path, "its own name", f"it ends with the name of {one.next_name}")
        if one.complete_to < one.size:
            raise _not_closed(one, f"a transaction that begins at byte {one.complete_to} does not end")
    if files[-1].end == FileEnd.NONE.value:
        raise _not_closed(files[-1], "the server had not closed it, and no later file is there")
    for first, second in itertools.pairwise(files):
        if first.name.stream != second.name.stream:
            raise _foreign(second.file.path, first.file.path, "they lie in different folders, or have different names: two servers")
        if second.name.number != first.name.number + 1:
            continue  # a gap: the proof by numbers finds it
        if not follows(first.after, second.before):
            why = f"the one ends with {first.after}, and the other begins with {second.before}"
            raise _foreign(second.file.path, first.file.path, why)


def _not_closed(file: _Scanned, why: str) -> BinlogCutError:
    return BinlogCutError(
        f"{file.file.path} ends too early, at byte {file.size}: {why}.",
        why="The file was copied while the server wrote it, or the copy was not completed.",
        data="Nothing of the batch was applied; the watermark stays.",
        next="Archive only files that the server has closed (`FLUSH BINARY LOGS` closes one), or copy the file again.",
    )


def _foreign(file: str, follows_not: str, why: str) -> ArchiveOrderError:
    return ArchiveOrderError(
        f"{file} does not follow {follows_not}: {why}.",
        why="A file was swapped, or the archive goes on with the binlogs of another server, whose positions are others.",
        data="Nothing of the batch was applied; the watermark stays.",
        next="Bring back the file of the same server. After a failover give the new server a folder of its own, and read all rows anew:"
        " 'cdc-ops resync --mode full'.",
    )
