"""How the rows of a table are cut for several connections, or for several operations."""

from typing import Final

from cdc_ops.core.cursors import CursorType
from cdc_ops.core.tables import Column, TableSchema
from cdc_ops.core.typemap import DeclaredType
from cdc_ops.sources.dialect import INTEGERS, Dialect
from cdc_ops.sources.ranges import both, cut_integers, cut_moments, tile
from cdc_ops.sources.session import SqlSession

_MOST_CHUNKS: Final = 10_000


class Slicer:
    """Cuts tables by the range of their leading key column or, within a window, of their cursor.

    Args:
        session: The connection.
        dialect: How conditions are printed.
    """

    def __init__(self, session: SqlSession, dialect: Dialect) -> None:
        self._session = session
        self._dialect = dialect

    def slices(self, schema: TableSchema, keys: tuple[str, ...], where: str, parts: int) -> tuple[str, ...]:
        """See `Source.slices`."""
        if parts <= 1:
            return (where,)
        lead = _integer_lead(schema, keys)
        # Without a condition and without an index, finding the range would cost as much as reading the table.
        if lead is not None and (where or _leads_index(schema, lead.name)):
            return tuple(both(where, tile) for tile in self._integer_tiles(schema, lead, where, parts))
        if name := self._dialect.window_lead(where):
            column = schema.column(name)
            if column is not None:
                return tuple(both(where, tile) for tile in self._moment_tiles(schema, column, where, parts))
        return (where,)

    def chunks(self, schema: TableSchema, keys: tuple[str, ...], rows: int) -> tuple[str, ...]:
        """See `Source.chunks`."""
        parts = min(-(-schema.approximate_rows // max(rows, 1)), _MOST_CHUNKS)
        lead = _integer_lead(schema, keys)
        if parts <= 1 or lead is None or not _leads_index(schema, lead.name):
            return ("",)
        return self._integer_tiles(schema, lead, "", parts)

    def extent(self, schema: TableSchema, key: str) -> tuple[int, int] | None:
        """See `Source.extent`."""
        lead = _integer_lead(schema, (key,))
        if lead is None or not _leads_index(schema, lead.name):
            return None
        low, high = self._range(schema, self._dialect.name(lead.name), "")
        return (int(low), int(high)) if low is not None and high is not None else None

    def _integer_tiles(self, schema: TableSchema, column: Column, where: str, parts: int) -> tuple[str, ...]:
        low, high = self._range(schema, self._dialect.name(column.name), where)
        borders = cut_integers(int(low), int(high), parts) if low is not None and high is not None else ()
        return tile(self._dialect.name(column.name), tuple(str(border) for border in borders), nullable=column.nullable)

    def _moment_tiles(self, schema: TableSchema, column: Column, where: str, parts: int) -> tuple[str, ...]:
        name = self._dialect.name(column.name)
        low, high = self._range(schema, name, where, form=self._dialect.moment_text)
        if low is None or high is None or low == high:
            return ("",)
        kind = CursorType.TIMESTAMP if column.delta_type == "timestamp" else CursorType.DATETIME
        borders = tuple(self._dialect.moment(border, kind) for border in cut_moments(low, high, parts))
        return tile(name, borders, nullable=column.nullable)

    def _range(self, schema: TableSchema, name: str, where: str, form: str = "{}") -> tuple[str | None, str | None]:
        condition = f" WHERE {where}" if where else ""
        low, high = form.format(f"MIN({name})"), form.format(f"MAX({name})")
        row = self._session.row(f"SELECT {low} AS low, {high} AS high FROM {self._dialect.table(schema.table)}{condition}")
        return tuple(None if row[end] is None else str(row[end]) for end in ("low", "high"))  # type: ignore[return-value]


def _integer_lead(schema: TableSchema, keys: tuple[str, ...]) -> Column | None:
    column = schema.column(keys[0]) if keys else None
    if column is None:
        return None
    if column.source_type.endswith("]"):
        return None
    base = DeclaredType.parse(column.source_type).base
    return column if base in INTEGERS - {"bit", "year"} else None


def _leads_index(schema: TableSchema, name: str) -> bool:
    return any(index[0] == name for index in schema.indexes)
