"""Makes stored values of travelling ones, where that takes no more than a look at all of them: what Spark's expressions do otherwise.

No rule of exactness is written twice: whatever is not plain is refused as a whole, and goes the way of the expressions.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.core.schema.server_types.mysql_types import NOT_STORED, UNSTORABLE_MICROS
from cdc_ops.core.schema.server_types.postgres_types import NO_DAY
from cdc_ops.decode.program import Field

_DAYS_BEFORE_1970: Final = 719528
_FIRST_OF_MARCH: Final = 60
"""Day of the year 0: servers give it no 29 February, so the days before it have another number."""
_MICROS_BEFORE_MARCH: Final = -62162035200000000
_NO_DATE: Final = "a date that is none, or before March of the year 0"


class NotPlainError(ValueError):
    """A column has a value that only Spark's expressions store right, or refuse with the row's key."""


def stored_values(values: pa.Array, finish: str, stored: str) -> pa.Array:
    """Returns values as they are stored.

    Args:
        values: As they travel.
        finish: One of `FINISHES`.
        stored: Type of Spark's DDL.

    Raises:
        NotPlainError: one of them is not plain; the text names what it is.

    >>> stored_values(pa.array([719529, None], pa.int32()), "days", "date").to_pylist()
    [datetime.date(1970, 1, 2), None]
    """
    return FINISHES[finish](values, Field.of("", stored).arrow)


def _same(values: pa.Array, stored: pa.DataType) -> pa.Array:
    if values.type != stored:
        raise NotPlainError(f"values travel as {values.type} and are stored as {stored}")
    return values


def _unsigned(values: pa.Array, stored: pa.DataType) -> pa.Array:
    """The 64 bits of an unsigned number, as a signed one."""
    _refuse_below(values, 0, "a number above 2^63 - 1")
    return values.cast(stored)


def _days(values: pa.Array, stored: pa.DataType) -> pa.Array:
    """Days since the year 0."""
    _refuse_below(values, _FIRST_OF_MARCH, _NO_DATE)
    return pc.subtract(values, pa.scalar(_DAYS_BEFORE_1970, values.type)).view(stored)


def _wall_clock(values: pa.Array, stored: pa.DataType) -> pa.Array:
    """Microseconds since 1970 of a clock on a wall."""
    _refuse_below(values, _MICROS_BEFORE_MARCH, _NO_DATE)
    return values.view(stored)


def _instant(values: pa.Array, stored: pa.DataType) -> pa.Array:
    """Microseconds since 1970 UTC; 0 is none."""
    if pc.index(values, pa.scalar(0, values.type)).as_py() >= 0:
        raise NotPlainError("the zero TIMESTAMP")
    return values.view(stored)


def _epoch_days(values: pa.Array, stored: pa.DataType) -> pa.Array:
    """Days since 1970; the least number is none."""
    _refuse_below(values, 1 - NO_DAY, "an infinite date")
    return values.view(stored)


def _epoch_micros(values: pa.Array, stored: pa.DataType) -> pa.Array:
    """Microseconds since 1970; the least number is none."""
    _refuse_below(values, 1 - UNSTORABLE_MICROS, "an infinite time, or one of the last years")
    return values.view(stored)


def _nothing(values: pa.Array, stored: pa.DataType) -> pa.Array:
    """Marks of values that are none: plain rows have no mark, and none is stored."""
    if values.null_count != len(values):
        raise NotPlainError("a value that is none, as NaN in a numeric")
    return values


def _refuse_below(values: pa.Array, least: int, what: str) -> None:
    lowest = pc.min(values).as_py()
    if lowest is not None and lowest < least:
        raise NotPlainError(what)


FINISHES: Final[dict[str, Callable[[pa.Array, pa.DataType], pa.Array]]] = {
    "same": _same,
    "unsigned": _unsigned,
    "days": _days,
    "wall_clock": _wall_clock,
    "instant": _instant,
    "epoch_days": _epoch_days,
    "epoch_micros": _epoch_micros,
    NOT_STORED: _nothing,
}
"""How stored values are made of travelling ones."""
