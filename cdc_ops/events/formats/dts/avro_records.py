"""Alibaba Cloud DTS's Avro records, archived in Avro files.

    {"id": 7, "operation": "UPDATE", "objectName": "shop.orders", "fields": [{"name": "id", "dataTypeNumber": 8}, …],
     "beforeImages": [{"precision": 8, "value": "1"}, …], "afterImages": …}

An image is a list of values in the order of `fields`, each of one of a dozen types. `fields` has the number of each column's MySQL type.
Source: `Record.avsc` and the converter for MySQL in the example that DTS's documentation refers to. The fields called `millis` there hold
microseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from cdc_ops.core.events.format_spec import EventOperation, FormatSpec, RecordKind
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.bulk import reader_of
from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.conversion.octets import base64, from_base64
from cdc_ops.events.conversion.values import from_text
from cdc_ops.events.format import UNREADABLE, Read, Reader, unreadable
from cdc_ops.events.formats.dts.avro_values import BYTES, CHARACTER, TEXT, Entry, Value, entry_of
from cdc_ops.events.formats.dts.kinds import OPERATIONS, envelope_of
from cdc_ops.events.images import completed
from cdc_ops.events.record import Envelope, FieldType, FieldTypes, Image, Record
from cdc_ops.events.said import Bigint, Int, moment_of

_MYSQL: Final = ("MySQL", "DRDS")
_UTF8: Final = ("utf8", "utf8mb3", "utf8mb4", "utf-8", "ascii", "us-ascii")
_POINT: Final = r"\u002E"
"""The six characters that stand for a point within a name."""


class _Source(msgspec.Struct):
    source_type: Raw = msgspec.field(default=Raw(), name="sourceType")


class _Field(msgspec.Struct):
    name: Raw = Raw()
    number: Int | None = msgspec.field(default=None, name="dataTypeNumber")


class _Fields(msgspec.Struct):
    fields: list[_Field | None] | None = msgspec.field(default=None, name="member_array")


class _Values(msgspec.Struct):
    statement: Raw = msgspec.field(default=Raw(), name="member_string")
    values: list[Value | None] | None = msgspec.field(default=None, name="member_array")


class _Record(msgspec.Struct, rename="camel"):
    id: Bigint | None = None
    source_timestamp: Bigint | None = None
    source_txid: Raw = Raw()
    source: _Source | None = None
    operation: Raw = Raw()
    object_name: Raw = Raw()
    fields: _Fields | None = None
    before_images: _Values | None = None
    after_images: _Values | None = None


_DECODER: Final = msgspec.json.Decoder(_Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class DtsAvro:
    """The format `dts-avro`."""

    spec: FormatSpec

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        assert record.value is not None
        said = _DECODER.decode(record.value)
        kind = text_of(said.operation)
        before, after = _entries(said, said.before_images), _entries(said, said.after_images)
        envelope = envelope_of("operation", kind, _statement(said), said.id)
        envelope.schema, envelope.table = _name(text_of(said.object_name))
        envelope.transaction = text_of(said.source_txid) or None
        envelope.source_time = moment_of(said.source_timestamp, 1)
        if reason := _reason(said, kind, before, after):
            envelope.kind, envelope.reason = RecordKind.BAD, reason
        elif envelope.op is not None:
            _set_images(envelope, before, after)
        return (envelope,)

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        if logical_type_of(column) is LogicalType.BINARY:
            return reader_of(base64(column) if kind is not None and kind.type in (CHARACTER, BYTES) else unreadable)
        if kind is None or (kind.type == CHARACTER and kind.name not in _UTF8):
            return Reader(read=unreadable)
        read = from_text(column, "UTC")
        return reader_of(_of_characters(read) if kind.type == CHARACTER else read if kind.type == TEXT else unreadable)


def _of_characters(read: Read) -> Read:
    """Returns what reads a text that is written as its bytes."""

    def of_bytes(text: str) -> Any:
        content = from_base64(text)
        if content is UNREADABLE:
            return UNREADABLE
        try:
            return read(content.decode())
        except UnicodeDecodeError:
            return UNREADABLE

    return of_bytes


def _statement(said: _Record) -> str | None:
    after, before = ((text_of(one.statement) if one is not None else None) for one in (said.after_images, said.before_images))
    return before if after is None else after


def _entries(said: _Record, images: _Values | None) -> list[Entry] | None:
    """Returns the entries of an image: for each column its name, its text, and how the text is encoded."""
    fields = said.fields.fields if said.fields is not None else None
    values = images.values if images is not None else None
    if fields is None or values is None or len(fields) != len(values):
        return None
    names = [(None, None) if field is None else (text_of(field.name), field.number) for field in fields]
    if any(name is None for name, _ in names):
        raise msgspec.DecodeError("a field has no name")
    return [entry_of(name or "", number, value) for (name, number), value in zip(names, values, strict=True)]


def _reason(said: _Record, kind: str | None, before: list[Entry] | None, after: list[Entry] | None) -> str | None:
    """Returns why a change record is bad; None if it is not."""
    if said.source is None or text_of(said.source.source_type) not in _MYSQL:
        return "the record is not from MySQL: other sources number types differently"
    if kind not in OPERATIONS:
        return None
    if (before is None and kind in ("UPDATE", "DELETE")) or (after is None and kind != "DELETE"):
        return "the record does not have one value per field"
    entries = [*(after or ()), *(before or ())]
    for image in (before, after):
        if image is not None and len({entry.name for entry in image}) < len(image):
            return "the record has a field twice"
    written = {(entry.name, entry.kind, entry.charset) for entry in entries if entry.kind}
    if len({name for name, _, _ in written}) < len(written):
        return "the record has values of two types for a field"
    return None


def _set_images(envelope: Envelope, before: list[Entry] | None, after: list[Entry] | None) -> None:
    old, new = _image(before), _image(after)
    if envelope.op in (EventOperation.UPDATE, EventOperation.DELETE):
        envelope.before = old
    if envelope.op is EventOperation.UPDATE:
        envelope.after = completed(old, new)
    elif envelope.op in (EventOperation.READ, EventOperation.CREATE):
        envelope.after = new
    envelope.types = _types(tuple((entry.name, entry.kind, entry.charset) for entry in (*(after or ()), *(before or ())) if entry.kind))


def _image(entries: list[Entry] | None) -> Image | None:
    """Returns an image of texts, without the columns that are marked as missing."""
    return None if entries is None else {entry.name: entry.text for entry in entries if not entry.is_missing}


@lru_cache(maxsize=1024)
def _types(written: tuple[tuple[str, str, str], ...]) -> FieldTypes:
    return FieldTypes({name: FieldType(type=kind, name=charset) for name, kind, charset in written})


def _name(name: str | None) -> tuple[str, str]:
    """Returns schema and table of a name of two parts."""
    parts = [part.replace(_POINT, ".") for part in (name or "").split(".")]
    return (parts[0], parts[1]) if len(parts) == 2 else ("", "")
