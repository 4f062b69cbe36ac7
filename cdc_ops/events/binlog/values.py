"""Values of rows, exactly as the table has them. The semantics that every other decoder of binlogs has to equal.

    BinlogColumn -> reader_of -> read(bytes, position) -> (value, next position)

| column | value |
|---|---|
| TINYINT ... BIGINT, YEAR, BIT | `int`; UNSIGNED as far as 2^64-1; YEAR 0 is 0 |
| FLOAT, DOUBLE | `float`; a FLOAT is the 4-byte number itself |
| DECIMAL | `Decimal` with all digits of its scale |
| DATE, DATETIME | `date`, naive `datetime`; `OddDate` where no calendar has it |
| TIMESTAMP | `datetime` in UTC; `OddDate` for 0000-00-00 |
| TIME | `timedelta`, also negative and above 24 hours |
| CHAR, VARCHAR, TEXT | `str`; `BadText` where the bytes are no text of the character set |
| BINARY, VARBINARY, BLOB, GEOMETRY, VECTOR; UUID and INET of MariaDB | `bytes`; BINARY filled up with zeros to its length |
| ENUM, SET | `str` of the label, of labels with commas; '' for the ENUM's index 0 |
| JSON of MySQL | `JsonText`: the text that MySQL itself shows |
| JSON of MariaDB | `str`, because it is a text there |
| NULL | `None`; a column that an image lacks is not in it at all |
"""

import struct
import zlib
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from cdc_ops.core.binlog.byte_reader import MalformedBytesError
from cdc_ops.events.binlog import temporal
from cdc_ops.events.binlog.charsets import BINARY, BadText, charset_of
from cdc_ops.events.binlog.decimals import decimal_reader
from cdc_ops.events.binlog.jsonb import JsonText, json_text
from cdc_ops.events.binlog.table_map import BinlogColumn, ColumnType
from cdc_ops.events.binlog.temporal import OddDate

Value = int | float | Decimal | str | bytes | date | datetime | timedelta | OddDate | BadText | JsonText | None
ReadValue = Callable[[bytes, int], tuple[Value, int]]
"""Returns the value at a position of the bytes, and the position behind it. A position behind the end of the bytes shows that they end
early; IndexError, ValueError and struct.error show that they do not fit."""

_INTEGER_BYTES: Final = {ColumnType.TINY: 1, ColumnType.SHORT: 2, ColumnType.INT24: 3, ColumnType.LONG: 4, ColumnType.LONGLONG: 8}
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_YEAR_BEGIN: Final = 1900


def reader_of(column: BinlogColumn) -> ReadValue:
    """Returns the function that reads values of a column.

    Raises:
        MalformedBytesError: values of the type never stand in a log.
    """
    kind = column.type
    if kind in _INTEGER_BYTES:
        return _integer(_INTEGER_BYTES[kind], signed=not column.unsigned)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _WITH_DIGITS:
        read, digits = _WITH_DIGITS[kind], column.scale
        return lambda data, at: read(data, at, digits)
    if column.is_character:
        return _characters(column)
    return _sized(column)


def _sized(column: BinlogColumn) -> ReadValue:
    """Returns the function that reads values whose size depends on their column."""
    match column.type:
        case ColumnType.NEWDECIMAL:
            return decimal_reader(column.precision, column.scale)
        case ColumnType.ENUM | ColumnType.SET:
            return _labels(column)
        case ColumnType.BIT:
            return _bits(column.size)
        case ColumnType.JSON:
            return _json(column.size)
        case ColumnType.GEOMETRY | ColumnType.VECTOR:
            return _counted(column.size, bytes)
        case _:
            raise MalformedBytesError(f"values of the type {column.type.name} do not stand in logs")


def _integer(size: int, *, signed: bool) -> ReadValue:
    layouts = {1: "<b", 2: "<h", 4: "<i", 8: "<q"}
    if size not in layouts:
        return lambda data, at: (int.from_bytes(data[at : at + size], "little", signed=signed), at + size)
    unpack = struct.Struct(layouts[size] if signed else layouts[size].upper()).unpack_from
    return lambda data, at: (unpack(data, at)[0], at + size)


def _float(data: bytes, at: int) -> tuple[Value, int]:
    return _FLOAT.unpack_from(data, at)[0], at + 4


