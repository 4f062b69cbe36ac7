"""Reads values as Debezium writes them, by the names of their Kafka Connect schemas.

With schemas in the records (`schemas.enable=true`), each record has the encoding of its values. Without them, the connector's settings
determine it, and the pipeline file has to repeat those that are not the defaults. Dates and times are in `times`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from cdc_ops.core.events.format_spec import Container, FormatOptions, FormatSpec, setting
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of, scale_of
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion import bulk, octets, values
from cdc_ops.events.conversion.bulk import bulk_of, quick, reader_of
from cdc_ops.events.format import UNREADABLE, UNSTORABLE, Bulk, Read, Reader, unreadable
from cdc_ops.events.formats.debezium.declared.losses import BINARY_MODE, DECIMAL_MODE, META_DATA, NEED_SCHEMAS, SCHEMAS, UNSIGNED_MODE
from cdc_ops.events.formats.debezium.schema_names import PRECISE, VARIABLE, YEAR_ZERO
from cdc_ops.events.formats.debezium.values import documents, times
from cdc_ops.events.record import FieldType

_SPECIAL: Final = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
_ROUNDED: Final = ("double", "float64")
_FLATTENED: Final = re.compile(r'\[(null|"\[[A-Z]?[^"]*;@[0-9a-f]+")(,(null|"\[[A-Z]?[^"]*;@[0-9a-f]+"))*\]')
"""Matches what Debezium writes for arrays of arrays: NULLs, or names of Java objects. An array of NULLs alone looks the same."""
_EXACT: Final = Context(prec=100)
_MOST_ZEROS: Final = 200_000
"""Digits after the point, or zeros before it, of the longest number of a server."""


@dataclass(frozen=True, slots=True)
class Values:
    """How the values of a format are read.

    Args:
        spec: The format's declaration.
        options: Its options, including settings of the connector.
    """

    spec: FormatSpec
    options: FormatOptions

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        said_by = META_DATA if self.spec.files.container is Container.AVRO else SCHEMAS
        if logical_type_of(column) not in NEED_SCHEMAS or self._setting(said_by) != "true":
            return reader_of(self._read(column, kind))
        read = unreadable if kind is None else self._read(column, kind)
        return reader_of(read, _untyped(column, said_by))

    def _setting(self, name: str) -> str:
        return setting(self.spec, self.options, name)

    def _read(self, column: Column, kind: FieldType | None) -> Read:
        logical = logical_type_of(column)
        readers: dict[LogicalType, Callable[[], Read]] = {
            LogicalType.INTEGER: lambda: self._integer(column, kind),
            LogicalType.YEAR: lambda: _year(column),
            LogicalType.UNSIGNED_BIGINT: lambda: self._unsigned(column, kind),
            **dict.fromkeys((LogicalType.DECIMAL, LogicalType.DECIMAL_TEXT), lambda: self._decimal(column, kind)),
            **dict.fromkeys(times.LOGICAL_TYPES, lambda: times.reader(self.spec, self.options, column, kind)),
            LogicalType.BIT: lambda: _bits(column),
            LogicalType.BIT_TEXT: lambda: _bit_text(column),
            LogicalType.BINARY: lambda: _binary(column, kind, self._setting(BINARY_MODE)),
            LogicalType.GEOMETRY: lambda: _geometry,
            LogicalType.JSON: lambda: documents.spaced if UNSIGNED_MODE in self.spec.settings else values.as_it_is,
            LogicalType.ARRAY: lambda: _array,
            LogicalType.OTHER: lambda: _inet if column.source_type.strip().lower() == "inet" else _other,
        }
        return readers.get(logical, lambda: values.from_text(column, "UTC"))()

    def _integer(self, column: Column, kind: FieldType | None) -> Read:
        """Reads whole numbers. Those of a BIGINT that was unsigned may be bytes; since it is signed, Debezium writes them as they are."""
        read = values.integer(column)
        was_unsigned = UNSIGNED_MODE in self.spec.settings and DeclaredType.parse(column.source_type).base == "bigint"
        return _of_bytes(read) if was_unsigned and _named(kind, PRECISE, otherwise=False) else read

    def _unsigned(self, column: Column, kind: FieldType | None) -> Read:
        read = values.unsigned_bigint(column)
        return _of_bytes(read) if _named(kind, PRECISE, otherwise=self._setting(UNSIGNED_MODE) == "precise") else read

    def _decimal(self, column: Column, kind: FieldType | None) -> Read:
        precise, is_text = self._setting(DECIMAL_MODE) == "precise", logical_type_of(column) is LogicalType.DECIMAL_TEXT
        unbounded = is_text and not DeclaredType.parse(column.source_type).numbers
        plain = values.as_it_is if is_text else values.decimal(column)
        refused = kind is not None and kind.type in _ROUNDED and f"{DECIMAL_MODE}=double" not in self.options.accept_losses
        if _named(kind, PRECISE, otherwise=precise and not unbounded):
            scale = scale_of(column) if kind is None or kind.scale is None else kind.scale
            return unreadable if refused else _of_scale(column, scale, plain)
        if _named(kind, VARIABLE, otherwise=precise and unbounded):
            return unreadable if refused else _of_any_scale(plain)
        return _decimal_text(unreadable if refused else plain, is_text=is_text, refused=refused)


def _untyped(column: Column, said_by: str) -> str:
    """Returns the advice for a value whose record lacks its schema, although the pipeline file says that records have schemas."""
    unsaid = ", because the record does not say how it is written: set"
    if said_by == META_DATA:
        return f"{unsaid} connect.meta.data=true in the sink"
    decimal = logical_type_of(column) in (LogicalType.DECIMAL, LogicalType.DECIMAL_TEXT)
    otherwise = ", or decimal.handling.mode=string and state it with schemas.enable=false" if decimal else ""
    return f"{unsaid} value.converter.schemas.enable=true in the connector{otherwise}"


def _named(kind: FieldType | None, name: str, *, otherwise: bool) -> bool:
    """True if the record's schema has that name; without a schema, True if the settings imply it."""
    return otherwise if kind is None else kind.name == name


