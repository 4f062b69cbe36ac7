"""merge: one statement that makes an operation true.

    what was read --> a batch --> BATCH_STEPS, one after the other --> one statement

The batch's rows, the operation's number and the table's whole state are in one Delta commit. Runs in Spark.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from typing import Final, assert_never

from pyspark.sql import SparkSession

from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_record import LakeHead, with_rows
from cdc_ops.core.operation.protocol.ledger_and_lake import check_base
from cdc_ops.core.operation.reads import ArchiveRead, ChunkRead, CompareRead, KeysRead, ReplayRead, WindowRead
from cdc_ops.core.operation.results import Counts, Manifest, OperationResult, Outcome
from cdc_ops.core.phases import RunPhase
from cdc_ops.errors import LandedRowsLostError
from cdc_ops.lake.data_files.checked_write import WrittenFile, WrittenRows
from cdc_ops.lake.data_files.writer import DataFile
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch, BatchStep
from cdc_ops.lake.merge.deletes.soft_deletes import keep_deleted_rows
from cdc_ops.lake.merge.key_changes import delete_previous_keys
from cdc_ops.lake.merge.late_rows import drop_unchanged_rows
from cdc_ops.lake.merge.partition_values import unstorable_partition
from cdc_ops.lake.merge.sequence_guard import remember_deletes
from cdc_ops.lake.staging.landing import read_landed
from cdc_ops.lake.staging.manifests import read_manifest
from cdc_ops.lake.table.create import make_first_table
from cdc_ops.sources.base import Source
from cdc_ops.steps.history.replayed_events import keep_whole_rows, read_history
from cdc_ops.steps.log.landed_events import keep_events, quarantine_bad_records, resolve_records
from cdc_ops.steps.query.jdbc_rows import read_with_null_counts
from cdc_ops.steps.query.native_files import files_of
from cdc_ops.steps.query.native_rows import failed_task
from cdc_ops.steps.query.row_counts import check_rows_read
from cdc_ops.steps.query.written_keys import check_written_keys
from cdc_ops.steps.reconcile.landed_differences import read_differences
from cdc_ops.steps.reporting.stopwatch import measured, split
from cdc_ops.steps.stage.batch_request import BatchRequest
from cdc_ops.steps.stage.deletes import drop_ignored_deletes, mark_deletes
from cdc_ops.steps.stage.incomplete_rows import incomplete_row
from cdc_ops.steps.stage.invalid_values import unstorable_value
from cdc_ops.steps.stage.latest_rows import keep_latest_rows
from cdc_ops.steps.stage.row_errors import translated_row_errors
from cdc_ops.steps.stage.truncates import apply_truncates
from cdc_ops.steps.stage.unordered_rows import quarantine_unordered_rows, unordered_row
from cdc_ops.steps.table.columns.schema_evolution import check_columns_unchanged
from cdc_ops.steps.table.columns.wide_columns import (
    newly_wide,
    retry_widened,
    too_large_value,
    with_stored_width,
    with_wide_columns,
    with_widening,
)
from cdc_ops.steps.table.soft_deletes import with_stored_deletes


def make_table(operation: Operation, batch: Batch) -> Batch:
    """Makes the table of a first batch, which later steps look into. Events are kept before: a history begins with rows that were there."""
    if batch.first:
        make_first_table(batch.rows.sparkSession, operation)
    return batch


BATCH_STEPS: Final[tuple[BatchStep, ...]] = (
    quarantine_bad_records,
    keep_events,
    make_table,
    quarantine_unordered_rows,
    apply_truncates,
    drop_ignored_deletes,
    keep_latest_rows,
    remember_deletes,
    drop_unchanged_rows,
    mark_deletes,
    keep_whole_rows,
    delete_previous_keys,
    keep_deleted_rows,
)
"""What happens to every batch before its statement, in this order: rows of the source, events, differences, and events of the history.

