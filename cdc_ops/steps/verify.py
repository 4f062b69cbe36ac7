"""verify: compares source and lake and says which keys differ. Runs in Spark; writes nothing.

Checksums of key buckets come first, where the table's columns allow them; only buckets that differ are read and compared row by row. So
equal tables ship nothing but one line per bucket.
"""

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from cdc_ops.core.reconcile.key_buckets import WHOLE, BucketSelection
from cdc_ops.core.text import quoted
from cdc_ops.lake.diff.checksums import scope_condition
from cdc_ops.lake.diff.table_diff import TableComparison, compare_tables
from cdc_ops.lake.table.live_rows import LiveRows
from cdc_ops.sources.base import Source
from cdc_ops.steps.planning.reconcile import VerifyPlan
from cdc_ops.steps.query.jdbc_rows import read_source
from cdc_ops.steps.reconcile.differing_buckets import TableChecksums, find_differing_buckets
from cdc_ops.steps.stage.latest_rows import is_deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a comparison of source and lake found.

    Args:
        comparison: How they differ.
        scope: The part of the table in which they do, the whole of it where no checksums could tell; empty if checksums are equal.
    """

    comparison: TableComparison
    scope: BucketSelection


def verify(spark: SparkSession, source: Source, question: VerifyPlan) -> TableComparison:
    """Compares a table at the source, as it is now, with the lake.

    Args:
        spark: Any session.
        source: Asked how to read; it opens no connection here.
        question: What is compared (`cdc_ops.steps.planning.reconcile.plan_verification`).
    """
    return find_differences(spark, source, question).comparison


def find_differences(spark: SparkSession, source: Source, question: VerifyPlan) -> Verification:
    """Does the same, and says where they differ, which is what a repair has to read."""
    lake = _lake(question)
    stored = {name.lower() for name in lake.read(spark).columns}
    columns = tuple(column.name for column in question.schema.columns)
    if question.buckets is None or any(name.lower() not in stored for name in columns):
        return Verification(comparison=verify_part(spark, source, question, WHOLE), scope=WHOLE)
    checksums = TableChecksums(
        spark=spark, source=source, lake=lake, schema=question.schema, columns=columns, slices=question.slices
    )  # fmt: skip
    found = find_differing_buckets(checksums, question.buckets)
    equal = TableComparison(
        rows_source=found.rows_source, rows_lake=found.rows_lake, only_in_source=0, only_in_lake=0, different=0
    )  # fmt: skip
    if found.scope.is_empty:
        return Verification(comparison=equal, scope=found.scope)
    part = verify_part(spark, source, question, found.scope)
    return Verification(
        comparison=replace(part, rows_source=equal.rows_source, rows_lake=equal.rows_lake), scope=found.scope
    )  # fmt: skip


def verify_part(spark: SparkSession, source: Source, question: VerifyPlan, scope: BucketSelection) -> TableComparison:
    """Compares a part of a table row by row."""
    parts = (
        question.slices if scope.is_whole else tuple(source.scope_predicate(question.schema, one) for one in scope.parts(question.readers))
    )
    schema = question.schema.extended(question.hidden)
    rows = read_source(spark, source.jdbc_read(schema, parts), schema)
    if question.delete_where:
        rows = rows.where(~is_deleted(question.delete_where)).drop(*(column.name for column in question.hidden))
    lake = _lake(question).read(spark)
    condition = scope_condition(question.schema, scope)
    part = lake.where(condition) if condition else lake
    found = compare_tables(rows, part.select(*map(quoted, rows.columns)), question.keys or tuple(rows.columns))
    return found.without_deletes() if question.ignores_deletes else found


def _lake(question: VerifyPlan) -> LiveRows:
    return LiveRows(path=question.path, deleted_column=question.deleted_column, keeps_versions=question.keeps_versions)
