"""Canal's flat messages, and TiCDC's dialect of them.

    {"id": 1, "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": false, "type": "UPDATE", "es": 1709283600000, "ts": …,
     "sql": "", "mysqlType": {…}, "data": [{"id": "1", …}, …], "old": [{"name": "Lee"}, …]}

One message may hold many rows; all values are text. Canal's messages have no position in the log, so the order is the message's offset in
Kafka, which the archive has to keep. TiCDC has `_tidb.commitTs` instead. Field layouts: Canal's FlatMessage, TiCDC's Canal-JSON protocol.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import Raw

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.schema.logical_types import LogicalType, labels_of, logical_type_of
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion import bulk
from cdc_ops.events.conversion.bulk import quick, reader_of
from cdc_ops.events.conversion.json_text import image_of, text_of
from cdc_ops.events.conversion.octets import padded
from cdc_ops.events.conversion.values import from_text
from cdc_ops.events.format import UNREADABLE, Bulk, Format, Read, Reader
from cdc_ops.events.formats.canal.specs import CANAL, TICDC
from cdc_ops.events.images import completed
from cdc_ops.events.record import Envelope, FieldType, Image, Record
from cdc_ops.events.said import Bigint, is_truncate, kafka_offset, moment_of

_OPERATIONS: Final[dict[str | None, EventOperation]] = {
    "INSERT": EventOperation.CREATE,
    "UPDATE": EventOperation.UPDATE,
    "DELETE": EventOperation.DELETE,
}


class _Marks(msgspec.Struct, rename="camel"):
    commit_ts: Bigint | None = None
    watermark_ts: Bigint | None = None
    only_handle_key: bool | None = None
    claim_check_location: Raw = Raw()


class _Message(msgspec.Struct):
    database: Raw = Raw()
    table: Raw = Raw()
    type: Raw = Raw()
    is_ddl: bool | None = msgspec.field(default=None, name="isDdl")
    es: Bigint | None = None
    sql: Raw = Raw()
    gtid: Raw = Raw()
    data: list[Raw] | None = None
    old: list[Raw] | None = None
    marks: _Marks | None = msgspec.field(default=None, name="_tidb")


_DECODER: Final = msgspec.json.Decoder(_Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanalJson:
    """The formats `canal` and `ticdc-canal`."""

    spec: FormatSpec
    options: FormatOptions

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        assert record.value is not None
        return tuple(self._rows(record, _DECODER.decode(record.value)))

    def _rows(self, record: Record, said: _Message) -> Iterator[Envelope]:
        kind, sql, gtid = text_of(said.type), text_of(said.sql), text_of(said.gtid)
        schema, table = text_of(said.database) or "", text_of(said.table) or ""
        rows = [image_of(row) for row in said.data or ()]
        olds = [image_of(row) for row in said.old or ()]
        is_ddl, is_cut = bool(said.is_ddl), _is_cut(said.marks)
        truncates = is_ddl and (kind == "TRUNCATE" or is_truncate(sql))
        # A message without rows makes one envelope too.
        for element, row in enumerate((() if is_ddl else rows) or (None,)):
            envelope = Envelope(
                kind=RecordKind.CHANGE,
                op=EventOperation.TRUNCATE if truncates else None if row is None else _OPERATIONS.get(kind),
                schema=schema,
                table=table,
                transaction=gtid or None,
                source_time=moment_of(said.es),
                ddl=sql if is_ddl and not truncates else None,
                position=self._position(record, said, element),
            )
            if is_cut or envelope.op is None:
                _is_no_change(envelope, said, kind, is_cut=is_cut)
            else:
                _set_images(envelope, kind, row, olds[element] if element < len(olds) else None)
            yield envelope

    def _position(self, record: Record, said: _Message, element: int) -> tuple[int | None, ...]:
        if self.spec is TICDC:
            return (said.marks.commit_ts if said.marks else None, kafka_offset(record), element)
        return (record.offset, element)

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        match logical_type_of(column):
            case LogicalType.BINARY:
                return reader_of(padded(column, _latin1))
            case LogicalType.ENUM | LogicalType.SET:
                return reader_of(_of_labels(column))
            case _:
                return reader_of(from_text(column, self.options.time_zone))


def _is_cut(marks: _Marks | None) -> bool:
    """True for a message that was too large: TiCDC cut it to its key, or stored it elsewhere (`large-message-handle-option`)."""
    return marks is not None and (bool(marks.only_handle_key) or bool(text_of(marks.claim_check_location)))


def _is_no_change(envelope: Envelope, said: _Message, kind: str | None, *, is_cut: bool) -> None:
    """Says what a message is that has no row."""
    if is_cut:
        envelope.kind, envelope.reason = RecordKind.BAD, "the message was too large, so it has only the key of its row"
    elif said.is_ddl:
        envelope.kind = RecordKind.DDL
    elif said.marks is not None and said.marks.watermark_ts is not None:
        envelope.kind = RecordKind.CONTROL
    else:
        envelope.kind = RecordKind.BAD
        envelope.reason = f"the message has an unknown type: {'NULL' if kind is None else kind}"


def _set_images(envelope: Envelope, kind: str | None, row: Image | None, old: Image | None) -> None:
    if kind == "UPDATE":
        envelope.before = completed(row, row if old is None else old)
    elif kind == "DELETE":
        envelope.before = row
    if kind in ("INSERT", "UPDATE"):
        envelope.after = row


def _latin1(text: str) -> Any:
    """Reads bytes that were written as one character each."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return UNREADABLE


def _all_latin1(texts: Sequence[str | None]) -> pa.Array:
    return pa.array([None if text is None else text.encode("latin-1") for text in texts], pa.binary())


quick(_latin1, Bulk((str,), _all_latin1))


def _of_labels(column: Column) -> Read:
    """Returns what reads text made of the column's declared labels: some versions write their numbers instead."""
    labels = frozenset(("", *labels_of(column)))
    mark = "," if logical_type_of(column) is LogicalType.SET else "\0"

    def read(text: str) -> Any:
        return text if text in labels or labels.issuperset(text.split(mark)) else UNREADABLE

    def read_all(found: pa.Array) -> pa.Array:
        if not all(read(text) is text for text in found.unique().to_pylist() if text is not None):
            raise ValueError("not made of labels")
        return found

    return quick(read, bulk.TEXTS.then(read_all))


def open_format(options: FormatOptions) -> Format:
    """Opens the formats `canal` and `ticdc-canal`."""
    return CanalJson(spec=TICDC if options.name == TICDC.name else CANAL, options=options)
