"""The values of DTS's Avro records: each is of one of a dozen types, and is printed as the server does."""

from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.json_text import is_null, text_of
from cdc_ops.events.conversion.moments import moment_text
from cdc_ops.events.said import Bigint, Int

CHARACTER, BYTES, TEXT, _UNKNOWN = "Character", "BinaryObject", "text", "unknown"
"""How a text is encoded: as bytes in a charset, as bytes, or not at all."""
_DATE, _TIME, _YEAR = 10, 11, 13
"""MySQL's type numbers."""
_PRINTED: Final = moment_text(Column(name="c", source_type="timestamp(6)", delta_type="string", nullable=True, expression=""))


class _Text(msgspec.Struct):
    value: Raw = Raw()


class _Characters(msgspec.Struct):
    charset: Raw = Raw()
    value: Raw = Raw()


class _Timestamp(msgspec.Struct):
    timestamp: Bigint | None = None
    millis: Bigint | None = None


class _DateTime(msgspec.Struct):
    year: Int | None = None
    month: Int | None = None
    day: Int | None = None
    hour: Int | None = None
    minute: Int | None = None
    second: Int | None = None
    millis: Int | None = None


class Value(msgspec.Struct):
    """A value of a record."""

    integer: _Text | None = msgspec.field(default=None, name="member_Integer")
    decimal: _Text | None = msgspec.field(default=None, name="member_Decimal")
    float: _Text | None = msgspec.field(default=None, name="member_Float")
    characters: _Characters | None = msgspec.field(default=None, name="member_Character")
    text: _Text | None = msgspec.field(default=None, name="member_TextObject")
    content: _Text | None = msgspec.field(default=None, name="member_BinaryObject")
    timestamp: _Timestamp | None = msgspec.field(default=None, name="member_Timestamp")
    date_time: _DateTime | None = msgspec.field(default=None, name="member_DateTime")
    empty: Raw = msgspec.field(default=Raw(), name="member_EmptyObject")


class Entry(NamedTuple):
    """A column of an image.

    Args:
        name: Of the column.
        text: Its value, None for NULL.
        kind: How the text is encoded; "" for NULL.
        charset: Of a text in bytes, "" for none.
        is_missing: The record does not have the column.
    """

    name: str
    text: str | None
    kind: str
    charset: str = ""
    is_missing: bool = False


def entry_of(name: str, number: int | None, value: Value | None) -> Entry:
    """Returns the entry of a column.

    Args:
        name: Of the column.
        number: MySQL's number of its type.
        value: None for NULL.
    """
    if value is None:
        return Entry(name, None, "")
    is_missing, is_empty = text_of(value.empty) == "NONE", not is_null(value.empty)
    plain = _plain(number, value)
    characters = None if value.characters is None else text_of(value.characters.value)
    content = None if value.content is None else text_of(value.content.value)
    text = next((one for one in (characters, content, plain) if one is not None), None if is_empty else "a value of an unknown type")
    if value.characters is not None:
        return Entry(name, text, CHARACTER, (text_of(value.characters.charset) or "").lower(), is_missing)
    kind = BYTES if value.content is not None else TEXT if plain is not None else "" if is_empty else _UNKNOWN
    return Entry(name, text, kind, "", is_missing)


def _plain(number: int | None, value: Value) -> str | None:
    for one in (value.integer, value.decimal, value.float, value.text):
        text = None if one is None else text_of(one.value)
        if text is not None:
            return text
    instant = _instant(value.timestamp)
    return _date_time(value.date_time, number) if instant is None else instant


def _instant(value: _Timestamp | None) -> str | None:
    """Prints a TIMESTAMP in UTC. MySQL does not store second 0: it stands for 0000-00-00 00:00:00."""
    if value is None or value.timestamp is None:
        return None
    micros = value.timestamp * 1_000_000 + (value.millis or 0)
    return _PRINTED(micros) if micros else "0000-00-00 00:00:00"


def _date_time(value: _DateTime | None, number: int | None) -> str | None:
    """Prints a date, a time or both as MySQL does, by the column's type number. A time with a negative part is negative."""
    if value is None:
        return None
    year, month, day = _digits(value.year, 4), _digits(value.month, 2), _digits(value.day, 2)
    date, time = [part for part in (year, month, day) if part is not None], _time(value)
    whole = "-".join(date) if len(date) == 3 else None
    if number == _YEAR:
        printed = year
    elif number == _DATE:
        printed = whole
    elif number == _TIME:
        printed = time
    else:
        printed = None if whole is None or time is None or time[0] == "-" else f"{whole} {time}"
    return f"incomplete: {'-'.join(date)}" if printed is None else printed


def _time(value: _DateTime) -> str | None:
    minute, second, micros = _digits(value.minute, 2), _digits(value.second, 2), value.millis or 0
    if value.hour is None or minute is None or second is None:
        return None
    sign = "-" if min(value.hour, value.minute or 0, value.second or 0, micros) < 0 else ""
    fraction = f".{str(abs(micros)).rjust(6, '0')[:6]}" if micros else ""
    return f"{sign}{abs(value.hour):02}:{minute}:{second}{fraction}"


def _digits(part: int | None, width: int) -> str | None:
    return None if part is None else str(abs(part)).rjust(width, "0")[:width]
