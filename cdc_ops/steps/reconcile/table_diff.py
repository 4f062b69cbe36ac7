"""compare: brings over only what differs between source and lake. The Spark half of reconcile, and of tables without cursor.

    extract   checksums of both sides by buckets -> the buckets that differ, split once -> their rows are read and landed
    merge     landed rows against the same part of the table -> rows that really differ -> guard -> one MERGE, or no commit at all

Whatever moves at the source meanwhile: that a row is gone is decided by the read that would have brought it, and by nothing else. Rows that
are newer than the watermark come along; the next increment brings them again, which changes nothing.
"""

import uuid
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.operation.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Counts, Manifest, Operation, OperationResult, Outcome
from cdc_ops.core.operation.reads import CompareRead
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec
from cdc_ops.core.reconcile.key_buckets import WHOLE, BucketSelection
from cdc_ops.core.text import quoted
from cdc_ops.errors import StateError
from cdc_ops.lake.diff.changes import DELETED, Changes, find_changes, same_rows
from cdc_ops.lake.diff.checksums import scope_condition
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.fence import fence_abandoned
from cdc_ops.lake.staging.landing import land, read_landed
from cdc_ops.lake.staging.manifests import write_manifest
from cdc_ops.lake.table.live_rows import LiveRows
from cdc_ops.sources.base import Source
from cdc_ops.steps.query.jdbc_rows import read_with_null_counts
from cdc_ops.steps.reconcile.differing_buckets import TableChecksums, find_differing_buckets, hashed_columns
from cdc_ops.steps.reporting.stopwatch import measured
from cdc_ops.steps.stage.latest_rows import apply_deletes, is_deleted, latest_per_key


def land_differences(
    spark: SparkSession, source: Source, spec: Operation, attempt: str, check: Callable[[], None], reread: str = ""
) -> Manifest:
    """Finds what differs, reads it and lands it; if nothing does, a manifest says so and nothing is read.

    Args:
        spark: A session of its own.
        source: Where to read.
        spec: The frozen operation.
        attempt: Folder name of this try, unique.
        check: Called when all rows are written and not yet declared landed; what it raises leaves them undeclared.
        reread: Why this is done although it had been landed before, "" if it had not.

    Raises:
        LakeConflictError: an operation that was given up commits at this moment.
    """
    compare = _compare_of(spec)
    if compare.seals is not None:
        fence_abandoned(spark, spec, compare.seals)
    scope = _scope_of(spark, source, spec, compare)
    if scope.is_empty:
        fingerprint = spec.source.schema.fingerprint
        manifest = Manifest(
            operation_id=spec.operation_id, attempt=attempt, rows=0, bytes=0, schema_fingerprint=fingerprint, scope=scope, reread=reread
        )  # fmt: skip
        write_manifest(spec.target.staging, manifest)
        return manifest
    if not spec.apply.keys:
        scope = WHOLE  # rows that have no name cannot be exchanged one by one
    slices = (
        spec.slices if scope.is_whole else tuple(source.scope_predicate(spec.source.schema, one) for one in scope.parts(compare.readers))
    )
    rows = read_with_null_counts(spark, source.jdbc_read(spec.full_schema, slices), spec.full_schema, spec.source_keys)
    return land(spark, rows, spec, attempt, check, lambda manifest: replace(manifest, scope=scope, reread=reread))


def _scope_of(spark: SparkSession, source: Source, spec: Operation, compare: CompareSpec) -> BucketSelection:
    """Returns the part of a table that has to be read: what a verification found, or what checksums tell now."""
    # Columns that the lake does not have yet cannot be summed up there; keys it always has.
    altered = any(spec.source.schema.column(change.column) for change in spec.apply.schema_changes)
    if compare.buckets is None or (compare.strength is not CompareLevel.KEYS and altered):
        return WHOLE
    if compare.scope is not None:
        return compare.scope
    checksums = TableChecksums(
        spark=spark,
        source=source,
        lake=_living(spec),
        schema=spec.source.schema,
        columns=hashed_columns(compare, spec.source.schema, spec.apply.keys),
        slices=spec.slices,
    )
    with measured(RunPhase.COMPARING):
        return find_differing_buckets(checksums, compare.buckets).scope


