r"""Alibaba Cloud DTS as JSON: what EMR's `dts_binlog_parser` makes of its Avro records; and these records themselves, see `dts_avro`.

    {"recordID": 7, "source": "…", "dbTable": "shop.orders", "recordType": "UPDATE", "recordTimestamp": "2019-11-14 10:00:00",
     "extraTags": "{}", "fields": "[…]", "beforeImages": "{\"id\": \"1\", …}", "afterImages": "{\"id\": \"1\", …}"}

All values are text. Images may be JSON text, as the parser writes them, or objects. INIT is a row of the full load.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.bulk import reader_of
from cdc_ops.events.format import Read, Reader
from cdc_ops.events.formats.dts.avro_records import CONTROL, OPERATIONS
from cdc_ops.events.images import image_of_text
from cdc_ops.events.json_text import members_of, text_of
from cdc_ops.events.record import Envelope, FieldType, Record
from cdc_ops.events.said import is_truncate, known, number_in
from cdc_ops.events.values import from_text

_FIELDS: Final = ("recordid", "dbtable", "recordtype", "recordtimestamp", "beforeimages", "afterimages")
"""In lower case, because exports through tables have lower-case names; both are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DtsJson:
    """The format `dts-json`."""

    spec: FormatSpec
    options: FormatOptions
    time: Read

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        assert record.value is not None
        number, name, kind, time, before, after = _fields(record.value)
        statement = (before if after is None else after) if kind == "DDL" else None
        truncates = is_truncate(statement)
        op = EventOperation.TRUNCATE if truncates else OPERATIONS.get(kind)
        schema, table = _split(name)
        envelope = Envelope(
            kind=RecordKind.CHANGE,
            op=op,
            snapshot=kind == "INIT",
            schema=schema,
            table=table,
            source_time=None if time is None else known(self.time(time)),
            ddl=None if truncates else statement,
            position=(None if kind is None else int(kind != "INIT"), number_in(number)),
        )
        if op is not None:
            envelope.before = image_of_text(before) if kind in ("UPDATE", "DELETE") else None
            envelope.after = image_of_text(after) if kind in ("INIT", "INSERT", "UPDATE") else None
        elif statement is not None:
            envelope.kind = RecordKind.DDL
        elif kind in CONTROL:
            envelope.kind = RecordKind.CONTROL
        else:
            envelope.kind, envelope.reason = RecordKind.BAD, f"unknown recordType {'NULL' if kind is None else kind}"
        return (envelope,)

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        return reader_of(from_text(column, self.options.time_zone))


def _fields(value: bytes) -> list[str | None]:
    """Returns the texts of `_FIELDS`."""
    members = members_of(value)
    lower = {name.lower(): cell for name, cell in members.items()}
    if len(lower) < len(members):
        raise msgspec.DecodeError("a member is there twice")
    return [text_of(lower.get(name)) for name in _FIELDS]


def _split(name: str | None) -> tuple[str, str]:
    """Returns schema and table, split at the first dot."""
    schema, dot, table = (name or "").partition(".")
    return (schema, table) if dot else ("", schema)
