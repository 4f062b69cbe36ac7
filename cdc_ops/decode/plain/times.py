"""Plain texts of dates and times, of the proleptic Gregorian calendar, years 1 to 9999. Numba functions that a kernel calls.

date         YYYY-MM-DD
date-time    YYYY-MM-DD HH:MM:SS[.f], with the separator that is asked for, 1 to 6 digits behind the point, 00 to 59 seconds
instant      the same, followed by Z or +HH:MM or -HH:MM, at most 18 hours
"""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

import numpy as np

from cdc_ops.decode.compiler import Bytes, helper

DAY = 86_400_000_000
"""Microseconds of a day."""


@helper
def _two_digits(data: Bytes, at: int) -> int:
    """Returns the number of two digits, or one above 99."""
    first = np.uint64(data[at]) - np.uint64(48)
    second = np.uint64(data[at + 1]) - np.uint64(48)
    if first > np.uint64(9) or second > np.uint64(9):
        return 100
    return np.int64(first * np.uint64(10) + second)


@helper
def days_of_month(year: int, month: int) -> int:
    """Returns how many days a month has, 0 for a month that does not exist."""
    if month < 1 or month > 12:
        return 0
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@helper
def days_since_1970(year: int, month: int, day: int) -> int:
    """Returns the number of a day of the proleptic Gregorian calendar; 1970-01-01 is 0."""
    shifted = year - 1 if month <= 2 else year
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@helper
def plain_date(data: Bytes, start: int, end: int) -> tuple[int, bool]:
    """Reads a date; returns its number of days since 1970-01-01."""
    if end - start != 10 or data[start + 4] != 45 or data[start + 7] != 45:
        return 0, False
    century, year = _two_digits(data, start), _two_digits(data, start + 2)
    month, day = _two_digits(data, start + 5), _two_digits(data, start + 8)
    if century > 99 or year > 99:
        return 0, False
    year += 100 * century
    if year < 1 or day < 1 or day > days_of_month(year, month):
        return 0, False
    return days_since_1970(year, month, day), True


@helper
def _fraction(data: Bytes, start: int, end: int) -> tuple[int, bool]:
    """Reads what follows the seconds: nothing, or a point and 1 to 6 digits; returns microseconds."""
    if start == end:
        return 0, True
    if data[start] != 46 or not 2 <= end - start <= 7:
        return 0, False
    value = 0
    for place in range(start + 1, end):
        digit = np.uint64(data[place]) - np.uint64(48)
        if digit > np.uint64(9):
            return 0, False
        value = value * 10 + np.int64(digit)
    for _ in range(7 - (end - start)):
        value *= 10
    return value, True


@helper
def plain_date_time(data: Bytes, start: int, end: int, separator: int) -> tuple[int, bool]:
    """Reads a date and time without a zone; returns its microseconds since 1970-01-01 00:00:00.

    `separator` is the sign between the two, e.g. 32 for a blank and 84 for `T`.
    """
    if end - start < 19 or data[start + 10] != separator or data[start + 13] != 58 or data[start + 16] != 58:
        return 0, False
    days, taken = plain_date(data, start, start + 10)
    hour, minute, second = _two_digits(data, start + 11), _two_digits(data, start + 14), _two_digits(data, start + 17)
    if not taken or hour > 23 or minute > 59 or second > 59:
        return 0, False
    micros, taken = _fraction(data, start + 19, end)
    return days * DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros, taken


@helper
def plain_instant(data: Bytes, start: int, end: int, separator: int) -> tuple[int, bool]:
    """Reads a date and time with its offset from UTC; returns its microseconds since 1970-01-01 00:00:00 UTC."""
    if end - start < 20:
        return 0, False
    if data[end - 1] == 90:
        return plain_date_time(data, start, end - 1, separator)
    sign = data[end - 6]
    if end - start < 25 or sign not in (43, 45) or data[end - 3] != 58:
        return 0, False
    hours, minutes = _two_digits(data, end - 5), _two_digits(data, end - 2)
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        return 0, False
    local, taken = plain_date_time(data, start, end - 6, separator)
    offset = (hours * 60 + minutes) * 60_000_000
    return local + offset if sign == 45 else local - offset, taken