Each step sees by the operation whether it has something to do. The statement itself (`lake.merge.apply`) puts the changes into their order.
"""


def merge(spark: SparkSession, source: Source, operation: Operation) -> OperationResult:
    """Applies an operation to its table; applying it again changes nothing.

    Args:
        spark: A session of its own: the transaction id is a session setting.
        source: How to read, for operations that land nowhere.
        operation: The frozen operation.

    Raises:
        SchemaChangedError: the table was altered at the source after the plan.
        CountMismatchError: rows that the source has were not read.
        StateError: the operation has not landed as a whole, or its table does not stand where the plan found it.
        DataError: rows without key, or with values that cannot be stored and must not become NULL.
        IncompleteRowError: an event changes some columns of a row that the table does not have.
        DeletesRefusedError: a comparison would delete more rows than may be.
        LakeError: the table is not what the operation expects, or another writer committed.
    """
    with measured(RunPhase.COPY if _reads_while_it_writes(operation) else RunPhase.MERGE):
        return retry_widened(operation, partial(_merge, spark, source))


def _merge(spark: SparkSession, source: Source, operation: Operation) -> OperationResult:
    head = read_head(operation.target.path, operation.pipeline, operation.table)
    check_base(operation, head)
    taken = head is not None and (head.txn_version or 0) >= operation.op_seq
    if taken:
        operation = replace(operation, apply=replace(operation.apply, schema_changes=()))  # who comes too late alters nothing either
    operation = with_stored_deletes(operation, head)
    manifest = None if operation.apply.landing is Landing.DIRECT else _manifest_of(operation)
    operation = _as_wide_as_needed(operation, manifest, head, alter=not taken)
    if _reads_while_it_writes(operation):
        check_columns_unchanged(source, operation)
    with _translated_errors(source, operation):
        plan = plan_merge(operation, manifest)
        request = BatchRequest(
            spark=spark,
            source=source,
            operation=operation,
            plan=plan,
            manifest=manifest,
            number_taken=taken,
            first=with_rows(head) is None,
        )
        batch = _read_batch(request)
        result = _unchanged(operation, manifest) if batch is None else _apply(operation, batch)
    if result.outcome is Outcome.APPLIED:
        repairs = replace(result.counts.repairs, widened=newly_wide(operation))
        result = replace(result, counts=replace(result.counts, repairs=repairs))
    return result if manifest is None else replace(result, counts=result.counts.with_landed(manifest))


def _as_wide_as_needed(operation: Operation, manifest: Manifest | None, head: LakeHead | None, *, alter: bool) -> Operation:
    """Returns the operation with the columns as wide as what was landed and the table have them, and how the table is altered for it."""
    operation = with_wide_columns(operation, manifest.wide) if manifest else operation
    if head is None:
        return operation
    operation = with_stored_width(operation, head.columns)
    return with_widening(operation, head.columns) if alter else operation


def _apply(operation: Operation, batch: Batch) -> OperationResult:
    batch = reduce(lambda so_far, step: step(operation, so_far), BATCH_STEPS, batch)
    result = apply(operation, batch)
    split(result.phases)
    if result.outcome is not Outcome.NUMBER_TAKEN:  # else nothing of it was merged
        resolve_records(operation, batch)
    return result


def _read_batch(request: BatchRequest) -> Batch | None:
    """Returns what was landed, or what is read now, as a batch; None if source and lake were compared and are equal."""
    match request.operation.read:
        case ReplayRead(replay=replay):
            return read_history(request, replay)
        case CompareRead(compare=compare):
            return read_differences(request, compare)
        case ArchiveRead():
            return _read_landed(request)
        case WindowRead() | ChunkRead() | KeysRead():
            return _read_landed(request) if request.manifest else _read_directly(request)
        case _:
            assert_never(request.operation.read)


def _read_landed(request: BatchRequest) -> Batch:
    return request.batch_of(read_landed(request.spark, request.operation, request.landed))


def _read_directly(request: BatchRequest) -> Batch:
    """Returns rows of the source that the statement reads while it writes."""
    operation = request.operation
    read = request.source.jdbc_read(operation.full_schema, operation.slices)
    rows = read_with_null_counts(request.spark, read, operation.full_schema, operation.source_keys)
    files = files_of(read.native, operation, rows)
    if files is not None:
        files = replace(files, check=partial(_check_written, request.source, operation))
    return replace(request.batch_of(rows), files=files, check=partial(_check_rows, request.source, operation))


def _check_rows(source: Source, operation: Operation, written: WrittenRows) -> None:
    """Refuses rows that Spark has written and not yet committed."""
    _check_written(source, operation, written.files)
    check_written_keys(written, operation.apply.keys, str(operation.table))


def _check_written(source: Source, operation: Operation, files: Sequence[DataFile] | Sequence[WrittenFile]) -> None:
    """Refuses files that are written and not yet committed: the last moment at which nothing has happened."""
    check_columns_unchanged(source, operation)
    check_rows_read(source, operation, sum(file.rows for file in files))


def _reads_while_it_writes(operation: Operation) -> bool:
    return operation.apply.landing is Landing.DIRECT and not isinstance(operation.read, ReplayRead)


def _manifest_of(operation: Operation) -> Manifest:
    manifest = read_manifest(operation.target.staging)
    if manifest is None or manifest.operation_id != operation.operation_id:
        raise LandedRowsLostError(
            f"Operation {operation.op_seq} of {operation.table} has not been extracted: {operation.target.staging} holds no"
            " manifest of it.",
            why="The extract step did not finish, or the staging area was emptied.",
            data="Nothing was written; the watermark stays.",
            next="Nothing to do: the next run reads the same window again.",
        )
    return manifest


@contextmanager
def _translated_errors(source: Source, operation: Operation) -> Iterator[None]:
    """Turns the failure of a statement at a row into the error that names it."""
    try:
        of_table = (partial(reader, operation.table) for reader in (too_large_value, unstorable_value))
        of_operation = (partial(reader, operation) for reader in (unordered_row, incomplete_row, unstorable_partition))
        with translated_row_errors(failed_task, *of_table, *of_operation):
            yield
    except Exception:  # as in extract: says what a driver's message only hints at
        if _reads_while_it_writes(operation):
            check_columns_unchanged(source, operation)
        raise


def _unchanged(operation: Operation, manifest: Manifest | None) -> OperationResult:
    counts = Counts(read=manifest.landed.rows, bytes=manifest.landed.bytes) if manifest else Counts()
    return OperationResult(op_seq=operation.op_seq, operation_id=operation.operation_id, outcome=Outcome.UNCHANGED, counts=counts)
