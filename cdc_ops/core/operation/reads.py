"""What an operation reads: one kind of read each, tagged in its JSON. Pure.

WindowRead   rows whose cursor lies in a window: increments, backfills, ranges
ChunkRead    a part of the table, or all of it: snapshots, full resyncs, backfills of columns
KeysRead     rows of single keys
CompareRead  what differs between source and lake
ArchiveRead  events of archived files, or records in quarantine
ReplayRead   events of the table's own history
"""

from dataclasses import dataclass
from typing import ClassVar

from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.events.event_history import Replay
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.reconcile.diff import CompareSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRead:
    """Rows of the source by a range of the cursor.

    Args:
        window: The range.
        slices: WHERE conditions in the source's dialect, disjoint and together the whole; each is read over its own connection.
        expected_rows: Row count or estimate at the plan, for progress and partitioning.
        bound_method: How the window's upper bound was found.
        lookback: What is read again although an earlier operation has read it; of its rows only those are merged that the lake does not
            have as they are now. None if nothing is.
        with_nulls: Rows whose cursor is NULL are read too, all of them.
    """

    JSON_TYPE: ClassVar[str] = "window"
    window: Window
    slices: tuple[str, ...]
    expected_rows: int = 0
    bound_method: str = ""
    lookback: Window | None = None
    with_nulls: bool = False

    @property
    def rereads(self) -> bool:
        """True if rows are read that the lake may have as they are."""
        return self.lookback is not None or self.with_nulls


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRead:
    """Rows of the source by conditions that cut up the whole table.

    Args:
        slices, expected_rows: As for a window.
        bound_method: How the watermark was found that a snapshot leaves.
    """

    JSON_TYPE: ClassVar[str] = "chunk"
    slices: tuple[str, ...]
    expected_rows: int = 0
    bound_method: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysRead:
    """Rows of the source by their keys.

    Args:
        slices, expected_rows: As for a window.
    """

    JSON_TYPE: ClassVar[str] = "keys"
    slices: tuple[str, ...]
    expected_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRead:
    """Rows of the source that the lake has otherwise or not.

    Args:
        compare: How the two are compared.
        slices, expected_rows: As for a window: the whole table, which is compared.
    """

    JSON_TYPE: ClassVar[str] = "compare"
    compare: CompareSpec
    slices: tuple[str, ...]
    expected_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRead:
    """Events of an archive.

    Args:
        batch: Which files, and how. It may change between tries, until the files' rows are landed.
    """

    JSON_TYPE: ClassVar[str] = "archive"
    batch: LogBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRead:
    """Events of the table's own history.

    Args:
        replay: Which.
    """

    JSON_TYPE: ClassVar[str] = "replay"
    replay: Replay


Read = WindowRead | ChunkRead | KeysRead | CompareRead | ArchiveRead | ReplayRead
