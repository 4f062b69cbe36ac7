"""The split points of a table, found from a server's estimates, and the parts between them. Pure.

Parts tile the axis whatever is inserted meanwhile: neighbours share a border, the first is open below and the last above.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from cdc_ops.sources.chunks.ranges import both
from cdc_ops.sources.chunks.split_key import Border, SplitKey
from cdc_ops.sources.sql.dialect import Dialect

Range = tuple[int, int]
"""Whole numbers from the first to the second, both included."""

_FINENESS: Final = 4
"""No range holds more than this fraction of a part, so parts differ by less than half."""
_SPLIT: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The split points of a table.

    Args:
        borders: In the order of the axis, n of them for n + 1 parts.
        rows: Estimated rows of each part; empty if only their number is known to be about the same.
        how: How they were found, for `cdc-ops plan`.
    """

    borders: tuple[Border, ...]
    rows: tuple[int, ...] = ()
    how: str = ""


def even_borders(low: int, high: int, parts: int, count: Callable[[Sequence[Range]], Sequence[int]]) -> tuple[tuple[int, ...], list[int]]:
    """Finds split points between `low` and `high` with about as many rows in each part, from estimates of how many rows a range has.

    Ranges with too many rows are split again until none has; an empty range costs one estimate, however wide it is.

    Args:
        low, high: The smallest and the largest value.
        parts: How many parts are wanted; fewer come back where the values do not allow it.
        count: Estimates the rows of several ranges at once; only their proportions matter.

    Returns:
        The borders, strictly increasing and above `low`, and the estimate for each part.
    """
    whole = (low, high)
    pieces = _split(whole, max(2 * parts, _SPLIT)) if parts > 1 else [whole]
    counted = dict(zip(pieces, count(pieces), strict=True))
    most = 32 * parts + 1000
    while len(counted) < most:
        limit = sum(counted.values()) / (parts * _FINENESS)
        large = [piece for piece, rows in counted.items() if rows > max(limit, 1) and piece[1] > piece[0]]
        if not large:
            break
        finer = [part for piece in large for part in _split(piece, _SPLIT)]
        for piece in large:
            del counted[piece]
        counted.update(zip(finer, count(finer), strict=True))
    return _quantiles(sorted(counted.items()), parts)


def _split(piece: Range, parts: int) -> list[Range]:
    low, high = piece
    size = high - low + 1
    starts = [low + size * index // min(parts, size) for index in range(min(parts, size))]
    return [(start, (starts[index + 1] if index + 1 < len(starts) else high + 1) - 1) for index, start in enumerate(starts)]


def _quantiles(counted: list[tuple[Range, int]], parts: int) -> tuple[tuple[int, ...], list[int]]:
    sums = list(accumulate((rows for _, rows in counted), initial=0))
    places = (_nearest(sums, sums[-1] * part / parts) for part in range(1, parts))
    inner = {sums[place]: place for place in places if 0 < sums[place] < sums[-1]}  # one border for each sum: no part is empty
    ends = [0, *sorted(inner.values()), len(counted)]
    filled = [(start, sums[end] - sums[start]) for start, end in pairwise(ends)]
    return tuple(counted[start][0][0] for start, _ in filled[1:]), [rows for _, rows in filled]


def _nearest(sums: list[int], wanted: float) -> int:
    """Returns the place whose sum is nearest: of two parts that one range lies between, it goes to the one that it serves better."""
    place = min(max(bisect_left(sums, wanted), 1), len(sums) - 1)
    return place if sums[place] - wanted <= wanted - sums[place - 1] else place - 1


def print_parts(dialect: Dialect, axis: SplitKey, borders: Sequence[Border]) -> tuple[tuple[str, ...], ...]:
    """Returns the disjoint conditions of each part: one, and in the first part another for rows that have NULL on the axis."""
    lead = dialect.name(axis.columns[0].name)
    null = (f"{lead} IS NULL",) if axis.nullable else ()
    if not borders:
        return ((*null, f"{lead} IS NOT NULL" if null else ""),)
    below = tuple(dialect.below(axis.names, border) for border in borders)
    from_on = tuple(dialect.from_on(axis.names, border) for border in borders)
    inner = ((f"{low} AND {high}",) for low, high in zip(from_on, below[1:], strict=False))
    return ((*null, below[0]), *inner, (from_on[-1],))


def print_rest(dialect: Dialect, axis: SplitKey, border: Border, rest: str) -> str:
    """Returns the condition of all rows from a border on, among those that `rest` leaves."""
    return both(rest, dialect.from_on(axis.names, border))
