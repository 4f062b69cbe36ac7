"""Deletes among the rows of a batch: change events that are one, and rows that `apply_as_deletes` is true of. Runs in Spark."""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead, CompareRead, ReplayRead
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.expressions import is_true


def drop_ignored_deletes(operation: Operation, batch: Batch) -> Batch:
    """Leaves out the rows that `apply_as_deletes` is true of, if the table ignores deletes.

    They go before the last row of a key is chosen: else what came before a delete would count or not by how a window was cut. Of events
    they went before the events were folded.
    """
    if not operation.lands_rows or not operation.apply.delete_where or not operation.apply.stored_as.ignores_deletes:
        return batch
    return replace(batch, rows=batch.rows.where(~is_true(operation.apply.delete_where)))


def mark_deletes(operation: Operation, batch: Batch) -> Batch:
    """Marks the rows that are deletes, as the statement needs it; what a comparison found carries its marks."""
    match operation.read:
        case CompareRead():
            return batch
        case ArchiveRead() | ReplayRead():
            return replace(batch, rows=_marked_events(batch.rows, operation))
        case _:
            return replace(batch, rows=marked_rows(batch.rows, operation))


def marked_rows(rows: DataFrame, operation: Operation) -> DataFrame:
    """Marks the rows that `apply_as_deletes` is true of, for a MERGE; leaves them out of an append or overwrite.

    With soft deletes every row gets the mark with which it is stored. A condition that is NULL deletes nothing. Marks that are there stay.
    """
    if DELETE_MARK in rows.columns:
        return rows
    if operation.apply.deleted_column:
        return rows.withColumn(operation.apply.deleted_column, is_true(operation.apply.delete_where))
    if not operation.apply.delete_where:
        return rows
    deleted = is_true(operation.apply.delete_where)
    marks = operation.apply.mode is ApplyMode.MERGE and not operation.apply.stored_as.ignores_deletes
    return rows.withColumn(DELETE_MARK, deleted) if marks else rows.where(~deleted)


def _marked_events(rows: DataFrame, operation: Operation) -> DataFrame:
    """Marks also the rows that `apply_as_deletes` is true of; with soft deletes each row gets the mark that is stored."""
    deleted = F.col(DELETE_MARK)
    if (
        operation.apply.delete_where and not operation.apply.stored_as.ignores_deletes
    ):  # else such events were left out before they were folded
        deleted = deleted | is_true(operation.apply.delete_where)
    return rows.withColumn(operation.apply.deleted_column or DELETE_MARK, deleted)
