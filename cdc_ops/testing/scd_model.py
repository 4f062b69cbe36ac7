"""SCD types 1 and 2 in plain Python: the rows that a table must have after a history, in whatever order it was delivered.

Tests compare the Spark code with it; third parties can test their sources and formats with it too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

Values = Mapping[str, Any]
Place = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One change of one key; `values` is None for a delete. Of two changes at one position, the later one in the history counts."""

    key: Any
    place: Place
    values: Values | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A row of type 2, valid from `start` (inclusive) to `end` (exclusive)."""

    key: Any
    start: Place
    end: Place | None
    values: Values


def current_rows(history: Iterable[Told]) -> dict[Any, Values]:
    """Returns type 1: the last values of each key that is not deleted, by key."""
    return {version.key: version.values for version in all_versions(history) if version.end is None}


def all_versions(history: Iterable[Told], tracked: tuple[str, ...] = ()) -> list[Version]:
    """Returns type 2, ordered by key and start.

    Args:
        history: Changes in any order.
        tracked: Columns whose changes start a new version; empty = all. A version has the last values of the other columns.
    """
    by_key: dict[Any, dict[Place, Values | None]] = {}
    for one in history:
        by_key.setdefault(one.key, {})[one.place] = one.values
    return [version for key in sorted(by_key) for version in _of_key(key, by_key[key], tracked)]


def completed(history: Iterable[Told]) -> list[Told]:
    """Returns a history in which each NULL is replaced by the value before it (`ignore_null_updates`). Changes must be in order."""
    known: dict[Any, Values | None] = {}
    found = []
    for one in sorted(history, key=lambda change: change.place):
        before, values = known.get(one.key) or {}, one.values
        if values is not None:
            values = {name: before.get(name) if value is None else value for name, value in values.items()}
        known[one.key] = values
        found.append(replace(one, values=values))
    return found


def known_after(batches: Iterable[tuple[datetime, Iterable[Told]]], tombstone_retention: timedelta, *, keeps_versions: bool) -> list[Told]:
    """Returns the changes that a table still knows after batches: `current_rows` or `all_versions` of them are its expected rows.

    A delete is remembered for `tombstone_retention`, counted from the last batch that contained it. After that

    - a table of type 1 has forgotten the delete: an older change of the key that arrives now brings the row back;
    - a table of type 2 still knows each delete that ended a version, by the version's end. A delete that ended none is forgotten.

    Args:
        batches: Pairs of the time when a batch was planned, ascending, and its changes.
        tombstone_retention: How long deletes are remembered.
        keeps_versions: True for type 2. A table of type 1 gets only the newest change per key of each batch.
    """
    known: dict[Any, dict[Place, Values | None]] = {}
    noted: dict[tuple[Any, Place], datetime] = {}
    for planned_at, told in batches:
        noted = {one: since for one, since in noted.items() if since >= planned_at - tombstone_retention}
        for key, events in known.items():
            remembered = {place for other, place in noted if other == key}
            known[key] = _without_ends_of_nothing(events, remembered) if keeps_versions else _since_deleted(events, remembered)
        for one in told if keeps_versions else _newest(told):
            known.setdefault(one.key, {})[one.place] = one.values
            if one.values is None:
                noted[one.key, one.place] = planned_at
    return [Told(key=key, place=place, values=values) for key, events in known.items() for place, values in events.items()]


def _newest(told: Iterable[Told]) -> Iterable[Told]:
    return {one.key: one for one in sorted(told, key=lambda one: one.place)}.values()


def _since_deleted(events: Mapping[Place, Values | None], remembered: set[Place]) -> dict[Place, Values | None]:
    """Returns the changes after the last forgotten delete, and the remembered deletes before it."""
    last = max((place for place, values in events.items() if values is None and place not in remembered), default=())
    return {place: values for place, values in events.items() if place > last or place in remembered}


def _without_ends_of_nothing(events: Mapping[Place, Values | None], remembered: set[Place]) -> dict[Place, Values | None]:
    order = sorted(events)
    before = dict(zip(order[1:], order, strict=False))
    ended = {place for place in order if place in before and events[before[place]] is not None}
    return {place: values for place, values in events.items() if values is not None or place in remembered | ended}


def _of_key(key: Any, events: Mapping[Place, Values | None], tracked: tuple[str, ...]) -> list[Version]:
    found: list[Version] = []
    for place in sorted(events):
        values, last = events[place], found[-1] if found and found[-1].end is None else None
        if last is not None and values is not None and _alike(last.values, values, tracked):
            found[-1] = Version(key=key, start=last.start, end=None, values=values)
            continue
        if last is not None:
            found[-1] = Version(key=key, start=last.start, end=place, values=last.values)
        if values is not None:
            found.append(Version(key=key, start=place, end=None, values=values))
    return found


def _alike(one: Values, other: Values, tracked: tuple[str, ...]) -> bool:
    return all(one[name] == other[name] for name in tracked or one)
