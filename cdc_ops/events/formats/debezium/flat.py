"""Debezium's change events flattened by ExtractNewRecordState, as JSON with or without schemas, and the same records from Avro files.

    {"id": 1, "name": "Lee", "__deleted": "false", "__op": "u", "__source_file": "binlog.000003", "__source_pos": 400, "__source_row": 0}

The transformation drops the before image, and of the envelope it keeps the fields in `add.fields`. These must include the operation and
the fields of the position. Deletes must be rewritten, or there are no records of deletes.
Field layouts: Debezium's documentation of event flattening.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from cdc_ops.core.events.change_feed import LANDED_NUMBER
from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.json_text import image_of, members_of, text_of
from cdc_ops.events.format import Format, Reader
from cdc_ops.events.formats.debezium.added_fields import added_fields, added_name
from cdc_ops.events.formats.debezium.declared.flat import DELETED
from cdc_ops.events.formats.debezium.events import is_snapshot
from cdc_ops.events.formats.debezium.images import INCOMPLETE, lacks_values, may_lack_values, unchanged_left_out
from cdc_ops.events.formats.debezium.positions import (
    Position,
    is_mariadb,
    mysql_position,
    oracle_position,
    postgres_position,
    sql_server_position,
)
from cdc_ops.events.formats.debezium.schemas import types_of_row
from cdc_ops.events.formats.debezium.values.values import Values
from cdc_ops.events.record import Envelope, FieldType, FieldTypes, Image, Record
from cdc_ops.events.said import moment_of, number_in

_OPERATIONS: Final = (EventOperation.READ, EventOperation.CREATE, EventOperation.UPDATE, EventOperation.DELETE)
_DELETE: Final = str(EventOperation.DELETE)
_BORDER: Final = {"status", "event_count", "data_collections"}
_WRAPPED: Final = {"schema", "payload"}


class FlatRow(NamedTuple):
    """A flat record.

    Args:
        row: All of its members.
        types: How its values are written, None if it does not say it.
        deleted: It is a delete.
        op: Its operation, None if it says none.
        image: The row alone, without added fields.
    """

    row: Image
    types: FieldTypes | None
    deleted: bool
    op: str | None
    image: Image


class Added:
    """The fields of the envelope that `add.fields` adds to rows.

    Args:
        spec: The format's declaration.
        options: Its options.
    """

    def __init__(self, spec: FormatSpec, options: FormatOptions) -> None:
        self._by_field = added_fields(spec, options)
        self.names = frozenset((DELETED, *self._by_field.values()))
        """The names that the fields have in records."""
        self._op = self.text("op")

    def taken_apart(self, value: bytes) -> FlatRow | None:
        """Returns a flat record, None for none.

        Raises:
            DecodeError: it is not JSON, has a member twice, or is no flat record.
        """
        row, types = _opened(value)
        if row is None:
            return None
        deleted, names = DELETED in row and text_of(row[DELETED]) == "true", self.names
        op = _DELETE if deleted else self._op(row)
        return FlatRow(row, types, deleted, op, type(row)([(name, cell) for name, cell in row.items() if name not in names]))

    def names_of_table(self, schema: str, table: str) -> Callable[[Image], tuple[str, str]]:
        """Returns what takes the names of schema and table, which are in fields of these names, out of a row; "" unless it has both."""
        first, second = self.text(schema), self.text(table)

        def names(row: Image) -> tuple[str, str]:
            one, other = first(row), second(row)
            return ("", "") if one is None or other is None else (one, other)

        return names

    def text(self, name: str, *, top: bool = True) -> "Text":
        """Returns what takes the text of a field of the envelope or of its `source` out of a row, None if the row lacks it.

        Args:
            name: The field.
            top: False if the envelope has another field of that name.
        """
        found = added_name(self._by_field, name, top=top)
        return (lambda row: text_of(row.get(found))) if found else lambda _: None

    def number(self, name: str, *, top: bool = True) -> "Number":
        """The same for a whole number, None if it is none."""
        text = self.text(name, top=top)
        return lambda row: number_in(text(row))

    def has(self, name: str) -> Callable[[Image], bool]:
        """Returns what is true for rows that have a field, even if it is NULL."""
        found = added_name(self._by_field, name)
        return (lambda row: found in row) if found else lambda _: False


Text: TypeAlias = Callable[[Image], str | None]
Number: TypeAlias = Callable[[Image], int | None]
Place: TypeAlias = Callable[[Image, str | None, bool, int | None], Position]
"""Flat record, its operation, True if it was streamed and False if a snapshot read it, offset in Kafka -> position."""


class DebeziumFlat:
    """Debezium's flat records.

    Args:
        spec: The format's declaration.
        options: Its options.
        place: Returns what finds the position of a record.
        schemas: True if `source.schema` is the table's schema, False if `source.db` is (MySQL, MariaDB).
        marks: True if the connector writes a placeholder for a value that did not change; MySQL's and MariaDB's logs have all values.
    """

    def __init__(
        self, spec: FormatSpec, options: FormatOptions, place: Callable[[Added], Place], *, schemas: bool = True, marks: bool = True
    ) -> None:
        self._spec = spec
        self._values = Values(self._spec, options)
        added = Added(self._spec, options)
        self._place, self._added, self._marks = place(added), added, marks
        self._names = added.names_of_table("schema" if schemas else "db", "table")
        self._moment = added.number("ts_ms", top=False)
        self._transactions = [added.text(name) for name in ("transaction.id", "gtid", "txId")]

    @property
    def spec(self) -> FormatSpec:
        """See `Format`."""
        return self._spec

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        value: bytes = record.value  # type: ignore[assignment]
        found = self._added.taken_apart(value)
        if found is None:
            return (Envelope(RecordKind.CONTROL),)
        row, op = found.row, found.op
        image: Image | None = found.image
        kind, reason = kind_of(row, op)
        if self._marks and may_lack_values(value):
            if lacks_values(op, image):
                kind, reason = RecordKind.BAD, INCOMPLETE
            image = unchanged_left_out(image)
        envelope = self._envelope(row, op, kind, record.offset)
        envelope.reason = reason
        if kind is RecordKind.CHANGE:
            envelope.op, envelope.types = op, found.types
            envelope.before, envelope.after = (image, None) if found.deleted else (None, image)
        return (envelope,)

    def _envelope(self, row: Image, op: str | None, kind: RecordKind, offset: int | None) -> Envelope:
        """Returns what a record says beside its row."""
        snapshot = is_snapshot(op, None)
        schema, table = self._names(row)
        return Envelope(
            kind,
            self._place(row, op, not snapshot, offset),
            schema=schema,
            table=table,
            snapshot=snapshot,
            transaction=next((found for text in self._transactions if (found := text(row)) is not None), None),
            source_time=moment_of(self._moment(row)),
        )

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        return self._values.reader(column, kind)


def _opened(value: bytes) -> tuple[Image | None, FieldTypes | None]:
    """Returns the members of a flat record, None for none, and how its values are written."""
    row = members_of(value)
    if row.keys() != _WRAPPED:
        return row, None
    return image_of(row["payload"]), types_of_row(row["schema"])  # type: ignore[arg-type]


def kind_of(row: Image, op: str | None) -> tuple[RecordKind, str | None]:
    """Returns the kind of a record. Heartbeats and transaction borders are not flattened; they have no operation."""
    if op in _OPERATIONS:
        return RecordKind.CHANGE, None
    if op is None and (row.keys() == {"ts_ms"} or row.keys() >= _BORDER):
        return RecordKind.CONTROL, None
    return RecordKind.BAD, f"the record has an unknown operation: {'NULL' if op is None else op}"


def _mysql_place(added: Added) -> Place:
    connector, gtid, file, has_row = added.text("connector"), added.text("gtid"), added.text("file"), added.has("row")
    total, pos, number = added.number("transaction.total_order"), added.number("pos"), added.number("row")

    def place(row: Image, op: str | None, streamed: bool, offset: int | None) -> Position:
        order = total(row)
        if order is None:
            # A connector that does not say MySQL may read MariaDB, whose positions do not order the statements of a transaction.
            name, said = connector(row), gtid(row)
            vague = op is not None and streamed and (is_mariadb(name, said) or (name is None and said is None))
            order = offset if vague else LANDED_NUMBER
        return mysql_position(file(row) if has_row(row) else None, pos(row), order, number(row), streamed=streamed, offset=offset)

    return place


def _postgres_place(added: Added) -> Place:
    sequence, lsn, has_sequence = added.text("sequence"), added.number("lsn"), added.has("sequence")
    total = added.number("transaction.total_order")

    def place(row: Image, op: str | None, streamed: bool, offset: int | None) -> Position:
        found = lsn(row) if has_sequence(row) else None
        return postgres_position(sequence(row), found, total(row), streamed=streamed, offset=offset)

    return place


def _sql_server_place(added: Added) -> Place:
    commit, change, serial = added.text("commit_lsn"), added.text("change_lsn"), added.number("event_serial_no")
    has_serial = added.has("event_serial_no")

    def place(row: Image, op: str | None, streamed: bool, offset: int | None) -> Position:
        return sql_server_position(commit(row) if has_serial(row) else None, change(row), serial(row), streamed=streamed, offset=offset)

    return place


def _oracle_place(added: Added) -> Place:
    commit, scn, total, sequence = (
        added.text("commit_scn"),
        added.text("scn"),
        added.number("transaction.total_order"),
        added.number("txSeq"),
    )

    def place(row: Image, op: str | None, streamed: bool, offset: int | None) -> Position:
        order = total(row)
        return oracle_position(commit(row), scn(row), sequence(row) if order is None else order, streamed=streamed, offset=offset)

    return place


def mysql(spec: FormatSpec, options: FormatOptions) -> Format:
    """The formats `debezium-mysql-unwrapped` and `debezium-mysql-unwrapped-avro`."""
    return DebeziumFlat(spec, options, _mysql_place, schemas=False, marks=False)


def postgres(spec: FormatSpec, options: FormatOptions) -> Format:
    """The formats `debezium-postgres-unwrapped` and `debezium-postgres-unwrapped-avro`."""
    return DebeziumFlat(spec, options, _postgres_place)


def sqlserver(spec: FormatSpec, options: FormatOptions) -> Format:
    """The formats `debezium-sqlserver-unwrapped` and `debezium-sqlserver-unwrapped-avro`."""
    return DebeziumFlat(spec, options, _sql_server_place)


def oracle(spec: FormatSpec, options: FormatOptions) -> Format:
    """The formats `debezium-oracle-unwrapped` and `debezium-oracle-unwrapped-avro`."""
    return DebeziumFlat(spec, options, _oracle_place)
