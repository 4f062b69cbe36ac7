"""Values of binlog rows that are not texts: numbers, decimals, dates and times. Numba functions that kernels call.

Each takes the buffer and the place of the value, whose bytes are there, and returns the value and whether it is plain.
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Final

import numpy as np

from cdc_ops.decode.binlog.bytes_of_events import big_endian, u16, u24, u32, word
from cdc_ops.decode.compiler import Bytes, helper
from cdc_ops.decode.plain.times import DAY, days_of_month, days_since_1970

_DIGITS_OF_GROUP: Final = 9
_BYTES_OF_DIGITS: Final = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], np.int64)
_POWERS: Final = 10 ** np.arange(10, dtype=np.uint64)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_SIGN_BIT: Final = 0x80
_DATETIME_ZERO: Final = 0x8000000000


@helper
def signed(data: Bytes, at: int, size: int) -> int:
    """Reads a signed integer of 1, 2, 3, 4 or 8 bytes."""
    if size == 1:
        return np.int64(np.int8(data[at]))
    if size == 2:
        return np.int64(np.int16(u16(data, at)))
    if size == 3:
        return (u24(data, at) ^ 0x800000) - 0x800000
    return np.int64(np.int32(u32(data, at))) if size == 4 else word(data, at)


@helper
def natural(data: Bytes, at: int, size: int) -> int:
    """Reads an unsigned integer of 1, 2, 3, 4 or 8 bytes; one above 2^63 comes out negative."""
    if size == 1:
        return np.int64(data[at])
    if size == 2:
        return u16(data, at)
    if size == 3:
        return u24(data, at)
    return u32(data, at) if size == 4 else word(data, at)


@helper
def fits(value: int, width: int) -> bool:
    """True if a signed integer fits into so many bytes."""
    if width == 8:
        return True
    limit = np.int64(1) << (8 * width - 1)
    return -limit <= value < limit


@helper
def _times(low: np.uint64, high: np.uint64, by: np.uint64, plus: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Returns a number of 128 bits, times one of 32 bits, plus another."""
    first = (low & _LOW_HALF) * by + plus
    second = (low >> _HALF) * by + (first >> _HALF)
    return (second << _HALF) | (first & _LOW_HALF), high * by + (second >> _HALF)


@helper
def _group(data: Bytes, at: int, size: int, flip: int, first: bool) -> np.uint64:
    """Reads a group of digits; the sign is the highest bit of the first one, and inverts all others."""
    value = np.int64(0)
    for place in range(at, at + size):
        byte = np.int64(data[place]) ^ flip
        if first and place == at:
            byte ^= _SIGN_BIT
        value = value << 8 | byte
    return np.uint64(value)


@helper
def decimal(data: Bytes, at: int, precision: int, scale: int) -> tuple[int, int, bool]:
    """Reads a DECIMAL of at most 38 digits: the low and the high 64 bits of its unscaled value, two's complement."""
    negative = not data[at] & _SIGN_BIT
    flip = 0xFF if negative else 0
    low, high = np.uint64(0), np.uint64(0)
    place, plain = at, True
    for part in range(2):
        digits = precision - scale if part == 0 else scale
        full, rest = digits // _DIGITS_OF_GROUP, digits % _DIGITS_OF_GROUP
        for number in range(full + 1):
            # The group that is not full stands first before the point, and last behind it.
            own = rest if number == (0 if part == 0 else full) else _DIGITS_OF_GROUP
            if own == 0:
                continue
            size = _BYTES_OF_DIGITS[own]
            value = _group(data, place, size, flip, place == at)
            plain = plain and value < _POWERS[own]
            low, high = _times(low, high, _POWERS[own], value)
            place += size
    if negative:
        low = ~low + np.uint64(1)
        high = ~high + (np.uint64(1) if low == np.uint64(0) else np.uint64(0))
    return np.int64(low), np.int64(high), plain


@helper
def date(data: Bytes, at: int) -> tuple[int, bool]:
    """Reads a DATE: days since 1970; zero dates and days that do not exist are not plain."""
    packed = u24(data, at)
    year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
    if year < 1 or year > 9999 or day < 1 or day > days_of_month(year, month):
        return 0, False
    return days_since_1970(year, month, day), True


@helper
def fraction(data: Bytes, at: int, digits: int) -> int:
    """Reads a fraction of a second of 0 to 6 digits: microseconds, a million or more if it is none."""
    if digits == 0:
        return 0
    if digits <= 2:
        return np.int64(data[at]) * 10_000
    return big_endian(data, at, 2) * 100 if digits <= 4 else big_endian(data, at, 3)


@helper
def date_time(data: Bytes, at: int, digits: int) -> tuple[int, bool]:
    """Reads a DATETIME of MySQL 5.6 and later: microseconds since 1970 of its own clock."""
    packed = big_endian(data, at, 5) - _DATETIME_ZERO
    micros = fraction(data, at + 5, digits)
    if packed <= 0 or micros >= 1_000_000:
        return 0, False
    months, day = packed >> 22, packed >> 17 & 31
    year, month = months // 13, months % 13
    hour, minute, second = packed >> 12 & 31, packed >> 6 & 63, packed & 63
    if year < 1 or year > 9999 or day < 1 or day > days_of_month(year, month) or hour > 23 or minute > 59 or second > 59:
        return 0, False
    return days_since_1970(year, month, day) * DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros, True


@helper
def instant(data: Bytes, at: int, digits: int) -> tuple[int, bool]:
    """Reads a TIMESTAMP of MySQL 5.6 and later: microseconds since 1970 in UTC; 0 stands for a zero date."""
    seconds, micros = big_endian(data, at, 4), fraction(data, at + 4, digits)
    return seconds * 1_000_000 + micros, seconds > 0 and micros < 1_000_000