def merge_differences(spark: SparkSession, spec: Operation, manifest: Manifest, *, taken: bool) -> OperationResult:
    """Applies what really differs in one statement; if nothing does, there is no commit.

    Args:
        spark: A session of its own.
        spec: The frozen operation.
        manifest: What was landed.
        taken: The table has this number already, or a larger one.

    Raises:
        DeletesRefusedError: more rows would be deleted than may be; nothing was written.
        DataError: rows without key, or with the same key.
        LakeError: somebody else committed.
    """
    if taken:
        # Delta skips whatever comes under this number; the history says whether it is ours.
        return _nothing(spark, spec, manifest)
    if manifest.scope is None or manifest.scope.is_empty:
        return _unchanged(spark, spec, manifest)
    landed = read_landed(spark, spec, manifest)
    if spec.apply.delete_where:
        landed = landed.where(~is_deleted(spec.apply.delete_where))
    landed = landed.drop(*(column.name for column in spec.source.hidden))
    plan = plan_merge(spec, manifest)
    lake = _living(spec).read(spark)
    if not spec.apply.keys:
        return _replace(spark, spec, manifest, landed, lake)
    changes = _changes(spark, spec, manifest, landed, lake)
    if not changes.count:
        return _unchanged(spark, spec, manifest)
    if changes.deletes:
        guard = _compare_of(spec).guard
        samples = changes.samples(spec.source_keys)
        guard.check(changes.deletes, lake.count(), samples, pipeline=spec.pipeline, table=str(spec.table))
    plan = replace(plan, prune=changes.key_ranges, deleted_flag=DELETED)
    if not spec.apply.deleted_column:
        return apply(spark, spec, changes.rows, plan, manifest.rows)
    # Of rows that are gone the batch has nothing but the keys: their last values are in the lake.
    marked = changes.rows.withColumn(spec.apply.deleted_column, F.col(DELETED))
    return apply(spark, spec, marked, replace(plan, marked=changes.deletes), manifest.rows)


def _changes(spark: SparkSession, spec: Operation, manifest: Manifest, landed: DataFrame, lake: DataFrame) -> Changes:
    condition = scope_condition(spec.source.schema, manifest.scope or WHOLE)
    part = lake.where(condition) if condition else lake
    folder = f"{spec.target.staging.rstrip('/')}/changes-{uuid.uuid4().hex[:12]}"
    with measured(RunPhase.COMPARING):
        return find_changes(spark, spec, latest_per_key(landed, spec), part, folder)


def _replace(spark: SparkSession, spec: Operation, manifest: Manifest, landed: DataFrame, lake: DataFrame) -> OperationResult:
    if same_rows(landed, lake):
        return _unchanged(spark, spec, manifest)
    stored = lake.count()
    gone = max(stored - manifest.rows, 0)
    if gone:
        _compare_of(spec).guard.check(gone, stored, ("unknown: it has none",), pipeline=spec.pipeline, table=str(spec.table))
    return apply(spark, spec, landed, plan_merge(spec, manifest), manifest.rows)


def _nothing(spark: SparkSession, spec: Operation, manifest: Manifest) -> OperationResult:
    """Runs the statement without a row."""
    empty = spark.createDataFrame([], ", ".join(f"{quoted(c.name)} {c.delta_type}" for c in spec.full_schema.columns))
    return apply(spark, spec, apply_deletes(empty, spec), replace(plan_merge(spec, None), deleted_flag=""), manifest.rows)


def _unchanged(spark: SparkSession, spec: Operation, manifest: Manifest) -> OperationResult:
    if _compare_of(spec).heals:
        return _nothing(spark, spec, manifest)
    counts = Counts(read=manifest.rows, bytes=manifest.bytes, nulled=manifest.nulled)
    return OperationResult(op_seq=spec.op_seq, operation_id=spec.operation_id, outcome=Outcome.UNCHANGED, counts=counts)


def _living(spec: Operation) -> LiveRows:
    return LiveRows(path=spec.target.path, deleted_column=spec.apply.deleted_column, keeps_versions=spec.apply.stored_as.keeps_versions)


def _compare_of(spec: Operation) -> CompareSpec:
    if not isinstance(spec.read, CompareRead):
        raise StateError(f"Operation {spec.op_seq} of {spec.table} compares nothing.")
    return spec.read.compare
