"""Any cut of a history into batches, in any order, with anything delivered twice, ends in the rows that the history ends in."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.testing.folding import Change, Rows, apply, fold, replay
from tests.histories import COLUMNS, batches_of, history_of


@given(st.randoms(use_true_random=False))
def test_any_partition_of_a_history_folds_to_the_same_rows(random: Random) -> None:
    history = history_of(random)
    rows: Rows = {}
    seen: tuple[int, ...] | None = None
    for batch in batches_of(random, history):
        rows = apply(rows, fold(batch, seen), COLUMNS)
        seen = max((change.position for change in batch if seen is None or change.position > seen), default=seen)
    assert rows == replay(history, COLUMNS)


def test_a_change_of_the_key_leaves_no_old_row_behind() -> None:
    insert = Change(op=EventOperation.CREATE, position=(1,), key=(1,), values={"id": 1, "a": "x"})
    moved = Change(op=EventOperation.UPDATE, position=(2,), key=(2,), previous_key=(1,), values={"id": 2, "a": "x"})
    batch = fold([moved, insert])
    assert batch.outcomes[(1,)].deleted
    assert apply({}, batch, ("id", "a")) == {(2,): {"id": 2, "a": "x"}}


def test_an_insert_after_a_delete_does_not_bring_the_old_columns_back() -> None:
    rows = {(1,): {"id": 1, "a": "old", "b": "old"}}
    gone = Change(op=EventOperation.DELETE, position=(1,), key=(1,))
    back = Change(op=EventOperation.CREATE, position=(2,), key=(1,), values={"id": 1, "a": "new"})
    assert apply(rows, fold([back, gone]), ("id", "a", "b")) == {(1,): {"id": 1, "a": "new", "b": None}}


def test_a_truncate_takes_what_was_before_it_and_nothing_after_it() -> None:
    rows = {(7,): {"id": 7}}
    before = Change(op=EventOperation.CREATE, position=(1,), key=(1,), values={"id": 1})
    after = Change(op=EventOperation.CREATE, position=(3,), key=(2,), values={"id": 2})
    assert apply(rows, fold([after, Change(op=EventOperation.TRUNCATE, position=(2,)), before]), ("id",)) == {(2,): {"id": 2}}


def test_a_column_that_no_event_names_keeps_its_value() -> None:
    rows = {(1,): {"id": 1, "a": 1, "b": 2}}
    first = Change(op=EventOperation.UPDATE, position=(1,), key=(1,), values={"id": 1, "a": 5})
    second = Change(op=EventOperation.UPDATE, position=(2,), key=(1,), values={"id": 1})
    assert apply(rows, fold([second, first]), COLUMNS) == {(1,): {"id": 1, "a": 5, "b": 2}}
