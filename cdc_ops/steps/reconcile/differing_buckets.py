"""Checksums of source and lake by buckets: they tell which part of a table differs before a row is read. Shared by verify and reconcile.

checksums of all buckets, both sides at the same time -> the buckets that differ, cut finer once -> the part to be read
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import SparkSession

from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec, Digests, added, differing, rows_in
from cdc_ops.core.reconcile.key_buckets import Buckets, BucketSelection
from cdc_ops.core.schema.collated_keys import source_names
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.lake.diff.checksums import lake_digests
from cdc_ops.lake.table.live_rows import LiveRows
from cdc_ops.sources.base import DigestQuery, Source
from cdc_ops.steps.query.jdbc_rows import read_rows

WORTH_SPLITTING: Final = 10_000
"""Rows in differing ranges from which another pair of checksums is cheaper than reading them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingBuckets:
    """What the checksums of both sides say.

    Args:
        scope: The buckets that differ.
        rows: Rows that the source has in them.
        rows_source, rows_lake: All rows that were counted on each side.
    """

    scope: BucketSelection
    rows: int
    rows_source: int
    rows_lake: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChecksums:
    """The checksums of one table, at the source and in the lake.

    Args:
        spark: The session that reads both.
        source: Computes its own checksums.
        lake: The rows of the Delta table.
        schema: The table's columns.
        columns: What is hashed of each row.
        slices: Conditions that tile the table, one per connection.
    """

    spark: SparkSession
    source: Source
    lake: LiveRows
    schema: TableSchema
    columns: tuple[str, ...]
    slices: tuple[str, ...]

    def compare(self, buckets: Buckets, within: BucketSelection | None = None) -> DifferingBuckets:
        """Computes the checksums of both sides at the same time, and compares them."""
        with ThreadPoolExecutor(max_workers=1) as pool:
            pending = pool.submit(lake_digests, self.spark, self.lake, self.schema, self.columns, buckets, within)
            source = self._source_digests(buckets, within)
            lake = pending.result()
        scope = differing(buckets, source, lake)
        rows_source, rows_lake = (sum(one.rows for one in side.values()) for side in (source, lake))
        return DifferingBuckets(scope=scope, rows=rows_in(scope, source), rows_source=rows_source, rows_lake=rows_lake)

    def _source_digests(self, buckets: Buckets, within: BucketSelection | None) -> Digests:
        query = DigestQuery(schema=self.schema, columns=self.columns, buckets=buckets, slices=self.slices, within=within)
        rows = read_rows(self.spark, self.source.digest_read(query)).collect()
        return added((int(row["bucket"]), int(row["row_count"]), int(row["total"])) for row in rows)


def find_differing_buckets(checksums: TableChecksums, buckets: Buckets) -> DifferingBuckets:
    """Returns the buckets that differ. Ranges that hold many rows are split once more, so that little more is read than what changed."""
    found = checksums.compare(buckets)
    scope, finer = found.scope.bounded(), buckets.finer()
    if found.rows >= WORTH_SPLITTING and finer is not None and buckets.by_range:
        split = checksums.compare(finer, scope)
        return replace(found, scope=split.scope.bounded(), rows=split.rows)
    return replace(found, scope=scope)


def hashed_columns(compare: CompareSpec, schema: TableSchema, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the columns that are hashed of each row: all, or the keys."""
    # A key that the source compares loosely is hashed as it is spelled, too.
    return tuple(dict.fromkeys((*keys, *source_names(schema, keys)))) if compare.strength is CompareLevel.KEYS else schema.names
