"""Converts the text of single values to stored values, exactly or not at all: shared by all formats; Spark expressions only.

Nothing here rounds, wraps or guesses: text that is not a value of the type becomes NULL, and `formats.feed.canonical` then makes the
record bad.
"""

from collections.abc import Callable
from dataclasses import replace
from operator import or_
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import functions as F

from cdc_ops.core.balanced import balanced_reduce
from cdc_ops.core.schema.logical_types import (
    LogicalType,
    byte_length,
    fraction_digits,
    is_instant,
    logical_type_of,
    scale_of,
    trims_fractions,
)
from cdc_ops.core.schema.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.core.schema.unsigned_bigints import LARGEST, NARROW, WIDE, is_narrow, too_large
from cdc_ops.formats.feed.format import Reading

_EPOCH: Final = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_DATE: Final = r"^\d{4}-\d\d-\d\d$"
_DATE_TIME: Final = r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?$"
_PRINTED: Final = r"^(\d{4,6}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,6}))?$"
_TIME: Final = r"^(-?)(\d{1,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?$"
_TWO_TO_64: Final = "18446744073709551616"
_TOO_HIGH: Final = f"{10**38:032X}"
_TOO_LOW: Final = f"{10**38 - 1:032X}"
"""Absolute values of the first numbers with 39 digits, in hexadecimal as `big_number` has them: of a negative number, less one."""


def integer(column: Column, text: Expr) -> Reading:
    """Reads whole numbers; also `true` and `false`, which converters of some tools write for TINYINT(1) and BIT(1).

    A BIGINT that is stored as a decimal was unsigned when its table was loaded; a BIT(64) is stored as one because its values need it.
    """
    signed = column.delta_type.startswith("decimal") and DeclaredType.parse(column.source_type).base == "bigint"
    kind = "bigint" if signed else column.delta_type
    spelled = F.when(text == "true", 1).when(text == "false", 0).cast(kind)
    return Reading(value=F.coalesce(text.try_cast(kind), spelled).cast(column.delta_type))


def unsigned_bigint(column: Column, text: Expr) -> Reading:
    """Reads unsigned 64-bit numbers; a negative number stands for the value that wrapped around to it (-1 = 2**64 - 1).

    A value that is larger than its column's BIGINT fails the statement, with a mark that names the column.
    """

    def stored(number: Expr) -> Expr:
        two_to_64 = F.lit(_TWO_TO_64).cast(WIDE)
        whole = F.when(number < 0, number + two_to_64).otherwise(number)
        large = F.when((whole >= 0) & (whole < two_to_64), whole.try_cast(WIDE))
        if not is_narrow(column):
            return large
        fails = F.raise_error(F.lit(too_large(column.name))).cast(NARROW)
        return F.when(large > LARGEST, fails).otherwise(large.try_cast(NARROW))

    small = text.try_cast("bigint")
    large = bind(decimal(replace(column, delta_type=WIDE), text).value, stored)
    # Nearly all values are small; this reads them at a tenth of the cost.
    return Reading(value=F.when(small >= 0, small.cast(NARROW if is_narrow(column) else WIDE)).otherwise(large))


def decimal(column: Column, text: Expr) -> Reading:
    """Reads decimals with all their digits; NULL if the text has more digits after the point than the column declares."""
    kind = DeclaredType.parse(column.delta_type)
    precision, scale = (*kind.numbers, 0)[:2]
    plain = rf"^[+-]?\d*\.?\d{{0,{scale}}}0*$"

    wide = text.try_cast(f"decimal(38,{38 - (precision - scale)})")  # values with an exponent
    narrow = text.try_cast(column.delta_type)
    as_printed = narrow.cast("string") == text  # nearly all values
    exact = F.when(text.rlike(plain) | (text.rlike("[eE]") & (wide == narrow)), narrow)
    return Reading(value=F.when(as_printed, narrow).otherwise(uncompiled(narrow.isNotNull(), exact)))


def floating(column: Column, text: Expr) -> Reading:
    """Reads floating-point numbers from their shortest text."""
    return Reading(value=text.try_cast(column.delta_type))


