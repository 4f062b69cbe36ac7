"""Zone-less columns: which wall-clock text an instant has at the source, and the earliest that can still be written.

A wall clock is set back at the end of summer time. A bound on a zone-less column must lie below every value that is still to come, so
before such a change it waits at the hour that will be repeated. Applications that write UTC never notice.
"""

import re
import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError

_OFFSET: Final = re.compile(r"^([+-])(\d{1,2}):(\d\d)$")
_UTC_NAMES: Final = frozenset(("utc", "gmt", "uct", "zulu", "etc/utc", "etc/gmt", "+00:00", "-00:00"))
_QUARTER: Final = timedelta(minutes=15)
_HORIZON: Final = timedelta(hours=3)
"""No zone has ever been set back by more at once, but for changes of the date line."""

WallClock = Callable[[tuple[datetime, ...]], tuple[datetime, ...]]
"""Turns aware instants into the naive wall-clock times of one zone."""


def parse_zone(text: str) -> tzinfo | None:
    """Returns the zone of an IANA name or an offset such as `+08:00`; None for an unknown name."""
    if text.strip().lower() in _UTC_NAMES:
        return UTC
    if found := _OFFSET.match(text.strip()):
        minutes = int(found[2]) * 60 + int(found[3])
        return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    try:
        return zoneinfo.ZoneInfo(text.strip())
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def require_zone(text: str) -> tzinfo:
    """Returns the time zone of a pipeline's source.

    Raises:
        ConfigError: there is no such zone.
    """
    zone = parse_zone(text)
    if zone is None:
        raise ConfigError(
            f"{text!r} is not a time zone.",
            why=did_you_mean(text, zoneinfo.available_timezones()),
            data="Nothing was read.",
            next="Set 'time_zone' of the source to an IANA name such as Europe/Berlin or an offset such as +08:00.",
        )
    return zone


def clock_of(zone: tzinfo) -> WallClock:
    """Returns the wall clock of a known zone."""
    return lambda instants: tuple(instant.astimezone(zone).replace(tzinfo=None) for instant in instants)


def latest_so_far(instant: datetime, clock: WallClock) -> datetime:
    """Returns the greatest wall-clock time that the zone has shown up to the instant: more than its present one after it was set back."""
    quarter = instant.replace(minute=instant.minute // 15 * 15, second=0, microsecond=0)
    return max(clock((instant, *(quarter - _QUARTER * step - timedelta(microseconds=1) for step in range(_HORIZON // _QUARTER)))))


def same_clock(one: str, other: str, now: datetime) -> bool:
    """True if two names of zones surely or possibly show the same time all year; a name that nobody knows tells nothing.

    >>> same_clock("UTC", "+00:00", datetime(2026, 1, 1, tzinfo=UTC))
    True
    >>> same_clock("Europe/Berlin", "+01:00", datetime(2026, 1, 1, tzinfo=UTC))
    False
    """
    zones = parse_zone(one), parse_zone(other)
    if one == other or zones[0] is None or zones[1] is None:
        return True
    months = (now.replace(month=month, day=1) for month in range(1, 13))
    return all(month.astimezone(zones[0]).utcoffset() == month.astimezone(zones[1]).utcoffset() for month in months)


def earliest_to_come(instant: datetime, clock: WallClock) -> datetime:
    """Returns the least wall-clock time that the zone shows at the instant or later."""
    quarter = instant.replace(minute=instant.minute // 15 * 15, second=0, microsecond=0) + _QUARTER
    changes = tuple(quarter + _QUARTER * step for step in range(_HORIZON // _QUARTER))
    return min(clock((instant, *changes)))
