"""Wall clocks that are set back: a bound on a zone-less column stays below everything that is still to come."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.cursor.cursors import CursorColumn, CursorType
from cdc_ops.errors import ConfigError
from cdc_ops.sources.bounds.time_zones import clock_of, earliest_to_come, parse_zone, require_zone
from cdc_ops.sources.chunks.ranges import cut_integers

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
MINUTES = st.integers(0, 366 * 24 * 60).map(lambda minutes: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes))


@given(instant=MINUTES, later=st.integers(0, 10**9), zone=st.sampled_from(ZONES))
def test_no_later_wall_clock_time_is_before_the_earliest_to_come(instant: datetime, later: int, zone: str) -> None:
    clock = clock_of(ZoneInfo(zone))
    assert earliest_to_come(instant, clock) <= clock((instant + timedelta(microseconds=later),))[0]


@given(instant=MINUTES, step=st.integers(0, 300), zone=st.sampled_from(ZONES))
def test_the_earliest_to_come_never_goes_back(instant: datetime, step: int, zone: str) -> None:
    clock = clock_of(ZoneInfo(zone))
    assert earliest_to_come(instant, clock) <= earliest_to_come(instant + timedelta(minutes=step), clock)


def test_before_clocks_are_set_back_a_bound_waits_at_the_repeated_hour() -> None:
    clock = clock_of(ZoneInfo("Europe/Berlin"))
    first_pass = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)
    assert clock((first_pass,)) == (datetime(2024, 10, 27, 2, 30),)
    assert earliest_to_come(first_pass, clock) == datetime(2024, 10, 27, 2, 0)
    assert earliest_to_come(first_pass + timedelta(hours=1), clock) == datetime(2024, 10, 27, 2, 30)


def test_zones_are_read_by_name_and_offset() -> None:
    assert parse_zone("UTC") is UTC
    assert parse_zone("+00:00") is UTC
    assert parse_zone("-03:30").utcoffset(None) == timedelta(hours=-3, minutes=-30)  # type: ignore[union-attr]
    assert parse_zone("CEST") is None
    with pytest.raises(ConfigError, match="Did you mean 'Europe/Berlin'"):
        require_zone("Europe/Berlim")


@given(low=st.integers(-(2**64), 2**64), span=st.integers(0, 2**65), parts=st.integers(1, 50))
def test_borders_rise_and_lie_inside(low: int, span: int, parts: int) -> None:
    borders = cut_integers(low, low + span, parts)
    assert len(borders) < parts or parts == 1
    assert list(borders) == sorted(set(borders))
    assert all(low < border <= low + span for border in borders)


@given(value=st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1)), digits=st.integers(0, 6))
def test_a_moment_lies_between_its_floor_and_its_ceiling(value: datetime, digits: int) -> None:
    column = CursorColumn(name="at", type=CursorType.DATETIME, precision=digits)
    floor, ceiling = column.floor(value), column.ceil(value)
    assert floor <= value <= ceiling < floor + timedelta(seconds=1, microseconds=1)
    assert column.floor(floor) == floor
    assert column.ceil(ceiling) == ceiling
    assert column.moment(column.literal(floor)) == floor
