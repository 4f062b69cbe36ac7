"""The fold of change events comes to what the plain model comes to, event by event."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.events.format_spec import EventOperation, OrderField
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.events.fold.feed import fold_feed
from cdc_ops.events.fold.places import place_order, places_of
from cdc_ops.events.fold.rules import Folded
from cdc_ops.events.fold.taken import _taken_in_parts, taken
from tests.events.fold_case import Case, Event, Model, comparable, landed
from tests.histories import COLUMNS, history_of

READ, CREATE, UPDATE, DELETE, TRUNCATE = EventOperation
ONE = Case()
KEYS: dict[str, tuple[tuple[tuple[str, str], ...], tuple[tuple[Any, ...], ...]]] = {
    "bigint": ((("id", "bigint"),), ((1,), (2,), (-3,), (2**62,))),
    "text": ((("id", "string"),), (("",), ("a",), ("ab",), ("é" * 9,))),
    "text and int": ((("t", "string"), ("n", "int")), (("a", 1), ("a", 2), ("b", 1), ("", 12))),
    "texts": ((("t", "string"), ("u", "string")), (("a", "bc"), ("ab", "c"), ("abc", ""), ("", "abc"))),
    "bytes": ((("id", "binary"),), ((b"",), (b"\x00",), (b"\x00\x00",), (b"a" * 600,))),
    "decimal": ((("id", "decimal(30,2)"),), tuple((Decimal(text),) for text in ("0.00", "-1.00", "1.00", "18446744073709551616.00"))),
    "double": ((("id", "double"),), ((0.0,), (-0.0,), (float("nan"),), (1.5,))),
    "instant and flag": (
        (("at", "timestamp"), ("flag", "boolean")),
        tuple((datetime(2024, 2, 29, 1, 2, 3, micro, UTC), flag) for micro in (0, 1) for flag in (True, False)),
    ),
    "day and small": (
        (("day", "date"), ("n", "tinyint")),
        ((date(1, 1, 1), 0), (date(1970, 1, 1), 0), (date(1970, 1, 1), -1), (date(9999, 12, 31), 1)),
    ),
}  # fmt: skip
ORDERS = (
    (("tx", "bigint"), ("n", "int")),
    (("lsn", "decimal(25,0)"), ("n", "bigint")),
    (("streamed", "tinyint"), ("pos", "decimal(36,0)")),
)
VALUES: dict[str, tuple[Any, ...]] = {"a": (None, 1, 2), "b": (None, "", "x"), "c": (None, 0.0, -0.0, float("nan"))}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, tuple[tuple[Any, ...], ...]]:
    keys, values = KEYS[draw(st.sampled_from(sorted(KEYS)))]
    return Case(keys, draw(st.sampled_from(ORDERS))), values


@st.composite
def events_of(draw: st.DrawFn, case: Case, keys: tuple[tuple[Any, ...], ...], crowded: bool) -> Event:
    """Any event of a key, of a source that breaks all rules: rows are updated that are not there, and places are used twice."""
    op = draw(st.sampled_from((READ, CREATE, UPDATE, UPDATE, UPDATE, DELETE, TRUNCATE)))
    few = (0, 1) if crowded else range(60)
    numbers = {"tinyint": (0, 1), "int": few, "bigint": (-1, 0, 2**40, 2**62) if crowded else few}
    position = tuple(draw(st.sampled_from(numbers.get(kind, (-1, 0, 10**18 - 1, 10**18, 10**23, *few)))) for _, kind in case.order)
    if op is TRUNCATE:
        return Event(op=op, position=position)
    key = draw(st.sampled_from(keys))
    if op is DELETE:
        return Event(op=op, position=position, key=key)
    has = draw(st.sets(st.sampled_from(sorted(VALUES)))) if draw(st.booleans()) else set(VALUES)
    values = {name: draw(st.sampled_from(VALUES[name])) for name in VALUES if name in has}
    if draw(st.integers(0, 3)):
        values |= dict(zip(case.names, key, strict=True))
    nulled = tuple(name for name, value in values.items() if value is None and not draw(st.integers(0, 3)))
    previous = draw(st.sampled_from(keys)) if op is UPDATE and not draw(st.integers(0, 3)) else None
    return Event(op=op, position=position, key=key, previous=previous, values=values, nulled=nulled)


def agrees(case: Case, folded: Folded, model: Model) -> None:
    ties = model.ties()
    assert folded.tied_count == len(ties)
    assert len(folded.tied) == min(5, len(ties))
    tied = {(key, case.place(position)) for key, position in ties} if model.rules.versions else {key for key, _ in ties}

    def untied(rows: dict[tuple[Any, ...], Any]) -> dict[tuple[Any, ...], Any]:
        return {at: row for at, row in rows.items() if (at if model.rules.versions else at[0]) not in tied}

    found = landed(folded.rows, case)
    assert untied(found) == untied(model.rows())
    assert {at[0] for at in found} == {at[0] for at in model.rows()}
    assert folded.partial == sum(row[PRESENT] is not None for row in found.values())
    assert folded.deletes == sum(row[DELETE_MARK] for row in found.values())


@settings(max_examples=100, derandomize=True)
@given(data=st.data(), case_and_keys=cases(), deletes=st.booleans(), versions=st.booleans(), ignored=st.sets(st.sampled_from("ab")))
def test_any_events_come_to_what_the_plain_model_says(
    data: st.DataObject, case_and_keys: tuple[Case, Any], deletes: bool, versions: bool, ignored: set[str]
) -> None:
    (case, keys), crowded = case_and_keys, data.draw(st.integers(0, 3)) == 0
    events = data.draw(st.lists(events_of(case, keys, crowded), max_size=14))
    events = data.draw(st.permutations([*events, *data.draw(st.lists(st.sampled_from(events), max_size=4) if events else st.just([]))]))
    rules = case.rules(deletes=deletes, versions=versions, nulls_ignored=tuple(sorted(ignored)))
    model = Model(case, events, rules)
    cuts = [case.place(event.position) for event in events if event.op is TRUNCATE]
    feed = case.feed(events, data.draw(st.integers(1, 3)), named=data.draw(st.booleans()))
    agrees(case, fold_feed(feed, replace(rules, barrier=max(cuts, default=None))), model)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("keys", sorted(KEYS))
def test_histories_that_a_source_can_have_come_to_what_the_plain_model_says(keys: str, ascending: bool) -> None:
    columns, values = KEYS[keys]
    case, random = Case(columns), Random(20240229)
    several = [*values[1:], values[0]] if keys == "double" else list(values)  # both zeros are one key
    for _ in range(20):
        of_number = dict(enumerate(several, 1))
        history = [
            Event(
                op=one.op,
                position=one.position,
                key=of_number[one.key[0]] if one.key else None,
                previous=of_number[one.previous_key[0]] if one.previous_key else None,
                values=None if one.values is None else _values(case, of_number[one.key[0]], one.values),
            )
            for one in history_of(random)
            if max(one.key + (one.previous_key or ()), default=1) <= (3 if keys == "double" else 4)
        ]
        twice = [*history, *random.choices(history, k=len(history) // 4)] if history else []
        random.shuffle(twice)
        if ascending:
            twice.sort(key=lambda one: one.position)
        cuts = [case.place(one.position) for one in history if one.op is TRUNCATE]
        rules = case.rules(barrier=max(cuts, default=None))
        agrees(case, fold_feed(case.feed(twice, 2), rules), Model(case, twice, rules))


def _values(case: Case, key: tuple[Any, ...], given: Any) -> dict[str, Any]:
    said = {name: given[name] for name in COLUMNS[1:] if name in given}
    if "b" in said:
        said["b"] = None if said["b"] is None else f"b{said['b']}"
    whole = len(given) == len(COLUMNS)
    return dict(zip(case.names, key, strict=True)) | said | ({"c": 1.5} if whole else {})


def row(key: int, a: int | None = 1, b: str | None = "x", c: float | None = 0.5) -> dict[str, Any]:
    return {"id": key, "a": a, "b": b, "c": c}


def event(op: EventOperation, place: int, key: int, values: dict[str, Any] | None = None, **more: Any) -> Event:
    return Event(op=op, position=(place // 10, place % 10), key=(key,), values=values, **more)


def rows_of(events: list[Event], **rules: Any) -> list[dict[str, Any]]:
    """The landed rows of events without ties, sorted by key and place."""
    folded = fold_feed(ONE.feed(events), ONE.rules(**rules))
    assert not folded.tied_count
    return sorted(folded.rows.to_pylist(), key=lambda found: (found["id"], found[SEQUENCE]))


@pytest.mark.parametrize("ascending", [True, False])
def test_the_last_row_of_each_key_is_that_with_the_largest_place(ascending: bool) -> None:
    random = Random(7)
    places = random.sample(range(100_000), 2_000)
    events = []
    for place in sorted(places) if ascending else places:
        key, gone = random.randrange(300), random.random() < 0.25
        events.append(event(DELETE, place, key) if gone else event(UPDATE, place, key, row(key, place)))
    last = {one.key: one for one in sorted(events, key=lambda one: one.position)}
    found = rows_of(events)
    assert len(found) == len(last) == 300
    for one in found:
        said = last[one["id"],]
        gone = said.op is DELETE
        values = dict.fromkeys("abc") if gone else said.values or {}
        assert one == {**values, "id": one["id"], DELETE_MARK: gone, PRESENT: None, SEQUENCE: list(said.position)}


def test_landed_rows_have_the_columns_of_the_table_and_three_more() -> None:
    expected = pa.schema([
        ("id", pa.int64()), ("a", pa.int32()), ("b", pa.string()), ("c", pa.float64()),
        (DELETE_MARK, pa.bool_()), (PRESENT, pa.list_(pa.string())), (SEQUENCE, pa.list_(pa.int64())),
    ])  # fmt: skip
    partly = event(UPDATE, 1, 1, {"id": 1, "a": 1})
    for events in ([], [event(CREATE, 1, 1, row(1))], [partly], [partly, event(DELETE, 1, 2)]):
        for versions in (False, True):
            folded = fold_feed(ONE.feed(events), ONE.rules(versions=versions))
            assert folded.rows.schema.equals(expected)
            assert folded.rows.num_rows == len(events)
            folded.rows.validate(full=True)


def test_an_update_that_changes_the_key_deletes_the_old_row_and_inserts_the_new_one() -> None:
    moved = event(UPDATE, 20, 2, row(2, 7), previous=(1,))
    assert [(one["id"], one["a"], one[DELETE_MARK], one[SEQUENCE]) for one in rows_of([moved, event(CREATE, 10, 1, row(1))])] == [
        (1, None, True, [2, 0]),
        (2, 7, False, [2, 0]),
    ]
    [old, _] = rows_of([event(UPDATE, 30, 1, {"id": 1, "b": "z"}), moved, event(CREATE, 10, 1, row(1))])
    assert (old["a"], old["b"], old["c"], old[PRESENT]) == (None, "z", None, None)
    assert [(one["id"], one[DELETE_MARK]) for one in rows_of([moved], deletes=False)] == [(2, False)]
    assert [(one["id"], one[DELETE_MARK]) for one in rows_of([moved], versions=True)] == [(1, True), (2, False)]


def test_an_update_whose_key_was_the_same_before_does_not_change_it() -> None:
    [one] = rows_of([event(UPDATE, 20, 2, {"id": 2, "a": 7}, previous=(2,))])
    assert (one["id"], one[DELETE_MARK], one[PRESENT]) == (2, False, ["id", "a"])


def test_changes_at_or_below_the_barrier_are_dropped() -> None:
    events = [event(CREATE, place, place, row(place)) for place in (9, 10, 11, 20)]
    events.append(Event(op=TRUNCATE, position=(1, 0)))
    assert [one["id"] for one in rows_of(events, barrier=(1, 0))] == [11, 20]
    assert [one["id"] for one in rows_of(events, barrier=(1, 0), deletes=False)] == [9, 10, 11, 20]
    assert [one["id"] for one in rows_of(events, barrier=(1, 0), versions=True)] == [9, 10, 11, 20]
    with pytest.raises(ValueError, match="argument 2 is"):
        rows_of(events, barrier=(1,))


def test_what_is_no_change_is_left_out() -> None:
    good = event(CREATE, 10, 1, row(1))
    others = [event(UPDATE, 20, 1, row(1, 2), kind=kind) for kind in ("bad", "control", "ddl", "unknown")]
    assert rows_of([*others, good]) == rows_of([good])
    feed = ONE.feed([*others, good])
    nothing = pa.nulls(len(feed), feed.schema.field("position").type)
    without = feed.set_column(feed.column_names.index("position"), "position", nothing).slice(0, 4)
    assert fold_feed(pa.concat_tables([without, ONE.feed([good])]), ONE.rules()).rows.num_rows == 1
    with pytest.raises(ValueError, match="no tx in its position"):
        fold_feed(
            pa.concat_tables([without, ONE.feed([good]).drop("position").append_column("position", nothing.slice(0, 1))]), ONE.rules()
        )


def test_a_change_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="no complete key"):
        rows_of([Event(op=UPDATE, position=(1, 0), values=row(1))])


@pytest.mark.parametrize("versions", [False, True])
@pytest.mark.parametrize("before", [[], [event(UPDATE, 99, 1, row(1))]], ids=["in order", "not in order"])
@pytest.mark.parametrize("second", [row(2), row(2, b="y"), {"id": 2, "a": 1, "b": "x"}, None])
def test_two_events_at_one_place_are_tied_if_they_differ(second: dict[str, Any] | None, before: list[Event], versions: bool) -> None:
    other = event(UPDATE if second else DELETE, 51, 2, second)
    events = [*before, event(UPDATE, 51, 2, row(2)), other, event(UPDATE, 61, 3, row(3)), event(UPDATE, 51, 3, row(3))]
    folded = fold_feed(ONE.feed(events), ONE.rules(versions=versions))
    expected = [] if second == row(2) else [('{"id":2}', '{"tx":5,"n":1}')]
    assert (folded.tied_count, list(folded.tied)) == (len(expected), expected)


def test_different_operations_at_one_place_are_tied_even_if_their_rows_are_equal() -> None:
    events = [event(op, 10, 1, row(1)) for op in (CREATE, UPDATE)]
    assert fold_feed(ONE.feed(events), ONE.rules()).tied_count == 1


def test_ties_below_a_later_whole_row_are_told_and_of_many_the_first_ones() -> None:
    def tied(key: int) -> list[Event]:
        return [
            event(UPDATE, key, key, {"id": key, "a": 1}),
            event(UPDATE, key, key, {"id": key, "a": 2}),
            event(CREATE, 99, key, row(key)),
        ]

    one = fold_feed(ONE.feed([*tied(2), *tied(2)]), ONE.rules())
    assert (one.tied_count, one.tied) == (1, (('{"id":2}', '{"tx":0,"n":2}'),))
    assert fold_feed(ONE.feed(tied(2)), ONE.rules(barrier=(0, 2))).tied_count == 0
    many = fold_feed(ONE.feed([one for key in range(7, 0, -1) for one in tied(key)]), ONE.rules())
    assert many.tied_count == 7
    assert [key for key, _ in many.tied] == [f'{{"id":{key}}}' for key in range(1, 6)]


def test_a_tie_shows_keys_and_positions_with_all_their_digits() -> None:
    keys = (("t", "string"), ("n", "decimal(20,2)"), ("x", "binary"), ("day", "date"), ("flag", "boolean"))
    case = Case(keys, (("lsn", "decimal(25,0)"),))
    key = ('é"', Decimal("-12345678901234567.50"), b"\xff", date(2024, 2, 29), True)
    events = [Event(op=UPDATE, position=(10**24,), key=key, values={"a": number}) for number in (1, 2)]
    [tie] = fold_feed(case.feed(events), case.rules()).tied
    assert tie == ('{"t":"é\\"","n":-12345678901234567.50,"x":"/w==","day":"2024-02-29","flag":true}', '{"lsn":1000000000000000000000000}')


def test_each_column_has_its_last_value_of_the_events_that_have_it() -> None:
    events = [
        event(UPDATE, 10, 1, {"id": 1, "a": 1, "b": "x"}),
        event(UPDATE, 20, 1, {"id": 1, "a": None}),
        event(CREATE, 10, 2, row(2)),
        event(UPDATE, 20, 2, {"id": 2, "b": "y"}),
        event(CREATE, 10, 3, row(3)),
        event(CREATE, 20, 3, {"id": 3, "b": "z"}),
        event(DELETE, 10, 4),
        event(UPDATE, 20, 4, {"a": 4}),
        event(UPDATE, 10, 5, {"id": 5, "a": 5}),
        event(UPDATE, 20, 5, {"id": 5, "b": "v", "c": 2.5}),
        event(UPDATE, 10, 6, {"id": 6, "a": 5}),
        event(DELETE, 20, 6),
    ]
    for order in (events, events[::-1]):
        found = rows_of(order)
        assert [tuple(one[name] for name in ("id", "a", "b", "c", DELETE_MARK, PRESENT)) for one in found] == [
            (1, None, "x", None, False, ["id", "a", "b"]),
            (2, 1, "y", 0.5, False, None),
            (3, None, "z", None, False, None),
            (4, 4, None, None, False, None),
            (5, 5, "v", 2.5, False, None),
            (6, None, None, None, True, None),
        ]
        folded = fold_feed(ONE.feed(order), ONE.rules())
        assert (folded.partial, folded.deletes) == (1, 1)


def test_nulls_that_are_ignored_are_as_if_they_had_not_been_sent() -> None:
    events = [
        event(UPDATE, 10, 1, row(1, None, None, None)),
        event(UPDATE, 10, 2, row(2, None, None), nulled=("b",)),
        event(UPDATE, 10, 3, row(3, None), previous=(9,)),
        event(CREATE, 10, 4, row(4, None)),
        event(UPDATE, 10, 5, {"id": 5, "a": None, "b": "x"}),
        event(UPDATE, 10, 6, row(6, None)),
        event(UPDATE, 20, 6, row(6, 6)),
        event(CREATE, 10, 7, row(7, 7)),
        event(UPDATE, 20, 7, row(7, None, "y")),
    ]
    found = {one["id"]: one for one in rows_of(events, nulls_ignored=("a", "b"))}
    assert {key: one[PRESENT] for key, one in found.items()} == {
        1: ["id", "c", ""],
        2: ["id", "b", "c", ""],
        3: None,
        4: None,
        5: ["id", "b"],
        6: ["id", "a", "b", "c", ""],  # all of it is known, and an update said that what it left out is NULL in a new row
        7: None,
        9: None,
    }
    assert (found[7]["a"], found[7]["b"], found[6]["a"], found[3]["a"]) == (7, "y", 6, None)
    every = rows_of(events, nulls_ignored=("a", "b"), versions=True)
    assert [(one["id"], one[PRESENT]) for one in every if one["id"] > 4] == [
        (5, ["id", "b"]), (6, ["id", "b", "c", ""]), (6, None), (7, None), (7, ["id", "b", "c", ""]), (9, None),
    ]  # fmt: skip


def test_an_event_without_a_column_differs_from_one_whose_null_in_it_is_ignored() -> None:
    events = [event(UPDATE, 10, 1, row(1, None)), event(UPDATE, 10, 1, {"id": 1, "b": "x", "c": 0.5})]
    for ignored in ((), ("a",)):
        assert fold_feed(ONE.feed(events), ONE.rules(nulls_ignored=ignored)).tied_count == 1


def test_an_insert_is_the_same_event_whether_its_key_was_another_before() -> None:
    values = row(2, None)
    events = [event(UPDATE, 10, 2, values, previous=(1,)), event(CREATE, 10, 2, values)]
    assert fold_feed(ONE.feed(events), ONE.rules(nulls_ignored=("a",))).tied_count == 0


def test_deletes_that_are_ignored_leave_the_row_as_it_was() -> None:
    events = [
        event(UPDATE, 10, 1, {"id": 1, "a": 1}),
        event(DELETE, 20, 1),
        event(UPDATE, 30, 1, {"id": 1, "b": "y"}),
        event(DELETE, 40, 2),
    ]
    [one] = rows_of(events, deletes=False)
    assert (one["a"], one["b"], one[PRESENT], one[SEQUENCE]) == (1, "y", ["id", "a", "b"], [3, 0])


def test_a_table_that_keeps_versions_gets_every_change_once() -> None:
    events = [event(CREATE, 10, 1, row(1)), event(UPDATE, 20, 1, {"id": 1, "a": 2}), event(DELETE, 30, 1), event(UPDATE, 40, 1, row(1, 4))]
    found = rows_of([*events, *events[::-1], *events], versions=True)
    assert [(one["a"], one["b"], one[DELETE_MARK], one[PRESENT], one[SEQUENCE]) for one in found] == [
        (1, "x", False, None, [1, 0]),
        (2, None, False, ["id", "a"], [2, 0]),
        (None, None, True, None, [3, 0]),
        (4, "x", False, None, [4, 0]),
    ]


def test_numbers_of_positions_that_no_bigint_holds_become_two() -> None:
    numbers = [0, 7, 10**18 - 1, 10**18, -1, -7, -(10**18), 2**64, 12345678901234567890123456789012345, 10**36 - 1]
    positions = pa.array([{"pos": Decimal(number), "n": index} for index, number in enumerate(numbers)],
                         pa.struct([("pos", pa.decimal128(36, 0)), ("n", pa.int16())]))  # fmt: skip
    order = (OrderField(name="pos", type="decimal(36,0)", meaning=""), OrderField(name="n", type="smallint", meaning=""))
    high, low, n = places_of(positions.slice(1), order)
    expected = [(-1 if number < 0 else number // 10**18, number % 10**18, index) for index, number in enumerate(numbers)][1:]
    assert list(zip(high.tolist(), low.tolist(), n.tolist(), strict=True)) == expected
    in_order = place_order(places_of(positions, order)).numbers
    assert in_order is not None
    assert [numbers[index] for index in in_order] == sorted(numbers)
    [head, tail] = places_of(pa.array([{"pos": Decimal(-(2**64))}], pa.struct([("pos", pa.decimal128(36, 0))])), order[:1])
    assert (head.tolist(), tail.tolist()) == ([-1], [-(2**64) % 10**18])
    too_large = pa.array([{"pos": Decimal(10**38 - 1)}], pa.struct([("pos", pa.decimal128(38, 0))]))
    with pytest.raises(ValueError, match="more than 36 digits"):
        places_of(too_large, order[:1])


@settings(max_examples=100, derandomize=True)
@given(places=st.lists(st.tuples(*[st.sampled_from((-(2**63), -1, 0, 1, 2**40, 2**63 - 1))] * 2), min_size=1, max_size=9))
def test_places_are_ordered_by_their_most_significant_number_and_equal_ones_as_they_came(places: list[tuple[int, int]]) -> None:
    columns = [pa.array(numbers, pa.int64()).to_numpy() for numbers in zip(*places, strict=True)]
    order = place_order(columns)
    expected = sorted(range(len(places)), key=lambda index: places[index])
    assert order.events(pa.array(range(len(places))).to_numpy()).tolist() == expected
    assert order.is_next.tolist() == [places[one] == places[other] for one, other in pairwise(expected)]


@settings(max_examples=100, derandomize=True)
@given(data=st.data(), sizes=st.lists(st.integers(0, 3), max_size=4))
def test_rows_are_taken_across_chunks(data: st.DataObject, sizes: list[int]) -> None:
    values = [f"v{number}" for number in range(sum(sizes))]
    pieces = [pa.array(values[sum(sizes[:index]) : sum(sizes[: index + 1])], pa.string()) for index in range(len(sizes))]
    rows = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=5)) if values else [], np.int64)
    missing = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), np.bool_)
    column = pa.chunked_array(pieces, pa.string())
    for ordered in (rows, np.sort(rows)):
        assert taken(column, ordered).to_pylist() == [values[row] for row in ordered]
        expected = [None if none else values[row] for row, none in zip(ordered, missing, strict=True)]
        assert taken(column, ordered, missing).to_pylist() == expected
        assert _taken_in_parts(column, ordered, missing).to_pylist() == expected


def test_both_zeros_are_one_key_and_so_are_all_nans() -> None:
    case = Case((("id", "double"),))
    keys = (0.0, -0.0, float("nan"), float("-nan"))
    events = [Event(op=UPDATE, position=(place, 0), key=(key,), values={"id": key, "a": place}) for place, key in enumerate(keys)]
    folded = fold_feed(case.feed(events), case.rules())
    assert sorted((comparable(one["id"]), one["a"]) for one in folded.rows.to_pylist() if one["a"] == 1) == [(0.0, 1)]
    assert sorted(one["a"] for one in folded.rows.to_pylist()) == [1, 3]
