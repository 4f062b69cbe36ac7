"""Late rows became visible below a bound that was called safe: the lookback window that finds them, and the advice. Pure.

A bound is proven only for rows that are stamped by the source's own clock and by writers that the source shows. For all others (stamps
of the application's clock, a missing grant, clocks that jump) each increment looks again at the *band* just below its watermark:

    ... [watermark - lookback, watermark) [watermark, bound) ...
         band: compared with the lake      window: merged

The band is read only when the source's own checksum of it is not the one that the last plan took (`RangeChecksum`), so a quiet band costs
an index range at the source, and an idle table starts no Spark.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_ops.core.cursor.cursors import Cursor, CursorType, CursorValue
from cdc_ops.core.cursor.windows import Window

MOST_NUMBERS: Final = 100_000
"""The longest lookback window of a numeric cursor, in numbers below the watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeChecksum:
    """Row count and checksum of a range of the source, as a plan saw it; the lake holds the same after the plan's operation.

    It is taken after the bound and before the operation reads, so whatever it counts is read by that operation or was read before. A row
    that becomes visible later changes it: the next plan then has the band read.

    Args:
        window: The stretch, from the start of the next plan's band to where the operation stops reading.
        rows: Rows in it.
        checksum: Of their keys and cursors, in no order; of all their columns where a row can change without its cursor.
    """

    window: Window
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRows:
    """The late rows of one operation; they were merged.

    Args:
        rows: How many.
        oldest: Cursor of the one that lay deepest, "" without any.
        below: How far that is below the watermark: microseconds, for a counting cursor numbers.
    """

    rows: int = 0
    oldest: str = ""
    below: int = 0


NONE_LATE: Final = LateRows()


def lookback_low(cursor: Cursor, watermark: CursorValue, lookback: timedelta, since: CursorValue | None = None) -> CursorValue | None:
    """Returns the start of the lookback window below a watermark, None if there is no such window.

    Args:
        cursor: The table's cursor.
        watermark: The upper end of the band.
        lookback: Its length, for a temporal cursor; zero turns it off for all cursors, but for the second or the day that was read before
            it was over.
        since: For a counting cursor: the watermark before this one. What was handed out between two plans is what can have been open at
            the second; it is looked at once more, up to `MOST_NUMBERS`.

    >>> from cdc_ops.core.cursor.cursors import CursorColumn
    >>> def low(kind: CursorType, watermark: str, precision: int = 0) -> str:
    ...     cursor = Cursor(columns=(CursorColumn(name="c", type=kind, precision=precision),))
    ...     return str(lookback_low(cursor, CursorValue(parts=(watermark,)), timedelta(minutes=10)))
    >>> low(CursorType.TIMESTAMP, "2026-01-31 12:00:00.250000", precision=3)
    '2026-01-31 11:50:00.250000'
    >>> low(CursorType.INTEGER, "1000000")
    '900000'
    """
    if not lookback:
        return watermark if cursor.lead.is_coarse else None
    if cursor.lead.type is not CursorType.INTEGER:
        return cursor.shifted(watermark, -lookback)
    low = int(watermark.parts[0]) - MOST_NUMBERS
    return CursorValue(parts=(str(max(low, int(since.parts[0])) if since else low),))


def measured(cursor: Cursor, rows: int, oldest: str, watermark: CursorValue) -> LateRows:
    """Returns late rows with their distance below the watermark."""
    if not rows:
        return NONE_LATE
    below = cursor.order(watermark)[0] - cursor.order(CursorValue(parts=(oldest,)))[0]
    return LateRows(rows=rows, oldest=oldest, below=below)


def deepest(parts: tuple[LateRows, ...]) -> LateRows:
    """Returns the late rows of several operations as one value: their sum, and the lowest of them."""
    last = max(parts, key=lambda late: late.below, default=NONE_LATE)
    return LateRows(rows=sum(late.rows for late in parts), oldest=last.oldest, below=last.below)


def commit_lag(cursor: Cursor, late: LateRows) -> timedelta | None:
    """Returns how far below the previous bound the oldest late row was; None without late rows, and for a numeric cursor."""
    return timedelta(microseconds=late.below) if late.rows and cursor.lead.type.is_temporal else None


def advice(cursor: Cursor, late: LateRows, lookback: timedelta) -> str:
    """Returns the advice for late rows, "" without late rows."""
    if not late.rows:
        return ""
    many = f"{late.rows:,} late rows were" if late.rows > 1 else "1 late row was"
    lag = commit_lag(cursor, late)
    if lag is None:
        return (
            f"{many} found below the watermark and merged, the oldest at {late.oldest}, {late.below:,} numbers below it. "
            "Transactions that the list of open transactions did not show used these numbers. Grant the source's user the right to see "
            "all transactions, and let only AUTO_INCREMENT or a sequence choose numbers; 'cdc-ops verify' finds missed rows."
        )
    seconds = lag.total_seconds()
    short = 2 * seconds > lookback.total_seconds()
    recommended = f"Set 'lookback' to at least {_round_up(2 * seconds)}" if short else "'lookback' is long enough for these"
    return (
        f"{many} found below the watermark and merged, the oldest at {late.oldest}, {seconds:.3f} s below it. Either the application, "
        "not the source's clock, sets the cursor, or the source's user cannot see all open transactions. "
        f"{recommended}; 'cdc-ops verify' finds missed rows."
    )


def _round_up(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds > size:
            return f"{-int(-seconds // size)}{unit}"
    return f"{max(-int(-seconds // 1), 1)}s"
