"""merge of a comparison: landed rows against the same part of the table, and what really differs as a batch. Runs in Spark.

landed rows against the same part of the table -> rows that really differ -> guard of deletes -> one MERGE, or no commit at all
"""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.phases import RunPhase
from cdc_ops.core.reconcile.diff import CompareSpec
from cdc_ops.core.reconcile.key_buckets import BucketSelection
from cdc_ops.lake.diff.changes import DELETED, Changes, find_changes, same_rows
from cdc_ops.lake.diff.checksums import scope_condition
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.expressions import is_true
from cdc_ops.lake.spark.local_rows import no_rows
from cdc_ops.lake.staging.landing import read_landed
from cdc_ops.steps.reconcile.land_differences import stored_rows
from cdc_ops.steps.reporting.stopwatch import measured
from cdc_ops.steps.stage.batch_request import BatchRequest
from cdc_ops.steps.stage.deletes import marked_rows
from cdc_ops.steps.stage.latest_rows import latest_per_key


def read_differences(request: BatchRequest, compare: CompareSpec) -> Batch | None:
    """Returns what really differs as a batch, None if nothing does: then there is no commit.

    Args:
        request: The operation.
        compare: How source and lake are compared.

    Raises:
        DeletesRefusedError: more rows would be deleted than may be; nothing was written.
        DataError: rows without key.
    """
    if request.number_taken:  # Delta skips whatever comes under this number; the history says whether it is ours
        return _no_rows(request)
    differences = _differences(request, compare)
    if differences is None and compare.heals:
        return _no_rows(request)
    return differences


def _differences(request: BatchRequest, compare: CompareSpec) -> Batch | None:
    scope, apply = request.landed.scope, request.operation.apply
    if scope is None or scope.is_empty:
        return None
    landed = request.batch_of(_landed_rows(request))
    stored = stored_rows(request.operation).read(request.spark)
    guard = partial(compare.guard.check, pipeline=request.operation.pipeline, table=str(request.operation.table))
    if not apply.keys:
        return _whole_table(landed, stored, guard)
    changes = _changes(request, landed.rows, stored, scope)
    if not changes.count:
        return None
    if changes.deletes:
        names = request.operation.source_keys
        guard(changes.deletes, stored.count(), changes.samples(names), digest=partial(changes.digest, names))
    plan = replace(landed.plan, prune=changes.key_ranges, deleted_flag=DELETED)
    batch = replace(landed, rows=changes.rows, plan=plan, differences=changes.count)
    if not apply.deleted_column:
        return batch
    # Of rows that are gone the batch has nothing but the keys: their last values are in the lake.
    marked = changes.rows.withColumn(apply.deleted_column, F.col(DELETED))
    return replace(batch, rows=marked, newly_deleted=changes.deletes)


def _landed_rows(request: BatchRequest) -> DataFrame:
    """Returns the landed rows, without those that the table treats as deleted, in the columns that are compared."""
    operation = request.operation
    rows = read_landed(request.spark, operation, request.landed)
    if operation.apply.delete_where:
        rows = rows.where(~is_true(operation.apply.delete_where))
    return rows.drop(*(column.name for column in operation.source.hidden))


def _changes(request: BatchRequest, landed: DataFrame, stored: DataFrame, scope: BucketSelection) -> Changes:
    operation = request.operation
    condition = scope_condition(operation.source.schema, scope)
    compared = stored.where(condition) if condition else stored
    folder = f"{operation.target.staging.rstrip('/')}/changes-{uuid.uuid4().hex[:12]}"
    with measured(RunPhase.COMPARING):
        return find_changes(request.spark, operation, latest_per_key(landed, operation), compared, folder)


def _whole_table(batch: Batch, stored: DataFrame, guard: Callable[[int, int, Iterable[str]], None]) -> Batch | None:
    """Returns all rows of a table without keys, which replace it, None if they are the same."""
    if same_rows(batch.rows, stored):
        return None
    count = stored.count()
    deleted = max(count - (batch.read_rows or 0), 0)
    if deleted:
        guard(deleted, count, ("unknown: it has none",))
    return batch


def _no_rows(request: BatchRequest) -> Batch:
    """Returns a batch without a row: its commit carries the operation's number and state."""
    empty = no_rows(request.spark, {column.name: column.delta_type for column in request.operation.full_schema.columns})
    plan = replace(request.plan, prune=(), deleted_flag="")
    return replace(request.batch_of(marked_rows(empty, request.operation)), plan=plan)
