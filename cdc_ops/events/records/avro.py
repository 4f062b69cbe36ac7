"""Reads Avro files as records, each as the JSON document that Kafka Connect's JsonConverter writes for it.

    header and blocks of a file -> the same blocks without compression, under a schema for reading -> fastavro -> JSON

A document is `{"schema": ..., "payload": ...}`, or only the payload if the file lacks Kafka Connect's types. Bytes are base64. Values
are as they are stored: numbers stay numbers, decimals stay bytes. A value of a union of several types is an object with one member,
`member_<name of the type>`; records of files with such unions have no NULL members. Text that is not UTF-8 makes the record bad.

Source: Avro's specification, object container files.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any, Final

import fastavro
import msgspec

from cdc_ops.archives.base import Archive
from cdc_ops.core.archive.avro_header import AvroHeader, header_of
from cdc_ops.events.records.avro_blocks import AvroBlocks, AvroCutError, AvroDamagedError
from cdc_ops.events.records.avro_schemas import connect_schema
from cdc_ops.events.records.avro_values import AvroValues, for_reading
from cdc_ops.events.records.reader import MOST_RECORDS, FileCount, Numbered, WatchedStream, emptied, garbled_texts, unreadable

_ENCODE: Final = msgspec.json.Encoder().encode
_DAMAGED: Final = (EOFError, ValueError, TypeError, KeyError, LookupError, StopIteration, OverflowError, MemoryError, RecursionError)
"""What fastavro raises at bytes that are not of the schema."""


class AvroRecords:
    """The records of a file, see `RecordReader`.

    Args:
        archive: The archive.
        path: The file.
        size: Its bytes, as listed.
        first_line: Records before this one are counted, and not returned.

    Raises:
        ArchiveFileError: it is no Avro file, or one that ends in the middle.
    """

    def __init__(self, archive: Archive, path: str, size: int, first_line: int = 0) -> None:
        self._archive, self._path, self._size, self._first_line = archive, path, size, first_line
        self._lines = 0
        self._header = self._read_header() if size else None

    def batches(self) -> Iterator[list[Numbered]]:
        """See `RecordReader`."""
        header = self._header
        if header is None or self._size <= header.size:
            return
        schema = self._schema(header)
        with closing(self._archive.open(self._path)) as stream:
            watched = WatchedStream(stream)
            try:
                yield from self._read(watched, header, schema)
            except AvroCutError:
                raise emptied(self._path, self._size) from None
            except AvroDamagedError as error:
                raise unreadable(self._path, str(error)) from error.__cause__
            except _DAMAGED as error:
                if watched.failed:
                    raise
                raise unreadable(self._path, f"its records do not fit its schema: {error!r}") from error

    def count(self) -> FileCount:
        """See `RecordReader`."""
        return FileCount(lines=self._lines)

    def _read_header(self) -> AvroHeader:
        """Returns the header of a file, after a check of both ends of the file that it is complete."""
        try:
            header = header_of(self._archive, self._path, self._size)
        except (EOFError, ValueError) as error:
            raise unreadable(self._path, str(error)) from None
        if self._size > header.size:
            self._schema(header)
        return header

    def _schema(self, header: AvroHeader) -> dict[str, Any]:
        try:
            schema = json.loads(header.schema)
        except ValueError:
            schema = None
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise unreadable(self._path, "its schema is not a record schema")
        return schema

    def _read(self, stream: WatchedStream, header: AvroHeader, schema: dict[str, Any]) -> Iterator[list[Numbered]]:
        document = _documents(schema)
        blocks = AvroBlocks(stream, header, self._size, json.dumps(for_reading(schema)).encode(), self._first_line)
        file: Any = blocks
        records = fastavro.reader(file, handle_unicode_errors="surrogateescape")
        line = -1
        while batch := [document(record) for record in islice(records, MOST_RECORDS)]:
            if line < 0:
                line = blocks.left_out
            wanted = max(self._first_line - line, 0)
            numbered: list[Numbered] = list(zip(batch[wanted:], range(line + wanted, line + len(batch)), strict=True))
            if numbered:
                yield numbered
            line += len(batch)
        self._lines = blocks.records


def _documents(schema: dict[str, Any]) -> Callable[[Any], bytes]:
    """Returns what writes a record as a JSON document."""
    described, values = connect_schema(schema), AvroValues(schema)
    convert = values.converter()
    begin, end = ("", "") if described is None else (f'{{"schema":{described},"payload":', "}")
    head, tail = begin.encode(), end.encode()

    def document(record: Any) -> bytes:
        plain = record if convert is None else convert(record)
        try:
            return head + _ENCODE(plain) + tail
        except UnicodeEncodeError:
            return garbled_texts(values.texts(plain), plain)

    return document
