"""Debezium's JSON events for the compiled reader: how each column is spelled, as far as that is plain. Spark-free.

What `formats.debezium.values` reads by expressions, this names by an encoding, or not at all; tests read the same records both ways.
"""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec, setting
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.formats.debezium_losses import BINARY_MODE, DECIMAL_MODE, NEED_SCHEMAS, PLACEHOLDER, SCHEMAS, TIME_MODE, UNSIGNED_MODE
from cdc_ops.core.schema.logical_types import LogicalType, byte_length, fraction_digits, logical_type_of, scale_of, trims_fractions
from cdc_ops.core.schema.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.decode.json.encodings import Encoded, Encoding
from cdc_ops.decode.json.layout import is_plain_name
from cdc_ops.decode.program import Field, Kind, is_supported
from cdc_ops.formats.debezium.schema_names import CONNECT, PRECISE, TIME, VARIABLE, YEAR_ZERO, declared_name

REFUSED: Final = PLACEHOLDER[:5].encode() + b"X19kZ" + b'["X19' + b"5f5f6"
"""How the forms begin in which Debezium writes that a value did not change: as text, base64, an array of that, hexadecimal digits."""

_LONGEST_PADDING: Final = 255
_SIMPLE: Final = {
    LogicalType.FLOAT: Encoding.FLOATING,
    LogicalType.BOOLEAN: Encoding.BOOLEAN,
    **dict.fromkeys((LogicalType.TEXT, LogicalType.ENUM, LogicalType.SET), Encoding.TEXT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    """The schema of one field, as a record carries it.

    Args:
        type: Kafka Connect's type.
        name: Of a logical type, "" for none.
        scale: Of a decimal, None if it is not said.
    """

    type: str
    name: str = ""
    scale: int | None = None


def encoding_of(spec: FormatSpec, column: Column, schema: FieldSchema | None, options: FormatOptions) -> Encoded | None:
    """Returns how the values of a column are spelled; None for a column whose values are all left to the exact way.

    Args:
        spec: The format's declaration.
        column: The column.
        schema: Its schema in the record, None if the record carries none.
        options: The format's options from the pipeline file.
    """
    logical = logical_type_of(column)
    if schema is None and logical in NEED_SCHEMAS and setting(spec, options, SCHEMAS) == "true":
        return None
    match logical:
        case LogicalType.INTEGER | LogicalType.YEAR | LogicalType.UNSIGNED_BIGINT:
            return _whole_number(spec, column, logical, schema, options)
        case LogicalType.DECIMAL:
            return _decimal(spec, column, schema, options)
        case LogicalType.DATE | LogicalType.WALL_CLOCK | LogicalType.INSTANT | LogicalType.TIME:
            said = schema.name if schema is not None else ""
            return _temporal(column, logical, said or declared_name(column, setting(spec, options, TIME_MODE)))
        case LogicalType.BINARY:
            return _binary(column, schema, setting(spec, options, BINARY_MODE))
        case LogicalType.BIT:
            return _bits(column)
        case _:
            encoding = {**_SIMPLE, LogicalType.JSON: Encoding.DOCUMENT if UNSIGNED_MODE in spec.settings else Encoding.TEXT}.get(logical)
            return None if encoding is None else Encoded(encoding=encoding)


def _whole_number(
    spec: FormatSpec, column: Column, logical: LogicalType, schema: FieldSchema | None, options: FormatOptions
) -> Encoded | None:
    if schema is not None and schema.name == PRECISE:
        return None
    if logical is LogicalType.YEAR:
        return Encoded(encoding=Encoding.EXCEPT, argument=YEAR_ZERO)
    if logical is LogicalType.INTEGER:
        return Encoded(encoding=Encoding.INTEGER) if _holds_bigint(column) else None
    if schema is None and setting(spec, options, UNSIGNED_MODE) == "precise":
        return None
    return Encoded(encoding=Encoding.UNSIGNED) if _holds_bigint(column) else None


def _holds_bigint(column: Column) -> bool:
    """True for an integer type, and for a decimal without fraction that holds every BIGINT."""
    field = Field.of(column.name, column.delta_type)
    return not field.precision or (field.scale == 0 and field.precision > 18)


def _decimal(spec: FormatSpec, column: Column, schema: FieldSchema | None, options: FormatOptions) -> Encoded | None:
    mode = setting(spec, options, DECIMAL_MODE)
    if schema is None and mode == "double":
        return None
    if schema is not None and (schema.name == VARIABLE or schema.type in ("double", "float64")):
        return None
    if schema.name != PRECISE if schema is not None else mode != "precise":
        return Encoded(encoding=Encoding.DECIMAL)
    scale = scale_of(column) if schema is None or schema.scale is None else schema.scale
    return Encoded(encoding=Encoding.DECIMAL_BYTES) if scale == Field.of(column.name, column.delta_type).scale else None


def _temporal(column: Column, logical: LogicalType, name: str) -> Encoded | None:
    base, declared = DeclaredType.parse(column.source_type).base, column.source_type.lower()
    if logical is LogicalType.TIME:
        plain = name == f"{TIME}MicroTime" and not trims_fractions(column)
        return Encoded(encoding=Encoding.TIME, argument=fraction_digits(column)) if plain else None
    if base == "date":
        return Encoded(encoding=Encoding.DAYS) if name != f"{TIME}IsoDate" and column.delta_type == "date" else None
    if logical is LogicalType.INSTANT or (base == "timestamp" and "without" not in declared):
        zero = base == "timestamp" and "time zone" not in declared
        return Encoded(encoding=Encoding.INSTANT, argument=int(zero)) if column.delta_type == "timestamp" else None
    units = {f"{TIME}MicroTimestamp": 1, f"{TIME}Timestamp": 1000, f"{CONNECT}Timestamp": 1000}
    return Encoded(encoding=Encoding.MICROS, argument=units[name]) if name in units and logical is LogicalType.WALL_CLOCK else None


def _binary(column: Column, schema: FieldSchema | None, mode: str) -> Encoded | None:
    in_base64 = schema.type == "bytes" if schema is not None else mode == "bytes"
    if not in_base64 or byte_length(column) > _LONGEST_PADDING:
        return None
    return Encoded(encoding=Encoding.BYTES, argument=byte_length(column))


def _bits(column: Column) -> Encoded | None:
    if column.delta_type == "boolean":
        return Encoded(encoding=Encoding.BOOLEAN)
    field = Field.of(column.name, column.delta_type)
    return Encoded(encoding=Encoding.BITS) if field.kind in (Kind.INTEGER, Kind.DECIMAL) and field.scale == 0 else None


def mysql_encodings(schema: TableSchema, options: FormatOptions, text: bytes) -> tuple[Encoded, ...] | None:
    """Returns how the columns of a table are spelled in records with such a schema; None if that is not plain.

    Args:
        schema: The table.
        options: The format's options from the pipeline file.
        text: The schema in the records, `b""` if they have none.
    """
    fields = fields_of(text) if text else {}
    if fields is None:
        return None
    spec, found = format_spec(options.name), []
    for column in schema.columns:
        if text and column.name not in fields:
            return None
        found.append(encoding_of(spec, column, fields.get(column.name), options) or Encoded(encoding=Encoding.NOTHING))
    return tuple(found)


def fields_of(text: bytes) -> dict[str, FieldSchema] | None:
    """Returns the schemas of the columns in a record's schema; None if it is not as JsonConverter writes it."""
    try:
        fields = json.loads(text, object_pairs_hook=_once)["fields"]
        structs = [(one["field"], [_field(inner) for inner in one["fields"]]) for one in fields if one.get("fields") is not None]
        image = next(found for name, found in structs if name in ("after", "before"))
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    return dict(image) if len(dict(image)) == len(image) else None


def _field(one: dict[str, Any]) -> tuple[str, FieldSchema]:
    """Returns the name and the schema of a field.

    Raises:
        ValueError: a part of it is of an unexpected type.
    """
    field, kind, name, parameters = one["field"], one["type"], one.get("name"), one.get("parameters") or {}
    scale = parameters.get("scale", "0")
    texts = isinstance(field, str) and isinstance(kind, str) and (name is None or (isinstance(name, str) and name != ""))
    if not texts or not isinstance(scale, str) or not scale.isascii() or not scale.isdigit():
        raise ValueError("not a field of a schema")
    return field, FieldSchema(type=kind, name=name or "", scale=int(scale) if "scale" in parameters else None)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member twice")
    return found


def mysql_fields(schema: TableSchema, keys: tuple[str, ...]) -> tuple[Field, ...] | None:
    """Returns the columns of a table for the compiled reader; None if it cannot read one of them, or find its name."""
    names = schema.names
    if not keys or len(set(names)) != len(names) or not all(map(is_plain_name, names)):
        return None
    if not all(is_supported(column.delta_type) for column in schema.columns):
        return None
    return tuple(Field.of(column.name, column.delta_type) for column in schema.columns)


def plain_mysql(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions) -> Any:
    """Returns how the compiled reader reads a table's events; None if they are left to the exact way. Needs what the kernels need."""
    fields = mysql_fields(schema, keys)
    if fields is None:
        return None
    import numpy as np

    from cdc_ops.decode.json import debezium
    from cdc_ops.decode.json.reader import PlainFormat

    database, table = (np.frombuffer(name.encode(), np.uint8) for name in (schema.table.schema, schema.table.name))
    first, count = debezium.FIRST_COLUMN, len(fields)

    def envelopes(data: Any, spans: Any, rows: int, events: Any, counts: Any) -> None:
        debezium.read_mysql(data, spans, rows, database, table, events, counts)

    return PlainFormat(
        layouts=debezium.layouts(schema.names),
        parts=debezium.MYSQL_PARTS,
        slots=first + 2 * count,
        first_columns=(first, first + count),
        schema_slot=debezium.Slot.SCHEMA,
        envelopes=envelopes,
        columns=fields,
        keys=tuple(schema.names.index(key) for key in keys),
        encodings=partial(mysql_encodings, schema, options),
        refused=REFUSED,
    )
