"""merge of a comparison: landed rows against the same part of the table, and what really differs as a batch. Runs in Spark.

landed rows against the same part of the table -> rows that really differ -> guard of deletes -> one MERGE, or no commit at all
"""

import uuid
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.operation.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Manifest, Operation
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.reconcile.key_buckets import WHOLE
from cdc_ops.core.text import quoted
from cdc_ops.lake.diff.changes import DELETED, Changes, find_changes, same_rows
from cdc_ops.lake.diff.checksums import scope_condition
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.expressions import is_true
from cdc_ops.lake.staging.landing import read_landed
from cdc_ops.steps.reconcile.land_differences import comparison_of, stored_rows
from cdc_ops.steps.reporting.stopwatch import measured
from cdc_ops.steps.stage.deletes import marked_rows
from cdc_ops.steps.stage.latest_rows import latest_per_key


def read_differences(spark: SparkSession, spec: Operation, manifest: Manifest, *, taken: bool) -> Batch | None:
    """Returns what really differs as a batch, None if nothing does: then there is no commit.

    Args:
        spark: A session of its own.
        spec: The frozen operation.
        manifest: What was landed.
        taken: The table has this number already, or a larger one.

    Raises:
        DeletesRefusedError: more rows would be deleted than may be; nothing was written.
        DataError: rows without key.
    """
    if taken:  # Delta skips whatever comes under this number; the history says whether it is ours
        return _no_rows(spark, spec, manifest)
    differences = _differences(spark, spec, manifest)
    if differences is None and comparison_of(spec).heals:
        return _no_rows(spark, spec, manifest)
    return differences


def _differences(spark: SparkSession, spec: Operation, manifest: Manifest) -> Batch | None:
    if manifest.scope is None or manifest.scope.is_empty:
        return None
    landed = read_landed(spark, spec, manifest)
    if spec.apply.delete_where:
        landed = landed.where(~is_true(spec.apply.delete_where))
    landed = landed.drop(*(column.name for column in spec.source.hidden))
    plan, stored = plan_merge(spec, manifest), stored_rows(spec).read(spark)
    if not spec.apply.keys:
        return _whole_table(spec, Batch(rows=landed, plan=plan, manifest=manifest, read_rows=manifest.landed.rows), stored)
    changes = _changes(spark, spec, manifest, landed, stored)
    if not changes.count:
        return None
    if changes.deletes:
        samples = changes.samples(spec.source_keys)
        comparison_of(spec).guard.check(changes.deletes, stored.count(), samples, pipeline=spec.pipeline, table=str(spec.table))
    plan = replace(plan, prune=changes.key_ranges, deleted_flag=DELETED)
    batch = Batch(rows=changes.rows, plan=plan, manifest=manifest, read_rows=manifest.landed.rows)
    if not spec.apply.deleted_column:
        return batch
    # Of rows that are gone the batch has nothing but the keys: their last values are in the lake.
    marked = changes.rows.withColumn(spec.apply.deleted_column, F.col(DELETED))
    return replace(batch, rows=marked, newly_deleted=changes.deletes)


def _changes(spark: SparkSession, spec: Operation, manifest: Manifest, landed: DataFrame, stored: DataFrame) -> Changes:
    condition = scope_condition(spec.source.schema, manifest.scope or WHOLE)
    part = stored.where(condition) if condition else stored
    folder = f"{spec.target.staging.rstrip('/')}/changes-{uuid.uuid4().hex[:12]}"
    with measured(RunPhase.COMPARING):
        return find_changes(spark, spec, latest_per_key(landed, spec), part, folder)


def _whole_table(spec: Operation, batch: Batch, stored: DataFrame) -> Batch | None:
    """Returns all rows of a table without keys, which replace it, None if they are the same."""
    if same_rows(batch.rows, stored):
        return None
    count = stored.count()
    deleted = max(count - (batch.read_rows or 0), 0)
    if deleted:
        comparison_of(spec).guard.check(deleted, count, ("unknown: it has none",), pipeline=spec.pipeline, table=str(spec.table))
    return batch


def _no_rows(spark: SparkSession, spec: Operation, manifest: Manifest) -> Batch:
    """Returns a batch without a row: its commit carries the operation's number and state."""
    empty = spark.createDataFrame([], ", ".join(f"{quoted(c.name)} {c.delta_type}" for c in spec.full_schema.columns))
    plan = replace(plan_merge(spec, None), deleted_flag="")
    return Batch(rows=marked_rows(empty, spec), plan=plan, manifest=manifest, read_rows=manifest.landed.rows)
