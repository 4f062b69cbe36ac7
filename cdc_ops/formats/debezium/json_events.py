"""Debezium's change events as JSON, with or without schemas in the records; inside Spark.

    {"before": {…}, "after": {…}, "source": {…}, "op": "u", "ts_ms": …}                       schemas.enable=false
    {"schema": {…}, "payload": {"before": {…}, "after": {…}, "source": {…}, "op": "u", …}}    schemas.enable=true

One file may have both. Field layouts: Debezium's documentation of the MySQL, MariaDB and Postgres connectors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import WHOLE_ROW, EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.debezium import values as spelled
from cdc_ops.formats.debezium.unchanged import UNCHANGED_FORMS
from cdc_ops.formats.feed.envelopes import completed, envelopes, kafka_offset, moment_of, name_of, parsed
from cdc_ops.formats.feed.format import Format, Reading
from cdc_ops.formats.feed.values import any_of

INCOMPLETE: Final = (
    "the update changes the key, and its after image lacks values: let the database log whole rows (Postgres: REPLICA IDENTITY FULL)"
)

_SOURCE: Final = (
    "struct<connector: string, db: string, schema: string, table: string, file: string, pos: bigint, row: bigint, gtid: string,"
    " ts_ms: bigint, snapshot: string, sequence: string, lsn: bigint, txId: string, commit_lsn: string, change_lsn: string,"
    " event_serial_no: bigint, scn: string, commit_scn: string, txSeq: bigint>"
)
_BODY: Final = (
    f"op string, before map<string, string>, after map<string, string>, source {_SOURCE}, ts_ms bigint, ddl string, databaseName string,"
    " status string, id string, transaction struct<id: string, total_order: bigint>"
)
_FIELDS: Final = (
    "fields: array<struct<field: string, fields: array<struct<field: string, type: string, name: string,"
    " parameters: map<string, string>>>>>"
)
_LAYOUT: Final = f"{_BODY}, schema struct<{_FIELDS}>, payload struct<{_BODY}>"

_INCOMPLETE: Final = "__incomplete"
"""Column of a parsed frame that holds the result of `lacks_values`, so that it is computed once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumJson:
    """Debezium's envelope as JSON.

    Args:
        spec: The format's declaration.
        place: Returns the position of an event, from its body and from a flag: True if it was streamed, False if a snapshot read it.
        schemas: True if `source.schema` is the table's schema, False if `source.db` is (MySQL, MariaDB).
    """

    spec: FormatSpec
    place: Callable[[Expr, Expr], Expr]
    schemas: bool = True

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        frame = parsed(records, _LAYOUT, _body)
        body, before, after = F.col("r.body"), F.col("before"), F.col("after")
        images = {name: unchanged_left_out(body[name]) for name in ("before", "after")}
        frame = frame.withColumns({**images, _INCOMPLETE: lacks_values(body["op"], body["after"])})
        full = F.when(body["op"] == EventOperation.UPDATE, F.coalesce(completed(before, after), after)).otherwise(after)
        source, incomplete = body["source"], F.col(_INCOMPLETE)
        schema = source["schema"] if self.schemas else source["db"]
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(incomplete, RecordKind.BAD.value).otherwise(_kind(body)),
                "reason": F.when(incomplete, INCOMPLETE).otherwise("the record has neither an operation nor a statement"),
                "op": body["op"],
                "snapshot": is_snapshot(body["op"], source["snapshot"]),
                "table": name_of(F.coalesce(schema, body["databaseName"]), _one_table(body)),
                "before": before,
                "after": full,
                "types": _types(F.col("r.fields")),
                "transaction": F.coalesce(body["transaction"]["id"], source["gtid"], source["txId"]),
                "source_time": moment_of(source["ts_ms"]),
                "ddl": body["ddl"],
                "position": self.place(body, ~is_snapshot(body["op"], source["snapshot"])),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        return spelled.read(self.spec, column, text, kind, options)


def _mysql_place(body: Expr, streamed: Expr) -> Expr:
    source, total = body["source"], body["transaction"]["total_order"]
    vague = streamed & is_mariadb(source) & (body["op"] != EventOperation.TRUNCATE)
    ordered = F.coalesce(total, F.when(vague, F.col("offset")).otherwise(-1))
    return mysql_position(source["file"], source["pos"], streamed, ordered, source["row"])


def _postgres_place(body: Expr, streamed: Expr) -> Expr:
    source = body["source"]
    return postgres_position(source["sequence"], source["lsn"], streamed, body["transaction"]["total_order"])


def is_mariadb(source: Expr) -> Expr:
    """True for events of MariaDB, also through MySQL's connector: only MySQL's GTIDs have a colon.

    From 11.4 on, all rows of a MariaDB transaction have the binlog position of the transaction's start. The row number starts again with
    each statement. So neither tells which of two rows comes first.
    """
    return F.coalesce(source["connector"] == "mariadb", F.lit(False)) | F.coalesce(~source["gtid"].contains(":"), F.lit(False))


