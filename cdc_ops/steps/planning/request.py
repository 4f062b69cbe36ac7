"""What a draft is made from, and what it becomes: facts of a table at the source, an order, operations. Asks the source, writes nothing."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from cdc_ops.core.apply.apply_spec import ApplyMode, ApplySpec, Landing
from cdc_ops.core.archive.completeness import MissingEvents
from cdc_ops.core.cursor.windows import SafeBound, Window
from cdc_ops.core.events.event_history import EVENT_HISTORY
from cdc_ops.core.operation.change_range import CHANGE_FEED
from cdc_ops.core.operation.operation import Operation, OperationKind, SourceColumns, Target
from cdc_ops.core.operation.reads import ArchiveRead, Read, WindowRead
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.operation.table_state import TableState
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.paths import history_root, quarantine_path, staging_root
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError
from cdc_ops.sources.base import Source
from cdc_ops.sources.chunks.chunks import ChunkSize
from cdc_ops.state.base import StateReader
from cdc_ops.steps.archive.scan import ArchiveScan
from cdc_ops.steps.query.connection_limit import at_most
from cdc_ops.steps.table.previous_keys import before_columns
from cdc_ops.steps.table.source_table import SourceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRequest:
    """A request for one table, with all that is needed to draft it.

    Args:
        source: Open source.
        request: What is asked for.
        facts: What the source says of the table.
        state: Where the table stands.
        ledger: What is known of its archive.
        tables: Returns all tables that the source has.
    """

    source: Source
    request: RunRequest
    facts: SourceTable
    state: TableState
    ledger: StateReader
    tables: Callable[[], tuple[TableName, ...]]

    @property
    def table(self) -> str:
        """The table's name, for messages."""
        return str(self.facts.config.table)

    def slices(self, where: str) -> tuple[str, ...]:
        """Cuts what matches among the table's readers."""
        return self.limited(self.source.slices(self.facts.schema, self.facts.source_keys, where, self.readers))

    def limited(self, slices: tuple[str, ...]) -> tuple[str, ...]:
        """Returns the slices, joined where there are more than the source allows connections."""
        return at_most(slices, self.source.config.max_connections)

    @property
    def readers(self) -> int:
        """Connections at the same time: the table's, but not more than the source allows."""
        wanted, most = self.facts.config.settings.load.parallelism, self.source.config.max_connections
        return min(wanted, most) if most else wanted

    @property
    def chunk_size(self) -> ChunkSize:
        """How large an operation on the whole table may be."""
        settings = self.facts.config.settings
        return ChunkSize(rows=settings.load.chunk_rows, bytes=settings.load.chunk_bytes, readers=self.readers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Operations to freeze, or why there are none, and the bound that was taken.

    Args:
        operations: In order.
        idle: Why there are none.
        bound: The bound.
        unpassed: The bound instead, if it has not passed the watermark: what it warns of, and keeps, is worth having all the same.
        how: How the table was cut into operations, or which files of an archive wait, "" if there is nothing to say.
        warnings: What makes the read slow, each with its fix.
        alert: What is to be said of a writer that has held the bound back for too long, or of a gap that is healed.
        missing: What an archive misses behind the files that are read; None if nothing.
        survey: What was seen of the table's archive, for the ledger.
        stopped: Why the table cannot go on, although what was seen is worth keeping.
    """

    operations: tuple[Operation, ...] = ()
    idle: str = ""
    bound: SafeBound | None = None
    unpassed: SafeBound | None = None
    how: str = ""
    warnings: tuple[str, ...] = ()
    alert: str = ""
    missing: MissingEvents | None = None
    survey: ArchiveScan | None = None
    stopped: CdcError | None = None


def new_operation(order: TableRequest, kind: OperationKind, planned_at: datetime, read: Read, ahead: int = 0) -> Operation:
    """Returns an operation with what all kinds share: a staged MERGE that leaves the watermark where it is."""
    facts, state, config, identity = order.facts, order.state, order.facts.config, uuid.uuid4().hex
    op_seq = state.op_seq + 1 + ahead
    return Operation(
        pipeline=config.pipeline,
        table=config.table,
        op_seq=op_seq,
        operation_id=identity,
        run_id=order.request.run_id,
        kind=kind,
        generation=state.generation,
        planned_at=planned_at,
        target=Target(
            path=config.path,
            staging=staging_of(facts.pipeline, config.table, op_seq, identity),
            properties=_properties(facts.pipeline, config),
            version=state.delta_version,
        ),
        source=SourceColumns(schema=facts.schema, cursor=facts.cursor, hidden=facts.hidden, fingerprint=facts.fingerprint),
        before=state.progress.position,
        after=state.progress.position,
        apply=_apply_spec(order),
        read=read,
    )


def _apply_spec(order: TableRequest) -> ApplySpec:
    """Returns what the settings of a table make of its rows."""
    facts, settings = order.facts, order.facts.config.settings
    return ApplySpec(
        keys=facts.keys,
        mode=ApplyMode.MERGE,
        landing=Landing.STAGED,
        stored_as=facts.stored_as,
        delete_where=settings.apply.apply_as_deletes,
        truncate_where=settings.apply.apply_as_truncates,
        deleted_column=settings.deleted_column,
        quarantine=quarantine_of(facts) if settings.method is Method.QUERY else "",
        schema_changes=facts.changes,
        previous_keys=before_columns(order.source, facts.schema, facts.keys, settings.order.previous_key),
    )


def staging_of(pipeline: Pipeline, table: TableName, op_seq: int, operation_id: str) -> str:
    """Returns an operation's own folder in the staging area: no other operation has it, whatever number that draws."""
    return f"{staging_root(pipeline, table)}/{op_seq}-{operation_id[:12]}"


def declared_names(order: TableRequest) -> tuple[str, ...]:
    """Returns all columns that the pipeline file declares of a table, () where a source is asked for them."""
    config = order.facts.config
    return order.source.schema(config.table, types=config.settings.types).names if order.facts.pipeline.source.is_declared else ()


def quarantine_of(facts: SourceTable) -> str:
    """Returns the Delta table of what cannot be read or placed of a table, "" if it stops at the first."""
    settings, archive = facts.config.settings, facts.pipeline.archive
    chosen = (settings.order.bad_records, *((archive.bad_records,) if settings.method is Method.LOG else ()))
    return quarantine_path(facts.pipeline, facts.config.table) if OnBadRecord.QUARANTINE in chosen else ""


def choosing_quarantine(spec: Operation, facts: SourceTable) -> Operation:
    """Returns a frozen operation, not landed, with the quarantine that its table has now."""
    if isinstance(spec.read, ArchiveRead):
        return replace(spec, read=ArchiveRead(batch=replace(spec.read.batch, quarantine=quarantine_of(facts))))
    quarantine = quarantine_of(facts) if facts.config.settings.method is Method.QUERY else ""
    return replace(spec, apply=replace(spec.apply, quarantine=quarantine))


def _properties(pipeline: Pipeline, config: TableConfig) -> tuple[tuple[str, str], ...]:
    hours = max(int(config.settings.upkeep.maintenance.retention.total_seconds() // 3600), 1)
    defaults = {"delta.deletedFileRetentionDuration": f"interval {hours} hours"}
    if config.settings.history.change_feed or config.settings.history.event_history:
        defaults[CHANGE_FEED] = "true"
    if config.settings.history.event_history:
        defaults[EVENT_HISTORY] = history_root(pipeline, config.table)
    return tuple(sorted((defaults | dict(config.settings.upkeep.properties)).items()))


COUNT_LIMIT = 200_000
"""Rows that are counted exactly before a window is read; a window with more is read over several connections."""


def draft_window(order: TableRequest, window: Window, kind: OperationKind) -> Draft:
    """Drafts the read of one window, over several connections where it has many rows; it is idle if it has none."""
    read = window_read(order, window)
    return Draft(operations=(new_operation(order, kind, order.source.now(), read),)) if read else Draft(idle=f"no row in {window}")


def window_read(order: TableRequest, window: Window) -> WindowRead | None:
    """Returns how the rows of a window are read, None if it has none."""
    where = order.source.window_predicate(order.facts.cursor, window)
    rows = order.source.count(order.facts.config.table, where, COUNT_LIMIT)
    if not rows:
        return None
    return WindowRead(window=window, slices=order.slices(where) if rows >= COUNT_LIMIT else (where,), expected_rows=rows)


def whole_landing(order: TableRequest) -> Landing:
    """Whole tables go straight to Delta where the primary key vouches for unique keys; else they are landed and checked first."""
    checked = order.facts.config.settings.order.bad_records is OnBadRecord.QUARANTINE
    return Landing.DIRECT if order.facts.keys_are_primary and not checked else Landing.STAGED
