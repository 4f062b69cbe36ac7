"""Snapshots: how progress passes from chunk to chunk, and where a snapshot whose ledger was lost goes on. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from cdc_ops.core.operation.operation import SnapshotProgress
from cdc_ops.sources.chunks.chunks import Chunk


def what_is_left(progress: SnapshotProgress) -> str:
    """Returns the condition of the rows that are still to be read, "" for all."""
    if progress.chunks:  # an older record, which has them one by one
        return " OR ".join(f"({chunk})" for chunk in progress.chunks[progress.done :])
    return progress.rest


def pass_through(start: SnapshotProgress, chunks: tuple[Chunk, ...]) -> Iterator[tuple[Chunk, SnapshotProgress, SnapshotProgress | None]]:
    """Yields each chunk with the progress before and after it; after the last one there is none.

    Args:
        start: What has been done; a new snapshot has done nothing.
        chunks: What is left, in order.
    """
    total, rows = start.done + len(chunks), start.rows_done + sum(chunk.rows for chunk in chunks)
    before = start
    for chunk in chunks:
        after = replace(
            before, done=before.done + 1, total=total, chunks=(), rest=chunk.rest, rows_done=before.rows_done + chunk.rows, rows_total=rows
        )
        yield chunk, before, after if after.done < total else None
        before = after
