r"""Alibaba Cloud DTS as JSON: what EMR's `dts_binlog_parser` makes of its Avro records; inside Spark.

    {"recordID": 7, "source": "…", "dbTable": "shop.orders", "recordType": "UPDATE", "recordTimestamp": "2019-11-14 10:00:00",
     "extraTags": "{}", "fields": "[…]", "beforeImages": "{\"id\": \"1\", …}", "afterImages": "{\"id\": \"1\", …}"}

All values are text. Images may be JSON text, as the parser writes them, or objects. INIT is a row of the full load.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.feed import values
from cdc_ops.formats.feed.envelopes import envelopes, is_truncate, parsed_members, split_name, texts
from cdc_ops.formats.feed.format import Format, Reading

_FIELDS: Final = ("recordid", "dbtable", "recordtype", "recordtimestamp", "beforeimages", "afterimages")
"""In lower case, because exports through tables have lower-case names; both are read."""
OPERATIONS: Final = {
    "INIT": EventOperation.READ,
    "INSERT": EventOperation.CREATE,
    "UPDATE": EventOperation.UPDATE,
    "DELETE": EventOperation.DELETE,
}
CONTROL: Final = ("BEGIN", "COMMIT", "ROLLBACK", "ABORT", "HEARTBEAT", "CHECKPOINT", "NOOP")


@dataclass(frozen=True, slots=True, kw_only=True)
class DtsJson:
    """The format `dts-json`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        fields = (F.try_element_at(F.col("m"), F.lit(name)).alias(name) for name in _FIELDS)
        frame = parsed_members(records).withColumn("r", F.when(F.col("m").isNotNull(), F.struct(*fields)))
        number, name, kind, time, before, after = (F.col("r")[field] for field in _FIELDS)
        statement = F.when(kind == "DDL", F.coalesce(after, before))
        truncates = is_truncate(statement)
        op = F.when(truncates, EventOperation.TRUNCATE.value)
        for theirs, ours in OPERATIONS.items():
            op = op.when(kind == theirs, ours.value)
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(op.isNotNull(), RecordKind.CHANGE.value)
                .when(statement.isNotNull(), RecordKind.DDL.value)
                .when(kind.isin(*CONTROL), RecordKind.CONTROL.value)
                .otherwise(RecordKind.BAD.value),
                "reason": F.concat(F.lit("unknown recordType "), F.coalesce(kind, F.lit("NULL"))),
                "op": op,
                "snapshot": kind == "INIT",
                "table": split_name(name),
                "before": F.when(kind.isin("UPDATE", "DELETE"), texts(before)),
                "after": F.when(kind.isin("INIT", "INSERT", "UPDATE"), texts(after)),
                "source_time": values.instant(time, options.time_zone or "UTC").value,
                "ddl": F.when(~truncates, statement),
                "position": F.struct((kind != "INIT").cast("tinyint").alias("streamed"), number.try_cast("bigint").alias("record_id")),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        return values.from_text(column, text, options.time_zone)


def dts_json() -> Format:
    """The format `dts-json`."""
    return DtsJson(spec=format_spec("dts-json"))
