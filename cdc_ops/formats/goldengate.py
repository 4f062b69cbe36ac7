"""Oracle GoldenGate's JSON, operation by operation; inside Spark.

    {"table": "PDB.SHOP.ORDERS", "op_type": "U", "op_ts": "2024-03-01 09:00:00.000000", "current_ts": "…", "pos": "00000000020000001444",
     "primary_keys": ["ID"], "tokens": {…}, "before": {…}, "after": {…}}

Updates have the columns of the trail: of a compressed one, the key and the changed columns. A column that an image lacks is missing, not
NULL; some versions mark it by a member `<column>_isMissing`. Field layouts: GoldenGate for Big Data, pluggable formatters, JSON.
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
from cdc_ops.formats.feed.envelopes import completed, envelopes, name_of, parsed, variant_texts
from cdc_ops.formats.feed.format import Format, Reading

_LAYOUT: Final = (
    "table string, op_type string, op_ts string, pos string, tokens map<string, string>, before map<string, variant>,"
    " after map<string, variant>"
)
_OPERATIONS: Final = {"I": EventOperation.CREATE, "U": EventOperation.UPDATE, "D": EventOperation.DELETE, "T": EventOperation.TRUNCATE}
_MISSING: Final = "_isMissing"
_TRANSACTION: Final = "6"
"""The token that holds the source's transaction number."""
_MOMENT: Final = r"^(\d{4}-\d\d-\d\d)[ :T](\d\d:\d\d:\d\d)(?:(\.\d{1,6})0*)?$"
_MIDNIGHT: Final = r"^(\d{4}-\d\d-\d\d)[ :T]00:00:00(?:\.0+)?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenGateJson:
    """The format `goldengate-json`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        record = F.col("r")
        images = {name: _known(variant_texts(record[name])) for name in ("before", "after")}
        frame = parsed(records, _LAYOUT).withColumns(images)
        letter, before, after = record["op_type"], F.col("before"), F.col("after")
        op = F.lit(None).cast("string")
        for theirs, ours in _OPERATIONS.items():
            op = F.when(letter == theirs, ours.value).otherwise(op)
        blind = (op == EventOperation.UPDATE) & before.isNull() & F.lit("GETUPDATEBEFORES=false" not in options.accept_losses)
        parts = F.split(record["table"], r"\.")
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(op.isNotNull() & ~blind, RecordKind.CHANGE.value).otherwise(RecordKind.BAD.value),
                "reason": F.when(blind, "the record has no before image").otherwise(
                    F.concat(F.lit("unknown op_type "), F.coalesce(letter, F.lit("NULL")))
                ),
                "op": op,
                # PDB.SCHEMA.TABLE, or SCHEMA.TABLE.
                "table": name_of(F.get(parts, F.size(parts) - 2), F.get(parts, F.size(parts) - 1)),
                "before": F.when(op == EventOperation.UPDATE, F.coalesce(completed(after, before), before)).when(
                    op == EventOperation.DELETE, before
                ),
                "after": F.when(op == EventOperation.UPDATE, F.coalesce(completed(before, after), after)).when(
                    op == EventOperation.CREATE, after
                ),
                "transaction": F.try_element_at(record["tokens"], F.lit(_TRANSACTION)),
                "source_time": values.instant(_moment(record["op_ts"]), options.time_zone or "UTC").value,
                "position": F.struct(F.when(record["pos"].rlike(r"^\d{1,36}$"), record["pos"]).try_cast("decimal(36,0)").alias("pos")),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        match logical_type_of(column):
            case LogicalType.DATE:
                text = F.regexp_replace(text, _MIDNIGHT, "$1")
            case LogicalType.WALL_CLOCK | LogicalType.INSTANT | LogicalType.MOMENT_TEXT:
                text = _moment(text)
            case _:
                pass
        return values.from_text(column, text, options.time_zone)


def _moment(text: Expr) -> Expr:
    """Returns date and time with a blank between them, without zeros behind the sixth digit of a second; other texts stay unchanged."""
    return F.regexp_replace(text, _MOMENT, "$1 $2$3")


def _known(image: Expr) -> Expr:
    """Returns an image without the columns that are missing, and without the members that mark these."""

    def is_mark(name: Expr) -> Expr:
        return name.endswith(_MISSING) & F.map_contains_key(image, F.replace(name, F.lit(_MISSING), F.lit("")))

    def is_missing(name: Expr) -> Expr:
        return F.coalesce(F.try_element_at(image, F.concat(name, F.lit(_MISSING))) == "true", F.lit(False))

    marked = F.exists(F.map_keys(image), lambda name: name.endswith(_MISSING))
    return F.when(marked, F.map_filter(image, lambda name, _: ~is_mark(name) & ~is_missing(name))).otherwise(image)


def goldengate_json() -> Format:
    """The format `goldengate-json`."""
    return GoldenGateJson(spec=format_spec("goldengate-json"))
