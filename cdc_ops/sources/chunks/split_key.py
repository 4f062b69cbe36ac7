"""The split key: the index columns by which a table is split into chunks and partitions. Pure.

Only columns that identify a row are cut by. A row whose value changes while a snapshot runs could otherwise move from a range that is still
to be read into one that was read, or the other way round, and be missing or doubled in the lake.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cdc_ops.core.schema.tables import Column, TableSchema

Border = tuple[str, ...]
"""A position on an axis: one literal, as SQL, per column of the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitKey:
    """The leading columns of an index, by which rows are ordered lexicographically.

    Args:
        columns: In the order of the index; of all but a lone first one the source guarantees that it is not NULL.
        primary: The index is the primary key.
    """

    columns: tuple[Column, ...]
    primary: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @property
    def nullable(self) -> bool:
        """True if the split key of some rows may be NULL: these rows form a separate part."""
        return self.columns[0].nullable


def choose_axis(schema: TableSchema, keys: Iterable[str], cuttable: Callable[[Column], bool]) -> SplitKey | None:
    """Returns the split key: the primary key, else the index with most leading key columns; None without such an index.

    Args:
        schema: The table.
        keys: The columns that identify a row to the pipeline.
        cuttable: Whether a column's values can be printed, and compare by their text as the index orders them.
    """
    identity = {name.lower() for name in (*schema.primary_key, *keys)}
    axes = [axis for index in schema.indexes if (axis := _axis(schema, index, identity, cuttable)) is not None]
    return max(axes, key=lambda axis: (axis.primary, not axis.nullable, len(axis.columns)), default=None)


def why_uncut(schema: TableSchema, keys: tuple[str, ...], cuttable: Callable[[Column], bool]) -> str:
    """Returns why a table has no split key, and the remedy."""
    lead = schema.column(keys[0]) if keys else None
    if lead is None:
        return "the table has no key"
    if not cuttable(lead):
        return f"SQL cannot reliably compare ranges of key column {lead.name!r} ({lead.source_type})"
    return f"no index of the table starts with a key column; an index on ({', '.join(keys)}) lets cdc-ops read the table in parts"


def _axis(schema: TableSchema, index: tuple[str, ...], identity: set[str], cuttable: Callable[[Column], bool]) -> SplitKey | None:
    columns: list[Column] = []
    for name in index:
        column = schema.column(name)
        if column is None or name.lower() not in identity or not cuttable(column):
            break
        if columns and column.nullable:
            break  # what is NULL there would lie in no range
        columns.append(column)
        if column.nullable:
            break
    return SplitKey(columns=tuple(columns), primary=index == schema.primary_key) if columns else None
