"""Drafts of increments: the next window, with late rows and rows whose cursor is NULL. Queries the source, writes nothing."""

from dataclasses import replace

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.held_watermark import long_transaction_alert
from cdc_ops.core.cursor.windows import Window, fresh_instant, next_watermark, next_window
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.reads import WindowRead
from cdc_ops.steps.planning.late_rows import lookback_window, next_range_checksum, window_to_read
from cdc_ops.steps.planning.null_cursors import null_cursor_checksum, rows_in_checksum
from cdc_ops.steps.planning.request import Draft, TableRequest, new_operation, window_read


def draft_increment(request: TableRequest, watermark: CursorValue) -> Draft:
    """Drafts the next window of a table: from its watermark up to a new safe bound, and late rows below it.

    Raises:
        SourceError: the source cannot answer, or its clock went back.
    """
    source_table = request.source_table
    bound = request.source.safe_bound(
        source_table.schema, source_table.cursor, source_table.config.settings.load.lookback, watermark, request.state.readings
    )
    window, alert = (
        next_window(source_table.cursor, watermark, bound),
        long_transaction_alert(bound, source_table.config.settings.load.long_transaction_alert),
    )
    if window is None:
        held = f"; held back by {bound.held_by}" if bound.held_by else ""
        return Draft(
            idle=f"the safe bound {bound.value} has not passed the watermark{held}", bound=bound, bound_advanced=False, alert=alert
        )
    seen, after = request.state.progress.seen, next_watermark(source_table.cursor, watermark, bound)
    lookback = lookback_window(request.source, source_table, watermark, seen)
    nulls = null_cursor_checksum(request.source, source_table)
    read = _with_nulls(request, window_read(request, window_to_read(source_table.cursor, window, lookback, seen)), window, nulls)
    if read is None:
        return Draft(idle=f"no row in {window}", bound=bound, alert=alert)
    read = replace(read, window=window, lookback=lookback, bound_method=bound.method)
    operation = new_operation(request, OperationKind.INCREMENT, request.source.now(), read)
    next_seen = next_range_checksum(request.source, source_table, window, after)
    reached = replace(operation.after, watermark=after, seen=next_seen, nulls=nulls, fresh_at=fresh_instant(source_table.cursor, bound))
    return Draft(operations=(replace(operation, after=reached),), bound=bound, alert=alert)


def _with_nulls(request: TableRequest, read: WindowRead | None, window: Window, nulls: str) -> WindowRead | None:
    """Adds the rows whose cursor is NULL to what an increment reads, if their checksum has changed since the last plan."""
    rows = rows_in_checksum(nulls)
    if nulls == request.state.progress.nulls or not rows:
        return read
    read = read or WindowRead(window=window, slices=())
    slices = request.limited((*read.slices, request.source.null_predicate(request.source_table.cursor)))
    return replace(read, slices=slices, with_nulls=True, expected_rows=read.expected_rows + rows)
