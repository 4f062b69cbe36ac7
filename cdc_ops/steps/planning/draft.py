"""Chooses the draft of a table by request, method and state, and refreshes frozen operations. Queries the source, writes nothing."""

from dataclasses import replace
from typing import assert_never

from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead, ChunkRead, CompareRead, KeysRead, ReplayRead, WindowRead
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.events.registry import format_spec, is_own_format
from cdc_ops.sources.declared import no_database
from cdc_ops.steps.planning.increment import draft_increment
from cdc_ops.steps.planning.log import archive_position, begins_with_snapshot, draft_log, with_current_archive
from cdc_ops.steps.planning.reconcile import abandoned_before, draft_comparison
from cdc_ops.steps.planning.request import Draft, TableRequest
from cdc_ops.steps.planning.whole_tables.resync import draft_reread
from cdc_ops.steps.planning.whole_tables.snapshot import draft_snapshot


def draft_operations(request: TableRequest) -> Draft:
    """Drafts the operations of one table for a run.

    Raises:
        ConfigError, SourceTableError: see `_check_events`.
        RequestError: a backfill or resync of a table that has no snapshot yet, or what needs a database where there is none.
        SourceError: the source cannot answer, or its clock went back.
    """
    compared = not request.source_table.cursor.columns
    if request.source_table.pipeline.source.is_declared:
        _check_needs_no_database(request.run, request.table)
    if request.source_table.config.settings.method is Method.LOG and request.run.kind is RunKind.INCREMENT:
        _check_events(request)
    match request.run.kind:
        case RunKind.RECONCILE:
            return draft_comparison(request)
        case RunKind.INCREMENT if begins_with_snapshot(request):
            begun = request.state.progress.archive or archive_position(request)
            draft = draft_snapshot(request)
            return replace(
                draft, operations=tuple(replace(operation, after=replace(operation.after, archive=begun)) for operation in draft.operations)
            )
        case RunKind.INCREMENT if request.source_table.config.settings.method is Method.LOG:
            return draft_log(request)
        case RunKind.INCREMENT if compared and request.state.progress.watermark is not None:
            return draft_comparison(request)
        case RunKind.INCREMENT if request.state.progress.watermark is not None:
            return draft_increment(request, request.state.progress.watermark)
        case RunKind.INCREMENT:
            return draft_snapshot(request)
        case RunKind.BACKFILL | RunKind.RESYNC:
            return draft_reread(request)


def with_current_settings(request: TableRequest, operation: Operation) -> Operation:
    """Returns a frozen operation that has landed nothing, with the archive's current settings or the ledger's last abandoned operation."""
    match operation.read:
        case CompareRead(compare=compare) as read:
            return replace(operation, read=replace(read, compare=replace(compare, seals=abandoned_before(request))))
        case ArchiveRead(batch=batch):
            return with_current_archive(request, operation, batch)
        case WindowRead() | ChunkRead() | KeysRead() | ReplayRead():
            return operation
        case _:
            assert_never(operation.read)


def _check_events(request: TableRequest) -> None:
    """Refuses columns of the source that the archive's format loses or cannot carry, before Spark starts.

    Raises:
        ConfigError: there is no such format, or settings lose data that nobody accepted.
        SourceTableError: the format cannot carry a column.
    """
    options = request.source_table.pipeline.archive.format_options
    if not is_own_format(options.name):  # which a job loads, and checks then
        check_format(format_spec(options.name), options, request.source_table.schema, request.source_table.source_keys)


def _check_needs_no_database(request: RunRequest, table: str) -> None:
    """Refuses requests that read a database, for a source that has none. Increments, replays and retries read only archive and lake."""
    if request.kind is RunKind.RECONCILE:
        raise no_database(f"Table {table} cannot be compared with its source")
    if request.kind is RunKind.BACKFILL or request.mode in (ResyncMode.KEYS, ResyncMode.RANGE, ResyncMode.FULL):
        raise no_database(f"Rows of {table} cannot be read again")