def _double(data: bytes, at: int) -> tuple[Value, int]:
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _year(data: bytes, at: int) -> tuple[Value, int]:
    return data[at] and _YEAR_BEGIN + data[at], at + 1


_PLAIN: Final[dict[ColumnType, ReadValue]] = {
    ColumnType.FLOAT: _float,
    ColumnType.DOUBLE: _double,
    ColumnType.YEAR: _year,
    ColumnType.DATE: temporal.read_date,
    ColumnType.TIME: temporal.read_old_time,
    ColumnType.DATETIME: temporal.read_old_datetime,
    ColumnType.TIMESTAMP: temporal.read_old_timestamp,
}
_WITH_DIGITS: Final[dict[ColumnType, Callable[[bytes, int, int], tuple[Value, int]]]] = {
    ColumnType.TIME2: temporal.read_time,
    ColumnType.DATETIME2: temporal.read_datetime,
    ColumnType.TIMESTAMP2: temporal.read_timestamp,
}


def _characters(column: BinlogColumn) -> ReadValue:
    convert = _convert(column)
    match column.type:
        case ColumnType.VARCHAR | ColumnType.VAR_STRING:
            return _counted(1 if column.size < 256 else 2, convert)
        case ColumnType.STRING:
            return _counted(1 if column.size < 256 else 2, _filled(column.size) if column.collation == BINARY else convert)
        case ColumnType.MARIADB_VARCHAR_COMPRESSED:
            return _counted(1 if column.size < 256 else 2, lambda raw: convert(_uncompressed(raw)))
        case ColumnType.MARIADB_BLOB_COMPRESSED:
            return _counted(column.size, lambda raw: convert(_uncompressed(raw)))
        case _:
            return _counted(column.size, convert)


def _convert(column: BinlogColumn) -> Callable[[bytes], Value]:
    charset = charset_of(column.collation)
    if column.collation == BINARY:
        return bytes
    if charset is None:
        name = f"collation {column.collation}"
        return lambda raw: BadText(raw, name)
    return charset.decode


def _filled(size: int) -> Callable[[bytes], Value]:
    """BINARY loses its zeros at the end in the log, and has them in the table."""
    return lambda raw: raw.ljust(size, b"\0")


def _counted(size: int, convert: Callable[[bytes], Value]) -> ReadValue:
    """Returns the function that reads bytes behind their number of `size` bytes."""

    def read(data: bytes, at: int) -> tuple[Value, int]:
        begin = at + size
        end = begin + int.from_bytes(data[at:begin], "little")
        if end > len(data):
            return None, end
        return convert(data[begin:end]), end

    return read


def _uncompressed(raw: bytes) -> bytes:
    """Returns the content of a column of MariaDB that is COMPRESSED: a byte that describes, the length, a stream of zlib."""
    if not raw:
        return raw
    method, size_bytes = raw[0] >> 4, raw[0] & 7
    if method == 0:
        return raw[1:]
    if method != 8:
        raise ValueError(f"a compressed value begins with {raw[0]:#04x}")
    size = int.from_bytes(raw[1 : 1 + size_bytes], "big")
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS if raw[0] & 8 else zlib.MAX_WBITS)
    try:
        data = unpacker.decompress(raw[1 + size_bytes :], size + 1)
    except zlib.error as error:
        raise ValueError(f"a compressed value cannot be unpacked: {error}") from None
    if len(data) != size:
        raise ValueError(f"a compressed value holds {size} bytes, and {len(data)} came out")
    return data


def _bits(size: int) -> ReadValue:
    return lambda data, at: (int.from_bytes(data[at : at + size], "big"), at + size)


def _labels(column: BinlogColumn) -> ReadValue:
    labels, size = column.labels, column.size
    if column.type is ColumnType.ENUM:
        named = ("", *labels)
        return lambda data, at: (named[int.from_bytes(data[at : at + size], "little")], at + size)

    def read(data: bytes, at: int) -> tuple[Value, int]:
        chosen = int.from_bytes(data[at : at + size], "little")
        if chosen >> len(labels):
            raise ValueError(f"a SET has the members {chosen:#x} of {len(labels)}")
        return ",".join(label for place, label in enumerate(labels) if chosen >> place & 1), at + size

    return read


def _json(size: int) -> ReadValue:
    return _counted(size, lambda raw: JsonText(json_text(raw)))
