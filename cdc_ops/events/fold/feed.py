"""Folds the canonical feed of one table: the last state of each key, or each change of it."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.events.fold.arrays import Bools, Int64s
from cdc_ops.events.fold.changes import Changes, changes_of
from cdc_ops.events.fold.equality import equal_values, key_codes
from cdc_ops.events.fold.landed import landed_rows
from cdc_ops.events.fold.places import PlaceOrder, place_order
from cdc_ops.events.fold.rules import WHOLE, Folded, FoldRules, Tie
from cdc_ops.events.fold.shown import json_text
from cdc_ops.events.fold.spoken import Spoken
from cdc_ops.events.fold.taken import taken

_SHOWN: Final = 5


def fold_feed(feed: pa.Table, rules: FoldRules) -> Folded:
    """Folds the changes of some keys, in the order of their positions. `bad` records and all others that are no changes are left out.

    The result does not depend on the order of the feed's rows, nor on duplicates among them; the order of its rows may.

    Args:
        feed: Of one table, all rows of some keys: `kind`, `op`, `key`, `previous_key`, `after`, `present` (NULL = all columns) and
            `position` of `core.events.change_feed.feed_columns`; `nulled` too, where NULLs are ignored. It may have DELIVERY and OLD_SIDE.
        rules: What the table wants.

    Raises:
        ValueError: a change has no complete key or position, or the barrier has not the numbers of a place.
    """
    changes = changes_of(feed, rules)
    keys = _Keys.of(changes)
    tied = _ties(changes, keys)
    parts = [_each_change(changes, keys, rules)] if rules.versions else _last_states(changes, keys, rules)
    rows = pa.concat_tables(parts)
    return Folded(
        rows=rows,
        partial=len(rows) - rows[PRESENT].null_count,
        deletes=int(pc.sum(rows[DELETE_MARK]).as_py() or 0),
        tied=tuple(_tie(feed, changes, rules, change) for change in tied[:_SHOWN].tolist()),
        tied_count=len(tied),
    )


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of changes.

    Args:
        order: The order of the changes by place.
        code: The number of each change's key, in the order in which the changes came.
        count: How many keys there are.
        doubled: Two changes for each pair of neighbours among those of one key and one place.
    """

    order: PlaceOrder
    code: Int64s
    count: int
    doubled: tuple[Int64s, Int64s]

    @classmethod
    def of(cls, changes: Changes) -> "_Keys":
        code, count = key_codes(changes.keys)
        order = place_order(changes.places, changes.delivery)
        return cls(order, code, count, _doubled(order, code))

    def last(self) -> Int64s:
        """Returns the last change of each key."""
        at = np.empty(self.count, np.int64)
        at[self.order.ordered(self.code)] = np.arange(len(self.code))  # of several, the last one is kept
        return self.order.events(at)

    def changes_of(self, wanted: Bools) -> tuple[Int64s, Int64s]:
        """Returns the changes of some keys, key by key and each in the order of places; and where each key begins."""
        changes = self.order.events(np.flatnonzero(self.order.ordered(wanted[self.code])))
        changes = changes[np.argsort(self.code[changes], kind="stable")]
        code = self.code[changes]
        return changes, np.flatnonzero(np.append(True, code[1:] != code[:-1]))


def _doubled(order: PlaceOrder, code: Int64s) -> tuple[Int64s, Int64s]:
    if not order.is_next.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    shared = np.append(order.is_next, False) | np.append(False, order.is_next)
    at = np.flatnonzero(shared)
    changes, place = order.events(at), np.append(0, np.cumsum(~order.is_next))[at]
    by_key = np.lexsort((code[changes], place))
    changes, place = changes[by_key], place[by_key]
    same = (place[1:] == place[:-1]) & (code[changes[1:]] == code[changes[:-1]])
    return changes[:-1][same], changes[1:][same]


