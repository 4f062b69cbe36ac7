"""Drafts of resyncs and backfills: keys, ranges, columns or all rows are read again. Queries the source, writes nothing."""

from dataclasses import replace

from cdc_ops.core.apply.apply_spec import ApplyMode, Landing
from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.merging.merge_plan import keys_condition
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.table_state import Phase
from cdc_ops.core.operation.reads import ChunkRead, KeysRead
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.schema_evolution import only_columns
from cdc_ops.errors import RequestError
from cdc_ops.steps.planning.log import draft_replay, position_after_resync
from cdc_ops.steps.planning.quarantine_retry import draft_quarantine_retry
from cdc_ops.steps.planning.request import Draft, TableRequest, draft_window, has_unique_keys, new_operation, whole_landing


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
            next=f"cdc-ops run --pipeline {request.source_table.config.pipeline} --table {request.table}   # completes the snapshot, which"
            " reads all rows anyway",
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
    if request.source_table.reads_changes:
        raise RequestError(
            f"Single columns of {request.table} cannot be filled: the rows at the source are changes, and several may have one key.",
            data="Nothing was read or written.",
            next="Remove --columns: cdc-ops then applies the changes of the range again, in their order.",
        )
    if not request.source_table.keys:
        raise RequestError(
            f"Single columns of {request.table} cannot be filled: it has no keys.",
            data="Nothing was read or written.",
            next="Nothing to do: a run replaces a table without keys as a whole when it differs.",
        )


def _range(request: TableRequest) -> Draft:
    run, source_table = request.run, request.source_table
    if not source_table.cursor.columns:
        by_events = source_table.config.settings.method is Method.LOG
        raise RequestError(
            f"Table {request.table} cannot be read by a range of time: "
            + ("its changes come from events, which have no cursor." if by_events else "it has no cursor."),
            data="Nothing was read or written.",
            next="Use resync mode 'keys' or 'full'; or cdc-ops reconcile, which reads the rows that differ."
            if by_events
            else "Nothing to do: every run compares the whole table.",
        )
    if not source_table.cursor.lead.type.is_temporal or run.since is None or run.until is None:
        raise RequestError(
            f"Table {request.table} cannot be read by a range of time: its cursor {source_table.cursor.lead.name!r} is a counter.",
            data="Nothing was read or written.",
            next="Use resync mode 'keys' or 'full'.",
        )
    low, high = (request.source.literal(source_table.schema, source_table.cursor, instant) for instant in (run.since, run.until))
    kind = OperationKind.BACKFILL if run.kind is RunKind.BACKFILL else OperationKind.RESYNC
    return draft_window(request, Window(low=low, high=high), kind)


def _columns(request: TableRequest) -> Draft:
    """Drafts the read of some columns, of a time range or of all rows in chunks. Only rows that the lake has are updated."""
    if request.run.since is not None:
        draft = _range(request)
        return replace(draft, operations=tuple(_partial(request, operation) for operation in draft.operations))
    source_table, planned_at = request.source_table, request.source.now()
    plan = request.source.chunks(source_table.schema, source_table.source_keys, request.chunk_size)
    reads = (ChunkRead(slices=request.limited(chunk.slices), expected_rows=chunk.rows) for chunk in plan.chunks)
    operations = (new_operation(request, OperationKind.BACKFILL, planned_at, read, ahead) for ahead, read in enumerate(reads))
    return Draft(operations=tuple(_partial(request, operation) for operation in operations), how=plan.how)


def _partial(request: TableRequest, operation: Operation) -> Operation:
    names = only_columns(operation.source.schema, request.run.columns).names
    order_columns = operation.apply.stored_as.sequence.read_columns if operation.apply.stored_as.sequence else ()
    read = (*operation.apply.keys, *operation.source_keys, *operation.source.cursor.column_names, *order_columns, *names)
    if operation.apply.deleted_column in request.run.columns:
        # Rows at the source exist, unless `apply_as_deletes` on any of their columns says otherwise.
        schema = operation.source.schema if operation.apply.delete_where else only_columns(operation.source.schema, read)
        return replace(
            operation,
            source=replace(operation.source, schema=schema),
            apply=replace(operation.apply, update_only=(*names, operation.apply.deleted_column)),
        )
    # Only existing rows are updated, so conditions that delete rows are not needed, and their columns are not read.
    return replace(
        operation,
        source=replace(operation.source, schema=only_columns(operation.source.schema, read), hidden=()),
        apply=replace(operation.apply, update_only=names, delete_where="", truncate_where=""),
    )


def _keys(request: TableRequest) -> Draft:
    source_table, rows, keys = request.source_table, request.run.keys, request.source_table.source_keys
    wrong = next((row for row in rows if len(row) != len(keys)), None)
    if wrong is not None:
        raise RequestError(
            f"Key {', '.join(wrong)!r} has {len(wrong)} parts; the keys of {request.table} are {', '.join(keys)}.",
            data="Nothing was read or written.",
            next="Give one value per key column, in that order.",
        )
    types = tuple(column.delta_type for key in keys if (column := source_table.schema.column(key)))
    read = KeysRead(slices=(request.source.keys_predicate(source_table.schema, keys, rows),), expected_rows=len(rows))
    operation = new_operation(request, OperationKind.RESYNC, request.source.now(), read)
    operation = replace(operation, apply=replace(operation.apply, delete_missing_where=keys_condition(keys, types, rows)))
    return Draft(operations=(operation,))


def _full(request: TableRequest) -> Draft:
    follows = request.source_table.config.settings.method is Method.LOG
    planned_at = request.source.now()
    read = ChunkRead(slices=request.slices(""), expected_rows=request.source_table.schema.approximate_rows)
    operation = new_operation(request, OperationKind.RESYNC, planned_at, read)
    # What was read is counted before it replaces a table: where it landed, or as files that no commit names yet. Deleted rows that the
    # lake keeps are not at the source, and are put among those that are.
    unique = request.source_table.config.settings.apply.deletes is Deletes.HARD and has_unique_keys(request)
    landing = whole_landing(request) if unique else Landing.STAGED
    operation = replace(
        operation,
        generation=request.state.generation + 1,
        after=replace(operation.after, archive=position_after_resync(request) if follows else request.state.progress.archive),
        apply=replace(operation.apply, mode=ApplyMode.OVERWRITE, landing=landing, unique_keys=unique, replaces_schema=True),
    )
    return Draft(operations=(operation,))
