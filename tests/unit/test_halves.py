"""Items joined by halves."""

import pytest

from cdc_ops.core.balanced import balanced_reduce


def depth(item: object) -> int:
    return 1 + max(map(depth, item)) if isinstance(item, tuple) else 0


@pytest.mark.parametrize("size", range(1, 40))
def test_the_order_stays_and_nothing_lies_deeper_than_it_has_to(size: int) -> None:
    items = [chr(ord("A") + index) for index in range(size)]
    assert balanced_reduce(lambda left, right: left + right, items) == "".join(items)
    nested = balanced_reduce(lambda left, right: (left, right), items)
    assert depth(nested) == (size - 1).bit_length()


def test_of_no_items_the_empty_one_is_returned_if_there_is_one() -> None:
    assert balanced_reduce(max, [], 7) == 7
    with pytest.raises(ValueError, match="there are no items to join"):
        balanced_reduce(max, [])
