"""Logical types: how events encode the values of a column, by its declared and its stored type. Pure.

A column is decoded by what it *is* at the source, and arrives as what the canonical map stores: the same value as by the query method.
"""

import enum
import re
from typing import Final

from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column


class LogicalType(enum.StrEnum):
    """Kinds of values that a format encodes in the same way."""

    INTEGER = "integer"
    UNSIGNED_BIGINT = "unsigned bigint"
    DECIMAL = "decimal"
    DECIMAL_TEXT = "decimal of more than 38 digits"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATE = "date"
    WALL_CLOCK = "local date and time"
    INSTANT = "instant"
    MOMENT_TEXT = "date or time kept as text"
    TIME = "time"
    ZONED_TIME = "time of day with its offset"
    YEAR = "year"
    BIT = "bit"
    BIT_TEXT = "bit string"
    TEXT = "text"
    PADDED_TEXT = "character(n)"
    ENUM = "enum"
    SET = "set"
    JSON = "json"
    UUID = "uuid"
    BINARY = "binary"
    GEOMETRY = "geometry"
    VECTOR = "vector"
    ARRAY = "array"
    BENT_ARRAY = "array of values that JSON cannot represent"
    INTERVAL = "interval"
    MONEY = "money"
    VARBIT = "bit varying"
    SHAPE = "geometric type kept as text"
    INTERNAL = "internal type of Postgres, or a type of an extension, kept as text"
    DOCUMENT = "document, or array, of MongoDB"
    OTHER = "another type kept as text"


_BY_STORED: Final[dict[str, LogicalType]] = {
    "tinyint": LogicalType.INTEGER,
    "smallint": LogicalType.INTEGER,
    "int": LogicalType.INTEGER,
    "bigint": LogicalType.INTEGER,
    "float": LogicalType.FLOAT,
    "double": LogicalType.FLOAT,
    "boolean": LogicalType.BOOLEAN,
    "date": LogicalType.DATE,
    "timestamp_ntz": LogicalType.WALL_CLOCK,
    "timestamp": LogicalType.INSTANT,
}

_GEOMETRIES: Final = re.compile(r"^(geometry|(multi)?(point|linestring|polygon)|geom(etry)?collection)$")

_TEXT_BY_DECLARED: Final[dict[str, LogicalType]] = {
    **dict.fromkeys(("decimal", "dec", "fixed", "numeric"), LogicalType.DECIMAL_TEXT),
    **dict.fromkeys(("date", "datetime", "timestamp"), LogicalType.MOMENT_TEXT),
    "time": LogicalType.TIME,
    **dict.fromkeys(("json", "jsonb"), LogicalType.JSON),
    "enum": LogicalType.ENUM,
    "set": LogicalType.SET,
    **dict.fromkeys(("character", "bpchar"), LogicalType.PADDED_TEXT),
    "interval": LogicalType.INTERVAL,
    "money": LogicalType.MONEY,
    "bit": LogicalType.BIT_TEXT,
    **dict.fromkeys(("point", "line", "lseg", "box", "path", "polygon", "circle"), LogicalType.SHAPE),
    **dict.fromkeys(
        (
            "char",
            "varchar",
            "tinytext",
            "text",
            "mediumtext",
            "longtext",
            "citext",
            "xml",
            "string",
            "inet4",
            "inet6",
            "clob",
            "nclob",
            "xmltype",
        ),
        LogicalType.TEXT,
    ),
    "uuid": LogicalType.UUID,
    **dict.fromkeys(("object", "array"), LogicalType.DOCUMENT),
    **dict.fromkeys(
        (
            *("name", "xid", "xid8", "cid", "tid", "pg_lsn", "pg_snapshot", "txid_snapshot", "jsonpath", "tsquery"),
            *("regclass", "regcollation", "regconfig", "regdictionary", "regnamespace", "regoper", "regoperator", "regproc"),
            *("regprocedure", "regrole", "regtype", "hstore", "vector", "halfvec", "sparsevec", "geometry", "geography"),
        ),
        LogicalType.INTERNAL,
    ),
}

