r"""Debezium's change events of MongoDB flattened by ExtractNewDocumentState, as JSON with or without schemas.

    {"_id": "596e…", "n": 7, "__deleted": false, "__op": "u", "__updateDescription_updatedFields": "{\"n\": 7}",
     "__updateDescription_removedFields": ["a"]}

The transformation converts BSON types to Kafka Connect's: dates are milliseconds, decimals and ids are text, bytes are base64. Values in
documents and arrays lose their types, so no column may hold a document or an array. A record of an update has the whole document or only
its changes, and does not say which. `updateDescription` has the changes in both cases, so it is applied. Replaced documents have no
`updateDescription`. Field layouts: Debezium's documentation and source of the transformation.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind, setting
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.format import Format, Reader, unreadable
from cdc_ops.events.formats.debezium.declared.losses import SCHEMAS
from cdc_ops.events.formats.debezium.declared.mongodb import REMOVED, UPDATED
from cdc_ops.events.formats.debezium.events import is_snapshot
from cdc_ops.events.formats.debezium.flat import Added, kind_of
from cdc_ops.events.formats.debezium.mongodb.events import CREATE, NAMELESS, SILENT, patch_of
from cdc_ops.events.formats.debezium.mongodb.values import marked, read_flat
from cdc_ops.events.record import Envelope, FieldType, Image, Record
from cdc_ops.events.said import moment_of

_ID: Final = "_id"
_UPDATE, _DELETE = str(EventOperation.UPDATE), str(EventOperation.DELETE)
_NAMES: Final = msgspec.json.Decoder(list[Raw] | None)


class DebeziumMongoDbFlat:
    """Debezium's flat records of MongoDB.

    Args:
        spec: The format's declaration.
        options: Its options.
    """

    def __init__(self, spec: FormatSpec, options: FormatOptions) -> None:
        self._spec = spec
        self._only_typed = setting(self._spec, options, SCHEMAS) == "true"
        added = Added(self._spec, options)
        self._added = added
        self._op, self._names = added.text("op"), added.names_of_table("db", "collection")
        self._updated, self._removed = added.text(UPDATED), added.text(REMOVED)
        self._has_updated, self._has_removed = added.has(UPDATED), added.has(REMOVED)
        self._moment = added.number("ts_ms", top=False)
        self._transaction, self._lsid, self._number = (added.text(name) for name in ("transaction.id", "lsid", "txnNumber"))

    @property
    def spec(self) -> FormatSpec:
        """See `Format`."""
        return self._spec

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        found = self._added.taken_apart(record.value or b"")
        if found is None:
            return (Envelope(RecordKind.CONTROL),)
        row, op, deleted, image = found.row, found.op, found.deleted, marked(found.image)
        envelope = self._envelope(row, op, record.offset)
        envelope.kind, envelope.reason = kind_of(row, op)
        if reason := self._reason(row, op, image, deleted=deleted):
            envelope.kind, envelope.reason = RecordKind.BAD, reason
        if envelope.kind is RecordKind.CHANGE:
            patch = self._patch(row, image) if op == _UPDATE else None
            # The record of a replaced document has all of its fields.
            envelope.op = CREATE if op == _UPDATE and patch is None else op
            envelope.types = found.types
            envelope.before, envelope.after = (image, None) if deleted else (None, image if patch is None else patch)
        return (envelope,)

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        if kind is None and self._only_typed:
            return Reader(read=unreadable)
        return Reader(read=read_flat(column, kind))

    def _patch(self, row: Image, image: Image) -> Image | None:
        """Returns the changed fields of an update, None if the record does not say which these are."""
        try:
            names = _NAMES.decode((self._removed(row) or "null").encode())
        except msgspec.DecodeError:
            names = None
        if names is None and self._updated(row) is None:
            return None
        return patch_of(image, [name for one in names or () if (name := text_of(one)) is not None], ())

    def _reason(self, row: Image, op: str | None, image: Image, *, deleted: bool) -> str | None:
        """Returns the reason why an event cannot be applied, None if it can."""
        says_changes = self._has_updated(row) and self._has_removed(row)
        said = self._op(row)
        if (op == _UPDATE and not says_changes) or (deleted and said is not None and said != _DELETE):
            return SILENT
        return NAMELESS if op == _DELETE and _ID not in image else None

    def _envelope(self, row: Image, op: str | None, offset: int | None) -> Envelope:
        """Returns what a record says beside its document."""
        (database, collection), transaction = self._names(row), self._transaction(row)
        lsid, number = self._lsid(row), self._number(row)
        if transaction is None and lsid is not None and number is not None:
            transaction = f"{lsid}:{number}"
        return Envelope(
            RecordKind.CHANGE,
            (offset,),
            schema=database,
            table=collection,
            snapshot=is_snapshot(op, None),
            transaction=transaction,
            source_time=moment_of(self._moment(row)),
        )


def mongodb(spec: FormatSpec, options: FormatOptions) -> Format:
    """The format `debezium-mongodb-unwrapped`."""
    return DebeziumMongoDbFlat(spec, options)
