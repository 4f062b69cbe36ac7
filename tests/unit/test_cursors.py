"""Cursor values: the source's own text, ordered as the source orders it."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core import json_codec
from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue, format_datetime, parse_datetime
from cdc_ops.errors import ConfigError

UPDATED_AT = CursorColumn(name="updated_at", type=CursorType.DATETIME, precision=6)
DAY = CursorColumn(name="day", type=CursorType.DATE)
SECOND = CursorColumn(name="at", type=CursorType.DATETIME)
ID = CursorColumn(name="id", type=CursorType.INTEGER)
BY_DAY = Cursor(columns=(DAY, ID))
BY_ID = Cursor(columns=(ID,))
BY_TIME = Cursor(columns=(UPDATED_AT,))
COMPOSITE = Cursor(columns=(UPDATED_AT, ID))

instants = st.datetimes()


def value(*parts: str) -> CursorValue:
    return CursorValue(parts=parts)


@given(st.integers(), st.integers())
def test_integers_are_ordered_as_numbers_never_as_text(left: int, right: int) -> None:
    assert (BY_ID.order(value(str(left))) < BY_ID.order(value(str(right)))) == (left < right)


@given(instants, instants)
def test_times_are_ordered_to_the_microsecond(left: datetime, right: datetime) -> None:
    orders = [BY_TIME.order(value(format_datetime(one))) for one in (left, right)]
    assert (orders[0] < orders[1]) == (left < right)
    assert (orders[0] == orders[1]) == (left == right)


@given(instants)
def test_a_literal_reads_back_as_it_was_written(instant: datetime) -> None:
    text = format_datetime(instant)
    assert parse_datetime(text) == instant
    assert len(text) == len("2026-01-31 00:00:00.000000")


@pytest.mark.parametrize(
    ("text", "microsecond"), [("2026-01-31 10:00:00", 0), ("2026-01-31 10:00:00.5", 500_000), ("2026-01-31T10:00:00.000001", 1)]
)
def test_fractions_of_any_precision_are_kept(text: str, microsecond: int) -> None:
    assert parse_datetime(text) == datetime(2026, 1, 31, 10, 0, 0, microsecond)


@given(instants, st.integers(), instants, st.integers())
def test_a_composite_is_ordered_by_its_parts_in_turn(t1: datetime, i1: int, t2: datetime, i2: int) -> None:
    left, right = (COMPOSITE.order(value(format_datetime(t), str(i))) for t, i in ((t1, i1), (t2, i2)))
    assert (left < right) == ((t1, i1) < (t2, i2))


@given(instants, st.integers())
def test_a_prefix_stands_before_everything_that_begins_with_it(instant: datetime, number: int) -> None:
    text = format_datetime(instant)
    assert COMPOSITE.order(value(text)) < COMPOSITE.order(value(text, str(number)))


@given(instants.filter(lambda one: one > datetime.min), st.integers())
def test_a_prefix_stands_after_everything_below_it(instant: datetime, number: int) -> None:
    below = format_datetime(instant - timedelta(microseconds=1))
    assert COMPOSITE.order(value(below, str(number))) < COMPOSITE.order(value(format_datetime(instant)))


@pytest.mark.parametrize(
    ("cursor", "parts"),
    [
        (BY_ID, ()),
        (BY_ID, ("1", "2")),
        (BY_ID, ("1.0",)),
        (BY_ID, ("1\n",)),
        (BY_ID, ("\N{ARABIC-INDIC DIGIT ONE}",)),
        (BY_ID, ("1 OR 1=1",)),
        (BY_TIME, ("2026-01-31",)),
        (BY_DAY, ("2026-01-31 00:00:00",)),
        (BY_DAY, ("2026-02-30",)),
        (BY_DAY, ("20260131",)),
        (BY_TIME, ("2026-01-31 10:00:00\n",)),
        (BY_TIME, ("2026-01-31 10:00:00Z",)),
        (BY_TIME, ("2026-01-31 10:00:00.1234567",)),
        (BY_TIME, ("2026-02-30 10:00:00",)),
        (BY_TIME, ("0000-00-00 00:00:00",)),
    ],
)
def test_text_that_is_no_position_is_refused(cursor: Cursor, parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        cursor.order(value(*parts))


def test_a_shift_moves_the_lead_and_drops_the_rest() -> None:
    moved = COMPOSITE.shifted(value("2026-01-01 00:00:00.25", "7"), timedelta(seconds=-30))
    assert moved == value("2025-12-31 23:59:30.250000")


@pytest.mark.parametrize(("cursor", "parts"), [(BY_ID, ("7",)), (BY_TIME, ("2026-01-01 00:00:00",))])
def test_counters_and_empty_shifts_stay_as_they_are(cursor: Cursor, parts: tuple[str, ...]) -> None:
    by = timedelta() if cursor is BY_TIME else timedelta(seconds=30)
    assert cursor.shifted(value(*parts), by) == value(*parts)


def test_a_day_is_shifted_to_the_day_in_which_it_then_lies() -> None:
    assert BY_DAY.shifted(value("2026-01-01", "7"), timedelta(seconds=-30)) == value("2025-12-31")
    assert BY_DAY.shifted(value("2026-01-01"), timedelta(days=1)) == value("2026-01-02")


@given(st.dates(), st.dates())
def test_days_are_ordered_as_days(left: date, right: date) -> None:
    assert (BY_DAY.order(value(left.isoformat())) < BY_DAY.order(value(right.isoformat()))) == (left < right)


@pytest.mark.parametrize(("column", "coarse"), [(DAY, True), (SECOND, True), (UPDATED_AT, False), (ID, False)])
def test_days_and_whole_seconds_are_coarse(column: CursorColumn, coarse: bool) -> None:
    assert column.is_coarse is coarse


@given(instants, st.sampled_from([DAY, SECOND, UPDATED_AT]), st.integers())
def test_a_cursor_and_its_values_come_back_from_json(instant: datetime, column: CursorColumn, number: int) -> None:
    cursor, at = Cursor(columns=(column, ID)), value(column.literal(column.floor(instant)), str(number))
    assert json_codec.loads(Cursor, json_codec.dumps(cursor)) == cursor
    assert json_codec.loads(CursorValue, json_codec.dumps(at)) == at
    assert cursor.order(json_codec.loads(CursorValue, json_codec.dumps(at))) == cursor.order(at)
