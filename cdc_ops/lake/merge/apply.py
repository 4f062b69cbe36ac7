"""Applies an operation in one statement: rows, number and the table's whole state in one Delta commit. Runs in Spark.

The statement runs in a session of its own, which carries the transaction id (txnAppId, txnVersion = op_seq) and the commit record. Delta
skips it if the table already has this number or a larger one; then the log tells whose commit that was. What surrounds the statement is
read from the log without Spark: computing a table's state again costs more than a small batch.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops import __version__
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_json import render_record
from cdc_ops.core.operation.protocol.commit_record import CommitRecord, commit_record
from cdc_ops.core.operation.results import OperationResult, Outcome, Repairs
from cdc_ops.core.phases import PhaseSeconds, RunPhase
from cdc_ops.core.schema.value_policies import NullifiedValues
from cdc_ops.core.text import quoted
from cdc_ops.errors import DuplicateKeyError, LakeConflictError
from cdc_ops.lake.log.head import commit_counts, find_commit, statement_phases
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.merge.commit_columns import add_commit_columns
from cdc_ops.lake.merge.execute import Executed, execute
from cdc_ops.lake.merge.partition_values import check_partition_values
from cdc_ops.lake.merge.sequence_guard import order_changes
from cdc_ops.lake.staging.null_counts import mark_names
from cdc_ops.lake.table.create import ensure_table, table_stats, translated_conflicts

_AMBIGUOUS: Final = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"


def apply(operation: Operation, batch: Batch) -> OperationResult:
    """Applies a batch to its table in one statement; repeating it changes nothing and creates no new version.

    The batch must have one row per key (`steps.stage.latest_rows` sees to it): Delta notices two rows of a key only where the key is in
    the table already, and would insert both where it is not. Whether the table stands where the operation was planned is checked by the
    caller (`core.operation.protocol.ledger_and_lake.check_base`).

    Args:
        operation: The frozen operation.
        batch: The rows, with at least the plan's columns, and the marks of `lake.staging.null_counts` if lost values are still to be
            counted; and the statement.

    Returns:
        What happened; `NUMBER_TAKEN` if the table's log does not show this operation under its number. Its phases are those that are
        known here alone: of Delta's jobs, and of reading the log.

    Raises:
        DuplicateKeyError: two rows of the batch change the same row of the table.
        LakeConflictError: another writer committed meanwhile, and not this operation; nothing was written.
        LakeError: the table cannot take the batch.
    """
    started = time.monotonic()
    spark = batch.rows.sparkSession
    table = ensure_table(spark, operation)
    done = Executed(nulled=NullifiedValues(counted=not mark_names(batch.rows)))
    with _found_committed(operation), _translated(operation, batch):
        prepared = check_partition_values(operation, add_commit_columns(order_changes(operation, batch)), table.partition_by)
        done = execute(spark, operation, prepared, render_record(_record(operation, prepared)))
    result = OperationResult(op_seq=operation.op_seq, operation_id=operation.operation_id, outcome=Outcome.NUMBER_TAKEN)
    ended = time.monotonic()
    commit = find_commit(operation.target.path, operation.operation_id)
    if commit is not None:
        applied = done.version == commit.version
        repairs = Repairs(not_by_tasks=(done.not_by_tasks,) if done.not_by_tasks else (), corrected_bounds=table.corrected)
        result = replace(
            result,
            outcome=Outcome.APPLIED if applied else Outcome.ALREADY_APPLIED,
            phases=statement_phases(commit.metrics) if applied else (),
            delta_version=commit.version,
            counts=replace(commit_counts(commit, batch.read_rows), nulled=done.nulled, repairs=repairs),
            late=commit.record.counts.late,
            stats=replace(table_stats(operation.target.path, commit.version), exact_bounds=True),
        )
    reading = PhaseSeconds(phase=RunPhase.STATISTICS, seconds=time.monotonic() - ended)
    return replace(result, seconds=round(time.monotonic() - started, 3), phases=(*result.phases, reading))


def duplicate_keys(batch: DataFrame, keys: tuple[str, ...], shown: tuple[str, ...] = (), limit: int = 5) -> list[str]:
    """Returns up to `limit` keys that the batch has more than once, as text; `shown` are the columns to show, if not the keys."""
    names = [F.first(F.col(quoted(name))).alias(f"__shown_{index}") for index, name in enumerate(shown or keys)]
    repeated = batch.groupBy(*(F.col(quoted(key)) for key in keys)).agg(F.count(F.lit(1)).alias("__rows"), *names).where("__rows > 1")
    columns = [F.col(f"__shown_{index}") for index in range(len(names))]
    return [", ".join(str(value) for value in row) for row in repeated.select(*columns).limit(limit).collect()]


def _record(operation: Operation, batch: Batch) -> CommitRecord:
    events = batch.manifest.log if batch.manifest else None
    return commit_record(
        operation,
        rows=batch.read_rows,
        package_version=__version__,
        late=batch.late,
        marked=batch.newly_deleted,
        archive=events.watermark if events else None,
    )


@contextmanager
def _found_committed(operation: Operation) -> Iterator[None]:
    """Lets a conflict pass if it was another attempt that committed this operation: that is what was to be done."""
    try:
        yield
    except LakeConflictError:
        if find_commit(operation.target.path, operation.operation_id) is None:
            raise


@contextmanager
def _translated(operation: Operation, batch: Batch) -> Iterator[None]:
    try:
        with translated_conflicts(f"operation {operation.op_seq} of {operation.table}"):
            yield
    except PySparkException as error:
        if _AMBIGUOUS in str(error):
            raise _duplicate(operation, duplicate_keys(batch.rows, batch.plan.keys, operation.source_keys)) from error
        raise


def _duplicate(operation: Operation, keys: list[str]) -> DuplicateKeyError:
    return DuplicateKeyError(
        f"Several rows of one batch of {operation.table} have the same key ({', '.join(operation.source_keys)}): {'; '.join(keys)}.",
        why="These keys do not identify rows at the source.",
        data="Nothing of this batch was written; the watermark stays.",
        next="Set 'keys' to columns that are unique at the source.",
    )
