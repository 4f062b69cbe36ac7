"""Drafts of operations: from a request, a table's state and what the source says, to frozen specs. Asks the source, writes nothing."""

from dataclasses import replace

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.held_watermark import hold_alert
from cdc_ops.core.cursor.windows import SafeBound, Window, fresh_instant, next_watermark, next_window
from cdc_ops.core.formats.catalog import facts_of, is_own_format
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.operation.merge_plan import keys_condition
from cdc_ops.core.operation.operation import ApplyMode, Landing, OperationKind, OperationSpec, SnapshotProgress
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.operation.table_state import Phase
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.pipeline import Method
from cdc_ops.core.schema.schema_evolution import only_columns
from cdc_ops.errors import RequestError
from cdc_ops.sources.declared import no_database
from cdc_ops.steps.planning.late_rows import look_again, seen_after, to_read
from cdc_ops.steps.planning.log import begins_with_snapshot, draft_log, draft_replay, reached_now, restarted
from cdc_ops.steps.planning.null_cursors import look_at_nulls, null_rows
from cdc_ops.steps.planning.quarantine_retry import draft_requeue
from cdc_ops.steps.planning.reconcile import draft_comparison, observed_bound
from cdc_ops.steps.planning.request import Draft, Order, new_spec
from cdc_ops.steps.planning.snapshot import pass_through, what_is_left

COUNT_LIMIT = 200_000
"""Rows that are counted exactly before a window is read; a window with more is read over several connections."""


def draft_operations(order: Order) -> Draft:
    """Drafts what a request means for a table in a given state.

    Raises:
        ConfigError, SourceTableError: see `_check_events`.
        RequestError: a backfill or resync of a table that has no snapshot yet, or what needs a database where there is none.
        SourceError: the source cannot answer, or its clock went back.
    """
    compared = not order.facts.cursor.columns
    if order.facts.pipeline.source.is_declared:
        _check_askable(order.request, order.table)
    if order.facts.config.settings.method is Method.LOG and order.request.kind is RunKind.INCREMENT:
        _check_events(order)
    match order.request.kind:
        case RunKind.RECONCILE:
            return draft_comparison(order)
        case RunKind.INCREMENT if begins_with_snapshot(order):
            begun = order.state.archive or reached_now(order)
            draft = _snapshot(order)
            return replace(draft, operations=tuple(replace(spec, archive_after=begun) for spec in draft.operations))
        case RunKind.INCREMENT if order.facts.config.settings.method is Method.LOG:
            return draft_log(order)
        case RunKind.INCREMENT if compared and order.state.watermark is not None:
            return draft_comparison(order)
        case RunKind.INCREMENT if order.state.watermark is not None:
            return _increment(order, order.state.watermark)
        case RunKind.INCREMENT:
            return _snapshot(order)
        case RunKind.BACKFILL | RunKind.RESYNC:
            return _reread(order)


def _check_events(order: Order) -> None:
    """Refuses what a format loses or cannot carry of a table, by the source's columns: before a lease is taken and Spark starts.

    Raises:
        ConfigError: there is no such format, or settings lose data that nobody accepted.
        SourceTableError: the format cannot carry a column.
    """
    chosen = order.facts.pipeline.archive.events
    if not is_own_format(chosen.name):  # which a job loads, and checks then
        check_format(facts_of(chosen.name), chosen, order.facts.schema, order.facts.source_keys)


def _check_askable(request: RunRequest, table: str) -> None:
    """Refuses what needs a database: all but runs, and resyncs that read what the lake or the archive has."""
    if request.kind is RunKind.RECONCILE:
        raise no_database(f"Table {table} cannot be compared with its source")
    if request.kind is RunKind.BACKFILL or request.mode in (ResyncMode.KEYS, ResyncMode.RANGE, ResyncMode.FULL):
        raise no_database(f"Rows of {table} cannot be read again")


