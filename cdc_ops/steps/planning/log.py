"""Drafts of the log method: the new files of an archive as one operation; replays of the event history. No Spark here."""

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace

from cdc_ops.archives.registry import open_archive
from cdc_ops.core import json_codec
from cdc_ops.core.apply.apply_spec import ApplyMode, Landing
from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts
from cdc_ops.core.archive.completeness import MissingEvents, gap_error
from cdc_ops.core.archive.file_names import BinlogName, DmsName, FileName, KafkaName, Layout
from cdc_ops.core.archive.files import FrozenFiles, ListedFile
from cdc_ops.core.archive.watermarks import ArchiveWatermark, PartitionWatermark, advanced
from cdc_ops.core.cursor.cursors import CursorValue, format_datetime
from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.core.events.event_history import EventHistory, Replay
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.reads import ArchiveRead, ReplayRead
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.pipeline.archive_config import InitialLoad
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.pipeline.tables.paths import event_history, quarantine_path
from cdc_ops.core.pipeline.tables.table_matching import resolve_tables
from cdc_ops.core.schema.declared_tables import next_step
from cdc_ops.errors import ArchiveChangedError, ArchiveError, ConfigError, RequestError, StateError
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.steps.archive.frozen_files import check_unchanged
from cdc_ops.steps.archive.replaced_binlogs import begin_of
from cdc_ops.steps.archive.scan import ArchiveScan, scan_archive
from cdc_ops.steps.planning.gap_recovery import draft_gap_recovery, recovers_by_query
from cdc_ops.steps.planning.request import Draft, TableRequest, declared_names, new_operation, quarantine_of, staging_of
from cdc_ops.steps.reporting.stopwatch import measured


def begins_with_snapshot(request: TableRequest) -> bool:
    """True while a table with `initial_load: snapshot` has no complete snapshot."""
    settings, archive = request.source_table.config.settings, request.source_table.pipeline.archive
    return settings.method is Method.LOG and archive.initial_load is InitialLoad.SNAPSHOT and request.state.progress.watermark is None


def archive_position(request: TableRequest) -> ArchiveWatermark:
    """Returns the current position of a table's archive, before its rows are read from the source: its events are read from there.

    A change whose event is in a complete file was committed at the source before, so a read of the rows from now on contains it. The last
    file of each stream is read again, because its name does not show its last position. Events that the rows contain already do no
    harm: the last event of a key decides, and it is in the archive, or the row has not changed since.

    Raises:
        ArchiveError: the archive has no complete file of the table whose name shows a position, so changes during the read could be
            missed.
    """
    url, scan = _scan(request, ArchiveWatermark())
    finished = {file.path for file in scan.stock.to_read}
    last: dict[str, tuple[int, ...]] = {}
    binlogs = {name.number: name for name in scan.names if name.path in finished and isinstance(name, BinlogName)}
    for name in scan.names:
        if name.path in finished and isinstance(name, KafkaName | BinlogName):
            start = (name.start_offset,) if isinstance(name, KafkaName) else (name.number, 0)
            last[name.stream] = max(start, last.get(name.stream, start))
    if not last:
        raise ArchiveError(
            f"Table {request.table} cannot begin with a snapshot ('initial_load: snapshot'): {url} has no complete file of the table yet.",
            why="The tool that writes the archive may not capture the table; changes that are made during the snapshot would then be lost.",
            data="Nothing was read or written.",
            next="Let the tool write its first file (Debezium: a heartbeat, or any change of the table), then run again.",
        )
    streams = tuple(PartitionWatermark(stream=stream, to=start) for stream, start in sorted(last.items()))
    return ArchiveWatermark(streams=streams, last_binlog=_begin_of_last(request, url, binlogs) if len(streams) == 1 else None)