def boolean(text: Expr) -> Reading:
    """Reads `true`, `false`, `t`, `f`, `1`, `0`."""
    return Reading(value=text.try_cast("boolean"))


def date(text: Expr) -> Reading:
    """Reads dates as the servers print them; 0000-00-00 and 2024-02-31 are unstorable."""
    value = F.when(text.rlike(_DATE), text.try_cast("date"))
    return Reading(value=value, unstorable=text.rlike(_DATE) & value.isNull())


def wall_clock(text: Expr) -> Reading:
    """Reads local date and time, without a zone."""
    value = F.when(text.rlike(_DATE_TIME), text.try_cast("timestamp_ntz"))
    return Reading(value=value, unstorable=text.rlike(_DATE_TIME) & value.isNull())


def instant(text: Expr, zone: str) -> Reading:
    """Reads instants that are written as local time of a zone."""
    value = F.when(
        text.rlike(_DATE_TIME), F.concat(text, F.lit(f" {zone}" if "/" in zone else zone.replace("UTC", "Z"))).try_cast("timestamp")
    )
    return Reading(value=value, unstorable=text.rlike(_DATE_TIME) & value.isNull())


def zoned_instant(text: Expr) -> Reading:
    """Reads instants with an offset, as ISO 8601 prints them."""
    value = F.when(text.rlike(r"^\d{4,6}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d(:?\d\d)?)$"), text.try_cast("timestamp"))
    return Reading(value=value)


def moment_of_micros(column: Column, micros: Expr) -> Expr:
    """Returns date, local time or instant from microseconds since 1970, whatever the session's zone is."""
    local = F.timestamp_add("MICROSECOND", micros, F.expr(_EPOCH))
    match logical_type_of(column):
        case LogicalType.INSTANT:
            return F.timestamp_micros(micros)
        case LogicalType.MOMENT_TEXT:
            return moment_text(column, local)
        case _:
            return local


def moment_text(column: Column, local: Expr) -> Expr:
    """Returns date and time as the source prints them."""
    seconds = F.date_format(local, "yyyy-MM-dd HH:mm:ss")
    return F.concat(seconds, _fraction(column, F.date_format(local, "SSSSSS")))


def printed_moment(column: Column, text: Expr) -> Expr:
    """Returns the text of a date or time with as many digits of a second as the source prints, however many were written: no text has two.

    What is none, and what has a zone, stays as it is.
    """
    if DeclaredType.parse(column.source_type).base == "date":
        return text
    whole, fraction = (F.regexp_extract(text, _PRINTED, index) for index in (1, 2))
    return F.when(text.rlike(_PRINTED), F.concat(whole, _fraction(column, F.rpad(fraction, 6, "0")))).otherwise(text)


def kept_moment(column: Column, text: Expr, zone: str) -> Expr:
    """Returns the text of a date or time as the source prints it in UTC: an instant is written in the tool's zone. What is none stays."""
    printed = printed_moment(column, text)
    if not is_instant(column):
        return printed
    offset = "+00" if column.source_type.lower().endswith("with time zone") else ""
    moment = moment_of_micros(column, F.unix_micros(instant(text, zone or "UTC").value))
    return F.coalesce(F.concat(moment, F.lit(offset)), printed)


def time(column: Column, text: Expr) -> Reading:
    """Reads times and prints them as the source does, with the column's digits of fraction; negative ones and those beyond 24 hours too."""
    parts = [F.regexp_extract(text, _TIME, index) for index in range(1, 6)]
    sign, hours, minutes, seconds, fraction = parts
    padded = F.when(F.length(hours) < 2, F.lpad(hours, 2, "0")).otherwise(hours)
    printed = F.concat(sign, padded, F.lit(":"), minutes, F.lit(":"), seconds, _fraction(column, F.rpad(fraction, 6, "0")))
    return Reading(value=F.when(text.rlike(_TIME), printed))


