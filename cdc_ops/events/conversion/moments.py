"""Dates and times: the text of a server or tool -> days or microseconds since 1970, and such numbers -> the text that the source prints.

The calendar is the Gregorian one for all years. Texts of 4 digits of a year may have the year 0, which Python's own types have not.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from datetime import date as Date
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.core.schema.logical_types import LogicalType, fraction_digits, is_instant, logical_type_of, trims_fractions
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion import bulk
from cdc_ops.events.conversion.bulk import quick
from cdc_ops.events.format import UNREADABLE, UNSTORABLE, Read

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?")
_ZONED: Final = re.compile(
    r"([0-9]{4,6})-([0-9]{2})-([0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)"
)
_PRINTED: Final = re.compile(r"([0-9]{4,6}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?")
_TIME: Final = re.compile(r"(-?)([0-9]{1,3}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
_OFFSET: Final = re.compile(r"([+-])([0-9]{1,2}):([0-9]{2})")
_EPOCH: Final = datetime(1970, 1, 1)
_FIRST_DAY: Final = Date(1970, 1, 1).toordinal()
_DAY: Final = 86_400_000_000
_CYCLE: Final = 146_097
"""Days of 400 years, after which the calendar repeats itself."""
_LARGEST: Final = 2**63 - 1
_INSTANT: Final = pa.timestamp("us", tz="UTC")
_MOST_MINUTES: Final = 18 * 60
"""The largest offset of a zone."""


def date(text: str) -> Any:
    """Reads dates as the servers print them; 0000-00-00 and 2024-02-31 are unstorable.

    >>> date("1970-01-02"), date("2024-02-31"), date("2024-2-3")
    (1, <NoValue.UNSTORABLE: 'unstorable'>, <NoValue.UNREADABLE: 'unreadable'>)
    """
    if not _DATE.fullmatch(text):
        return UNREADABLE
    try:
        return Date.fromisoformat(text).toordinal() - _FIRST_DAY
    except ValueError:
        days = _days(int(text[:4]), int(text[5:7]), int(text[8:10]))
        return UNSTORABLE if days is None else days


quick(date, bulk.matching(_DATE.pattern).then(lambda found: bulk.days(found.cast(pa.date32()))))


def _days(year: int, month: int, day: int) -> int | None:
    """Returns the day of any year as days since 1970, None if there is none."""
    cycles, rest = divmod(year, 400)
    try:
        return Date(2000 + rest, month, day).toordinal() - _FIRST_DAY + (cycles - 5) * _CYCLE
    except ValueError:
        return None


def wall_clock(text: str) -> Any:
    """Reads local date and time, without a zone."""
    if not _DATE_TIME.fullmatch(text):
        return UNREADABLE
    try:
        passed = datetime.fromisoformat(text) - _EPOCH
    except ValueError:
        return _of_year_0(text)
    return passed.days * _DAY + passed.seconds * 1_000_000 + passed.microseconds


_WALL_CLOCKS: Final = bulk.matching(_DATE_TIME.pattern).then(lambda found: bulk.moments(found.cast(pa.timestamp("us"))))
quick(wall_clock, _WALL_CLOCKS)


def _of_year_0(text: str) -> Any:
    if text[:4] != "0000":
        return UNSTORABLE
    later = wall_clock(f"0400{text[4:]}")
    return later if later is UNSTORABLE else later - _CYCLE * _DAY


def instant(zone: str) -> Read:
    """Returns what reads instants that are written as local time of a zone.

    Where clocks were set forward, a time that they skipped is counted as if they had not been; of one shown twice, it is the first.

    Args:
        zone: `UTC`, an offset such as `+08:00`, or a region.
    """
    known = _zone(zone)
    if known is None:
        return lambda text: UNSTORABLE if _DATE_TIME.fullmatch(text) else UNREADABLE
    fixed = known.utcoffset(None)
    if fixed is not None:
        return _at_offset(fixed // timedelta(microseconds=1))

    def read(text: str) -> Any:
        if not _DATE_TIME.fullmatch(text):
            return UNREADABLE
        try:
            local = datetime.fromisoformat(text)
        except ValueError:
            local_micros, offset = _of_year_0(text), known.utcoffset(_EPOCH.replace(year=1))
            if local_micros is UNSTORABLE:
                return UNSTORABLE
        else:
            passed, offset = local - _EPOCH, known.utcoffset(local)
            local_micros = passed.days * _DAY + passed.seconds * 1_000_000 + passed.microseconds
        assert offset is not None
        return local_micros - (offset.days * 86_400 + offset.seconds) * 1_000_000

    return read


def _at_offset(offset: int) -> Read:
    def read(text: str) -> Any:
        local = wall_clock(text)
        return local - offset if local.__class__ is int else local

    return quick(read, _WALL_CLOCKS.then(lambda found: pc.subtract(found.cast(pa.int64()), offset).view(_INSTANT)))


@cache
def _zone(zone: str) -> tzinfo | None:
    """Returns a zone; None if there is none of this name."""
    if zone == "UTC":
        return UTC
    found = _OFFSET.fullmatch(zone)
    if found is None:
        try:
            return ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            return None
    minutes = int(found[2]) * 60 + int(found[3])
    if minutes > _MOST_MINUTES or int(found[3]) > 59:
        return None
    return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))


def zoned_instant(text: str) -> Any:
    """Reads instants with an offset, as ISO 8601 prints them.

    >>> zoned_instant("1970-01-01T02:00:00.5+02:00"), zoned_instant("2024-02-30T00:00:00Z")
    (500000, <NoValue.UNREADABLE: 'unreadable'>)
    """
    found = _ZONED.fullmatch(text)
    if found is None:
        return UNREADABLE
    year, month, day, hour, minute, second = (int(found[part]) for part in range(1, 7))
    days, minutes = _days(year, month, day), 0
    if found[8]:
        minutes = int(found[9]) * 60 + int(found[10] or 0)
    if days is None or hour > 23 or minute > 59 or second > 59 or minutes > _MOST_MINUTES or int(found[10] or 0) > 59:
        return UNREADABLE
    local = days * _DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((found[7] or "").ljust(6, "0")[:6])
    micros = local + minutes * 60_000_000 if found[8] == "-" else local - minutes * 60_000_000
    return micros if -_LARGEST <= micros <= _LARGEST else UNREADABLE


INSTANTS_IN_UTC: Final = bulk.matching(f"{_DATE_TIME.pattern}Z").then(lambda found: bulk.moments(found.cast(_INSTANT), "UTC"))
"""Reads many instants that end with `Z`."""
quick(zoned_instant, INSTANTS_IN_UTC)


def moment_of_micros(column: Column) -> Callable[[int], Any]:
    """Returns what makes the stored date, local time or instant of microseconds since 1970, or the text that the source prints."""
    match logical_type_of(column):
        case LogicalType.DATE:
            return lambda micros: micros // _DAY
        case LogicalType.MOMENT_TEXT:
            return moment_text(column)
        case _:
            return lambda micros: micros


def moment_text(column: Column) -> Callable[[int], str]:
    """Returns what prints microseconds since 1970 as date and time, as the source does.

    >>> print(moment_text(Column(name="c", source_type="datetime(3)", delta_type="string", nullable=True, expression=""))(1500000))
    1970-01-01 00:00:01.500
    """
    fraction = _fraction(column)

    def printed(micros: int) -> str:
        days, rest = divmod(micros, _DAY)
        seconds, part = divmod(rest, 1_000_000)
        return f"{_day_text(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction(f'{part:06}')}"

    return printed


def _day_text(days: int) -> str:
    cycles, rest = divmod(days + _FIRST_DAY - 1, _CYCLE)
    found = Date.fromordinal(rest + 1)
    year = found.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{found.month:02}-{found.day:02}"


def printed_moment(column: Column) -> Callable[[str], str]:
    """Returns what prints the text of a date or time with as many digits of a second as the source prints, however many were written.

    So no text has two forms. What is none, and what has a zone, stays as it is.
    """
    if DeclaredType.parse(column.source_type).base == "date":
        return quick(lambda text: text, bulk.TEXTS)
    fraction = _fraction(column)

    def printed(text: str) -> str:
        found = _PRINTED.fullmatch(text)
        return text if found is None else found[1] + fraction((found[2] or "").ljust(6, "0"))

    return quick(printed, bulk.matching(f"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}} [0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{_printed_fraction(column)}"))


def kept_moment(column: Column, zone: str) -> Callable[[str], str]:
    """Returns what prints the text of a date or time as the source does in UTC: an instant is written in the tool's zone.

    What is none stays.
    """
    printed = printed_moment(column)
    if not is_instant(column):
        return printed
    suffix = "+00" if column.source_type.lower().endswith("with time zone") else ""
    micros_of, text_of = instant(zone or "UTC"), moment_text(column)

    def kept(text: str) -> str:
        micros = micros_of(text)
        return text_of(micros) + suffix if micros.__class__ is int else printed(text)

    return kept


def time(column: Column) -> Read:
    """Returns what reads times and prints them as the source does, with the column's digits of a second; negative and long ones too."""
    fraction = _fraction(column)

    def read(text: str) -> Any:
        found = _TIME.fullmatch(text)
        if found is None:
            return UNREADABLE
        sign, hours, minutes, seconds, part = found.groups("")
        return f"{sign}{hours.rjust(2, '0')}:{minutes}:{seconds}{fraction(part.ljust(6, '0'))}"

    return quick(read, bulk.matching(f"-?[0-9]{{2,3}}:[0-9]{{2}}:[0-9]{{2}}{_printed_fraction(column)}"))