def mysql_position(file: Expr, pos: Expr, streamed: Expr, total: Expr, row: Expr) -> Expr:
    """Returns the position of an event of MySQL or MariaDB. A NULL field makes the event bad."""
    return F.struct(
        F.regexp_extract(file, r"(\d+)$", 1).try_cast("bigint").alias("file_no"),
        pos.cast("bigint").alias("pos"),
        streamed.cast("tinyint").alias("streamed"),
        total.cast("bigint").alias("total_order"),
        F.coalesce(row, F.lit(0)).cast("bigint").alias("row"),
        kafka_offset().alias("offset"),
    )


def postgres_position(sequence: Expr, lsn: Expr, streamed: Expr, total: Expr) -> Expr:
    """Returns the position of an event of Postgres.

    Events before the first commit that the connector sees have no commit LSN. Their own LSN replaces it: it is above all earlier commits,
    and below the commit of its own transaction.
    """
    committed = F.regexp_extract(sequence, r'^\["?(\d+)"?', 1).try_cast("bigint")
    return F.struct(
        F.coalesce(committed, lsn).cast("bigint").alias("commit_lsn"),
        lsn.cast("bigint").alias("lsn"),
        streamed.cast("tinyint").alias("streamed"),
        F.coalesce(total, F.lit(-1)).cast("bigint").alias("total_order"),
        kafka_offset().alias("offset"),
    )


def is_snapshot(op: Expr, mark: Expr) -> Expr:
    """True for rows of an initial or incremental snapshot."""
    return F.coalesce((op == EventOperation.READ) | ~mark.isin("false", ""), F.lit(False))


def unchanged_left_out(image: Expr) -> Expr:
    """Returns an image without the columns that Debezium marks as unchanged."""
    known = F.map_filter(image, lambda _, value: ~F.coalesce(value.isin(*UNCHANGED_FORMS), F.lit(False)))
    return F.when(_has_unchanged(image), known).otherwise(image)


def lacks_values(op: Expr, after: Expr) -> Expr:
    """True for an insert without some of its values: an update that changed the key, and did not change large values of the row.

    Args:
        op: The operation.
        after: The image as it came.
    """
    return F.coalesce(op.isin(*WHOLE_ROW) & _has_unchanged(after), F.lit(False))


def _has_unchanged(image: Expr) -> Expr:
    """True for the few images with an unchanged value. Unlike a lambda over the entries, this check is compiled by Spark."""
    return any_of([F.array_contains(F.map_values(image), form) for form in UNCHANGED_FORMS])


def _body(document: Expr) -> Expr:
    """Returns the event of a record, with or without a schema around it, and the fields of that schema."""
    names = ("op", "before", "after", "source", "ts_ms", "ddl", "databaseName", "status", "id", "transaction")
    bare = F.struct(*(document[name].alias(name) for name in names))
    return F.struct(F.coalesce(document["payload"], bare).alias("body"), document["schema"]["fields"].alias("fields"))


def _kind(body: Expr) -> Expr:
    """Returns the kind of a record. Messages (op m, `pg_logical_emit_message`), transaction borders and heartbeats change no row."""
    without_row = (
        F.coalesce(body["op"] == "m", F.lit(False)) | body["status"].isNotNull() | (body["source"].isNull() & body["ts_ms"].isNotNull())
    )
    return (
        F.when(body["ddl"].isNotNull(), RecordKind.DDL.value)
        .when(without_row & body["after"].isNull(), RecordKind.CONTROL.value)
        .when(body["op"].isNotNull(), RecordKind.CHANGE.value)
        .otherwise(RecordKind.BAD.value)
    )


def _one_table(body: Expr) -> Expr:
    """Returns the table of an event; NULL for a statement of several tables, whose names Debezium 3.5 joins with commas."""
    name = body["source"]["table"]
    return F.when(body["ddl"].isNotNull() & name.contains(","), None).otherwise(name)


def _types(fields: Expr) -> Expr:
    """Returns the schema of each column of a record that carries one."""
    image = F.filter(fields, lambda field: field["field"].isin("after", "before") & field["fields"].isNotNull())
    return F.when(fields.isNotNull(), types_of(F.try_element_at(image, F.lit(1))["fields"]))


def types_of(fields: Expr) -> Expr:
    """Returns a map from field to its schema: type, name, and for decimals the scale."""
    entries = F.transform(
        fields,
        lambda field: F.struct(
            field["field"],
            F.struct(
                field["type"].alias("type"),
                field["name"].alias("name"),
                F.try_element_at(field["parameters"], F.lit("scale")).try_cast("int").alias("scale"),
            ),
        ),
    )
    return F.map_from_entries(entries)


def debezium_mysql() -> Format:
    """The format `debezium-mysql`."""
    return DebeziumJson(spec=format_spec("debezium-mysql"), place=_mysql_place, schemas=False)


def debezium_postgres() -> Format:
    """The format `debezium-postgres`."""
    return DebeziumJson(spec=format_spec("debezium-postgres"), place=_postgres_place)
