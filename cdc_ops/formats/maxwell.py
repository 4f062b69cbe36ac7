"""Maxwell's JSON; inside Spark.

    {"database": "shop", "table": "orders", "type": "update", "ts": 1709283600, "xid": 77, "commit": true, "position": "binlog.000003:700",
     "data": {…}, "old": {…}}

`old` holds the previous values of changed columns. Field layouts: Maxwell's documentation of its data format.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.feed import values
from cdc_ops.formats.feed.envelopes import (
    binlog_place,
    completed,
    envelopes,
    is_truncate,
    kafka_offset,
    moment_of,
    name_of,
    parsed,
    variant_texts,
)
from cdc_ops.formats.feed.format import Format, Reading

_LAYOUT: Final = (
    "database string, table string, type string, ts bigint, xid bigint, xoffset bigint, commit boolean, position string, gtid string,"
    " sql string, data map<string, variant>, old map<string, variant>"
)
_OPERATIONS: Final = {
    "bootstrap-insert": EventOperation.READ,
    "insert": EventOperation.CREATE,
    "update": EventOperation.UPDATE,
    "delete": EventOperation.DELETE,
}
_CONTROL: Final = ("bootstrap-start", "bootstrap-complete", "heartbeat")
_LAST_OF_TRANSACTION: Final = 2**62
"""Stands for the number of a transaction's last row: that row has `commit` instead of a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maxwell:
    """The format `maxwell`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        frame = parsed(records, _LAYOUT).withColumns({"data": variant_texts(F.col("r.data")), "old": variant_texts(F.col("r.old"))})
        record, data = F.col("r"), F.col("data")
        kind = record["type"]
        op = F.when(is_truncate(record["sql"]), EventOperation.TRUNCATE.value)
        for theirs, ours in _OPERATIONS.items():
            op = op.when(kind == theirs, ours.value)
        statement = kind.rlike("^(table|database)-(create|alter|drop)$")
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(op.isNotNull(), RecordKind.CHANGE.value)
                .when(statement, RecordKind.DDL.value)
                .when(kind.isin(*_CONTROL), RecordKind.CONTROL.value)
                .otherwise(RecordKind.BAD.value),
                "reason": F.concat(F.lit("unknown type "), F.coalesce(kind, F.lit("NULL"))),
                "op": op,
                "snapshot": kind == "bootstrap-insert",
                "table": name_of(record["database"], record["table"]),
                "before": F.when(kind == "update", completed(data, F.col("old"))).when(kind == "delete", data),
                "after": F.when(~kind.isin("delete") & op.isNotNull(), data),
                "transaction": F.coalesce(record["gtid"], record["xid"].cast("string")),
                # Seconds for rows, milliseconds for statements.
                "source_time": F.when(statement, moment_of(record["ts"])).otherwise(moment_of(record["ts"], 1)),
                "ddl": F.when(statement, record["sql"]),
                "position": _position(record, kind),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        match logical_type_of(column):
            case LogicalType.BINARY:
                return values.base64(column, text)
            case LogicalType.SET:
                return Reading(value=F.when(text.startswith("["), F.array_join(F.from_json(text, "array<string>"), ",")).otherwise(text))
            case _:
                return values.from_text(column, text, options.time_zone)


def _position(record: Expr, kind: Expr) -> Expr:
    number, place = binlog_place(record["position"])
    streamed = kind != "bootstrap-insert"
    known = number.isNotNull() | (F.col("offset").isNotNull()) | ~streamed
    last = F.when(record["commit"], F.lit(_LAST_OF_TRANSACTION))
    return F.when(
        known,
        F.struct(
            streamed.cast("tinyint").alias("streamed"),
            F.coalesce(number, F.lit(-1)).cast("bigint").alias("file_no"),
            F.coalesce(place, F.lit(-1)).cast("bigint").alias("pos"),
            F.coalesce(record["xoffset"], last, F.lit(-1)).cast("bigint").alias("xoffset"),
            kafka_offset().alias("offset"),
        ),
    )


def maxwell() -> Format:
    """The format `maxwell`."""
    return Maxwell(spec=format_spec("maxwell"))
