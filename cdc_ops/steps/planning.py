"""Drafts of operations: from a request, a table's state and what the source says, to frozen specs. Asks the source, writes nothing."""

import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cdc_ops.core.cursors import Cursor, CursorValue, parse_datetime
from cdc_ops.core.merging import keys_condition
from cdc_ops.core.operations import ApplyMode, Landing, OperationKind, OperationSpec, SnapshotProgress
from cdc_ops.core.pipeline import Pipeline, TableConfig
from cdc_ops.core.requests import ResyncMode, RunKind, RunRequest
from cdc_ops.core.runs import Phase, TableState
from cdc_ops.core.tables import TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.core.windows import SafeBound, Window, next_window
from cdc_ops.errors import RequestError, SourceTableError
from cdc_ops.sources.base import Source

COUNT_LIMIT = 200_000
"""Rows that are counted exactly before a window is read; a window with more is read over several connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What the source says of a table at the plan, checked against its settings."""

    pipeline: Pipeline
    config: TableConfig
    schema: TableSchema
    keys: tuple[str, ...]
    cursor: Cursor
    warnings: tuple[str, ...]

    @property
    def keys_are_primary(self) -> bool:
        """True if the source itself guarantees that keys are unique and not NULL."""
        return tuple(key.lower() for key in self.keys) == tuple(key.lower() for key in self.schema.primary_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Operations to freeze, or why there are none, and the bound that was taken."""

    operations: tuple[OperationSpec, ...] = ()
    idle: str = ""
    bound: SafeBound | None = None


def read_facts(pipeline: Pipeline, source: Source, config: TableConfig) -> TableFacts:
    """Reads a table's schema and checks keys and cursor.

    Raises:
        SourceTableError: there is no usable key or cursor.
    """
    settings = config.settings
    schema = source.schema(config.table, columns=settings.columns, except_columns=settings.except_column_list)
    keys = _checked_keys(config, schema)
    if not settings.cursor:
        raise SourceTableError(
            f"Table {config.table} has no cursor.",
            why="The query method reads what changed since the last run by a timestamp or an auto-increment column.",
            data="Nothing was read; the watermark stays.",
            next="Name it in the pipeline file: 'cursor: updated_at' or 'cursor: [updated_at, id]'.",
        )
    cursor, warnings = source.cursor(schema, settings.cursor)
    return TableFacts(pipeline=pipeline, config=config, schema=schema, keys=keys, cursor=cursor, warnings=warnings)


def draft_operations(source: Source, request: RunRequest, facts: TableFacts, state: TableState) -> Draft:
    """Drafts what a request means for a table in a given state.

    Raises:
        RequestError: a backfill or resync of a table that has no snapshot yet.
        SourceError: the source cannot answer, or its clock went back.
    """
    match request.kind:
        case RunKind.INCREMENT if state.watermark is not None:
            return _increment(source, request, facts, state, state.watermark)
        case RunKind.INCREMENT:
            return _snapshot(source, request, facts, state)
        case RunKind.BACKFILL | RunKind.RESYNC:
            return _reread(source, request, facts, state)


def _snapshot(source: Source, request: RunRequest, facts: TableFacts, state: TableState) -> Draft:
    progress, bound = state.snapshot, None
    if progress is None:
        bound = source.safe_bound(facts.schema, facts.cursor, facts.config.settings.overlap, None)
        chunks = source.chunks(facts.schema, facts.keys, facts.config.settings.chunk_rows)
        progress = SnapshotProgress(bound=bound.value, done=0, total=len(chunks), chunks=chunks)
    rows = facts.schema.approximate_rows // max(progress.total, 1)
    operations = []
    for index in range(progress.done, progress.total):
        last = index + 1 == progress.total
        spec = _spec(request, facts, state, OperationKind.SNAPSHOT_CHUNK, ahead=index - progress.done)
        operations.append(
            replace(
                spec,
                planned_at=bound.observed_at if bound else source.now(),
                generation=state.generation if progress.done else state.generation + 1,
                slices=source.slices(facts.schema, facts.keys, progress.chunks[index], facts.config.settings.readers),
                expected_rows=rows,
                mode=ApplyMode.APPEND,
                landing=Landing.DIRECT if facts.keys_are_primary else Landing.STAGED,
                watermark_after=progress.bound if last else None,
                snapshot_after=None if last else replace(progress, done=index + 1),
                bound_method=bound.method if bound else "",
                fresh_at=fresh_instant(facts.cursor, bound) if bound and last else None,
            )
        )
    return Draft(operations=tuple(operations), bound=bound)


def _increment(source: Source, request: RunRequest, facts: TableFacts, state: TableState, watermark: CursorValue) -> Draft:
    bound = source.safe_bound(facts.schema, facts.cursor, facts.config.settings.overlap, watermark)
    window = next_window(facts.cursor, watermark, bound)
    if window is None:
        held = f"; held back by {bound.held_by}" if bound.held_by else ""
        return Draft(idle=f"the safe bound {bound.value} has not passed the watermark{held}")
    draft = _window(source, request, facts, state, window, OperationKind.INCREMENT)
    if not draft.operations:
        return replace(draft, bound=bound)
    spec = replace(
        draft.operations[0],
        watermark_after=bound.value,
        bound_method=bound.method,
        planned_at=bound.observed_at,
        fresh_at=fresh_instant(facts.cursor, bound),
    )
    return Draft(operations=(spec,), bound=bound)


def _reread(source: Source, request: RunRequest, facts: TableFacts, state: TableState) -> Draft:
    if state.phase is not Phase.READY:
        raise RequestError(
            f"Table {facts.config.table} cannot be read again: its first snapshot is not complete.",
            why=f"It is in phase '{state.phase}'.",
            data="Nothing was read or written.",
            next="Let a scheduled run finish the snapshot first: it reads everything anyway.",
        )
    if request.mode is ResyncMode.FULL:
        return _full(source, request, facts, state)
    kind = OperationKind.BACKFILL if request.kind is RunKind.BACKFILL else OperationKind.RESYNC
    if request.mode is ResyncMode.KEYS:
        return _keys(source, request, facts, state)
    if not facts.cursor.lead.type.is_temporal or request.since is None or request.until is None:
        raise RequestError(
            f"Table {facts.config.table} cannot be read by a range of time: its cursor {facts.cursor.lead.name!r} is a counter.",
            data="Nothing was read or written.",
            next="Use --mode keys or --mode full.",
        )
    low, high = (source.literal(facts.schema, facts.cursor, instant) for instant in (request.since, request.until))
    return _window(source, request, facts, state, Window(low=low, high=high), kind)


def _window(
    source: Source, request: RunRequest, facts: TableFacts, state: TableState, window: Window, kind: OperationKind
) -> Draft:
    where = source.window_predicate(facts.cursor, window)
    rows = source.count(facts.config.table, where, COUNT_LIMIT)
    if not rows:
        return Draft(idle=f"no row in {window}")
    parts = facts.config.settings.readers if rows >= COUNT_LIMIT else 1
    slices = source.slices(facts.schema, facts.keys, where, parts) if parts > 1 else (where,)
    spec = _spec(request, facts, state, kind)
    return Draft(operations=(replace(spec, planned_at=source.now(), window=window, slices=slices, expected_rows=rows),))


def _keys(source: Source, request: RunRequest, facts: TableFacts, state: TableState) -> Draft:
    wrong = next((row for row in request.keys if len(row) != len(facts.keys)), None)
    if wrong is not None:
        raise RequestError(
            f"Key {', '.join(wrong)!r} has {len(wrong)} parts; the keys of {facts.config.table} are {', '.join(facts.keys)}.",
            data="Nothing was read or written.",
            next="Give one value per key column, in that order.",
        )
    types = tuple(column.delta_type for key in facts.keys if (column := facts.schema.column(key)))
    spec = _spec(request, facts, state, OperationKind.RESYNC)
    where = source.keys_predicate(facts.schema, facts.keys, request.keys)
    return Draft(
        operations=(
            replace(
                spec,
                planned_at=source.now(),
                slices=(where,),
                expected_rows=len(request.keys),
                delete_missing_where=keys_condition(facts.keys, types, request.keys),
            ),
        )
    )


def _full(source: Source, request: RunRequest, facts: TableFacts, state: TableState) -> Draft:
    spec = _spec(request, facts, state, OperationKind.RESYNC)
    return Draft(
        operations=(
            replace(
                spec,
                planned_at=source.now(),
                generation=state.generation + 1,
                slices=source.slices(facts.schema, facts.keys, "", facts.config.settings.readers),
                expected_rows=facts.schema.approximate_rows,
                mode=ApplyMode.OVERWRITE,
                landing=Landing.DIRECT if facts.keys_are_primary else Landing.STAGED,
            ),
        )
    )


def _spec(request: RunRequest, facts: TableFacts, state: TableState, kind: OperationKind, ahead: int = 0) -> OperationSpec:
    """A spec with what all kinds share: a staged MERGE that leaves the watermark where it is."""
    config, identity = facts.config, uuid.uuid4().hex
    op_seq = state.op_seq + 1 + ahead
    return OperationSpec(
        pipeline=config.pipeline,
        table=config.table,
        op_seq=op_seq,
        operation_id=identity,
        run_id=request.run_id,
        kind=kind,
        generation=state.generation,
        planned_at=datetime.min,
        path=config.path,
        staging=f"{facts.pipeline.target.staging.rstrip('/')}/{config.pipeline}/{config.table}/{op_seq}-{identity[:12]}",
        schema=facts.schema,
        keys=facts.keys,
        cursor=facts.cursor,
        slices=(),
        mode=ApplyMode.MERGE,
        landing=Landing.STAGED,
        watermark_after=state.watermark,
        snapshot_after=state.snapshot,
        properties=_properties(config),
    )


def _properties(config: TableConfig) -> tuple[tuple[str, str], ...]:
    hours = max(int(config.settings.maintenance.retention.total_seconds() // 3600), 1)
    defaults = {"delta.deletedFileRetentionDuration": f"interval {hours} hours"}
    return tuple(sorted((defaults | dict(config.settings.properties)).items()))


def _checked_keys(config: TableConfig, schema: TableSchema) -> tuple[str, ...]:
    wanted = config.settings.keys or schema.primary_key
    if not wanted:
        raise SourceTableError(
            f"Table {config.table} has no primary key.",
            why="Without a key a changed row cannot be told from a new one.",
            data="Nothing was read; the watermark stays.",
            next="Name the columns that identify a row: 'keys: [id]' in the pipeline file.",
        )
    found = []
    for name in wanted:
        column = schema.column(name)
        if column is None:
            raise SourceTableError(
                f"Table {config.table} has no key column {name!r}.",
                why=did_you_mean(name, (column.name for column in schema.columns)),
                data="Nothing was read; the watermark stays.",
                next="Correct 'keys' in the pipeline file; key columns cannot be left out of 'columns'.",
            )
        found.append(column.name)
    return tuple(found)


def fresh_instant(cursor: Cursor, bound: SafeBound) -> datetime:
    """Returns the instant (UTC) up to which a table is complete once everything below the bound is in it."""
    if not cursor.lead.type.is_temporal:
        return bound.observed_at
    behind = parse_datetime(bound.clock.parts[0]) - parse_datetime(bound.value.parts[0])
    return bound.observed_at - max(behind, timedelta(0))