def times_of_micros(column: Column) -> Callable[[pa.Array], pa.Array]:
    """The same as `time_of_micros` for many, all of one day."""
    trims, length = trims_fractions(column), fraction_digits(column)

    def printed(micros: pa.Array) -> pa.Array:
        found = bulk.within(micros, 0, _DAY - 1).view(pa.time64("us")).cast(pa.string())
        if trims:
            return pc.utf8_rtrim(pc.utf8_rtrim(found, "0"), ".")
        return pc.utf8_slice_codeunits(found, 0, 8 + (length and length + 1))

    return printed


def time_of_micros(column: Column) -> Callable[[int], str]:
    """Returns what prints the microseconds of a time as the source does."""
    fraction = _fraction(column)

    def printed(micros: int) -> str:
        seconds, part = divmod(abs(micros), 1_000_000)
        sign = "-" if micros < 0 else ""
        return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction(f'{part:06}')}"

    return printed


def _fraction(column: Column) -> Callable[[str], str]:
    """Returns what prints six digits of a second with a point before them, as the source does."""
    if trims_fractions(column):
        return lambda six: f".{kept}" if (kept := six.rstrip("0")) else ""
    digits = fraction_digits(column)
    return (lambda six: f".{six[:digits]}") if digits else lambda _: ""


def _printed_fraction(column: Column) -> str:
    """Returns a pattern of the digits of a second that the source prints: a text with them is printed as it is."""
    if trims_fractions(column):
        return r"(?:\.[0-9]{0,5}[1-9])?"
    digits = fraction_digits(column)
    return rf"\.[0-9]{{{digits}}}" if digits else ""
