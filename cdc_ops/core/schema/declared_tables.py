"""Tables of a source without a server: the pipeline file declares their columns, in the types of a dialect. Pure.

SHOP.ORDERS: {ID: number(19) primary key, NAME: varchar2(40), AMOUNT: "number(10,2) not null"}
"""

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.server_types.mysql_types import MAX_DECIMAL_DIGITS, TypeMapping, mysql_mapping, overflowing, under_policy
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.value_policies import DEFAULT_TYPES, TypePolicies
from cdc_ops.core.text import did_you_mean


class TypeDialect(enum.StrEnum):
    """The database whose type names a declared column uses."""

    DELTA = "delta"
    """The stored types themselves, for formats that write values as plain text or typed files."""
    MYSQL = "mysql"
    POSTGRES = "postgres"
    SQLSERVER = "sqlserver"
    ORACLE = "oracle"
    MONGODB = "mongodb"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTable:
    """A table as a pipeline file declares it.

    Args:
        name: `schema.table`, as the events spell it.
        columns: Name and type of each column, in order; behind the type `not null` and `primary key` as in SQL.
    """

    name: str
    columns: tuple[tuple[str, str], ...]


START_NEW_PIPELINE: Final = (
    "Create a pipeline with another name and another 'path' for the table: it starts with the first events of the archive"
)
"""The remedy for a declared table where a table of a server would be resynced in full."""

_CONSTRAINT: Final = re.compile(r"\s+(not\s+null|primary\s+key)\s*$", re.IGNORECASE)
_TYPE: Final = re.compile(r"^([a-z]\w*(?: precision)?)\s*(?:\(([^()]*)\))?\s*((?:with(?: local)? time zone)?)$")


def next_step(command: str, does: str, *, declared: bool, first: str = "", then: str = "") -> str:
    """Returns the `next` of an error for a table that cannot continue from its archive alone.

    Args:
        command: The command of `cdc-ops` that reads the source's rows, with its options.
        does: What the command does, in words.
        declared: True if there is no database whose rows it could read.
        first: A sentence before the remedy of declared tables.
        then: A relative clause about the archive of the new pipeline, with its comma.
    """
    return f"{first} {START_NEW_PIPELINE}{then}.".lstrip() if declared else f"cdc-ops {command}   # {does}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Type:
    """The stored type of a declared type, the name that formats use for it, and the arguments that it takes.

    Args:
        stored: Spark SQL DDL; `decimal` gets its digits.
        known_as: In Postgres's words; `{n}` are the digits of a second.
        takes: Regular expression of what may stand in brackets; "" = nothing.
        default: What stands there if nothing does.
    """

    stored: str
    known_as: str
    takes: str = ""
    default: str = ""


_LENGTH: Final = r"max|\d+( char| byte)?"
_DECIMAL: Final = r"(\d+)(?:\s*,\s*(\d+))?"
_TEXT: Final = _Type(stored="string", known_as="text", takes=_LENGTH)
_BYTES: Final = _Type(stored="binary", known_as="bytea", takes=_LENGTH)
_ANY_NUMBER: Final = _Type(stored="string", known_as="numeric", takes=r"\d+")
_ZONED: Final = _Type(stored="timestamp", known_as="timestamp with time zone", takes=r"\d")


def _local(digits: int, takes: str = "") -> _Type:
    return _Type(stored="timestamp_ntz", known_as="timestamp({n}) without time zone", takes=takes, default=str(digits))


def _number(precision: int, takes: str = _DECIMAL, scale: int = 0) -> _Type:
    return _Type(stored="decimal", known_as="numeric", takes=takes, default=f"{precision},{scale}")


_SAME: Final = {name: _Type(stored=name, known_as=name) for name in ("tinyint", "smallint", "int", "bigint", "boolean", "date", "string")}
_REAL: Final = _Type(stored="float", known_as="real")
_DOUBLE: Final = _Type(stored="double", known_as="double precision")

