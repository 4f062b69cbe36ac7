"""Drafts of increments: the next window, with late rows and rows whose cursor is NULL. Asks the source, writes nothing."""

from dataclasses import replace

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.held_watermark import long_transaction_alert
from cdc_ops.core.cursor.windows import fresh_instant, next_watermark, next_window
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.steps.planning.late_rows import look_again, seen_after, to_read
from cdc_ops.steps.planning.null_cursors import look_at_nulls, null_rows
from cdc_ops.steps.planning.request import Draft, TableRequest, draft_window, new_spec


def draft_increment(order: TableRequest, watermark: CursorValue) -> Draft:
    """Drafts the next window of a table: from its watermark up to a new safe bound, and what is looked at again below it.

    Raises:
        SourceError: the source cannot answer, or its clock went back.
    """
    facts = order.facts
    bound = order.source.safe_bound(facts.schema, facts.cursor, facts.config.settings.lookback, watermark, order.state.readings)
    window, alert = next_window(facts.cursor, watermark, bound), long_transaction_alert(bound, facts.config.settings.long_transaction_alert)
    if window is None:
        held = f"; held back by {bound.held_by}" if bound.held_by else ""
        return Draft(idle=f"the safe bound {bound.value} has not passed the watermark{held}", unpassed=bound, alert=alert)
    seen, after = order.state.seen, next_watermark(facts.cursor, watermark, bound)
    band = look_again(order.source, facts, watermark, seen)
    nulls = look_at_nulls(order.source, facts)
    draft = _with_nulls(order, draft_window(order, to_read(facts.cursor, window, band, seen), OperationKind.INCREMENT), nulls)
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


def _with_nulls(order: TableRequest, draft: Draft, nulls: str) -> Draft:
    """Adds the rows without a cursor to what an increment reads, if they are not as the last plan saw them."""
    rows = null_rows(nulls)
    if nulls == order.state.nulls or not rows:
        return draft
    spec = draft.operations[0] if draft.operations else new_spec(order, OperationKind.INCREMENT, order.source.now())
    slices = order.limited((*spec.slices, order.source.null_predicate(order.facts.cursor)))
    return Draft(operations=(replace(spec, slices=slices, with_nulls=True, expected_rows=spec.expected_rows + rows),))
