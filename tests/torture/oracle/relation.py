"""How a table of the lake has to stand to its source, by the table's policy; and how it stands."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.torture.model import Table
from tests.torture.oracle.lake import LakeTable, Row
from tests.torture.oracle.truth import Truth

Key = tuple[Any, ...]


@dataclass
class Verdict:
    """What does not fit: one text for each kind of difference, with an example."""

    differences: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return not self.differences


def judge(table: Table, truth: Truth, lake: LakeTable, seen: set[Key], *, reconciled: bool) -> Verdict:
    """Compares a table.

    Args:
        table: As it is now.
        truth: Rows of the source.
        lake: Rows of the lake.
        seen: Keys that the source has had, as far as somebody looked.
        reconciled: Whether deletes must have arrived: after a reconcile, and with change events.
    """
    return Verdict(list(_differences(table, truth, lake, seen, reconciled=reconciled)))


def false_keys(table: Table, lake: LakeTable) -> Iterator[str]:
    """Yields what no table may hold, however far behind it is: a key twice, or one that is NULL in part."""
    living, _ = _split(table, lake.rows)
    counts = Counter(key_of(row, table) for row in living)
    if doubled := [key for key, count in counts.items() if count > 1]:
        yield f"doubled: {len(doubled)} keys, e.g. {doubled[0]!r} {counts[doubled[0]]} times"
    if empty := [key for key in counts if None in key]:
        yield f"NULL key: {len(empty)} rows, e.g. {empty[0]!r}"


def living_rows(table: Table, lake: LakeTable) -> list[Row]:
    """Returns the rows that are current: neither older versions nor kept deletes."""
    return _split(table, lake.rows)[0]


def key_of(row: Row, table: Table) -> Key:
    return tuple(row.get(name) for name in table.keys)


def _differences(table: Table, truth: Truth, lake: LakeTable, seen: set[Key], *, reconciled: bool) -> Iterator[str]:
    yield from (f"log: {text}" for text in dict.fromkeys(lake.faults))
    yield from _type_differences(truth, lake)
    living, gone = _split(table, lake.rows)
    names = [name for name in truth.types if name in lake.types]
    source = {key_of(row, table): row for row in truth.rows}
    if len(source) != len(truth.rows):
        yield f"the source has {len(truth.rows)} rows of {len(source)} keys"
    counts = Counter(key_of(row, table) for row in living)
    if doubled := [key for key, count in counts.items() if count > 1]:
        yield f"doubled: {len(doubled)} keys, e.g. {doubled[0]!r} {counts[doubled[0]]} times"
    found = {key_of(row, table): row for row in living}
    if missing := [key for key in source if key not in found]:
        yield f"missing: {len(missing)} of {len(source)} rows, e.g. {missing[0]!r}"
    yield from value_differences(source, found, names)
    extra = [key for key in found if key not in source]
    policy = table.setting("deletes", "hard")
    if extra and reconciled and policy != "ignore":
        yield f"still there: {len(extra)} keys that the source has not, e.g. {extra[0]!r}"
    if strange := [key for key in (*extra, *gone) if key not in seen and key not in source]:
        yield f"never there: {len(strange)} keys that the source never had, e.g. {strange[0]!r}"


def _type_differences(truth: Truth, lake: LakeTable) -> Iterator[str]:
    for name, wanted in truth.types.items():
        if name not in lake.types:
            if any(
                row.get(name) is not None for row in truth.rows
            ):  # of a column that is NULL everywhere nothing is lost: it comes with rows
                yield f"column: {name!r} is not in the lake"
        elif lake.types[name] not in wanted:
            yield f"type: {name!r} is {lake.types[name]}, not {' or '.join(wanted)}"


def _split(table: Table, rows: Iterable[Row]) -> tuple[list[Row], list[Key]]:
    """Returns the rows that are current, and the keys of the others."""
    if table.setting("stored_as_scd_type", 1) == 2:
        closed = [key_of(row, table) for row in rows if row.get("__END_AT") is not None]
        return [row for row in rows if row.get("__END_AT") is None and not row.get("_deleted")], closed
    if table.setting("deletes", "hard") == "soft":
        return [row for row in rows if not row.get("_deleted")], [key_of(row, table) for row in rows if row.get("_deleted")]
    return list(rows), []


def value_differences(source: Mapping[Key, Row], found: Mapping[Key, Row], names: list[str]) -> Iterator[str]:
    """Yields the columns in which rows of the same key differ."""
    for name in names:
        wrong = [(key, row[name], found[key][name]) for key, row in source.items() if key in found and row[name] != found[key][name]]
        if wrong:
            key, right, stored = wrong[0]
            yield f"value: {name!r} differs in {len(wrong)} rows, e.g. {key!r}: source {_short(right)}, lake {_short(stored)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}... ({len(text)} characters)"
