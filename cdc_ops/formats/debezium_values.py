"""How Debezium writes values, by the names of its Kafka Connect schemas; Spark expressions only.

With schemas in the records (`schemas.enable=true`) each record says how each of its values is written, line by line. Without them the
connector's settings do, which the pipeline file repeats where they are not the defaults.
"""

from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import functions as F

from cdc_ops.core.event_values import ValueFamily, family_of, fraction_digits, scale_of
from cdc_ops.core.events import Container, EventFormat, FormatFacts, setting
from cdc_ops.core.tables import Column
from cdc_ops.core.typemap import DeclaredType
from cdc_ops.formats import values
from cdc_ops.formats.base import Reading

DECIMAL_MODE: Final = "decimal.handling.mode"
UNSIGNED_MODE: Final = "bigint.unsigned.handling.mode"
TIME_MODE: Final = "time.precision.mode"
BINARY_MODE: Final = "binary.handling.mode"
SCHEMAS: Final = "schemas.enable"
META_DATA: Final = "connect.meta.data"
"""What says in Avro files what `schemas.enable` says in JSON."""

FINE_TIMES: Final = ("adaptive", "adaptive_time_microseconds", "microseconds", "nanoseconds", "isostring")
NEED_SCHEMAS: Final = (
    *(ValueFamily.DECIMAL, ValueFamily.DECIMAL_TEXT),
    *(ValueFamily.WALL_CLOCK, ValueFamily.MOMENT_TEXT, ValueFamily.TIME),
)
"""What cannot be read without knowing the column as it was when the record was written."""

_CONNECT: Final = "org.apache.kafka.connect.data."
_TIME: Final = "io.debezium.time."
PRECISE: Final = f"{_CONNECT}Decimal"
VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
_ISO: Final = r"^(\d{4})-(\d\d)-(\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*Z?$"


def read(facts: FormatFacts, column: Column, text: Expr, kind: Expr, chosen: EventFormat) -> Reading:
    """Reads one value.

    Args:
        facts: Of the connector.
        column: Whose value.
        text: As the record spells it.
        kind: The field's schema, NULL if the record has none.
        chosen: Settings of the connector.
    """
    reading = _read(facts, column, text, kind, chosen)
    said_by = META_DATA if facts.container is Container.AVRO else SCHEMAS
    if family_of(column) in NEED_SCHEMAS and setting(facts, chosen, said_by) == "true":
        return Reading(value=F.when(kind.isNotNull(), reading.value))
    return reading


def _read(facts: FormatFacts, column: Column, text: Expr, kind: Expr, chosen: EventFormat) -> Reading:
    family = family_of(column)
    match family:
        case ValueFamily.INTEGER | ValueFamily.YEAR:
            return values.integer(column, text)
        case ValueFamily.UNSIGNED_BIGINT:
            precise = _named(kind, PRECISE, otherwise=setting(facts, chosen, UNSIGNED_MODE) == "precise")
            return values.unsigned_bigint(
                F.when(precise, values.let(F.try_to_binary(text, F.lit("base64")), values.big_number)).otherwise(text)
            )
        case ValueFamily.DECIMAL | ValueFamily.DECIMAL_TEXT:
            return _decimal(facts, column, text, kind, chosen)
        case ValueFamily.DATE | ValueFamily.WALL_CLOCK | ValueFamily.INSTANT | ValueFamily.MOMENT_TEXT | ValueFamily.TIME:
            return _temporal(facts, column, text, kind, chosen)
        case ValueFamily.BIT | ValueFamily.BIT_TEXT:
            return _bits(column, text)
        case ValueFamily.BINARY:
            return _binary(column, text, setting(facts, chosen, BINARY_MODE))
        case ValueFamily.GEOMETRY:
            return _geometry(text)
        case _:
            return values.from_text(column, text, "UTC")


def _named(kind: Expr, name: str, *, otherwise: bool) -> Expr:
    """True if the record's schema has that name; where there is no schema, what the settings say."""
    return F.when(kind.isNull(), F.lit(otherwise)).otherwise(F.coalesce(kind["name"], F.lit("")) == name)


def _digits(column: Column, text: Expr, scale: Expr) -> Expr:
    """Returns the decimal text of Connect's Decimal: unscaled bytes in base64."""
    return values.let(F.try_to_binary(text, F.lit("base64")), lambda found: values.scaled_bytes(column, found, scale))


def _decimal(facts: FormatFacts, column: Column, text: Expr, kind: Expr, chosen: EventFormat) -> Reading:
    mode = setting(facts, chosen, DECIMAL_MODE)
    unbounded = not DeclaredType.parse(column.source_type).numbers and family_of(column) is ValueFamily.DECIMAL_TEXT
    precise = _named(kind, PRECISE, otherwise=mode == "precise" and not unbounded)
    variable = _named(kind, VARIABLE, otherwise=mode == "precise" and unbounded)
    parts = F.from_json(F.when(variable, text), "scale int, value string")
    scale = F.coalesce(kind["scale"], F.lit(scale_of(column)))
    digits = F.when(precise, _digits(column, text, scale)).when(variable, _digits(column, parts["value"], parts["scale"]))

    def stored(plain: Expr) -> Expr:
        return values.decimal(column, plain).value if family_of(column) is ValueFamily.DECIMAL else plain

    value = F.when(precise | variable, values.let(digits, stored)).otherwise(stored(text))
    if f"{DECIMAL_MODE}=double" not in chosen.accept:
        value = F.when(~F.coalesce(kind["type"], F.lit("")).isin("double", "float64"), value)
    return Reading(value=value)


