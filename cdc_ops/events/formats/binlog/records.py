"""Binlogs of MySQL and MariaDB, as the records that are made of them.

    {"kind": "change", "op": "u", "file_no": "7", "pos": "1660", "inner": "0", "row": "0", "gtid": "0-1-9", "micros": "1709283600000000",
     "database": "shop", "table": "orders", "before": {…}, "after": {…}}

`events.binlog.texts` writes these records of what the reference decoder reads; every value is a text or `null`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.bulk import reader_of
from cdc_ops.events.conversion.json_text import image_of, text_of
from cdc_ops.events.conversion.octets import base64, from_base64
from cdc_ops.events.conversion.values import from_text
from cdc_ops.events.format import UNREADABLE, Format, Reader, unreadable
from cdc_ops.events.formats.binlog.specs import MYSQL_BINLOG
from cdc_ops.events.record import Envelope, FieldType, Record
from cdc_ops.events.said import number_in

_KINDS: Final = {str(kind): kind for kind in (RecordKind.CHANGE, RecordKind.DDL, RecordKind.CONTROL)}


class _Record(msgspec.Struct):
    kind: Raw = Raw()
    op: Raw = Raw()
    file_no: Raw = Raw()
    pos: Raw = Raw()
    inner: Raw = Raw()
    row: Raw = Raw()
    gtid: Raw = Raw()
    micros: Raw = Raw()
    database: Raw = Raw()
    table: Raw = Raw()
    before: Raw = Raw()
    after: Raw = Raw()
    sql: Raw = Raw()
    reason: Raw = Raw()


_DECODER: Final = msgspec.json.Decoder(_Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlBinlog:
    """The format `mysql-binlog`."""

    spec: FormatSpec

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        assert record.value is not None
        said = _DECODER.decode(record.value)
        name, before, after = text_of(said.kind), image_of(said.before), image_of(said.after)
        kind, reason = _KINDS.get(name or "", RecordKind.BAD), text_of(said.reason)
        if kind is not RecordKind.BAD:
            reason = None
        elif reason is None:
            reason = f"unknown kind {'NULL' if name is None else name}"
        is_change = kind is RecordKind.CHANGE
        return (
            Envelope(
                kind=kind,
                reason=reason,
                op=text_of(said.op),
                schema=text_of(said.database) or "",
                table=text_of(said.table) or "",
                before=before if is_change else None,
                after=after if is_change else None,
                transaction=text_of(said.gtid),
                source_time=number_in(text_of(said.micros)),
                ddl=text_of(said.sql),
                position=(
                    number_in(text_of(said.file_no)),
                    number_in(text_of(said.pos)),
                    number_in(text_of(said.inner), "int"),
                    number_in(text_of(said.row), "int"),
                ),
            ),
        )

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        declared = DeclaredType.parse(column.source_type).base
        match logical_type_of(column):
            case LogicalType.BINARY | LogicalType.GEOMETRY | LogicalType.VECTOR:
                return reader_of(base64(column))
            case LogicalType.UUID:
                return Reader(read=_uuid)
            case LogicalType.TEXT if declared == "inet4":
                return Reader(read=_inet4)
            case LogicalType.TEXT if declared == "inet6":
                return Reader(read=unreadable)  # its text has rules of its own: such a record is bad, and never wrong
            case _:
                return reader_of(from_text(column, "UTC"))


def _uuid(text: str) -> Any:
    """MariaDB's UUID is 16 bytes in the order of its text."""
    found = from_base64(text)
    if found is UNREADABLE or len(found) != 16:
        return UNREADABLE
    digits = found.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _inet4(text: str) -> Any:
    found = from_base64(text)
    return UNREADABLE if found is UNREADABLE or len(found) != 4 else ".".join(map(str, found))


def open_format(options: FormatOptions) -> Format:
    """Opens the format `mysql-binlog`."""
    return MySqlBinlog(spec=MYSQL_BINLOG)
