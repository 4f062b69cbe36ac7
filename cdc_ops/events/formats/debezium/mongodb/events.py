"""Debezium's change events of MongoDB, as JSON, and the same events from Avro files.

    {"op": "u", "before": "{…}", "after": "{…}", "updateDescription": {"updatedFields": "{…}", "removedFields": ["a"],
     "truncatedArrays": [{"field": "b", "size": 2}]}, "source": {"db": "shop", "collection": "orders", "ord": 1, …}, …}

Documents are text in extended JSON, in Avro too. An update has the whole document or only its changes, depending on `capture.mode`. Events
have no field for the document's `_id`: it is in one of the documents, or in the record's key where archives hold records as
{"key": …, "value": …}.

The order is the offset in Kafka. `source.ts_ms` is the clock of the server that wrote (`wallTime`); `ord` counts within a second of another
clock; both are the same for all changes of a transaction. Field layouts: Debezium's documentation and source of the connector.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind, setting
from cdc_ops.core.schema.declared_tables import DOCUMENT_COLUMN
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.format import Format, Reader
from cdc_ops.events.formats.debezium.declared.mongodb import CAPTURE_MODE, FULL_UPDATE
from cdc_ops.events.formats.debezium.events import is_snapshot
from cdc_ops.events.formats.debezium.mongodb.values import IN_PART, fields_of, is_in_part, read
from cdc_ops.events.record import DoubledImage, Envelope, FieldType, Image, Record
from cdc_ops.events.said import Bigint, Int, moment_of

SILENT: Final = "the update does not have the changed fields"
NAMELESS: Final = "the record does not identify its document: it has neither a before image nor a key"
CREATE: Final = str(EventOperation.CREATE)
_UPDATE, _DELETE = str(EventOperation.UPDATE), str(EventOperation.DELETE)
_NO_OPERATION: Final = "the record has no operation"
_NONE: Final = Raw()
"""Stands for a member that is not there."""


class _Cut(Struct, gc=False):
    field: Raw = _NONE
    size: Int | None = None


class _Description(Struct, rename="camel"):
    updated_fields: Raw = _NONE
    removed_fields: list[Raw] | None = None
    truncated_arrays: list[_Cut | None] | None = None


class _Source(Struct, gc=False, rename={"txn_number": "txnNumber"}):
    db: Raw = _NONE
    collection: Raw = _NONE
    ts_ms: Bigint | None = None
    snapshot: Raw = _NONE
    txn_number: Bigint | None = None
    lsid: Raw = _NONE


class _Transaction(Struct, gc=False):
    id: Raw = _NONE


class _Body(Struct, rename={"description": "updateDescription"}):
    op: Raw = _NONE
    before: Raw = _NONE
    after: Raw = _NONE
    description: _Description | None = None
    source: _Source | None = None
    ts_ms: Bigint | None = None
    status: Raw = _NONE
    transaction: _Transaction | None = None


class _Event(_Body, rename={"description": "updateDescription"}):
    payload: _Body | None = None


class _KeyPayload(Struct, gc=False):
    id: Raw = _NONE


class _Key(_KeyPayload):
    payload: _KeyPayload | None = None


class _Document(_Event, rename={"description": "updateDescription"}):
    key: _Key | None = None
    value: _Event | None = None


_DECODER: Final = msgspec.json.Decoder(_Document)


class DebeziumMongoDb:
    """Debezium's events of MongoDB.

    Args:
        spec: The format's declaration.
        options: Its options.
    """

    def __init__(self, spec: FormatSpec, options: FormatOptions) -> None:
        self._spec = spec
        self._document = setting(spec, options, DOCUMENT_COLUMN)
        self._looks_up = "update_full" in setting(spec, options, CAPTURE_MODE) and setting(spec, options, FULL_UPDATE) == "lookup"

    @property
    def spec(self) -> FormatSpec:
        """See `Format`."""
        return self._spec

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        body, key_text = _opened(record.value or b"")
        op = text_of(body.op)
        before, after = self._fields(body.before), self._fields(body.after)
        key = None if key_text is None else fields_of(f'{{"_id":{key_text}}}')
        patch = self._patch(body.description) if op == _UPDATE and after is None else None
        envelope = _envelope(body, op, record.offset)
        envelope.reason = _reason(body, op, is_nameless=after is None and before is None and key is None)
        if envelope.reason is not None:
            envelope.kind = RecordKind.BAD
        elif patch is not None and self._looks_up and any(map(is_in_part, patch.values())):
            envelope.kind = RecordKind.CONTROL  # the document was deleted before the connector looked it up: the delete follows
        else:
            envelope.kind, envelope.reason = _kind(body, op, key_text)
        if envelope.kind is RecordKind.CHANGE:
            envelope.before = (before if before is not None else key) if op == _DELETE else before
            envelope.after = _patched(before if before is not None else key, patch) if op == _UPDATE and after is None else after
            # An event with the whole document replaces the one before: fields that it lacks are gone.
            envelope.op = CREATE if op == _UPDATE and (after is not None or before is not None) else op
        return (envelope,)

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        return Reader(read=read(column))

    def _fields(self, document: Raw) -> Image | None:
        """Returns the fields of a document, and the whole document as the column that the table declares for it."""
        fields = fields_of(document)
        if fields is not None and self._document:
            fields[self._document] = text_of(document)
        return fields

    def _patch(self, described: _Description | None) -> Image | None:
        """Returns the changed fields of an update, see `patch_of`; None if they are not readable."""
        always = (self._document,) if self._document else ()
        if described is None:
            return patch_of({}, (), (), always)
        fields = fields_of(described.updated_fields) if text_of(described.updated_fields) is not None else {}
        if fields is None:
            return None
        removed = [name for one in described.removed_fields or () if (name := text_of(one)) is not None]
        cut = [name for one in described.truncated_arrays or () if one is not None and (name := text_of(one.field)) is not None]
        return patch_of(fields, removed, cut, always)


def patch_of(fields: Image, removed: Iterable[str], cut: Iterable[str], always: tuple[str, ...] = ()) -> Image:
    """Returns the top-level fields that an update changed: their new values, NULL for removed fields, `IN_PART` for partly known ones.

    >>> patch_of({"a": "1", "b.c": "2"}, ["d", "b.e"], ["f"])
    {'a': '1', 'd': None, 'b': 'changed in part: b.c, b.e', 'f': 'changed in part: f'}

    Args:
        fields: The fields that were set, by name or by path with dots.
        removed: The names or paths of fields that were removed.
        cut: Arrays that were truncated.
        always: Columns that every update changes in part, such as the whole document.
    """
    patch = type(fields)([(name, cell) for name, cell in fields.items() if "." not in name])
    paths = dict.fromkeys(name for name in fields if "." in name)
    for name in removed:
        if "." in name:
            paths[name] = None
        else:
            patch.setdefault(name, None)
    paths.update(dict.fromkeys(cut))
    parts: dict[str, list[str]] = {}
    for path in paths:
        parts.setdefault(path.partition(".")[0], []).append(path)
    for name in (*parts, *always):
        patch.setdefault(name, IN_PART + (", ".join(parts.get(name, ())) or name))
    return patch


def _patched(image: Image | None, patch: Image | None) -> Image | None:
    """Returns an image with changes; None if one of them is not known."""
    if image is None or patch is None:
        return None
    kind = DoubledImage if DoubledImage in (type(image), type(patch)) else dict
    return kind({**{name: cell for name, cell in image.items() if name not in patch}, **patch})


def _opened(value: bytes) -> tuple[_Body, str | None]:
    """Returns the event of a record, with or without a schema around it and a key beside it, and that key."""
    document = _DECODER.decode(value)
    holder = document if document.value is None else document.value
    key = document.key
    id_text = None
    if key is not None:
        id_text = text_of(key.payload.id) if key.payload is not None else None
        id_text = text_of(key.id) if id_text is None else id_text
    return (holder if holder.payload is None else holder.payload), id_text


def _envelope(body: _Body, op: str | None, offset: int | None) -> Envelope:
    """Returns what a record says beside its documents."""
    source = body.source or _Source()
    lsid = text_of(source.lsid)
    named = None if body.transaction is None else text_of(body.transaction.id)
    if named is None and lsid is not None and source.txn_number is not None:
        named = f"{lsid}:{source.txn_number}"
    return Envelope(
        RecordKind.CHANGE,
        (offset,),
        schema=text_of(source.db) or "",
        table=text_of(source.collection) or "",
        snapshot=is_snapshot(op, text_of(source.snapshot)),
        transaction=named,
        source_time=moment_of(source.ts_ms),
    )


def _reason(body: _Body, op: str | None, *, is_nameless: bool) -> str | None:
    """Returns the reason why an event cannot be applied, None if it can."""
    if op == _UPDATE and body.description is None and text_of(body.after) is None:
        return SILENT
    return NAMELESS if is_nameless and op in (_UPDATE, _DELETE) else None


def _kind(body: _Body, op: str | None, key: str | None) -> tuple[RecordKind, str | None]:
    """Returns the kind of a record. Transaction borders, heartbeats, and tombstones beside their key change nothing."""
    if op is not None:
        return RecordKind.CHANGE, None
    if text_of(body.status) is not None or (body.source is None and (body.ts_ms is not None or key is not None)):
        return RecordKind.CONTROL, None
    return RecordKind.BAD, _NO_OPERATION


def mongodb(spec: FormatSpec, options: FormatOptions) -> Format:
    """The formats `debezium-mongodb` and `debezium-mongodb-avro`."""
    return DebeziumMongoDb(spec, options)