def _snapshot(order: Order) -> Draft:
    facts, start, bound = order.facts, order.state.snapshot, None
    if start is None:
        bound = _first_bound(order)
        start = SnapshotProgress(bound=bound.value, done=0, total=0, started_at=bound.observed_at)
    planned_at = bound.observed_at if bound else order.source.now()
    plan = order.source.chunks(facts.schema, facts.source_keys, order.chunk_size, what_is_left(start))
    operations = []
    for ahead, (chunk, before, after) in enumerate(pass_through(start, plan.chunks)):
        spec = replace(
            new_spec(order, OperationKind.SNAPSHOT_CHUNK, planned_at, ahead=ahead),
            generation=order.state.generation if start.done else order.state.generation + 1,
            slices=order.limited(chunk.slices),
            expected_rows=chunk.rows,
            mode=ApplyMode.MERGE if facts.reads_changes else ApplyMode.APPEND,
            landing=_whole_landing(order),
            snapshot_before=before if before.done else None,
            watermark_after=None if after else start.bound,
            snapshot_after=after,
        )
        if bound:
            fresh_at = None if after else fresh_instant(facts.cursor, bound)
            spec = replace(spec, bound_method=bound.method, fresh_at=fresh_at)
        operations.append(spec)
    if bound is not None and facts.cursor.columns:
        seen = seen_after(order.source, facts, Window(low=None, high=bound.reach), bound.value)
        operations[-1] = replace(operations[-1], seen_after=seen, nulls_after=look_at_nulls(order.source, facts))
    warnings = (plan.warning,) if plan.warning else ()
    alert = hold_alert(bound, facts.config.settings.max_hold) if bound else ""
    return Draft(operations=tuple(operations), bound=bound, how=plan.how, warnings=warnings, alert=alert)


def _first_bound(order: Order) -> SafeBound:
    facts = order.facts
    if not facts.cursor.columns:
        return observed_bound(order.source)
    return order.source.safe_bound(facts.schema, facts.cursor, facts.config.settings.overlap, None, order.state.readings)


def _increment(order: Order, watermark: CursorValue) -> Draft:
    facts = order.facts
    bound = order.source.safe_bound(facts.schema, facts.cursor, facts.config.settings.overlap, watermark, order.state.readings)
    window, alert = next_window(facts.cursor, watermark, bound), hold_alert(bound, facts.config.settings.max_hold)
    if window is None:
        held = f"; held back by {bound.held_by}" if bound.held_by else ""
        return Draft(idle=f"the safe bound {bound.value} has not passed the watermark{held}", unpassed=bound, alert=alert)
    seen, after = order.state.seen, next_watermark(facts.cursor, watermark, bound)
    band = look_again(order.source, facts, watermark, seen)
    nulls = look_at_nulls(order.source, facts)
    draft = _with_nulls(order, _window(order, to_read(facts.cursor, window, band, seen), OperationKind.INCREMENT), nulls)
    if not draft.operations:
        return Draft(idle=f"no row in {window}", bound=bound, alert=alert)
    spec = replace(
        draft.operations[0],
        nulls_after=nulls,
        window=window,
        band=band,
        seen_after=seen_after(order.source, facts, window, after),
        watermark_after=after,
        bound_method=bound.method,
        fresh_at=fresh_instant(facts.cursor, bound),
    )
    return Draft(operations=(spec,), bound=bound, alert=alert)


def _with_nulls(order: Order, draft: Draft, nulls: str) -> Draft:
    """Adds the rows without a cursor to what an increment reads, if they are not as the last plan saw them."""
    rows = null_rows(nulls)
    if nulls == order.state.nulls or not rows:
        return draft
    spec = draft.operations[0] if draft.operations else new_spec(order, OperationKind.INCREMENT, order.source.now())
    slices = order.limited((*spec.slices, order.source.null_predicate(order.facts.cursor)))
    return Draft(operations=(replace(spec, slices=slices, with_nulls=True, expected_rows=spec.expected_rows + rows),))


def _reread(order: Order) -> Draft:
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


def _check_columns(order: Order) -> None:
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


def _range(order: Order) -> Draft:
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
    return _window(order, Window(low=low, high=high), kind)


