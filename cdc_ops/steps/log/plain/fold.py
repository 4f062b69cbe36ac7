"""Folds plain events: of all rows of some keys, the last of each. Spark-free.

Plain events have all columns, or delete: so the last event of a key has all that is known of it, and the ones before it say nothing more.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.decode.plain_rows import HASH, OPERATION, PlainRows, column_name, key_name, part_name


@dataclass(frozen=True, slots=True)
class LastRows:
    """Which rows of a table are the last ones of their keys.

    Args:
        rows: Their numbers.
        doubled: True if two rows of one key have the same place; whether these are one event is to be seen in their contents.
    """

    rows: Any
    doubled: bool


def last_rows(table: pa.Table, form: PlainRows) -> LastRows:
    """Finds the last row of each key; the table needs no columns but keys, hashes and places."""
    places = [table[part_name(part)].to_numpy() for part in range(form.parts + 1)]
    varying = [numbers for numbers in places if len(numbers) and (numbers != numbers[0]).any()]
    if not table.num_rows:
        return LastRows(np.zeros(0, np.int64), doubled=False)
    if _is_ascending(varying):
        found = _last_of_ascending(table, form)
        if found is not None:
            return found
    order = _ordered(table, form, varying)
    same_key = _same_as_next(table.select(_key_names(form)).take(pa.array(order)), form)
    doubled = same_key.copy()
    for numbers in varying:
        in_order = numbers[order]
        doubled &= in_order[1:] == in_order[:-1]
    return LastRows(order[np.append(~same_key, True)], doubled=bool(doubled.any()))


def _is_ascending(places: list[Any]) -> bool:
    """True if each row's place is above that of the row before it."""
    if not places:
        return False
    undecided = np.ones(len(places[0]) - 1, np.bool_)
    for numbers in places:
        if (undecided & (numbers[1:] < numbers[:-1])).any():
            return False
        undecided &= numbers[1:] == numbers[:-1]
    return not undecided.any()


def _last_of_ascending(table: pa.Table, form: PlainRows) -> LastRows | None:
    """Finds the last row of each key where rows are in the order of their places; None if two keys have one hash."""
    hashes = table[HASH].to_numpy()
    order = np.argsort(hashes)
    sorted_hashes = hashes[order]
    begins = np.flatnonzero(np.append(True, sorted_hashes[1:] != sorted_hashes[:-1]))
    last = np.maximum.reduceat(order, begins)
    sizes = np.diff(np.append(begins, len(order)))
    keys = table.select(_key_names(form))
    own, of_last = keys.take(pa.array(order)), keys.take(pa.array(np.repeat(last, sizes)))
    if not all(_equal(own[name], of_last[name]) for name in keys.column_names):
        return None
    return LastRows(last, doubled=False)


def _equal(some: pa.ChunkedArray, others: pa.ChunkedArray) -> bool:
    return bool(some.combine_chunks().equals(others.combine_chunks()))


def fold_rows(table: pa.Table, form: PlainRows) -> tuple[pa.Table, np.ndarray[Any, Any]]:
    """Returns the last row of each key, and for each of them whether two different events of its key have the same place."""
    found = last_rows(table, form)
    if not found.doubled:
        return table.take(pa.array(found.rows)), np.zeros(len(found.rows), np.bool_)
    places = [table[part_name(part)].to_numpy() for part in range(form.parts + 1)]
    rows = table.take(pa.array(_ordered(table, form, places)))
    same_key = _same_as_next(rows, form)
    last = np.append(~same_key, True)
    doubled = same_key.copy()
    for part in range(form.parts + 1):
        numbers = rows[part_name(part)].to_numpy()
        doubled &= numbers[1:] == numbers[:-1]
    tied = np.zeros(rows.num_rows, np.bool_)
    for index in np.flatnonzero(doubled).tolist():
        tied[index] = _content(rows, form, index) != _content(rows, form, index + 1)
    groups = np.append(0, np.cumsum(last[:-1]))
    tied_groups = np.bincount(groups, weights=tied) > 0
    return rows.filter(pa.array(last)), tied_groups


def _ordered(table: pa.Table, form: PlainRows, places: list[Any]) -> Any:
    """Returns the order of rows by key and place."""
    order = np.lexsort((*reversed(places), table[HASH].to_numpy()))
    hashes = table[HASH].to_numpy()[order]
    if bool((hashes[1:] == hashes[:-1]).any()) and _has_collision(table, form, order, hashes):
        names = [*_key_names(form), *(part_name(part) for part in range(form.parts + 1))]
        return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]).to_numpy()
    return order


def _key_names(form: PlainRows) -> list[str]:
    return [key_name(key) for key in range(len(form.keys))]


def _has_collision(table: pa.Table, form: PlainRows, order: Any, hashes: Any) -> bool:
    """True if two different keys have one hash."""
    same = hashes[1:] == hashes[:-1]
    return bool((same & ~_same_as_next(table.select(_key_names(form)).take(pa.array(order)), form)).any())


def _same_as_next(rows: pa.Table, form: PlainRows) -> Any:
    """True for each row but the last one whose key is that of the next row."""
    same = np.ones(max(rows.num_rows - 1, 0), np.bool_)
    for key in range(len(form.keys)):
        column = rows[key_name(key)].combine_chunks()
        same &= pc.equal(column.slice(0, len(same)), column.slice(1)).to_numpy(zero_copy_only=False)
    return same


def _content(rows: pa.Table, form: PlainRows, index: int) -> dict[str, Any]:
    names = [OPERATION, *(column_name(column) for column in range(len(form.columns)))]
    [row] = rows.select(names).slice(index, 1).to_pylist()
    return {name: repr(value) for name, value in row.items()}