def _begin_of_last(request: TableRequest, url: str, binlogs: Mapping[int, BinlogName]) -> BinlogFacts | None:
    """Returns what the begin of the last binlog says, so that another one by its name is told from it; None without binlogs."""
    if not binlogs:
        return None
    with closing(open_archive(url, dict(request.source_table.pipeline.archive.options))) as opened:
        return begin_of(opened, binlogs[max(binlogs)])


def position_after_resync(request: TableRequest) -> ArchiveWatermark:
    """Returns the position from which a table's events are read after a full resync, whether or not gaps lie behind it.

    Raises:
        ArchiveError: as `archive_position`.
    """
    # Rows of a new snapshot are older than any event, and of whichever server is archived now.
    before = replace(request.state.progress.archive or ArchiveWatermark(), newest=(), gtids="", last_binlog=None)
    position = archive_position(request)
    if position.last_binlog is not None:  # after a RESET its numbers are lower than those that the table had
        new = {item.stream for item in position.streams}
        before = replace(before, streams=tuple(item for item in before.streams if item.stream not in new))
    return replace(advanced(before, position.streams), last_binlog=position.last_binlog)


def draft_log(request: TableRequest) -> Draft:
    """Drafts the operation that reads the new files of a table's archive.

    Raises:
        ConfigError: the pipeline names no archive.
        ArchiveError: it cannot be listed, or has files with unrecognized names.
        StateError: the table has rows that did not come from the archive, so its position there is unknown.
    """
    archive, table = request.source_table.pipeline.archive, request.source_table.config.table
    if request.state.progress.archive is None and request.state.progress.watermark is not None:
        raise _not_from_archive(request)
    before = request.state.progress.archive or ArchiveWatermark()
    url, scan = _scan(request, before)
    bound, missing = _listing_bound(scan), gap_error(str(table), scan.gaps, before.streams) if scan.gaps else None
    files = first_files(scan.files.files, scan.names, archive.files.files_per_run)
    if missing and not files and recovers_by_query(request, scan.gaps):
        return replace(draft_gap_recovery(request, before, scan.gaps), warnings=scan.warnings(), scan=scan)
    if not files:
        idle = f"no complete file in {url}: {scan.waiting}" if scan.waiting else f"no new file in {url}"
        return Draft(idle=idle, bound=bound, warnings=scan.warnings(), scan=scan, error=missing)
    batch = LogBatch(
        archive=archive,
        url=url,
        files=files,
        before=before,
        decisions=scan.decisions,
        quarantine=quarantine_of(request.source_table),
        history=_history(request),
        renamed=request.source_table.config.settings.values.renamed,
        unknown=quarantine_path(request.source_table.pipeline, request.source_table.config.table)
        if collects_unknown_tables(request)
        else "",
        declared=declared_names(request),
        stored=request.source_table.stored,
    )
    operation = new_operation(request, OperationKind.INCREMENT, request.source.now(), ArchiveRead(batch=batch))
    operation = replace(
        operation,
        generation=max(request.state.generation, 1),
        after=replace(operation.after, watermark=bound.value),
        apply=replace(operation.apply, previous_keys=()),
    )
    left = len(scan.files.files) - len(files)
    more = (f"{left:,} more files wait for the next run ('files_per_run')",) if left else ()
    met = MissingEvents(gaps=scan.gaps, healing=recovers_by_query(request, scan.gaps)) if scan.gaps else None
    return Draft(operations=(operation,), bound=bound, warnings=(*scan.warnings(), *more), missing_events=met, how=scan.waiting, scan=scan)


def _not_from_archive(request: TableRequest) -> StateError:
    table = request.source_table.config.table
    return StateError(
        f"Table {table} has rows that did not come from its archive, so cdc-ops does not know at which event to continue.",
        why="It was read by query before ('method: log' is new), or its commit records are gone.",
        data="Nothing was read or written; the watermark stays.",
        next=next_step(
            f"resync --pipeline {request.source_table.config.pipeline} --table {table} --mode full",
            "reads all rows, and then follows the archive from its current position",
            declared=request.source_table.pipeline.source.is_declared,
        ),
    )


