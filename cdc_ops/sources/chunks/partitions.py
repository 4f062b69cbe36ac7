"""Splits the rows of a table for several connections, or for several operations."""

from typing import Final, Protocol

from cdc_ops.core.cursor.cursors import CursorType
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.sources.chunks.chunks import Chunk, ChunkPlan, ChunkSize, assemble, shape_of
from cdc_ops.sources.chunks.ranges import both, cut_integers, cut_moments, tile
from cdc_ops.sources.chunks.split_key import SplitKey, choose_axis, why_uncut
from cdc_ops.sources.chunks.split_points import Split
from cdc_ops.sources.sql.dialect import INTEGERS, Dialect
from cdc_ops.sources.sql.session import SqlSession

_WHOLE: Final = INTEGERS - {"bit", "year"}


class BorderFinder(Protocol):
    """Finds the split points of a table much cheaper than by reading it."""

    def is_cuttable(self, column: Column) -> bool:
        """True if a table can be split by the values of a column."""
        ...

    def estimate(self, schema: TableSchema, rest: str) -> int:
        """Returns about how many rows match a condition, "" for all."""
        ...

    def cut(self, schema: TableSchema, axis: SplitKey, rest: str, parts: int, rows: int) -> Split:
        """Finds split points.

        Args:
            schema: The table.
            axis: What to cut by.
            rest: Condition of the rows to be cut, "" for all.
            parts: Number of parts wanted.
            rows: Rows of a part, if the estimate is right; a finder that counts goes by this.
        """
        ...


class Slicer:
    """Splits tables by the quantiles of their key, and windows by the range of their leading key column or their cursor.

    Args:
        session: The connection.
        dialect: How conditions are printed.
        borders: Finds the quantiles.
    """

    def __init__(self, session: SqlSession, dialect: Dialect, borders: BorderFinder) -> None:
        self._session = session
        self._dialect = dialect
        self._borders = borders

    def slices(self, schema: TableSchema, keys: tuple[str, ...], where: str, parts: int) -> tuple[str, ...]:
        """See `Source.slices`."""
        if parts <= 1:
            return (where,)
        if not where:
            [chunk] = self._chunks(schema, keys, None, parts, "").chunks
            return chunk.slices
        if (lead := _integer_lead(schema, keys)) is not None:
            return tuple(both(where, tile) for tile in self._integer_tiles(schema, lead, where, parts))
        if name := self._dialect.window_lead(where):
            column = schema.column(name)
            if column is not None:
                return tuple(both(where, tile) for tile in self._moment_tiles(schema, column, where, parts))
        return (where,)

    def chunks(self, schema: TableSchema, keys: tuple[str, ...], size: ChunkSize, rest: str) -> ChunkPlan:
        """See `Source.chunks`."""
        return self._chunks(schema, keys, size.rows_of(schema.row_bytes), size.readers, rest)

    def _chunks(self, schema: TableSchema, keys: tuple[str, ...], limit: int | None, readers: int, rest: str) -> ChunkPlan:
        """Cuts what `rest` leaves; without a limit into one chunk."""
        estimate = self._borders.estimate(schema, rest)
        shape = shape_of(estimate, limit or max(estimate, 1), readers)
        axis = choose_axis(schema, keys, self._borders.is_cuttable)
        whole = Chunk(slices=(rest,), rows=estimate)
        if axis is None:
            why = f"cannot be split: {why_uncut(schema, keys, self._borders.is_cuttable)}"
            warning = f"{schema.table} is read in one chunk over one connection: it {why}." if estimate > _LARGE else ""
            return ChunkPlan(chunks=(whole,), how=f"one chunk, one connection: {why}", warning=warning)
        if shape.parts == 1:
            return ChunkPlan(chunks=(whole,), how="one chunk, one connection")
        cut = self._borders.cut(schema, axis, rest, shape.parts, shape.rows)
        # Where the estimate was too low, counting has found more parts than there are readers.
        per_chunk = readers if shape.chunks > 1 else max(limit // shape.rows, readers) if limit else len(cut.borders) + 1
        chunks = assemble(self._dialect, axis, cut, rest, per_chunk, estimate)
        return ChunkPlan(chunks=chunks, how=f"split by ({', '.join(axis.names)}) with {cut.how}")

    def extent(self, schema: TableSchema, key: str) -> tuple[int, int] | None:
        """See `Source.extent`."""
        lead = _integer_lead(schema, (key,))
        if lead is None or all(index[0] != lead.name for index in schema.indexes):
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
    if column is None or column.source_type.endswith("]"):
        return None
    return column if DeclaredType.parse(column.source_type).base in _WHOLE else None


_LARGE: Final = 1_000_000
"""Rows from which on a table that cannot be cut is worth a warning."""
