"""The rows that reconcile changes: source rows against the same part of the Delta table. Runs in Spark; writes only to staging.

The difference is found before the MERGE, not by it: a MERGE that asks each matched row whether it differs reads and shuffles every column
of every file that it touches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.operation.merging.merge_plan import spark_literal
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import KeyRange
from cdc_ops.core.reconcile.diff import SAMPLES
from cdc_ops.core.text import quoted
from cdc_ops.lake.diff.equality import Equality
from cdc_ops.lake.diff.row_diff import ONLY_IN_LAKE, diff_by_values
from cdc_ops.lake.staging.shared_folder import write_seen

DELETED: Final = DELETE_MARK
"""Column of a batch that is true for the rows to be deleted."""

_PRUNED: Final = ("tinyint", "smallint", "int", "bigint", "decimal", "date")
"""Types of keys by whose range files are skipped; their text is the text of a literal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The rows that differ, kept in the staging area.

    Args:
        rows: The rows as they have to be, and of rows to be deleted the keys; `DELETED` tells them apart.
        count: How many there are.
        deletes: How many of them are deletes.
        key_ranges: Ranges of their keys.
    """

    rows: DataFrame
    count: int
    deletes: int
    key_ranges: tuple[KeyRange, ...]

    def samples(self, keys: tuple[str, ...]) -> list[str]:
        """Returns some of the keys to be deleted, as text."""
        columns = [F.col(quoted(key)).cast("string") for key in keys]
        gone = self.rows.where(F.col(DELETED)).select(*columns).limit(SAMPLES).collect()
        return [", ".join(str(value) for value in row) for row in gone]

    def digest(self, keys: tuple[str, ...]) -> str:
        """Returns a digest of the keys to be deleted, which does not depend on their order."""
        key = F.to_json(F.array(*(F.col(quoted(name)).cast("string") for name in keys)))
        total = F.sum(F.xxhash64(key).cast("decimal(20,0)")).alias("total")
        [row] = self.rows.where(F.col(DELETED)).select(total).collect()
        return "" if row["total"] is None else str(row["total"])


def find_changes(spark: SparkSession, operation: Operation, batch: DataFrame, lake: DataFrame, folder: str) -> Changes:
    """Compares a batch with the same part of the table.

    Args:
        spark: The session of both.
        operation: The operation, with its keys.
        batch: One row per key, as the source has them.
        lake: The same part of the table; further columns are ignored.
        folder: Where the rows that differ are kept until they are merged; unique for this try.
    """
    found = difference(batch, lake, operation.apply.keys, operation.source_keys)
    if operation.apply.stored_as.ignores_deletes:
        found = found.where(~F.col(DELETED))
    write_seen(found, folder)
    rows = spark.read.schema(found.schema).parquet(folder)
    ends = _ends(rows, operation)
    [sums] = rows.agg(F.count(F.lit(1)).alias("n"), F.count_if(F.col(DELETED)).alias("gone"), *ends).collect()
    return Changes(rows=rows, count=sums["n"], deletes=sums["gone"], key_ranges=_ranges(rows, operation, sums) if sums["n"] else ())


def key_ranges(rows: DataFrame, operation: Operation) -> tuple[KeyRange, ...]:
    """Returns the ranges of the keys of some rows, of which there must be one at least, by reading them."""
    if not _ranged(rows, operation):
        return ()
    [sums] = rows.agg(*_ends(rows, operation)).collect()
    return _ranges(rows, operation, sums)


def difference(batch: DataFrame, lake: DataFrame, keys: tuple[str, ...], shown: tuple[str, ...] = ()) -> DataFrame:
    """Returns the batch's rows that the lake lacks or has otherwise, and the keys that only the lake has, with `DELETED` true.

    Args:
        batch: One row per key, as the source has them.
        lake: The same part of the table; further columns are ignored, missing ones are NULL.
        keys: Columns that identify a row.
        shown: Further columns that name a row: rows that only the lake has keep them too.
    """
    equality = Equality.between(batch, lake)

    def value(name: str) -> Column:
        source, stored = (F.col(f"{side}.{quoted(name)}") for side in ("source_row", "lake_row"))
        if name in keys:
            # In the type that is compared, which holds what the lake has; the source's type may not.
            source, stored = (equality.comparable(name, one)[0] for one in (source, stored))
        return (F.coalesce(source, stored) if name in {*keys, *shown} else source).alias(name)

    found = diff_by_values(batch, lake, keys)
    return found.select(*map(value, batch.columns), (F.col("kind") == ONLY_IN_LAKE).alias(DELETED))


def same_rows(source: DataFrame, lake: DataFrame) -> bool:
    """True if two sets of rows are the same, repeated rows counted; for tables without keys."""
    equality = Equality.between(source, lake)

    def sums(rows: DataFrame, value: Callable[[str], Column]) -> tuple[int, ...]:
        """Returns the number of rows, and the sums of the digest's halves over all rows."""
        digests = rows.select(equality.digest(source.columns, value).alias("digest")).select("digest.*")
        totals = [F.sum(F.col(name).cast("decimal(20,0)")) for name in digests.columns]
        [row] = digests.agg(F.count(F.lit(1)), *totals).collect()
        return tuple(int(total or 0) for total in row)

    return sums(source, equality.source_value) == sums(lake, equality.lake_value)


_ENDS: Final = (("low", F.min), ("high", F.max))


def _ranged(rows: DataFrame, operation: Operation) -> list[tuple[str, str]]:
    """Returns the keys by whose ranges files are skipped, each with its type."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    return [(key, types[key]) for key in operation.apply.keys if types.get(key, "").startswith(_PRUNED)]


def _ends(rows: DataFrame, operation: Operation) -> list[Column]:
    ranged = enumerate(_ranged(rows, operation))
    return [end(quoted(name)).cast("string").alias(f"{side}{index}") for index, (name, _) in ranged for side, end in _ENDS]


def _ranges(rows: DataFrame, operation: Operation, sums: Row) -> tuple[KeyRange, ...]:
    found = ((name, kind, sums[f"low{index}"], sums[f"high{index}"]) for index, (name, kind) in enumerate(_ranged(rows, operation)))
    return tuple(KeyRange(column=name, low=spark_literal(kind, low), high=spark_literal(kind, high)) for name, kind, low, high in found)
