"""Rows as they are landed: the table's columns, whether the row is gone, which columns are known if not all are, and their place."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.operation.log_batch import PRESENT, REST_IS_NULL
from cdc_ops.events.fold.arrays import Bools, Int64s
from cdc_ops.events.fold.changes import Changes
from cdc_ops.events.fold.rules import FoldRules
from cdc_ops.events.fold.spoken import Spoken
from cdc_ops.events.fold.taken import taken


def landed_rows(
    changes: Changes,
    rules: FoldRules,
    last: Int64s,
    images: Callable[[int], tuple[Int64s, Bools]],
    known: tuple[Int64s, Spoken] | None = None,
) -> pa.Table:
    """Returns landed rows.

    Args:
        changes: What was folded.
        rules: What the table wants.
        last: The last change of each row: its key, its place, and whether the row is gone are that one's.
        images: Returns for a column of the table the rows of the feed that have its values, and for which rows there is none.
        known: Numbers of the rows that are not known as a whole, and what is known of those; None if all are.
    """
    columns = {}
    for index, name in enumerate(rules.schema.names):
        if name in rules.keys:
            columns[name] = taken(changes.keys[rules.keys.index(name)], last)
        else:
            columns[name] = taken(changes.after[index], *images(index))
    columns[DELETE_MARK] = pa.array(changes.is_deleted(last))
    columns[PRESENT] = _named(len(last), rules.schema.names, *known) if known else pa.nulls(len(last), pa.list_(pa.string()))
    columns[SEQUENCE] = _places(changes, last)
    return pa.table(columns)


def _places(changes: Changes, last: Int64s) -> pa.ListArray:
    parts = np.column_stack([numbers[last] for numbers in changes.places])
    borders = np.arange(len(last) + 1, dtype=np.int32) * parts.shape[1]
    return pa.ListArray.from_arrays(borders, pa.array(np.ascontiguousarray(parts).ravel()))


def _named(count: int, names: tuple[str, ...], rows: Int64s, known: Spoken) -> pa.ListArray:
    """Returns the names of what is known of some rows, NULL for all others."""
    told = np.column_stack([known.has.T, known.rest])
    lengths = np.zeros(count, np.int32)
    lengths[rows] = told.sum(axis=1)
    borders = np.append(np.int32(0), np.cumsum(lengths, dtype=np.int32))
    whole = np.ones(count, np.bool_)
    whole[rows] = False
    values = pa.array([*names, REST_IS_NULL], pa.string()).take(pa.array(np.nonzero(told)[1]))
    return pa.ListArray.from_arrays(pa.array(borders), values, mask=pa.array(whole))
