"""The input and the output of planning a table: `TableRequest` and `Draft`, and the parts of operations that all kinds share.

Queries the source, writes nothing.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from cdc_ops.core.apply.apply_spec import ApplyMode, ApplySpec, Landing
from cdc_ops.core.archive.completeness import MissingEvents
from cdc_ops.core.cursor.windows import SafeBound, Window
from cdc_ops.core.events.event_history import EVENT_HISTORY
from cdc_ops.core.operation.operation import Operation, OperationKind, Planning, SourceColumns, Target
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.reads import ArchiveRead, CompareRead, Read, WindowRead
from cdc_ops.core.operation.run_request import ResyncMode, RunRequest
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.table_settings import CHANGE_FEED, Method
from cdc_ops.core.pipeline.tables.paths import history_root, quarantine_path, staging_root
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError
from cdc_ops.sources.base import Source
from cdc_ops.sources.chunks.chunks import ChunkSize
from cdc_ops.state.base import StateReader
from cdc_ops.steps.archive.scan import ArchiveScan
from cdc_ops.steps.query.connection_limit import at_most
from cdc_ops.steps.table.columns.previous_keys import before_columns
from cdc_ops.steps.table.identity import settled_identity
from cdc_ops.steps.table.layout import layout_columns
from cdc_ops.steps.table.source_table import SourceTable

COUNT_LIMIT = 200_000
"""Rows of a window that are counted before it is read; a window with more rows is read over several connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """A run's request for one table, with all inputs of its draft.

    Args:
        source: The open source.
        run: What the run was asked for.
        source_table: The table at the source, checked against its settings.
        state: The table's state, after its unfinished operations.
        ledger: For the files of its archive, and for abandoned operations.
        tables: Returns all tables of the source.
    """

    source: Source
    run: RunRequest
    source_table: SourceTable
    state: TableState
    ledger: StateReader
    tables: Callable[[], tuple[TableName, ...]]

    @property
    def table(self) -> str:
        """The table's name, for messages."""
        return str(self.source_table.config.table)

    def slices(self, where: str) -> tuple[str, ...]:
        """Returns SQL conditions that split the rows of `where` among the table's connections."""
        return self.limited(self.source.slices(self.source_table.schema, self.source_table.source_keys, where, self.readers))

    def limited(self, slices: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the slices, some of them joined if there are more than the source allows connections."""
        return at_most(slices, self.source.config.max_connections)

    @property
    def readers(self) -> int:
        """The number of connections at the same time: the table's `parallelism`, limited by the source's `max_connections`."""
        wanted, most = self.source_table.config.settings.load.parallelism, self.source.config.max_connections
        return min(wanted, most) if most else wanted

    @property
    def chunk_size(self) -> ChunkSize:
        """The largest size of one operation of a snapshot."""
        settings = self.source_table.config.settings
        return ChunkSize(rows=settings.load.chunk_rows, bytes=settings.load.chunk_bytes, readers=self.readers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """New operations of a table, to be frozen, or why there are none.

    Args:
        operations: In the order in which they are executed.
        idle: Why there are none, "" if there are some.
        bound: The safe bound that was taken, None if none was needed.
        bound_advanced: False if the bound is not above the watermark: then nothing was searched, and only the bound's warnings count.
        how: How the table was cut into operations, or which files of an archive wait, "" if there is nothing to say.
        warnings: What makes the read slow or incomplete, each with its remedy; those of the bound are not repeated here.
        alert: About a transaction that has held the bound back for too long, or a gap that a comparison closes, "" if neither.
        missing_events: What the archive lacks behind the files that are read; None if nothing.
        scan: The listing of the table's archive, for the ledger; None for tables that are read by query.
        error: Why the table cannot continue, None if it can. It is raised after the ledger has recorded the rest.
    """

    operations: tuple[Operation, ...] = ()
    idle: str = ""
    bound: SafeBound | None = None
    bound_advanced: bool = True
    how: str = ""
    warnings: tuple[str, ...] = ()
    alert: str = ""
    missing_events: MissingEvents | None = None
    scan: ArchiveScan | None = None
    error: CdcError | None = None


EMPTY_DRAFT: Final = Draft()


def new_operation(request: TableRequest, kind: OperationKind, planned_at: datetime, read: Read, ahead: int = 0) -> Operation:
    """Returns an operation with the parts that all kinds share: a staged MERGE that leaves the watermark unchanged.

    Args:
        request: The table.
        kind: The operation's kind.
        planned_at: Now (UTC), by the source's clock.
        read: What it reads.
        ahead: The number of new operations before this one.
    """
    source_table, state, config, identity = request.source_table, request.state, request.source_table.config, uuid.uuid4().hex
    op_seq = state.op_seq + 1 + ahead
    return Operation(
        pipeline=config.pipeline,
        table=config.table,
        op_seq=op_seq,
        operation_id=identity,
        plan=Planning(run_id=request.run.run_id, planned_at=planned_at),
        kind=kind,
        generation=state.generation,
        target=Target(
            path=config.path,
            staging=staging_of(source_table.pipeline, config.table, op_seq, identity),
            properties=_properties(source_table.pipeline, config),
            cluster_by=layout_columns(source_table, "cluster_by"),
            partition_by=layout_columns(source_table, "partition_by"),
            version=state.delta_version,
        ),
        source=SourceColumns(
            schema=source_table.schema,
            cursor=source_table.cursor,
            hidden=source_table.hidden,
            fingerprint=source_table.fingerprint,
            identity=settled_identity(request.source, source_table, state, request.run, whole=_is_whole(request.run, read)),
        ),
        before=state.progress.position,
        after=state.progress.position,
        apply=_apply_spec(request),
        read=read,
        approval=request.run.accepts.approval,
    )


def _is_whole(run: RunRequest, read: Read) -> bool:
    """True for what reads all rows, or compares all of their values; another table may have the same keys."""
    if isinstance(read, CompareRead):
        return read.compare.scope is None and read.compare.strength is not CompareLevel.KEYS
    return run.mode is ResyncMode.FULL


def _apply_spec(request: TableRequest) -> ApplySpec:
    """Returns how the rows of a table are applied to the lake, by its settings."""
    source_table, settings = request.source_table, request.source_table.config.settings
    return ApplySpec(
        keys=source_table.keys,
        mode=ApplyMode.MERGE,
        landing=Landing.STAGED,
        stored_as=source_table.stored_as,
        delete_where=settings.apply.apply_as_deletes,
        truncate_where=settings.apply.apply_as_truncates,
        deleted_column=settings.deleted_column,
        quarantine=quarantine_of(source_table) if settings.method is Method.QUERY else "",
        schema_changes=source_table.changes,
        previous_keys=before_columns(request.source, source_table.schema, source_table.keys, settings.order.previous_key),
    )


def staging_of(pipeline: Pipeline, table: TableName, op_seq: int, operation_id: str) -> str:
    """Returns an operation's folder in the staging area. No other operation has the same folder, even under the same number."""
    return f"{staging_root(pipeline, table)}/{op_seq}-{operation_id[:12]}"


def declared_names(request: TableRequest) -> tuple[str, ...]:
    """Returns all columns of a table that the pipeline file declares, () if the source is a database."""
    config = request.source_table.config
    return (
        request.source.schema(config.table, types=config.settings.types).names if request.source_table.pipeline.source.is_declared else ()
    )


def quarantine_of(source_table: SourceTable) -> str:
    """Returns the path of a table's quarantine, "" if the table stops at the first bad record instead."""
    settings, archive = source_table.config.settings, source_table.pipeline.archive
    chosen = (settings.order.bad_records, *((archive.bad_records,) if settings.method is Method.LOG else ()))
    return quarantine_path(source_table.pipeline, source_table.config.table) if OnBadRecord.QUARANTINE in chosen else ""


def with_current_quarantine(operation: Operation, source_table: SourceTable) -> Operation:
    """Returns a frozen operation that has landed nothing, with the current quarantine of its table."""
    if isinstance(operation.read, ArchiveRead):
        return replace(operation, read=ArchiveRead(batch=replace(operation.read.batch, quarantine=quarantine_of(source_table))))
    quarantine = quarantine_of(source_table) if source_table.config.settings.method is Method.QUERY else ""
    return replace(operation, apply=replace(operation.apply, quarantine=quarantine))


def _properties(pipeline: Pipeline, config: TableConfig) -> tuple[tuple[str, str], ...]:
    hours = max(int(config.settings.storage.maintenance.retention.total_seconds() // 3600), 1)
    defaults = {"delta.deletedFileRetentionDuration": f"interval {hours} hours"}
    if config.settings.history.change_feed or config.settings.history.event_history:
        defaults[CHANGE_FEED] = "true"
    if config.settings.history.event_history:
        defaults[EVENT_HISTORY] = history_root(pipeline, config.table)
    return tuple(sorted((defaults | dict(config.settings.storage.properties)).items()))


def draft_window(request: TableRequest, window: Window, kind: OperationKind) -> Draft:
    """Drafts the read of one window; the draft is idle if the window has no row."""
    read = window_read(request, window)
    return Draft(operations=(new_operation(request, kind, request.source.now(), read),)) if read else Draft(idle=f"no row in {window}")


def window_read(request: TableRequest, window: Window) -> WindowRead | None:
    """Returns how the rows of a window are read, None if it has none. Many rows are read over several connections."""
    where = request.source.window_predicate(request.source_table.cursor, window)
    rows = request.source.count(request.source_table.config.table, where, COUNT_LIMIT)
    if not rows:
        return None
    return WindowRead(window=window, slices=request.slices(where) if rows >= COUNT_LIMIT else (where,), expected_rows=rows)


def whole_landing(request: TableRequest) -> Landing:
    """Returns how a whole table lands: directly in Delta if its keys are unique and what is written can be looked at, else staged first.

    A Spark server lets nobody look at what was written before it is committed; and with `apply_as_deletes` fewer rows are written than
    were read, so that a count of them proves nothing. There rows are counted and looked at where they landed.
    """
    source_table = request.source_table
    shows_all = not (source_table.pipeline.spark.connect or source_table.config.settings.apply.apply_as_deletes)
    direct = has_unique_keys(request) and shows_all
    return Landing.DIRECT if direct else Landing.STAGED


def has_unique_keys(request: TableRequest) -> bool:
    """True if the primary key of a table guarantees that no key comes twice among its rows, and none is set aside."""
    return request.source_table.keys_are_primary and request.source_table.config.settings.order.bad_records is not OnBadRecord.QUARANTINE
