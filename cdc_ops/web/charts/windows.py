"""The chart of what runs have read: the windows of the cursor, each where its run was, with the holes between them. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.text import plural
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.web.charts.charts import RIGHT, Bar, Chart, Tick, TimeAxis, bar_width, height_of, moments, number_step, number_texts
from cdc_ops.web.words import instant

TITLE: Final = "Windows read"
_MARKS: Final = 4
_NUMBER: Final = re.compile(r"-?\d{1,40}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _TICK
_KEY: Final = (
    ("committed", "committed"),
    ("again", "read again"),
    ("idle", "nothing new"),
    ("failed", "failed"),
    ("open", "at work"),
    ("hole", "read by none of these runs"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadWindow:
    """The window of one run, with its ends as numbers.

    Args:
        run: The run.
        low, high: Microseconds of a temporal cursor, else the number itself; of a composite cursor, its first column.
        is_number: True unless the cursor is temporal.
    """

    run: TableRun
    low: int
    high: int
    is_number: bool

    @property
    def look(self) -> str:
        """Its class in the style sheet."""
        match self.run.status:
            case TableRunStatus.COMMITTED:
                return "committed" if self.run.kind.is_live else "again"
            case TableRunStatus.FAILED | TableRunStatus.IDLE:
                return self.run.status.value
            case _:
                return "open"


def windows_chart(runs: Sequence[TableRun], time: TimeAxis) -> Chart:
    """Returns the windows of runs, oldest first; those with an open end, and of cursors without a place on the axis, are left out."""
    found = tuple(window for window in _windows(runs) if window is not None)
    if not found:
        return Chart(title=TITLE, words="No run of this list has read a window of a cursor.")
    low, high = min(window.low for window in found), max(window.high for window in found)
    scale = (low, max(high, low + 1))
    width = bar_width(len(found))
    missed = holes(runs)
    bars = [_bar(_hole_of(before, after), scale, time, width, "hole", _hole_words(before, after)) for before, after in missed]
    bars += [_bar(window, scale, time, width, window.look, _words(window)) for window in found]
    first, last = min(found, key=lambda window: window.low), max(found, key=lambda window: window.high)
    ends = f"from {_text(first.run, low=True)} to {_text(last.run, low=False)}"
    how = f"{plural(len(missed), 'hole')}: {_hole_words(*missed[0])}" if missed else "each begins where the one before ended, or earlier"
    used = {bar.look for bar in bars}
    return Chart(
        title=TITLE,
        words=f"{plural(len(found), 'window')} {ends}; {how}.",
        bars=tuple(bars),
        rows=_rows(scale, are_numbers=found[0].is_number),
        columns=time.ticks,
        key=tuple((look, name) for look, name in _KEY if look in used),
    )


def holes(runs: Sequence[TableRun]) -> tuple[tuple[ReadWindow, ReadWindow], ...]:
    """Returns the pairs of windows between which something was not read: those that carry a table forward have to tile the cursor.

    A window that begins where an earlier one ended follows it, even if the earlier run does not know that it was committed: nothing else
    moves the watermark there. After a snapshot, or a window with an open end, the table begins anew.

    Args:
        runs: Oldest first.
    """
    found: list[tuple[ReadWindow, ReadWindow]] = []
    reached: ReadWindow | None = None
    ends: set[int] = set()
    for run, window in zip(runs, _windows(runs), strict=True):
        if not run.kind.is_live:
            continue
        committed = run.status is TableRunStatus.COMMITTED
        if window is not None:
            if committed and reached is not None and window.low > reached.high and window.low not in ends:
                found.append((reached, window))
            if committed and (reached is None or window.high >= reached.high):
                reached = window
            ends.add(window.high)
        elif committed:
            reached = None
    return tuple(found)


def _windows(runs: Sequence[TableRun]) -> tuple[ReadWindow | None, ...]:
    """Returns the window of each run. After a change of the cursor from times to numbers, or back, only the newer kind has an axis."""
    found = tuple(map(_window, runs))
    newest = next((window.is_number for window in reversed(found) if window is not None), None)
    return tuple(window if window is not None and window.is_number is newest else None for window in found)


def _window(run: TableRun) -> ReadWindow | None:
    window = run.result.window
    low, high = (_number(end) for end in (window.low, window.high)) if window else (None, None)
    if low is None or high is None or low[1] is not high[1]:
        return None
    return ReadWindow(run=run, low=low[0], high=high[0], is_number=low[1])


def _number(value: CursorValue | None) -> tuple[int, bool] | None:
    """Returns where a cursor value stands, and whether it is a number; None for an open end, and for what is no time either."""
    if value is None or not value.parts:
        return None
    text = value.parts[0]
    if _NUMBER.fullmatch(text):
        return int(text), True
    try:
        return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) // _TICK, False
    except ValueError:
        return None


def _rows(scale: tuple[int, int], *, are_numbers: bool) -> tuple[Tick, ...]:
    low, high = scale
    if are_numbers:
        step = number_step(high - low, _MARKS)
        numbers = range(-(-low // step) * step, high + 1, step)
        return tuple(Tick(at=_place(value, scale), text=text) for value, text in zip(numbers, number_texts(numbers), strict=True))
    marks = moments(_EPOCH + low * _TICK, _EPOCH + min(high, _LAST) * _TICK, _MARKS)
    return tuple(Tick(at=_place((moment - _EPOCH) // _TICK, scale), text=text) for moment, text in marks)


def _place(value: int, scale: tuple[int, int]) -> float:
    return height_of((value - scale[0]) / (scale[1] - scale[0]))


def _bar(window: ReadWindow, scale: tuple[int, int], time: TimeAxis, width: float, look: str, words: str) -> Bar:
    head, foot = _place(window.high, scale), _place(window.low, scale)
    left = min(time.place(window.run.timing.started_at), RIGHT - width)
    return Bar(x=left, y=head, width=width, height=max(round(foot - head, 1), 1.5), look=look, words=words)


def _hole_of(before: ReadWindow, after: ReadWindow) -> ReadWindow:
    return ReadWindow(run=after.run, low=before.high, high=after.low, is_number=after.is_number)


def _hole_words(before: ReadWindow, after: ReadWindow) -> str:
    return f"no run of this list has read from {_text(before.run, low=False)} to {_text(after.run, low=True)}"


def _words(window: ReadWindow) -> str:
    return f"{instant(window.run.timing.started_at)}, {window.run.kind.words}, {window.run.status}: {window.run.result.window}"


def _text(run: TableRun, *, low: bool) -> str:
    window = run.result.window
    return str(window.low if low else window.high) if window else ""
