"""Rows read against rows counted: what is asked again, and which answer stops an operation."""

from dataclasses import replace
from typing import Any

import pytest

from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.reads import ChunkRead, CompareRead, KeysRead, WindowRead
from cdc_ops.core.operation.row_counts import RowsExpected
from cdc_ops.errors import CountMismatchError
from cdc_ops.steps.query.row_counts import check_rows_read
from tests.state_values import make_operation

WINDOW = Window(low=None, high=None)


class Counting:
    """A source of which only the number of rows is known, and which notes what it is asked."""

    def __init__(self, *rows: int) -> None:
        self.rows, self.asked = list(rows), list[tuple[str, int]]()

    def count(self, table: object, where: str, limit: int) -> int:
        self.asked.append((where, limit))
        return min(self.rows[len(self.asked) - 1], limit)


def reading(read: Any) -> Operation:
    return replace(make_operation(1, OperationKind.INCREMENT), read=read)


def check(source: Counting, operation: Operation, rows: int) -> None:
    check_rows_read(source, operation, rows)  # type: ignore[arg-type]


COUNTED = reading(WindowRead(window=WINDOW, slices=("a", "b"), expected_rows=500))
ESTIMATED = reading(ChunkRead(slices=("a", "b"), expected_rows=500))


@pytest.mark.parametrize("operation", [COUNTED, ESTIMATED])
@pytest.mark.parametrize("rows", [500, 501, 10_000])
def test_a_read_that_brings_what_was_counted_costs_no_question(operation: Operation, rows: int) -> None:
    source = Counting()
    check(source, operation, rows)
    assert source.asked == []


@pytest.mark.parametrize("operation", [COUNTED, ESTIMATED])
@pytest.mark.parametrize("rows", [0, 80])
def test_rows_that_the_source_still_has_and_the_read_had_not_stop_the_operation(operation: Operation, rows: int) -> None:
    with pytest.raises(CountMismatchError, match=f"has read {rows:,} rows, and the source has at least") as caught:
        check(Counting(250, 250), operation, rows)
    assert caught.value.retryable
    assert "Nothing of this read was written" in caught.value.data


@pytest.mark.parametrize("operation", [COUNTED, ESTIMATED])
@pytest.mark.parametrize("rows", [0, 80])
def test_rows_that_have_left_meanwhile_stop_nothing(operation: Operation, rows: int) -> None:
    check(Counting(rows, 0), operation, rows)


def test_one_row_is_enough_where_none_can_come_and_counting_ends_with_it() -> None:
    source = Counting(300, 300)
    with pytest.raises(CountMismatchError):
        check(source, COUNTED, 100)
    assert source.asked == [("a", 101)]
    source = Counting(400, 300)
    with pytest.raises(CountMismatchError):
        check(source, COUNTED, 499)
    assert source.asked == [("a", 500), ("b", 100)]
    with pytest.raises(CountMismatchError):
        check(Counting(101, 0), COUNTED, 100)
    keys = reading(KeysRead(slices=("k",), expected_rows=3))
    check(Counting(2), keys, 2)
    with pytest.raises(CountMismatchError):
        check(Counting(3), keys, 2)


def test_of_an_estimate_and_of_a_window_that_is_read_again_half_of_what_is_missing_must_be_there() -> None:
    again = reading(WindowRead(window=WINDOW, slices=("a",), expected_rows=500, with_nulls=True))
    for operation in (reading(ChunkRead(slices=("a",), expected_rows=500)), again):
        check(Counting(289), operation, 80)
        with pytest.raises(CountMismatchError):
            check(Counting(290), operation, 80)
        check(Counting(), operation, 250)


def test_none_read_is_doubtful_even_where_nothing_was_known() -> None:
    unknown = reading(ChunkRead(slices=("",)))
    check(Counting(0), unknown, 0)
    source = Counting(7)
    with pytest.raises(CountMismatchError, match="at least 1"):
        check(source, unknown, 0)
    assert source.asked == [("", 1)]


def test_a_comparison_knows_no_exact_number() -> None:
    assert not RowsExpected.of(reading(CompareRead(compare=None, slices=("",), expected_rows=9))).exact  # type: ignore[arg-type]
