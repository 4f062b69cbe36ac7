"""extract of a comparison: finds the part of a table that differs, and lands its rows. For reconcile, and for tables without cursor.

    checksums of both sides by buckets -> the buckets that differ, split once -> their rows are read and landed

Whatever moves at the source meanwhile: that a row is gone is decided by the read that would have brought it, and by nothing else. Rows that
are newer than the watermark come along; the next increment brings them again, which changes nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import CompareRead
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.operation.row_counts import RowsExpected
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec
from cdc_ops.core.reconcile.key_buckets import WHOLE, BucketSelection
from cdc_ops.errors import StateError
from cdc_ops.lake.staging.landing import land
from cdc_ops.lake.staging.manifests import write_manifest
from cdc_ops.lake.table.fence import fence_abandoned
from cdc_ops.lake.table.live_rows import LiveRows
from cdc_ops.sources.base import Source
from cdc_ops.steps.query.jdbc_rows import read_with_null_counts
from cdc_ops.steps.query.row_counts import check_rows_read
from cdc_ops.steps.reconcile.differing_buckets import TableChecksums, find_differing_buckets, hashed_columns
from cdc_ops.steps.reporting.stopwatch import measured, measured_until


def land_differences(
    spark: SparkSession, source: Source, operation: Operation, attempt: str, check: Callable[[], None], reread: str = ""
) -> Manifest:
    """Finds what differs, reads it and lands it; if nothing does, a manifest says so and nothing is read.

    Args:
        spark: A session of its own.
        source: Where to read.
        operation: The frozen operation.
        attempt: Folder name of this try, unique.
        check: Called when all rows are written and not yet declared landed; what it raises leaves them undeclared.
        reread: Why this is done although it had been landed before, "" if it had not.

    Raises:
        LakeConflictError: an operation that was given up commits at this moment.
        CountMismatchError: rows that the source has were not read.
    """
    compare = comparison_of(operation)
    if compare.seals is not None:
        fence_abandoned(spark, operation, compare.seals)
    scope, expected = _scope_of(spark, source, operation, compare)
    if scope.is_empty:
        fingerprint = operation.source.schema.fingerprint
        manifest = Manifest.of(
            operation_id=operation.operation_id, attempt=attempt, rows=0, bytes=0,
            schema_fingerprint=fingerprint, scope=scope, reread=reread,
        )  # fmt: skip
        write_manifest(operation.target.staging, manifest)
        return manifest
    if not operation.apply.keys:
        scope, expected = WHOLE, operation.expected_rows  # rows that have no name cannot be exchanged one by one
    slices = (
        operation.slices
        if scope.is_whole
        else tuple(source.scope_predicate(operation.source.schema, one) for one in scope.parts(compare.readers))
    )
    rows = read_with_null_counts(spark, source.jdbc_read(operation.full_schema, slices), operation.full_schema, operation.source_keys)

    def finished(manifest: Manifest) -> Manifest:
        known = RowsExpected(rows=expected, exact=False)
        check_rows_read(source, operation, manifest.landed.rows, expected=known, slices=slices)
        return replace(manifest, scope=scope, reread=reread)

    with measured_until(RunPhase.READING, check) as checked:
        return land(spark, rows, operation, attempt, checked, finished)


def _scope_of(spark: SparkSession, source: Source, operation: Operation, compare: CompareSpec) -> tuple[BucketSelection, int]:
    """Returns the part of a table that has to be read: what a verification found, or what checksums tell now; and about how many rows."""
    # Columns that the lake does not have yet cannot be summed up there; keys it always has.
    altered = any(operation.source.schema.column(change.column) for change in operation.apply.schema_changes)
    if compare.buckets is None or (compare.strength is not CompareLevel.KEYS and altered):
        return WHOLE, operation.expected_rows
    if compare.scope is not None:
        return compare.scope, 0
    checksums = TableChecksums(
        spark=spark,
        source=source,
        lake=stored_rows(operation),
        schema=operation.source.schema,
        columns=hashed_columns(compare, operation.source.schema, operation.apply.keys),
        slices=operation.slices,
    )
    with measured(RunPhase.COMPARING):
        found = find_differing_buckets(checksums, compare.buckets)
    return found.scope, found.rows


def stored_rows(operation: Operation) -> LiveRows:
    """Returns the rows of the table that the source is compared with."""
    return LiveRows(
        path=operation.target.path, deleted_column=operation.apply.deleted_column, keeps_versions=operation.apply.stored_as.keeps_versions
    )


def comparison_of(operation: Operation) -> CompareSpec:
    """Returns how an operation compares.

    Raises:
        StateError: it compares nothing.
    """
    if not isinstance(operation.read, CompareRead):
        raise StateError(f"Operation {operation.op_seq} of {operation.table} compares nothing.")
    return operation.read.compare
