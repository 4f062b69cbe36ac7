"""Gaps in archives once an operation has committed: the ledger has them at once, and so has the table's line of the run."""

from dataclasses import replace

from cdc_ops.core.apply.scd import TableStorage
from cdc_ops.core.archive.binlogs.binlog_sequence import lists_transactions
from cdc_ops.core.archive.completeness import GapStatus, MissingEvents, asked_for
from cdc_ops.core.archive.watermarks import ArchiveWatermark, Gap
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.table_state import Phase, TableState
from cdc_ops.core.operation.reads import ArchiveRead, CompareRead
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, OnGap
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.state.base import StateStore
from cdc_ops.state.lease import Lease
from cdc_ops.state.table_run import TableRun, Waiting
from cdc_ops.steps.context import Context


def keep_gaps(store: StateStore, lease: Lease, watermark: ArchiveWatermark | None, gaps: tuple[Gap, ...]) -> None:
    """Writes into the ledger what an operation's commit has shown of gaps: those that it met are open, those that it passed are closed.

    What was open besides stays so: an operation reads some files, and only a survey has looked at all of them.

    Args:
        store, lease: The ledger, under the table's lease.
        watermark: Of the table's archive after the commit; None for tables without one.
        gaps: The gaps in the files of the operation.

    Raises:
        StaleStateError: the lease is lost.
    """
    known = store.archive_gaps(lease.pipeline, lease.table) if watermark is not None else ()
    if watermark is None or not (known or gaps):
        return
    passed = [record for record in known if _is_behind(record.gap, watermark)]
    store.close_gaps(lease, passed)
    left = (record.gap for record in known if record not in passed and record.status is GapStatus.OPEN)
    store.report_gaps(lease, (*gaps, *(gap for gap in left if not any(_overlap(gap, other) for other in gaps))))


def with_missing_events(run: TableRun, context: Context, config: TableConfig, specs: tuple[Operation, ...]) -> TableRun:
    """Returns a table's line with what its archive misses now, in place of what the plan saw.

    Args:
        run: The line.
        context, config: The table.
        specs: The run's operations.
    """
    if not any(_passes_events(operation) for operation in specs):
        return run
    store, name = context.store, str(config.table)
    gaps = tuple(record.gap for record in store.archive_gaps(config.pipeline, config.table) if record.status is GapStatus.OPEN)
    healing = can_heal(context.pipeline.archive, store.table_state(config.pipeline, config.table), specs[-1].apply.stored_as)
    missing = MissingEvents(gaps=gaps, healing=healing) if gaps else None
    alert = run.messages.alert
    planned = alert.replace(run.waits_for.missing.alert(name), "").strip("; ") if run.waits_for.missing else alert
    alerts = (planned, missing.alert(name) if missing else "")
    asked = asked_for(gaps) if missing and not healing else run.waits_for.asks
    messages = replace(run.messages, alert="; ".join(filter(None, alerts)))
    return replace(run, waits_for=Waiting(missing=missing, asks=asked), messages=messages)


def _is_behind(gap: Gap, watermark: ArchiveWatermark) -> bool:
    reached = watermark.position_of(gap.stream)
    return reached is not None and gap.high <= reached


def _overlap(one: Gap, other: Gap) -> bool:
    return one.stream == other.stream and one.low < other.high and other.low < one.high


def can_heal(archive: ArchiveConfig, state: TableState, stored_as: TableStorage) -> bool:
    """True if a gap in the archive of a table is one that a comparison with the source can stand for; see `heals`."""
    gtids = bool(state.progress.archive and lists_transactions(state.progress.archive.gtids))
    return archive.on_gap is OnGap.RECONCILE and state.phase is Phase.READY and not stored_as.keeps_versions and not gtids


def _passes_events(operation: Operation) -> bool:
    """True if an operation moves the archive's watermark: it reads events, or stands for some that are missing."""
    match operation.read:
        case ArchiveRead():
            return True
        case CompareRead(compare=compare):
            return compare.heals
        case _:
            return False
