"""Drafts of resyncs and backfills: keys, ranges, columns or everything, read again. Asks the source, writes nothing."""

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
from cdc_ops.steps.planning.log import draft_replay, restarted
from cdc_ops.steps.planning.quarantine_retry import draft_requeue
from cdc_ops.steps.planning.request import Draft, TableRequest, draft_window, new_operation, whole_landing


def draft_reread(order: TableRequest) -> Draft:
    """Drafts a backfill or resync: what is asked for is read again, and the watermark stays.

    Raises:
        RequestError: the table has no complete snapshot yet, or cannot be read in the way that is asked for.
        SourceError: the source cannot answer.
    """
    request = order.request
    if order.state.phase is not Phase.READY:
        raise RequestError(
            f"Table {order.table} cannot be read again: its first snapshot is not complete.",
            why=f"It is in phase '{order.state.phase}'.",
            data="Nothing was read or written.",
            next="Let a scheduled run finish the snapshot first: it reads everything anyway.",
        )
    if request.mode is ResyncMode.FULL:
        return _full(order)
    if request.mode is ResyncMode.REPLAY:
        return draft_replay(order)
    if request.mode is ResyncMode.QUARANTINE:
        return draft_requeue(order)
    if request.mode is ResyncMode.KEYS:
        return _keys(order)
    if request.columns:
        _check_columns(order)
        return _columns(order)
    return _range(order)


def _check_columns(order: TableRequest) -> None:
    if order.facts.reads_changes:
        raise RequestError(
            f"Single columns of {order.table} cannot be filled: the rows at the source are changes, and several may have one key.",
            data="Nothing was read or written.",
            next="Leave --columns out: the changes of the range are applied again, by their order.",
        )
    if not order.facts.keys:
        raise RequestError(
            f"Single columns of {order.table} cannot be filled: it has no keys.",
            data="Nothing was read or written.",
            next="Nothing has to be done for it: a table without keys is replaced as a whole when it differs.",
        )


def _range(order: TableRequest) -> Draft:
    request, facts = order.request, order.facts
    if not facts.cursor.columns:
        by_events = facts.config.settings.method is Method.LOG
        raise RequestError(
            f"Table {order.table} cannot be read by a range of time: it has no cursor.",
            data="Nothing was read or written.",
            next="Use resync mode 'keys' or 'full'; or cdc-ops reconcile, which reads what differs."
            if by_events
            else "Nothing has to be done for it: every run compares the whole table.",
        )
    if not facts.cursor.lead.type.is_temporal or request.since is None or request.until is None:
        raise RequestError(
            f"Table {order.table} cannot be read by a range of time: its cursor {facts.cursor.lead.name!r} is a counter.",
            data="Nothing was read or written.",
            next="Use resync mode 'keys' or 'full'.",
        )
    low, high = (order.source.literal(facts.schema, facts.cursor, instant) for instant in (request.since, request.until))
    kind = OperationKind.BACKFILL if request.kind is RunKind.BACKFILL else OperationKind.RESYNC
    return draft_window(order, Window(low=low, high=high), kind)


def _columns(order: TableRequest) -> Draft:
    """Reads some columns again, of a range of time or of all rows in chunks, for the rows that the lake has."""
    if order.request.since is not None:
        draft = _range(order)
        return replace(draft, operations=tuple(_partial(order, spec) for spec in draft.operations))
    facts, planned_at = order.facts, order.source.now()
    plan = order.source.chunks(facts.schema, facts.source_keys, order.chunk_size)
    reads = (ChunkRead(slices=order.limited(chunk.slices), expected_rows=chunk.rows) for chunk in plan.chunks)
    operations = (new_operation(order, OperationKind.BACKFILL, planned_at, read, ahead) for ahead, read in enumerate(reads))
    return Draft(operations=tuple(_partial(order, spec) for spec in operations), how=plan.how)


def _partial(order: TableRequest, spec: Operation) -> Operation:
    names = only_columns(spec.source.schema, order.request.columns).names
    order_columns = spec.apply.stored_as.sequence.read_columns if spec.apply.stored_as.sequence else ()
    read = (*spec.apply.keys, *spec.source_keys, *spec.source.cursor.column_names, *order_columns, *names)
    if spec.apply.deleted_column in order.request.columns:
        # What the source has is living, unless a condition on any of its columns says otherwise.
        schema = spec.source.schema if spec.apply.delete_where else only_columns(spec.source.schema, read)
        return replace(
            spec,
            source=replace(spec.source, schema=schema),
            apply=replace(spec.apply, update_only=(*names, spec.apply.deleted_column)),
        )
    # Only rows that are there are touched, so nothing is to be deleted by a condition whose columns are not read.
    return replace(
        spec,
        source=replace(spec.source, schema=only_columns(spec.source.schema, read), hidden=()),
        apply=replace(spec.apply, update_only=names, delete_where="", truncate_where=""),
    )


def _keys(order: TableRequest) -> Draft:
    facts, rows, keys = order.facts, order.request.keys, order.facts.source_keys
    wrong = next((row for row in rows if len(row) != len(keys)), None)
    if wrong is not None:
        raise RequestError(
            f"Key {', '.join(wrong)!r} has {len(wrong)} parts; the keys of {order.table} are {', '.join(keys)}.",
            data="Nothing was read or written.",
            next="Give one value per key column, in that order.",
        )
    types = tuple(column.delta_type for key in keys if (column := facts.schema.column(key)))
    read = KeysRead(slices=(order.source.keys_predicate(facts.schema, keys, rows),), expected_rows=len(rows))
    spec = new_operation(order, OperationKind.RESYNC, order.source.now(), read)
    spec = replace(spec, apply=replace(spec.apply, delete_missing_where=keys_condition(keys, types, rows)))
    return Draft(operations=(spec,))


def _full(order: TableRequest) -> Draft:
    follows = order.facts.config.settings.method is Method.LOG
    planned_at = order.source.now()
    read = ChunkRead(slices=order.slices(""), expected_rows=order.facts.schema.approximate_rows)
    spec = new_operation(order, OperationKind.RESYNC, planned_at, read)
    # What is kept of deleted rows is what the source has not: it has to be read once and for all.
    landing = whole_landing(order) if order.facts.config.settings.apply.deletes is Deletes.HARD else Landing.STAGED
    spec = replace(
        spec,
        generation=order.state.generation + 1,
        after=replace(spec.after, archive=restarted(order) if follows else order.state.progress.archive),
        apply=replace(spec.apply, mode=ApplyMode.OVERWRITE, landing=landing, replaces_schema=True),
    )
    return Draft(operations=(spec,))
