"""The order of changes across batches, put into a batch right before its statement. Runs in Spark.

SCD type 1   what is older than a delete is left out here, what is older than the row by the statement itself
SCD type 2   the batch becomes what it makes of the table's versions
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.metadata_columns import END, SEQUENCE, START, TOUCHED
from cdc_ops.core.apply.scd import UNPLACED, Sequence, SequenceKind
from cdc_ops.core.operation.merge_plan import MergePlan
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import CompareRead, ReplayRead
from cdc_ops.lake.merge.scd2 import AT, all_versions, versions
from cdc_ops.lake.merge.tombstones import remember, without_deleted


def in_order(spark: SparkSession, spec: Operation, plan: MergePlan, batch: DataFrame) -> tuple[MergePlan, DataFrame]:
    """Returns the statement and the batch with the table's columns, without rows older than a delete.

    Args:
        spark: The session of `batch`.
        spec: The operation, whose table exists.
        plan: Its statement.
        batch: Its rows; for type 2 every change of a key is one.
    """
    stored = spec.apply.stored_as
    if stored.sequence is None or plan.update_only:
        return plan, batch
    place = _place(spec, stored.sequence, batch)
    if stored.keeps_versions:
        return _versioned(spark, spec, plan, batch.withColumn(AT, place))
    if stored.own.sequence in plan.columns:
        batch = batch.withColumn(stored.own.sequence, place)
    if plan.sequence:
        _remember(spark, spec, plan, batch, plan.sequence)
        batch = without_deleted(spark, spec, batch, plan.sequence, plan.deleted_flag)
    return plan, batch


def bury(spark: SparkSession, spec: Operation, gone: DataFrame, truncates: Iterable[str]) -> None:
    """Records the deletes of a new generation: it has no rows for them that could identify an older change.

    Args:
        spark: The session of `gone`.
        spec: An operation that replaces a table of changes.
        gone: The changes that are deletes.
        truncates: Places at which the table was emptied, as Spark SQL literals.
    """
    sequence = spec.apply.stored_as.sequence
    if spec.apply.stored_as.tombstones and sequence is not None and sequence.columns:
        remember(spark, spec, gone.withColumn(AT, _place(spec, sequence, gone)), AT, truncates)


def _place(spec: Operation, sequence: Sequence, batch: DataFrame) -> Column:
    """Returns the sequence of the rows of a batch; NULL for rows that were read at the source of a table that follows a log."""
    match sequence.kind:
        case SequenceKind.POSITION if SEQUENCE in batch.columns:
            place = F.col(SEQUENCE)
        case SequenceKind.POSITION:
            place = F.lit(None)
        case SequenceKind.COLUMNS:
            parts = [F.expr(part) for part in sequence.parts]
            placed = reduce(and_, (part.isNotNull() for part in parts))
            place = F.when(placed, parts[0] if len(parts) == 1 else F.struct(*parts))
            if not isinstance(spec.read, CompareRead):
                place = F.coalesce(place, F.raise_error(F.lit(UNPLACED)).cast(sequence.type))
        case SequenceKind.OBSERVED:
            place = F.lit(spec.planned_at)
    return place.cast(sequence.type)


def _versioned(spark: SparkSession, spec: Operation, plan: MergePlan, batch: DataFrame) -> tuple[MergePlan, DataFrame]:
    if isinstance(spec.read, ReplayRead) and plan.mode is not ApplyMode.MERGE:
        return replace(plan, deleted_flag="", present=""), all_versions(spec, replace(plan, versions=True), batch)
    if plan.mode is not ApplyMode.MERGE:  # the first rows of a table: none has another version yet
        own = {START: F.col(AT), **{name: F.lit(None) for name in (END, TOUCHED)}}
        return plan, batch.withColumns({name: own[name].cast(kind) for name, kind in spec.apply.stored_as.order_columns})
    _remember(spark, spec, plan, batch, AT)
    plan = replace(plan, versions=True)
    return plan, versions(spark, spec, plan, batch)


def _remember(spark: SparkSession, spec: Operation, plan: MergePlan, batch: DataFrame, place: str) -> None:
    """Remembers the deletes of a batch, before the statement that carries them out."""
    if spec.apply.stored_as.tombstones and ((plan.deleted_flag and plan.deletes) or plan.truncates):
        deleted = F.col(plan.deleted_flag) if plan.deleted_flag else F.lit(False)
        remember(spark, spec, batch.where(deleted), place, plan.truncates)
