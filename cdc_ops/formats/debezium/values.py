"""Reads values as Debezium writes them, by the names of their Kafka Connect schemas; Spark expressions only.

With schemas in the records (`schemas.enable=true`), each record has the encoding of its values. Without them, the connector's settings
determine it, and the pipeline file has to repeat those that are not the defaults.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import Container, FormatOptions, FormatSpec, setting
from cdc_ops.core.formats.debezium_losses import BINARY_MODE, DECIMAL_MODE, META_DATA, NEED_SCHEMAS, SCHEMAS, TIME_MODE, UNSIGNED_MODE
from cdc_ops.core.schema.logical_types import LogicalType, fraction_digits, is_instant, logical_type_of, scale_of
from cdc_ops.core.schema.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.debezium.schema_names import CONNECT, PRECISE, TIME, VARIABLE, YEAR_ZERO, declared_name
from cdc_ops.formats.feed import values
from cdc_ops.formats.feed.format import Reading

_INFINITE: Final = {9223372036825200000: "infinity", -9223372036832400000: "-infinity"}
"""The numbers that Postgres's driver, and so Debezium, writes for infinite values, in microseconds."""
_LAST_MICRO: Final = 9223372036854775807
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_031_948
"""The first and last day of Postgres, since 1970. An infinite date is a number beyond them; it does not say which infinity."""
_SPECIAL: Final = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
_BETWEEN: Final = r'(?s)\G((?:[^",:]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+)([,:]) ?+'
"""Matches a separator of members in a JSON document, with the text since the last one; possessive, so that long texts need no stack.

The connector writes MySQL's documents without the blanks that the server prints behind separators.
"""
_FLATTENED: Final = r'^\[\s*(null|"\[[A-Z]?[^"]*;@[0-9a-f]+")(\s*,\s*(null|"\[[A-Z]?[^"]*;@[0-9a-f]+"))*\s*\]$'
"""Matches what Debezium writes for arrays of arrays: NULLs, or names of Java objects. An array of NULLs alone looks the same."""

_ISO: Final = r"^(\d{4})-(\d\d)-(\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*Z?$"


