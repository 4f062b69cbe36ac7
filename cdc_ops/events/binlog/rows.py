"""ROWS events as row images: for each row its operation, what it was and what it is.

    TableMap, body of a ROWS event -> read_rows -> RowImages ...

An image has only the columns that the event has (`binlog_row_image`): one that is missing was not changed, and is not NULL.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.binlog.byte_reader import ByteReader, MalformedBytesError
from cdc_ops.core.binlog.control_events import inflated
from cdc_ops.core.binlog.events import EventType, FormatDescription
from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.events.binlog.json_text import Json, text_of
from cdc_ops.events.binlog.jsonb import JsonText, apply_diffs, read_json
from cdc_ops.events.binlog.table_map import BinlogColumn, ColumnType, TableMap
from cdc_ops.events.binlog.values import ReadValue, Value, reader_of

Image = Mapping[str, Value]
"""The values of a row by the names of their columns, in the order of the table."""

STATEMENT_END: Final = 0x1
_PARTIAL_JSON: Final = 0x1
_INSERTS: Final = frozenset({EventType.WRITE_ROWS_V1, EventType.WRITE_ROWS, EventType.MARIADB_WRITE_ROWS_COMPRESSED})
_DELETES: Final = frozenset({EventType.DELETE_ROWS_V1, EventType.DELETE_ROWS, EventType.MARIADB_DELETE_ROWS_COMPRESSED})
_SECOND_VERSION: Final = frozenset({EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS, EventType.PARTIAL_UPDATE_ROWS})
_COMPRESSED: Final = frozenset(
    {EventType.MARIADB_WRITE_ROWS_COMPRESSED, EventType.MARIADB_UPDATE_ROWS_COMPRESSED, EventType.MARIADB_DELETE_ROWS_COMPRESSED}
)


@dataclass(frozen=True, slots=True)
class RowImages:
    """One row of an event.

    Args:
        op: `CREATE`, `UPDATE` or `DELETE`.
        before: The row before; None for `CREATE`.
        after: The row after; None for `DELETE`.
    """

    op: EventOperation
    before: Image | None
    after: Image | None


@dataclass(slots=True)
class TableReader:
    """Reads the rows of a table; made once for each description of a table in a file.

    Args:
        table: The description.
    """

    table: TableMap
    readers: tuple[ReadValue, ...] = ()

    def __post_init__(self) -> None:
        self.readers = tuple(reader_of(column) for column in self.table.columns)


def table_id_of(body: bytes, description: FormatDescription) -> tuple[int, int]:
    """Returns the number of the table of a ROWS event, and its flags."""
    reader = ByteReader(body)
    return reader.unsigned(description.table_id_size), reader.u16()


def read_rows(kind: int, body: bytes, table: TableReader, description: FormatDescription) -> Iterator[RowImages]:
    """Yields the rows of an event in the order in which they were changed.

    Args:
        kind: The type of the event.
        body: Its body.
        table: Reads its rows.
        description: The description of the file's format.

    Raises:
        MalformedBytesError: the rows do not fit the description of their table.
    """
    reader = ByteReader(body, description.table_id_size + 2)
    if kind in _SECOND_VERSION:
        reader.skip(reader.u16() - 2)
    count = reader.length()
    if count != len(table.readers):
        raise MalformedBytesError(f"rows have {count} columns, and {table.table.database}.{table.table.table} has {len(table.readers)}")
    inserts, deletes = kind in _INSERTS, kind in _DELETES
    sides = [_side(table, reader.take((count + 7) // 8)) for _ in range(1 if inserts or deletes else 2)]
    data = inflated(reader.rest()) if kind in _COMPRESSED else reader.rest()
    rows = _Rows(table.table, data)
    try:
        while rows.at < len(data):
            if inserts:
                yield RowImages(EventOperation.CREATE, None, rows.image(sides[0]))
            elif deletes:
                yield RowImages(EventOperation.DELETE, rows.image(sides[0]), None)
            elif kind == EventType.PARTIAL_UPDATE_ROWS:
                yield rows.partial_update(sides[0], sides[1])
            else:
                yield RowImages(EventOperation.UPDATE, rows.image(sides[0]), rows.image(sides[1]))
    except (IndexError, struct.error, ValueError, OverflowError) as error:
        if isinstance(error, MalformedBytesError):
            raise
        raise MalformedBytesError(f"a row of {table.table.database}.{table.table.table} cannot be read: {error}") from None


_Side = tuple[list[tuple[BinlogColumn, ReadValue]], int]
"""The columns of an image, and the length of its NULL bits."""


def _side(table: TableReader, present: bytes) -> _Side:
    chosen = [pair for at, pair in enumerate(zip(table.table.columns, table.readers, strict=True)) if present[at >> 3] >> (at & 7) & 1]
    return chosen, (len(chosen) + 7) // 8


class _Rows:
    """A position in the rows of an event."""

    def __init__(self, table: TableMap, data: bytes) -> None:
        self._table = table
        self._data = data
        self.at = 0

    def image(self, side: _Side) -> dict[str, Value]:
        """Reads the next image."""
        columns, null_size = side
        data, at = self._data, self.at + null_size
        nulls = int.from_bytes(data[self.at : at], "little")
        image: dict[str, Value] = {}
        for column, read in columns:
            if nulls & 1:
                image[column.name] = None
            else:
                image[column.name], at = read(data, at)
            nulls >>= 1
        self._move(at)
        return image

    def partial_update(self, before: _Side, after: _Side) -> RowImages:
        """Reads an update whose JSON documents may be lists of changes."""
        start = self.at
        old = self.image(before)
        reader = ByteReader(self._data, self.at)
        is_partial = bool(reader.length() & _PARTIAL_JSON)
        documents = [column.name for column in self._table.columns if column.type is ColumnType.JSON]
        bits = int.from_bytes(reader.take((len(documents) + 7) // 8), "little") if is_partial else 0
        partial = {name for place, name in enumerate(documents) if bits >> place & 1}
        columns, null_size = after
        nulls = int.from_bytes(reader.take(null_size), "little")
        trees = self._documents(before, start) if partial else {}
        new: dict[str, Value] = {}
        for place, (column, read) in enumerate(columns):
            if nulls >> place & 1:
                new[column.name] = None
            elif column.name in partial:
                if column.name not in trees:
                    raise MalformedBytesError(f"the document before a change of {column.name} is not in the log")
                new[column.name] = JsonText(text_of(apply_diffs(trees[column.name], reader.take(reader.u32()))))
            else:
                new[column.name], reader.at = read(self._data, reader.at)
        self._move(reader.at)
        return RowImages(EventOperation.UPDATE, old, new)

    def _documents(self, side: _Side, start: int) -> dict[str, Json]:
        """Returns the trees of the JSON documents of the image that begins at a position."""
        columns, null_size = side
        at = start + null_size
        nulls = int.from_bytes(self._data[start:at], "little")
        trees: dict[str, Json] = {}
        for place, (column, read) in enumerate(columns):
            if nulls >> place & 1:
                continue
            begin = at
            _, at = read(self._data, at)
            if column.type is ColumnType.JSON:
                trees[column.name] = read_json(self._data[begin + column.size : at])
        return trees

    def _move(self, at: int) -> None:
        if at > len(self._data):
            raise MalformedBytesError(f"a row of {self._table.database}.{self._table.table} ends {at - len(self._data)} bytes too early")
        if at == self.at:
            raise MalformedBytesError("a row has no bytes")
        self.at = at
