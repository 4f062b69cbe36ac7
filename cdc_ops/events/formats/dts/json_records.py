r"""Alibaba Cloud DTS as JSON: what EMR's `dts_binlog_parser` makes of its Avro records (`avro_records`).

    {"recordID": 7, "source": "…", "dbTable": "shop.orders", "recordType": "UPDATE", "recordTimestamp": "2019-11-14 10:00:00",
     "extraTags": "{}", "fields": "[…]", "beforeImages": "{\"id\": \"1\", …}", "afterImages": "{\"id\": \"1\", …}"}

All values are text. Images may be JSON text, as the parser writes them, or objects. INIT is a row of the full load.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.bulk import reader_of
from cdc_ops.events.conversion.json_text import members_of, text_of
from cdc_ops.events.conversion.values import from_text
from cdc_ops.events.format import Read, Reader
from cdc_ops.events.formats.dts.kinds import envelope_of
from cdc_ops.events.images import image_of_text
from cdc_ops.events.record import Envelope, FieldType, Record
from cdc_ops.events.said import known, number_in

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
        envelope = envelope_of("recordType", kind, before if after is None else after, number_in(number))
        envelope.schema, envelope.table = _split(name)
        envelope.source_time = None if time is None else known(self.time(time))
        envelope.before = image_of_text(before) if kind in ("UPDATE", "DELETE") else None
        envelope.after = image_of_text(after) if kind in ("INIT", "INSERT", "UPDATE") else None
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