_DELTA: Final = {
    **_SAME,
    "float": _REAL,
    "double": _DOUBLE,
    "decimal": _number(10),
    "binary": _Type(stored="binary", known_as="bytea"),
    "timestamp": _Type(stored="timestamp", known_as="timestamp with time zone"),
    "timestamp_ntz": _local(6),
}
_SQL_SERVER: Final = {
    **{name: _SAME[name] for name in ("smallint", "int", "bigint", "date")},
    "tinyint": _Type(stored="smallint", known_as="tinyint"),
    "bit": _SAME["boolean"],
    "real": _REAL,
    "float": _Type(stored="double", known_as="double precision", takes=r"\d+"),
    "datetime2": _local(7, r"[0-7]"),
    **dict.fromkeys(("datetime", "smalldatetime"), _local(3)),
    "datetimeoffset": _ZONED,
    "time": _Type(stored="string", known_as="time({n}) without time zone", takes=r"[0-7]", default="7"),
    "money": _number(19, "", 4),
    "smallmoney": _number(10, "", 4),
    **dict.fromkeys(("decimal", "numeric"), _number(18)),
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar", "text", "ntext", "xml", "uniqueidentifier"), _TEXT),
    **dict.fromkeys(("binary", "varbinary", "image", "rowversion", "timestamp"), _BYTES),
}
_ORACLE: Final = {
    **dict.fromkeys(("char", "varchar2", "varchar", "nchar", "nvarchar2"), _TEXT),
    **{name: _Type(stored="string", known_as=name) for name in ("clob", "nclob", "xmltype")},
    "blob": _Type(stored="binary", known_as="blob"),
    "raw": _BYTES,
    "number": _number(0),
    **dict.fromkeys(("decimal", "numeric", "integer", "int", "smallint"), _number(38)),
    **dict.fromkeys(("float", "real", "double precision"), _ANY_NUMBER),
    "binary_float": _REAL,
    "binary_double": _DOUBLE,
    "date": _local(0),
    "timestamp": _local(6, r"\d"),
    **dict.fromkeys(("timestamp with time zone", "timestamp with local time zone"), _ZONED),
}
_MONGODB: Final = {
    "double": _Type(stored="double", known_as="double"),
    "string": _SAME["string"],
    "int": _SAME["int"],
    "long": _Type(stored="bigint", known_as="long"),
    "decimal": _number(0),
    "bool": _Type(stored="boolean", known_as="bool"),
    "date": _Type(stored="timestamp", known_as="date"),
    "bindata": _Type(stored="binary", known_as="bindata"),
    **{name: _Type(stored="string", known_as=name) for name in ("objectid", "object", "array", "json")},
}
"""By their names, the types of the dialects that no other map has; MongoDB's are its aliases, and `json` for values of any type."""

DOCUMENT_COLUMN: Final = "document.column"
"""Setting of formats of documents: the column that has the whole document."""

_ORACLE_WHOLE: Final = re.compile(r"decimal\(([1-9]|1[0-8]),0\)")
"""Numbers that Debezium's connector writes as whole numbers, and not as decimals: a record without schema does not show which."""
_INT_DIGITS: Final = 9
_NO_NUMBER: Final = "NaN, Infinity, -Infinity"
"""Values of MongoDB's decimals that no stored decimal holds."""
_NO_KEYS: Final = ("object", "array", "json")
_POSTGRES_OTHERS: Final = re.compile(r"^(inet|cidr|macaddr8?|tsvector|(int4|int8|num|ts|tstz|date)(multi)?range)\b")


def declared_schema(declared: DeclaredTable, dialect: TypeDialect, types: TypePolicies = DEFAULT_TYPES) -> TableSchema:
    """Returns the schema of a declared table, as a source would return it.

    Args:
        declared: The table.
        dialect: Whose types it is written in.
        types: What becomes of values that no stored type holds.

    Raises:
        ValueError: a type is not in the dialect.
    """
    columns, primary_key = [], []
    for name, text in declared.columns:
        column, is_key = declared_column(name, text, dialect, types.for_column(name))
        columns.append(column)
        primary_key += [name] if is_key else []
    return TableSchema(table=TableName.parse(declared.name), columns=tuple(columns), primary_key=tuple(primary_key), types=types)


