"""Late rows: which part below its watermark an increment reads again. Checksums of the source decide it. Writes nothing.

plan n      next_range_checksum    checksum of [watermark - lookback, high), kept with the operation
plan n+1    lookback_window        the same checksum again: None if it is equal, else the window to read
window_to_read         the increment's window, extended by that window
"""

from cdc_ops.core.cursor.cursors import Cursor, CursorType, CursorValue
from cdc_ops.core.cursor.late_rows import RangeChecksum, lookback_low
from cdc_ops.core.cursor.windows import Window
from cdc_ops.sources.base import Source
from cdc_ops.steps.table.source_table import SourceTable


def lookback_window(source: Source, source_table: SourceTable, watermark: CursorValue, seen: RangeChecksum | None) -> Window | None:
    """Returns the window below an increment's own window that it has to read again, None if the source's rows there have not changed.

    Args:
        source: Computes the checksum.
        source_table: The table.
        watermark: The lower bound of the increment's window.
        seen: The checksum of the last committed operation; None if it is unknown, then the window is read.
    """
    cursor, lookback = source_table.cursor, source_table.config.settings.load.lookback
    counts = cursor.lead.type is CursorType.INTEGER
    low = lookback_low(cursor, watermark, lookback, seen.window.low if seen and counts else None)
    if low is None:
        return None
    high = seen.window.high if seen and seen.window.high else watermark
    again = Window(low=low, high=max(high, watermark, key=cursor.order))
    if again.low == again.high:
        return None
    return None if seen is not None and range_checksum(source, source_table, again) == seen else again


def range_checksum(source: Source, source_table: SourceTable, window: Window) -> RangeChecksum:
    """Returns the row count and the checksum of a window: of keys and cursor, or of all columns if the cursor has whole seconds or days."""
    chosen = source_table.schema.extended(source_table.hidden).columns
    if not source_table.cursor.lead.is_coarse:
        names = tuple(dict.fromkeys((*source_table.keys, *source_table.source_keys, *source_table.cursor.column_names)))
        chosen = tuple(column for name in names if (column := source_table.schema.column(name)))
    rows, checksum = source.checksum(
        source_table.config.table, tuple(column.expression for column in chosen), source.window_predicate(source_table.cursor, window)
    )
    return RangeChecksum(window=window, rows=rows, checksum=checksum)


def next_range_checksum(source: Source, source_table: SourceTable, window: Window, watermark: CursorValue) -> RangeChecksum | None:
    """Returns the checksum with which the next plan compares, None if the table has no lookback.

    Args:
        source: Computes it, after the bound was taken and before any row is read.
        source_table: The table.
        window: The window of this plan's operation; its lower bound is None for a snapshot.
        watermark: The watermark that the operation will commit. A window on whole seconds or days ends above it.
    """
    low = lookback_low(source_table.cursor, watermark, source_table.config.settings.load.lookback, window.low)
    if low is None:
        return None
    return range_checksum(
        source, source_table, Window(low=low, high=max(window.high or watermark, watermark, key=source_table.cursor.order))
    )


def window_to_read(cursor: Cursor, window: Window, again: Window | None, seen: RangeChecksum | None) -> Window:
    """Returns the window that an increment reads: from `again`, if there is one, else from the end of the last operation's window."""
    if again is not None:
        return Window(low=again.low, high=window.high)
    if seen is None or seen.window.high is None or window.low is None:
        return window
    low = max(seen.window.high, window.low, key=cursor.order)
    return Window(low=low, high=max(window.high or low, low, key=cursor.order))
