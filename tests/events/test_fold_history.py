"""The rows of an event history come to what the plain model comes to."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.events.fold.history import RANK, fold_history, fold_partition, last_truncate
from cdc_ops.events.fold.rules import OLD_SIDE, WHOLE, FoldRules
from tests.lake_case import schema

RULES = FoldRules(schema=schema(("id", "bigint"), ("a", "int")), keys=("id",), order=(), states=True)
KEY, ROW = pa.struct({"id": pa.int64()}), pa.struct({"id": pa.int64(), "a": pa.int32()})
ROWS = pa.schema({
    "kind": pa.string(), "op": pa.string(), "op_seq": pa.int64(), "position": pa.list_(pa.int64()), "table_version": pa.int64(),
    "content": pa.int64(), "key": KEY, "previous_key": KEY, "after": ROW, "present": pa.list_(pa.string()),
})  # fmt: skip
"""What the fold takes of `lake.history.rows`."""


def row(
    op: str, place: list[int] | None, key: int | None = 1, a: int | None = None, *, kind: str = "change", **others: Any
) -> dict[str, Any]:
    image: dict[str, Any] = {"after": {"id": key, "a": a}} if op != "d" else {"present": []}
    return {"kind": kind, "op": op, "op_seq": 1, "position": place, "content": 0, "key": {"id": key}, **image, **others}


def state(op: str, place: list[int] | None, version: int, a: int | None = None, key: int = 1) -> dict[str, Any]:
    return row(op, place, key, a, kind="state", table_version=version)


def folded(rows: list[dict[str, Any]], rules: FoldRules = RULES) -> list[dict[str, Any]]:
    """Returns what rows come to, in any order."""
    Random(7).shuffle(rows)
    found: list[dict[str, Any]] = fold_history(pa.Table.from_pylist(rows, ROWS), rules).to_pylist()
    return sorted(found, key=lambda one: (one["id"] is None, one["id"] or 0, one[SEQUENCE] or []))


def values(rows: list[dict[str, Any]], rules: FoldRules = RULES) -> list[Any]:
    return [one["a"] for one in folded(rows, rules)]


def test_a_state_comes_behind_the_event_whose_place_it_has_and_the_later_one_behind_the_earlier() -> None:
    event = row("u", [5, 1], a=1)
    assert values([event, state("r", [5, 1], 3, 2)]) == [2]
    assert values([event, state("r", [5, 1], -1, 2), state("r", [5, 1], 4, 3)]) == [3]
    assert values([row("u", [5, 2], a=4), state("r", [5, 1], 9, 2)]) == [4]
    told = folded([event, state("d", [5, 1], 3)])[0]
    assert (told[DELETE_MARK], told[SEQUENCE], told[RANK]) == (True, [5, 1], 5)


def test_a_state_without_a_place_is_older_than_all_events() -> None:
    assert folded([state("r", None, 7, 1)])[0][SEQUENCE] is None
    assert values([state("r", None, 7, 1), row("u", [-1], a=2)]) == [2]


def test_a_place_that_begins_like_a_longer_one_comes_before_it() -> None:
    shorter, longer = row("u", [5], a=1), row("u", [5, -3], a=2)
    assert [(one["a"], one[SEQUENCE]) for one in folded([shorter, longer])] == [(2, [5, -3])]
    assert folded([shorter])[0][SEQUENCE] == [5]


def test_of_two_events_at_one_place_the_one_of_the_last_operation_is_the_last() -> None:
    older, newer = row("u", [5], a=1, op_seq=2, content=9), row("u", [5], a=2, op_seq=3, content=-9)
    assert values([older, newer]) == values([newer, older]) == [2]
    one, other = row("u", [5], a=1, content=4), row("u", [5], a=2, content=5)  # of one operation
    assert values([one, other]) == values([other, one]) == [2]


def test_a_truncate_takes_what_is_at_or_below_its_place_and_no_state_behind_it() -> None:
    rows = [row("c", [1], 1, 1), row("c", [3], 2, 2), state("r", [2], 0, 3, key=3), row("c", [2], 4, 4)]
    truncate = {**row("t", [2]), "key": None, "after": None}
    place = last_truncate(pa.Table.from_pylist([*rows, truncate, {**truncate, "position": [1, 9]}], ROWS))
    assert place == (2,)
    rules = FoldRules(schema=RULES.schema, keys=("id",), order=(), barrier=place)
    assert [one["id"] for one in folded([*rows, truncate], rules)] == [2, 3]
    longer = [row("c", [2, -5], 1, 1), row("c", [1, 5], 2, 2)]  # behind, because it begins with the place
    assert [one["id"] for one in folded(longer, rules)] == [1]


def test_of_a_changed_key_each_side_counts_where_its_key_is_folded() -> None:
    moved = row("u", [2], 2, 5, previous_key={"id": 1})
    assert [(one["id"], one[DELETE_MARK]) for one in folded([row("c", [1], 1, 4), moved])] == [(1, True), (2, False)]
    for old_side, expected in ((True, [(1, True)]), (False, [(2, False)])):
        table = pa.Table.from_pylist([moved], ROWS).append_column(OLD_SIDE, pa.array([old_side]))
        found = pa.Table.from_batches(fold_partition(iter(table.to_batches()), RULES)).to_pylist()
        assert [(one["id"], one[DELETE_MARK]) for one in found] == expected
    same = row("u", [2], 1, 5, previous_key={"id": 1})
    table = pa.Table.from_pylist([same, same], ROWS).append_column(OLD_SIDE, pa.array([True, False]))
    assert fold_history(table, RULES).num_rows == 1  # a key that stays leaves no row behind


def test_rows_whose_key_has_no_value_are_one_row() -> None:
    assert values([row("c", [1], None, 1), row("u", [2], None, 2), row("c", [1], 0, 3)]) == [3, 2]


def test_what_is_no_change_is_left_out() -> None:
    assert fold_history(pa.Table.from_pylist([row("u", [1], kind="ddl")], ROWS), RULES).num_rows == 0
    assert fold_history(ROWS.empty_table(), RULES).num_rows == 0
    assert list(fold_partition(iter(()), RULES)) == []


def test_states_say_what_is_known_of_a_row_and_whether_an_event_brought_all_of_it() -> None:
    part: dict[str, Any] = {"present": ["id"]}
    told = {
        tuple(rows): (one[WHOLE], one[PRESENT])
        for rows in ("c", "cu", "u", "C", "U", "d")
        for one in folded([row(op.lower(), [at], **(part if op.isupper() else {})) for at, op in enumerate(rows)])
    }
    assert told == {
        ("c",): (True, None), ("c", "u"): (True, None), ("u",): (False, None), ("C",): (True, ["id"]), ("U",): (False, ["id"]),
        ("d",): (True, None),
    }  # fmt: skip


def test_a_table_with_versions_gets_the_last_change_of_a_key_at_each_place() -> None:
    rules = FoldRules(schema=RULES.schema, keys=("id",), order=(), versions=True)
    rows = [row("c", [1], a=1), row("u", [2], a=2), state("r", [2], 4, 3), state("r", [2], 5, 4), row("u", [3], a=5), row("u", [3], a=5)]
    assert [(one["a"], one[SEQUENCE]) for one in folded(rows, rules)] == [(1, [1]), (4, [2]), (5, [3])]


def test_a_place_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="no complete position"):
        folded([row("c", [1, None])])  # type: ignore[list-item]