def _columns(order: Order) -> Draft:
    """Reads some columns again, of a range of time or of all rows in chunks, for the rows that the lake has."""
    if order.request.since is not None:
        draft = _range(order)
        return replace(draft, operations=tuple(_partial(order, spec) for spec in draft.operations))
    facts, planned_at = order.facts, order.source.now()
    plan = order.source.chunks(facts.schema, facts.source_keys, order.chunk_size)
    specs = (new_spec(order, OperationKind.BACKFILL, planned_at, ahead=index) for index in range(len(plan.chunks)))
    operations = (
        replace(spec, slices=order.limited(chunk.slices), expected_rows=chunk.rows) for spec, chunk in zip(specs, plan.chunks, strict=True)
    )
    return Draft(operations=tuple(_partial(order, spec) for spec in operations), how=plan.how)


def _partial(order: Order, spec: OperationSpec) -> OperationSpec:
    names = only_columns(spec.schema, order.request.columns).names
    order_columns = spec.stored_as.sequence.read_columns if spec.stored_as.sequence else ()
    read = (*spec.keys, *spec.source_keys, *spec.cursor.column_names, *order_columns, *names)
    if spec.deleted_column in order.request.columns:
        # What the source has is living, unless a condition on any of its columns says otherwise.
        schema = spec.schema if spec.delete_where else only_columns(spec.schema, read)
        return replace(spec, schema=schema, update_only=(*names, spec.deleted_column))
    # Only rows that are there are touched, so nothing is to be deleted by a condition whose columns are not read.
    return replace(spec, schema=only_columns(spec.schema, read), update_only=names, delete_where="", truncate_where="", hidden=())


def _window(order: Order, window: Window, kind: OperationKind) -> Draft:
    where = order.source.window_predicate(order.facts.cursor, window)
    rows = order.source.count(order.facts.config.table, where, COUNT_LIMIT)
    if not rows:
        return Draft(idle=f"no row in {window}")
    slices = order.slices(where) if rows >= COUNT_LIMIT else (where,)
    spec = new_spec(order, kind, order.source.now())
    return Draft(operations=(replace(spec, window=window, slices=slices, expected_rows=rows),))


def _keys(order: Order) -> Draft:
    facts, rows, keys = order.facts, order.request.keys, order.facts.source_keys
    wrong = next((row for row in rows if len(row) != len(keys)), None)
    if wrong is not None:
        raise RequestError(
            f"Key {', '.join(wrong)!r} has {len(wrong)} parts; the keys of {order.table} are {', '.join(keys)}.",
            data="Nothing was read or written.",
            next="Give one value per key column, in that order.",
        )
    types = tuple(column.delta_type for key in keys if (column := facts.schema.column(key)))
    spec = replace(
        new_spec(order, OperationKind.RESYNC, order.source.now()),
        slices=(order.source.keys_predicate(facts.schema, keys, rows),),
        expected_rows=len(rows),
        delete_missing_where=keys_condition(keys, types, rows),
    )
    return Draft(operations=(spec,))


def _full(order: Order) -> Draft:
    follows = order.facts.config.settings.method is Method.LOG
    spec = replace(
        new_spec(order, OperationKind.RESYNC, order.source.now()),
        generation=order.state.generation + 1,
        slices=order.slices(""),
        expected_rows=order.facts.schema.approximate_rows,
        mode=ApplyMode.OVERWRITE,
        archive_after=restarted(order) if follows else order.state.archive,
        # What is kept of deleted rows is what the source has not: it has to be read once and for all.
        landing=_whole_landing(order) if order.facts.config.settings.deletes is Deletes.HARD else Landing.STAGED,
        replaces_schema=True,
    )
    return Draft(operations=(spec,))


def _whole_landing(order: Order) -> Landing:
    """Whole tables go straight to Delta where the primary key vouches for unique keys; else they are landed and checked first."""
    checked = order.facts.config.settings.bad_records is OnBadRecord.QUARANTINE
    return Landing.DIRECT if order.facts.keys_are_primary and not checked else Landing.STAGED
