"""merge of the log method: what is set aside of landed events, and what the table's event history keeps of them. Runs in Spark."""

from cdc_ops.core.events.event_history import may_be_noted
from cdc_ops.core.operation.log_batch import LogBatchResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.errors import StateError
from cdc_ops.events.registry import spec_of
from cdc_ops.lake.history.rows import Kept, event_rows, identity_of, place_of
from cdc_ops.lake.history.write import append_events
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.quarantine.write import quarantine, resolve
from cdc_ops.steps.log.land_events import feed_folder


def quarantine_bad_records(operation: Operation, batch: Batch) -> Batch:
    """Writes records that cannot be read, or are of unknown tables, to the quarantine; their rows stay as they are.

    Raises:
        LakeConflictError: another process changes the quarantine.
    """
    match operation.read:
        case ArchiveRead(batch=log) if not log.again:
            reading, feed = _landed(operation, batch)
            if reading.counts.quarantined:
                quarantine(batch.rows.sparkSession, operation, log.quarantine or log.unknown, feed)
    return batch


def keep_events(operation: Operation, batch: Batch) -> Batch:
    """Appends the events to the table's history, if it has one."""
    match operation.read:
        case ArchiveRead(batch=log) if (history := log.history) is not None:
            reading, folder = _landed(operation, batch)
            feed, form = batch.rows.sparkSession.read.parquet(folder), spec_of(log.archive.format_options)
            events = event_rows(feed, place_of(feed), identity_of(feed, form), Kept.of(operation))
            newest = (one.place for one in log.before.newest)
            again = may_be_noted(reading.lowest, newest, sum(field.of_delivery for field in form.order))
            append_events(batch.rows.sparkSession, operation, history, events, again=again)
    return batch


def resolve_records(operation: Operation, batch: Batch) -> None:
    """Notes of records that were read once more from the quarantine that they are merged."""
    match operation.read:
        case ArchiveRead(batch=log) if log.again:
            _, feed = _landed(operation, batch)
            resolve(batch.rows.sparkSession, operation, log.quarantine, feed)


def _landed(operation: Operation, batch: Batch) -> tuple[LogBatchResult, str]:
    """Returns what reading the files of events showed, and the folder of their landed feed.

    Raises:
        StateError: no events were landed.
    """
    if batch.manifest is None or batch.manifest.log is None:
        raise StateError(f"Operation {operation.op_seq} of {operation.table} has landed no events.")
    return batch.manifest.log, feed_folder(operation, batch.manifest.attempt)
