"""Windows: half-open, one after the other, and read by exactly the predicate that they mean."""

import operator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue, format_datetime
from cdc_ops.core.cursor.windows import Comparison, SafeBound, Window, bounds_predicate, contains, next_watermark, next_window
from cdc_ops.errors import CursorRegressionError

AT = CursorColumn(name="at", type=CursorType.TIMESTAMP, precision=6)
ID = CursorColumn(name="id", type=CursorType.INTEGER)
VERSION = CursorColumn(name="version", type=CursorType.INTEGER)
CURSORS = [Cursor(columns=(ID,)), Cursor(columns=(AT,)), Cursor(columns=(AT, ID)), Cursor(columns=(VERSION, AT, ID))]
OPERATORS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

numbers = st.integers(-2, 12).map(str)
times = st.integers(-2, 12).map(lambda n: format_datetime(datetime(2026, 1, 1) + timedelta(microseconds=n)))


def values(cursor: Cursor, *, whole: bool = False) -> st.SearchStrategy[CursorValue]:
    def values_of_size(size: int) -> st.SearchStrategy[CursorValue]:
        parts = (times if column.type.is_temporal else numbers for column in cursor.columns[:size])
        return st.tuples(*parts).map(lambda literals: CursorValue(parts=literals))

    sizes = [len(cursor.columns)] if whole else range(1, len(cursor.columns) + 1)
    return st.one_of(*map(values_of_size, sizes))


def bound(value: CursorValue, clock: CursorValue | None = None) -> SafeBound:
    return SafeBound(value=value, clock=clock or value, method="test", observed_at=datetime(2026, 1, 1, tzinfo=UTC))


def position(number: int) -> CursorValue:
    return CursorValue(parts=(str(number),))


def holds(cursor: Cursor, comparison: Comparison, row: CursorValue) -> bool:
    """What a database says, by the declared type of the column."""
    at = next(index for index, column in enumerate(cursor.columns) if column.name == comparison.column)
    column = Cursor(columns=(cursor.columns[at],))
    left, right = (column.order(CursorValue(parts=(text,))) for text in (row.parts[at], comparison.literal))
    return bool(OPERATORS[comparison.op](left, right))


@pytest.mark.parametrize("cursor", CURSORS)
@given(data=st.data())
def test_the_predicate_selects_what_the_window_contains(cursor: Cursor, data: st.DataObject) -> None:
    end = st.none() | values(cursor)
    window, row = Window(low=data.draw(end), high=data.draw(end)), data.draw(values(cursor, whole=True))
    predicate = bounds_predicate(cursor, window)
    selected = all(any(all(holds(cursor, one, row) for one in branch) for branch in branches) for branches in predicate)
    assert selected == contains(cursor, window, row)


@pytest.mark.parametrize("cursor", CURSORS[2:])
def test_the_lead_column_of_a_composite_is_bounded_on_its_own_for_the_index(cursor: Cursor) -> None:
    literals = tuple("2026-01-01 00:00:00" if column.type.is_temporal else "1" for column in cursor.columns)
    predicate = bounds_predicate(cursor, Window(low=CursorValue(parts=literals), high=CursorValue(parts=literals)))
    alone = {one.op for branches in predicate if len(branches) == 1 for (one,) in branches if one.column == cursor.lead.name}
    assert alone == {">=", "<="}


@pytest.mark.parametrize("cursor", CURSORS)
@given(data=st.data())
def test_windows_tile_the_axis_without_gap_or_overlap(cursor: Cursor, data: st.DataObject) -> None:
    bounds = sorted(data.draw(st.lists(values(cursor), min_size=2, max_size=6)), key=cursor.order)
    row = data.draw(values(cursor, whole=True))
    windows, watermark = [], bounds[0]
    for high in bounds[1:]:
        if window := next_window(cursor, watermark, bound(high)):
            windows.append(window)
            watermark = high
    inside = contains(cursor, Window(low=bounds[0], high=bounds[-1]), row)
    assert sum(contains(cursor, window, row) for window in windows) == int(inside)


@pytest.mark.parametrize("high", [3, 5])
def test_a_bound_that_has_not_passed_the_watermark_gives_nothing_to_read(high: int) -> None:
    assert next_window(CURSORS[0], position(5), bound(position(high), clock=position(5))) is None


def test_a_clock_behind_the_watermark_is_refused() -> None:
    with pytest.raises(CursorRegressionError, match=r"\(4\) is behind the watermark \(5\)") as caught:
        next_window(CURSORS[0], position(5), bound(position(4)))
    assert "source.time_zone" in caught.value.next


def test_a_window_names_its_open_ends() -> None:
    assert str(Window(low=None, high=None)) == "[-inf, +inf)"
    assert str(Window(low=position(1), high=position(2))) == "[1, 2)"


SECONDS = Cursor(columns=(CursorColumn(name="at", type=CursorType.DATETIME), ID))
DAYS = Cursor(columns=(CursorColumn(name="day", type=CursorType.DATE),))


@pytest.mark.parametrize("cursor", [SECONDS, DAYS])
@given(data=st.data())
def test_windows_of_coarse_cursors_leave_no_gap_and_share_only_the_unit_that_was_not_over(cursor: Cursor, data: st.DataObject) -> None:
    lead, ticks = cursor.lead, data.draw(st.lists(st.integers(0, 12), min_size=2, max_size=6))
    first, *rest = (CursorValue(parts=(lead.literal(datetime(2026, 1, 1) + tick * lead.unit),)) for tick in sorted(ticks))
    watermark, windows = first, []
    for at in rest:
        reach = CursorValue(parts=(lead.literal(lead.moment(at.parts[0]) + lead.unit),))
        reached = replace(bound(at), reach=reach)
        window = next_window(cursor, watermark, reached)
        assert window is not None
        windows.append(window)
        watermark = next_watermark(cursor, watermark, reached)
    assert windows[0].low == first
    for before, after in pairwise(windows):
        assert before.high is not None
        assert after.low is not None
        assert cursor.order(after.low) < cursor.order(before.high)
        assert lead.moment(before.high.parts[0]) - lead.moment(after.low.parts[0]) == lead.unit


def test_a_watermark_never_goes_back_to_a_bound_below_it() -> None:
    assert next_watermark(CURSORS[0], position(5), bound(position(3))) == position(5)
    assert next_watermark(CURSORS[0], position(5), bound(position(7))) == position(7)
