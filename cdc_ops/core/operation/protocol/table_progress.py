"""How far a table is: what an operation is planned on, what it leaves behind, and what ledger and commit record carry of it. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.late_rows import RangeChecksum


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress:
    """How far a snapshot is; it travels in every commit until the last chunk, and its size does not grow with the number of chunks.

    The ledger holds the open chunks, as operations. If the ledger is lost, `rest` is enough for another run: it splits the remaining rows
    into new chunks, and each row is either below the border of `rest` or above it.

    Args:
        bound: The safe bound taken before the first chunk; it becomes the watermark with the last one.
        done: Chunks committed.
        total: Chunks planned.
        chunks: SQL predicates of all chunks, in older records; empty since what is left is kept as `rest`.
        rest: SQL predicate of the rows that are still to be read.
        rows_done: Estimated rows of the chunks committed.
        rows_total: Estimated rows of all chunks.
        started_at: When the first chunk was planned, by the source's clock, UTC.
    """

    bound: CursorValue
    done: int
    total: int
    chunks: tuple[str, ...] = ()
    rest: str = ""
    rows_done: int = 0
    rows_total: int = 0
    started_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProgress:
    """How far a table is, before or after an operation.

    Args:
        watermark: The last committed cursor; None until a snapshot is complete.
        snapshot: Progress of an unfinished snapshot, None when there is none.
        archive: The watermark of a table that is fed from an archive; None for tables without one. After an operation that reads the
            archive it is known when the files have been read.
        seen: What a live operation's plan saw at the source of what the lake then holds, for the next plan's band.
        nulls: Checksum that the plan saw over all columns of the rows whose cursor is NULL, "" if it did not look.
        fresh_at: Instant (UTC) up to which the table is known to hold the source's committed changes.
    """

    watermark: CursorValue | None = None
    snapshot: SnapshotProgress | None = None
    archive: ArchiveWatermark | None = None
    seen: RangeChecksum | None = None
    nulls: str = ""
    fresh_at: datetime | None = None

    @property
    def position(self) -> "TableProgress":
        """Only what says which rows the table has; every operation passes it on, and what a plan saw at the source is left out."""
        return TableProgress(watermark=self.watermark, snapshot=self.snapshot, archive=self.archive)


NO_PROGRESS: Final = TableProgress()
