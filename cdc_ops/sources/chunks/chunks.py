"""Splits a table into chunks (one operation each), and a chunk into partitions (one connection each). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cdc_ops.sources.chunks.ranges import both
from cdc_ops.sources.chunks.split_key import SplitKey
from cdc_ops.sources.chunks.split_points import Split, print_parts, print_rest
from cdc_ops.sources.sql.dialect import Dialect

MOST_CHUNKS: Final = 2000
"""Each is a frozen plan of some kilobytes and a commit of the Delta table; a table that has more rows gets larger ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSize:
    """The approximate maximum size of a chunk.

    Args:
        rows: Rows of a chunk.
        bytes: Bytes of a chunk as the source stores them, by its average row; 0 = no limit.
        readers: Slices of a chunk.
    """

    rows: int
    bytes: int = 0
    readers: int = 1

    def rows_of(self, row_bytes: int) -> int:
        """Returns the rows of a chunk of a table with so many bytes a row (0 = unknown)."""
        return max(min(self.rows, self.bytes // row_bytes), 1) if self.bytes and row_bytes else max(self.rows, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A chunk of a table.

    Args:
        slices: Disjoint conditions, together the chunk.
        rest: Condition of all rows of the chunks behind it, "" for the last.
        rows: Estimated rows.
    """

    slices: tuple[str, ...]
    rest: str = ""
    rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlan:
    """The chunks of a table, or of the rest of a snapshot: disjoint and complete, whatever is inserted meanwhile.

    Args:
        chunks: In the order in which they are read.
        how: By which columns and by what means it was cut, or why it was not.
        warning: What makes the read slow or all-or-nothing, with its fix; "" if nothing does.
    """

    chunks: tuple[Chunk, ...]
    how: str = ""
    warning: str = ""

    @property
    def rows(self) -> int:
        """Estimated rows of all chunks."""
        return sum(chunk.rows for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The numbers of chunks and partitions for a number of rows.

    Args:
        chunks: Number of chunks.
        parts: Number of slices of all chunks together.
        rows: Rows of a slice.
    """

    chunks: int
    parts: int
    rows: int


def shape_of(estimate: int, limit: int, readers: int) -> Shape:
    """Divides about `estimate` rows into as few chunks of at most `limit` rows as possible, all alike."""
    chunks = min(max(-(-estimate // limit), 1), MOST_CHUNKS)
    parts = chunks * readers
    return Shape(chunks=chunks, parts=parts, rows=max(-(-estimate // parts), 1))


def assemble(dialect: Dialect, axis: SplitKey, cut: Split, rest: str, readers: int, estimate: int) -> tuple[Chunk, ...]:
    """Puts neighbouring parts together to chunks of `readers` slices; rows that have NULL on the axis are a slice more of the first.

    Args:
        dialect: How conditions are printed.
        axis: What was cut by.
        cut: The borders.
        rest: Condition of all rows that are to be read, "" for the whole table.
        readers: Slices of a chunk.
        estimate: Rows of all parts.
    """
    parts = print_parts(dialect, axis, cut.borders)
    rows = _scaled(cut.rows or (1,) * len(parts), estimate)
    chunks = []
    for start in range(0, len(parts), readers):
        behind = cut.borders[start + readers - 1 : start + readers]
        chunks.append(
            Chunk(
                slices=tuple(both(rest, condition) for part in parts[start : start + readers] for condition in part),
                rest=print_rest(dialect, axis, behind[0], rest) if behind else "",
                rows=sum(rows[start : start + readers]),
            )
        )
    return tuple(chunks)


def _scaled(rows: Sequence[int], estimate: int) -> list[int]:
    whole = max(sum(rows), 1)
    return [-(-one * estimate // whole) for one in rows]
