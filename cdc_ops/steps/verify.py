"""verify: compares source and lake and says which keys differ. Runs in Spark; writes nothing.

    checksums of both sides by buckets of keys -> the buckets that differ -> their rows, compared row by row -> counts and samples

A table that is equal sends one line per bucket and no rows. A table with a column that has no checksum is read whole. Which rows are equal
says `lake.diff.equality`, as it does for reconcile.
"""

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from cdc_ops.core.reconcile.key_buckets import WHOLE, BucketSelection
from cdc_ops.lake.diff.checksums import scope_condition
from cdc_ops.lake.diff.comparison import TableComparison, compare_tables
from cdc_ops.lake.spark.expressions import is_true
from cdc_ops.lake.table.live_rows import LiveRows
from cdc_ops.sources.base import Source
from cdc_ops.steps.planning.reconcile import VerifyPlan
from cdc_ops.steps.query.jdbc_rows import read_source
from cdc_ops.steps.reconcile.differing_buckets import TableChecksums, find_differing_buckets


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How source and lake differ, and where.

    Args:
        comparison: The numbers of rows that differ, and samples.
        scope: The part of the table that holds all differences: the whole table if it has no checksums, no bucket if they are equal.
    """

    comparison: TableComparison
    scope: BucketSelection


def verify(spark: SparkSession, source: Source, plan: VerifyPlan) -> TableComparison:
    """Compares a table at the source, as it is now, with the lake.

    Args:
        spark: Any session.
        source: Asked how to read; it opens no connection here.
        plan: What is compared (`cdc_ops.steps.planning.reconcile.plan_verification`).
    """
    return find_differences(spark, source, plan).comparison


def find_differences(spark: SparkSession, source: Source, plan: VerifyPlan) -> Verification:
    """Compares a table as `verify` does, and says in which part of it the rows differ: a repair reads that part."""
    lake = _lake(plan)
    stored = {name.lower() for name in lake.read(spark).columns}
    columns = tuple(column.name for column in plan.schema.columns)
    if plan.buckets is None or any(name.lower() not in stored for name in columns):
        return Verification(comparison=verify_part(spark, source, plan, WHOLE), scope=WHOLE)
    checksums = TableChecksums(
        spark=spark, source=source, lake=lake, schema=plan.schema, columns=columns, slices=plan.slices
    )  # fmt: skip
    found = find_differing_buckets(checksums, plan.buckets)
    equal = TableComparison(
        rows_source=found.rows_source, rows_lake=found.rows_lake, only_in_source=0, only_in_lake=0, different=0
    )  # fmt: skip
    if found.scope.is_empty:
        return Verification(comparison=equal, scope=found.scope)
    part = verify_part(spark, source, plan, found.scope)
    return Verification(
        comparison=replace(part, rows_source=equal.rows_source, rows_lake=equal.rows_lake), scope=found.scope
    )  # fmt: skip


def verify_part(spark: SparkSession, source: Source, plan: VerifyPlan, scope: BucketSelection) -> TableComparison:
    """Compares a part of a table row by row, without checksums."""
    parts = plan.slices if scope.is_whole else tuple(source.scope_predicate(plan.schema, one) for one in scope.parts(plan.readers))
    schema = plan.schema.extended(plan.hidden)
    rows = read_source(spark, source.jdbc_read(schema, parts), schema)
    if plan.delete_where:
        rows = rows.where(~is_true(plan.delete_where)).drop(*(column.name for column in plan.hidden))
    lake = _lake(plan).read(spark)
    condition = scope_condition(plan.schema, scope)
    part = lake.where(condition) if condition else lake
    found = compare_tables(rows, part, plan.keys or tuple(rows.columns))
    return found.without_deletes() if plan.ignores_deletes else found


def _lake(plan: VerifyPlan) -> LiveRows:
    return LiveRows(path=plan.path, deleted_column=plan.deleted_column, keeps_versions=plan.keeps_versions)
