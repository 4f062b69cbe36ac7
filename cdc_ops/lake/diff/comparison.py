"""What verify tells of source and lake: how many keys differ in which way, and some of them. Spark expressions only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from cdc_ops.lake.diff.row_diff import DIFFERENT, ONLY_IN_LAKE, ONLY_IN_SOURCE, diff_by_digest

SAMPLES: Final = 5
"""Keys that are named per kind of difference, at most."""


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
    """Compares two tables, each read once; `lake.diff.equality` says when rows are equal.

    Args:
        source: One side; its columns are the ones compared.
        lake: The other side; further columns are ignored, missing ones are NULL.
        keys: Columns that identify a row.
    """
    found = diff_by_digest(source, lake, keys)
    bucket = F.when(F.col("kind").isNotNull(), F.pmod(F.xxhash64("key"), F.lit(SAMPLES))).alias("bucket")
    groups = found.groupBy("kind", bucket).agg(
        F.count(F.lit(1)).alias("keys"),
        F.sum("rows_source").alias("rows_source"),
        F.sum("rows_lake").alias("rows_lake"),
        F.sum(F.greatest("rows_source", "rows_lake") - 1).alias("surplus"),
        F.min("key").alias("sample"),
    )
    return _summary(groups.collect())


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
