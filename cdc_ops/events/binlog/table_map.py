"""The description of a table that stands before its rows: TABLE_MAP with `binlog_row_metadata=FULL`.

    body of TABLE_MAP -> read_table_map -> TableMap: columns with type, name, sign, character set, labels

Types and their few bytes of metadata are always there; names, signs, character sets and labels only as far as the server was told to write
them. Without them rows cannot be read exactly: see `TableMap.lacks`.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from cdc_ops.core.binlog.byte_reader import ByteReader, MalformedBytesError
from cdc_ops.core.binlog.events import FormatDescription
from cdc_ops.events.binlog.charsets import BINARY, UTF8, charset_of


class ColumnType(enum.IntEnum):
    """The types of columns in a binlog."""

    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    MARIADB_BLOB_COMPRESSED = 140
    MARIADB_VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


class _Field(enum.IntEnum):
    """The optional parts of a TABLE_MAP."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_LABELS = 5
    ENUM_LABELS = 6
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11


_NUMERIC: Final = frozenset(
    {
        *(ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG),
        *(ColumnType.NEWDECIMAL, ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.YEAR),
    }
)
"""Those that have a bit of sign."""
_CHARACTER: Final = frozenset(
    {
        *(ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING),
        *(ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.BLOB),
        *(ColumnType.MARIADB_BLOB_COMPRESSED, ColumnType.MARIADB_VARCHAR_COMPRESSED),
    }
)
_ONE_BYTE: Final = frozenset(
    {
        *(ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.BLOB, ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB),
        *(ColumnType.JSON, ColumnType.GEOMETRY, ColumnType.VECTOR, ColumnType.MARIADB_BLOB_COMPRESSED),
        *(ColumnType.TIMESTAMP2, ColumnType.DATETIME2, ColumnType.TIME2),
    }
)
_TWO_BYTES: Final = frozenset(
    {
        *(ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.MARIADB_VARCHAR_COMPRESSED),
        *(ColumnType.BIT, ColumnType.NEWDECIMAL, ColumnType.STRING, ColumnType.ENUM, ColumnType.SET),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogColumn:
    """A column as the log describes it.

    Args:
        type: Its type; ENUM and SET as such, although the log has them as strings.
        name: Its name; empty = not in the log.
        unsigned: True for UNSIGNED; False also where the log does not say.
        collation: Of texts; `charsets.BINARY` for bytes; 0 = not in the log, or no text.
        labels: Of ENUM and SET; empty = not in the log.
        size: Bytes at most of strings; bytes of the length of blobs; bytes of ENUM, SET and BIT.
        precision: Digits of DECIMAL; bits of BIT.
        scale: Digits of DECIMAL behind the point; digits of fractions of seconds.
    """

    type: ColumnType
    name: str = ""
    unsigned: bool = False
    collation: int = 0
    labels: tuple[str, ...] = ()
    size: int = 0
    precision: int = 0
    scale: int = 0

    @property
    def is_character(self) -> bool:
        """True for texts and bytes."""
        return self.type in _CHARACTER

    @property
    def has_labels(self) -> bool:
        """True for ENUM and SET."""
        return self.type in (ColumnType.ENUM, ColumnType.SET)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMap:
    """A table as the log describes it before rows.

    Args:
        table_id: By which the rows that follow name it.
        database: Its database.
        table: Its name.
        columns: Its columns, in their order.
        primary_key: Positions of the columns of the primary key; empty = none, or not in the log.
        lacks: What the log does not say of its columns, in words; empty = nothing.
    """

    table_id: int
    database: str
    table: str
    columns: tuple[BinlogColumn, ...]
    primary_key: tuple[int, ...] = ()
    lacks: str = ""


@dataclass(slots=True)
class _Optional:
    """The optional parts, as read."""

    signs: bytes | None = None
    names: list[str] = field(default_factory=list)
    collations: Mapping[int, int] | None = None
    label_collations: Mapping[int, int] | None = None
    labels: dict[ColumnType, list[list[bytes]]] = field(default_factory=dict)
    key: tuple[int, ...] = ()


def read_table_name(body: bytes, description: FormatDescription) -> tuple[int, str, str]:
    """Returns the number of a table, its database and its name, without reading more of its description."""
    reader = ByteReader(body)
    return _head(reader, description.table_id_size)


def read_table_map(body: bytes, description: FormatDescription) -> TableMap:
    """Reads the description of a table.

    Args:
        body: The body of the event.
        description: The description of the file's format.

    Raises:
        MalformedBytesError: it is not whole, or has a type that is not known.
    """
    reader = ByteReader(body)
    table_id, database, table = _head(reader, description.table_id_size)
    types = reader.take(reader.length())
    metadata = ByteReader(reader.counted())
    plain = [_typed(kind, metadata) for kind in types]
    if metadata.left:
        raise MalformedBytesError("the metadata of the columns is longer than their types need")
    reader.skip((len(types) + 7) // 8)  # which columns may be NULL: rows say which are
    optional = _read_optional(reader, plain, mariadb=description.is_mariadb)
    columns = tuple(_described(plain, optional))
    return TableMap(
        table_id=table_id, database=database, table=table, columns=columns, primary_key=optional.key, lacks=_lacking(columns, optional)
    )


def _head(reader: ByteReader, id_size: int) -> tuple[int, str, str]:
    table_id = reader.unsigned(id_size)
    reader.skip(2)
    names = []
    for _ in range(2):
        names.append(reader.take(reader.u8()).decode("utf-8", "replace"))
        reader.skip(1)
    return table_id, names[0], names[1]


def _typed(kind: int, metadata: ByteReader) -> BinlogColumn:
    """Returns a column with its type and sizes."""
    try:
        column_type = ColumnType(kind)
    except ValueError:
        raise MalformedBytesError(f"a column has the type {kind}, which is not known") from None
    if column_type in _ONE_BYTE:
        size = metadata.u8()
        is_time = column_type in (ColumnType.TIMESTAMP2, ColumnType.DATETIME2, ColumnType.TIME2)
        if is_time and size > 6:
            raise MalformedBytesError(f"a column has {size} digits of fractions of seconds")
        return BinlogColumn(type=column_type, scale=size) if is_time else BinlogColumn(type=column_type, size=size)
    if column_type not in _TWO_BYTES:
        return BinlogColumn(type=column_type)
    first, second = metadata.u8(), metadata.u8()
    match column_type:
        case ColumnType.NEWDECIMAL:
            return BinlogColumn(type=column_type, precision=first, scale=second)
        case ColumnType.BIT:
            return BinlogColumn(type=column_type, precision=second * 8 + first, size=second + (first > 0))
        case ColumnType.STRING | ColumnType.ENUM | ColumnType.SET:
            return _string(first, second)
        case _:
            return BinlogColumn(type=column_type, size=first | second << 8)


def _string(first: int, second: int) -> BinlogColumn:
    """The type of a string stands in its metadata; two bits of the length of a long CHAR are hidden in it, inverted."""
    kind, size = first, second
    if first & 0x30 != 0x30:
        kind, size = first | 0x30, second | (first & 0x30 ^ 0x30) << 4
    if kind not in (ColumnType.ENUM, ColumnType.SET, ColumnType.STRING):
        raise MalformedBytesError(f"a string has the type {kind}, which is not known")
    return BinlogColumn(type=ColumnType(kind), size=size)


def _read_optional(reader: ByteReader, columns: list[BinlogColumn], *, mariadb: bool) -> _Optional:
    found = _Optional()
    while reader.left:
        kind, part = reader.u8(), ByteReader(reader.counted())
        match kind:
            case _Field.SIGNEDNESS:
                found.signs = part.rest()
            case _Field.DEFAULT_CHARSET | _Field.COLUMN_CHARSET:
                found.collations = _collations(part, _characters(columns, mariadb=mariadb), default=kind == _Field.DEFAULT_CHARSET)
            case _Field.ENUM_AND_SET_DEFAULT_CHARSET | _Field.ENUM_AND_SET_COLUMN_CHARSET:
                labelled = [at for at, column in enumerate(columns) if column.has_labels]
                found.label_collations = _collations(part, labelled, default=kind == _Field.ENUM_AND_SET_DEFAULT_CHARSET)
            case _Field.COLUMN_NAME:
                while part.left:
                    found.names.append(part.counted().decode("utf-8", "replace"))
            case _Field.SET_LABELS | _Field.ENUM_LABELS:
                of = ColumnType.SET if kind == _Field.SET_LABELS else ColumnType.ENUM
                while part.left:
                    found.labels.setdefault(of, []).append([part.counted() for _ in range(part.length())])
            case _Field.SIMPLE_PRIMARY_KEY | _Field.PRIMARY_KEY_WITH_PREFIX:
                found.key = tuple(_key(part, prefixes=kind == _Field.PRIMARY_KEY_WITH_PREFIX))
            case _:
                continue  # says nothing that values depend on
    return found


def _characters(columns: list[BinlogColumn], *, mariadb: bool) -> list[int]:
    """Returns the columns that character sets belong to; VECTOR has one in MySQL, GEOMETRY in MariaDB, where it is a kind of BLOB."""
    bytes_too = ColumnType.GEOMETRY if mariadb else ColumnType.VECTOR
    return [at for at, column in enumerate(columns) if column.is_character or column.type is bytes_too]


def _collations(part: ByteReader, columns: list[int], *, default: bool) -> dict[int, int]:
    """Returns the collation of each column, from a list, or from a default and its exceptions."""
    if not default:
        listed = [part.length() for _ in columns]
        if part.left:
            raise MalformedBytesError("there are more character sets than columns with texts")
        return dict(zip(columns, listed, strict=True))
    known = dict.fromkeys(columns, part.length())
    while part.left:
        place, collation = part.length(), part.length()
        if place >= len(columns):
            raise MalformedBytesError("a character set belongs to no column")
        known[columns[place]] = collation
    return known


def _key(part: ByteReader, *, prefixes: bool) -> Iterator[int]:
    while part.left:
        yield part.length()
        if prefixes:
            part.length()


def _described(plain: list[BinlogColumn], optional: _Optional) -> Iterator[BinlogColumn]:
    signs = _signs(plain, optional.signs)
    if optional.names and len(optional.names) != len(plain):
        raise MalformedBytesError(f"there are {len(optional.names)} names for {len(plain)} columns")
    if len(set(optional.names)) < len(optional.names):
        raise MalformedBytesError("two columns have the same name")
    labels = {kind: iter(lists) for kind, lists in optional.labels.items()}
    for at, column in enumerate(plain):
        collations = optional.label_collations if column.has_labels else optional.collations
        collation = (collations or {}).get(at, 0)
        raw = next(labels[column.type], []) if column.type in labels else []
        yield BinlogColumn(
            type=column.type,
            name=optional.names[at] if optional.names else "",
            unsigned=at in signs,
            collation=collation,
            labels=tuple(_label(text, collation) for text in raw),
            size=column.size,
            precision=column.precision,
            scale=column.scale,
        )


def _signs(plain: Iterable[BinlogColumn], signs: bytes | None) -> set[int]:
    """Returns the columns that are UNSIGNED: a bit for each numeric column, the highest first."""
    numeric = [at for at, column in enumerate(plain) if column.type in _NUMERIC]
    if signs is None:
        return set()
    if len(signs) != (len(numeric) + 7) // 8:
        raise MalformedBytesError(f"{len(signs)} bytes of signs do not fit {len(numeric)} numeric columns")
    return {at for place, at in enumerate(numeric) if signs[place >> 3] & 0x80 >> (place & 7)}


def _label(raw: bytes, collation: int) -> str:
    charset = charset_of(collation)
    text = raw if charset is None or not raw else UTF8.decode(raw) if collation == BINARY else charset.decode(raw)
    if isinstance(text, bytes):
        return text.decode("latin-1")  # without a character set the table counts as one that lacks it: see `_lacking`
    if not isinstance(text, str):
        raise MalformedBytesError(f"a label of an ENUM or SET is no text of the character set {text.charset}")
    return text


def _lacking(columns: tuple[BinlogColumn, ...], optional: _Optional) -> str:
    """Returns what the log does not say, although rows cannot be read without it."""
    missing = [
        ("names", bool(columns) and not optional.names),
        ("signs", optional.signs is None and any(column.type in _NUMERIC for column in columns)),
        ("character sets", any((column.is_character or column.has_labels) and charset_of(column.collation) is None for column in columns)),
        ("labels", any(column.has_labels and not column.labels for column in columns)),
    ]
    return " and ".join(name for name, lacks in missing if lacks)
