"""Charts as geometry: where bars, lines and labels of an SVG stand. Pure; the template draws what stands here and decides nothing.

All charts of a page share the time axis from the oldest run to now. Lengths are in the units of the view box, `WIDTH` x `HEIGHT`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

WIDTH: Final = 560
HEIGHT: Final = 150
LEFT: Final = 64
RIGHT: Final = 552
TOP: Final = 8
BOTTOM: Final = 128

_WIDEST: Final = 14.0
_LONGEST: Final = 10
"""Characters of a label that fit left of the vertical axis."""
_UNITS: Final = ("", "k", "M", "G", "T", "P", "E")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SPANS: Final = (1, 2, 5, 10, 15, 30, *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)), *(_HOUR * n for n in (1, 2, 3, 6, 12)))
"""Steps of an axis of time, in seconds, up to half a day; days follow by 1, 2 and 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A label of an axis.

    Args:
        at: Its place on the axis.
        text: What it says.
    """

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A rectangle.

    Args:
        x, y, width, height: Where it stands.
        look: Its class in the style sheet.
        words: What it stands for, for pointers that rest on it.
    """

    x: float
    y: float
    width: float
    height: float
    look: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart.

    Args:
        title: What it shows.
        words: The same as the picture, in a sentence, for those who do not see it.
        bars: Rectangles, in the order in which they are drawn.
        line: Points of a line, as SVG writes them; "" = none.
        area: The same down to the axis, which is filled; "" = none.
        rows: Labels of the vertical axis.
        columns: Labels of the axis of time.
        key: Looks of the bars with their names, for a legend; () = none is needed.
        height: Of the view box.
    """

    title: str
    words: str
    bars: tuple[Bar, ...] = ()
    line: str = ""
    area: str = ""
    rows: tuple[Tick, ...] = ()
    columns: tuple[Tick, ...] = ()
    key: tuple[tuple[str, str], ...] = ()
    height: int = HEIGHT

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to draw."""
        return not self.bars and not self.line


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """The axis of time that the charts of a page share.

    Args:
        start, end: Instants, UTC; `end` is later.
    """

    start: datetime
    end: datetime

    @classmethod
    def over(cls, moments: Iterable[datetime], now: datetime) -> "TimeAxis":
        """Returns the axis from the earliest of some instants, at least a minute before now, up to now."""
        return cls(start=min((*moments, now - timedelta(minutes=1))), end=now)

    def place(self, moment: datetime) -> float:
        """Returns where an instant stands; one outside stands at the end that is near.

        >>> noon = datetime(2026, 1, 5, 12, tzinfo=UTC)
        >>> TimeAxis(start=noon, end=noon + timedelta(hours=2)).place(noon + timedelta(hours=1))
        308.0
        """
        share = (moment - self.start) / (self.end - self.start)
        return round(LEFT + (RIGHT - LEFT) * min(max(share, 0.0), 1.0), 1)

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """At most six labels, at whole hours, days and so on, UTC."""
        return tuple(Tick(at=self.place(moment), text=text) for moment, text in moments(self.start, self.end, 6))


