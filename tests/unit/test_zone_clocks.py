"""Wall clocks compared: which names of zones show the same time, and the latest time that a clock has shown."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.sources.bounds.time_zones import clock_of, latest_so_far, require_zone, same_clock

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("UTC", "+00:00", True),
        ("SYSTEM", "+08:00", True),
        ("Asia/Shanghai", "+08:00", True),
        ("Europe/Berlin", "Europe/Paris", True),
        ("Europe/Berlin", "+01:00", False),
        ("UTC", "Europe/London", False),
        ("UTC", "-05:00", False),
    ],
)
def test_zones_are_different_only_where_that_is_sure(one: str, other: str, same: bool) -> None:
    assert same_clock(one, other, NOW) is same
    assert same_clock(other, one, NOW) is same


@given(
    instant=st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2027, 1, 1), timezones=st.just(UTC)),
    earlier=st.integers(0, 2 * 60),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
)
def test_no_earlier_wall_clock_time_is_after_the_latest_so_far(instant: datetime, earlier: int, zone: str) -> None:
    clock = clock_of(require_zone(zone))
    latest = latest_so_far(instant, clock)
    assert latest >= clock((instant,))[0]
    assert latest >= clock((instant - timedelta(minutes=earlier),))[0]


def test_an_hour_that_is_repeated_is_not_in_the_future() -> None:
    clock = clock_of(require_zone("Europe/Berlin"))
    set_back = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)
    assert latest_so_far(set_back + timedelta(minutes=5), clock) == datetime(2026, 10, 25, 2, 59, 59, 999999)
