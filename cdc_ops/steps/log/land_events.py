"""extract of the log method: archived events of one frozen operation, folded to one row per key and landed.

    files -> scan (counts, facts, typed changes) -> prove that none is missing -> fold -> landed rows

Tasks find facts; what follows from them is decided here: gaps, bad records, drift, unknown tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import SparkSession

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.files import FrozenFiles
from cdc_ops.core.archive.read_files import ReadFile
from cdc_ops.core.cursor.cursors import parse_datetime
from cdc_ops.core.events.ddl_changes import Statement
from cdc_ops.core.operation.binlog_order import last_binlog, transactions_after
from cdc_ops.core.operation.log_batch import LogBatch, LogBatchResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.operation.verified_batch import VerifiedBatch, after_reading
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.schema.tables import Column as TableColumn
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.schema.value_policies import NulledValues, NullifiedValues
from cdc_ops.errors import BadRecordsError, ConfigError
from cdc_ops.events.registry import spec_of
from cdc_ops.events.scan.binlog import WITHIN_PAYLOAD
from cdc_ops.events.scan.facts import TableFacts
from cdc_ops.lake.staging.manifests import feed_name, landed_files
from cdc_ops.steps.archive.frozen_files import check_unchanged
from cdc_ops.steps.log.altered_tables import AlteredTable, statements_of
from cdc_ops.steps.log.event_files import covers_of_files, placed_names
from cdc_ops.steps.log.event_order import check_order, instant
from cdc_ops.steps.log.land_folds import FoldedCounts, Landing, land_folded
from cdc_ops.steps.log.records_again import records_again
from cdc_ops.steps.log.scanned_files import ScannedTable, ScanRequest, read_again, scan_files
from cdc_ops.steps.log.shared_scan import SharedScans
from cdc_ops.steps.log.unknown_tables import check_unknown, keeps_raw
from cdc_ops.steps.reporting.stopwatch import measured

_SHOWN: Final = 5


def land_events(
    spark: SparkSession, operation: Operation, log: LogBatch, attempt: str, readings: SharedScans | None = None, reread: str = ""
) -> Manifest:
    """Reads the files of an operation and lands what their events come to: one row per key, or for SCD type 2 one row per change of a key.

    Args:
        spark: A session of its own.
        operation: The frozen operation.
        log: What it reads.
        attempt: Folder name of this try, unique.
        readings: Of the job that it belongs to; None = it reads its files for itself.
        reread: Why this is done although it had been landed before, "" if it had not.

    Raises:
        ArchiveChangedError: a file has changed since it was frozen; the next run freezes the files again.
        ArchiveGapError: something is missing before all of the files.
        BadRecordsError: records cannot be read exactly.
        TiedEventsError: two events at one place say different things.
        ConfigError: the format would lose data by a setting that nobody has accepted.
        UnknownTablesError: records are of tables that the pipeline file does not name, and the policy is to fail.
    """
    frozen, known = FrozenFiles(files=log.files), readings.known if readings else None
    with closing(open_archive(log.url, dict(log.archive.options))) as archive:
        request = ScanRequest(operation=operation, log=log, attempt=attempt, known=known)
        with measured(RunPhase.COUNTING):
            scanned = _scanned(spark, request, archive, readings)
        read_files = scanned.read_files(log)
        transactions = transactions_after(log, read_files)
        proven = after_reading(log, covers_of_files(read_files, log, operation.table), table=str(operation.table))
        merged = tuple(scanned.facts) if log.again else proven.merged
        scanned, altered = _with_earlier_names(spark, request, scanned, merged)
        scanned.check_columns(merged)
        facts = scanned.of(merged)
        result = _result(request, facts, altered, proven, read_files, transactions(proven.merged))

        def finished(manifest: Manifest, counts: FoldedCounts) -> Manifest:
            reading = result.changed(partial=counts.partial, deletes=counts.deletes)
            feed = landed_files(operation.target.staging, feed_name(attempt)) if reads_feed(operation, reading) else ()
            nulled, size = _nulled(facts.values(), operation), sum(file.bytes for file in feed)
            return manifest.changed(log=reading, nulled=nulled, feed_files=len(feed), feed_bytes=size, reread=reread)

        if reads_feed(operation, result):
            scanned.place_feed(feed_folder(operation, attempt), merged)
        with measured(RunPhase.FOLD):
            landing = Landing(scanned=scanned, merged=merged, check=lambda: check_unchanged(archive, frozen), finish=finished)
            manifest = land_folded(spark, operation, attempt, landing)
        scanned.remove()
        return manifest


def _scanned(spark: SparkSession, request: ScanRequest, archive: Archive, readings: SharedScans | None) -> ScannedTable:
    """Reads what an operation wants: its files, alone or together with its neighbours, or what is in quarantine."""
    if request.log.again:
        return read_again(request, records_again(request.operation, request.log))
    if readings is not None and (shared := readings.take(request.operation)) is not None:
        return shared
    check_unchanged(archive, FrozenFiles(files=request.log.files))
    return scan_files(spark, [request])[0]


def _with_earlier_names(
    spark: SparkSession, request: ScanRequest, scanned: ScannedTable, merged: Sequence[str]
) -> tuple[ScannedTable, AlteredTable]:
    """Returns what was read, and what statements did; read once more if these say that events from before have columns by other names.

    What statements say follows from the frozen files and columns alone, so that each try reads the same.
    """
    operation, log = request.operation, request.log
    spec = spec_of(log.archive.format_options)

    def altered() -> AlteredTable:
        drifts = [one.drift for one in scanned.of(merged).values()]
        return _altered(operation, log, statements_of(drifts, operation.table, spec))

    found = altered()
    if not found.renamings:
        return scanned, found
    scanned.remove()
    again = replace(request, renamings=found.renamings)
    scanned = read_again(again, records_again(operation, log)) if log.again else scan_files(spark, [again])[0]
    return scanned, altered()


def _result(
    request: ScanRequest,
    facts: Mapping[str, TableFacts],
    altered: AlteredTable,
    proven: VerifiedBatch,
    read_files: Sequence[ReadFile],
    gtids: str,
) -> LogBatchResult:
    """Returns what reading showed, or raises an error for what stops the operation."""
    operation, log, seen, known = request.operation, request.log, list(facts.values()), request.known
    spec = spec_of(log.archive.format_options)
    bad = sum(one.bad for one in seen)
    if bad and not log.quarantine:
        raise _bad_records(facts, operation.table, bad, is_binlog=spec.is_binlog)
    newest, behind = (log.before.newest, 0) if log.again else check_order(facts, operation, log, placed_names(log))
    truncates = tuple(sorted({place for one in seen for place in one.truncates}))
    lowest = min((one.order.lowest for one in seen if one.order.lowest), default=())
    unknown = sum(count for one in seen for _, count in one.unknown)
    return LogBatchResult.of(
        watermark=replace(proven.watermark, newest=newest, gtids=gtids, last_binlog=last_binlog(log, read_files, proven.merged)),
        covers=proven.covers,
        merged=proven.merged,
        gaps=proven.gaps,
        blank=_blank_lines(read_files, log, proven.merged),
        events=sum(one.events for one in seen),
        truncates=() if operation.apply.stored_as.ignores_deletes else truncates,
        behind=behind,
        ordered=spec.one_order,
        quarantined=bad + (unknown if log.again or keeps_raw(log, known) else 0),
        unknown=check_unknown(seen, log, known, operation.table),
        last_change=max((at for one in seen if (at := instant(one.order.last)) is not None), default=None),
        lowest=lowest,
        columns=altered.drift([one.drift for one in seen], truncates, lowest),
    )


def _blank_lines(files: Iterable[ReadFile], log: LogBatch, merged: Sequence[str]) -> int:
    """Returns how many lines of the files that are merged are empty, 0 for formats in which that may be the end of a delete."""
    tombstones = spec_of(log.archive.format_options).writes_tombstones
    wanted = set(merged)
    return 0 if tombstones else sum(file.blank for file in files if file.path in wanted)


def feed_folder(operation: Operation, attempt: str) -> str:
    """Returns where the feed of a try is landed, beside its rows."""
    return f"{operation.target.staging.rstrip('/')}/{feed_name(attempt)}"


def reads_feed(operation: Operation, reading: LogBatchResult) -> bool:
    """True if the merge of landed events reads their feed too: for the event history, and for what is or was in quarantine."""
    match operation.read:
        case ArchiveRead(batch=batch):
            return bool(reading.counts.quarantined or batch.again or batch.history)
        case _:
            return False


def _altered(operation: Operation, log: LogBatch, said: tuple[Statement, ...]) -> AlteredTable:
    """Returns what statements did to the table."""
    return AlteredTable(
        schema=operation.full_schema,
        spec=spec_of(log.archive.format_options),
        statements=said,
        renamed=log.renamed,
        declared=bool(log.declared),
        stored=log.stored,
        begins=operation.before.watermark is None and not log.before.streams,
        read_at=_read_at(operation, log),
        keeps_versions=operation.apply.stored_as.keeps_versions,
    )


def _read_at(operation: Operation, log: LogBatch) -> datetime | None:
    """Returns when the rows of a table were read at the source of which this is the first batch of events; None for all other batches.

    The watermark is that instant then (`steps.planning.reconcile.observed_bound`), or an earlier one.
    """
    watermark = operation.before.watermark
    if watermark is None or log.before.newest:
        return None
    try:
        return parse_datetime(watermark.parts[0]).replace(tzinfo=UTC)
    except ConfigError:  # of a listing that had nothing
        return None


def _nulled(facts: Iterable[TableFacts], operation: Operation) -> NullifiedValues:
    """Adds up the values for which NULL stands."""
    seen = [dict(one.nulled) for one in facts]
    counts = ((column, sum(one.get(column.name, 0) for one in seen)) for column in _lossy(operation))
    return NullifiedValues(columns=tuple(NulledValues(column=c.name, source_type=c.source_type, values=n) for c, n in counts if n))


def _lossy(operation: Operation) -> list[TableColumn]:
    return [column for column in operation.source.schema.columns if column.lossy]


def _bad_records(facts: Mapping[str, TableFacts], table: TableName, bad: int, *, is_binlog: bool) -> BadRecordsError:
    first = sorted((path, one.line, one.reason) for path, found in facts.items() for one in found.shown)[:_SHOWN]
    shown = "; ".join(f"{path} {_place(line, is_binlog=is_binlog)}: {reason}" for path, line, reason in first)
    return BadRecordsError(
        f"{bad:,} records of the archive of {table} cannot be read exactly: {shown}.",
        why="They were written under other settings than 'archive.settings' states, are damaged or of another format, or hold values that"
        " their columns do not have.",
        data="Nothing of this batch was written; the watermark stays.",
        next="Correct the format and its settings, or repair the files; cdc-ops reads them again. To go on without these records, set"
        " 'bad_records: quarantine': they are set aside, and their rows stay as they were.",
    )


def _place(line: int, *, is_binlog: bool) -> str:
    """Returns where a record stands, for people."""
    if not is_binlog:
        return f"line {line + 1}"
    return "in a compressed transaction" if line >= WITHIN_PAYLOAD else f"at byte {line}"
