"""What an increment looks at again below its watermark, decided at the plan by the source's own checksums. Writes nothing."""

from cdc_ops.core.cursor.cursors import Cursor, CursorType, CursorValue
from cdc_ops.core.cursor.late_rows import RangeChecksum, lookback_low
from cdc_ops.core.cursor.windows import Window
from cdc_ops.sources.base import Source
from cdc_ops.steps.table.source_table import SourceTable


def lookback_window(source: Source, facts: SourceTable, watermark: CursorValue, seen: RangeChecksum | None) -> Window | None:
    """Returns what an increment has to read again below its window, None if the lake holds all of it as it is at the source now.

    Args:
        source: Asked for the checksum of what was seen.
        facts: The table.
        watermark: Where the increment's window begins.
        seen: What the last plan saw, once its operation has committed; None if that is not known, then the band is read.
    """
    cursor, lookback = facts.cursor, facts.config.settings.load.lookback
    counts = cursor.lead.type is CursorType.INTEGER
    low = lookback_low(cursor, watermark, lookback, seen.window.low if seen and counts else None)
    if low is None:
        return None
    high = seen.window.high if seen and seen.window.high else watermark
    band = Window(low=low, high=max(high, watermark, key=cursor.order))
    if band.low == band.high:
        return None
    return None if seen is not None and range_checksum(source, facts, band) == seen else band


def range_checksum(source: Source, facts: SourceTable, window: Window) -> RangeChecksum:
    """Takes the checksum of a stretch of the source."""
    chosen = facts.schema.extended(facts.hidden).columns
    if not facts.cursor.lead.is_coarse:
        names = tuple(dict.fromkeys((*facts.keys, *facts.source_keys, *facts.cursor.column_names)))
        chosen = tuple(column for name in names if (column := facts.schema.column(name)))
    rows, checksum = source.checksum(
        facts.config.table, tuple(column.expression for column in chosen), source.window_predicate(facts.cursor, window)
    )
    return RangeChecksum(window=window, rows=rows, checksum=checksum)


def next_range_checksum(source: Source, facts: SourceTable, window: Window, watermark: CursorValue) -> RangeChecksum | None:
    """Takes the checksum that the plan after this one will compare with.

    Args:
        source: Asked for it, after the bound was taken and before anything is read.
        facts: The table.
        window: What this plan's operation reads; its low end is None for a snapshot.
        watermark: The watermark that it will commit; a column of whole seconds or days is read beyond it.
    """
    low = lookback_low(facts.cursor, watermark, facts.config.settings.load.lookback, window.low)
    if low is None:
        return None
    return range_checksum(source, facts, Window(low=low, high=max(window.high or watermark, watermark, key=facts.cursor.order)))


def window_to_read(cursor: Cursor, window: Window, band: Window | None, seen: RangeChecksum | None) -> Window:
    """Returns what an increment reads: from the band, if there is one, else from where the operation before it stopped reading."""
    if band is not None:
        return Window(low=band.low, high=window.high)
    if seen is None or seen.window.high is None or window.low is None:
        return window
    low = max(seen.window.high, window.low, key=cursor.order)
    return Window(low=low, high=max(window.high or low, low, key=cursor.order))
