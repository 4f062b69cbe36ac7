r"""Reads archived files of JSON lines: each line is a record, with its number.

Only LF ends a line; a CR before it is a blank of JSON and stays. An empty line between others is a record without a value: some sinks write
tombstones so, and all offsets behind it would be wrong if it did not count. Empty lines at the end of a file are no records. Bytes are
neither checked nor changed, but for a byte order mark at the begin of a file, which is left out.

A large file without compression can be read by several tasks: a line belongs to the range in which it begins.

    ranges(path, 2_000_000_000, 512 * 2**20) -> ByteRange(0, 536870912), ByteRange(536870912, ...), ...
    count_range(...) of each, in parallel    -> the first line of each range
    read_range(..., first)                   -> RecordReader
"""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Final

import pyarrow as pa

from cdc_ops.archives.base import Archive
from cdc_ops.core.archive.file_names import Compression, split_extension
from cdc_ops.errors import ArchiveFileError
from cdc_ops.events.records.reader import MOST_RECORDS, FileCount, Numbered, WatchedStream, emptied, unreadable

READABLE_SUFFIXES: Final = ("gz", "bz2", "zst")
"""Suffixes of compressed files that are read. Of `.lz4` and `.snappy` there are several layouts, which names do not tell apart."""

_BLOCK: Final = 4 * 2**20
_LINE_END: Final = 64 * 1024
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_CODECS: Final = {Compression.GZIP: "gzip", Compression.BZIP2: "bz2", Compression.ZSTD: "zstd"}
_BLANKS: Final = b" \t\r"
_LONGEST_BLANK: Final = 8
_TEXT: Final = re.compile(rb"[^ \t\r\n]")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A part of a file: the lines that begin in it.

    Args:
        start: Its first byte.
        stop: The byte behind its last one.
    """

    start: int
    stop: int


def ranges(path: str, size: int, most_bytes: int) -> list[ByteRange]:
    """Cuts a file into ranges of nearly the same size; a compressed file is one range, an empty one has none.

    >>> ranges("t.json", 10, 4)
    [ByteRange(start=0, stop=4), ByteRange(start=4, stop=7), ByteRange(start=7, stop=10)]

    Args:
        path: The file.
        size: Its bytes, as listed.
        most_bytes: Of a range, at most.
    """
    parts = 1 if is_compressed(path) else -(-size // most_bytes)
    cuts = [-(-size * part // parts) for part in range(parts + 1)] if size else []
    return [ByteRange(start, stop) for start, stop in pairwise(cuts)]


def is_compressed(path: str) -> bool:
    """True for a file that is compressed as a whole, by its suffix."""
    return _compression(path) is not Compression.NONE


def _compression(path: str) -> Compression:
    return split_extension(path.rpartition("/")[2])[1]


def check_suffix(path: str) -> None:
    """Refuses files whose compression cannot be read.

    Raises:
        ArchiveFileError: it is one; says which suffixes can be read.
    """
    compression, suffix = _compression(path), path.rpartition("/")[2].rpartition(".")[2]
    if compression is not Compression.NONE and suffix not in READABLE_SUFFIXES:
        raise ArchiveFileError(
            f"{path} cannot be read: files with the suffix '.{suffix}' of {compression} are not decompressed.",
            why=f"Compressed text is read with these suffixes: {', '.join(f'.{one}' for one in READABLE_SUFFIXES)}.",
            data="Nothing of the batch was read.",
            next="Set the sink to compress with gzip or zstd, and write the existing files again; a copy without the compression and its"
            " suffix also works.",
        )


def count_range(archive: Archive, path: str, part: ByteRange) -> int:
    """Returns the number of lines that begin in a range of a file without compression; an LF at the end of the file begins none.

    The first line of a range is the sum over the ranges before it.

    Raises:
        ArchiveFileError: the file ends within the range.
    """
    at = max(part.start - 1, 0)
    found = int(part.start == 0)
    with closing(archive.open(path)) as stream:
        stream.seek(at)
        while at < part.stop - 1:
            data = stream.read(min(_BLOCK, part.stop - 1 - at))
            if not data:
                raise emptied(path, part.stop)
            found += data.count(b"\n")
            at += len(data)
    return found


def read_range(archive: Archive, path: str, part: ByteRange, first: int, first_line: int = 0) -> "JsonLines":
    """Opens a range of a file without compression; its count is that of the range.

    Args:
        archive: The archive.
        path: The file.
        part: The range.
        first: The number of the first line that begins in the range.
        first_line: Records before this line are counted, and not returned.
    """
    return JsonLines(Lines(archive, path, part, first), first_line)


class Lines:
    """The lines of a file or of a range of it, as bytes, with the empty ones between others and without those at the end of the file.

    Args:
        archive: The archive.
        path: The file.
        part: The range; a compressed file has only one, of all of its bytes as listed.
        first: The number of the range's first line.

    Raises:
        ArchiveFileError: its compression cannot be read.
    """

    def __init__(self, archive: Archive, path: str, part: ByteRange, first: int = 0) -> None:
        check_suffix(path)
        self._archive, self._path, self._part, self._first = archive, path, part, first
        self.lines = self.blank = 0
        """What has been read so far, without empty lines that no text follows."""

    def count(self) -> FileCount:
        """Returns how many lines have been read."""
        return FileCount(lines=self.lines, blank=self.blank)

    def batches(self) -> Iterator[tuple[int, list[bytes], list[int]]]:
        """Yields the number of a first line, some consecutive lines, and the places in that list of those that are empty."""
        pending: list[bytes] = []
        for lines in self._lines():
            short = [place for place, line in enumerate(lines) if len(line) <= _LONGEST_BLANK]
            blank = [place for place in short if not lines[place].strip(_BLANKS)] if short else short
            end = _text_end(blank, len(lines))
            if end:
                yield from self._empty(pending)
                pending = lines[end:]
                yield self._taken(lines[:end], blank[: len(blank) - len(pending)])
            else:
                pending += lines
        if pending and self._text_follows():
            yield from self._empty(pending)

    def _taken(self, lines: list[bytes], blank: list[int]) -> tuple[int, list[bytes], list[int]]:
        number = self._first + self.lines
        self.lines += len(lines)
        self.blank += len(blank)
        return number, lines, blank

    def _empty(self, lines: list[bytes]) -> Iterator[tuple[int, list[bytes], list[int]]]:
        for at in range(0, len(lines), MOST_RECORDS):
            some = lines[at : at + MOST_RECORDS]
            yield self._taken(some, list(range(len(some))))

    def _lines(self) -> Iterator[list[bytes]]:
        """Yields all lines of the range, some at a time; a longer line than a block is put together."""
        rest: list[bytes] = []
        for data in self._blocks():
            lines = data.split(b"\n")
            rest.append(lines[0])
            if len(lines) > 1:
                lines[0] = b"".join(rest)
                rest = [lines.pop()]
                for at in range(0, len(lines), MOST_RECORDS):
                    yield lines[at : at + MOST_RECORDS]
        if last := b"".join(rest):
            yield [last]

    def _blocks(self) -> Iterator[bytes]:
        """Yields the bytes of the lines that begin in the range, without the byte order mark that a file may begin with."""
        if self._part.start >= self._part.stop:
            return
        blocks = self._decompressed() if is_compressed(self._path) else self._plain()
        if not self._part.start:
            begin = b""
            for data in blocks:
                begin += data
                if len(begin) >= len(_BYTE_ORDER_MARK):
                    break
            yield begin.removeprefix(_BYTE_ORDER_MARK)
        yield from blocks

    def _plain(self) -> Iterator[bytes]:
        start, stop = self._part.start, self._part.stop
        at, begun, data = max(start - 1, 0), not start, b""
        with closing(self._archive.open(self._path)) as stream:
            stream.seek(at)
            while at < stop and (data := stream.read(min(_BLOCK, stop - at))):
                at += len(data)
                if begun:
                    yield data
                elif b"\n" in data:
                    begun = True
                    yield data.partition(b"\n")[2]
            if at < stop:
                raise emptied(self._path, stop)
            if begun and not data.endswith(b"\n"):
                yield from _line_end(stream)

    def _decompressed(self) -> Iterator[bytes]:
        size = self._part.stop
        with closing(self._archive.open(self._path)) as stream:
            raw = WatchedStream(stream)
            try:
                # pyarrow goes on behind the end of a gzip member or a frame, as long as there are bytes.
                opened: Any = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), _CODECS[_compression(self._path)])
                while data := opened.read(_BLOCK):
                    yield data
            except (OSError, pa.ArrowException) as error:
                if raw.failed:
                    raise
                if raw.count >= size:
                    raise unreadable(self._path, str(error).rstrip(".")) from error
            if raw.count < size:
                raise emptied(self._path, size)

    def _text_follows(self) -> bool:
        """True if there is text behind the range: then the empty lines at its end are records."""
        if is_compressed(self._path):
            return False
        with closing(self._archive.open(self._path)) as stream:
            mark = len(_BYTE_ORDER_MARK) if stream.read(len(_BYTE_ORDER_MARK)) == _BYTE_ORDER_MARK else 0
            stream.seek(max(self._part.stop, mark))
            return any(_TEXT.search(data) for data in iter(lambda: stream.read(_BLOCK), b""))


class JsonLines:
    """The records of lines, see `RecordReader`.

    Args:
        lines: The lines.
        first_line: Records before this line are counted, and not returned.
    """

    def __init__(self, lines: Lines, first_line: int = 0) -> None:
        self._lines, self._first_line = lines, first_line

    def batches(self) -> Iterator[list[Numbered]]:
        """See `RecordReader`."""
        for number, lines, blank in self._lines.batches():
            values: list[bytes | None] = [*lines] if blank else lines  # type: ignore[assignment]
            for place in blank:
                values[place] = None
            records = list(zip(values, range(number, number + len(values)), strict=True))
            if number < self._first_line:
                records = records[self._first_line - number :]
            if records:
                yield records

    def count(self) -> FileCount:
        """See `RecordReader`."""
        return self._lines.count()


def _text_end(blank: list[int], size: int) -> int:
    """Returns how many of some lines there are up to the last one with text."""
    end = size
    for place in reversed(blank):
        if place != end - 1:
            break
        end = place
    return end


def _line_end(stream: BinaryIO) -> Iterator[bytes]:
    """Yields the bytes up to the end of the line."""
    while data := stream.read(_LINE_END):
        head, newline, _ = data.partition(b"\n")
        yield head + newline
        if newline:
            return