def _year(column: Column) -> Read:
    number = values.integer(column)

    def read(text: str) -> Any:
        year = number(text)
        return 0 if year == YEAR_ZERO else year

    every = bulk_of(number)
    return read if every is None else quick(read, every.then(_without_year_zero))


def _without_year_zero(years: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(years, YEAR_ZERO), pa.scalar(0, years.type), years)


def _of_bytes(read: Read) -> Read:
    """Returns what reads whole numbers that are bytes in base64."""

    def read_bytes(text: str) -> Any:
        found = octets.from_base64(text)
        digits = octets.big_number(found) if found.__class__ is bytes else None
        return UNREADABLE if digits is None else read(digits)

    return read_bytes


def _of_scale(column: Column, scale: int, plain: Read) -> Read:
    """Returns what reads Connect's Decimal, which is the unscaled number's bytes in base64.

    Args:
        column: The column.
        scale: Digits after the point.
        plain: Reads the decimal's text.
    """
    kind = DeclaredType.parse(column.delta_type)
    precision, digits = (*kind.numbers, 0)[:2] if kind.base == "decimal" else (0, 0)
    limit = 10**precision if kind.base == "decimal" and digits == scale else 0
    from_base64 = octets.from_base64

    def read(text: str) -> Any:
        found = from_base64(text)
        if found.__class__ is not bytes:
            return UNREADABLE
        number = int.from_bytes(found, "big", signed=True)
        if -limit < number < limit:
            return Decimal(number).scaleb(-scale, _EXACT)
        return _scaled(found, scale, plain)

    def read_all(cells: Sequence[bytes | None]) -> pa.Array:
        return bulk.scaled([None if one is None else from_bytes(one, "big", signed=True) for one in cells], precision, digits)

    from_bytes = int.from_bytes
    return quick(read, Bulk((bytes,), read_all)) if limit and precision <= bulk.NARROW else read


def _scaled(value: bytes, scale: int, plain: Read) -> Any:
    digits = octets.scaled_bytes(value, scale) if -_MOST_ZEROS <= scale <= _MOST_ZEROS else None
    return UNREADABLE if digits is None else plain(digits)


class _Scaled(Struct):
    """A `VariableScaleDecimal`."""

    scale: int | None = None
    value: str | None = None


_SCALED: Final = msgspec.json.Decoder(_Scaled | None)


