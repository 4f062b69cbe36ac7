"""What formats read of a record beside its rows: places in a binlog, times of the source, statements that empty a table."""

import re
from typing import Annotated, Final

from msgspec import Meta

from cdc_ops.core.events.change_feed import LANDED_NUMBER
from cdc_ops.events.conversion.values import whole_number
from cdc_ops.events.format import NoValue
from cdc_ops.events.record import Record

Bigint = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
"""Numbers of a record that have to be such numbers of Spark."""

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_COMMENTS: Final = r"(?:\s|/\*.*?\*/|(?:--\s|#)[^\n]*\n)*"
_TRUNCATE: Final = re.compile(rf"{_COMMENTS}truncate\b", re.IGNORECASE | re.DOTALL | re.ASCII)
_PLACE: Final = re.compile(r"([0-9]+):([0-9]+)$")
_BIGINT: Final = whole_number("bigint")


def is_truncate(statement: str | None) -> bool:
    """True for the text of a TRUNCATE statement, which some tools write as DDL."""
    return statement is not None and _TRUNCATE.match(statement) is not None


def moment_of(number: int | None, per_second: int = 1000) -> int | None:
    """Returns when the source says that something happened, in microseconds since 1970; None beyond the years 1 to 9999.

    Args:
        number: Units since 1970.
        per_second: How many of them a second has.
    """
    if number is None or not _FIRST_SECOND * per_second <= number < (_LAST_SECOND + 1) * per_second:
        return None
    return number * (1_000_000 // per_second)


def number_in(text: str | None, kind: str = "bigint") -> int | None:
    """Returns the whole number that a text is, None for another text and for a number that the type does not hold."""
    found = None if text is None else (_BIGINT if kind == "bigint" else whole_number(kind))(text)
    return None if isinstance(found, NoValue) else found


def binlog_place(position: str | None) -> tuple[int | None, int | None]:
    """Returns file number and offset of a place in a binlog.

    >>> binlog_place("binlog.000123:4567"), binlog_place("here")
    ((123, 4567), (None, None))
    """
    found = None if position is None else _PLACE.search(position)
    return (None, None) if found is None else (number_in(found[1]), number_in(found[2]))


def kafka_offset(record: Record) -> int:
    """Returns the record's offset in its Kafka partition, -1 without one: it orders deliveries of the same event."""
    return LANDED_NUMBER if record.offset is None else record.offset


def known(value: int | NoValue) -> int | None:
    """Returns a value, None for none."""
    return None if isinstance(value, NoValue) else value
