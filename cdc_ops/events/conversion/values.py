"""Text of a value -> the stored value of a column, exactly or not at all: shared by all formats.

Nothing here rounds, wraps or guesses: text that is not a value of the type is `UNREADABLE`. Each function that takes a column resolves what
depends on it once, and returns what reads the values. Times are in `events.conversion.moments`, bytes in `events.conversion.octets`.
"""

import math
import re
from collections.abc import Callable
from ctypes import c_float
from dataclasses import replace
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from fractions import Fraction
from struct import Struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.server_types.unsigned_bigints import LARGEST, WIDE, is_narrow, too_large
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion import bulk, moments
from cdc_ops.events.conversion.bulk import quick
from cdc_ops.events.format import UNREADABLE, Bulk, Read

_BLANKS: Final = "".join(map(chr, (*range(33), 127)))
"""Stand around a whole number, `true` or `false` without being a part of it: blanks and control characters."""
_SPACES: Final = "".join(map(chr, range(33)))
"""The same of a number with a fraction."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)")
_SCIENTIFIC: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]{1,9}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MARKED_FLOAT: Final = re.compile(rf"({_FLOAT.pattern})[dDfF]")
_BINARY_FLOAT: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?")
_SPECIAL: Final = {
    **{f"{sign}{name}": -math.inf if sign == "-" else math.inf for sign in ("", "+", "-") for name in ("inf", "infinity")},
    "nan": math.nan,
    "+nan": math.nan,
}
_BOOLEANS: Final = {
    **dict.fromkeys(("t", "true", "y", "yes", "1"), True),
    **dict.fromkeys(("f", "false", "n", "no", "0"), False),
}
_RANGES: Final = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
_LONGEST: Final = 4000
"""Python refuses to read more digits as a number."""
_TWO_TO_64: Final = 2**64
_PLAIN_INTEGER: Final = "-?[0-9]{1,18}"
_PLAIN_FLOAT: Final = r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?"
_BITS: Final = Struct("<d")


class ValueTooLargeError(Exception):
    """A narrow column does not hold a value, and can be widened; `unsigned_bigints.too_large_column` finds it in the text."""


def from_text(column: Column, zone: str) -> Read:
    """Returns what reads values that are written as the server prints them. The caller reads bytes itself.

    Args:
        column: The column.
        zone: In which instants are written, as in `moments.instant`; "" is UTC.
    """
    readers: dict[LogicalType, Callable[[], Read]] = {
        **dict.fromkeys((LogicalType.INTEGER, LogicalType.YEAR, LogicalType.BIT), lambda: integer(column)),
        LogicalType.UNSIGNED_BIGINT: lambda: unsigned_bigint(column),
        LogicalType.DECIMAL: lambda: decimal(column),
        LogicalType.FLOAT: lambda: floating(column),
        LogicalType.BOOLEAN: lambda: boolean,
        LogicalType.DATE: lambda: moments.date,
        LogicalType.WALL_CLOCK: lambda: moments.wall_clock,
        LogicalType.INSTANT: lambda: moments.instant(zone or "UTC"),
        LogicalType.TIME: lambda: moments.time(column),
        LogicalType.MOMENT_TEXT: lambda: moments.kept_moment(column, zone),
        LogicalType.PADDED_TEXT: lambda: unpadded,
    }
    return readers.get(logical_type_of(column), lambda: as_it_is)()


def as_it_is(text: str) -> str:
    """Returns a text unchanged."""
    return text


quick(as_it_is, bulk.TEXTS)


def unpadded(text: str) -> str:
    """Returns a text without the blanks to which `character(n)` is filled up."""
    return text.rstrip(" ")


quick(unpadded, bulk.TEXTS.then(lambda found: pc.utf8_rtrim(found, " ")))


_INTEGERS: Final = bulk.digits(_PLAIN_INTEGER).then(lambda found: found.cast(pa.int64()))
_NUMBERS: Final = bulk.first_of(bulk.INTEGERS, _INTEGERS)


def integer(column: Column) -> Read:
    """Returns what reads whole numbers; also `true` and `false`, which converters of some tools write for TINYINT(1) and BIT(1).

    A BIGINT that is stored as a decimal was unsigned when its table was loaded; a BIT(64) is stored as one because its values need it.
    """
    kind = DeclaredType.parse(column.delta_type).base
    if kind in _RANGES:
        return quick(_with_words(whole_number(kind)), _stored_integers(column))
    exact = whole_number("bigint") if DeclaredType.parse(column.source_type).base == "bigint" else decimal(column)
    read = _with_words(lambda text: exact(text.strip(_SPACES)))

    def stored(text: str) -> Any:
        found = read(text)
        return Decimal(found) if found.__class__ is int else found

    return quick(stored, _stored_integers(column))


def _stored_integers(column: Column) -> Bulk:
    return bulk.stored_as(column, bulk.first_of(bulk.INTEGERS, bulk.BITS, _INTEGERS))


def whole_number(kind: str) -> Read:
    """Returns what reads whole numbers of a type, e.g. `bigint`."""
    lowest, highest = -_RANGES[kind], _RANGES[kind] - 1

    def read(text: str) -> Any:
        if not _INTEGER.fullmatch(text):
            text = text.strip(_BLANKS)
            if not _INTEGER.fullmatch(text):
                return UNREADABLE
        if len(text) > _LONGEST:
            return UNREADABLE
        number = int(text)
        return number if lowest <= number <= highest else UNREADABLE

    return read


def _with_words(read: Read) -> Read:
    return lambda text: 1 if text == "true" else 0 if text == "false" else read(text)


def unsigned_bigint(column: Column) -> Read:
    """Returns what reads unsigned 64-bit numbers; a negative number stands for the value that wrapped around to it (-1 = 2**64 - 1).

    The reader raises `ValueTooLargeError` at a value that is larger than its column's BIGINT.
    """
    narrow, failure = is_narrow(column), f"[VALUE_TOO_LARGE] {too_large(column.name)}"
    small, large = whole_number("bigint"), decimal(replace(column, delta_type=WIDE))

    def read(text: str) -> Any:
        number = small(text)
        if number.__class__ is int and number >= 0:
            return number if narrow else Decimal(number)
        found = large(text)
        if found is UNREADABLE:
            return UNREADABLE
        whole = int(found) + _TWO_TO_64 if found < 0 else int(found)
        if not 0 <= whole < _TWO_TO_64:
            return UNREADABLE
        if not narrow:
            return Decimal(whole)
        if whole > LARGEST:
            raise ValueTooLargeError(failure)
        return whole

    return quick(read, bulk.stored_as(column, _NUMBERS.then(lambda found: bulk.within(found, 0, LARGEST))))


def decimal(column: Column) -> Read:
    """Returns what reads decimals with all their digits; a text that has more digits than the column declares is unreadable.

    >>> read = decimal(Column(name="c", source_type="decimal(10,2)", delta_type="decimal(10,2)", nullable=True, expression=""))
    >>> read("12.5"), read("1e3"), read("12.505")
    (Decimal('12.50'), Decimal('1000.00'), <NoValue.UNREADABLE: 'unreadable'>)
    """
    precision, scale = (*DeclaredType.parse(column.delta_type).numbers, 0)[:2]
    unit = Decimal(1).scaleb(-scale)
    exact = Context(prec=precision, Emax=999_999_999, Emin=-999_999_999, traps=[Inexact, InvalidOperation])

    def read(text: str) -> Any:
        found = _DECIMAL.fullmatch(text)
        if found is None:
            text = text.strip(_SPACES)
            if not _SCIENTIFIC.fullmatch(text):
                return UNREADABLE
        elif not found[2] and not found[3]:
            return UNREADABLE
        try:
            number = Decimal(text).quantize(unit, context=exact)
        except DecimalException:
            return UNREADABLE
        return number if number else abs(number)  # no decimal is -0

    before = f"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
    plain = bulk.digits(rf"-?{before}(?:\.[0-9]{{1,{scale}}})?" if scale else f"-?{before}")
    return quick(read, bulk.stored_as(column, plain))


def floating(column: Column) -> Read:
    """Returns what reads floating-point numbers from their shortest text, of 32 bits without rounding twice."""
    return _float32 if column.delta_type.strip().lower() == "float" else _float64


_FLOATS: Final = bulk.first_of(bulk.FLOATS, bulk.matching(_PLAIN_FLOAT).then(lambda found: found.cast(pa.float64())))


def _float64(text: str) -> Any:
    return _in_range(float(text)) if _FLOAT.fullmatch(text) else _odd_float(text, float)


quick(_float64, _FLOATS.then(bulk.finite))


def _float32(text: str) -> Any:
    return _in_range(_nearest_float32(text)) if _FLOAT.fullmatch(text) else _odd_float(text, _nearest_float32)


quick(_float32, _FLOATS.then(bulk.float32).then(bulk.finite))


def _in_range(number: float) -> Any:
    """Refuses digits of which the type makes an infinity: no server has such a number."""
    return UNREADABLE if math.isinf(number) else number


def _odd_float(text: str, read: Callable[[str], float]) -> Any:
    """Reads what Java writes and reads beside plain numbers: `NaN`, `-Infinity`, `1.5f`, `0x1.8p3`, blanks around it."""
    text = text.strip(_SPACES)
    special = _SPECIAL.get(text.lower())
    if special is not None:
        return special
    if _FLOAT.fullmatch(text):
        return _in_range(read(text))
    if marked := _MARKED_FLOAT.fullmatch(text):
        return _in_range(read(marked[1]))
    if binary := _BINARY_FLOAT.fullmatch(text):
        try:
            number = float.fromhex(binary[1])
        except OverflowError:
            return UNREADABLE
        return _in_range(number if read is float else c_float(number).value)
    return UNREADABLE


def _nearest_float32(text: str) -> float:
    wide = float(text)
    near = c_float(wide).value
    if near == wide or int.from_bytes(_BITS.pack(wide)[:4], "little") & 0x0FFFFFFF or math.isinf(wide):
        return near
    return _not_rounded_twice(Fraction(text), wide, near)


def _not_rounded_twice(exact: Fraction, wide: float, near: float) -> float:
    """Returns the 32-bit number next to a number that may lie half way between two of them once it is rounded to 64 bits."""
    half = Fraction(wide)
    other = float(np.nextafter(np.float32(near), np.float32(math.inf if wide > near else -math.inf)))
    if exact == half or _size(near) + _size(other) != 2 * half:
        return near
    return max(near, other) if exact > half else min(near, other)


def _size(number: float) -> Fraction:
    """Returns a 32-bit number, of infinity the one that would follow the largest."""
    return Fraction(number) if math.isfinite(number) else Fraction(int(math.copysign(1, number)) * 2**128)


def boolean(text: str) -> Any:
    """Reads `true`, `t`, `yes`, `y`, `1` and their contraries, in any case."""
    found = _BOOLEANS.get(text)
    return found if found is not None else _BOOLEANS.get(text.strip(_BLANKS).lower(), UNREADABLE)


quick(boolean, bulk.first_of(bulk.BOOLEANS, bulk.ONES, bulk.matching("[01]").then(lambda found: found.cast(pa.int64()).cast(pa.bool_()))))
