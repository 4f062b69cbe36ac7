"""Drafts of snapshots: the table in chunks, each an operation with the progress before and after it. Queries the source, writes nothing."""

from collections.abc import Iterator
from dataclasses import replace

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.cursor.held_watermark import long_transaction_alert
from cdc_ops.core.cursor.windows import SafeBound, Window, fresh_instant
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress
from cdc_ops.core.operation.reads import ChunkRead
from cdc_ops.sources.chunks.chunks import Chunk
from cdc_ops.steps.planning.late_rows import next_range_checksum
from cdc_ops.steps.planning.null_cursors import null_cursor_checksum
from cdc_ops.steps.planning.reconcile import observed_bound
from cdc_ops.steps.planning.request import Draft, TableRequest, has_unique_keys, new_operation, whole_landing


def remaining_rows_condition(progress: SnapshotProgress) -> str:
    """Returns the SQL condition of the rows that a snapshot still has to read, "" for all rows."""
    if progress.chunks:  # an older record, which has them one by one
        return " OR ".join(f"({chunk})" for chunk in progress.chunks[progress.done :])
    return progress.rest


def chunk_progress(start: SnapshotProgress, chunks: tuple[Chunk, ...]) -> Iterator[tuple[Chunk, SnapshotProgress, SnapshotProgress | None]]:
    """Yields each chunk with the progress before it and after it; after the last chunk that is None.

    Args:
        start: The progress so far; `done` is 0 for a new snapshot.
        chunks: The remaining chunks, in order.
    """
    total, rows = start.done + len(chunks), start.rows_done + sum(chunk.rows for chunk in chunks)
    before = start
    for chunk in chunks:
        after = replace(
            before, done=before.done + 1, total=total, chunks=(), rest=chunk.rest, rows_done=before.rows_done + chunk.rows, rows_total=rows
        )
        yield chunk, before, after if after.done < total else None
        before = after


def draft_snapshot(request: TableRequest) -> Draft:
    """Drafts a snapshot, or the rest of one, in chunks. Each chunk is one operation; the last one sets the watermark.

    Raises:
        SourceError: the source cannot answer.
    """
    source_table, start, bound = request.source_table, request.state.progress.snapshot, None
    if start is None:
        bound = _first_bound(request)
        start = SnapshotProgress(bound=bound.value, done=0, total=0, started_at=bound.observed_at)
    planned_at = bound.observed_at if bound else request.source.now()
    plan = request.source.chunks(source_table.schema, source_table.source_keys, request.chunk_size, remaining_rows_condition(start))
    operations = []
    for ahead, (chunk, before, after) in enumerate(chunk_progress(start, plan.chunks)):
        read = ChunkRead(slices=request.limited(chunk.slices), expected_rows=chunk.rows, bound_method=bound.method if bound else "")
        operation = new_operation(request, OperationKind.SNAPSHOT_CHUNK, planned_at, read, ahead)
        fresh_at = fresh_instant(source_table.cursor, bound) if bound and not after else None
        watermark = None if after else start.bound
        operation = replace(
            operation,
            generation=request.state.generation if start.done else request.state.generation + 1,
            before=replace(operation.before, snapshot=before if before.done else None),
            after=replace(operation.after, watermark=watermark, snapshot=after, fresh_at=fresh_at),
            apply=replace(
                operation.apply,
                mode=ApplyMode.MERGE if source_table.reads_changes else ApplyMode.APPEND,
                landing=whole_landing(request),
                unique_keys=has_unique_keys(request),
            ),
        )
        operations.append(operation)
    if bound is not None and source_table.cursor.columns:
        last = operations[-1]
        seen = next_range_checksum(request.source, source_table, Window(low=None, high=bound.reach), bound.value)
        operations[-1] = replace(last, after=replace(last.after, seen=seen, nulls=null_cursor_checksum(request.source, source_table)))
    warnings = (plan.warning,) if plan.warning else ()
    alert = long_transaction_alert(bound, source_table.config.settings.load.long_transaction_alert) if bound else ""
    return Draft(operations=tuple(operations), bound=bound, how=plan.how, warnings=warnings, alert=alert)


def _first_bound(request: TableRequest) -> SafeBound:
    source_table = request.source_table
    if not source_table.cursor.columns:
        return observed_bound(request.source)
    return request.source.safe_bound(
        source_table.schema, source_table.cursor, source_table.config.settings.load.lookback, None, request.state.readings
    )