def time_of_micros(column: Column, micros: Expr) -> Expr:
    """Returns the text of a time from its microseconds."""
    return bind(micros, lambda found: _time_of(column, found))


def _time_of(column: Column, micros: Expr) -> Expr:
    size = F.abs(micros)
    hours = F.floor(size / F.lit(3_600_000_000)).cast("string")
    parts = [F.floor(size / F.lit(unit)) % 60 for unit in (60_000_000, 1_000_000)]
    minutes, seconds = (F.lpad(part.cast("string"), 2, "0") for part in parts)
    fraction = F.lpad((size % 1_000_000).cast("string"), 6, "0")
    sign = F.when(micros < 0, "-").otherwise("")
    padded = F.when(F.length(hours) < 2, F.lpad(hours, 2, "0")).otherwise(hours)
    return F.concat(sign, padded, F.lit(":"), minutes, F.lit(":"), seconds, _fraction(column, fraction))


def _fraction(column: Column, six_digits: Expr) -> Expr:
    """Returns the fraction of a second with its point, as the source prints it."""
    digits = fraction_digits(column)
    if trims_fractions(column):
        kept = F.regexp_replace(six_digits, "0+$", "")
        return F.when(kept == "", "").otherwise(F.concat(F.lit("."), kept))
    return F.concat(F.lit("."), F.substring(six_digits, 1, digits)) if digits else F.lit("")


def binary(column: Column, value: Expr) -> Expr:
    """Pads BINARY(n) with zero bytes: the log leaves trailing zeros out, the server returns them."""
    length = byte_length(column)
    return F.when(F.length(value) < length, F.rpad(value, length, F.lit(bytes(1)))).otherwise(value) if length else value


def base64(column: Column, text: Expr) -> Reading:
    """Reads bytes in base64."""
    return Reading(value=binary(column, F.try_to_binary(text, F.lit("base64"))))


def hexadecimal(column: Column, text: Expr) -> Reading:
    """Reads bytes in hexadecimal digits."""
    return Reading(value=binary(column, F.try_to_binary(text, F.lit("hex"))))


def bind(value: Expr, use: Callable[[Expr], Expr]) -> Expr:
    """Returns `use(value)` with the value computed once, however often it is used."""
    return F.element_at(F.transform(F.array(value), use), 1)


def uncompiled(condition: Expr, value: Expr) -> Expr:
    """Returns `value` where `condition` is true, and NULL elsewhere, for expressions that few rows need.

    Spark generates no code for the lambda of a higher-order function but interprets it when needed, so the generated code of the stage
    stays small and is split into methods. Without one, Spark generates a single method for the stage; if that exceeds 8,000 bytes of
    bytecode, the JVM does not compile it but interprets it for each row.
    """
    return F.when(condition, bind(F.lit(True), lambda _: value))


def scaled_bytes(column: Column, value: Expr, scale: Expr) -> Expr:
    """Returns a decimal from the bytes of its digits as one whole number, two's complement, most significant byte first.

    Args:
        column: The value's column: a decimal, or text.
        value: The bytes; at most 16.
        scale: Digits after the point.
    """
    kind = DeclaredType.parse(column.delta_type)
    exact = bind(value, lambda found: with_point(big_number(found), scale))
    if kind.base != "decimal" or kind.numbers[0] > 18:
        return exact
    digits = scale_of(column)
    unit = F.lit("0." + "1".rjust(digits, "0") if digits else "1").cast(f"decimal({digits + 1},{digits})")
    # Nearly all columns: eight bytes at most, and the declared scale.
    quick = (short_number(value).cast("decimal(19,0)") * unit).try_cast(column.delta_type).cast("string")
    return F.when((F.length(value) <= 8) & (scale == digits), quick).otherwise(exact)


def short_number(value: Expr) -> Expr:
    """Returns the decimal digits of a whole number of at most eight bytes, two's complement, most significant byte first."""
    return F.conv(F.lpad(F.hex(value), 16, F.when(F.hex(value) >= "8", "F").otherwise("0")), 16, -10)