def _of_any_scale(plain: Read) -> Read:
    def read(text: str) -> Any:
        try:
            found = _SCALED.decode(text)
        except msgspec.DecodeError:
            return UNREADABLE
        if found is None or found.scale is None or found.value is None:
            return UNREADABLE
        value = octets.from_base64(found.value)
        return _scaled(value, found.scale, plain) if value.__class__ is bytes else UNREADABLE

    return read


def _decimal_text(plain: Read, *, is_text: bool, refused: bool) -> Read:
    """Returns what reads decimals as text, also those that are no numbers: Postgres has them, and a decimal of the lake has not."""
    special = {} if is_text and refused else _SPECIAL if is_text else {"NAN": UNSTORABLE}

    def read(text: str) -> Any:
        found = special.get(text)
        return plain(text) if found is None else found

    return read if is_text else quick(read, bulk_of(plain))


def _bits(column: Column) -> Read:
    number = values.boolean if column.delta_type == "boolean" else values.integer(column)

    def read(text: str) -> Any:
        digits = _bit_digits(text)
        return UNREADABLE if digits is None or (number is values.boolean and digits not in ("0", "1")) else number(digits)

    return quick(read, bulk.BOOLEANS if number is values.boolean else bulk.stored_as(column, bulk.BITS))


def _bit_digits(text: str) -> str | None:
    """Reads bits: BIT(1) is true or false, longer ones are bytes, least significant first; None for anything else.

    Postgres' connector leaves out bytes of zeros at the end, so bits that are all zero have none.
    """
    if text == "true":
        return "1"
    if text in ("false", ""):
        return "0"
    found = octets.from_base64(text)
    return octets.little_endian(found) if found.__class__ is bytes else None


def _bit_text(column: Column) -> Read:
    width = (DeclaredType.parse(column.source_type).numbers or (1,))[0]

    def read(text: str) -> Any:
        digits = _bit_digits(text)
        bits = "" if digits is None else f"{int(digits):0{width}b}"
        return bits if len(bits) == width else UNREADABLE

    return read


def _other(text: str) -> Any:
    """Reads types that are kept as text; objects cannot be read."""
    return UNREADABLE if text[:1] == "{" and text[1:].lstrip()[:1] == '"' else text


def _others(found: pa.Array) -> pa.Array:
    if pc.any(pc.starts_with(found, "{")).as_py():
        raise ValueError("may be an object")
    return found


quick(_other, bulk.TEXTS.then(_others))


def _inet(text: str) -> Any:
    """The same for addresses; a cast adds the mask to one without."""
    return _other(text if "/" in text else f"{text}/128" if ":" in text else f"{text}/32")


def _array(text: str) -> Any:
    """Reads arrays, which are kept as JSON without blanks."""
    try:
        compact = msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return UNREADABLE
    return UNREADABLE if compact[:1] != "[" or _FLATTENED.fullmatch(compact) else compact


def _binary(column: Column, kind: FieldType | None, mode: str) -> Read:
    """Reads bytes as `binary.handling.mode` declares; not if the record's schema differs, because hexadecimal may look like base64."""
    declared = "" if kind is None else kind.type
    if mode == "bytes":
        return unreadable if declared == "string" else octets.base64(column)
    if declared == "bytes" or mode not in ("hex", "base64-url-safe"):
        return octets.base64(column)
    if mode == "hex":
        return octets.hexadecimal(column)
    read = octets.base64(column)
    return lambda text: read(text.translate(_URL_SAFE))


_URL_SAFE: Final = str.maketrans("-_", "+/")


class _Geometry(Struct):
    wkb: str | None = None
    srid: int | None = None


_GEOMETRY: Final = msgspec.json.Decoder(_Geometry | None)


def _geometry(text: str) -> Any:
    """Reads geometries as MySQL stores them: the number of the reference system, least significant byte first, and their WKB."""
    try:
        found = _GEOMETRY.decode(text)
    except msgspec.DecodeError:
        return UNREADABLE
    wkb = UNREADABLE if found is None or found.wkb is None else octets.from_base64(found.wkb)
    srid = 0 if found is None else found.srid or 0
    return srid.to_bytes(4, "little") + wkb if wkb.__class__ is bytes and 0 <= srid < 2**32 else UNREADABLE
