"""Rows of the canonical feed as changes of single keys: an update that changes the key is a delete of the old and an insert of the new."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.core.events.format_spec import WHOLE_ROW, EventOperation, RecordKind
from cdc_ops.events.fold.arrays import Bools, Int64s
from cdc_ops.events.fold.equality import equal_values
from cdc_ops.events.fold.places import is_above, places_of
from cdc_ops.events.fold.rules import DELIVERY, OLD_SIDE, FoldRules
from cdc_ops.events.fold.spoken import PresentColumns, Spoken, silent_nulls
from cdc_ops.events.fold.taken import taken

Codes = npt.NDArray[np.int8]
_OPERATIONS: Final = (EventOperation.READ, EventOperation.CREATE, EventOperation.UPDATE, EventOperation.DELETE)
_CREATE, _UPDATE, _DELETE = (_OPERATIONS.index(op) for op in (EventOperation.CREATE, EventOperation.UPDATE, EventOperation.DELETE))
_WHOLE: Final = np.array([op in WHOLE_ROW for op in _OPERATIONS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of single keys; arrays have one element for each.

    Args:
        op: The operation, as a number.
        source: The row of the feed.
        keys: The columns of the key.
        places: The numbers of the position, most significant first.
        delivery: Numbers that order those at one place; () if they stay as they came.
        after: The columns of the table, for each row of the feed.
        present: What the rows of the feed speak of.
    """

    op: Codes
    source: Int64s
    keys: tuple[pa.ChunkedArray, ...]
    places: tuple[Int64s, ...]
    delivery: tuple[Int64s, ...]
    after: tuple[pa.ChunkedArray, ...]
    present: PresentColumns

    def __len__(self) -> int:
        return len(self.op)

    def is_deleted(self, changes: Int64s) -> Bools:
        """True for changes that delete their row."""
        return np.equal(self.op[changes], _DELETE)

    def is_whole(self, changes: Int64s) -> Bools:
        """True for changes after which nothing of an older row is left: whole rows and deletes."""
        return _WHOLE[self.op[changes]] | self.is_deleted(changes)

    def is_complete(self, changes: Int64s) -> Bools:
        """True for changes that say all of their row: it is gone, or they have all columns."""
        return self.is_deleted(changes) | self.present.is_complete(self.source[changes])

    def with_rest(self) -> Int64s:
        """Returns the changes that had all columns, of which some are ignored."""
        return np.flatnonzero(self.present.has_rest(self.source))

    def spoken(self, changes: Int64s) -> Spoken:
        """Returns which columns some changes speak of: deletes of none."""
        said = self.present.of(self.source[changes])
        said.has[:, self.is_deleted(changes)] = False
        return said

    def images(self, changes: Int64s) -> tuple[Int64s, Bools]:
        """Returns the rows of the feed that have the images of some changes, and which changes have none: deletes."""
        return self.source[changes], self.is_deleted(changes)


def changes_of(feed: pa.Table, rules: FoldRules) -> Changes:
    """Returns the changes of a feed that a table wants, those behind the barrier only.

    An update whose key before it equals its key did not change it.

    Raises:
        ValueError: a change has no complete key or position.
    """
    op = pc.fill_null(pc.index_in(feed["op"], pa.array(list(map(str, _OPERATIONS)))), -1).to_numpy().astype(np.int8)
    is_change = pc.fill_null(pc.equal(feed["kind"], str(RecordKind.CHANGE)), False).to_numpy()
    rows = np.flatnonzero(is_change & (op >= 0) & (rules.deletes | (op != _DELETE)))
    places = places_of(_of_rows(feed["position"], rows).combine_chunks(), rules.order)
    if rules.barrier is not None and rules.deletes and not rules.versions:
        behind = is_above(places, rules.barrier)
        rows, places = rows[behind], [numbers[behind] for numbers in places]
    moved = _moved(feed, rows, rules.keys)
    after = tuple(_columns(feed["after"], rules.schema.names))
    updates = op == _UPDATE
    updates[rows[moved]] = False
    ignored = {index: name for index, name in enumerate(rules.schema.names) if name in rules.nulls_ignored}
    present = PresentColumns(feed["present"], rules.schema.names, silent_nulls(feed, after, ignored, updates))
    op = op[rows]
    op[moved] = _CREATE
    came, gone = _sides(feed, rows, moved if rules.deletes else moved[:0])
    keys = _columns(_of_rows(feed["key"], rows[came]), rules.keys)
    if len(gone):
        old = _columns(taken(feed["previous_key"], rows[gone]), rules.keys)
        keys = [pa.chunked_array([*key.chunks, *left.chunks]) for key, left in zip(keys, old, strict=True)]
    if not rules.nulls_in_keys and any(key.null_count for key in keys):
        raise ValueError("a change has no complete key")
    both = np.concatenate([came, gone])
    return Changes(
        op=np.concatenate([op[came], np.full(len(gone), _DELETE, np.int8)]),
        source=rows[both],
        keys=tuple(keys),
        places=tuple(numbers[both] for numbers in places),
        delivery=tuple(column.to_numpy()[rows[both]] for column in feed[DELIVERY].flatten()) if DELIVERY in feed.column_names else (),
        after=after,
        present=present,
    )


def _sides(feed: pa.Table, rows: Int64s, moved: Int64s) -> tuple[Int64s, Int64s]:
    """Returns which of some rows count for their key, and which of those that change it count for the key before."""
    if OLD_SIDE not in feed.column_names:
        return np.arange(len(rows)), moved
    is_old = feed[OLD_SIDE].to_numpy()[rows]
    return np.flatnonzero(~is_old), moved[is_old[moved]]


def _moved(feed: pa.Table, rows: Int64s, keys: Sequence[str]) -> Int64s:
    """Returns which of some rows change the key."""
    previous = feed["previous_key"]
    if previous.null_count == len(previous):
        return np.zeros(0, np.int64)
    moved = np.flatnonzero(previous.is_valid().to_numpy()[rows])
    old, new = (_columns(taken(feed[name], rows[moved]), keys) for name in ("previous_key", "key"))
    same = np.ones(len(moved), np.bool_)
    for one, other in zip(old, new, strict=True):
        same &= equal_values(one, other)
    return moved[~same]


def _of_rows(column: pa.ChunkedArray, rows: Int64s) -> pa.ChunkedArray:
    """Returns some rows of a column, in its order."""
    return column if len(rows) == len(column) else taken(column, rows)


def _columns(structs: pa.ChunkedArray, names: Sequence[str]) -> list[pa.ChunkedArray]:
    """Returns the fields of structs, in the order of some names."""
    of_struct = {field.name: column for field, column in zip(structs.type, structs.flatten(), strict=True)}
    return [of_struct[name] for name in names]
