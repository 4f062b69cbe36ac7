"""Scans archived files in Python workers: lines are counted, what is plain is decoded, all other lines are written as they are. Spark-free.

    <folder>/part-plain-<file>-<try>-<n>.parquet    plain events, one row group for each bucket of keys that has some
    <folder>/part-marked-<file>-<try>-<n>.parquet   lines for the exact way, with their numbers

Which of them count, only the results of the tasks say: a task that ran twice leaves files that nobody reads.
"""

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.file_names import Compression, split_extension
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.decode.compiler import Bytes, Int64s
from cdc_ops.decode.json.events import READ
from cdc_ops.decode.json.lines import find_blank, find_lines
from cdc_ops.decode.json.reader import HASH, MOMENT, MOST_ROWS, OPERATION, PlainFormat, PlainReader, part_name
from cdc_ops.formats.feed.plain import plain_format
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.steps.log.plain.fold import fold_rows

_BLOCK: Final = 8 * 2**20
_ROWS_OF_A_PART: Final = 400_000
_MARKED_BYTES: Final = 64 * 2**20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_CODECS: Final = {Compression.GZIP: "gzip", Compression.BZIP2: "bz2", Compression.ZSTD: "zstd"}
_EPOCH: Final = datetime(1970, 1, 1)
_HASH_BITS: Final = np.uint64(40)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """One file to scan.

    Args:
        path: Relative to the archive.
        size: Bytes, as listed.
        start_offset: Kafka's offset of the first record, -1 if it is not known.
        first_line: Records before it are counted only: the table has them.
        newest: The place of the newest change of the file's stream before this batch; () if there is none.
    """

    path: str
    size: int
    start_offset: int = -1
    first_line: int = 0
    newest: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """What is the same for all files of a scan.

    Args:
        url: The archive.
        options: Of its store.
        format: The format's options from the pipeline file.
        schema: The table.
        keys: The columns that identify a row.
        folder: Where the results go.
        buckets: Into how many parts the keys are split.
        early: Rows of a key that a later one in the same file replaces may be left out.
    """

    url: str
    options: tuple[tuple[str, str], ...]
    format: FormatOptions
    schema: TableSchema
    keys: tuple[str, ...]
    folder: str
    buckets: int
    early: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPart:
    """A file of plain events: its name, its size in bytes, and which bucket each of its row groups is of."""

    name: str
    size: int
    buckets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedPart:
    """A file of lines that are not plain: its name, its size in bytes, how many lines it has."""

    name: str
    size: int
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the plain events of a file show; places are numbers, most significant first, moments texts in UTC, "" for none.

    Args:
        events: How many they are.
        last: The latest time of the source.
        lowest: The smallest place.
        place: The largest place among changes that no snapshot read.
        at: The latest time among those.
        behind: Those below the newest one before this batch.
        behind_at: The latest time among these.
    """

    events: int = 0
    last: str = ""
    lowest: tuple[int, ...] = ()
    place: tuple[int, ...] = ()
    at: str = ""
    behind: int = 0
    behind_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """What a file holds.

    Args:
        path: Relative to the archive.
        lines: Its records, without empty lines at its end.
        blank: The empty lines among them.
        seen: What its plain events show.
        plain: Where they are.
        marked: Where its other lines are.
        failure: Why it could not be scanned, "" if it was.
    """

    path: str
    lines: int = 0
    blank: int = 0
    seen: Seen = Seen()
    plain: tuple[PlainPart, ...] = ()
    marked: tuple[MarkedPart, ...] = ()
    failure: str = ""


def scan_file(task: ScanTask, file: FileTask) -> FileScan:
    """Scans one file. What its store or its contents raise is a failure that is told: the exact way says it better."""
    form = plain_format(task.schema, task.keys, task.format)
    if form is None:
        return FileScan(path=file.path, failure="the table has columns that the decoder cannot read")
    try:
        with closing(open_archive(task.url, dict(task.options))) as archive, closing(_opened(archive, file)) as stream:
            scan = _Scan(task, file, form)
            for block in _blocks(stream):
                scan.add(block)
            return scan.finished()
    except (OSError, EOFError, pa.ArrowException, ValueError) as error:
        return FileScan(path=file.path, failure=f"{type(error).__name__}: {error}")


def _opened(archive: Archive, file: FileTask) -> Any:
    codec = _CODECS.get(split_extension(file.path.rpartition("/")[2])[1])
    raw = archive.open(file.path)
    return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec) if codec else raw


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    while block := stream.read(_BLOCK):
        yield bytes(block)


@dataclass(slots=True)
class _Lines:
    """Lines that are not plain, until they are written."""

    texts: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    size: int = 0

    def add(self, text: bytes, number: int) -> None:
        """Keeps one."""
        self.texts.append(text)
        self.numbers.append(number)
        self.size += len(text)


class _Scan:
    """One file on its way."""

    def __init__(self, task: ScanTask, file: FileTask, form: PlainFormat) -> None:
        self._task, self._file, self._form = task, file, form
        self._reader = PlainReader(form=form)
        self._rest = b""
        self._lines = self._records = self._blank = 0
        self._empty: list[tuple[bytes, int]] = []
        self._tables: list[pa.Table] = []
        self._marked = _Lines()
        self._plain_parts: list[PlainPart] = []
        self._marked_parts: list[MarkedPart] = []
        self._seen = _SeenSoFar(file.newest)
        self._begun = False
        self._name = f"{uuid.uuid5(uuid.NAMESPACE_URL, file.path).hex[:12]}-{uuid.uuid4().hex[:12]}"

    def add(self, block: bytes) -> None:
        """Takes the next bytes of the file."""
        text = self._rest + block
        if not self._begun:
            self._begun = True
            text = text.removeprefix(_BYTE_ORDER_MARK)  # so does Hadoop's reader of lines
        data = np.frombuffer(text, np.uint8)
        starts, ends = np.empty(MOST_ROWS, np.int64), np.empty(MOST_ROWS, np.int64)
        at = 0
        while count := int(find_lines(data, at, data.size, starts, ends)):
            stop = int(ends[count - 1])
            self._add_lines(data[at:stop], starts[:count] - at, ends[:count] - at)
            at = stop + 1
        self._rest = text[at:]

    def finished(self) -> FileScan:
        """Writes what is left, and tells what the file holds."""
        if self._rest:
            data = np.frombuffer(self._rest, np.uint8)
            self._add_lines(data, np.zeros(1, np.int64), np.array([data.size], np.int64))
        self._write_plain()
        self._write_marked()
        return FileScan(
            path=self._file.path,
            lines=self._records,
            blank=self._blank - (self._lines - self._records),
            seen=self._seen.told(),
            plain=tuple(self._plain_parts),
            marked=tuple(self._marked_parts),
        )

    def _add_lines(self, data: Bytes, starts: Int64s, ends: Int64s) -> None:
        count = len(starts)
        empty = np.zeros(count, np.uint8)
        last = int(find_blank(data, starts, ends, count, empty))
        numbers = np.arange(self._lines, self._lines + count)
        wanted = np.flatnonzero((empty == 0) & (numbers >= self._file.first_line))
        if last:
            self._records = self._lines + last
        self._lines += count
        self._blank += int(empty.sum())
        self._add_records(data, starts[wanted], ends[wanted], numbers[wanted])
        for index in np.flatnonzero((empty == 1) & (numbers >= self._file.first_line)).tolist():
            self._empty.append((data[starts[index] : ends[index]].tobytes(), int(numbers[index])))

    def _add_records(self, data: Bytes, starts: Int64s, ends: Int64s, numbers: Int64s) -> None:
        if not len(starts):
            return
        table, plain = self._reader.read(data, starts, ends, numbers, self._file.start_offset)
        for index in np.flatnonzero(~plain).tolist():
            self._marked.add(data[starts[index] : ends[index]].tobytes(), int(numbers[index]))
        if table.num_rows:
            self._seen.add(table, self._form.parts + 1)
            self._tables.append(table.drop_columns([MOMENT]))
        if sum(one.num_rows for one in self._tables) >= _ROWS_OF_A_PART:
            self._write_plain()
        if self._marked.size >= _MARKED_BYTES:
            self._write_marked()

    def _write_plain(self) -> None:
        if not self._tables:
            return
        table = pa.concat_tables(self._tables).combine_chunks()
        self._tables = []
        hashes = table[HASH].to_numpy()
        if self._task.early and self._file.start_offset >= 0 and len(np.unique(hashes)) < 0.8 * len(hashes):
            table, _ = fold_rows(table, self._form)
            hashes = table[HASH].to_numpy()
        buckets = bucket_of(hashes, self._task.buckets)
        order = np.argsort(buckets, kind="stable")
        table, buckets = table.take(pa.array(order)), buckets[order]
        found, begins = np.unique(buckets, return_index=True)
        name = f"part-plain-{self._name}-{len(self._plain_parts)}.parquet"
        with _writing(self._task.folder, name) as out, pq.ParquetWriter(out.file, table.schema, **_WRITTEN) as writer:
            for begin, end in zip(begins, [*begins[1:], len(buckets)], strict=True):
                writer.write_table(table.slice(begin, end - begin), row_group_size=2**31)
        self._plain_parts.append(PlainPart(name=name, size=out.size(), buckets=tuple(found.tolist())))

    def _write_marked(self) -> None:
        for text, number in self._empty:  # an empty line is a record if one with text follows
            if number < self._records:
                self._marked.add(text, number)
        self._empty = [one for one in self._empty if one[1] >= self._records]
        if not self._marked.texts:
            return
        file = self._file
        count = len(self._marked.texts)
        offsets = [file.start_offset + number if file.start_offset >= 0 else None for number in self._marked.numbers]
        table = pa.table(
            {
                "value": pa.array(self._marked.texts, pa.binary()),
                "file": pa.array([file.path] * count, pa.string()),
                "line": pa.array(self._marked.numbers, pa.int64()),
                "offset": pa.array(offsets, pa.int64()),
            }
        )
        name = f"part-marked-{self._name}-{len(self._marked_parts)}.parquet"
        with _writing(self._task.folder, name) as out:
            pq.write_table(table, out.file, compression="snappy", use_dictionary=["file"], write_statistics=False)
        self._marked_parts.append(MarkedPart(name=name, size=out.size(), lines=count))
        self._marked = _Lines()


_WRITTEN: Final[dict[str, Any]] = {"compression": "snappy", "use_dictionary": False, "write_statistics": False}


class _writing:
    """Writes a file of the staging area; `size` tells its bytes once it is written."""

    def __init__(self, folder: str, name: str) -> None:
        self._filesystem, inner = open_filesystem(folder)
        self._path = f"{inner}/{name}"

    def __enter__(self) -> "_writing":
        self.file = self._filesystem.open(self._path, "wb")
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def size(self) -> int:
        """Returns the size of the file."""
        return int(self._filesystem.size(self._path))


def bucket_of(hashes: Int64s, buckets: int) -> Int64s:
    """Returns the bucket of each key by its hash."""
    return ((hashes.view(np.uint64) >> _HASH_BITS) % np.uint64(buckets)).astype(np.int64)


class _SeenSoFar:
    """What the plain events of a file have shown so far."""

    def __init__(self, newest: tuple[int, ...]) -> None:
        self._newest = newest
        self._events = self._behind = 0
        self._lowest: tuple[int, ...] = ()
        self._place: tuple[int, ...] = ()
        self._moments: dict[str, int] = {}

    def add(self, table: pa.Table, parts: int) -> None:
        """Takes some events into account."""
        place = [table[part_name(part)].to_numpy() for part in range(parts)]
        moments = table[MOMENT].fill_null(-1).to_numpy()
        changed = table[OPERATION].to_numpy() != READ
        self._events += table.num_rows
        lowest = _extreme(place, np.arange(table.num_rows), highest=False)
        self._lowest = min(self._lowest, lowest) if self._lowest else lowest
        self._note("last", moments)
        if changed.any():
            self._place = max(self._place, _extreme(place, np.flatnonzero(changed), highest=True))
            self._note("at", moments[changed])
        if self._newest:
            below = changed & _is_below(place, self._newest)
            self._behind += int(below.sum())
            self._note("behind_at", moments[below])

    def told(self) -> Seen:
        """Returns what was seen."""
        texts = {name: (_EPOCH + timedelta(microseconds=micros)).isoformat() for name, micros in self._moments.items()}
        return Seen(events=self._events, lowest=self._lowest, place=self._place, behind=self._behind, **texts)

    def _note(self, name: str, moments: Int64s) -> None:
        latest = int(moments.max(initial=-1))
        if latest >= 0:
            self._moments[name] = max(latest, self._moments.get(name, 0))


def _extreme(place: list[Int64s], rows: Int64s, *, highest: bool) -> tuple[int, ...]:
    """Returns the largest or the smallest place of some rows."""
    for numbers in place:
        some = numbers[rows]
        rows = rows[some == (some.max() if highest else some.min())]
    return tuple(int(numbers[rows[0]]) for numbers in place)


def _is_below(place: list[Int64s], newest: tuple[int, ...]) -> Any:
    """True for places before another one."""
    below, same = np.zeros(len(place[0]), np.bool_), np.ones(len(place[0]), np.bool_)
    for numbers, limit in zip(place, newest, strict=False):
        below |= same & (numbers < limit)
        same &= numbers == limit
    return below | (same & (len(place) < len(newest)))


def scans_of(batches: Iterator[pa.RecordBatch], task: ScanTask) -> Iterator[pa.RecordBatch]:
    """Scans the files of a partition; rows in and out have one text, JSON."""
    from cdc_ops.core import json_codec

    for batch in batches:
        for text in batch.column(0).to_pylist():
            scanned = scan_file(task, json_codec.loads(FileTask, text))
            yield pa.record_batch({"scan": pa.array([json_codec.dumps(scanned)], pa.string())})
