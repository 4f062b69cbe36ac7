"""Scans archived JSON lines in Python workers: lines are counted, what is plain is decoded, all other lines are written as they are.

Spark-free; `parts` says what is written.
"""

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
            scan.read(stream)
            return scan.finished()
    except (OSError, EOFError, pa.ArrowException, ValueError) as error:
        return FileScan(path=file.path, failure=f"{type(error).__name__}: {error}")


def _opened(archive: Archive, file: FileTask) -> Any:
    codec = _CODECS.get(split_extension(file.path.rpartition("/")[2])[1])
    raw = archive.open(file.path)
    return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec) if codec else raw


def _after_byte_order_mark(data: Bytes) -> int:
    """Hadoop's reader of lines leaves it out, too."""
    size = len(_BYTE_ORDER_MARK)
    return size if data[:size].tobytes() == _BYTE_ORDER_MARK else 0


class _Scan:
    """One file on its way."""

    def __init__(self, task: ScanTask, file: FileTask, form: PlainFormat) -> None:
        self._task, self._file, self._form = task, file, form
        self._reader = PlainReader(form=form)
        self._room = np.empty(2 * _BLOCK, np.uint8)
        self._rest = 0
        self._lines = self._records = self._blank = 0
        self._empty: list[tuple[bytes, int]] = []
        self._parts = FileParts(task, file, form, ordered=file.start_offset >= 0 and form.offset_part is not None)

    def read(self, stream: BinaryIO) -> None:
        """Takes the bytes of the file; those of a line whose end has not come yet stay at the begin of the room."""
        begun = False
        while count := self._next_block(stream):
            data = self._room[: self._rest + count]
            start = 0
            if not begun:
                begun = True
                start = (
                    len(_BYTE_ORDER_MARK) if data[: len(_BYTE_ORDER_MARK)].tobytes() == _BYTE_ORDER_MARK else 0
                )  # so does Hadoop's reader
            done = self._add(data[start:]) + start
            self._rest = data.size - done
            self._room[: self._rest] = data[done:].copy()

    def _next_block(self, stream: BinaryIO) -> int:
        """Reads behind what is left; returns how many bytes came, 0 at the end of the file."""
        if self._room.size - self._rest < _BLOCK:
            self._room = np.concatenate([self._room[: self._rest], np.empty(self._rest + _BLOCK, np.uint8)])
        room: Any = self._room[self._rest : self._rest + _BLOCK]
        return int(stream.readinto(room) or 0)  # type: ignore[attr-defined]

    def _add(self, data: Bytes) -> int:
        """Takes the lines that are complete; returns the place behind them."""
        starts, ends = np.empty(MOST_ROWS, np.int64), np.empty(MOST_ROWS, np.int64)
        at = 0
        while count := int(find_lines(data, at, data.size, starts, ends)):
            stop = int(ends[count - 1])
            self._add_lines(data[at:stop], starts[:count] - at, ends[:count] - at)
            at = stop + 1
        return at

    def finished(self) -> FileScan:
        """Writes what is left, and tells what the file holds."""
        if self._rest:
            data = self._room[: self._rest]
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
