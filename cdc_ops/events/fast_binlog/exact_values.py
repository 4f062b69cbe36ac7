"""The values of the reference decoder, as a column of a record batch wants them; what does not fit is an error, never another value.

Value + Field --stored--> None, bool, int, float, Decimal, date, datetime, str or bytes
"""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from cdc_ops.decode.program import Field, Kind
from cdc_ops.events.binlog.charsets import BadText
from cdc_ops.events.binlog.temporal import OddDate, fraction_text
from cdc_ops.events.binlog.values import Value


class UnfitValueError(ValueError):
    """A value that the type of its column does not hold; the reader of the file says where it stands."""


def stored(value: Value, field: Field, digits: int) -> Any:
    """Returns what `Batch.put` takes for a value.

    Args:
        value: The value.
        field: The column of the record batch.
        digits: Of times: the digits of their fractions of seconds.

    Raises:
        UnfitValueError: the column's type does not hold it.
    """
    if value is None:
        return None
    if isinstance(value, OddDate):
        if field.kind is Kind.STRING:
            return value.text
        raise UnfitValueError(f"{value.text} is no day of the calendar")
    if isinstance(value, BadText):
        raise UnfitValueError(f"{len(value.raw)} bytes are no text of the character set {value.charset}")
    if isinstance(value, timedelta) and field.kind is Kind.STRING:
        return time_text(value, digits)
    if isinstance(value, date) and field.kind is Kind.STRING:
        return date_text(value, digits)
    made = _TAKEN[field.kind](value)
    if made is _NOT:
        raise UnfitValueError(f"a value of the type {type(value).__name__} is not taken")
    return made


_NOT: Final = object()


def _integer(value: Value) -> Any:
    return value if isinstance(value, int) else _NOT


def _decimal(value: Value) -> Any:
    return Decimal(value) if isinstance(value, (int, Decimal)) else _NOT


def _float(value: Value) -> Any:
    return value if isinstance(value, float) else _NOT


def _date(value: Value) -> Any:
    return value if isinstance(value, date) and not isinstance(value, datetime) else _NOT


def _instant(value: Value) -> Any:
    return value if isinstance(value, datetime) and value.tzinfo is not None else _NOT


def _clock(value: Value) -> Any:
    return value if isinstance(value, datetime) and value.tzinfo is None else _NOT


def _text(value: Value) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value) if isinstance(value, str) else _NOT


def _bytes(value: Value) -> Any:
    return value if isinstance(value, bytes) else _NOT


def _boolean(value: Value) -> Any:
    return value if isinstance(value, int) and value in (0, 1) else _NOT


_TAKEN: Final = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer,
    Kind.DECIMAL: _decimal,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _float,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _instant,
    Kind.TIMESTAMP_NTZ: _clock,
    Kind.STRING: _text,
    Kind.BINARY: _bytes,
}


def time_text(value: timedelta, digits: int) -> str:
    """Returns a TIME as the server shows it.

    >>> time_text(timedelta(hours=-100, microseconds=-500_000), 1)
    '-100:00:00.5'
    """
    seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    text = f"{'-' if value < timedelta(0) else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + fraction_text(micros, digits)


def date_text(value: date, digits: int) -> str:
    """Returns a DATE, a DATETIME, or a TIMESTAMP in UTC as the server shows it.

    >>> date_text(datetime(2024, 2, 29, 12, 0, 0, 500_000), 2)
    '2024-02-29 12:00:00.50'
    """
    if not isinstance(value, datetime):
        return value.isoformat()
    return value.replace(microsecond=0, tzinfo=None).isoformat(" ") + fraction_text(value.microsecond, digits)
