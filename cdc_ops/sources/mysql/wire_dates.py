"""Dates that are not plain: the year 0, zero, partial and impossible dates, as the server itself would count them. Pure.

The kernels take dates of the years 1 to 9999 that exist. The servers also store others, and give the year 0 no 29 February.
"""

import re
from calendar import monthrange
from datetime import date
from typing import Final

from cdc_ops.core.schema.server_types.mysql_types import UNSTORABLE_DAY, UNSTORABLE_MICROS

_DATE: Final = re.compile(rb"(\d{4})-(\d\d)-(\d\d)")
_DATE_TIME: Final = re.compile(rb"(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_DAYS_BEFORE_1970: Final = 719528
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY: Final = 86_400_000_000


def day_number(text: bytes) -> int:
    """Returns what TO_DAYS returns, or the mark of a date that does not exist.

    >>> day_number(b"0000-01-01"), day_number(b"1970-01-01"), day_number(b"2024-02-31")
    (1, 719528, -1)

    Raises:
        ValueError: the text is no date.
    """
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no date")
    year, month, day = (int(part) for part in found.groups())
    if not 1 <= month <= 12 or not 1 <= day <= (28 if (year, month) == (0, 2) else monthrange(year or 1, month)[1]):
        return UNSTORABLE_DAY
    if year:
        return date(year, month, day).toordinal() - _EPOCH + _DAYS_BEFORE_1970
    return date(1, month, day).timetuple().tm_yday  # of 365 days, as the year 1


def wall_clock_micros(text: bytes) -> int:
    """Returns microseconds since 1970 as the server counts them, or the mark of a date and time that does not exist.

    Raises:
        ValueError: the text is no date and time.
    """
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no date and time")
    days = day_number(found[1])
    if days == UNSTORABLE_DAY:
        return -UNSTORABLE_MICROS
    seconds = (int(found[2]) * 60 + int(found[3])) * 60 + int(found[4])
    return (days - _DAYS_BEFORE_1970) * _DAY + seconds * 1_000_000 + int((found[5] or b"").ljust(6, b"0"))


def instant_micros(text: bytes) -> int:
    """Returns microseconds since 1970 UTC, 0 for the zero TIMESTAMP.

    Raises:
        ValueError: the text is no date and time.
    """
    return 0 if text.startswith(b"0000-00-00 00:00:00") else wall_clock_micros(text)
