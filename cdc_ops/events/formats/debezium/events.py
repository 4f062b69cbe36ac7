"""Debezium's change events as JSON, with or without schemas in the records, and the same events from Avro files.

    {"before": {…}, "after": {…}, "source": {…}, "op": "u", "ts_ms": …}                       schemas.enable=false
    {"schema": {…}, "payload": {"before": {…}, "after": {…}, "source": {…}, "op": "u", …}}    schemas.enable=true

One file may have both. Field layouts: Debezium's documentation of the connectors of MySQL, MariaDB, Postgres, SQL Server and Oracle.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec import Raw

from cdc_ops.core.events.change_feed import LANDED_NUMBER
from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.json_text import images_of, untouched
from cdc_ops.events.format import Format, Reader
from cdc_ops.events.formats.debezium.images import INCOMPLETE, lacks_values, may_lack_values, unchanged_left_out
from cdc_ops.events.formats.debezium.layout import NO_JSON, Body, Parsed, Source, parsed
from cdc_ops.events.formats.debezium.positions import (
    Position,
    is_mariadb,
    mysql_position,
    oracle_position,
    postgres_position,
    sql_server_position,
)
from cdc_ops.events.formats.debezium.schemas import types_of_event
from cdc_ops.events.formats.debezium.values.values import Values
from cdc_ops.events.images import take_apart
from cdc_ops.events.record import Envelope, FieldType, Image, Record
from cdc_ops.events.said import moment_of

Event: TypeAlias = Body[str | None]
Origin: TypeAlias = Source[str | None]
Place: TypeAlias = Callable[[Event, Origin, bool, int | None], Position]
"""Event, its source, True if it was streamed and False if a snapshot read it, offset in Kafka -> position."""

UNCLEAR: Final = "the record has neither an operation nor a statement"
_NOWHERE: Final[Origin] = Source()
_CHANGE, _UPDATE, _READ = RecordKind.CHANGE, str(EventOperation.UPDATE), str(EventOperation.READ)


class DebeziumEvents:
    """Debezium's envelope.

    Args:
        spec: The format's declaration.
        options: Its options.
        place: Returns the position of an event.
        schemas: True if `source.schema` is the table's schema, False if `source.db` is (MySQL, MariaDB).
        marks: True if the connector writes a placeholder for a value that did not change; MySQL's and MariaDB's logs have all values.
    """

    def __init__(self, spec: FormatSpec, options: FormatOptions, place: Place, *, schemas: bool = True, marks: bool = True) -> None:
        self._spec = spec
        self._place, self._schemas, self._marks = place, schemas, marks
        self._values = Values(self._spec, options)

    @property
    def spec(self) -> FormatSpec:
        """See `Format`."""
        return self._spec

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        [found] = self.envelopes_of_each([record])
        take_apart(found)
        return found

    def envelopes_of_each(self, records: Sequence[Record]) -> Sequence[Sequence[Envelope]]:
        """See `cdc_ops.events.format.ReadsAtOnce`."""
        return [(self._envelope(record, parsed(record.value)),) for record in records]  # type: ignore[arg-type]

    def _envelope(self, record: Record, document: Parsed) -> Envelope:
        body: Event = document if document.payload is None else document.payload
        if body is not document:
            untouched(document.before), untouched(document.after)  # a wrong one makes the record bad
        before: Image | Raw | None = untouched(body.before)
        after: Image | Raw | None = untouched(body.after)
        types = None if document.types is NO_JSON else types_of_event(document.types)
        op, source, transaction = body.op, body.source or _NOWHERE, body.transaction
        kind, ddl, reason = _CHANGE, None, None
        if op is None or op == "m" or body.source is None or body.ddl is not None or body.status is not None:
            kind, reason = _kind(body, after)
            ddl = body.ddl
        if self._marks and may_lack_values(record.value):  # type: ignore[arg-type]
            [before, after] = images_of([body.before, body.after])
            if lacks_values(op, after):
                kind, reason = RecordKind.BAD, INCOMPLETE
            before, after = unchanged_left_out(before), unchanged_left_out(after)
        if kind is not _CHANGE:
            op = before = after = types = None
        schema, table = source.schema if self._schemas else source.db, source.table or ""
        if ddl is not None and "," in table:
            table = ""  # Debezium 3.5 joins the names of a statement's tables
        named = transaction.id if transaction is not None else None
        snapshot = is_snapshot(body.op, source.snapshot)
        return Envelope(
            kind,
            self._place(body, source, not snapshot, record.offset),
            op,
            schema if schema is not None else body.database or "",
            table,
            before,
            after,
            types,
            snapshot,
            named if named is not None else source.gtid if source.gtid is not None else source.tx_id,
            moment_of(source.ts_ms),
            ddl,
            reason,
            kind is _CHANGE and op == _UPDATE,
        )

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        return self._values.reader(column, kind)


def is_snapshot(op: str | None, mark: str | None) -> bool:
    """True for rows of an initial or incremental snapshot."""
    return op == _READ or mark not in (None, "false", "")


def _kind(body: Event, after: Image | Raw | None) -> tuple[RecordKind, str | None]:
    """Returns the kind of a record. Messages (op m, `pg_logical_emit_message`), transaction borders and heartbeats change no row."""
    without_row = body.op == "m" or body.status is not None or (body.source is None and body.ts_ms is not None)
    if body.ddl is not None:
        return RecordKind.DDL, None
    if without_row and after is None:
        return RecordKind.CONTROL, None
    return (RecordKind.CHANGE, None) if body.op is not None else (RecordKind.BAD, UNCLEAR)


def _total_order(event: Event) -> int | None:
    return event.transaction.total_order if event.transaction is not None else None


def _mysql_place(event: Event, source: Origin, streamed: bool, offset: int | None) -> Position:
    total = _total_order(event)
    if total is None:
        vague = streamed and is_mariadb(source.connector, source.gtid) and event.op not in (None, EventOperation.TRUNCATE)
        total = offset if vague else LANDED_NUMBER
    return mysql_position(source.file, source.pos, total, source.row, streamed=streamed, offset=offset)


def _postgres_place(event: Event, source: Origin, streamed: bool, offset: int | None) -> Position:
    return postgres_position(source.sequence, source.lsn, _total_order(event), streamed=streamed, offset=offset)


def _sql_server_place(event: Event, source: Origin, streamed: bool, offset: int | None) -> Position:
    return sql_server_position(source.commit_lsn, source.change_lsn, source.event_serial_no, streamed=streamed, offset=offset)


def _oracle_place(event: Event, source: Origin, streamed: bool, offset: int | None) -> Position:
    total = _total_order(event)
    number = source.tx_seq if total is None else total
    return oracle_position(source.commit_scn, source.scn, number, streamed=streamed, offset=offset)


def mysql(spec: FormatSpec, options: FormatOptions) -> Format:
    """The formats `debezium-mysql` and `debezium-mysql-avro`."""
    return DebeziumEvents(spec, options, _mysql_place, schemas=False, marks=False)


def postgres(spec: FormatSpec, options: FormatOptions) -> Format:
    """The formats `debezium-postgres` and `debezium-postgres-avro`."""
    return DebeziumEvents(spec, options, _postgres_place)


def sqlserver(spec: FormatSpec, options: FormatOptions) -> Format:
    """The formats `debezium-sqlserver` and `debezium-sqlserver-avro`."""
    return DebeziumEvents(spec, options, _sql_server_place)


def oracle(spec: FormatSpec, options: FormatOptions) -> Format:
    """The formats `debezium-oracle` and `debezium-oracle-avro`."""
    return DebeziumEvents(spec, options, _oracle_place)
