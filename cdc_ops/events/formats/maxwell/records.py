"""Maxwell's JSON.

    {"database": "shop", "table": "orders", "type": "update", "ts": 1709283600, "xid": 77, "commit": true, "position": "binlog.000003:700",
     "data": {…}, "old": {…}}

`old` holds the previous values of changed columns. Field layouts: Maxwell's documentation of its data format.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from cdc_ops.core.events.change_feed import LANDED_NUMBER
from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.bulk import reader_of
from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.conversion.octets import base64
from cdc_ops.events.conversion.values import from_text
from cdc_ops.events.format import UNREADABLE, Format, Reader
from cdc_ops.events.formats.maxwell.specs import MAXWELL
from cdc_ops.events.images import completed, image_of_values
from cdc_ops.events.record import Envelope, FieldType, Record
from cdc_ops.events.said import Bigint, binlog_place, is_truncate, kafka_offset, moment_of

_BOOTSTRAP: Final = "bootstrap-insert"
_OPERATIONS: Final[dict[str | None, EventOperation]] = {
    _BOOTSTRAP: EventOperation.READ,
    "insert": EventOperation.CREATE,
    "update": EventOperation.UPDATE,
    "delete": EventOperation.DELETE,
}
_CONTROL: Final = ("bootstrap-start", "bootstrap-complete", "heartbeat")
_STATEMENT: Final = re.compile(r"(?:table|database)-(?:create|alter|drop)")
_LAST_OF_TRANSACTION: Final = 2**62
"""Stands for the number of a transaction's last row: that row has `commit` instead of a number."""


class _Record(msgspec.Struct):
    database: Raw = Raw()
    table: Raw = Raw()
    type: Raw = Raw()
    ts: Bigint | None = None
    xid: Bigint | None = None
    xoffset: Bigint | None = None
    commit: bool | None = None
    position: Raw = Raw()
    gtid: Raw = Raw()
    sql: Raw = Raw()
    data: Raw = Raw()
    old: Raw = Raw()


_DECODER: Final = msgspec.json.Decoder(_Record)
_LABELS: Final = msgspec.json.Decoder(list[Raw])


@dataclass(frozen=True, slots=True, kw_only=True)
class Maxwell:
    """The format `maxwell`."""

    spec: FormatSpec
    options: FormatOptions

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        assert record.value is not None
        said = _DECODER.decode(record.value)
        data, old = image_of_values(said.data), image_of_values(said.old)
        kind, sql, gtid = text_of(said.type), text_of(said.sql), text_of(said.gtid)
        op = EventOperation.TRUNCATE if is_truncate(sql) else _OPERATIONS.get(kind)
        statement = kind is not None and _STATEMENT.fullmatch(kind) is not None
        envelope = Envelope(
            kind=RecordKind.CHANGE,
            op=op,
            snapshot=kind == _BOOTSTRAP,
            schema=text_of(said.database) or "",
            table=text_of(said.table) or "",
            transaction=gtid if gtid is not None or said.xid is None else str(said.xid),
            # Seconds for rows, milliseconds for statements.
            source_time=moment_of(said.ts, 1000 if statement else 1),
            ddl=sql if statement else None,
            position=_position(record, said, kind),
        )
        if op is None:
            envelope.kind = RecordKind.DDL if statement else RecordKind.CONTROL if kind in _CONTROL else RecordKind.BAD
            if envelope.kind is RecordKind.BAD:
                envelope.reason = f"unknown type {'NULL' if kind is None else kind}"
            return (envelope,)
        envelope.before = completed(data, old) if kind == "update" else data if kind == "delete" else None
        envelope.after = None if kind in ("delete", None) else data
        return (envelope,)

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        match logical_type_of(column):
            case LogicalType.BINARY:
                return reader_of(base64(column))
            case LogicalType.SET:
                return Reader(read=_labels)
            case _:
                return reader_of(from_text(column, self.options.time_zone))


def _labels(text: str) -> Any:
    """Reads the labels of a SET: a list of texts."""
    if not text.startswith("["):
        return text
    try:
        labels = [text_of(label) for label in _LABELS.decode(text.encode())]
    except (msgspec.DecodeError, UnicodeEncodeError):
        return UNREADABLE
    return ",".join(label for label in labels if label is not None)


def _position(record: Record, said: _Record, kind: str | None) -> tuple[int | None, ...]:
    number, place = binlog_place(text_of(said.position))
    if number is None and record.offset is None and kind != _BOOTSTRAP:
        return ()
    last = _LAST_OF_TRANSACTION if said.commit else LANDED_NUMBER
    return (
        None if kind is None else int(kind != _BOOTSTRAP),
        LANDED_NUMBER if number is None else number,
        LANDED_NUMBER if place is None else place,
        last if said.xoffset is None else said.xoffset,
        kafka_offset(record),
    )


def open_format(options: FormatOptions) -> Format:
    """Opens the format `maxwell`."""
    return Maxwell(spec=MAXWELL, options=options)