def _ties(changes: Changes, keys: _Keys) -> Int64s:
    """Returns a change of each key and place that has different events: different operations, images, or columns that they speak of.

    A delete says no more than its key.
    """
    some, others = keys.doubled
    if not len(some):
        return some
    same = changes.op[some] == changes.op[others]
    rows = np.flatnonzero(same & ~changes.is_deleted(some))
    one, other = some[rows], others[rows]
    said, said_too = changes.spoken(one), changes.spoken(other)
    alike = (said.has == said_too.has).all(axis=0) & (said.rest == said_too.rest)
    left, right = changes.source[one], changes.source[other]
    for column in changes.after:
        alike &= equal_values(taken(column, left), taken(column, right))
    same[rows] = alike
    tied: Int64s = others[~same]
    at = np.column_stack([keys.code[tied], *(numbers[tied] for numbers in changes.places)])
    first = np.sort(np.unique(at, axis=0, return_index=True)[1])
    return np.asarray(tied[first], np.int64)


def _tie(feed: pa.Table, changes: Changes, rules: FoldRules, change: int) -> Tie:
    key = {name: column[change].as_py() for name, column in zip(rules.keys, changes.keys, strict=True)}
    return Tie(json_text(key), json_text(feed["position"][int(changes.source[change])].as_py()))


def _each_change(changes: Changes, keys: _Keys, rules: FoldRules) -> pa.Table:
    """Returns a row for each change, of those that were delivered more than once one."""
    once = np.ones(len(changes), np.bool_)
    once[keys.doubled[0]] = False
    rows = np.flatnonzero(once)
    unknown = np.flatnonzero(~(changes.is_whole(rows) | changes.is_complete(rows)))
    images = changes.images(rows)
    return landed_rows(changes, rules, rows, lambda _: images, (unknown, changes.spoken(rows[unknown])))


def _last_states(changes: Changes, keys: _Keys, rules: FoldRules) -> list[pa.Table]:
    """Returns the last state of each key: of most keys their last change says it, of the others it is put together."""
    last = keys.last()
    mixed = ~changes.is_complete(last)
    mixed[keys.code[changes.with_rest()]] = True
    plain = np.sort(last[~mixed])
    images = changes.images(plain)
    parts = [landed_rows(changes, rules, plain, lambda _: images)]
    if mixed.any():
        parts.append(_put_together(changes, rules, *keys.changes_of(mixed)))
    if not rules.states:
        return parts
    has_whole = np.zeros(keys.count, np.bool_)
    has_whole[keys.code[changes.is_whole(np.arange(len(changes)))]] = True
    of_part = (keys.code[plain], np.flatnonzero(mixed))
    return [part.append_column(WHOLE, pa.array(has_whole[code])) for part, code in zip(parts, of_part, strict=False)]


def _put_together(changes: Changes, rules: FoldRules, events: Int64s, begins: Int64s) -> pa.Table:
    """Returns the last value of each column of some keys, of the changes that have it.

    A delete, and a whole row without the column, end the values before them.

    Args:
        changes: All changes.
        rules: What the table wants.
        events: Those of the keys, key by key and each in the order of places.
        begins: Where each key begins among them.
    """
    said, whole, numbers = changes.spoken(events), changes.is_whole(events), np.arange(len(events))
    last = events[np.append(begins[1:], len(events)) - 1]
    at = [np.maximum.reduceat(np.where(has | whole, numbers, -1), begins) for has in said.has]
    known = np.array([(found >= 0) & has[found] for found, has in zip(at, said.has, strict=True)])
    has_whole = np.logical_or.reduceat(whole, begins)
    rest = np.logical_or.reduceat(said.rest, begins) & ~has_whole
    all_known = known.all(axis=0) & ~rest
    unknown = np.flatnonzero(~(all_known if rules.states else has_whole | all_known))

    def images(column: int) -> tuple[Int64s, Bools]:
        return changes.source[events[at[column]]], ~known[column]

    return landed_rows(changes, rules, last, images, (unknown, Spoken(known[:, unknown], rest[unknown])))
