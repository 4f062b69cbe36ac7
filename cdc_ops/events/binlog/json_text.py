"""The text of a JSON document as MySQL shows it: `{"a": 1, "b": [1.5, "x"]}`.

MySQL sorts the members of an object by length and then by bytes, writes a blank behind colons and commas, doubles with the fewest digits
that tell them apart, and dates, times and bytes as texts.
"""

import base64
import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Union

Json = Union[None, bool, int, float, Decimal, str, "Opaque", list["Json"], dict[str, "Json"]]

_DATE, _TIME, _TIMESTAMP, _DATETIME = 10, 11, 7, 12
_LARGEST_PLAIN: Final = 15
"""Doubles whose point is further from their digits are written with an exponent."""
_DIGITS: Final = re.compile(r"(-?)(\d)(?:\.(\d+))?e([+-]\d+)")


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that JSON has no type for.

    Args:
        kind: MySQL's number of its type.
        raw: Its bytes.
    """

    kind: int
    raw: bytes


def text_of(value: Json) -> str:
    """Returns the text of a tree.

    Raises:
        ValueError: an opaque value does not fit its type.
    """
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case str():
            return _quoted(value)
        case Decimal():
            return f"{value:f}"
        case int():
            return str(value)
        case float():
            return double_text(value)
        case Opaque():
            return _opaque_text(value)
        case list():
            return "[" + ", ".join(map(text_of, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{_quoted(name)}: {text_of(member)}" for name, member in value.items()) + "}"


def double_text(value: float) -> str:
    """Returns a double as MySQL writes it in JSON.

    >>> double_text(1.0), double_text(1e20), double_text(1e-05)
    ('1.0', '1e20', '0.00001')
    """
    if not math.isfinite(value):
        raise ValueError("JSON has no such number")
    sign, first, others, exponent = _DIGITS.fullmatch(_scientific(value)).groups()  # type: ignore[union-attr]
    digits, point = first + (others or ""), int(exponent) + 1
    digits = digits.rstrip("0") or "0"
    if digits == "0":
        return f"{sign}0.0"
    if not 1 - _LARGEST_PLAIN <= point <= _LARGEST_PLAIN:
        return f"{sign}{digits[0]}{'.' + digits[1:] if len(digits) > 1 else ''}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


def _scientific(value: float) -> str:
    """Returns the fewest digits that tell a double apart, with one before the point."""
    shortest = repr(value)
    mantissa, _, exponent = shortest.partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) if whole.strip("0") else len(digits) - len(fraction) + int(exponent or 0)
    digits = digits or "0"
    return f"{'-' if shortest.startswith('-') else ''}{digits[0]}.{digits[1:] or '0'}e{point - 1:+d}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\\u007f", "\x7f")


def _opaque_text(value: Opaque) -> str:
    match value.kind:
        case 10 | 7 | 12:
            return f'"{_instant(_packed(value.raw), only_date=value.kind == _DATE)}"'
        case 11:
            return f'"{_time(_packed(value.raw))}"'
        case kind:
            return _quoted(f"base64:type{kind}:{base64.b64encode(value.raw).decode('ascii')}")


def _packed(raw: bytes) -> int:
    if len(raw) != 8:
        raise ValueError(f"a date of a JSON document has {len(raw)} bytes")
    return int.from_bytes(raw, "little", signed=True)


def _instant(packed: int, *, only_date: bool) -> str:
    """A date and time: 17 bits of year and month, then day, hour, minute, second, and 24 bits of microseconds."""
    whole, micros = packed >> 24, packed & 0xFFFFFF
    year, month = divmod(whole >> 22, 13)
    text = f"{year:04d}-{month:02d}-{whole >> 17 & 31:02d}"
    if only_date:
        return text
    return f"{text} {whole >> 12 & 31:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}.{micros:06d}"


def _time(packed: int) -> str:
    sign, packed = ("-" if packed < 0 else ""), abs(packed)
    whole, micros = packed >> 24, packed & 0xFFFFFF
    return f"{sign}{whole >> 12 & 0x3FF:02d}:{whole >> 6 & 63:02d}:{whole & 63:02d}.{micros:06d}"
