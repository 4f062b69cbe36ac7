"""Debezium's JSON events for the compiled reader: how each column is spelled, as far as that is plain. Spark-free.

What `formats.debezium.values` reads by expressions, this names by an encoding, or not at all; tests read the same records both ways.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec, setting
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.formats.debezium_losses import BINARY_MODE, DECIMAL_MODE, NEED_SCHEMAS, SCHEMAS, TIME_MODE, UNSIGNED_MODE
from cdc_ops.core.schema.logical_types import LogicalType, byte_length, fraction_digits, logical_type_of, scale_of, trims_fractions
from cdc_ops.core.schema.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.decode.json.encodings import Encoded, Encoding
from cdc_ops.decode.program import Field, Kind
from cdc_ops.formats.debezium.schema_names import CONNECT, PRECISE, TIME, VARIABLE, YEAR_ZERO, declared_name
from cdc_ops.formats.debezium.unchanged import BEGINNINGS
from cdc_ops.formats.feed.plain_columns import LONGEST_PADDING, holds_bigint, plain_fields

_TEXT: Final = Encoded(encoding=Encoding.TEXT)
_SIMPLE: Final = {
    LogicalType.FLOAT: Encoded(encoding=Encoding.FLOATING),
    LogicalType.BOOLEAN: Encoded(encoding=Encoding.BOOLEAN),
    LogicalType.PADDED_TEXT: Encoded(encoding=Encoding.TEXT, argument=1),
    LogicalType.OTHER: Encoded(encoding=Encoding.TEXT, argument=2),
    **dict.fromkeys((LogicalType.TEXT, LogicalType.ENUM, LogicalType.SET, LogicalType.UUID), _TEXT),
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
        case LogicalType.JSON:
            return Encoded(encoding=Encoding.DOCUMENT) if UNSIGNED_MODE in spec.settings else _TEXT
        case _:  # inet: the exact way adds the mask
            return None if column.source_type.strip().lower() == "inet" else _SIMPLE.get(logical)


def _whole_number(
    spec: FormatSpec, column: Column, logical: LogicalType, schema: FieldSchema | None, options: FormatOptions
) -> Encoded | None:
    if schema is not None and schema.name == PRECISE:
        return None
    if logical is LogicalType.YEAR:
        return Encoded(encoding=Encoding.EXCEPT, argument=YEAR_ZERO)
    if logical is LogicalType.INTEGER:
        return Encoded(encoding=Encoding.INTEGER) if holds_bigint(column) else None
    if schema is None and setting(spec, options, UNSIGNED_MODE) == "precise":
        return None
    return Encoded(encoding=Encoding.UNSIGNED) if holds_bigint(column) else None


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
        digits = -1 if trims_fractions(column) else fraction_digits(column)
        return Encoded(encoding=Encoding.TIME, argument=digits) if name == f"{TIME}MicroTime" else None
    if base == "date":
        return Encoded(encoding=Encoding.DAYS) if name != f"{TIME}IsoDate" and column.delta_type == "date" else None
    if logical is LogicalType.INSTANT or (base == "timestamp" and "without" not in declared):
        zero = base == "timestamp" and "time zone" not in declared
        return Encoded(encoding=Encoding.INSTANT, argument=int(zero)) if column.delta_type == "timestamp" else None
    units = {f"{TIME}MicroTimestamp": 1, f"{TIME}Timestamp": 1000, f"{CONNECT}Timestamp": 1000}
    return Encoded(encoding=Encoding.MICROS, argument=units[name]) if name in units and logical is LogicalType.WALL_CLOCK else None


def _binary(column: Column, schema: FieldSchema | None, mode: str) -> Encoded | None:
    in_base64 = schema.type == "bytes" if schema is not None else mode == "bytes"
    if not in_base64 or byte_length(column) > LONGEST_PADDING:
        return None
    return Encoded(encoding=Encoding.BYTES, argument=byte_length(column))


def _bits(column: Column) -> Encoded | None:
    if column.delta_type == "boolean":
        return Encoded(encoding=Encoding.BOOLEAN)
    field = Field.of(column.name, column.delta_type)
    return Encoded(encoding=Encoding.BITS) if field.kind in (Kind.INTEGER, Kind.DECIMAL) and field.scale == 0 else None


def encodings_by_schema(
    schema: TableSchema, options: FormatOptions, read: Callable[[bytes], dict[str, FieldSchema] | None], text: bytes
) -> tuple[Encoded, ...] | None:
    """Returns how the columns of a table are spelled in records with such a schema; None if that is not plain.

    Args:
        schema: The table.
        options: The format's options from the pipeline file.
        read: Returns the schemas of the columns in such a text, None if it is not as JsonConverter writes it.
        text: The schema in the records, `b""` if they have none.
    """
    fields = read(text) if text else {}
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


def flat_fields_of(text: bytes) -> dict[str, FieldSchema] | None:
    """The same for a flat record."""
    try:
        row = [_field(one) for one in json.loads(text, object_pairs_hook=_once)["fields"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(row) if len(dict(row)) == len(row) else None


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


def plain_mysql(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions) -> Any:
    """Returns how the compiled reader reads events of MySQL; None if they are left to the exact way. Needs what the kernels need."""
    from cdc_ops.decode.json import debezium

    return _enveloped(schema, keys, options, debezium.mysql_layouts(schema.names), debezium.read_mysql, debezium.MYSQL_PARTS)


def plain_postgres(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions) -> Any:
    """The same for events of Postgres."""
    from cdc_ops.decode.json import debezium

    return _enveloped(schema, keys, options, debezium.postgres_layouts(schema.names), debezium.read_postgres, debezium.POSTGRES_PARTS)


def _enveloped(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions, layouts: Any, read: Any, parts: int) -> Any:
    fields = plain_fields(schema, keys)
    if fields is None:
        return None
    import numpy as np

    from cdc_ops.decode.json import debezium
    from cdc_ops.decode.json.reader import PlainFormat

    names = [np.frombuffer(name.encode(), np.uint8) for name in (schema.table.schema, schema.table.name)]
    first, count = debezium.FIRST_COLUMN, len(fields)

    def envelopes(data: Any, spans: Any, rows: int, events: Any, counts: Any) -> None:
        read(data, spans, rows, *names, events, counts)

    return PlainFormat(
        layouts=layouts,
        parts=parts,
        slots=first + 2 * count,
        first_columns=(first, first + count),
        schema_slot=debezium.Slot.SCHEMA,
        envelopes=envelopes,
        columns=fields,
        keys=tuple(schema.names.index(key) for key in keys),
        encodings=partial(encodings_by_schema, schema, options, fields_of),
        refused=BEGINNINGS,
    )
