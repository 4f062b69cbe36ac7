"""Reads dates and times as Debezium writes them, by the names of their schemas."""

import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec, setting
from cdc_ops.core.schema.logical_types import LogicalType, fraction_digits, is_instant, logical_type_of
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion import bulk, moments, values
from cdc_ops.events.conversion.bulk import bulk_of, quick
from cdc_ops.events.format import UNREADABLE, UNSTORABLE, Read, unreadable
from cdc_ops.events.formats.debezium.declared.losses import TIME_MODE
from cdc_ops.events.formats.debezium.schema_names import CONNECT, TIME, declared_name
from cdc_ops.events.record import FieldType

LOGICAL_TYPES: Final = (LogicalType.DATE, LogicalType.WALL_CLOCK, LogicalType.INSTANT, LogicalType.MOMENT_TEXT, LogicalType.TIME)
_INFINITE: Final = {9223372036825200000: "infinity", -9223372036832400000: "-infinity"}
"""The numbers that Postgres's driver, and so Debezium, writes for infinite values, in microseconds."""
_LAST_MICRO: Final = 9223372036854775807
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_031_948
"""The first and last day of Postgres, since 1970. An infinite date is a number beyond them; it does not say which infinity."""
_DAY: Final = 86_400_000_000
_ISO: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)[0-9]*Z?")

_whole_number: Final = values.whole_number("bigint")


def reader(spec: FormatSpec, options: FormatOptions, column: Column, kind: FieldType | None) -> Read:
    """Returns how the values of a column are read.

    Args:
        spec: The format's declaration.
        options: The format's options, including settings of the connector.
        column: The column, of one of `LOGICAL_TYPES`.
        kind: The field's schema, None if the record has none.
    """
    name = (kind.name if kind is not None else "") or declared_name(column, setting(spec, options, TIME_MODE))
    if logical_type_of(column) is LogicalType.TIME:
        return _time_of_day(column, name)
    if DeclaredType.parse(column.source_type).base == "date":
        return _day(column, name)
    if is_instant(column):
        return _instant(column)
    return _iso_moment(column) if name == f"{TIME}IsoTimestamp" else _moment(column, _micros_of(name, "Timestamp"))


def _micros_of(name: str, kind: str) -> Read:
    """Returns what reads the number of a time as microseconds; one that is no whole number of them cannot be read."""
    if name == f"{TIME}Micro{kind}":
        return _whole_number
    if name in (f"{TIME}{kind}", f"{CONNECT}{kind}"):
        return _micros_of_millis
    return _micros_of_nanos if name == f"{TIME}Nano{kind}" else unreadable


quick(_whole_number, bulk.INTEGERS)


def _micros_of_millis(text: str) -> Any:
    number = _whole_number(text)
    return number * 1000 if number.__class__ is int and abs(number) <= _LAST_MICRO // 1000 else UNREADABLE


quick(_micros_of_millis, bulk.INTEGERS.then(lambda found: pc.multiply_checked(found, 1000)))


def _micros_of_nanos(text: str) -> Any:
    number = _whole_number(text)
    return number // 1000 if number.__class__ is int and number % 1000 == 0 else UNREADABLE


def _whole_micros(nanos: pa.Array) -> pa.Array:
    micros = pc.divide(nanos, 1000)
    if pc.all(pc.equal(pc.multiply(micros, 1000), nanos)).as_py() is False:
        raise ValueError("no whole number of microseconds")
    return micros


quick(_micros_of_nanos, bulk.INTEGERS.then(_whole_micros))


def _moment(column: Column, micros_of: Read) -> Read:
    """Reads local time in microseconds. Only Postgres has infinite times, and years beyond the range of microseconds."""
    stored = moments.moment_of_micros(column)
    ends = column.source_type.lower().endswith("without time zone")
    as_text = logical_type_of(column) is LogicalType.MOMENT_TEXT
    named = _INFINITE if as_text else dict.fromkeys((*_INFINITE, _LAST_MICRO), UNSTORABLE)
    endless: dict[int, Any] = ({_LAST_MICRO: UNREADABLE} | named) if ends else {}

    def read(text: str) -> Any:
        micros = micros_of(text)
        if micros.__class__ is not int:
            return UNREADABLE
        return endless[micros] if micros in endless else stored(micros)

    every = bulk_of(micros_of)
    if every is None or logical_type_of(column) is not LogicalType.WALL_CLOCK:
        return read
    return quick(read, every.then(bulk.moments))


def _iso_moment(column: Column) -> Read:
    stored = moments.moment_of_micros(column)

    def read(text: str) -> Any:
        found = _ISO.fullmatch(text)
        micros = moments.wall_clock(f"{found[1]} {found[2]}" if found else text)
        return stored(micros) if micros.__class__ is int else UNREADABLE

    return read


def _day(column: Column, name: str) -> Read:
    """Reads days since 1970. Infinite dates of Postgres do not say which infinity they are, so they have no text either."""
    is_iso, as_text = name == f"{TIME}IsoDate", logical_type_of(column) is not LogicalType.DATE
    number = moments.date if is_iso else values.whole_number("int")
    printed, beyond = moments.moment_text(column), UNREADABLE if as_text else UNSTORABLE

    def read(text: str) -> Any:
        if is_iso:
            text = text.removesuffix("Z")
        day = number(text)
        if day.__class__ is not int:
            return UNREADABLE
        if not _FIRST_DAY <= day <= _LAST_DAY:
            return beyond
        return printed(day * _DAY).partition(" ")[0] if as_text else day

    return read if as_text else quick(read, bulk_of(number) if is_iso else bulk.INTEGERS.then(bulk.days))


def _instant(column: Column) -> Read:
    """Reads instants, also those that the lake keeps as the server's text, in UTC. MySQL's zero TIMESTAMP has second 0."""
    zoned, zero = "time zone" in column.source_type.lower(), DeclaredType.parse(column.source_type).base == "timestamp"
    as_text = logical_type_of(column) is LogicalType.MOMENT_TEXT
    if not zoned and not zero:
        return moments.zoned_instant
    stored, offset = moments.moment_of_micros(column), "+00" if zoned else ""
    none = "0000-00-00 00:00:00" + ("." + "0" * fraction_digits(column) if fraction_digits(column) else "")

    def read(text: str) -> Any:
        if zoned and text in ("infinity", "-infinity"):
            return text if as_text else UNSTORABLE
        micros = moments.zoned_instant(text)
        if micros is UNREADABLE:
            return UNREADABLE
        if not zoned and 0 <= micros < 1_000_000:
            return none if as_text else UNSTORABLE
        return f"{stored(micros)}{offset}" if as_text else micros

    return read if as_text else quick(read, bulk_of(moments.zoned_instant) if zoned else moments.INSTANTS_IN_UTC.then(_but_none))


def _but_none(found: pa.Array) -> pa.Array:
    micros = found.cast(pa.int64())
    if pc.any(pc.and_(pc.greater_equal(micros, 0), pc.less(micros, 1_000_000))).as_py():
        raise ValueError("the zero TIMESTAMP")
    return found


def _time_of_day(column: Column, name: str) -> Read:
    spelled = moments.time(column)
    if name in (f"{TIME}IsoTime", f"{TIME}ZonedTime"):
        return lambda text: spelled(text.removesuffix("Z"))
    micros_of, printed = _micros_of(name, "Time"), moments.time_of_micros(column)

    def read(text: str) -> Any:
        micros = micros_of(text)
        return printed(micros) if micros.__class__ is int else UNREADABLE

    every, all_printed = bulk_of(micros_of), moments.times_of_micros(column)
    return read if every is None else quick(read, every.then(all_printed))
