"""Compares source and lake by one full outer join on keys and row hashes, in Spark expressions only. Used by verify and the demo."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, DecimalType, DoubleType, IntegralType, LongType, NumericType, StringType

from cdc_ops.core.text import quoted

SAMPLES: Final = 5
"""Keys that are named per kind of difference, at most."""

ONLY_IN_SOURCE: Final = "only in source"
ONLY_IN_LAKE: Final = "only in lake"
DIFFERENT: Final = "different"
DUPLICATE: Final = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableComparison:
    """The differences between two tables.

    Args:
        rows_source, rows_lake: Rows on each side.
        only_in_source, only_in_lake: Keys that the other side lacks.
        different: Keys on both sides, once each, whose other columns differ.
        duplicates: Rows that are too many, because a side has several with the same key.
        kept: Keys that only the lake has, and may have, because the table ignores deletes.
        samples: Some of the keys that are not equal, each as its kind and its values.
    """

    rows_source: int
    rows_lake: int
    only_in_source: int
    only_in_lake: int
    different: int
    duplicates: int = 0
    samples: tuple[tuple[str, tuple[str, ...]], ...] = ()
    kept: int = 0

    @property
    def equal(self) -> bool:
        """True if both sides have the same rows."""
        return not (self.only_in_source or self.only_in_lake or self.different or self.duplicates)

    def without_deletes(self) -> "TableComparison":
        """Returns the comparison for a table that ignores deletes: without rows that only the lake has."""
        samples = tuple(sample for sample in self.samples if sample[0] != ONLY_IN_LAKE)
        return replace(self, only_in_lake=0, kept=self.kept + self.only_in_lake, samples=samples)


def compare_tables(source: DataFrame, lake: DataFrame, keys: Sequence[str]) -> TableComparison:
    """Compares two tables with the same columns, each read once.

    Values are equal as MERGE sees them: NULL equals NULL, NaN equals NaN, 0.0 equals -0.0, binaries byte by byte. Where the two sides have
    different numeric types, values are compared in a type that holds both.

    Args:
        source: One side; its columns are the ones compared.
        lake: The other side; further columns are ignored.
        keys: Columns that identify a row.
    """
    values = [name for name in source.columns if name not in set(keys)]
    pairs = _pairs(_digest(source, lake, keys, values), _digest(lake, source, keys, values), len(keys))
    groups = pairs.groupBy("kind", F.when(F.col("kind").isNotNull(), F.pmod(F.xxhash64("key"), F.lit(SAMPLES))).alias("bucket")).agg(
        F.count(F.lit(1)).alias("keys"),
        F.sum("rows_source").alias("rows_source"),
        F.sum("rows_lake").alias("rows_lake"),
        F.sum(F.greatest("rows_source", "rows_lake") - 1).alias("surplus"),
        F.min("key").alias("sample"),
    )
    return _summary(groups.collect())


def _digest(side: DataFrame, other: DataFrame, keys: Sequence[str], values: Sequence[str]) -> DataFrame:
    """One row per key: its canonical parts, how many rows have it, and a hash over their values."""
    kinds = {field.name: field.dataType for field in side.schema.fields}
    others = {field.name.lower(): field.dataType for field in other.schema.fields}

    def canonical(name: str) -> Column:
        column, kind = F.col(quoted(name)), next(k for n, k in kinds.items() if n.lower() == name.lower())
        common = _common(kind, others[name.lower()])
        return column if common is None else column.try_cast(common)

    columns = [canonical(name) for name in values]
    # A NULL leaves xxhash64 as it is, so that (NULL, 1) and (1, NULL) would be the same without the flags.
    hashed = F.xxhash64(*columns, *(column.isNull() for column in columns)) if columns else F.lit(0).cast("bigint")
    parts = [canonical(key).alias(f"k{index}") for index, key in enumerate(keys)]
    rows = side.select(*parts, hashed.alias("hash"))
    return rows.groupBy(*(f"k{index}" for index in range(len(keys)))).agg(
        F.count(F.lit(1)).alias("rows"),
        F.bit_xor("hash").alias("xor"),
        F.min("hash").alias("least"),
    )


def _pairs(left: DataFrame, right: DataFrame, parts: int) -> DataFrame:
    """One row per key of either side: its text, the rows on both sides, and how they differ (NULL = they do not)."""
    names = [f"k{index}" for index in range(parts)]
    joined = left.alias("s").join(right.alias("l"), F.expr(" AND ".join(f"s.{name} <=> l.{name}" for name in names)), "full_outer")
    source, lake = F.coalesce("s.rows", F.lit(0)), F.coalesce("l.rows", F.lit(0))
    same = F.col("s.xor").eqNullSafe(F.col("l.xor")) & F.col("s.least").eqNullSafe(F.col("l.least"))
    kind = (
        F.when(lake == 0, ONLY_IN_SOURCE)
        .when(source == 0, ONLY_IN_LAKE)
        .when((source > 1) | (lake > 1), DUPLICATE)
        .when(~same, DIFFERENT)
    )  # fmt: skip
    key = F.array(*(F.coalesce(_text(left, "s", name), _text(right, "l", name)) for name in names))
    return joined.select(source.alias("rows_source"), lake.alias("rows_lake"), kind.alias("kind"), key.alias("key"))


def _text(side: DataFrame, alias: str, name: str) -> Column:
    column = F.col(f"{alias}.{name}")
    return F.hex(column) if isinstance(side.schema[name].dataType, BinaryType) else column.cast("string")


def _summary(groups: Sequence[Row]) -> TableComparison:
    def keys(kind: str) -> int:
        return sum(group["keys"] for group in groups if group["kind"] == kind)

    named = ((group["kind"], group["sample"]) for group in groups if group["kind"])
    samples = sorted((kind, tuple("NULL" if part is None else str(part) for part in key)) for kind, key in named)
    return TableComparison(
        rows_source=sum(group["rows_source"] for group in groups),
        rows_lake=sum(group["rows_lake"] for group in groups),
        only_in_source=keys(ONLY_IN_SOURCE),
        only_in_lake=keys(ONLY_IN_LAKE),
        different=keys(DIFFERENT),
        duplicates=sum(group["surplus"] for group in groups),
        samples=tuple(samples),
    )


def _common(one: DataType, other: DataType) -> DataType | None:
    """Returns a type that holds the values of both, None if they are of the same type."""
    if one == other:
        return None
    kinds = (one, other)
    if all(isinstance(kind, IntegralType) for kind in kinds):
        return LongType()
    if all(isinstance(kind, IntegralType | DecimalType) for kind in kinds):
        return DecimalType(38, max(kind.scale for kind in kinds if isinstance(kind, DecimalType)))
    if all(isinstance(kind, NumericType) for kind in kinds):
        return DoubleType()
    return StringType()
