"""Windows: the half-open interval [low, high) of a cursor that one operation reads, and the predicate that reads it.

Windows tile the axis: the next `low` is this `high`. `high` comes from a safe bound, never from the rows that were read.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.cursors import Cursor, CursorValue
from cdc_ops.errors import CursorRegressionError


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeBound:
    """A cursor value below which no transaction can still commit, and the `method` that proves it.

    Args:
        value: The bound itself, exclusive.
        clock: The source's newest position at that moment (its clock, or its counter), before anything held the bound back.
        method: How it was found, e.g. `clock-overlap`, `oldest-writer`.
        observed_at: The source's clock when it was taken, UTC.
        held_by: What held it back below the clock, for the run's record ("" if nothing did).
        warnings: What the operator should know (a missing grant, a non-UTC server).
        held_since: Since when it has been held back, UTC, None if nothing does; of a prepared transaction only when it was prepared is
            known.
        reach: Up to where rows are to be read already, although more can come below it: beyond the end of the second or the day that
            `value` was cut down to. None = `value`.
        behind: How far the bound lay behind the clock before it was cut down, None if it was not; of a counter, how old the reading is
            that proves it.
        held_hint: The statements with which to look at what holds it back, and to end it.
        readings: Of a counter that is held back: what later plans are to be given.
    """

    value: CursorValue
    clock: CursorValue
    method: str
    observed_at: datetime
    held_by: str = ""
    warnings: tuple[str, ...] = ()
    held_since: datetime | None = None
    held_hint: str = ""
    reach: CursorValue | None = None
    behind: timedelta | None = None
    readings: CounterSamples | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Rows with low <= cursor < high; an open end is None.

    >>> str(Window(low=CursorValue(parts=("10",)), high=CursorValue(parts=("20",))))
    '[10, 20)'
    >>> str(Window(low=None, high=CursorValue(parts=("20",))))
    '[-inf, 20)'
    """

    low: CursorValue | None
    high: CursorValue | None

    def __str__(self) -> str:
        return f"[{self.low if self.low else '-inf'}, {self.high if self.high else '+inf'})"


def next_window(cursor: Cursor, watermark: CursorValue, bound: SafeBound) -> Window | None:
    """Returns the window from the watermark to a safe bound, or None if the bound is not above the watermark.

    Where the column keeps whole seconds or days, the window goes on to the bound's `reach`, and the next one begins at its `value`: the
    unit that is not over is read in both.

    A bound may fall a little behind the watermark when a writer holds it back; a *clock* behind the watermark may not.

    Raises:
        CursorRegressionError: the source's clock or counter is behind the watermark; reading on would skip rows.
    """
    low = cursor.order(watermark)
    if _precedes(cursor.order(bound.clock), low):
        raise CursorRegressionError(
            f"The source's position ({bound.clock}) is behind the watermark ({watermark}).",
            why="The source's clock or counter went backwards: a failover, a restored backup, a lagging replica, or a changed time zone.",
            data="Nothing was read; the watermark stays.",
            next="Wait until the source has caught up, or correct its clock. If the cursor has no zone: name the zone in which it is"
            " written in 'time_zone' of the source (source.time_zone), as in earlier runs.",
        )
    high = bound.reach or bound.value
    if not _precedes(low, cursor.order(high)):
        return None
    return Window(low=watermark, high=high)


def next_watermark(cursor: Cursor, watermark: CursorValue, bound: SafeBound) -> CursorValue:
    """Returns the watermark after the commit of a window up to a bound: the bound, but never less than before."""
    return max(bound.value, watermark, key=cursor.order)


def fresh_instant(cursor: Cursor, bound: SafeBound) -> datetime:
    """Returns the instant (UTC) up to which a table is complete after the commit of everything below the bound."""
    if not cursor.columns or not cursor.lead.type.is_temporal:
        return bound.observed_at - (bound.behind or timedelta(0))
    lead, behind = cursor.lead, bound.behind
    if behind is None:
        behind = lead.moment(bound.clock.parts[0]) - lead.moment(bound.value.parts[0])
    return bound.observed_at - max(behind, timedelta(0))


def _precedes(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    """True if `left` sorts strictly before `right`; a prefix sorts before its extensions."""
    return left < right


def contains(cursor: Cursor, window: Window, value: CursorValue) -> bool:
    """True if a row with this cursor value is in the window: the reference for tests of `bounds_predicate`.

    >>> from cdc_ops.core.cursor.cursors import CursorColumn, CursorType
    >>> cursor = Cursor(columns=(CursorColumn(name="id", type=CursorType.INTEGER),))
    >>> window = Window(low=CursorValue(parts=("10",)), high=CursorValue(parts=("20",)))
    >>> [number for number in ("9", "10", "19", "20") if contains(cursor, window, CursorValue(parts=(number,)))]
    ['10', '19']
    """
    position = cursor.order(value)
    above = window.low is None or not _precedes(position, cursor.order(window.low))
    return above and (window.high is None or _precedes(position, cursor.order(window.high)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`column <op> literal`; the literal is the source's own text, to be quoted by the source's dialect."""

    column: str
    op: str
    literal: str


def bounds_predicate(cursor: Cursor, window: Window) -> tuple[tuple[tuple[Comparison, ...], ...], ...]:
    """Returns the window as a conjunction of disjunctions of conjunctions of comparisons, for the source's dialect to print.

    `((A and B) or C) and (D or E)` is `(((A, B), (C,)), ((D,), (E,)))`. A composite lower bound `(t, i)` becomes
    `(u > t) or (u = t and id >= i)`, the upper one `(u < t) or (u = t and id < i)`; the redundant `u >= t` / `u <= t` that lets a database
    use
    its index on the lead column is added as a conjunct of its own.

    >>> from cdc_ops.core.cursor.cursors import CursorColumn, CursorType
    >>> cursor = Cursor(columns=tuple(CursorColumn(name=name, type=CursorType.INTEGER) for name in ("version", "id")))
    >>> window = Window(low=CursorValue(parts=("4", "7")), high=CursorValue(parts=("5",)))
    >>> " AND ".join(
    ...     "(" + " OR ".join(" AND ".join(f"{part.column} {part.op} {part.literal}" for part in branch) for branch in branches) + ")"
    ...     for branches in bounds_predicate(cursor, window)
    ... )
    '(version >= 4) AND (version > 4 OR version = 4 AND id >= 7) AND (version < 5)'
    """
    conjuncts: list[tuple[tuple[Comparison, ...], ...]] = []
    if window.low is not None:
        conjuncts += _lexicographic(cursor, window.low, strict=">", last=">=")
    if window.high is not None:
        conjuncts += _lexicographic(cursor, window.high, strict="<", last="<")
    return tuple(conjuncts)


def _lexicographic(cursor: Cursor, value: CursorValue, *, strict: str, last: str) -> list[tuple[tuple[Comparison, ...], ...]]:
    names = [column.name for column in cursor.columns[: len(value.parts)]]
    branches = []
    for depth, (name, literal) in enumerate(zip(names, value.parts, strict=True)):
        op = last if depth == len(names) - 1 else strict
        equal = tuple(Comparison(column=names[i], op="=", literal=value.parts[i]) for i in range(depth))
        branches.append((*equal, Comparison(column=name, op=op, literal=literal)))
    if len(branches) == 1:
        return [tuple(branches)]
    lead = Comparison(column=names[0], op=f"{strict}=", literal=value.parts[0])
    return [((lead,),), tuple(branches)]
