"""Debezium's change events as JSON, with or without schemas in the records; inside Spark.

    {"before": {…}, "after": {…}, "source": {…}, "op": "u", "ts_ms": …}                       schemas.enable=false
    {"schema": {…}, "payload": {"before": {…}, "after": {…}, "source": {…}, "op": "u", …}}    schemas.enable=true

Both may stand in one file. Field layouts: Debezium's documentation of the MySQL, MariaDB and Postgres connectors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.event_values import ValueFamily
from cdc_ops.core.events import MYSQL, WHOLE_ROW, EventFormat, FormatFacts, Images, LossySetting, Operation, OrderField, RecordKind
from cdc_ops.core.tables import Column
from cdc_ops.formats import debezium_values as spelled
from cdc_ops.formats.base import Format, Reading
from cdc_ops.formats.records import completed, envelopes, instant_of_millis, kafka_offset, name_of, parsed
from cdc_ops.formats.values import any_of

UNCHANGED: Final = "__debezium_unavailable_value"
_UNCHANGED_FORMS: Final = (UNCHANGED, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", '["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]')
"""As text, and as the base64 of its bytes: a value that the log does not have because it did not change."""

INCOMPLETE: Final = (
    "its key changed, and it does not say all of the row: the database has to log whole rows (Postgres: REPLICA IDENTITY FULL)"
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
"""Column of a parsed frame, see `lacks_values`: computed once."""

STREAMED: Final = OrderField(name="streamed", type="tinyint", meaning="0 for rows of a snapshot: older than changes at the same place")
TOTAL_ORDER: Final = OrderField(
    name="total_order", type="bigint", meaning="number within the transaction, from 'provide.transaction.metadata'; -1 without"
)
OFFSET: Final = OrderField(
    name="offset", type="bigint", meaning="offset in Kafka, where the archive keeps it; -1 without", of_delivery=True
)

MYSQL_ORDER: Final = (
    OrderField(name="file_no", type="bigint", meaning="number at the end of the binlog file's name"),
    OrderField(name="pos", type="bigint", meaning="where the event begins in that file; of MariaDB from 11.4 on, its transaction"),
    STREAMED,
    OrderField(
        name="total_order",
        type="bigint",
        meaning="number within the transaction, from 'provide.transaction.metadata'; without, of MariaDB the offset in Kafka, else -1",
    ),
    OrderField(name="row", type="bigint", meaning="number of the row in the event"),
    OFFSET,
)
POSTGRES_ORDER: Final = (
    OrderField(name="commit_lsn", type="bigint", meaning="LSN of the last commit before the transaction: LSNs of changes alone interleave"),
    OrderField(name="lsn", type="bigint", meaning="LSN of the change"),
    STREAMED,
    TOTAL_ORDER,
    OFFSET,
)

_DECIMALS: Final = (ValueFamily.DECIMAL, ValueFamily.DECIMAL_TEXT)
COMMON_LOSSES: Final = (
    LossySetting(
        name="skipped.operations",
        safe=("none",),
        default="t",
        loses="Events of that kind are not written: TRUNCATE is left out by Debezium's own default, and its rows would stay in the lake.",
        remedy="Set skipped.operations=none in the connector.",
    ),
    LossySetting(
        name="converter.replace.null.with.default",
        safe=("false",),
        default="true",
        loses="JsonConverter writes a column's default in place of NULL, unless it is told otherwise.",
        remedy="Set value.converter.replace.null.with.default=false in the connector.",
    ),
    LossySetting(
        name=spelled.DECIMAL_MODE,
        safe=("precise", "string"),
        default="precise",
        loses="Decimals are rounded to binary numbers of 53 bits.",
        remedy="Set decimal.handling.mode=string (or precise with schemas.enable=true).",
        families=_DECIMALS,
        seen=True,
    ),
    LossySetting(
        name=spelled.SCHEMAS,
        safe=("true",),
        default="true",
        loses="Without schemas a record does not say the scale of its decimals, nor the unit of its times: those of the columns as they are"
        " today are taken, also for records from before an ALTER.",
        remedy="Set value.converter.schemas.enable=true in the connector.",
        families=spelled.NEED_SCHEMAS,
        seen=True,
    ),
)
COMMON_SETTINGS: Final = {spelled.BINARY_MODE: "bytes"}

_MYSQL_UNREADABLE: Final = {
    ValueFamily.VECTOR: "A VECTOR comes as numbers; its bytes are not made again.",
    ValueFamily.UUID: "Debezium moves zero bytes at the end of a UUID of MariaDB to its beginning, and nothing shows which ones it moved.",
}
_POSTGRES_UNREADABLE: Final = {
    ValueFamily.INTERVAL: "Debezium writes intervals as microseconds or as ISO 8601, not as the server prints them.",
    ValueFamily.MONEY: "Debezium writes money as a decimal, without the currency that the server prints.",
    ValueFamily.VARBIT: "Debezium does not say how many zeros a bit string begins with.",
    ValueFamily.SHAPE: "Debezium writes geometric types as objects, not as the server prints them.",
    ValueFamily.ZONED_TIME: "Debezium writes times of day in UTC, without the offset that the server prints.",
    ValueFamily.BENT_ARRAY: "Debezium writes the elements of such arrays as numbers or bytes of its own, or not at all.",
    ValueFamily.INTERNAL: "Debezium writes NULL for values of this type, or another form of them, or nothing at all.",
}


_ROUNDED: Final = LossySetting(
    name="snapshot.mode",
    safe=("no_data", "schema_only", "never", "recovery", "schema_only_recovery"),
    default="initial",
    loses="In a snapshot the server is asked for FLOAT as text, and prints six digits of it: 16777217 becomes 16777200.",
    remedy="Let cdc-ops read the rows that are there ('start: snapshot' of the archive) and set snapshot.mode=no_data in the connector.",
    families=(ValueFamily.FLOAT,),
    declared=("float",),
)


def time_precision(default: str) -> LossySetting:
    """Returns the loss of a connector whose `time.precision.mode` has that default."""
    return LossySetting(
        name=spelled.TIME_MODE,
        safe=spelled.FINE_TIMES,
        default=default,
        loses="Times are cut to milliseconds.",
        remedy="Leave time.precision.mode at its default.",
        families=(ValueFamily.WALL_CLOCK, ValueFamily.TIME, ValueFamily.MOMENT_TEXT),
        seen=True,
    )


def mysql_facts(name: str) -> FormatFacts:
    """Returns what is declared of events of MySQL and MariaDB."""
    return FormatFacts(
        name=name,
        tool="Debezium",
        order=MYSQL_ORDER,
        images=Images.PARTIAL,
        snapshot="op r, or source.snapshot",
        delete="op d with the row before; a tombstone may follow",
        key_change="a delete of the old key and an insert of the new one",
        truncate="op t, if skipped.operations=none",
        ddl="records with 'ddl' in the topic of schema changes",
        statements=MYSQL,
        lossy=(*COMMON_LOSSES, time_precision("adaptive_time_microseconds"), _ROUNDED),
        settings={**COMMON_SETTINGS, spelled.UNSIGNED_MODE: "long"},
        unreadable=_MYSQL_UNREADABLE,
    )


def postgres_facts(name: str) -> FormatFacts:
    """Returns what is declared of events of Postgres."""
    return FormatFacts(
        name=name,
        tool="Debezium",
        order=POSTGRES_ORDER,
        images=Images.PARTIAL,
        snapshot="op r, or source.snapshot",
        delete="op d with the old key, or the whole row under REPLICA IDENTITY FULL; a tombstone may follow",
        key_change="a delete of the old key and an insert of the new one",
        truncate="op t, if skipped.operations=none",
        ddl="not at all: only the columns of later events differ",
        lossy=(*COMMON_LOSSES, time_precision("adaptive")),
        settings=COMMON_SETTINGS,
        unreadable=_POSTGRES_UNREADABLE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumJson:
    """Debezium's envelope as JSON.

    Args:
        facts: Of the connector.
        place: Makes the position of an event of its body and whether it was streamed, not read by a snapshot.
        schemas: True if tables are in schemas of a database, False if databases are the schemas.
    """

    facts: FormatFacts
    place: Callable[[Expr, Expr], Expr]
    schemas: bool = True

    def envelopes(self, records: DataFrame, chosen: EventFormat) -> DataFrame:
        """See `Format`."""
        frame = parsed(records, _LAYOUT, _body)
        body, before, after = F.col("r.body"), F.col("before"), F.col("after")
        images = {name: unchanged_left_out(body[name]) for name in ("before", "after")}
        frame = frame.withColumns({**images, _INCOMPLETE: lacks_values(body["op"], body["after"])})
        full = F.when(body["op"] == Operation.UPDATE, F.coalesce(completed(before, after), after)).otherwise(after)
        source, incomplete = body["source"], F.col(_INCOMPLETE)
        schema = source["schema"] if self.schemas else source["db"]
        return envelopes(
            frame,
            self.facts,
            {
                "kind": F.when(incomplete, RecordKind.BAD.value).otherwise(_kind(body)),
                "reason": F.when(incomplete, INCOMPLETE).otherwise("it has neither an operation nor a statement"),
                "op": body["op"],
                "snapshot": is_snapshot(body["op"], source["snapshot"]),
                "table": name_of(F.coalesce(schema, body["databaseName"]), _one_table(body)),
                "before": before,
                "after": full,
                "types": _types(F.col("r.fields")),
                "transaction": F.coalesce(body["transaction"]["id"], source["gtid"], source["txId"]),
                "source_time": instant_of_millis(source["ts_ms"]),
                "ddl": body["ddl"],
                "position": self.place(body, ~is_snapshot(body["op"], source["snapshot"])),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, chosen: EventFormat) -> Reading:
        """See `Format`."""
        return spelled.read(self.facts, column, text, kind, chosen)


def _mysql_place(body: Expr, streamed: Expr) -> Expr:
    source, total = body["source"], body["transaction"]["total_order"]
    vague = streamed & is_mariadb(source) & (body["op"] != Operation.TRUNCATE)
    ordered = F.coalesce(total, F.when(vague, F.col("offset")).otherwise(-1))
    return mysql_position(source["file"], source["pos"], streamed, ordered, source["row"])


def _postgres_place(body: Expr, streamed: Expr) -> Expr:
    source = body["source"]
    return postgres_position(source["sequence"], source["lsn"], streamed, body["transaction"]["total_order"])


def is_mariadb(source: Expr) -> Expr:
    """True for events of MariaDB, also from MySQL's connector; only MySQL's GTIDs have a colon.

    From 11.4 on MariaDB does not write into its binlog where the rows of a transaction are: all of them have the place where the
    transaction begins. The number of a row counts anew with each statement, so it does not tell which of two comes first.
    """
    return F.coalesce(source["connector"] == "mariadb", F.lit(False)) | F.coalesce(~source["gtid"].contains(":"), F.lit(False))


def mysql_position(file: Expr, pos: Expr, streamed: Expr, total: Expr, row: Expr) -> Expr:
    """Returns the position of an event of MySQL or MariaDB; NULL in a part of it makes the event bad."""
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

    Before the first commit that a connector sees there is none to name. The change's own LSN stands for it then: it is above every commit
    before it, and below the one of its own transaction.
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
    """True for rows of a snapshot, first or incremental."""
    return F.coalesce((op == Operation.READ) | ~mark.isin("false", ""), F.lit(False))


def unchanged_left_out(image: Expr) -> Expr:
    """Returns an image without the columns for which Debezium says that they did not change."""
    known = F.map_filter(image, lambda _, value: ~F.coalesce(value.isin(*_UNCHANGED_FORMS), F.lit(False)))
    return F.when(_has_unchanged(image), known).otherwise(image)


def lacks_values(op: Expr, after: Expr) -> Expr:
    """True for a new row of which values are missing: that of a changed key, which has the large values of the old key's row.

    Args:
        op: The operation.
        after: The image as it came.
    """
    return F.coalesce(op.isin(*WHOLE_ROW) & _has_unchanged(after), F.lit(False))


def _has_unchanged(image: Expr) -> Expr:
    """True for the few images with a value that did not change: Spark compiles this look, but no function that is given a function."""
    return any_of([F.array_contains(F.map_values(image), form) for form in _UNCHANGED_FORMS])


def _body(document: Expr) -> Expr:
    """Returns the event of a record with a schema around it or without, and the schema's fields."""
    names = ("op", "before", "after", "source", "ts_ms", "ddl", "databaseName", "status", "id", "transaction")
    bare = F.struct(*(document[name].alias(name) for name in names))
    return F.struct(F.coalesce(document["payload"], bare).alias("body"), document["schema"]["fields"].alias("fields"))


def _kind(body: Expr) -> Expr:
    """What a record is. Events of `pg_logical_emit_message` (op m), borders of transactions and heartbeats change no row."""
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
    """Returns the table of an event; NULL for a statement of several, whose names Debezium 3.5 joins with commas."""
    name = body["source"]["table"]
    return F.when(body["ddl"].isNotNull() & name.contains(","), None).otherwise(name)


def _types(fields: Expr) -> Expr:
    """Returns the schema of each column of a record that carries one."""
    image = F.filter(fields, lambda field: field["field"].isin("after", "before") & field["fields"].isNotNull())
    return F.when(fields.isNotNull(), types_of(F.try_element_at(image, F.lit(1))["fields"]))


def types_of(fields: Expr) -> Expr:
    """Returns the schemas of fields by their names; of decimals with the scale."""
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
    return DebeziumJson(facts=mysql_facts("debezium-mysql"), place=_mysql_place, schemas=False)


def debezium_postgres() -> Format:
    """The format `debezium-postgres`."""
    return DebeziumJson(facts=postgres_facts("debezium-postgres"), place=_postgres_place)
