"""Which columns events speak of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.events.fold.arrays import Bools, Int64s
from cdc_ops.events.fold.taken import taken


@dataclass(frozen=True, slots=True)
class Spoken:
    """What some events speak of.

    Args:
        has: A row of booleans for each column of the table: which of the events have it.
        rest: Events that had all columns, before their NULLs were taken out of them: columns that they do not have are NULL in a new row.
    """

    has: Bools
    rest: Bools


class PresentColumns:
    """Which columns the rows of a feed speak of; with `silent` columns of updates whose NULLs are ignored.

    Args:
        present: `present` of the feed: names of columns; NULL for all of them.
        names: The columns of the table.
        silent: For some columns, by their numbers: in which rows they are NULL and this is to be ignored.
    """

    def __init__(self, present: pa.ChunkedArray, names: Sequence[str], silent: dict[int, Bools]) -> None:
        self._present, self._names, self._silent = present, pa.array(names, pa.string()), silent
        self._complete: Bools = pc.fill_null(pc.list_value_length(present), len(names)).to_numpy() == len(names)
        self._fewer = _any(list(silent.values()), len(present))

    def is_complete(self, rows: Int64s) -> Bools:
        """True for rows that speak of all columns, and of no NULLs that are to be ignored."""
        return np.asarray(self._complete[rows] & ~self._fewer[rows], np.bool_)

    def has_rest(self, rows: Int64s) -> Bools:
        """True for rows that had all columns, of which some are ignored."""
        return np.asarray(self._complete[rows] & self._fewer[rows], np.bool_)

    def of(self, rows: Int64s) -> Spoken:
        """Returns what some rows speak of."""
        has = np.zeros((len(self._names), len(rows)), np.bool_)
        has[:, self._complete[rows]] = True
        listed = np.flatnonzero(~self._complete[rows])
        if len(listed):
            at, columns = _listed(taken(self._present, rows[listed]), self._names)
            has[columns, listed[at]] = True
        for column, silent in self._silent.items():
            has[column] &= ~silent[rows]
        return Spoken(has, self.has_rest(rows))


def silent_nulls(rows: pa.Table, after: Sequence[pa.ChunkedArray], columns: dict[int, str], updates: Bools) -> dict[int, Bools]:
    """Returns for some columns in which rows of a feed their NULLs are ignored: updates whose value was NULL at the source.

    Args:
        rows: The feed.
        after: All columns of its after images.
        columns: Number and name of the columns whose NULLs are ignored.
        updates: Which rows are updates that leave the key as it was: one that changes it keeps its NULLs.
    """
    silent = {column: updates & after[column].is_null().to_numpy() for column in columns}
    if silent and "nulled" in rows.column_names and len(rows):
        at, found = _listed(rows["nulled"], pa.array(list(columns.values()), pa.string()))
        for index, column in enumerate(columns):
            silent[column][at[found == index]] = False
    return silent


def _listed(lists: pa.ChunkedArray, names: pa.Array) -> tuple[Int64s, Int64s]:
    """Returns which list has which of some names."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    found = pc.fill_null(pc.index_in(pc.list_flatten(lists), names), -1).to_numpy().astype(np.int64)
    at = np.repeat(np.arange(len(lists)), lengths)
    return at[found >= 0], found[found >= 0]


def _any(flags: Sequence[Bools], count: int) -> Bools:
    found = np.zeros(count, np.bool_)
    for one in flags:
        found |= one
    return found
