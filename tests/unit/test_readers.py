"""The readers that the tables of one application share, with threads and without Spark."""

import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec, DeleteGuard
from cdc_ops.core.schema.tables import TableName
from cdc_ops.steps.query.connection_limit import ConnectionLimit, at_most, connections_of
from cdc_ops.steps.reporting.log_output import shown_by
from tests.operations import with_fields
from tests.state_values import make_operation

PATIENCE_SECONDS = 30.0


def table(number: int) -> TableName:
    return TableName(schema="shop", name=f"t{number}")


@pytest.mark.parametrize(("most", "wanted"), [(4, (3, 3, 2, 1, 4, 9)), (1, (1, 4, 2)), (8, (4, 4, 4, 4))])
def test_tables_that_read_at_the_same_time_stay_within_the_limit(most: int, wanted: tuple[int, ...]) -> None:
    limit = ConnectionLimit(most)
    lock, reading, seen = threading.Lock(), [0], [0]

    def read(number: int, connections: int) -> None:
        for _ in range(50):
            with limit.held(table(number), connections):
                with lock:
                    reading[0] += min(connections, most)
                    seen[0] = max(seen[0], reading[0])
                with lock:
                    reading[0] -= min(connections, most)

    threads = [threading.Thread(target=read, args=one) for one in enumerate(wanted)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert 0 < seen[0] <= most


def test_who_needs_all_of_them_is_not_passed_by_those_who_come_later(caplog: pytest.LogCaptureFixture) -> None:
    waits = threading.Semaphore(0)

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            waits.release()

    limit, order = ConnectionLimit(4), list[int]()

    def read(number: int, connections: int) -> None:
        with limit.held(table(number), connections):
            order.append(number)

    later = [threading.Thread(target=read, args=one) for one in ((1, 4), (2, 1))]
    with shown_by(Heard()), limit.held(table(0), 2):
        for thread in later:
            thread.start()
            assert waits.acquire(timeout=PATIENCE_SECONDS)
        assert order == []  # two are free, and the table that wants one stands behind the table that wants four
    for thread in later:
        thread.join(PATIENCE_SECONDS)
    assert order == [1, 2]
    assert caplog.messages == ["shop.t1: waits for 4 of the source's 4 connections", "shop.t2: waits for 1 of the source's 4 connections"]


def test_a_table_that_fails_gives_its_readers_back(caplog: pytest.LogCaptureFixture) -> None:
    limit = ConnectionLimit(2)
    with pytest.raises(ZeroDivisionError), limit.held(table(1), 2):
        raise ZeroDivisionError
    with limit.held(table(2), 2):
        pass
    assert caplog.messages == []


def test_without_a_limit_nobody_waits(caplog: pytest.LogCaptureFixture) -> None:
    limit = ConnectionLimit(0)
    with limit.held(table(1), 100), limit.held(table(2), 100):
        pass
    assert caplog.messages == []


def test_an_operation_holds_what_it_opens_at_most() -> None:
    compare = CompareSpec(strength=CompareLevel.KEYS, buckets=None, readers=6, guard=DeleteGuard(max_ratio=1.0, max_rows=0), why="")
    assert connections_of(with_fields(make_operation(1), slices=("a", "b"))) == 2
    assert connections_of(with_fields(make_operation(1), slices=("a", "b"), compare=compare)) == 6
    assert connections_of(with_fields(make_operation(1), slices=())) == 1


@given(count=st.integers(1, 12), most=st.integers(0, 12))
def test_slices_are_joined_to_as_many_as_may_be_read_and_none_is_lost(count: int, most: int) -> None:
    slices = tuple(f"k = {number}" for number in range(count))
    joined = at_most(slices, most)
    assert len(joined) == (min(count, most) if most else count)
    words = " ".join(joined).replace("(", " ").replace(")", " ").replace(" OR ", " ").split()
    assert [int(word) for word in words if word.isdigit()] == list(range(count))


def test_joined_slices_are_one_condition() -> None:
    assert at_most(("a", "b", "c"), 2) == ("a", "((b) OR (c))")
