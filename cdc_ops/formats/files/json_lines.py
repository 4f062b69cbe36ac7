"""Reads archived files of JSON lines as records, each with the number of its line; inside Spark, expressions only.

    RecordFile ... -> count_lines (one scan of text, nothing is parsed) -> LineCounts -> read_records -> records -> envelopes

Spark's text source has no line numbers, and splits files into blocks that are read in parallel. The first scan counts the lines of each
block, and records the running number of the block's first row. The second scan computes line numbers from these, and *checks* each row: a
row whose running number is outside its block's interval fails the job. The rows of a block always have consecutive running numbers, so if
the check passes for all rows, each row has its right number.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.archive.binlog_facts import BinlogFacts
from cdc_ops.core.archive.file_names import Compression, split_extension
from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.errors import ArchiveFileError
from cdc_ops.lake.spark.local_rows import local_rows

READABLE_SUFFIXES: Final = ("gz", "bz2", "zst")
"""Suffixes of compressed files that Spark 4.2 reads correctly. Spark expects Hadoop's own layout behind `.lz4` and `.snappy`, which
other tools do not write: with their files it allocates until the process ends.
"""

SCAN_KEY: Final = ("__uri", "__start", "__length")
_TYPES: Final = dict(RECORD_COLUMNS)
_PLACES: Final = {
    "__uri": "string",
    **dict.fromkeys(("__start", "__length", "__first", "__rows", "__base", "__records"), "bigint"),
    **{"file": "string", "partition": "int", "__offset": "bigint"},
}
_PATH: Final = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?(?P<path>/.*)$", re.DOTALL)
_GLOB: Final = re.compile(r"([\[\]{}*?\\])")
_MOVED: Final = (
    "Spark split the file differently when it counted its {what}: the file was replaced, or the number of executors changed."
    " Nothing was applied; the next try counts again: "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file of JSON lines.

    Args:
        path: Relative to the archive's root; the feed's column `file`.
        uri: The path for Spark: absolute, or a URI such as `s3a://bucket/key`, not percent-encoded.
        size: Bytes, as listed. A file of 0 bytes is not read.
        partition: Kafka's partition, None if the file's name does not have it.
        start_offset: Kafka's offset of the first record, None if the file's name does not have it.
    """

    path: str
    uri: str
    size: int
    partition: int | None = None
    start_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLines:
    """The number of records that a file holds.

    Args:
        path, partition, start_offset: As in `RecordFile`.
        lines: The number of records, without empty lines at the end of the file.
        blank: The number of empty lines among them: records without a value.
        before: Of a binlog: its server, and the transactions of earlier files; empty = it does not say.
        after: Of a binlog: those, and its own.
        binlog: Of a binlog: all that it says of itself.
    """

    path: str
    partition: int | None
    start_offset: int | None
    lines: int
    blank: int = 0
    before: str = ""
    after: str = ""
    binlog: BinlogFacts | None = None

    @property
    def end_offset(self) -> int | None:
        """Returns Kafka's offset after the last record, if offsets have no gaps; None if the first offset is unknown."""
        return None if self.start_offset is None else self.start_offset + self.lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a file that one task reads.

    Args:
        uri, start, length: The file, and the block's bytes in it.
        first: The running number of its first record.
        rows: The number of its records.
        last: The running number of its last record that is not empty, None if all are.
        blank: The number of empty records.
    """

    uri: str
    start: int
    length: int
    first: int
    rows: int
    last: int | None
    blank: int = 0


class Place(NamedTuple):
    """A block as `numbered` needs it: `base` records come before it in its file, and the file has `records` in all."""

    uri: str
    start: int
    length: int
    first: int
    rows: int
    base: int
    records: int
    file: str
    partition: int | None
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCounts:
    """Files whose lines have been counted.

    Args:
        files: The counts of each file, in the order of the request.
        scan: The files' lines with running numbers; None if all files are empty.
        places: One row per block, from which a line's number follows.
    """

    files: tuple[FileLines, ...]
    scan: DataFrame | None
    places: tuple[Place, ...]


def count_lines(spark: SparkSession, files: Sequence[RecordFile]) -> LineCounts:
    """Counts the lines of files: an action, one scan of their text.

    Raises:
        ArchiveFileError: Spark cannot read a file of that name, or found no data in it.
        ValueError: a URI is not absolute, or two files have the same one.
    """
    at = by_place(files)
    if not at:
        return LineCounts(files=file_lines(files, {}), scan=None, places=())
    scan = _scan(spark, [file.uri for file in at.values()])
    text = F.when(~_is_blank(F.col("value")), F.col("__id"))
    counted = scan.groupBy(*SCAN_KEY).agg(F.min("__id"), F.count("*"), F.max(text), F.count("*") - F.count(text))
    lines, blank = {}, {}
    places: list[Place] = []
    for file, blocks in blocks_of(at, counted.collect()):
        lines[file.path] = _lines(file, blocks)
        blank[file.path] = _blank_between(blocks, lines[file.path])
        places += places_of(file, blocks, lines[file.path])
    return LineCounts(files=file_lines(files, lines, blank), scan=scan, places=tuple(places))


def blocks_of(at: Mapping[str, RecordFile], counted: Iterable[Row]) -> Iterator[tuple[RecordFile, list[Block]]]:
    """Yields each file with its blocks, in the order of the file.

    Args:
        at: The files by the paths in their URIs.
        counted: One tuple per block: its `SCAN_KEY`, first running number, number of rows, last running number that counts, and for lines
            the number of empty ones.
    """
    of_file: dict[str, list[Block]] = {}
    for uri, start, length, first, rows, last, *blank in counted:
        block = Block(uri=uri, start=start, length=length, first=first, rows=rows, last=last, blank=blank[0] if blank else 0)
        of_file.setdefault(unquote(path_of(uri)), []).append(block)
    for place, file in at.items():
        yield file, sorted(of_file.pop(place, ()), key=lambda block: block.start)
    if of_file:
        raise AssertionError(f"Spark read unexpected files: {sorted(of_file)}")


def read_records(spark: SparkSession, files: Sequence[RecordFile], counts: LineCounts | None = None) -> DataFrame:
    """Returns the records of files of JSON lines, with the columns of `core.events.change_feed.RECORD_COLUMNS`.

    One row per line; lines end with LF or CR LF. `line` counts from 0 in its file and is the same in every try. `offset` is the file's
    first offset plus `line`, which equals Kafka's offset if offsets have no gaps.

    An empty line between others is a record without a value: some sinks write tombstones so. It counts, because all offsets behind it
    would be wrong otherwise. Empty lines at the end of a file are not records; if they were tombstones, the check of offsets reports a gap
    before the next file. Text is neither checked nor changed here: `formats.feed.envelopes` makes a record bad whose bytes are not UTF-8.

    Args:
        spark: The session.
        files: The files, all read in one scan. One task reads a `.gz` or `.zst` file; see `READABLE_SUFFIXES`.
        counts: The result of `count_lines` for the same files and session; None = the lines are counted here, by an action.

    Raises:
        ArchiveFileError, ValueError: as `count_lines`.
    """
    counted = counts or count_lines(spark, files)
    if counted.scan is None:
        return local_rows(spark, (), dict(RECORD_COLUMNS))
    return numbered(spark, counted.scan, counted.places, "lines")


def numbered(spark: SparkSession, scan: DataFrame, places: Sequence[Place], what: str) -> DataFrame:
    """Returns the records of a scan with the columns `RECORD_COLUMNS`. A record outside its counted block fails the job.

    Args:
        spark: The session of the scan.
        scan: `value`, `SCAN_KEY`, and the running number `__id`.
        places: The blocks, from `places_of`.
        what: `lines` or `records`, for the message.
    """
    broadcast = F.broadcast(local_rows(spark, places, _PLACES))
    number = F.col("__id") - F.col("__first")
    moved = F.col("__first").isNull() | (number < 0) | (number >= F.col("__rows"))
    # Rows without a place must pass the filter: otherwise Spark would make an inner join of this one, and drop them in silence.
    rows = scan.join(broadcast, [*SCAN_KEY], "left").where(moved | (F.col("__base") + number < F.col("__records")))
    checked = F.when(moved, F.raise_error(F.concat(F.lit(_MOVED.format(what=what)), F.col("__uri"))))
    rows = rows.withColumns({"value": checked.otherwise(F.col("value")), "line": checked.otherwise(F.col("__base") + number)})
    given = {"offset": F.col("__offset") + F.col("line")}
    return rows.select(*(given.get(name, F.col(name)).cast(kind).alias(name) for name, kind in _TYPES.items()))


def _scan(spark: SparkSession, uris: Iterable[str]) -> DataFrame:
    """Returns the lines of files, each with its block and a running number."""
    # LF only: by default a CR within a line would end it too. No partition discovery: `partition=0` in a path is not a column here.
    options = {"lineSep": "\n", "recursiveFileLookup": "true", "ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
    lines = spark.read.options(**options).text([escaped(uri) for uri in uris])
    return lines.select("value", *scan_place())


def scan_place() -> tuple[Expr, ...]:
    """Returns the columns that identify a record in a scan: its block (`SCAN_KEY`), and a running number."""
    return (
        F.col("_metadata.file_path").alias("__uri"),
        F.col("_metadata.file_block_start").alias("__start"),
        F.col("_metadata.file_block_length").alias("__length"),
        F.monotonically_increasing_id().alias("__id"),
    )


def escaped(uri: str) -> str:
    """Returns a path with its brackets and stars escaped, because Spark reads them as patterns."""
    return _GLOB.sub(r"\\\1", uri)


def _is_blank(value: Expr) -> Expr:
    return (F.octet_length(value) <= 8) & (F.btrim(value, F.lit(" \t\r")) == "")


def by_place(files: Sequence[RecordFile]) -> dict[str, RecordFile]:
    """Returns the files that are not empty, by the path in their URI. Rows are matched to files by this path.

    Raises:
        ArchiveFileError: Spark cannot read a file of that name.
        ValueError: a URI is not absolute, or two files have the same one.
    """
    at: dict[str, RecordFile] = {}
    for file in files:
        _check_name(file)
        place = path_of(file.uri)
        if place in at:
            raise ValueError(f"{file.uri} and {at[place].uri} are one place")
        if file.size:
            at[place] = file
    return at


def path_of(uri: str) -> str:
    """Returns the path in a URI, without decoding it.

    Raises:
        ValueError: the URI is not absolute.
    """
    match = _PATH.match(uri)
    if not match:
        raise ValueError(f"{uri!r} is neither an absolute path nor a URI")
    return re.sub("/+", "/", match["path"])


def _check_name(file: RecordFile) -> None:
    name = file.path.rpartition("/")[2]
    compression, suffix = split_extension(name)[1], name.rpartition(".")[2]
    if compression is not Compression.NONE and suffix not in READABLE_SUFFIXES:
        raise ArchiveFileError(
            f"Spark cannot read {file.path}: Spark does not know the suffix '.{suffix}' of {compression}.",
            why=f"Spark reads compressed text with these suffixes: {', '.join(f'.{one}' for one in READABLE_SUFFIXES)}.",
            data="Nothing of the batch was read.",
            next="Set the sink to compress with gzip or zstd, and write the existing files again; a copy without the compression and its"
            " suffix also works.",
        )
    if name.startswith(("_", ".")) or name.endswith("._COPYING_"):
        raise ArchiveFileError(
            f"Spark does not read a file with the name {file.path}.",
            why="Spark takes files with such names for hidden or unfinished.",
            data="Nothing of the batch was read.",
            next="Rename the file, or remove it from the archive.",
        )


def _lines(file: RecordFile, blocks: Sequence[Block]) -> int:
    """Returns the number of records: lines up to the last one with text."""
    if not blocks and split_extension(file.path.rpartition("/")[2])[1] is Compression.NONE:
        raise ArchiveFileError(
            f"Spark found no data in {file.path}; the listing showed {file.size} bytes.",
            why="The file was emptied or replaced during the read.",
            data="Nothing of the batch was applied.",
            next="Start the run again: it lists the archive again.",
        )
    base = lines = 0
    for block in blocks:
        if block.last is not None:
            lines = base + block.last - block.first + 1
        base += block.rows
    return lines


def _blank_between(blocks: Sequence[Block], lines: int) -> int:
    """Returns the number of empty lines among the records of a file."""
    return sum(block.blank for block in blocks) - (sum(block.rows for block in blocks) - lines)


def places_of(file: RecordFile, blocks: Sequence[Block], records: int) -> Iterator[Place]:
    """Yields the blocks of a file as `numbered` needs them."""
    base = 0
    for part in blocks:
        yield Place(part.uri, part.start, part.length, part.first, part.rows, base, records, file.path, file.partition, file.start_offset)
        base += part.rows


def file_lines(files: Iterable[RecordFile], counted: Mapping[str, int], blank: Mapping[str, int] | None = None) -> tuple[FileLines, ...]:
    """Returns the counts of each file; a file without a count has no records."""
    return tuple(
        FileLines(
            path=one.path,
            partition=one.partition,
            start_offset=one.start_offset,
            lines=counted.get(one.path, 0),
            blank=(blank or {}).get(one.path, 0),
        )
        for one in files
    )
