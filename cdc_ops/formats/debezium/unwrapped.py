"""Debezium's change events flattened by ExtractNewRecordState, as JSON with or without schemas; inside Spark.

    {"id": 1, "name": "Lee", "__deleted": "false", "__op": "u", "__source_file": "binlog.000003", "__source_pos": 400, "__source_row": 0}

The transformation drops the before image, and of the envelope it keeps the fields in `add.fields`. These must include the operation and
the fields of the position. Deletes must be rewritten, or there are no records of deletes.
Field layouts: Debezium's documentation of event flattening.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.formats.debezium_flat import DELETED
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.debezium import values as spelled
from cdc_ops.formats.debezium.added_fields import added_fields, added_name
from cdc_ops.formats.debezium.json_events import (
    INCOMPLETE,
    is_mariadb,
    is_snapshot,
    lacks_values,
    mysql_position,
    postgres_position,
    types_of,
    unchanged_left_out,
)
from cdc_ops.formats.debezium.sqlserver_oracle import oracle_position, sql_server_position
from cdc_ops.formats.feed.envelopes import envelopes, moment_of, name_of, parsed_members
from cdc_ops.formats.feed.format import Format, Reading

_SCHEMA: Final = "fields array<struct<field: string, type: string, name: string, parameters: map<string, string>>>"
_OPERATIONS: Final = (EventOperation.READ, EventOperation.CREATE, EventOperation.UPDATE, EventOperation.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumUnwrapped:
    """Debezium's flat records as JSON.

    Args:
        spec: The format's declaration.
        place: Returns the position of an event, from its added fields and its operation.
        schemas: True if `source.schema` is the table's schema, False if `source.db` is (MySQL, MariaDB).
    """

    spec: FormatSpec
    place: Callable[["Added", Expr], Expr]
    schemas: bool = True

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        frame, wrapped, fields = opened(records)
        row, added = F.col("b"), Added(F.col("b"), self.spec, options)
        deleted = F.coalesce(F.try_element_at(row, F.lit(DELETED)) == "true", F.lit(False))
        op = F.when(deleted, EventOperation.DELETE.value).otherwise(added.field("op"))
        frame = frame.withColumn("said", F.map_filter(row, lambda name, _: ~name.isin(DELETED, *added.names)))
        image, incomplete = unchanged_left_out(F.col("said")), lacks_values(op, F.col("said"))
        schema, table = added.field("schema" if self.schemas else "db"), added.field("table")
        named = schema.isNotNull() & table.isNotNull()
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(incomplete, RecordKind.BAD.value).otherwise(kind_of(row, op, wrapped)),
                "reason": F.when(incomplete, INCOMPLETE).otherwise(unknown(op)),
                "op": op,
                "snapshot": ~_streamed(op),
                "table": name_of(F.when(named, schema), F.when(named, table)),
                "before": F.when(deleted, image),
                "after": F.when(~deleted, image),
                "types": types_of(fields),
                "transaction": F.coalesce(added.field("transaction.id"), added.field("gtid"), added.field("txId")),
                "source_time": moment_of(added.field("ts_ms", top=False).try_cast("bigint")),
                "position": self.place(added, op),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        return spelled.read(self.spec, column, text, kind, options)


class Added:
    """The fields of the envelope that `add.fields` adds to the row."""

    def __init__(self, row: Expr, spec: FormatSpec, options: FormatOptions) -> None:
        self._row = row
        self._by_field = added_fields(spec, options)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names that the fields have in records."""
        return tuple(self._by_field.values())

    def field(self, name: str, *, top: bool = True) -> Expr:
        """Returns the text of a field of the envelope or of its `source`, NULL if the record lacks it.

        Args:
            name: The field.
            top: False if the envelope has another field of that name.
        """
        found = added_name(self._by_field, name, top=top)
        return F.try_element_at(self._row, F.lit(found)) if found else F.lit(None).cast("string")

    def number(self, name: str) -> Expr:
        """Returns a field as a whole number, NULL if the record lacks it or it is not a number."""
        return self.field(name).try_cast("bigint")

    def has(self, name: str) -> Expr:
        """True for records that have a field, even if it is NULL."""
        found = added_name(self._by_field, name)
        return F.coalesce(F.map_contains_key(self._row, found), F.lit(False)) if found else F.lit(False)