def read(spec: FormatSpec, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
    """Reads one value.

    Args:
        spec: The format's declaration.
        column: The value's column.
        text: The value's text in the record.
        kind: The field's schema, NULL if the record has none.
        options: The format's options, including settings of the connector.
    """
    reading = _read(spec, column, text, kind, options)
    said_by = META_DATA if spec.files.container is Container.AVRO else SCHEMAS
    if logical_type_of(column) in NEED_SCHEMAS and setting(spec, options, said_by) == "true":
        return replace(only_typed(reading, kind), untyped=_untyped(column, said_by))
    return reading


def _untyped(column: Column, said_by: str) -> str:
    """Returns the advice for a value whose record lacks its schema, although the pipeline file says that records have schemas."""
    unsaid = ", because the record does not say how it is written: set"
    if said_by == META_DATA:
        return f"{unsaid} connect.meta.data=true in the sink"
    decimal = logical_type_of(column) in (LogicalType.DECIMAL, LogicalType.DECIMAL_TEXT)
    otherwise = ", or decimal.handling.mode=string and state it with schemas.enable=false" if decimal else ""
    return f"{unsaid} value.converter.schemas.enable=true in the connector{otherwise}"


def only_typed(reading: Reading, kind: Expr) -> Reading:
    """Returns a reading that is NULL for values whose record has no schema."""
    lost = None if reading.unstorable is None else kind.isNotNull() & reading.unstorable
    return Reading(value=F.when(kind.isNotNull(), reading.value), unstorable=lost)


def _read(spec: FormatSpec, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
    temporal = (LogicalType.DATE, LogicalType.WALL_CLOCK, LogicalType.INSTANT, LogicalType.MOMENT_TEXT, LogicalType.TIME)
    readers: dict[LogicalType, Callable[[], Reading]] = {
        LogicalType.INTEGER: lambda: _integer(spec, column, text, kind),
        LogicalType.YEAR: lambda: _year(column, text),
        LogicalType.UNSIGNED_BIGINT: lambda: _unsigned(spec, column, text, kind, options),
        **dict.fromkeys((LogicalType.DECIMAL, LogicalType.DECIMAL_TEXT), lambda: _decimal(spec, column, text, kind, options)),
        **dict.fromkeys(temporal, lambda: _temporal(spec, column, text, kind, options)),
        **dict.fromkeys((LogicalType.BIT, LogicalType.BIT_TEXT), lambda: _bits(column, text)),
        LogicalType.BINARY: lambda: _binary(column, text, kind, setting(spec, options, BINARY_MODE)),
        LogicalType.GEOMETRY: lambda: _geometry(text),
        LogicalType.JSON: lambda: _json(spec, text),
        LogicalType.ARRAY: lambda: Reading(value=F.when(~text.rlike(_FLATTENED), text)),
        LogicalType.OTHER: lambda: _other(column, text),
    }
    return readers.get(logical_type_of(column), lambda: values.from_text(column, text, "UTC"))()


def _year(column: Column, text: Expr) -> Reading:
    year = values.integer(column, text).value
    return Reading(value=F.when(year == YEAR_ZERO, 0).otherwise(year).cast(column.delta_type))


def _unsigned(spec: FormatSpec, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
    return values.unsigned_bigint(column, _whole_number(text, kind, in_bytes=setting(spec, options, UNSIGNED_MODE) == "precise"))


def _integer(spec: FormatSpec, column: Column, text: Expr, kind: Expr) -> Reading:
    """Reads whole numbers. Those of a BIGINT that was unsigned may be in bytes; since it is signed, Debezium writes them as they are."""
    was_unsigned = UNSIGNED_MODE in spec.settings and DeclaredType.parse(column.source_type).base == "bigint"
    return values.integer(column, _whole_number(text, kind, in_bytes=False) if was_unsigned else text)


def _whole_number(text: Expr, kind: Expr, *, in_bytes: bool) -> Expr:
    """Returns the digits of a number that its schema, or without one `in_bytes`, declares as bytes in base64; else the text."""
    precise = _named(kind, PRECISE, otherwise=in_bytes)
    return F.when(precise, values.bind(F.try_to_binary(text, F.lit("base64")), values.big_number)).otherwise(text)


def _json(spec: FormatSpec, text: Expr) -> Reading:
    """Returns MySQL's documents with the blanks that the server prints; documents of other servers unchanged."""
    return Reading(value=F.regexp_replace(text, _BETWEEN, "$1$2 ") if UNSIGNED_MODE in spec.settings else text)


def _named(kind: Expr, name: str, *, otherwise: bool) -> Expr:
    """True if the record's schema has that name; without a schema, True if the settings imply it."""
    return F.when(kind.isNull(), F.lit(otherwise)).otherwise(F.coalesce(kind["name"], F.lit("")) == name)


def _digits(column: Column, text: Expr, scale: Expr) -> Expr:
    """Returns the decimal text of Connect's Decimal, which is the unscaled number's bytes in base64."""
    return values.bind(F.try_to_binary(text, F.lit("base64")), lambda found: values.scaled_bytes(column, found, scale))


def _decimal(spec: FormatSpec, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
    mode = setting(spec, options, DECIMAL_MODE)
    unbounded = not DeclaredType.parse(column.source_type).numbers and logical_type_of(column) is LogicalType.DECIMAL_TEXT
    precise = _named(kind, PRECISE, otherwise=mode == "precise" and not unbounded)
    variable = _named(kind, VARIABLE, otherwise=mode == "precise" and unbounded)
    parts = F.from_json(F.when(variable, text), "scale int, value string")
    scale = F.coalesce(kind["scale"], F.lit(scale_of(column)))
    digits = F.when(precise, _digits(column, text, scale)).when(variable, _digits(column, parts["value"], parts["scale"]))

    def stored(plain: Expr) -> Expr:
        return values.decimal(column, plain).value if logical_type_of(column) is LogicalType.DECIMAL else plain

    value = F.when(precise | variable, values.bind(digits, stored)).otherwise(stored(text))
    special = ~(precise | variable) & text.isin(*_SPECIAL)
    if logical_type_of(column) is LogicalType.DECIMAL_TEXT:
        named = F.coalesce(*(F.when(text == word, printed) for word, printed in _SPECIAL.items()))
        value = F.when(special, values.uncompiled(F.lit(True), named)).otherwise(value)
    if f"{DECIMAL_MODE}=double" not in options.accept_losses:
        value = F.when(~F.coalesce(kind["type"], F.lit("")).isin("double", "float64"), value)
    return Reading(value=value, unstorable=special & (text == "NAN") if logical_type_of(column) is LogicalType.DECIMAL else None)


def _temporal(spec: FormatSpec, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
    name = F.coalesce(kind["name"], F.lit(declared_name(column, setting(spec, options, TIME_MODE))))
    declared = DeclaredType.parse(column.source_type)
    number = text.try_cast("bigint")
    if logical_type_of(column) is LogicalType.TIME:
        return _time_of_day(column, text, number, name)
    if declared.base == "date":
        return _day(column, text, name)
    if is_instant(column):
        return _instant(column, text)
    micros = (
        F.when(name == f"{TIME}MicroTimestamp", number)
        .when(name.isin(f"{TIME}Timestamp", f"{CONNECT}Timestamp"), F.try_multiply(number, F.lit(1000)))
        .otherwise(values.uncompiled((name == f"{TIME}NanoTimestamp") & (number % 1000 == 0), F.floor(number / F.lit(1000)).cast("bigint")))
    )
    moment = _moment(column, micros)
    spelled = values.wall_clock(F.regexp_replace(text, _ISO, "$1-$2-$3 $4")).value
    written = values.moment_text(column, spelled) if logical_type_of(column) is LogicalType.MOMENT_TEXT else spelled
    iso = values.uncompiled(F.lit(True), written)
    return Reading(value=F.when(name == f"{TIME}IsoTimestamp", iso).otherwise(moment.value), unstorable=moment.unstorable)


def _moment(column: Column, micros: Expr) -> Reading:
    """Reads local time in microseconds. Only Postgres has infinite times, and years beyond the range of microseconds."""
    moment = values.moment_of_micros(column, micros)
    if not column.source_type.lower().endswith("without time zone"):
        return Reading(value=moment)
    endless = micros.isin(*_INFINITE, _LAST_MICRO)
    if logical_type_of(column) is LogicalType.WALL_CLOCK:
        return Reading(value=F.when(~endless, moment), unstorable=endless)
    infinite = F.coalesce(*(F.when(micros == size, printed) for size, printed in _INFINITE.items()))
    return Reading(value=F.when(endless, values.uncompiled(F.lit(True), infinite)).otherwise(moment))


def _day(column: Column, text: Expr, name: Expr) -> Reading:
    """Reads days since 1970. Infinite dates of Postgres do not say which infinity they are, so they have no text either."""
    number, iso = text.try_cast("int"), F.regexp_replace(text, "Z$", "")
    endless = ~number.between(_FIRST_DAY, _LAST_DAY)
    days = F.when(~endless, F.date_from_unix_date(number))
    day = F.when(name == f"{TIME}IsoDate", values.uncompiled(F.lit(True), values.date(iso).value)).otherwise(days)
    return Reading(value=day.cast(column.delta_type), unstorable=endless if logical_type_of(column) is LogicalType.DATE else None)


def _instant(column: Column, text: Expr) -> Reading:
    """Reads instants, also those that the lake keeps as the server's text, in UTC. MySQL's zero TIMESTAMP has second 0."""
    found, as_text = values.zoned_instant(text).value, logical_type_of(column) is LogicalType.MOMENT_TEXT
    if "time zone" in column.source_type.lower():
        lost, spelled, offset = text.isin("infinity", "-infinity"), text, "+00"
    elif DeclaredType.parse(column.source_type).base == "timestamp":
        lost, offset = F.unix_seconds(found) == 0, ""
        spelled = F.concat(F.lit("0000-00-00 00:00:00"), F.lit("." + "0" * fraction_digits(column) if fraction_digits(column) else ""))
    else:
        return Reading(value=found)
    if not as_text:
        return Reading(value=F.when(~lost, found), unstorable=lost)
    written = F.concat(values.moment_of_micros(column, F.unix_micros(found)), F.lit(offset))
    return Reading(value=F.when(lost, spelled).otherwise(written))


def _time_of_day(column: Column, text: Expr, number: Expr, name: Expr) -> Reading:
    micros = (
        F.when(name == f"{TIME}MicroTime", number)
        .when(name.isin(f"{TIME}Time", f"{CONNECT}Time"), number * 1000)
        .otherwise(values.uncompiled((name == f"{TIME}NanoTime") & (number % 1000 == 0), F.floor(number / F.lit(1000)).cast("bigint")))
    )
    iso = values.time(column, F.regexp_replace(text, "Z$", "")).value
    spelled = values.uncompiled(name.isin(f"{TIME}IsoTime", f"{TIME}ZonedTime"), iso)
    return Reading(value=F.coalesce(spelled, values.time_of_micros(column, micros)))


def _bits(column: Column, text: Expr) -> Reading:
    """Reads bits: BIT(1) is true or false, longer ones are bytes, least significant first.

    Postgres' connector leaves out bytes of zeros at the end, so bits that are all zero have none.
    """
    number = F.when(text == "true", "1").when(text.isin("false", ""), "0")
    number = number.otherwise(values.little_endian(F.try_to_binary(text, F.lit("base64"))))
    if logical_type_of(column) is LogicalType.BIT:
        return Reading(value=number.try_cast(column.delta_type))
    width = (DeclaredType.parse(column.source_type).numbers or (1,))[0]
    return Reading(value=F.lpad(F.conv(number, 10, 2), width, "0"))


def _other(column: Column, text: Expr) -> Reading:
    """Reads types that are kept as text. A cast adds the mask to an address without one; objects cannot be read."""
    if column.source_type.strip().lower() == "inet":
        bits = F.when(text.contains(":"), "/128").otherwise("/32")
        text = F.when(text.contains("/"), text).otherwise(F.concat(text, bits))
    return Reading(value=F.when(~text.startswith('{"'), text))


def _binary(column: Column, text: Expr, kind: Expr, mode: str) -> Reading:
    """Reads bytes as `binary.handling.mode` declares; NULL if the record's schema differs, because hexadecimal may look like base64."""
    if mode == "bytes":
        return Reading(value=F.when(~_of_type(kind, "string"), values.base64(column, text).value))
    spelled = {"hex": values.hexadecimal(column, text), "base64-url-safe": values.base64(column, F.translate(text, "-_", "+/"))}
    value = spelled.get(mode, values.base64(column, text)).value
    return Reading(value=F.when(_of_type(kind, "bytes"), values.base64(column, text).value).otherwise(value))


def _of_type(kind: Expr, name: str) -> Expr:
    """True if the record's schema has that type."""
    return F.coalesce(kind["type"] == name, F.lit(False))


def _geometry(text: Expr) -> Reading:
    parts = F.from_json(text, "wkb string, srid int")
    number = F.lpad(F.hex(F.coalesce(parts["srid"], F.lit(0)).cast("bigint")), 8, "0")
    srid = F.regexp_replace(F.reverse(number), "(.)(.)", "$2$1")
    wkb = F.hex(F.try_to_binary(parts["wkb"], F.lit("base64")))
    return Reading(value=F.try_to_binary(F.concat(srid, wkb), F.lit("hex")))
