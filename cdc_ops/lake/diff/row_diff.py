"""The rows that a comparison changes: source rows against the same part of the Delta table. Runs in Spark; writes only to staging.

The difference is found before the MERGE, not by it: a MERGE that asks each matched row whether it differs reads and shuffles every column
of every file that it touches.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.operation.merge_plan import spark_literal
from cdc_ops.core.operation.operation import KeyRange, Operation
from cdc_ops.core.reconcile.diff import SAMPLES
from cdc_ops.core.schema.tables import Column
from cdc_ops.core.text import quoted

DELETED: Final = DELETE_MARK
"""Column of a batch that is true for the rows to be deleted."""

_HERE: Final = "__cdc_ops_here"
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


def find_changes(spark: SparkSession, spec: Operation, batch: DataFrame, lake: DataFrame, folder: str) -> Changes:
    """Compares a batch with the same part of the table.

    Args:
        spark: The session of both.
        spec: The operation, with its keys.
        batch: One row per key, as the source has them.
        lake: The same part of the table; further columns are ignored.
        folder: Where the rows that differ are kept until they are merged; unique for this try.
    """
    found = difference(batch, lake, spec.apply.keys, spec.source_keys)
    if spec.apply.stored_as.ignores_deletes:
        found = found.where(~F.col(DELETED))
    found.write.mode("overwrite").parquet(folder)
    rows = spark.read.schema(_columns(spec)).parquet(folder)
    [sums] = rows.agg(F.count(F.lit(1)).alias("n"), F.count_if(F.col(DELETED)).alias("gone"), *_ends(spec)).collect()
    return Changes(rows=rows, count=sums["n"], deletes=sums["gone"], key_ranges=_ranges(spec, sums) if sums["n"] else ())


def key_ranges(rows: DataFrame, spec: Operation) -> tuple[KeyRange, ...]:
    """Returns the ranges of the keys of some rows, of which there must be one at least, by reading them."""
    if not _ranged(spec):
        return ()
    [sums] = rows.agg(*_ends(spec)).collect()
    return _ranges(spec, sums)


def difference(batch: DataFrame, lake: DataFrame, keys: tuple[str, ...], shown: tuple[str, ...] = ()) -> DataFrame:
    """Returns the batch's rows that differ from the lake's, and the keys that only the lake has, with `DELETED` true.

    `shown` are further columns that name a row; of rows that only the lake has, they are there too.

    Values are equal as a MERGE would see them: NULL equals NULL, NaN equals NaN. A column that the lake does not have yet is NULL there.
    """
    types = {field.name: field.dataType for field in batch.schema.fields}
    there = {name.lower() for name in lake.columns}
    have = {name: F.col(quoted(name)) if name.lower() in there else F.lit(None) for name in batch.columns}
    stored = lake.select(*(column.cast(types[name]).alias(name) for name, column in have.items())).alias("l")
    read = batch.withColumn(_HERE, F.lit(True)).alias("b")
    same_key = [F.col(f"b.{quoted(key)}") == F.col(f"l.{quoted(key)}") for key in keys]
    row_b, row_l = (F.struct(*(F.col(f"{side}.{quoted(name)}") for name in batch.columns)) for side in "bl")
    gone = F.col(f"b.{_HERE}").isNull()
    named = {*keys, *shown}
    columns = (
        F.coalesce(F.col(f"b.{quoted(name)}"), F.col(f"l.{quoted(name)}")).alias(name) if name in named else F.col(f"b.{quoted(name)}")
        for name in batch.columns
    )
    joined = read.join(stored, same_key, "full_outer").where(gone | ~row_b.eqNullSafe(row_l))
    return joined.select(*columns, gone.alias(DELETED))


def same_rows(left: DataFrame, right: DataFrame) -> bool:
    """True if two sets of rows are the same, repeated rows counted; for tables without keys."""
    names = left.columns
    types = {field.name: field.dataType for field in left.schema.fields}

    def sums(side: DataFrame) -> tuple[int, int, int]:
        """Returns the number of rows, and the sums of two hashes over all columns."""
        there = {name.lower() for name in side.columns}
        columns = [(F.col(quoted(name)) if name.lower() in there else F.lit(None)).cast(types[name]) for name in names]
        flags = [column.isNull() for column in columns]
        hashed = side.select(*(F.xxhash64(F.lit(seed), *columns, *flags).cast("decimal(20,0)").alias(f"h{seed}") for seed in (1, 2)))
        [row] = hashed.agg(F.count(F.lit(1)).alias("n"), F.sum("h1").alias("h1"), F.sum("h2").alias("h2")).collect()
        return int(row["n"]), int(row["h1"] or 0), int(row["h2"] or 0)

    return sums(left) == sums(right)


_ENDS: Final = (("low", F.min), ("high", F.max))


def _ranged(spec: Operation) -> list[Column]:
    return [c for key in spec.apply.keys if (c := spec.source.schema.column(key)) is not None and c.delta_type.startswith(_PRUNED)]


def _ends(spec: Operation) -> list[SparkColumn]:
    return [end(quoted(c.name)).cast("string").alias(f"{side}{i}") for i, c in enumerate(_ranged(spec)) for side, end in _ENDS]


def _ranges(spec: Operation, sums: Row) -> tuple[KeyRange, ...]:
    found = ((c, sums[f"low{i}"], sums[f"high{i}"]) for i, c in enumerate(_ranged(spec)))
    return tuple(
        KeyRange(column=c.name, low=spark_literal(c.delta_type, low), high=spark_literal(c.delta_type, high)) for c, low, high in found
    )


def _columns(spec: Operation) -> str:
    columns = ", ".join(f"{quoted(column.name)} {column.delta_type}" for column in spec.source.schema.columns)
    return f"{columns}, {DELETED} boolean"
