"""Reads Parquet files as records, each row as a JSON object.

Instants are written in UTC without a zone, bytes as base64, decimals as text: JSON readers may read numbers with a fraction as 64-bit
doubles. A row with text that is not UTF-8 stays that text, and becomes bad.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from cdc_ops.archives.base import Archive
from cdc_ops.errors import ArchiveFileError
from cdc_ops.events.records.arrow_json import NotReadableError, json_values
from cdc_ops.events.records.reader import MOST_RECORDS, FileCount, Numbered, WatchedStream, emptied, garbled_texts, unreadable

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


class ParquetRecords:
    """The rows of a file, see `RecordReader`.

    Args:
        archive: The archive.
        path: The file.
        size: Its bytes, as listed.
        first_line: Rows before this one are counted, and not returned.

    Raises:
        ArchiveFileError: its name does not end with `.parquet`.
    """

    def __init__(self, archive: Archive, path: str, size: int, first_line: int = 0) -> None:
        _check_name(path)
        self._archive, self._path, self._size, self._first_line = archive, path, size, first_line
        self._lines = 0

    def batches(self) -> Iterator[list[Numbered]]:
        """See `RecordReader`."""
        if not self._size:
            return
        with closing(self._archive.open(self._path)) as stream:
            watched = WatchedStream(stream)
            if watched.seek(0, 2) < self._size:
                raise emptied(self._path, self._size)
            with self._named(watched):
                yield from self._read(watched)

    def count(self) -> FileCount:
        """See `RecordReader`."""
        return FileCount(lines=self._lines)

    @contextmanager
    def _named(self, watched: WatchedStream) -> Iterator[None]:
        """Makes what is wrong with the file an error that names it."""
        try:
            yield
        except NotReadableError as error:
            raise unreadable(self._path, str(error)) from None
        except (OSError, pa.ArrowException) as error:
            if watched.failed:
                raise
            raise unreadable(self._path, str(error).splitlines()[0].rstrip(".")) from error

    def _read(self, watched: WatchedStream) -> Iterator[list[Numbered]]:
        file = pq.ParquetFile(pa.PythonFile(watched, mode="r"), coerce_int96_timestamp_unit="us")
        enums = {leaf.path for leaf in map(file.schema.column, range(len(file.schema.names))) if leaf.logical_type.type == "ENUM"}
        names = file.schema_arrow.names
        if len(set(names)) < len(names):
            raise NotReadableError("it has two columns of one name")
        groups = range(file.metadata.num_row_groups)
        line, wanted = 0, []
        for group in groups:
            rows = file.metadata.row_group(group).num_rows
            if self._lines + rows > self._first_line:
                wanted.append(group)
            else:
                line += rows
            self._lines += rows
        for batch in file.iter_batches(MOST_RECORDS, row_groups=wanted) if wanted else ():
            skipped = min(max(self._first_line - line, 0), batch.num_rows)
            rows = _rows(batch.slice(skipped), names, enums)
            if rows:
                yield list(zip(rows, range(line + skipped, line + batch.num_rows), strict=True))
            line += batch.num_rows


def _rows(batch: pa.RecordBatch, names: Sequence[str], enums: set[str]) -> list[bytes]:
    arrays = [_as_text(column) if name in enums else column for name, column in zip(names, batch.columns, strict=True)]
    columns = [json_values(name, array, at_top=True) for name, array in zip(names, arrays, strict=True)]
    texts = [index for index, array in enumerate(arrays) if _is_text(array.type)]
    return [_row(names, values, texts) for values in zip(*columns, strict=True)]


def _row(names: Sequence[str], values: Sequence[Any], texts: Sequence[int]) -> bytes:
    try:
        return _ENCODER.encode(dict(zip(names, values, strict=True)))
    except UnicodeEncodeError:
        return garbled_texts([values[index] for index in texts if values[index] is not None], values)


def _as_text(array: pa.Array) -> pa.Array:
    """Returns names of an enumeration as texts: Arrow, which has no type for them, calls them binary."""
    if not pa.types.is_binary(array.type):
        return array
    return pa.Array.from_buffers(pa.string(), len(array), array.buffers(), offset=array.offset)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _check_name(path: str) -> None:
    if not path.endswith(".parquet"):
        raise ArchiveFileError(
            f"{path} cannot be read: its name does not end with '.parquet'.",
            why="The format of the archive needs Parquet files, and Parquet compresses inside the file, not around it.",
            data="Nothing of the batch was read.",
            next="Correct the format, or remove the file from the archive.",
        )
