"""merge of the log method: what landed events come to, in one statement that carries the archive's new watermark. Runs in Spark."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.events.event_history import may_be_noted
from cdc_ops.core.operation.log_batch import LogBatch, LogBatchResult
from cdc_ops.core.operation.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Manifest, Operation, OperationResult, Outcome
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.schema.declared_tables import next_step
from cdc_ops.core.text import quoted
from cdc_ops.errors import IncompleteRowError
from cdc_ops.formats.feed.fold import identity_of, place_of
from cdc_ops.formats.registry import open_format
from cdc_ops.lake.history.rows import Kept, event_rows
from cdc_ops.lake.history.write import append_events
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.soft_deletes import with_deleted
from cdc_ops.lake.merge.sql import INCOMPLETE
from cdc_ops.lake.quarantine.write import resolve, set_aside
from cdc_ops.lake.staging.landing import check_feed, read_landed
from cdc_ops.steps.log.land_events import feed_folder
from cdc_ops.steps.stage.invalid_values import full_text
from cdc_ops.steps.stage.latest_rows import is_deleted

_FOUND: Final = re.compile(re.escape(INCOMPLETE) + r"([0-9A-F]*):")


def merge_events(spark: SparkSession, spec: Operation, manifest: Manifest, reading: LogBatchResult) -> OperationResult:
    """Applies landed events; the commit carries up to where the table has everything of its archive then.

    Args:
        spark: A session of its own.
        spec: The frozen operation.
        manifest: Of its rows.
        reading: What reading its files showed.

    Raises:
        IncompleteRowError: an event changes some columns of a row that the table does not have.
    """
    spec = replace(spec, after=replace(spec.after, archive=reading.watermark))
    plan, rows = plan_merge(spec, manifest), marked(read_landed(spark, spec, manifest), spec)
    plan, rows = with_deleted(spark, spec, plan, rows)
    check_feed(spec, manifest)
    batch, folder = spec.read.batch if isinstance(spec.read, ArchiveRead) else None, feed_folder(spec, manifest.attempt)
    if reading.quarantined and batch is not None and not batch.again:
        set_aside(spark, spec, batch.quarantine or batch.unknown, folder)
    if batch is not None:
        _keep_events(spark, spec, batch, reading, folder)
    with translated_gaps(spec):
        result = apply(spark, spec, rows, plan, manifest.rows)
    if batch is not None and batch.again and result.outcome is not Outcome.NUMBER_TAKEN:  # else nothing of it was merged
        resolve(spark, spec, batch.quarantine, folder)
    counts = replace(result.counts, read=reading.events, quarantined=reading.quarantined, behind=reading.behind)
    counts = replace(counts, unknown=reading.unknown, columns=reading.columns, blank=reading.blank)
    return replace(result, counts=counts)


def _keep_events(spark: SparkSession, spec: Operation, log: LogBatch, reading: LogBatchResult, folder: str) -> None:
    if log.history is None:
        return
    feed, facts = spark.read.parquet(folder), open_format(log.archive.events.format).facts
    events = event_rows(feed, place_of(feed), identity_of(feed, facts), Kept.of(spec))
    newest = (one.place for one in log.before.newest)
    again = may_be_noted(reading.lowest, newest, sum(field.of_delivery for field in facts.order))
    append_events(spark, spec, log.history, events, again=again)


def marked(rows: DataFrame, spec: Operation) -> DataFrame:
    """Marks also the rows that the table's `apply_as_deletes` is true of; with soft deletes each row gets the mark that is stored."""
    gone = F.col(DELETE_MARK)
    if spec.apply.delete_where and not spec.apply.stored_as.ignores_deletes:  # else such events were left out before they were folded
        gone = gone | is_deleted(spec.apply.delete_where)
    return rows.withColumn(spec.apply.deleted_column, gone) if spec.apply.deleted_column else rows.withColumn(DELETE_MARK, gone)


@contextmanager
def translated_gaps(spec: Operation) -> Iterator[None]:
    """Turns the end of a statement at a row that is not known as a whole into an error of ours.

    Raises:
        IncompleteRowError: an event changes some columns of a row that the table does not have.
    """
    try:
        yield
    except Exception as error:  # of a failing statement, Py4J's own error comes through as well as PySpark's
        found = _FOUND.search(full_text(error))
        if found is None:
            raise
        key = bytes.fromhex(found[1]).decode()
        raise IncompleteRowError(
            f"An event changes some columns of the row with {', '.join(map(quoted, spec.source_keys))} = {key} of {spec.table},"
            " which the table does not have.",
            why="Its insert is not in the archive: the archive begins later, or events were removed from it.",
            data="Nothing of this batch was written; the watermark stays.",
            next=next_step(
                f"resync --pipeline {spec.pipeline} --table {spec.table} --mode full",
                "brings the rows from before the archive",
                declared=isinstance(spec.read, ArchiveRead) and bool(spec.read.batch.declared),
                first="Archive the tool's own snapshot, too.",
            ),
        ) from error
