"""Dates and times of rows, as exact values; what Python's own types cannot hold stays a text of the server's form.

    bytes at a position -> read_date, read_datetime, ... -> date | datetime | timedelta | OddDate

MySQL stores dates that do not exist: 0000-00-00, days and months of 0, and with ALLOW_INVALID_DATES the 31st of any month. They become an
`OddDate`, which no comparison takes for a date.
"""

import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FRACTION_BYTES: Final = (0, 1, 1, 2, 2, 3, 3)
_MICROS_OF: Final = (0, 10_000, 10_000, 100, 100, 1, 1)
"""What the number of a fraction counts, in microseconds, by its digits."""
_U32_LITTLE: Final = struct.Struct("<I")
_U64_LITTLE: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class OddDate:
    """A date or an instant that no calendar has, in the form in which the server shows it.

    >>> OddDate("2024-02-30").text
    '2024-02-30'
    """

    text: str


def read_date(data: bytes, at: int) -> tuple[date | OddDate, int]:
    """Reads a DATE: 3 bytes with 15 bits of the year, 4 of the month, 5 of the day."""
    packed = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    return _date(packed >> 9, packed >> 5 & 15, packed & 31), at + 3


def read_datetime(data: bytes, at: int, digits: int) -> tuple[datetime | OddDate, int]:
    """Reads a DATETIME with `digits` of fractions: 5 bytes with the highest first, 2^39 added, and the fraction."""
    packed = int.from_bytes(data[at : at + 5], "big") - 0x8000000000
    micros, at = _micros(data, at + 5, digits)
    if packed < 0:
        raise ValueError("a DATETIME is negative")
    year, month = divmod(packed >> 22, 13)
    return _datetime((year, month, packed >> 17 & 31, packed >> 12 & 31, packed >> 6 & 63, packed & 63), micros, digits), at


def read_timestamp(data: bytes, at: int, digits: int) -> tuple[datetime | OddDate, int]:
    """Reads a TIMESTAMP with `digits` of fractions: seconds since 1970 in UTC, the highest byte first, and the fraction."""
    seconds = int.from_bytes(data[at : at + 4], "big")
    micros, at = _micros(data, at + 4, digits)
    return _instant(seconds, micros, digits), at


def read_time(data: bytes, at: int, digits: int) -> tuple[timedelta, int]:
    """Reads a TIME with `digits` of fractions: one number with the highest byte first, half of its range added."""
    size = 3 + _FRACTION_BYTES[digits]
    bits = (size - 3) * 8
    packed = int.from_bytes(data[at : at + size], "big") - (0x800000 << bits)
    if len(data) < at + size:
        raise IndexError("a TIME ends early")
    sign = -1 if packed < 0 else 1
    whole, fraction = divmod(abs(packed), 1 << bits)
    hours, minutes, seconds = whole >> 12 & 0x3FF, whole >> 6 & 63, whole & 63
    return sign * timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=fraction * _MICROS_OF[digits]), at + size


def read_old_datetime(data: bytes, at: int) -> tuple[datetime | OddDate, int]:
    """Reads a DATETIME of a table from before MySQL 5.6: the decimal number YYYYMMDDhhmmss."""
    day, clock = divmod(_U64_LITTLE.unpack_from(data, at)[0], 1_000_000)
    parts = (day // 10_000, day // 100 % 100, day % 100, clock // 10_000, clock // 100 % 100, clock % 100)
    return _datetime(parts, 0, 0), at + 8


def read_old_timestamp(data: bytes, at: int) -> tuple[datetime | OddDate, int]:
    """Reads a TIMESTAMP of a table from before MySQL 5.6: seconds since 1970 in UTC."""
    return _instant(_U32_LITTLE.unpack_from(data, at)[0], 0, 0), at + 4


def read_old_time(data: bytes, at: int) -> tuple[timedelta, int]:
    """Reads a TIME of a table from before MySQL 5.6: the decimal number hhmmss, with its sign."""
    if len(data) < at + 3:
        raise IndexError("a TIME ends early")
    packed = int.from_bytes(data[at : at + 3], "little", signed=True)
    sign, clock = (-1 if packed < 0 else 1), abs(packed)
    return sign * timedelta(hours=clock // 10_000, minutes=clock // 100 % 100, seconds=clock % 100), at + 3


def fraction_text(micros: int, digits: int) -> str:
    """Returns a fraction of a second with its point, as the server shows it; nothing without digits."""
    return f".{micros:06d}"[: digits + 1] if digits else ""


def _micros(data: bytes, at: int, digits: int) -> tuple[int, int]:
    size = _FRACTION_BYTES[digits]
    if len(data) < at + size:
        raise IndexError("a value ends early")
    return int.from_bytes(data[at : at + size], "big") * _MICROS_OF[digits], at + size


def _date(year: int, month: int, day: int) -> date | OddDate:
    try:
        return date(year, month, day)
    except ValueError:
        return OddDate(f"{year:04d}-{month:02d}-{day:02d}")


def _datetime(parts: tuple[int, int, int, int, int, int], micros: int, digits: int) -> datetime | OddDate:
    year, month, day, hour, minute, second = parts
    try:
        return datetime(year, month, day, hour, minute, second, micros)
    except ValueError:
        clock = f"{hour:02d}:{minute:02d}:{second:02d}{fraction_text(micros, digits)}"
        return OddDate(f"{year:04d}-{month:02d}-{day:02d} {clock}")


def _instant(seconds: int, micros: int, digits: int) -> datetime | OddDate:
    """0 stands for 0000-00-00: the first second of 1970 cannot be stored."""
    if seconds == 0:
        return OddDate(f"0000-00-00 00:00:00{fraction_text(micros, digits)}")
    return _EPOCH + timedelta(seconds=seconds, microseconds=micros)
