r"""The flat change query of Apache Hudi, `op, ts_ms, before, after`, as JSON lines; inside Spark.

    {"op": "u", "ts_ms": "20230129220619988", "before": "{\"id\": 2, …}", "after": {"id": 2, …}}

`ts_ms` is the instant of a commit on the table's timeline, a number of 17 digits that no two commits share; within one commit a key changes
once. Records do not name their table. Field layouts: Hudi's change data capture query.
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
from cdc_ops.formats.feed.envelopes import envelopes, parsed, variant_texts
from cdc_ops.formats.feed.format import Format, Reading

_LAYOUT: Final = "op string, ts_ms string, before variant, after variant"
_OPERATIONS: Final = {"i": EventOperation.CREATE, "u": EventOperation.UPDATE, "d": EventOperation.DELETE}
_META: Final = "_hoodie_"


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiCdc:
    """The format `hudi-cdc`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        frame = parsed(records, _LAYOUT).withColumns({"before": _image("before"), "after": _image("after")})
        record = F.col("r")
        op = F.lit(None).cast("string")
        for theirs, ours in _OPERATIONS.items():
            op = F.when(record["op"] == theirs, ours.value).otherwise(op)
        instant = F.when(record["ts_ms"].rlike(r"^\d{14}(\d{3})?$"), F.rpad(record["ts_ms"], 17, "0").cast("bigint"))
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(op.isNotNull(), RecordKind.CHANGE.value).otherwise(RecordKind.BAD.value),
                "reason": F.concat(F.lit("unknown op "), F.coalesce(record["op"], F.lit("NULL"))),
                "op": op,
                "before": F.col("before"),
                "after": F.when(record["op"] != "d", F.col("after")),
                "transaction": record["ts_ms"],
                "position": F.struct(instant.alias("instant")),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        return values.from_text(column, text, options.time_zone)


def _image(side: str) -> Expr:
    """Returns an image without Hudi's metadata columns; the record has it as an object, or as the JSON text of an object."""
    text = F.try_variant_get(F.col("r")[side], "$", "string")
    members = F.from_json(F.when(text.startswith("{"), text), "map<string, variant>")
    return F.map_filter(variant_texts(members), lambda name, _: ~name.startswith(_META))


def hudi_cdc() -> Format:
    """The format `hudi-cdc`."""
    return HudiCdc(spec=format_spec("hudi-cdc"))
