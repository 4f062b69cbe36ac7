"""The one join of source and lake by key: it says of each key how its rows differ. Spark expressions only.

    verify      `diff_by_digest`    every key, with the number of its rows on both sides    -> summed up by `lake.diff.comparison`
    reconcile   `diff_by_values`    the keys that differ, with the rows of both sides       -> merged, by `lake.diff.changes`

Which rows are equal says `lake.diff.equality`.
"""

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from cdc_ops.lake.diff.equality import Equality

ONLY_IN_SOURCE: Final = "only in source"
ONLY_IN_LAKE: Final = "only in lake"
DIFFERENT: Final = "different"
DUPLICATE: Final = "duplicate"

_PART: Final = "key_part_"


def diff_by_digest(source: DataFrame, lake: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Compares two tables; rows are equal if their digests are.

    Args:
        source: One side; its columns are the ones compared.
        lake: The other side; further columns are ignored.
        keys: Columns that identify a row; NULL is a key like others.

    Returns:
        One row per key of either side: `key`, its values as text; `rows_source` and `rows_lake`, how many rows have it; `kind`, how they
        differ, NULL if they do not.
    """
    equality = Equality.between(source, lake)
    values = [name for name in source.columns if name not in set(keys)]

    def digests(rows: DataFrame, value: Callable[[str], Column]) -> DataFrame:
        parts = _key_parts(equality, keys, value)
        digest = equality.digest(values, value).alias("row")
        return rows.select(*parts, digest).groupBy(*_part_names(len(parts))).agg(F.count("row").alias("rows"), F.first("row").alias("row"))

    sides = digests(source, equality.source_value), digests(lake, equality.lake_value)
    joined = _joined(*sides, F.col("source.row").eqNullSafe(F.col("lake.row")))
    texts = [_text(sides[0], name) for name in sides[0].columns if name.startswith(_PART)]
    return joined.select(F.array(*texts).alias("key"), "rows_source", "rows_lake", "kind")


def diff_by_values(source: DataFrame, lake: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Compares two tables; rows are equal if all their values are.

    Args:
        source: One row per key; its columns are the ones compared.
        lake: The other side; further columns are ignored. Of several rows of one key, each is compared.
        keys: Columns that identify a row; NULL is a key like others.

    Returns:
        One row per key that differs: `kind`; `source_row` and `lake_row`, structs with the source's columns, NULL on the side that does not
        have the key.
    """
    equality, names = Equality.between(source, lake), source.columns

    def rows_of(rows: DataFrame, value: Callable[[str], Column]) -> DataFrame:
        row = F.struct(*(value(name).alias(name) for name in names)).alias("row")
        return rows.select(*_key_parts(equality, keys, value), row, F.lit(1).alias("rows"))

    sides = rows_of(source, equality.source_value), rows_of(lake, equality.lake_value)
    joined = _joined(*sides, equality.equal_rows(names, "source.row", "lake.row")).where(F.col("kind").isNotNull())
    # A key that the lake has twice is still one row to merge: a MERGE takes no two.
    return joined.dropDuplicates([name for name in joined.columns if name.startswith(_PART)]).select("kind", "source_row", "lake_row")


def _joined(source: DataFrame, lake: DataFrame, same: Column) -> DataFrame:
    """Joins two sides on their key parts; `same` says whether a row of `source` equals one of `lake`."""
    parts = [name for name in source.columns if name.startswith(_PART)]
    on = F.expr(" AND ".join(f"source.{name} <=> lake.{name}" for name in parts))
    joined = source.alias("source").join(lake.alias("lake"), on, "full_outer")
    rows_source, rows_lake = F.coalesce("source.rows", F.lit(0)), F.coalesce("lake.rows", F.lit(0))
    kind = (
        F.when(rows_lake == 0, ONLY_IN_SOURCE)
        .when(rows_source == 0, ONLY_IN_LAKE)
        .when((rows_source > 1) | (rows_lake > 1), DUPLICATE)
        .when(~same, DIFFERENT)
    )
    return joined.select(
        *(F.coalesce(f"source.{name}", f"lake.{name}").alias(name) for name in parts),
        rows_source.alias("rows_source"),
        rows_lake.alias("rows_lake"),
        kind.alias("kind"),
        F.col("source.row").alias("source_row"),
        F.col("lake.row").alias("lake_row"),
    )


def _key_parts(equality: Equality, keys: Sequence[str], value: Callable[[str], Column]) -> list[Column]:
    """Returns what rows are joined by, under names of ours."""
    parts = [part for key in keys for part in equality.comparable(key, value(key))]
    return [part.alias(name) for part, name in zip(parts, _part_names(len(parts)), strict=True)]


def _part_names(count: int) -> list[str]:
    return [f"{_PART}{index}" for index in range(count)]


def _text(side: DataFrame, name: str) -> Column:
    return F.hex(name) if isinstance(side.schema[name].dataType, BinaryType) else F.col(name).cast("string")