def _temporal(facts: FormatFacts, column: Column, text: Expr, kind: Expr, chosen: EventFormat) -> Reading:
    name = F.coalesce(kind["name"], F.lit(_declared(column, setting(facts, chosen, TIME_MODE))))
    declared = DeclaredType.parse(column.source_type)
    number = text.try_cast("bigint")
    if family_of(column) is ValueFamily.TIME:
        return _time_of_day(column, text, number, name)
    if declared.base == "date":
        days = F.date_from_unix_date(text.try_cast("int"))
        iso = F.regexp_replace(text, "Z$", "")
        day = F.when(name == f"{_TIME}IsoDate", values.rarely(F.lit(True), values.date(iso).value)).otherwise(days)
        return Reading(value=day.cast(column.delta_type))
    if family_of(column) is ValueFamily.INSTANT:
        return values.zoned_instant(text)
    if (declared.base == "timestamp" and "time zone" not in column.source_type.lower()) or "with time zone" in column.source_type.lower():
        instant = values.zoned_instant(text).value  # an instant that the lake keeps as text, in UTC
        return Reading(value=values.moment_of_micros(column, F.unix_micros(instant)))
    micros = (
        F.when(name == f"{_TIME}MicroTimestamp", number)
        .when(name.isin(f"{_TIME}Timestamp", f"{_CONNECT}Timestamp"), number * 1000)
        .otherwise(values.rarely((name == f"{_TIME}NanoTimestamp") & (number % 1000 == 0), F.floor(number / F.lit(1000)).cast("bigint")))
    )
    moment = values.moment_of_micros(column, micros)
    iso = F.regexp_replace(text, _ISO, "$1-$2-$3 $4")
    spelled = values.wall_clock(iso).value
    written = values.moment_text(column, spelled) if family_of(column) is ValueFamily.MOMENT_TEXT else spelled
    return Reading(value=F.when(name == f"{_TIME}IsoTimestamp", values.rarely(F.lit(True), written)).otherwise(moment))


def _time_of_day(column: Column, text: Expr, number: Expr, name: Expr) -> Reading:
    micros = (
        F.when(name == f"{_TIME}MicroTime", number)
        .when(name.isin(f"{_TIME}Time", f"{_CONNECT}Time"), number * 1000)
        .otherwise(values.rarely((name == f"{_TIME}NanoTime") & (number % 1000 == 0), F.floor(number / F.lit(1000)).cast("bigint")))
    )
    iso = values.time(column, F.regexp_replace(text, "Z$", "")).value
    spelled = values.rarely(name.isin(f"{_TIME}IsoTime", f"{_TIME}ZonedTime"), iso)
    return Reading(value=F.coalesce(spelled, values.time_of_micros(column, micros)))


def _declared(column: Column, mode: str) -> str:
    """Returns the schema that a connector uses for a column under a `time.precision.mode`."""
    base, fine = DeclaredType.parse(column.source_type).base, fraction_digits(column) > 3
    is_time = family_of(column) is ValueFamily.TIME
    if base == "date":
        return f"{_TIME}IsoDate" if mode == "isostring" else f"{_TIME}Date"
    kind = "Time" if is_time else "Timestamp"
    match mode:
        case "isostring":
            return f"{_TIME}Iso{kind}"
        case "connect":
            return f"{_CONNECT}{kind}"
        case "nanoseconds":
            return f"{_TIME}Nano{kind}"
        case "microseconds":
            return f"{_TIME}Micro{kind}"
        case "adaptive_time_microseconds" if is_time:
            return f"{_TIME}MicroTime"
        case _:
            return f"{_TIME}Micro{kind}" if fine else f"{_TIME}{kind}"


def _bits(column: Column, text: Expr) -> Reading:
    """BIT(1) is true or false, longer ones are bytes, least significant first."""
    number = F.when(text == "true", "1").when(text == "false", "0")
    number = number.otherwise(values.little_endian(F.try_to_binary(text, F.lit("base64"))))
    if family_of(column) is ValueFamily.BIT:
        return Reading(value=number.try_cast(column.delta_type))
    width = (DeclaredType.parse(column.source_type).numbers or (1,))[0]
    return Reading(value=F.lpad(F.conv(number, 10, 2), width, "0"))


def _binary(column: Column, text: Expr, mode: str) -> Reading:
    match mode:
        case "hex":
            return values.hexadecimal(column, text)
        case "base64-url-safe":
            return values.base64(column, F.translate(text, "-_", "+/"))
        case _:
            return values.base64(column, text)


def _geometry(text: Expr) -> Reading:
    parts = F.from_json(text, "wkb string, srid int")
    number = F.lpad(F.hex(F.coalesce(parts["srid"], F.lit(0)).cast("bigint")), 8, "0")
    srid = F.regexp_replace(F.reverse(number), "(.)(.)", "$2$1")
    wkb = F.hex(F.try_to_binary(parts["wkb"], F.lit("base64")))
    return Reading(value=F.try_to_binary(F.concat(srid, wkb), F.lit("hex")))
