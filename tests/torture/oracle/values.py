"""Values in the one form in which both sides are compared."""

import datetime
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from tests.torture.model import Canon

_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()


def days_of(text: str) -> int | None:
    """Returns the day number of a date that the server printed, None for what is no day of the calendar."""
    if not text.startswith("-") and "-" not in text:
        return int(text)
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        year, month, day = map(int, text.split("-"))
        return datetime.date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None


def micros_of(text: str) -> int | None:
    """Returns the microseconds since 1970 of a time that the server printed, None for what is none."""
    if text.lstrip("-").isdigit():
        return int(text)
    date, _, rest = text.partition(" ")
    days = days_of(date)
    if days is None:
        return None
    hours, minutes, seconds = rest.split(":")
    whole, _, part = seconds.partition(".")
    return ((days * 24 + int(hours)) * 60 + int(minutes)) * 60_000_000 + int(whole) * 1_000_000 + int(part.ljust(6, "0") or 0)


def _float(text: str, code: str, *, hexed: bool) -> bytes:
    """Returns the bits, of their hexadecimal digits or of a number; NaN is one value."""
    return packed(struct.unpack(f">{code}", bytes.fromhex(text))[0] if hexed else float(text), code)


def packed(value: float, code: str) -> bytes:
    return b"NaN" if math.isnan(value) else struct.pack(f">{code}", value)


def from_source(canon: Canon, *, hexed: bool) -> Callable[[str], Any]:
    """Returns what makes of the server's text the value that is compared; `hexed` for texts that came as hexadecimal digits."""
    return {
        Canon.INTEGER: int,
        Canon.DECIMAL: Decimal,
        Canon.FLOAT: lambda text: _float(text, "f", hexed=hexed),
        Canon.DOUBLE: lambda text: _float(text, "d", hexed=hexed),
        Canon.BOOLEAN: lambda text: text in ("true", "t", "1"),
        Canon.TEXT: (lambda text: bytes.fromhex(text).decode()) if hexed else str,
        Canon.BYTES: bytes.fromhex,
        Canon.DAYS: days_of,
        Canon.MICROS: micros_of,
    }[canon]


def from_lake(stored: str) -> Callable[[Any], Any]:
    """Returns what makes of a value that Arrow read the value that is compared, by the type in the Delta schema."""
    if stored == "float":
        return lambda value: packed(value, "f")
    if stored == "double":
        return lambda value: packed(value, "d")
    return lambda value: value