_BENT_ELEMENTS: Final = re.compile(
    r"^(numeric|real|double precision|date|time|timestamp|interval|bytea|jsonb?|money|bit|xml|oid|name|\"char\""
    r"|point|line|lseg|box|path|polygon|circle|tsvector|tsquery|hstore|vector|halfvec|geometry|geography|pg_lsn|xid8?)( |\(|\[|$)"
)
"""Elements that JSON cannot represent as numbers, strings or booleans; enums, ranges and user-defined types are written as text."""


def logical_type_of(column: Column) -> LogicalType:
    """Returns the logical type of a column's values."""
    kind = DeclaredType.parse(column.source_type)
    stored = column.delta_type.strip().lower()
    if column.source_type.strip().endswith("]"):
        return LogicalType.BENT_ARRAY if _BENT_ELEMENTS.match(column.source_type.strip().lower()) else LogicalType.ARRAY
    if kind.base == "year":
        return LogicalType.YEAR
    if kind.base == "bit" and stored != "string":
        return LogicalType.BIT
    if kind.base == "bigint" and stored.startswith(("bigint", "decimal")):
        # A signed one may be stored as a decimal too: one that was unsigned when the table was loaded. Its -1 is no 2^64 - 1.
        return LogicalType.UNSIGNED_BIGINT if kind.unsigned else LogicalType.INTEGER
    if stored.startswith("decimal"):
        return LogicalType.DECIMAL
    if stored == "binary":
        return _of_binary(kind.base)
    return _BY_STORED[stored] if stored in _BY_STORED else _of_text(column.source_type, kind.base)


def is_instant(column: Column) -> bool:
    """True if a column's values are instants, however they are stored: TIMESTAMP of MySQL, `timestamp with time zone` of Postgres."""
    if logical_type_of(column) is LogicalType.INSTANT:
        return True
    return DeclaredType.parse(column.source_type).base == "timestamp" and "without" not in column.source_type.lower()


def _of_binary(base: str) -> LogicalType:
    if base == "vector":
        return LogicalType.VECTOR
    return LogicalType.GEOMETRY if _GEOMETRIES.match(base) else LogicalType.BINARY


def _of_text(declared: str, base: str) -> LogicalType:
    text = declared.strip().lower()
    if text.startswith("character varying"):
        return LogicalType.TEXT
    if text.startswith("bit varying"):
        return LogicalType.VARBIT
    if base == "time" and text.endswith("with time zone"):
        return LogicalType.ZONED_TIME
    return _TEXT_BY_DECLARED.get(base, LogicalType.OTHER)


def fraction_digits(column: Column) -> int:
    """Returns the largest number of fractional digits that the source prints: MySQL's default is 0, Postgres's is 6."""
    kind = DeclaredType.parse(column.source_type)
    if kind.numbers:
        return kind.numbers[0]
    return 6 if "time zone" in column.source_type.lower() else 0


def trims_fractions(column: Column) -> bool:
    """True if the source omits trailing zeros of a fraction, as Postgres does; MySQL prints all declared digits."""
    return "time zone" in column.source_type.lower()


def scale_of(column: Column) -> int:
    """Returns the declared scale of a decimal; 0 if it declares none."""
    numbers = DeclaredType.parse(column.source_type).numbers or DeclaredType.parse(column.delta_type).numbers
    return numbers[1] if len(numbers) > 1 else 0


def byte_length(column: Column) -> int:
    """Returns the length to which BINARY(n) is padded with zeros, 0 for types that are not padded."""
    kind = DeclaredType.parse(column.source_type)
    return (kind.numbers or (1,))[0] if kind.base == "binary" else 0


_LABEL: Final = re.compile(r"'((?:[^']|'')*)'")


def labels_of(column: Column) -> tuple[str, ...]:
    """Returns the labels of an ENUM or SET in declared order."""
    return tuple(label.replace("''", "'") for label in _LABEL.findall(column.source_type))
