"""Drafts of resyncs and backfills: keys, ranges, columns or all rows are read again. Queries the source, writes nothing."""

from dataclasses import replace

from cdc_ops.core.apply.apply_spec import ApplyMode, Landing
from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.merge_plan import keys_condition
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.reads import ChunkRead, KeysRead
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.operation.table_state import Phase
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.schema_evolution import only_columns
from cdc_ops.errors import RequestError
from cdc_ops.steps.planning.log import draft_replay, position_after_resync
from cdc_ops.steps.planning.quarantine_retry import draft_quarantine_retry
from cdc_ops.steps.planning.request import Draft, TableRequest, draft_window, new_operation, whole_landing


def draft_reread(request: TableRequest) -> Draft:
    """Drafts a backfill or resync: the requested rows are read again, and the watermark stays.

    Raises:
        RequestError: the table has no complete snapshot yet, or cannot be read in the requested way.
        SourceError: the source cannot answer.
    """
    run = request.run
    if request.state.phase is not Phase.READY:
        raise RequestError(
            f"Table {request.table} cannot be read again: its first snapshot is not complete.",
            why=f"It is in phase '{request.state.phase}'.",
            data="Nothing was read or written.",
            next="Let a scheduled run complete the snapshot first: it reads all rows anyway.",
        )
    if run.mode is ResyncMode.FULL:
        return _full(request)
    if run.mode is ResyncMode.REPLAY:
        return draft_replay(request)
    if run.mode is ResyncMode.QUARANTINE:
        return draft_quarantine_retry(request)
    if run.mode is ResyncMode.KEYS:
        return _keys(request)
    if run.columns:
        _check_columns(request)
        return _columns(request)
    return _range(request)


def _check_columns(request: TableRequest) -> None:
    if request.facts.reads_changes:
        raise RequestError(
            f"Single columns of {request.table} cannot be filled: the rows at the source are changes, and several may have one key.",
            data="Nothing was read or written.",
            next="Remove --columns: cdc-ops then applies the changes of the range again, in their order.",
        )
    if not request.facts.keys:
        raise RequestError(
            f"Single columns of {request.table} cannot be filled: it has no keys.",
            data="Nothing was read or written.",
            next="Nothing to do: a run replaces a table without keys as a whole when it differs.",
        )


def _range(request: TableRequest) -> Draft:
    run, facts = request.run, request.facts
    if not facts.cursor.columns:
        by_events = facts.config.settings.method is Method.LOG
        raise RequestError(
            f"Table {request.table} cannot be read by a range of time: it has no cursor.",
            data="Nothing was read or written.",
            next="Use resync mode 'keys' or 'full'; or cdc-ops reconcile, which reads the rows that differ."
            if by_events
            else "Nothing to do: every run compares the whole table.",
        )
    if not facts.cursor.lead.type.is_temporal or run.since is None or run.until is None:
        raise RequestError(
            f"Table {request.table} cannot be read by a range of time: its cursor {facts.cursor.lead.name!r} is a counter.",
            data="Nothing was read or written.",
            next="Use resync mode 'keys' or 'full'.",
        )
    low, high = (request.source.literal(facts.schema, facts.cursor, instant) for instant in (run.since, run.until))
    kind = OperationKind.BACKFILL if run.kind is RunKind.BACKFILL else OperationKind.RESYNC
    return draft_window(request, Window(low=low, high=high), kind)


def _columns(request: TableRequest) -> Draft:
    """Drafts the read of some columns, of a time range or of all rows in chunks. Only rows that the lake has are updated."""
    if request.run.since is not None:
        draft = _range(request)
        return replace(draft, operations=tuple(_partial(request, spec) for spec in draft.operations))
    facts, planned_at = request.facts, request.source.now()
    plan = request.source.chunks(facts.schema, facts.source_keys, request.chunk_size)
    reads = (ChunkRead(slices=request.limited(chunk.slices), expected_rows=chunk.rows) for chunk in plan.chunks)
    operations = (new_operation(request, OperationKind.BACKFILL, planned_at, read, ahead) for ahead, read in enumerate(reads))
    return Draft(operations=tuple(_partial(request, spec) for spec in operations), how=plan.how)


def _partial(request: TableRequest, spec: Operation) -> Operation:
    names = only_columns(spec.source.schema, request.run.columns).names
    order_columns = spec.apply.stored_as.sequence.read_columns if spec.apply.stored_as.sequence else ()
    read = (*spec.apply.keys, *spec.source_keys, *spec.source.cursor.column_names, *order_columns, *names)
    if spec.apply.deleted_column in request.run.columns:
        # Rows at the source exist, unless `apply_as_deletes` on any of their columns says otherwise.
        schema = spec.source.schema if spec.apply.delete_where else only_columns(spec.source.schema, read)
        return replace(
            spec,
            source=replace(spec.source, schema=schema),
            apply=replace(spec.apply, update_only=(*names, spec.apply.deleted_column)),
        )
    # Only existing rows are updated, so conditions that delete rows are not needed, and their columns are not read.
    return replace(
        spec,
        source=replace(spec.source, schema=only_columns(spec.source.schema, read), hidden=()),
        apply=replace(spec.apply, update_only=names, delete_where="", truncate_where=""),
    )


def _keys(request: TableRequest) -> Draft:
    facts, rows, keys = request.facts, request.run.keys, request.facts.source_keys
    wrong = next((row for row in rows if len(row) != len(keys)), None)
    if wrong is not None:
        raise RequestError(
            f"Key {', '.join(wrong)!r} has {len(wrong)} parts; the keys of {request.table} are {', '.join(keys)}.",
            data="Nothing was read or written.",
            next="Give one value per key column, in that order.",
        )
    types = tuple(column.delta_type for key in keys if (column := facts.schema.column(key)))
    read = KeysRead(slices=(request.source.keys_predicate(facts.schema, keys, rows),), expected_rows=len(rows))
    spec = new_operation(request, OperationKind.RESYNC, request.source.now(), read)
    spec = replace(spec, apply=replace(spec.apply, delete_missing_where=keys_condition(keys, types, rows)))
    return Draft(operations=(spec,))


def _full(request: TableRequest) -> Draft:
    follows = request.facts.config.settings.method is Method.LOG
    planned_at = request.source.now()
    read = ChunkRead(slices=request.slices(""), expected_rows=request.facts.schema.approximate_rows)
    spec = new_operation(request, OperationKind.RESYNC, planned_at, read)
    # Deleted rows that the lake keeps are not at the source, so the source is read completely before the table is replaced.
    landing = whole_landing(request) if request.facts.config.settings.apply.deletes is Deletes.HARD else Landing.STAGED
    spec = replace(
        spec,
        generation=request.state.generation + 1,
        after=replace(spec.after, archive=position_after_resync(request) if follows else request.state.progress.archive),
        apply=replace(spec.apply, mode=ApplyMode.OVERWRITE, landing=landing, replaces_schema=True),
    )
    return Draft(operations=(spec,))
