"""Binlogs of MySQL and MariaDB; inside Spark.

    {"kind": "change", "op": "u", "file_no": "7", "pos": "1660", "inner": "0", "row": "0", "gtid": "0-1-9", "micros": "1709283600000000",
     "database": "shop", "table": "orders", "before": {…}, "after": {…}}

`formats.files.binlogs` decodes the files and writes these records; every value is a text or `null`. See `formats.binlog.texts`.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.feed import values
from cdc_ops.formats.feed.envelopes import envelopes, name_of, parsed
from cdc_ops.formats.feed.format import Format, Reading

_LAYOUT: Final = (
    "kind string, op string, file_no bigint, pos bigint, inner int, row int, gtid string, micros bigint, database string, table string,"
    " before map<string, string>, after map<string, string>, sql string, reason string, bytes string"
)
_KINDS: Final = (RecordKind.CHANGE.value, RecordKind.DDL.value, RecordKind.CONTROL.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlBinlog:
    """The format `mysql-binlog`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        record = F.col("r")
        return envelopes(
            parsed(records, _LAYOUT.replace("bigint", "string").replace(" int", " string")),
            self.spec,
            {
                "kind": F.when(record["kind"].isin(*_KINDS), record["kind"]).otherwise(RecordKind.BAD.value),
                "reason": F.coalesce(record["reason"], F.concat(F.lit("unknown kind "), F.coalesce(record["kind"], F.lit("NULL")))),
                "op": record["op"],
                "table": name_of(record["database"], record["table"]),
                "before": record["before"],
                "after": record["after"],
                "transaction": record["gtid"],
                "source_time": F.timestamp_micros(record["micros"].try_cast("bigint")),
                "ddl": record["sql"],
                "position": F.struct(*(record[part.name].try_cast(part.type).alias(part.name) for part in self.spec.order)),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        declared = DeclaredType.parse(column.source_type).base
        match logical_type_of(column):
            case LogicalType.BINARY | LogicalType.GEOMETRY | LogicalType.VECTOR:
                return values.base64(column, text)
            case LogicalType.UUID:
                return Reading(value=_uuid(text))
            case LogicalType.TEXT if declared == "inet4":
                return Reading(value=_inet4(text))
            case LogicalType.TEXT if declared == "inet6":
                return Reading(value=F.lit(None).cast("string"))  # its text has rules of its own: such a record is bad, and never wrong
            case _:
                return values.from_text(column, text, "UTC")


def _bytes(text: Expr) -> Expr:
    return F.hex(F.try_to_binary(text, F.lit("base64")))


def _uuid(text: Expr) -> Expr:
    """MariaDB's UUID is 16 bytes in the order of its text."""
    digits = F.lower(_bytes(text))
    parts = [F.substring(digits, begin, size) for begin, size in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
    return F.when(F.length(digits) == 32, F.concat_ws("-", *parts))


def _inet4(text: Expr) -> Expr:
    digits = _bytes(text)
    parts = [F.conv(F.substring(digits, begin, 2), 16, 10) for begin in (1, 3, 5, 7)]
    return F.when(F.length(digits) == 8, F.concat_ws(".", *parts))


def mysql_binlog() -> Format:
    """The format `mysql-binlog`."""
    return MySqlBinlog(spec=format_spec("mysql-binlog"))
