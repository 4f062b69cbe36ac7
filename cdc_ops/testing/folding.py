"""Folds change events in plain Python, as the reference for `events.fold.feed.fold_feed`; outside the data path.

`replay` applies one event after the other, in their order: that defines the right result. `fold` does what a batch does per key, and
`apply` what its MERGE does. `fold` and `apply` must give the same rows as `replay`, however a history is split into batches.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_ops.core.events.format_spec import WHOLE_ROW, EventOperation

Key = tuple[Any, ...]
Rows = dict[Key, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of the canonical feed.

    Args:
        op: The operation.
        position: The position in the total order.
        key: The key after it; empty for a truncate.
        previous_key: The key before it, if it changed.
        values: The columns that the change has.
    """

    op: EventOperation
    position: tuple[int, ...]
    key: Key = ()
    previous_key: Key | None = None
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a batch for one key.

    Args:
        deleted: True if the batch deletes the row.
        whole: True if columns without a value become NULL; False if they keep their values.
        values: The columns for which the batch has a value.
        position: The position of the last event.
    """

    deleted: bool
    whole: bool
    values: Mapping[str, Any]
    position: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A folded batch.

    Args:
        truncated: True if the batch first deletes all existing rows.
        outcomes: The result for each key.
    """

    truncated: bool
    outcomes: Mapping[Key, Outcome]


def replay(history: Iterable[Change], columns: tuple[str, ...]) -> Rows:
    """Returns the rows after a history, applied event by event in the order of its positions."""
    rows: Rows = {}
    for change in sorted(history, key=lambda one: one.position):
        values = dict(change.values or {})
        match change.op:
            case EventOperation.TRUNCATE:
                rows.clear()
            case EventOperation.DELETE:
                rows.pop(change.key, None)
            case EventOperation.UPDATE if change.previous_key in (None, change.key):
                rows[change.key] = {**dict.fromkeys(columns), **rows.get(change.key, {}), **values}
            case _:
                rows.pop(change.previous_key or change.key, None)
                rows[change.key] = {**dict.fromkeys(columns), **values}
    return rows


def fold(batch: Iterable[Change], after: tuple[int, ...] | None = None) -> Batch:
    """Folds a batch; its changes may be in any order, and duplicated.

    Args:
        batch: The changes.
        after: The watermark: changes at or below it were applied before, and are skipped.
    """
    fresh = [change for change in batch if after is None or change.position > after]
    cuts = [change.position for change in fresh if change.op is EventOperation.TRUNCATE]
    cut = max(cuts, default=None)
    by_key: dict[Key, list[Change]] = {}
    for change in fresh:
        if change.op is not EventOperation.TRUNCATE and (cut is None or change.position > cut):
            for part in _expanded(change):
                by_key.setdefault(part.key, []).append(part)
    return Batch(truncated=cut is not None, outcomes={key: _outcome(events) for key, events in by_key.items()})


def apply(rows: Rows, batch: Batch, columns: tuple[str, ...]) -> Rows:
    """Returns the rows after a batch was applied to `rows`."""
    changed: Rows = {} if batch.truncated else dict(rows)
    for key, outcome in batch.outcomes.items():
        before = {} if outcome.whole else changed.get(key, {})
        changed.pop(key, None)
        if not outcome.deleted:
            changed[key] = {**dict.fromkeys(columns), **before, **outcome.values}
    return changed


def _expanded(change: Change) -> tuple[Change, ...]:
    if change.op is not EventOperation.UPDATE or change.previous_key in (None, change.key):
        return (change,)
    old = Change(op=EventOperation.DELETE, position=change.position, key=change.previous_key or ())
    return old, Change(op=EventOperation.CREATE, position=change.position, key=change.key, values=change.values)


def _outcome(events: list[Change]) -> Outcome:
    values: dict[str, Any] = {}
    whole = False
    ordered = sorted(events, key=lambda one: one.position)
    for event in ordered:
        if event.op in WHOLE_ROW or event.op is EventOperation.DELETE:
            values, whole = {}, True
        values.update(event.values or {})
    last = ordered[-1]
    return Outcome(deleted=last.op is EventOperation.DELETE, whole=whole, values=values, position=last.position)
