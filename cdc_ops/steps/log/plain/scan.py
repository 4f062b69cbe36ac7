"""Scans archived JSON lines in Python workers: lines are counted, what is plain is decoded, all other lines are written as they are.

Spark-free; `parts` says what is written.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.file_names import Compression, split_extension
from cdc_ops.decode.compiler import Bytes, Int64s
from cdc_ops.decode.json.lines import find_blank, find_lines
from cdc_ops.decode.json.reader import MOST_ROWS, PlainFormat, PlainReader
from cdc_ops.formats.feed.plain import plain_format
from cdc_ops.steps.log.plain.file_scan import FileScan, FileTask, ScanTask
from cdc_ops.steps.log.plain.parts import FileParts

_BLOCK: Final = 8 * 2**20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_CODECS: Final = {Compression.GZIP: "gzip", Compression.BZIP2: "bz2", Compression.ZSTD: "zstd"}


def scan_lines(task: ScanTask, file: FileTask) -> FileScan:
    """Scans one file. What its store or its contents raise is a failure that is told: the exact way says it better."""
    form = plain_format(task.schema, task.keys, task.format)
    if not isinstance(form, PlainFormat):
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


class _Scan:
    """One file on its way."""

    def __init__(self, task: ScanTask, file: FileTask, form: PlainFormat) -> None:
        self._task, self._file, self._form = task, file, form
        self._reader = PlainReader(form=form)
        self._rest = b""
        self._lines = self._records = self._blank = 0
        self._empty: list[tuple[bytes, int]] = []
        self._parts = FileParts(task, file, form, ordered=file.start_offset >= 0)
        self._begun = False

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
        self._mark_empty()
        self._parts.finish()
        return FileScan(
            path=self._file.path,
            lines=self._records,
            blank=self._blank - (self._lines - self._records),
            seen=self._parts.seen(),
            plain=tuple(self._parts.plain),
            marked=tuple(self._parts.marked),
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
            self._parts.add_marked(data[starts[index] : ends[index]].tobytes(), int(numbers[index]))
        self._parts.add(table)
        if self._parts.is_full():
            self._mark_empty()
            self._parts.write_marked()

    def _mark_empty(self) -> None:
        """An empty line is a record if one with text follows."""
        for text, number in self._empty:
            if number < self._records:
                self._parts.add_marked(text, number)
        self._empty = [one for one in self._empty if one[1] >= self._records]
