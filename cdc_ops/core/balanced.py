"""Joins many expressions into one as a balanced tree, so that the expression is not nested deeply. No Spark here."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def balanced_reduce(join: Callable[[Item, Item], Item], items: Iterable[Item], empty: Item | None = None) -> Item:
    """Returns items joined in order: first each two neighbours, then the results, and so on.

    Joined one after the other, a thousand items lie a thousand deep in each other; what goes through an expression by calling itself, as
    Spark's analyzer does, has its stack run over at a few hundred.

    Args:
        join: Joins two neighbours; it does not matter which neighbours are joined first.
        items: What is to be joined.
        empty: What is returned if there are no items; None = there is at least one.

    Raises:
        ValueError: there are no items, and nothing is given for that.
    """
    found = list(items)
    if not found:
        if empty is None:
            raise ValueError("there are no items to join")
        return empty
    while len(found) > 1:
        pairs = [join(*found[start : start + 2]) for start in range(0, len(found) - 1, 2)]
        found = [*pairs, *found[2 * len(pairs) :]]
    return found[0]
