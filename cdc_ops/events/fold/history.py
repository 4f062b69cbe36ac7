"""Rows of an event history (`core.events.event_history`) as a feed, and what they come to.

A state of a row comes behind the event whose place it has, and the later one behind the earlier. Of different events at one place the last
one is that of the last operation that brought one, as it is in the lake's table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.events.event_history import HistoryKind
from cdc_ops.core.events.format_spec import EventOperation, OrderField, RecordKind
from cdc_ops.events.fold.arrays import Int64s
from cdc_ops.events.fold.feed import fold_feed
from cdc_ops.events.fold.rules import DELIVERY, FoldRules

RANK: Final = "__cdc_rank"
"""Column of folded rows: 0 if the last that is known of a row is an event, more if it is a state."""
CONTENT: Final = "content"
"""Column of rows of a history: a number by which two different events that one operation brought are ordered, always in the same way."""
_ROWS: Final = 10_000
_LEAST: Final = np.iinfo(np.int64).min


def fold_history(rows: pa.Table, rules: FoldRules) -> pa.Table:
    """Folds the rows of a history that are of some keys.

    Args:
        rows: All of them, as `lake.history.rows` has them: `kind`, `op`, `op_seq`, `position`, `table_version`, `key`, `previous_key`,
            `after`, `present` (NULL = all columns); CONTENT; `nulled` too, where NULLs are ignored. They may have `rules.OLD_SIDE`.
        rules: What is wanted of them; without an order, because they have their places as numbers.

    Returns:
        The rows of `fold_feed`, and RANK; SEQUENCE is NULL where a row is from before all events. A table that keeps versions gets the last
        one of the changes of a key at one place, and no RANK.
    """
    is_state = pc.equal(rows["kind"], str(HistoryKind.STATE))
    rank = np.where(is_state.to_numpy(), pc.fill_null(rows["table_version"], 0).to_numpy() + 2, 0)
    places = _Places.of(rows["position"], rules.barrier or ())
    numbers = [*places.numbers, *([] if rules.versions else [rank])]
    names = [str(index) for index in range(len(numbers))]
    feed = rows.drop_columns(["kind", "position", "op_seq", "table_version", CONTENT])
    feed = feed.append_column("kind", pc.if_else(is_state, str(RecordKind.CHANGE), rows["kind"]))
    feed = feed.append_column("position", _struct(dict(zip(names, numbers, strict=True))))
    feed = feed.append_column(DELIVERY, _struct({"rank": rank, "op_seq": rows["op_seq"].to_numpy(), "content": rows[CONTENT].to_numpy()}))
    order = tuple(OrderField(name=name, type="bigint", meaning="") for name in names)
    barrier = (*places.padded(rules.barrier), *(() if rules.versions else (0,))) if rules.barrier is not None else None
    folded = fold_feed(feed, replace(rules, order=order, barrier=barrier, nulls_in_keys=True)).rows
    found = _matrix(folded[SEQUENCE], len(numbers))
    told = places.lists(found[:, : len(places.numbers)])
    folded = folded.set_column(folded.column_names.index(SEQUENCE), SEQUENCE, told)
    return folded if rules.versions else folded.append_column(RANK, pa.array(found[:, -1]))


def fold_partition(batches: Iterator[pa.RecordBatch], rules: FoldRules) -> Iterator[pa.RecordBatch]:
    """Folds the rows of a partition, which has all rows of its keys."""
    if found := list(batches):
        yield from fold_history(pa.Table.from_batches(found), rules).to_batches(max_chunksize=_ROWS)


def last_truncate(rows: pa.Table) -> tuple[int, ...] | None:
    """Returns the place of the last TRUNCATE among rows, None if there is none."""
    emptied = rows["position"].filter(pc.equal(rows["op"], str(EventOperation.TRUNCATE))).to_pylist()
    return max(map(tuple, emptied), default=None)


@dataclass(frozen=True, slots=True)
class _Places:
    """Places as columns of numbers. One that is the beginning of another comes first: what it lacks is less than all numbers of the column.

    Args:
        numbers: A column for each number.
        missing: For each column what stands where a place has no such number.
    """

    numbers: tuple[Int64s, ...]
    missing: tuple[int, ...]

    @classmethod
    def of(cls, lists: pa.ChunkedArray, barrier: tuple[int, ...]) -> "_Places":
        """Returns the places of rows, with as many numbers as the longest of them.

        Raises:
            ValueError: one has a number that is not known.
        """
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        flat = pc.list_flatten(lists)
        if flat.null_count:
            raise ValueError("a change has no complete position")
        width = max(1, len(barrier), int(lengths.max(initial=0)))
        values = flat.to_numpy().astype(np.int64, copy=False)
        if (lengths == width).all():
            columns = values.reshape(-1, width)
            return cls(tuple(np.ascontiguousarray(columns[:, at]) for at in range(width)), (_LEAST,) * width)
        begins = np.cumsum(lengths) - lengths
        numbers, missing = [], []
        for at in range(width):
            has = lengths > at
            some = values[begins[has] + at]
            least = max(_LEAST + 1, min([*barrier[at : at + 1], int(some.min(initial=0))])) - 1
            column = np.full(len(lengths), least)
            column[has] = some
            numbers.append(column)
            missing.append(least)
        return cls(tuple(numbers), tuple(missing))

    def padded(self, place: tuple[int, ...]) -> tuple[int, ...]:
        """Returns a place with as many numbers as all have."""
        return (*place, *self.missing[len(place) :])

    def lists(self, found: npt.NDArray[np.int64]) -> pa.ListArray:
        """Returns places as they were, NULL where they have no number."""
        has = found != np.array(self.missing, np.int64)
        lengths = has.sum(axis=1)
        borders = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
        return pa.ListArray.from_arrays(borders, pa.array(found[has]), mask=pa.array(lengths == 0))


def _struct(columns: Mapping[str, Any]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.StructArray.from_arrays([pa.array(numbers) for numbers in columns.values()], list(columns))])


def _matrix(lists: pa.ChunkedArray, width: int) -> npt.NDArray[np.int64]:
    return np.asarray(pc.list_flatten(lists).to_numpy(), np.int64).reshape(-1, width)
