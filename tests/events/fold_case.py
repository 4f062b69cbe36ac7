"""Feeds for the tests of the fold, and what the plain model says that they come to."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.events.format_spec import WHOLE_ROW, EventOperation, OrderField
from cdc_ops.core.operation.log_batch import PRESENT, REST_IS_NULL
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.decode.program import Field
from cdc_ops.events.fold.rules import FoldRules
from cdc_ops.testing.folding import Change, fold

NAMES = pa.list_(pa.string())
Key = tuple[Any, ...]
Row = dict[str, Any]
VALUES = (("a", "int"), ("b", "string"), ("c", "double"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of a feed.

    Args:
        op: The operation.
        position: The numbers of its position.
        key: The key after it.
        previous: The key before it, if it changed.
        values: The columns that it has.
        nulled: Columns of them for whose value NULL stands.
        kind: What the record is.
    """

    op: EventOperation
    position: tuple[int, ...]
    key: Key | None = None
    previous: Key | None = None
    values: Row | None = None
    nulled: tuple[str, ...] = ()
    kind: str = "change"


@dataclass(frozen=True, slots=True)
class Case:
    """A table: the columns of its key, and the parts of its positions, as names and types of Spark's DDL."""

    keys: tuple[tuple[str, str], ...] = (("id", "bigint"),)
    order: tuple[tuple[str, str], ...] = (("tx", "bigint"), ("n", "int"))

    @property
    def schema(self) -> TableSchema:
        """The table: the columns of the key, and those of `VALUES`."""
        columns = [
            Column(name=name, source_type=kind, delta_type=kind, nullable=True, expression=name) for name, kind in (*self.keys, *VALUES)
        ]
        return TableSchema(table=TableName(schema="shop", name="orders"), columns=tuple(columns), primary_key=self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the key."""
        return tuple(name for name, _ in self.keys)

    def rules(self, **changes: Any) -> FoldRules:
        """Returns the rules of the table, some of them changed."""
        order = tuple(OrderField(name=name, type=kind, meaning="") for name, kind in self.order)
        return replace(FoldRules(schema=self.schema, keys=self.names, order=order), **changes)

    def place(self, position: Sequence[int]) -> tuple[int, ...]:
        """Returns a position as SEQUENCE has it."""
        numbers: list[int] = []
        for number, (_, kind) in zip(position, self.order, strict=True):
            halves = (-1 if number < 0 else number // 10**18, number % 10**18)
            numbers += halves if kind.startswith("decimal") else (number,)
        return tuple(numbers)

    def feed(self, events: Sequence[Event], chunks: int = 1, *, named: bool = True) -> pa.Table:
        """Returns a feed; `named` False for NULL in `present` of events that have all columns."""
        image, key = _struct((*self.keys, *VALUES)), _struct(self.keys)
        every = self.schema.names

        def present(event: Event) -> list[str] | None:
            said = [name for name in every if name in (event.values or {})]
            return None if len(said) == len(every) and not named else said

        def keyed(value: Key | None) -> Row | None:
            return None if value is None else dict(zip(self.names, value, strict=True))

        def image_of(values: Row | None) -> Row | None:
            return None if values is None else {name: values.get(name) for name in every}

        table = pa.table(
            {
                "kind": pa.array([event.kind for event in events], pa.string()),
                "op": pa.array([str(event.op) for event in events], pa.string()),
                "key": pa.array([keyed(event.key) for event in events], key),
                "previous_key": pa.array([keyed(event.previous) for event in events], key),
                "after": pa.array([image_of(event.values) for event in events], image),
                "present": pa.array([present(event) for event in events], NAMES),
                "nulled": pa.array([list(event.nulled) for event in events], NAMES),
                "position": pa.array([dict(zip(dict(self.order), event.position, strict=True)) for event in events], _struct(self.order)),
            }
        )
        size = -(-len(events) // chunks) or 1
        return pa.concat_tables([table.slice(start, size) for start in range(0, len(events) + 1, size)])


def _struct(columns: Iterable[tuple[str, str]]) -> pa.StructType:
    return pa.struct([(name, Field.of(name, kind).arrow) for name, kind in columns])


def comparable(value: Any) -> Any:
    """Returns a value of which equal ones are equal: NaN, and both zeros."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(comparable(one) for one in value)
    return value


def landed(rows: pa.Table, case: Case) -> dict[tuple[Any, ...], Row]:
    """Returns landed rows by key and place."""
    found = {}
    for row in rows.to_pylist():
        at = comparable((tuple(row[name] for name in case.names), tuple(row[SEQUENCE])))
        assert at not in found
        found[at] = {name: comparable(value) for name, value in row.items()}
    return found


class Model:
    """What events come to, event by event, by `cdc_ops.testing.folding`.

    Args:
        case: The table.
        events: In any order, and duplicated.
        rules: What the table wants; its barrier is not looked at.
    """

    def __init__(self, case: Case, events: Iterable[Event], rules: FoldRules) -> None:
        self.case, self.rules = case, rules
        self.every = case.schema.names
        wanted = (EventOperation.DELETE, EventOperation.TRUNCATE)
        told = [self._told(event) for event in events if event.kind == "change" and (rules.deletes or event.op not in wanted)]
        cuts = [change.position for change, _ in told if change.op is EventOperation.TRUNCATE and not rules.versions]
        self.cut = max(cuts, default=None)
        self.told = [one for one in told if self.cut is None or one[0].position > self.cut]

    def _told(self, event: Event) -> tuple[Change, bool]:
        """Returns a change without the NULLs that are ignored, and whether it had all columns before."""
        values, moved = event.values, event.previous is not None and comparable(event.previous) != comparable(event.key)
        silent: list[str] = []
        if event.op is EventOperation.UPDATE and not moved:
            given = values or {}
            silent = [name for name in self.rules.nulls_ignored if name in given and given[name] is None and name not in event.nulled]
        said = None if values is None else {name: value for name, value in values.items() if name not in silent}
        op = EventOperation.CREATE if moved and not self.rules.deletes else event.op
        change = Change(
            op=op,
            position=event.position,
            key=comparable(event.key or ()),
            previous_key=comparable(event.previous) if moved and self.rules.deletes else None,
            values=None if op is EventOperation.DELETE or said is None else {name: comparable(value) for name, value in said.items()},
        )
        return change, bool(silent) and len(values or ()) == len(self.every)

    def _parts(self) -> Iterable[tuple[Key, tuple[int, ...], EventOperation, dict[str, Any], bool]]:
        for change, rest in self.told:
            if change.op is EventOperation.TRUNCATE:
                continue
            if change.previous_key is not None:
                yield change.previous_key, change.position, EventOperation.DELETE, {}, False
            op = EventOperation.CREATE if change.previous_key is not None else change.op
            yield change.key, change.position, op, dict(change.values or {}), rest

    def ties(self) -> set[tuple[Key, tuple[int, ...]]]:
        """Returns the keys and positions at which different things are said."""
        said: dict[Any, set[str]] = {}
        for key, position, op, values, rest in self._parts():
            said.setdefault((key, position), set()).add(repr((op, sorted(values.items()), rest)))
        return {at for at, contents in said.items() if len(contents) > 1}

    def rows(self) -> dict[tuple[Any, ...], Row]:
        """Returns the rows that are landed, by key and place."""
        if self.rules.versions:
            rows = [
                self._row(key, position, op is EventOperation.DELETE, op in WHOLE_ROW, values, rest)
                for key, position, op, values, rest in self._parts()
            ]
        else:
            rests = {key for key, *_, rest in self._parts() if rest}
            rows = [
                self._row(key, one.position, one.deleted, one.whole, dict(one.values), key in rests and not one.whole)
                for key, one in fold(change for change, _ in self.told).outcomes.items()
            ]
        return {(tuple(row[name] for name in self.case.names), row[SEQUENCE]): row for row in rows}

    def _row(self, key: Key, position: tuple[int, ...], deleted: bool, whole: bool, values: Row, rest: bool) -> Row:
        present = (*(name for name in self.every if name in values), *([REST_IS_NULL] if rest else []))
        known = deleted or whole or present == self.every
        row = {name: values.get(name) for name in self.every} | dict(zip(self.case.names, key, strict=True))
        return row | {DELETE_MARK: deleted, PRESENT: None if known else present, SEQUENCE: self.case.place(position)}