def opened(records: DataFrame) -> tuple[DataFrame, Expr, Expr]:
    """Returns records with their members `m` and their flat record `b`; True for records with a schema around it; the schema's fields."""
    frame = parsed_members(records, lower=False).withColumn("r", F.when(F.col("m").isNotNull(), F.struct("m")))
    whole = F.col("m")
    wrapped = F.coalesce(F.array_sort(F.map_keys(whole)) == F.array(F.lit("payload"), F.lit("schema")), F.lit(False))
    payload = F.from_json(F.try_element_at(whole, F.lit("payload")), "map<string, string>")
    fields = F.from_json(F.when(wrapped, F.try_element_at(whole, F.lit("schema"))), _SCHEMA)["fields"]
    return frame.withColumn("b", F.when(wrapped, payload).otherwise(whole)), wrapped, fields


def unknown(op: Expr) -> Expr:
    """Returns the reason why a record with an unknown operation is bad."""
    return F.concat(F.lit("the record has an unknown operation: "), F.coalesce(op, F.lit("NULL")))


def kind_of(row: Expr, op: Expr, wrapped: Expr) -> Expr:
    """Returns the kind of a record. Heartbeats and transaction borders are not flattened; they have no operation."""
    names = F.map_keys(row)
    heartbeat = (F.size(names) == 1) & F.array_contains(names, "ts_ms")
    border = F.array_contains(names, "status") & F.array_contains(names, "event_count") & F.array_contains(names, "data_collections")
    return (
        F.when(wrapped & row.isNull(), RecordKind.CONTROL.value)
        .when(op.isin(*_OPERATIONS), RecordKind.CHANGE.value)
        .when(op.isNull() & (heartbeat | border), RecordKind.CONTROL.value)
        .otherwise(RecordKind.BAD.value)
    )


def _streamed(op: Expr) -> Expr:
    """True for events that were streamed, False for those that a snapshot read."""
    return ~is_snapshot(op, F.lit("false"))


def _mysql_place(added: Added, op: Expr) -> Expr:
    # A connector that does not say MySQL may read MariaDB, whose positions do not order the statements of a transaction.
    connector, gtid = added.field("connector"), added.field("gtid")
    source = F.struct(connector.alias("connector"), gtid.alias("gtid"))
    vague = op.isNotNull() & _streamed(op) & (is_mariadb(source) | (connector.isNull() & gtid.isNull()))
    ordered = F.coalesce(added.number("transaction.total_order"), F.when(vague, F.col("offset")).otherwise(-1))
    file = F.when(added.has("row"), added.field("file"))
    return mysql_position(file, added.number("pos"), _streamed(op), ordered, added.number("row"))


def _postgres_place(added: Added, op: Expr) -> Expr:
    lsn = F.when(added.has("sequence"), added.number("lsn"))
    return postgres_position(added.field("sequence"), lsn, _streamed(op), added.number("transaction.total_order"))


def _sql_server_place(added: Added, op: Expr) -> Expr:
    commit = F.when(added.has("event_serial_no"), added.field("commit_lsn"))
    return sql_server_position(commit, added.field("change_lsn"), added.number("event_serial_no"), _streamed(op))


def _oracle_place(added: Added, op: Expr) -> Expr:
    number = F.coalesce(added.number("transaction.total_order"), added.number("txSeq"))
    return oracle_position(added.field("commit_scn"), added.field("scn"), number, _streamed(op))


def debezium_mysql_unwrapped() -> Format:
    """The format `debezium-mysql-unwrapped`."""
    return DebeziumUnwrapped(spec=format_spec("debezium-mysql-unwrapped"), place=_mysql_place, schemas=False)


def debezium_postgres_unwrapped() -> Format:
    """The format `debezium-postgres-unwrapped`."""
    return DebeziumUnwrapped(spec=format_spec("debezium-postgres-unwrapped"), place=_postgres_place)


def debezium_sqlserver_unwrapped() -> Format:
    """The format `debezium-sqlserver-unwrapped`."""
    return DebeziumUnwrapped(spec=format_spec("debezium-sqlserver-unwrapped"), place=_sql_server_place)


def debezium_oracle_unwrapped() -> Format:
    """The format `debezium-oracle-unwrapped`."""
    return DebeziumUnwrapped(spec=format_spec("debezium-oracle-unwrapped"), place=_oracle_place)
