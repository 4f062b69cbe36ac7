"""AWS DMS on S3, as CSV or as Parquet; inside Spark.

    shop/orders/LOAD00000001.csv                    id,name,AR_H_CHANGE_SEQ
                                                    1,Lee,
    shop/orders/2024/03/01/20240301-090000123.csv   Op,id,name,AR_H_CHANGE_SEQ,BI_id
                                                    U,1,Ann,20240301090000000000000000000000017,1

The format gets each row as a JSON object. Rows do not name their table; the folders of their file do, if the archive has such folders.
Field layouts: AWS DMS user guide, Amazon S3 as a target, and transformation rules.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.change_feed import LANDED_NUMBER
from cdc_ops.core.events.format_spec import (
    EventOperation,
    FormatOptions,
    FormatSpec,
    RecordKind,
    setting,
)
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.formats.dms import BEFORE, CHANGE_SEQ, NONE, PREFIX, TIMESTAMP
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.feed import values
from cdc_ops.formats.feed.envelopes import completed, envelopes, name_of, parsed_members
from cdc_ops.formats.feed.format import Format, Reading

_OP: Final = "Op"
_OPERATIONS: Final = {"I": EventOperation.CREATE, "U": EventOperation.UPDATE, "D": EventOperation.DELETE}
_LOAD: Final = r"(?:^|/)LOAD[0-9A-Fa-f]{5,}\.[^/]*$"
_CDC: Final = r"(?:^|/)(\d{8})-(\d{6})(\d{0,9})\.[^/]*$"
_FOLDERS: Final = r"(?:^|/)(?![0-9_-]+/)([^/]+)/(?![0-9_-]+/)([^/]+)/(?:[0-9_-]+/)*[^/]+$"
"""Matches schema and table; folders of digits are dates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dms:
    """The formats `aws-dms-csv` and `aws-dms-parquet`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        frame = parsed_members(records, lower=False).withColumn("r", F.when(F.col("m").isNotNull(), F.struct("m")))
        row, load = F.col("m"), F.col("file").rlike(_LOAD)
        letter, moment = F.try_element_at(row, F.lit(_OP)), F.try_element_at(row, F.lit(setting(self.spec, options, TIMESTAMP)))
        op = F.when(load & F.coalesce(letter == "I", F.lit(True)), EventOperation.READ.value)
        for theirs, ours in _OPERATIONS.items():
            op = op.when(~load & (letter == theirs), ours.value)
        image, before = self._images(row, options)
        blind = (op == EventOperation.UPDATE) & (F.size(before) == 0) if setting(self.spec, options, BEFORE) != NONE else F.lit(False)
        known = op.isNotNull() & ~blind
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(known, RecordKind.CHANGE.value).otherwise(RecordKind.BAD.value),
                "reason": F.when(blind, "the record has no before-image columns").otherwise(
                    F.concat(F.lit("unknown Op "), F.coalesce(letter, F.lit("NULL")))
                ),
                "op": op,
                "snapshot": load,
                "table": name_of(*(F.nullif(F.regexp_extract("file", _FOLDERS, group), F.lit("")) for group in (1, 2))),
                "before": F.when(op == EventOperation.DELETE, image).when(
                    (op == EventOperation.UPDATE) & (F.size(before) > 0), completed(image, before)
                ),
                "after": F.when(op != EventOperation.DELETE, image),
                "source_time": F.when(~load, values.instant(moment, options.time_zone or "UTC").value),
                "position": self._position(row, load, options),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        if logical_type_of(column) is LogicalType.BINARY:
            return values.base64(column, text)
        return values.from_text(column, text, options.time_zone)

    def _images(self, row: Expr, options: FormatOptions) -> tuple[Expr, Expr]:
        """Returns the row, and the before image from the before-image columns."""
        own = (_OP, *(setting(self.spec, options, name) for name in (CHANGE_SEQ, TIMESTAMP)))
        image = F.map_filter(row, lambda name, _: ~name.isin(*own))
        if setting(self.spec, options, BEFORE) == NONE:
            return image, F.lit(None).cast("map<string, string>")
        prefix = setting(self.spec, options, PREFIX)
        marked = F.map_filter(image, lambda name, _: name.startswith(prefix))
        before = F.transform_keys(marked, lambda name, _: F.substring(name, F.lit(len(prefix) + 1), F.length(name)))
        return F.map_filter(image, lambda name, _: ~name.startswith(prefix)), before

    def _position(self, row: Expr, load: Expr, options: FormatOptions) -> Expr:
        sequence, none = setting(self.spec, options, CHANGE_SEQ), F.lit(LANDED_NUMBER).cast("decimal(35,0)")
        number = none if sequence == NONE else F.try_element_at(row, F.lit(sequence)).try_cast("decimal(35,0)")
        day, time, fraction = (F.regexp_extract("file", _CDC, group) for group in (1, 2, 3))
        written = F.concat(day, time, F.rpad(fraction, 9, "0")).try_cast("decimal(23,0)")
        return F.struct(
            (~load).cast("tinyint").alias("streamed"),
            F.when(load, none).otherwise(number).alias("change_seq"),
            F.when(load, F.lit(LANDED_NUMBER).cast("decimal(23,0)")).otherwise(written).alias("file_time"),
            F.col("line").cast("bigint").alias("row"),
        )


def aws_dms_csv() -> Format:
    """The format `aws-dms-csv`."""
    return Dms(spec=format_spec("aws-dms-csv"))


def aws_dms_parquet() -> Format:
    """The format `aws-dms-parquet`."""
    return Dms(spec=format_spec("aws-dms-parquet"))
