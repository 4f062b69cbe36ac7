"""Canal's flat messages, and TiCDC's dialect of them; inside Spark.

    {"id": 1, "database": "shop", "table": "orders", "pkNames": ["id"], "isDdl": false, "type": "UPDATE", "es": 1709283600000, "ts": …,
     "sql": "", "mysqlType": {…}, "data": [{"id": "1", …}, …], "old": [{"name": "Lee"}, …]}

One message may hold many rows; all values are text. Canal's messages have no position in the log, so the order is the message's offset in
Kafka, which the archive has to keep. TiCDC has `_tidb.commitTs` instead. Field layouts: Canal's FlatMessage, TiCDC's Canal-JSON protocol.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.schema.logical_types import LogicalType, labels_of, logical_type_of
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.feed import values
from cdc_ops.formats.feed.envelopes import completed, envelopes, is_truncate, kafka_offset, moment_of, name_of, parsed
from cdc_ops.formats.feed.format import Format, Reading

_IMAGE: Final = "array<map<string, string>>"
_LAYOUT: Final = (
    "database string, table string, type string, isDdl boolean, es bigint, sql string, gtid string,"
    f" data {_IMAGE}, old {_IMAGE}, _tidb struct<commitTs: bigint, watermarkTs: bigint,"
    " onlyHandleKey: boolean, claimCheckLocation: string>"
)
_OPERATIONS: Final = {"INSERT": EventOperation.CREATE, "UPDATE": EventOperation.UPDATE, "DELETE": EventOperation.DELETE}


@dataclass(frozen=True, slots=True, kw_only=True)
class CanalJson:
    """The formats `canal` and `ticdc-canal`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        record = F.col("r")
        rows = F.when(record["isDdl"], None).otherwise(record["data"])
        # A message without rows makes one envelope too.
        frame = parsed(records, _LAYOUT).select("*", F.posexplode_outer(rows).alias("element", "data"))
        kind, data = record["type"], F.col("data")
        old = F.try_element_at(record["old"], F.col("element") + 1)
        truncates = record["isDdl"] & ((kind == "TRUNCATE") | is_truncate(record["sql"]))
        op = F.when(truncates, EventOperation.TRUNCATE.value)
        for theirs, ours in _OPERATIONS.items():
            op = op.when((kind == theirs) & data.isNotNull(), ours.value)
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(_is_cut(record), RecordKind.BAD.value)
                .when(op.isNotNull(), RecordKind.CHANGE.value)
                .when(record["isDdl"], RecordKind.DDL.value)
                .when(record["_tidb"]["watermarkTs"].isNotNull(), RecordKind.CONTROL.value)
                .otherwise(RecordKind.BAD.value),
                "reason": F.when(_is_cut(record), "the message was too large, so it has only the key of its row").otherwise(
                    F.concat(F.lit("the message has an unknown type: "), F.coalesce(kind, F.lit("NULL")))
                ),
                "op": op,
                "table": name_of(record["database"], record["table"]),
                "before": F.when(kind == "UPDATE", completed(data, F.coalesce(old, data))).when(kind == "DELETE", data),
                "after": F.when(kind.isin("INSERT", "UPDATE"), data),
                "transaction": F.when(record["gtid"] != "", record["gtid"]),
                "source_time": moment_of(record["es"]),
                "ddl": F.when(record["isDdl"] & ~truncates, record["sql"]),
                "position": self._position(record),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        match logical_type_of(column):
            case LogicalType.BINARY:
                return Reading(value=values.binary(column, _latin1(text)))
            case LogicalType.ENUM | LogicalType.SET:
                return Reading(value=F.when(_of_labels(column, text), text))
            case _:
                return values.from_text(column, text, options.time_zone)

    def _position(self, record: Expr) -> Expr:
        element = F.coalesce(F.col("element"), F.lit(0)).alias("element")
        if self.spec.name == "ticdc-canal":
            return F.struct(record["_tidb"]["commitTs"].alias("commit_ts"), kafka_offset().alias("offset"), element)
        return F.struct(F.col("offset").cast("bigint").alias("offset"), element)


def _is_cut(record: Expr) -> Expr:
    """True for a message that was too large: TiCDC cut it to its key, or stored it elsewhere (`large-message-handle-option`)."""
    marks = record["_tidb"]
    return F.coalesce(marks["onlyHandleKey"], F.lit(False)) | F.coalesce(marks["claimCheckLocation"] != "", F.lit(False))


def _latin1(text: Expr) -> Expr:
    """Returns bytes that were written as one character each; NULL if the text has characters beyond one byte."""
    plain = F.when(text.rlike(r"(?s)^[\x00-\xff]*$"), text)
    return F.encode(plain, "ISO-8859-1")


def _of_labels(column: Column, text: Expr) -> Expr:
    """True for text made of the column's declared labels: some versions write their numbers instead."""
    known = F.array(*(F.lit(label) for label in ("", *labels_of(column))))
    return F.size(F.array_except(F.split(text, "," if logical_type_of(column) is LogicalType.SET else "\x00"), known)) == 0


def canal() -> Format:
    """The format `canal`."""
    return CanalJson(spec=format_spec("canal"))


def ticdc_canal() -> Format:
    """The format `ticdc-canal`."""
    return CanalJson(spec=format_spec("ticdc-canal"))