def big_number(value: Expr) -> Expr:
    """Returns the decimal digits of a number of at most 16 bytes, two's complement, most significant byte first; NULL for longer ones."""

    def of_size(size: Expr, negative: Expr) -> Expr:
        """Returns the digits from 32 hex digits of the absolute value, NULL beyond 38 decimal digits."""
        high, low = (F.conv(F.substring(size, start, 16), 16, 10).cast("decimal(20,0)") for start in (1, 17))
        wide = (high * F.lit(_TWO_TO_64).cast("decimal(20,0)")).cast("decimal(38,0)") + low
        # The sign is added as text: Spark rounds to 34 digits when it negates a decimal.
        digits = F.when(negative, wide + 1).otherwise(wide).cast("decimal(38,0)").cast("string")
        number = F.concat(F.when(negative, "-").otherwise(""), digits)
        # 16 bytes can hold a little more than 38 digits: such a number becomes NULL, and does not fail the job.
        return F.when(size < F.when(negative, _TOO_LOW).otherwise(_TOO_HIGH), number)

    negative = F.hex(value) >= "8"
    filled = F.lpad(F.hex(value), 32, F.when(negative, "F").otherwise("0"))
    size = F.when(negative, F.translate(filled, "0123456789ABCDEF", "FEDCBA9876543210")).otherwise(filled)
    return F.when(F.length(value) <= 16, bind(size, lambda found: of_size(found, negative)))


def with_point(digits: Expr, scale: Expr) -> Expr:
    """Returns the digits of a whole number with a decimal point: 12345 with scale 2 is 123.45."""

    def set_into(filled: Expr) -> Expr:
        cut = F.length(filled) - scale
        return F.concat(F.substring(filled, F.lit(1), cut), F.lit("."), F.substring(filled, cut + 1, scale))

    def pointed(number: Expr) -> Expr:
        size = F.translate(number, "-", "")
        filled = F.lpad(size, F.greatest(F.length(size), scale + 1), F.lit("0"))
        set_in = F.concat(F.when(number.startswith("-"), "-").otherwise(""), bind(filled, set_into))
        zeros = F.when(number == "0", "").otherwise(F.repeat(F.lit("0"), -scale))
        return F.when(scale > 0, set_in).otherwise(F.concat(number, zeros))

    return bind(digits, pointed)


def little_endian(value: Expr) -> Expr:
    """Returns the digits of an unsigned number of at most eight bytes, least significant byte first."""
    swapped = F.regexp_replace(F.reverse(F.hex(value)), "(.)(.)", "$2$1")
    return F.when(F.length(value) <= 8, F.conv(swapped, 16, 10))


def from_text(column: Column, text: Expr, zone: str) -> Reading:
    """Reads a value that is written as the server prints it. The caller reads bytes itself."""
    readers: dict[LogicalType, Callable[[], Reading]] = {
        **dict.fromkeys((LogicalType.INTEGER, LogicalType.YEAR, LogicalType.BIT), lambda: integer(column, text)),
        LogicalType.UNSIGNED_BIGINT: lambda: unsigned_bigint(column, text),
        LogicalType.DECIMAL: lambda: decimal(column, text),
        LogicalType.FLOAT: lambda: floating(column, text),
        LogicalType.BOOLEAN: lambda: boolean(text),
        LogicalType.DATE: lambda: date(text),
        LogicalType.WALL_CLOCK: lambda: wall_clock(text),
        LogicalType.INSTANT: lambda: instant(text, zone or "UTC"),
        LogicalType.TIME: lambda: time(column, text),
        LogicalType.MOMENT_TEXT: lambda: Reading(value=kept_moment(column, text, zone)),
        LogicalType.PADDED_TEXT: lambda: Reading(value=F.rtrim(text)),
    }
    return readers.get(logical_type_of(column), lambda: Reading(value=text))()


def any_of(conditions: list[Expr]) -> Expr:
    """True if one of the conditions is true; NULL counts as false."""
    return F.coalesce(balanced_reduce(or_, conditions, F.lit(False)), F.lit(False))
