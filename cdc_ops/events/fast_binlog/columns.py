"""How the columns of a binlog become those of a record batch: which values kernels may take as they stand, and which are always exact.

BinlogColumn + Field --how_of--> what the kernels do with the column
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from cdc_ops.decode.binlog.layout import How, Layout
from cdc_ops.decode.program import Field, Kind
from cdc_ops.events.binlog.charsets import BINARY, charset_of
from cdc_ops.events.binlog.table_map import BinlogColumn, ColumnType

_INTEGERS: Final = {
    ColumnType.TINY: (1, 3),
    ColumnType.SHORT: (2, 5),
    ColumnType.INT24: (3, 8),
    ColumnType.LONG: (4, 10),
    ColumnType.LONGLONG: (8, 20),
}
"""Bytes of a value, and the most digits of one."""
_FIXED: Final = {
    ColumnType.FLOAT: 4,
    ColumnType.DOUBLE: 8,
    ColumnType.YEAR: 1,
    ColumnType.DATE: 3,
    ColumnType.TIME: 3,
    ColumnType.DATETIME: 8,
    ColumnType.TIMESTAMP: 4,
}
_BEFORE_FRACTION: Final = {ColumnType.TIME2: 3, ColumnType.DATETIME2: 5, ColumnType.TIMESTAMP2: 4}
_FRACTION_BYTES: Final = (0, 1, 1, 2, 2, 3, 3)
_BYTES_OF_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_BY_MAXIMUM: Final = frozenset({ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING, ColumnType.MARIADB_VARCHAR_COMPRESSED})
_PLAIN_BLOBS: Final = frozenset(
    {
        *(ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.STRING),
        *(ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.BLOB),
    }
)
_PAIRS: Final = {
    (ColumnType.FLOAT, Kind.FLOAT): How.FLOAT,
    (ColumnType.DOUBLE, Kind.DOUBLE): How.DOUBLE,
    (ColumnType.DATE, Kind.DATE): How.DATE,
    (ColumnType.DATETIME2, Kind.TIMESTAMP_NTZ): How.DATETIME,
    (ColumnType.TIMESTAMP2, Kind.TIMESTAMP): How.TIMESTAMP,
    (ColumnType.TIMESTAMP, Kind.TIMESTAMP): How.OLD_TIMESTAMP,
    (ColumnType.GEOMETRY, Kind.BINARY): How.BYTES,
    (ColumnType.VECTOR, Kind.BINARY): How.BYTES,
}


@dataclass(frozen=True, slots=True)
class Taken:
    """What kernels do with a column: see `How`."""

    how: How
    a: int = 0
    b: int = 0


_EXACT: Final = Taken(How.EXACT)


def size_of(column: BinlogColumn) -> int:
    """Returns the bytes of a value; negative = it begins with so many bytes of its length."""
    kind = column.type
    if kind in _INTEGERS:
        return _INTEGERS[kind][0]
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in _BEFORE_FRACTION:
        return _BEFORE_FRACTION[kind] + _FRACTION_BYTES[column.scale]
    if kind is ColumnType.NEWDECIMAL:
        parts = (column.precision - column.scale, column.scale)
        return sum(digits // 9 * 4 + _BYTES_OF_DIGITS[digits % 9] for digits in parts)
    if kind in _BY_MAXIMUM:
        return -1 if column.size < 256 else -2
    if column.has_labels or kind is ColumnType.BIT:
        return column.size
    return -column.size


def how_of(column: BinlogColumn, field: Field) -> Taken:
    """Returns what kernels do with the values of a column for a field; EXACT where no value may be taken as it stands."""
    if column.type in _INTEGERS:
        return _integer(column, field)
    if column.type is ColumnType.NEWDECIMAL:
        fits = column.scale == field.scale and column.precision <= field.precision and field.kind is Kind.DECIMAL
        return Taken(How.DECIMAL, column.precision, column.scale) if fits else _EXACT
    if column.type is ColumnType.YEAR and field.kind is Kind.INTEGER and field.width > 1:
        return Taken(How.YEAR)
    if column.type in _PLAIN_BLOBS:
        return _text(column, field)
    if (
        column.has_labels
        and field.kind is Kind.STRING
        and column.size in (1, 2, 3, 4, 8)
        and (column.type is ColumnType.SET or column.size < 3)
    ):
        return Taken(How.FLAGS if column.type is ColumnType.SET else How.LABEL, len(column.labels))
    return Taken(_PAIRS.get((column.type, field.kind), How.EXACT), column.scale)


def _integer(column: BinlogColumn, field: Field) -> Taken:
    size, digits = _INTEGERS[column.type]
    if field.kind is Kind.INTEGER:
        return Taken(How.UNSIGNED if column.unsigned else How.SIGNED, field.width)
    if field.kind is Kind.DECIMAL and field.scale == 0 and field.precision >= digits:
        return Taken(How.WIDE_UNSIGNED if column.unsigned else How.WIDE_SIGNED, size)
    return _EXACT


def _text(column: BinlogColumn, field: Field) -> Taken:
    """Texts in UTF-8, and those of other character sets while they are ASCII; bytes of full length."""
    if column.collation == BINARY:
        padded = column.type is ColumnType.STRING
        return Taken(How.PADDED if padded else How.BYTES, column.size) if field.kind is Kind.BINARY else _EXACT
    return Taken(_how_of_charset(column.collation)) if field.kind is Kind.STRING else _EXACT


@cache
def _how_of_charset(collation: int) -> How:
    charset = charset_of(collation)
    if charset is None:
        return How.EXACT
    if charset.name in ("utf8mb4", "utf8mb3"):
        return How.UTF8 if charset.name == "utf8mb4" else How.SHORT_UTF8
    ascii_bytes = bytes(range(128))
    return How.ASCII if charset.decode(ascii_bytes) == ascii_bytes.decode("ascii") else How.EXACT


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A description of a table, and for each of its columns the field that it becomes, -1 = none."""

    columns: tuple[BinlogColumn, ...]
    targets: tuple[int, ...]


def layout_of(tables: Iterable[TableColumns], fields: tuple[Field, ...]) -> tuple[Layout, bytes]:
    """Returns what kernels need to know of the descriptions, and the labels that go before all else into the batch's buffer."""
    columns: list[tuple[int, int, int, int, int]] = []
    firsts: list[tuple[int, int]] = []
    spans: list[tuple[int, int]] = []
    labels = bytearray()
    for table in tables:
        firsts.append((len(columns), len(table.columns)))
        for column, target in zip(table.columns, table.targets, strict=True):
            taken = _EXACT if target < 0 else how_of(column, fields[target])
            b = taken.b if taken.how not in (How.LABEL, How.FLAGS) else len(spans)
            columns.append((size_of(column), taken.how, taken.a, b, target))
            if taken.how in (How.LABEL, How.FLAGS):
                for label in column.labels:
                    start = len(labels)
                    labels += label.encode()
                    spans.append((start, len(labels)))
    return Layout(*(np.array(rows, np.int64).reshape(len(rows), width) for rows, width in ((columns, 5), (firsts, 2), (spans, 2)))), bytes(
        labels
    )
