"""Where late rows are looked for, how far below they lay, and what the operator is told."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.cursor.late_rows import MOST_NUMBERS, NONE_LATE, LateRows, advice, commit_lag, deepest, lookback_low, measured

AT = Cursor(columns=(CursorColumn(name="at", type=CursorType.TIMESTAMP, precision=6), CursorColumn(name="id", type=CursorType.INTEGER)))
ID = Cursor(columns=(CursorColumn(name="id", type=CursorType.INTEGER),))
NOON = CursorValue(parts=("2026-01-31 12:00:00.000000",))
HALF_A_MINUTE = timedelta(seconds=30)


def number(value: int) -> CursorValue:
    return CursorValue(parts=(str(value),))


def test_the_band_of_a_time_is_as_long_as_the_lookback() -> None:
    assert lookback_low(AT, NOON, HALF_A_MINUTE) == CursorValue(parts=("2026-01-31 11:59:30.000000",))


@pytest.mark.parametrize("cursor", [AT, ID])
def test_without_a_lookback_there_is_no_band(cursor: Cursor) -> None:
    assert lookback_low(cursor, NOON, timedelta(0)) is None


@given(st.integers(0, 10**20), st.integers(0, 10**6))
def test_the_band_of_a_counter_is_the_last_window_but_never_long(watermark: int, length: int) -> None:
    low = lookback_low(ID, number(watermark), HALF_A_MINUTE, number(watermark - length))
    assert low == number(watermark - min(length, MOST_NUMBERS))
    assert lookback_low(ID, number(watermark), HALF_A_MINUTE) == number(watermark - MOST_NUMBERS)


@given(st.integers(1, 10**9))
def test_a_late_rows_distance_is_exact(microseconds: int) -> None:
    oldest = AT.shifted(NOON, -timedelta(microseconds=microseconds)).parts[0]
    late = measured(AT, 3, oldest, NOON)
    assert commit_lag(AT, late) == timedelta(microseconds=microseconds)
    assert late.rows == 3


def test_no_row_is_no_lag_and_no_advice() -> None:
    assert measured(AT, 0, "", NOON) is NONE_LATE
    assert commit_lag(AT, NONE_LATE) is None
    assert advice(AT, NONE_LATE, HALF_A_MINUTE) == ""


def test_several_operations_have_the_sum_of_rows_and_the_deepest_of_all() -> None:
    assert deepest((LateRows(rows=1, oldest="a", below=5), LateRows(rows=2, oldest="b", below=9), NONE_LATE)) == LateRows(
        rows=3, oldest="b", below=9
    )
    assert deepest(()) == NONE_LATE


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(20, "Set 'lookback' to at least 40s"), (45, "Set 'lookback' to at least 2m"), (10, "'lookback' is long enough for these")],
)
def test_the_advice_is_a_lookback_of_twice_the_lag(seconds: int, said: str) -> None:
    late = measured(AT, 2, AT.shifted(NOON, -timedelta(seconds=seconds)).parts[0], NOON)
    text = advice(AT, late, HALF_A_MINUTE)
    assert said in text
    assert f"{seconds}.000 s below" in text
    assert text.startswith("2 late rows were found below the watermark and merged")


def test_a_counters_advice_counts_numbers() -> None:
    late = measured(ID, 1, "93", number(100))
    assert commit_lag(ID, late) is None
    assert "1 late row was found below the watermark and merged, the oldest at 93, 7 numbers below it" in advice(ID, late, HALF_A_MINUTE)
