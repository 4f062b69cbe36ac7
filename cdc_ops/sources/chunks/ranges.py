"""Splits a key range into disjoint conditions that cover it exactly, open at both ends. Pure."""

from datetime import timedelta
from itertools import pairwise

from cdc_ops.core.cursor.cursors import format_datetime, parse_datetime


def cut_integers(low: int, high: int, parts: int) -> tuple[int, ...]:
    """Returns the inner borders that cut [low, high] into at most `parts` equal ranges, strictly increasing, all above `low`."""
    count = min(parts, high - low + 1)
    return tuple(low + (high - low + 1) * index // count for index in range(1, count))


def cut_moments(low: str, high: str, parts: int) -> tuple[str, ...]:
    """Returns the inner borders that cut a span of time into at most `parts` equal ranges, as cursor literals."""
    start = parse_datetime(low)
    microseconds = (parse_datetime(high) - start) // timedelta(microseconds=1)
    return tuple(format_datetime(start + timedelta(microseconds=border)) for border in cut_integers(0, microseconds, parts))


def tile(column: str, borders: tuple[str, ...], *, nullable: bool) -> tuple[str, ...]:
    """Returns one condition per range between borders; rows with NULL are in the first.

    Args:
        column: The column, quoted.
        borders: Literals as SQL, strictly increasing.
        nullable: Whether the column can be NULL.
    """
    if not borders:
        return ("",)
    first = f"{column} < {borders[0]}"
    inner = (f"{column} >= {low} AND {column} < {high}" for low, high in pairwise(borders))
    return (f"({first} OR {column} IS NULL)" if nullable else first, *inner, f"{column} >= {borders[-1]}")


def both(left: str, right: str) -> str:
    """Joins two conditions; an empty one is always true."""
    if not (left and right):
        return left or right
    return f"({left}) AND ({right})"
