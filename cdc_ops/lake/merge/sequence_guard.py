"""The order of changes across batches, put into a batch right before its statement. Runs in Spark.

SCD type 1   what is older than a delete is left out here, what is older than the row by the statement itself
SCD type 2   the batch becomes what it makes of the table's versions
"""

from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.metadata_columns import END, SEQUENCE, START, TOUCHED
from cdc_ops.core.apply.scd import UNPLACED, Sequence, SequenceKind
from cdc_ops.core.operation.merging.merge_plan import MergePlan
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import CompareRead, ReplayRead
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.merge.deletes.tombstones import are_remembered, remember, without_deleted
from cdc_ops.lake.merge.scd2 import AT, all_versions, versions
from cdc_ops.lake.spark.expressions import is_true


def order_changes(operation: Operation, batch: Batch) -> Batch:
    """Gives the rows their sequence, and drops those that are older than a delete; for type 2 they become the versions of the table.

    Args:
        operation: The operation, whose table exists.
        batch: Its rows; for type 2 every change of a key is one.
    """
    stored, plan, rows = operation.apply.stored_as, batch.plan, batch.rows
    if stored.sequence is None or plan.update_only:
        return batch
    place = _place(operation, stored.sequence, rows)
    if stored.keeps_versions:
        return _versioned(operation, replace(batch, rows=rows.withColumn(AT, place)))
    if stored.own.sequence in plan.columns:
        rows = rows.withColumn(stored.own.sequence, place)
    if plan.sequence:
        earlier = are_remembered(operation)
        _remember(operation, plan, rows, plan.sequence)
        if not earlier and not plan.truncates:  # a key has one row in the batch: its own delete is not older than it
            return replace(batch, rows=rows)
        rows = without_deleted(rows.sparkSession, operation, rows, plan.sequence, plan.deleted_flag)
    return replace(batch, rows=rows)


def remember_deletes(operation: Operation, batch: Batch) -> Batch:
    """Records the deletes of a new generation of a table of changes: it has no rows for them that could identify an older change."""
    sequence = operation.apply.stored_as.sequence
    if not operation.lands_rows or operation.apply.mode is not ApplyMode.OVERWRITE or sequence is None:
        return batch
    if operation.apply.stored_as.tombstones and sequence.columns:
        deleted = batch.rows.where(is_true(operation.apply.delete_where))
        remember(deleted.sparkSession, operation, deleted.withColumn(AT, _place(operation, sequence, deleted)), AT, batch.plan.truncates)
    return batch


def _place(operation: Operation, sequence: Sequence, rows: DataFrame) -> Column:
    """Returns the sequence of the rows of a batch; NULL for rows that were read at the source of a table that follows a log."""
    match sequence.kind:
        case SequenceKind.POSITION if SEQUENCE in rows.columns:
            place = F.col(SEQUENCE)
        case SequenceKind.POSITION:
            place = F.lit(None)
        case SequenceKind.COLUMNS:
            parts = [F.expr(part) for part in sequence.parts]
            placed = reduce(and_, (part.isNotNull() for part in parts))
            place = F.when(placed, parts[0] if len(parts) == 1 else F.struct(*parts))
            if not isinstance(operation.read, CompareRead):
                place = F.coalesce(place, F.raise_error(F.lit(UNPLACED)).cast(sequence.type))
        case SequenceKind.OBSERVED:
            place = F.lit(operation.plan.planned_at)
    return place.cast(sequence.type)


def _versioned(operation: Operation, batch: Batch) -> Batch:
    plan, rows = batch.plan, batch.rows
    if isinstance(operation.read, ReplayRead) and plan.mode is not ApplyMode.MERGE:
        all_of_them = all_versions(operation, replace(plan, versions=True), rows)
        return replace(batch, plan=replace(plan, deleted_flag="", present=""), rows=all_of_them)
    if plan.mode is not ApplyMode.MERGE:  # the first rows of a table: none has another version yet
        first = {START: F.col(AT), **{name: F.lit(None) for name in (END, TOUCHED)}}
        kinds = operation.apply.stored_as.order_columns
        return replace(batch, rows=rows.withColumns({name: first[name].cast(kind) for name, kind in kinds}))
    _remember(operation, plan, rows, AT)
    plan = replace(plan, versions=True)
    return replace(batch, plan=plan, rows=versions(rows.sparkSession, operation, plan, rows))


def _remember(operation: Operation, plan: MergePlan, rows: DataFrame, place: str) -> None:
    """Remembers the deletes of a batch, before the statement that carries them out."""
    if operation.apply.stored_as.tombstones and ((plan.deleted_flag and plan.deletes) or plan.truncates):
        deleted = F.col(plan.deleted_flag) if plan.deleted_flag else F.lit(False)
        remember(rows.sparkSession, operation, rows.where(deleted), place, plan.truncates)
