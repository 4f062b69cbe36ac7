"""Families of values: what a column's declared and stored type mean for the decoding of events; pure.

A column is decoded by what it *is* at the source, and arrives as what the canonical map stores: the same value as by the query method.
"""

import enum
import re
from typing import Final

from cdc_ops.core.schema.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column


class ValueFamily(enum.StrEnum):
    """Kinds of values that formats write alike."""

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
    BENT_ARRAY = "array of values that JSON has no form of its own for"
    INTERVAL = "interval"
    MONEY = "money"
    VARBIT = "bit varying"
    SHAPE = "geometric type kept as text"
    INTERNAL = "type of Postgres's own workings, or of an extension, kept as text"
    DOCUMENT = "document, or array, of MongoDB"
    OTHER = "another type kept as text"


_BY_STORED: Final[dict[str, ValueFamily]] = {
    "tinyint": ValueFamily.INTEGER,
    "smallint": ValueFamily.INTEGER,
    "int": ValueFamily.INTEGER,
    "bigint": ValueFamily.INTEGER,
    "float": ValueFamily.FLOAT,
    "double": ValueFamily.FLOAT,
    "boolean": ValueFamily.BOOLEAN,
    "date": ValueFamily.DATE,
    "timestamp_ntz": ValueFamily.WALL_CLOCK,
    "timestamp": ValueFamily.INSTANT,
}

_GEOMETRIES: Final = re.compile(r"^(geometry|(multi)?(point|linestring|polygon)|geom(etry)?collection)$")

_TEXT_BY_DECLARED: Final[dict[str, ValueFamily]] = {
    **dict.fromkeys(("decimal", "dec", "fixed", "numeric"), ValueFamily.DECIMAL_TEXT),
    **dict.fromkeys(("date", "datetime", "timestamp"), ValueFamily.MOMENT_TEXT),
    "time": ValueFamily.TIME,
    **dict.fromkeys(("json", "jsonb"), ValueFamily.JSON),
    "enum": ValueFamily.ENUM,
    "set": ValueFamily.SET,
    **dict.fromkeys(("character", "bpchar"), ValueFamily.PADDED_TEXT),
    "interval": ValueFamily.INTERVAL,
    "money": ValueFamily.MONEY,
    "bit": ValueFamily.BIT_TEXT,
    **dict.fromkeys(("point", "line", "lseg", "box", "path", "polygon", "circle"), ValueFamily.SHAPE),
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
        ValueFamily.TEXT,
    ),
    "uuid": ValueFamily.UUID,
    **dict.fromkeys(("object", "array"), ValueFamily.DOCUMENT),
    **dict.fromkeys(
        (
            *("name", "xid", "xid8", "cid", "tid", "pg_lsn", "pg_snapshot", "txid_snapshot", "jsonpath", "tsquery"),
            *("regclass", "regcollation", "regconfig", "regdictionary", "regnamespace", "regoper", "regoperator", "regproc"),
            *("regprocedure", "regrole", "regtype", "hstore", "vector", "halfvec", "sparsevec", "geometry", "geography"),
        ),
        ValueFamily.INTERNAL,
    ),
}

_BENT_ELEMENTS: Final = re.compile(
    r"^(numeric|real|double precision|date|time|timestamp|interval|bytea|jsonb?|money|bit|xml|oid|name|\"char\""
    r"|point|line|lseg|box|path|polygon|circle|tsvector|tsquery|hstore|vector|halfvec|geometry|geography|pg_lsn|xid8?)( |\(|\[|$)"
)
"""Elements that JSON's own numbers, texts, true and false do not say; of enums, ranges and types of one's own the text is written."""


def family_of(column: Column) -> ValueFamily:
    """Returns the family of a column's values."""
    kind = DeclaredType.parse(column.source_type)
    stored = column.delta_type.strip().lower()
    if column.source_type.strip().endswith("]"):
        return ValueFamily.BENT_ARRAY if _BENT_ELEMENTS.match(column.source_type.strip().lower()) else ValueFamily.ARRAY
    if kind.base == "year":
        return ValueFamily.YEAR
    if kind.base == "bit" and stored != "string":
        return ValueFamily.BIT
    if stored.startswith("decimal"):
        return ValueFamily.UNSIGNED_BIGINT if kind.base == "bigint" else ValueFamily.DECIMAL
    if stored == "binary":
        return _of_binary(kind.base)
    return _BY_STORED[stored] if stored in _BY_STORED else _of_text(column.source_type, kind.base)


def _of_binary(base: str) -> ValueFamily:
    if base == "vector":
        return ValueFamily.VECTOR
    return ValueFamily.GEOMETRY if _GEOMETRIES.match(base) else ValueFamily.BINARY


def _of_text(declared: str, base: str) -> ValueFamily:
    text = declared.strip().lower()
    if text.startswith("character varying"):
        return ValueFamily.TEXT
    if text.startswith("bit varying"):
        return ValueFamily.VARBIT
    if base == "time" and text.endswith("with time zone"):
        return ValueFamily.ZONED_TIME
    return _TEXT_BY_DECLARED.get(base, ValueFamily.OTHER)


def fraction_digits(column: Column) -> int:
    """Returns the digits of a fraction of seconds that the source prints at most: MySQL's default is none, Postgres's is six."""
    kind = DeclaredType.parse(column.source_type)
    if kind.numbers:
        return kind.numbers[0]
    return 6 if "time zone" in column.source_type.lower() else 0


def trims_fractions(column: Column) -> bool:
    """True if the source prints no zeros at the end of a fraction, as Postgres does; MySQL prints all declared digits."""
    return "time zone" in column.source_type.lower()


def scale_of(column: Column) -> int:
    """Returns the digits after the point that a decimal declares; 0 if it declares none."""
    numbers = DeclaredType.parse(column.source_type).numbers or DeclaredType.parse(column.delta_type).numbers
    return numbers[1] if len(numbers) > 1 else 0


def byte_length(column: Column) -> int:
    """Returns the length to which BINARY(n) is filled with zeros, 0 for what keeps its own length."""
    kind = DeclaredType.parse(column.source_type)
    return (kind.numbers or (1,))[0] if kind.base == "binary" else 0


_LABEL: Final = re.compile(r"'((?:[^']|'')*)'")


def labels_of(column: Column) -> tuple[str, ...]:
    """Returns the labels that an ENUM or SET declares, in their order."""
    return tuple(label.replace("''", "'") for label in _LABEL.findall(column.source_type))