def _scan(request: TableRequest, before: ArchiveWatermark) -> tuple[str, ArchiveScan]:
    """Returns the URL of a table's archive and its listing, compared with the ledger.

    Raises:
        ConfigError: the pipeline names no archive.
        ArchiveError: it cannot be listed.
    """
    archive, table = request.source_table.pipeline.archive, request.source_table.config.table
    if not archive.url or not archive.events.format:
        raise ConfigError(
            f"Table {table} has 'method: log', and the pipeline does not name an archive.",
            data="Nothing was read or written.",
            next="Add 'archive:' with 'url' and 'format' to the pipeline file, or set 'method: query'.",
        )
    url = archive.location(table)
    with measured(RunPhase.LISTING), closing(open_archive(url, dict(archive.options))) as opened:
        return url, scan_archive(opened, archive, request.ledger, (request.source_table.config.pipeline, table), before)


def _listing_bound(scan: ArchiveScan) -> SafeBound:
    """Returns the instant (UTC) of the listing as the watermark of a table without a cursor. Positions decide what is complete."""
    value = CursorValue(parts=(format_datetime(scan.listing.clock.replace(tzinfo=None)),))
    return SafeBound(value=value, clock=value, method="archive", observed_at=scan.listing.clock)


def first_files(files: tuple[ListedFile, ...], names: Iterable[FileName], limit: int) -> tuple[ListedFile, ...]:
    """Returns the first files of each stream, up to a limit. The other files come later in their stream.

    Args:
        files: All files that can be read.
        names: Their parsed names.
        limit: The largest number of files, but at least one of each stream is returned.
    """
    if len(files) <= limit:
        return files
    streams: dict[str, list[tuple[tuple[int, ...], str]]] = {}
    for name in names:
        match name:
            case KafkaName():
                streams.setdefault(name.stream, []).append(((name.start_offset,), name.path))
            case BinlogName():
                streams.setdefault(name.stream, []).append(((name.number,), name.path))
            case DmsName():
                streams.setdefault(f"{name.schema}/{name.table}", []).append((name.place, name.path))
            case _:
                streams.setdefault("", []).append(((), name.path))
    by_path = {file.path: file for file in files}
    waiting = {stream: [by_path[path] for _, path in sorted(places) if path in by_path] for stream, places in streams.items()}
    share = max(limit // max(sum(map(bool, waiting.values())), 1), 1)
    return tuple(sorted((file for queue in waiting.values() for file in queue[:share]), key=lambda file: file.path))


def collects_unknown_tables(request: TableRequest) -> bool:
    """True for the first table, by name, of those that read one folder: it collects the records of unknown tables.

    Raises:
        SourceError: the source does not say which tables it has.
    """
    pipeline, table = request.source_table.pipeline, request.source_table.config.table
    if "{schema}" in pipeline.archive.url and "{table}" in pipeline.archive.url:
        return True
    place, configs = pipeline.archive.location(table), resolve_tables(pipeline, request.tables())
    return str(table) == min(
        str(one.table) for one in configs if one.settings.method is Method.LOG and pipeline.archive.location(one.table) == place
    )


def draft_replay(request: TableRequest) -> Draft:
    """Drafts the operation that applies a table's event history again: all of it to a new table, or its end to the existing table.

    Raises:
        RequestError: the table has no `event_history`, or the history has no event yet.
    """
    history, since = _history(request), request.run.since
    if history is None or DeltaLog(history.path).newest() is None:
        raise RequestError(
            f"Table {request.table} has no event history to replay.",
            why="'event_history' is not set." if history is None else "No event has arrived since it was set, or since all rows were read.",
            data="Nothing was read or written; the watermark stays.",
            next="Set 'event_history: true' for the table; the history begins with the next run that has events.",
        )
    read = ReplayRead(replay=Replay(path=history.path, since=since))
    operation = new_operation(request, OperationKind.REPLAY, request.source.now(), read)
    mode = ApplyMode.OVERWRITE if since is None else ApplyMode.MERGE
    operation = replace(operation, apply=replace(operation.apply, mode=mode, landing=Landing.DIRECT, replaces_schema=since is None))
    return Draft(operations=(operation,))


def _history(request: TableRequest) -> EventHistory | None:
    return event_history(request.source_table.pipeline, request.source_table.config, request.state.generation)


def with_current_archive(request: TableRequest, operation: Operation, log: LogBatch) -> Operation:
    """Returns a frozen operation that has landed nothing, with the archive settings of the pipeline file as it is now.

    It may have failed because of format, settings or accepted losses, so it must be read with the corrected ones. Number and identity stay,
    and so do its files, unless one of them has changed or is gone, or the archive is another one. If the settings differ, it lands in
    another staging folder: a try with the old settings that still runs cannot land rows for it.

    Args:
        request: The table.
        operation: The operation.
        log: What it reads.
    """
    now = _configured(request, log)
    elsewhere = _layout_of(now) != _layout_of(log)
    if not now.again:
        now = _list_again(request, operation, now, again=elsewhere)
    if _reading_key(now) == _reading_key(log):
        return replace(operation, read=ArchiveRead(batch=now))
    named = hashlib.sha256(_reading_key(now).encode()).hexdigest()[:8]
    staging = staging_of(request.source_table.pipeline, operation.table, operation.op_seq, operation.operation_id)
    return replace(operation, read=ArchiveRead(batch=now), target=replace(operation.target, staging=f"{staging}-{named}"))


def _layout_of(log: LogBatch) -> tuple[str, Layout, str]:
    """Returns where the files are, and what gives their names a meaning."""
    return log.url, log.archive.files.layout, log.archive.files.template


def _configured(request: TableRequest, log: LogBatch) -> LogBatch:
    """Returns a batch with the current archive. A table that no longer reads an archive finishes with the old one."""
    pipeline, config = request.source_table.pipeline, request.source_table.config
    archive = pipeline.archive
    if config.settings.method is not Method.LOG or not archive.url or not archive.events.format:
        return log
    unknown = quarantine_path(pipeline, config.table) if not log.again and collects_unknown_tables(request) else ""
    renamed = config.settings.values.renamed
    return replace(
        log, archive=archive, url=archive.location(config.table), renamed=renamed, unknown=unknown, declared=declared_names(request)
    )


def _list_again(request: TableRequest, operation: Operation, log: LogBatch, *, again: bool) -> LogBatch:
    """Returns a batch with the current files, if one of its files has changed or is gone, or if `again` asks for another listing.

    A try that has read the old files and still lands them does no harm: one manifest has the rows and the watermark of a try.
    """
    with measured(RunPhase.LISTING), closing(open_archive(log.url, dict(log.archive.options))) as opened:
        try:
            if not again:
                check_unchanged(opened, FrozenFiles(files=log.files))
                return log
        except ArchiveChangedError:
            pass
        scan = scan_archive(opened, log.archive, request.ledger, (operation.pipeline, operation.table), log.before, full=True)
    files = first_files(scan.files.files, scan.names, log.archive.files.files_per_run)
    return replace(log, files=files, decisions=scan.decisions)


def reads_differently(before: Operation, after: Operation) -> bool:
    """True if two versions of a frozen operation read their records with different archive settings."""
    match before.read, after.read:
        case ArchiveRead(batch=old), ArchiveRead(batch=new):
            return _reading_key(old) != _reading_key(new)
        case _:
            return False


def _reading_key(log: LogBatch) -> str:
    """Returns the settings that decide how records become rows, as text to compare."""
    events = log.archive.events
    return json_codec.dumps((*_layout_of(log), events.format, events.settings, events.accept_losses, events.time_zone))