def moments(start: datetime, end: datetime, most: int) -> tuple[tuple[datetime, str], ...]:
    """Returns at most `most` round instants of a span of time and how they are written; none is outside of it.

    >>> noon = datetime(2026, 1, 5, 12, 10, tzinfo=UTC)
    >>> [text for _, text in moments(noon, noon + timedelta(hours=5), 3)]
    ['14:00', '16:00']
    """
    seconds = (end - start).total_seconds()
    step = span_step(seconds, most)
    distance = timedelta(seconds=step)
    found = (_EPOCH + distance * n for n in range(-((_EPOCH - start) // distance), (end - _EPOCH) // distance + 1))
    days = "%m-%d" if start.year == end.year else "%Y-%m-%d"
    form = days if step >= _DAY else "%d %H:%M" if seconds > _DAY else "%H:%M" if step >= _MINUTE else "%H:%M:%S"
    return tuple((moment, moment.strftime(form)) for moment in found)


def span_step(seconds: float, most: int) -> int:
    """Returns the distance, in seconds, of at most `most` marks on an axis of time that is so long.

    >>> [span_step(seconds, 4) for seconds in (3, 240, 7000, 86400 * 9)]
    [1, 60, 1800, 432000]
    """
    days = (_DAY * n * int(10**power) for power in range(9) for n in (1, 2, 5))
    return next(step for step in (*_SPANS, *days) if seconds / step <= most)


def number_step(largest: float, most: int) -> int:
    """Returns the distance of at most `most` marks from 0 to the largest value: 1, 2 or 5 times a power of ten, at least 1.

    >>> [number_step(largest, 4) for largest in (0, 3, 9, 4000)]
    [1, 1, 5, 1000]
    """
    steps = (n * int(10**power) for power in range(50) for n in (1, 2, 5))
    return next(step for step in steps if largest / step <= most)


def number_texts(marks: range) -> tuple[str, ...]:
    """Returns how the marks of an axis are written: where they are too long, in thousands, millions, ..., and by their last digits.

    Args:
        marks: Multiples of their distance, which `number_step` has found.

    >>> number_texts(range(0, 3000, 1000)), number_texts(range(0, 300_000_000, 100_000_000))
    (('0', '1,000', '2,000'), ('0', '100M', '200M'))
    >>> number_texts(range(7_246_990_110_002_000_000, 7_246_990_110_005_000_000, 2_000_000))
    ('…110,002M', '…110,004M')
    """
    texts = tuple(f"{mark:,}" for mark in marks)
    if all(len(text) <= _LONGEST for text in texts):
        return texts
    thousands = (len(str(marks.step)) - 1) // 3
    unit = _UNITS[thousands] if thousands < len(_UNITS) else f"e{3 * thousands}"
    return tuple(_short(mark // 1000**thousands, unit) for mark in marks)


def _short(number: int, unit: str) -> str:
    text = f"{number:,}{unit if number else ''}"
    if len(text) <= _LONGEST:
        return text
    kept = _LONGEST - len("-…") - len(unit)
    return f"{'-' if number < 0 else ''}…{f'{abs(number):,}'[-kept:].lstrip(',')}{unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueAxis:
    """The vertical axis, from 0 up to a round value above the largest.

    Args:
        top: The value at its upper end.
        rows: Its labels.
    """

    top: float
    rows: tuple[Tick, ...]

    @classmethod
    def up_to(cls, largest: float, step: int, texts: "Sequence[str] | None" = None) -> "ValueAxis":
        """Returns the axis for values up to the largest, with a label at each step; `texts` name the steps from 0 on."""
        count = max(int(-(-largest // step)), 1)
        names = texts or number_texts(range(0, count * step + 1, step))
        rows = tuple(Tick(at=height_of(n / count), text=name) for n, name in enumerate(names))
        return cls(top=count * step, rows=rows)

    def place(self, value: float) -> float:
        """Returns where a value stands."""
        return height_of(value / self.top)


def height_of(share: float) -> float:
    """Returns where a share of the vertical axis stands, 0 at its foot."""
    return round(BOTTOM - (BOTTOM - TOP) * share, 1)


def bar_width(count: int) -> float:
    """Returns how wide a bar may be when so many share the axis: narrow enough to be told apart, and never less than one unit."""
    return round(min(max((RIGHT - LEFT) / max(count, 1) * 0.7, 1.0), _WIDEST), 1)


def stack(x: float, width: float, axis: ValueAxis, parts: Iterable[tuple[str, float]], words: str) -> tuple[Bar, ...]:
    """Returns the bars of one run, one on the other, each with its look; parts of nothing are left out."""
    bars, below = [], 0.0
    for look, value in parts:
        if value > 0:
            foot, head = axis.place(below), axis.place(below + value)
            height = max(round(foot - head, 1), 0.5)
            left = round(min(max(x - width / 2, LEFT), RIGHT - width), 1)
            bars.append(Bar(x=left, y=round(foot - height, 1), width=width, height=height, look=look, words=words))
            below += value
    return tuple(bars)


def polyline(points: Sequence[tuple[float, float]]) -> tuple[str, str]:
    """Returns a line, and the area below it, as SVG writes points; "" for fewer than two.

    >>> polyline([(64, 20), (100, 30)])
    ('64,20 100,30', '64,128 64,20 100,30 100,128')
    """
    if len(points) < 2:
        return "", ""
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    return line, f"{points[0][0]:g},{BOTTOM} {line} {points[-1][0]:g},{BOTTOM}"