def declared_column(name: str, text: str, dialect: TypeDialect, types: TypePolicies = DEFAULT_TYPES) -> tuple[Column, bool]:
    """Reads the declaration of one column.

    Args:
        name: Of the column.
        text: Its type, and what stands behind it.
        dialect: Whose type.
        types: What becomes of values that no stored type holds.

    Returns:
        The column, and whether it is a part of the primary key.

    Raises:
        ValueError: the type is not in the dialect, or cannot be stored.
    """
    if dialect is TypeDialect.MONGODB and "." in name:
        raise ValueError(f"{name!r} contains a dot: the log cannot distinguish such a field from a nested field")
    kind, said = text.strip(), set[str]()
    while found := _CONSTRAINT.search(kind):
        said.add("".join(found[1].lower().split()))
        kind = kind[: found.start()].rstrip()
    stored, known_as, lossy = _READERS[dialect](kind, types)
    is_key = "primarykey" in said
    if is_key and known_as in _NO_KEYS:
        raise ValueError(f"{kind!r} cannot be a key: equal values of this type may be written in several ways")
    column = Column(name=name, source_type=known_as, delta_type=stored, nullable=not said, expression=name, lossy=lossy)
    return column, is_key


def _mysql(kind: str, types: TypePolicies) -> tuple[str, str, bool]:
    mapping = mysql_mapping(kind, types)
    if mapping is None or mapping.refusal:
        raise ValueError(mapping.refusal if mapping else f"{kind!r} is not a type of MySQL or MariaDB")
    return mapping.delta_type, kind, mapping.lossy


def _postgres(kind: str, types: TypePolicies) -> tuple[str, str, bool]:
    mapping = postgres_mapping(kind, types)
    if mapping.refusal:
        raise ValueError(mapping.refusal)
    column = Column(name="", source_type=kind, delta_type=mapping.delta_type, nullable=True, expression="")
    if logical_type_of(column) is LogicalType.OTHER and not _POSTGRES_OTHERS.match(kind.lower()):
        raise ValueError(f"{kind!r} is not a type that format_type prints; declare enums and user-defined types as text")
    return mapping.delta_type, kind, mapping.lossy


def _reader(known: dict[str, _Type], dialect: TypeDialect) -> Callable[[str, TypePolicies], tuple[str, str, bool]]:
    def read(kind: str, types: TypePolicies) -> tuple[str, str, bool]:
        found = _TYPE.match(" ".join(kind.lower().split()))
        name, arguments, zone = found.groups(default="") if found else (kind, "", "")
        one = known.get(f"{name} {zone}".strip())
        if one is None or (arguments and not re.fullmatch(one.takes, arguments.strip())):
            raise ValueError(f"{kind!r} is not a type of the dialect {dialect.value!r}. {did_you_mean(name, known)}")
        if one.stored == "decimal":
            stored, known_as = _decimal(kind, arguments.strip(), one.default, types)
            if dialect is TypeDialect.ORACLE and (whole := _ORACLE_WHOLE.fullmatch(stored)):
                name = "int" if int(whole[1]) <= _INT_DIGITS else "bigint"
                return name, name, False
            if dialect is not TypeDialect.MONGODB or stored == "string":
                return stored, known_as, False
            mapping = under_policy(TypeMapping(delta_type=stored, flag=_NO_NUMBER), types.nan_values, "")
            return mapping.delta_type, known_as, mapping.lossy
        return one.stored, one.known_as.replace("{n}", arguments.strip() or one.default), False

    return read


def _decimal(kind: str, digits: str, default: str, types: TypePolicies) -> tuple[str, str]:
    """Returns the stored type of a decimal; Oracle's NUMBER without digits holds any scale and is stored as text."""
    precision, scale = (int(part) for part in f"{digits or default},0".split(",")[:2])
    if not (digits or precision):
        mapping = overflowing(types.decimal_overflow, "")
        if mapping.refusal:
            raise ValueError(mapping.refusal)
        return mapping.delta_type, kind.lower() if kind.lower() == "decimal" else "numeric"
    if not 0 < precision <= MAX_DECIMAL_DIGITS or scale > precision:
        raise ValueError(f"{kind!r}: a decimal has 1 to {MAX_DECIMAL_DIGITS} digits, and its scale is not larger than that")
    return f"decimal({precision},{scale})", f"numeric({precision},{scale})"


_READERS: Final = {
    TypeDialect.DELTA: _reader(_DELTA, TypeDialect.DELTA),
    TypeDialect.MYSQL: _mysql,
    TypeDialect.POSTGRES: _postgres,
    TypeDialect.SQLSERVER: _reader(_SQL_SERVER, TypeDialect.SQLSERVER),
    TypeDialect.ORACLE: _reader(_ORACLE, TypeDialect.ORACLE),
    TypeDialect.MONGODB: _reader(_MONGODB, TypeDialect.MONGODB),
}
