"""merge: one statement that makes an operation true.

Its rows, its number and the table's whole state in one Delta commit. Runs in Spark.
"""

from dataclasses import replace

from pyspark.sql import SparkSession

from cdc_ops.core.apply.apply_spec import ApplyMode, Landing
from cdc_ops.core.operation.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Manifest, Operation, OperationResult
from cdc_ops.core.operation.reads import CompareRead, ReplayRead, WindowRead
from cdc_ops.core.operation.table_state import check_base
from cdc_ops.core.phases import RunPhase
from cdc_ops.errors import LandedRowsLostError
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.key_changes import with_moved
from cdc_ops.lake.merge.late_rows import drop_unchanged
from cdc_ops.lake.merge.sequence_guard import bury
from cdc_ops.lake.merge.soft_deletes import with_deleted
from cdc_ops.lake.staging.landing import read_landed
from cdc_ops.lake.staging.manifests import read_manifest
from cdc_ops.sources.base import Source
from cdc_ops.steps.log.merge_events import merge_events
from cdc_ops.steps.query.jdbc_rows import read_with_null_counts
from cdc_ops.steps.reconcile.table_diff import merge_differences
from cdc_ops.steps.replay import replay
from cdc_ops.steps.reporting.stopwatch import measured
from cdc_ops.steps.stage.invalid_values import translated_failures
from cdc_ops.steps.stage.latest_rows import applied, apply_deletes, is_deleted, latest_rows
from cdc_ops.steps.stage.truncates import emptying, last_emptied, without_emptied
from cdc_ops.steps.stage.unordered_rows import translated_order, without_unplaced
from cdc_ops.steps.table.schema_evolution import check_columns_unchanged
from cdc_ops.steps.table.soft_deletes import with_stored_deletes


def merge(spark: SparkSession, source: Source, spec: Operation) -> OperationResult:
    """Applies an operation to its table; applying it again changes nothing.

    Args:
        spark: A session of its own: the transaction id is a session setting.
        source: How to read, for operations that land nowhere.
        spec: The frozen operation.

    Raises:
        SchemaChangedError: the table was altered at the source after the plan.
        StateError: the operation has not landed as a whole, or its table does not stand where the plan found it.
        DataError: rows without key, or with values that cannot be stored and must not become NULL.
        LakeError: the table is not what the operation expects, or somebody else committed.
    """
    with measured(RunPhase.COPY if spec.apply.landing is Landing.DIRECT and not isinstance(spec.read, ReplayRead) else RunPhase.MERGE):
        return _merge(spark, source, spec)


def _merge(spark: SparkSession, source: Source, spec: Operation) -> OperationResult:
    head = read_head(spec.target.path, spec.pipeline, spec.table)
    check_base(spec, head)
    taken = head is not None and (head.txn_version or 0) >= spec.op_seq
    if taken:
        spec = replace(spec, apply=replace(spec.apply, schema_changes=()))  # who comes too late alters nothing either
    spec = with_stored_deletes(spec, head)
    if isinstance(spec.read, ReplayRead):
        return replay(spark, spec, spec.read.replay)
    if spec.apply.landing is Landing.DIRECT:
        check_columns_unchanged(source, spec)
        rows = read_with_null_counts(spark, source.jdbc_read(spec.full_schema, spec.slices), spec.full_schema, spec.source_keys)
        try:
            with translated_failures(spec.table), translated_order(spec):
                return apply(spark, spec, apply_deletes(rows, spec), plan_merge(spec, None), None)
        except Exception:  # as in extract: says what a driver's message only hints at
            check_columns_unchanged(source, spec)
            raise
    manifest = read_manifest(spec.target.staging)
    if manifest is None or manifest.operation_id != spec.operation_id:
        raise LandedRowsLostError(
            f"Operation {spec.op_seq} of {spec.table} has not been extracted: {spec.target.staging} holds no manifest of it.",
            why="The extract step did not finish, or the staging area was emptied.",
            data="Nothing was written; the watermark stays.",
            next="Nothing to do: the next run reads the same window again.",
        )
    if isinstance(spec.read, CompareRead):
        result = merge_differences(spark, spec, manifest, taken=taken)
    elif manifest.log is not None:
        result = merge_events(spark, spec, manifest, manifest.log)
    else:
        with translated_order(spec):
            result = _merge_rows(spark, spec, manifest)
    reread = (manifest.reread,) if manifest.reread else ()
    return replace(result, counts=replace(result.counts, nulled=manifest.nulled, reread=reread))


def _merge_rows(spark: SparkSession, spec: Operation, manifest: Manifest) -> OperationResult:
    rows = without_unplaced(spark, spec, manifest, read_landed(spark, spec, manifest))
    place = last_emptied(rows, spec)
    rows = without_emptied(rows, spec, place)
    plan, landed = emptying(plan_merge(spec, manifest), spec.apply.stored_as.own.sequence, place), latest_rows(applied(rows, spec), spec)
    batch = landed
    if isinstance(spec.read, WindowRead) and spec.read.looks_again:
        batch, late = drop_unchanged(spark, spec, batch)
        plan = replace(plan, late=late)
    if spec.apply.mode is ApplyMode.OVERWRITE:
        bury(spark, spec, landed.where(is_deleted(spec.apply.delete_where)), (place,) if place else ())
    plan, batch = with_moved(spec, plan, apply_deletes(batch, spec), landed)
    plan, batch = with_deleted(spark, spec, plan, batch)
    result = apply(spark, spec, batch, plan, manifest.rows)
    return replace(result, counts=replace(result.counts, quarantined=manifest.quarantined))
