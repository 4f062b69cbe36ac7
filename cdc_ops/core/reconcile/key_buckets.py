"""Key buckets: segments of a table's keys, compared by counts and checksums. Pure arithmetic, and its SQL where all dialects agree.

A bucket is either a range of the leading key, which must be a whole number, or what a hash of the key falls into, which works for every
type of key. Ranges let both sides skip what they need not read, so they are used where keys lie densely; a hash does not care how keys
are spread or collated. Every row is in exactly one bucket, whatever its key: the outer ranges are open.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

FINER: Final = 16
"""The number of parts into which a differing bucket is split."""

ROWS_PER_BUCKET: Final = 100
"""Rows that one bucket is to hold, about: what a single changed row costs to read again."""

FEWEST: Final = 64
MOST: Final = 65_536
_DENSE: Final = 20
"""Ranges are used where there are at most so many numbers per row; else most ranges would be empty and the others full."""

_MOST_SPANS: Final = 200
"""Ranges in one condition; more of them are joined across the smallest gaps."""

_MOST_MEMBERS: Final = 2_000
"""Numbers of buckets by hash in one condition; with more of them the whole table is read."""

_WIDEST: Final = 2**62
"""A wider axis would not fit the servers' signed arithmetic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpan:
    """Keys with low <= key < high; an open end is None."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """A division of the keys into buckets.

    Args:
        keys: Key columns; ranges are ranges of the first.
        count: How many buckets there are, numbered from 0.
        low: Where the first range ends its open side, None for buckets by hash.
        width: Numbers per range; 0 for buckets by hash.
    """

    keys: tuple[str, ...]
    count: int
    low: int | None = None
    width: int = 0

    @property
    def by_range(self) -> bool:
        """True if buckets are ranges of the first key."""
        return self.low is not None

    def number(self, key: int) -> int:
        """Returns the bucket of a key, for ranges: the reference for what the databases compute.

        The outer buckets are open: every key is in exactly one.

        >>> buckets = Buckets(keys=("id",), count=4, low=100, width=16)
        >>> [buckets.number(key) for key in (-5, 100, 115, 116, 9_999)]
        [0, 0, 0, 1, 3]
        """
        return min(max((key - self._start) // self.width, 0), self.count - 1)

    def finer(self) -> "Buckets | None":
        """Returns the cut that splits each bucket into `FINER` parts; None if the parts would be no smaller than one number."""
        if not self.by_range:
            return Buckets(keys=self.keys, count=self.count * FINER)
        if self.width % FINER:
            return None
        return Buckets(keys=self.keys, count=self.count * FINER, low=self.low, width=self.width // FINER)

    def span(self, first: int, last: int) -> KeySpan:
        """Returns the keys of the buckets from `first` to `last`, both included.

        >>> buckets = Buckets(keys=("id",), count=4, low=100, width=16)
        >>> buckets.span(1, 2)
        KeySpan(low=116, high=148)
        >>> buckets.span(0, 0)
        KeySpan(low=None, high=116)
        """
        return KeySpan(
            low=None if first == 0 else self._start + first * self.width,
            high=None if last == self.count - 1 else self._start + (last + 1) * self.width,
        )

    def number_sql(self, column: str, division: str) -> str:
        """Returns SQL for the range of a key column.

        Args:
            column: SQL of the key as a number of at least 64 bits.
            division: Integer division with `{0}` and `{1}`, e.g. `{0} DIV {1}`.
        """
        low, top = _literal(self._start), _literal(self._start + self.count * self.width)
        quotient = division.format(f"({column} - {low})", self.width)
        return f"CASE WHEN {column} < {low} THEN 0 WHEN {column} >= {top} THEN {self.count - 1} ELSE {quotient} END"

    @property
    def _start(self) -> int:
        if self.low is None:
            raise ValueError("hash buckets have no key ranges")
        return self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSelection:
    """Some buckets, or the whole table: the part that differs, is read, and may lose rows.

    Args:
        buckets: The cut; None for the whole table.
        members: Numbers of the buckets, in order.
    """

    buckets: Buckets | None = None
    members: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True for the whole table."""
        return self.buckets is None

    @property
    def is_empty(self) -> bool:
        """True if no row can be in it."""
        return self.buckets is not None and not self.members

    def spans(self) -> tuple[KeySpan, ...]:
        """Returns the ranges, neighbours joined.

        >>> buckets = Buckets(keys=("id",), count=8, low=0, width=10)
        >>> BucketSelection(buckets=buckets, members=(1, 2, 5)).spans()
        (KeySpan(low=10, high=30), KeySpan(low=50, high=60))
        """
        if self.buckets is None:
            return (KeySpan(),)
        return tuple(self.buckets.span(first, last) for first, last in _runs(self.members))

    def bounded(self) -> "BucketSelection":
        """Returns a scope that holds this one and whose conditions stay short: ranges are joined across the smallest gaps."""
        if self.buckets is None:
            return self
        if not self.buckets.by_range:
            return WHOLE if len(self.members) > _MOST_MEMBERS else self
        runs = _joined(_runs(self.members))
        return BucketSelection(buckets=self.buckets, members=tuple(number for first, last in runs for number in range(first, last + 1)))

    def parts(self, most: int) -> tuple["BucketSelection", ...]:
        """Deals the ranges out among readers, neighbours together; what has no ranges stays in one piece."""
        if self.buckets is None or not self.buckets.by_range:
            return (self,)
        runs = _runs(self.members)
        size = max(-(-len(runs) // max(most, 1)), 1)
        shares = (runs[start : start + size] for start in range(0, len(runs), size))
        return tuple(
            BucketSelection(buckets=self.buckets, members=tuple(number for first, last in share for number in range(first, last + 1)))
            for share in shares
        )


WHOLE: Final = BucketSelection()


def cut(keys: tuple[str, ...], rows: int, extent: tuple[int, int] | None) -> Buckets:
    """Chooses the buckets of a table.

    Args:
        keys: Key columns.
        rows: About how many rows the table has; 0 if nobody knows.
        extent: Smallest and largest value of the first key; None if it is no whole number, or has no index to tell them by.

    Dense numbers are cut into ranges, scattered ones by a hash:

    >>> cut(("id",), rows=1_000_000, extent=(1, 1_000_000))
    Buckets(keys=('id',), count=8929, low=1, width=112)
    >>> cut(("id",), rows=1_000_000, extent=(1, 10**12)).by_range
    False
    """
    if extent is None:
        return Buckets(keys=keys, count=_count(rows))
    low, high = extent
    numbers = high - low + 1
    if numbers >= _WIDEST or (rows and numbers > _DENSE * max(rows, ROWS_PER_BUCKET * FEWEST)):
        return Buckets(keys=keys, count=_count(rows))
    width = -(-numbers // _count(rows or numbers))
    if width >= FINER:
        width = -(-width // FINER) * FINER
    return Buckets(keys=keys, count=-(-numbers // width), low=low, width=width)


def span_condition(column: str, spans: tuple[KeySpan, ...]) -> str:
    """Returns the condition that a key lies in one of some ranges, in the SQL that all servers and Spark share; "" for every key.

    >>> span_condition("id", (KeySpan(high=0), KeySpan(low=10, high=20)))
    '((id < 0) OR (id >= 10 AND id < 20))'
    """
    parts = []
    for span in spans:
        ends = [f"{column} >= {_literal(span.low)}"] if span.low is not None else []
        ends += [f"{column} < {_literal(span.high)}"] if span.high is not None else []
        if not ends:
            return ""
        parts.append(" AND ".join(ends))
    return "(" + " OR ".join(f"({part})" for part in parts) + ")" if parts else "1 = 0"


def _count(rows: int) -> int:
    return min(max(rows // ROWS_PER_BUCKET, FEWEST), MOST)


def _literal(number: int) -> str:
    return f"({number})" if number < 0 else str(number)


def _runs(members: tuple[int, ...]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for member in sorted(members):
        if runs and member == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], member)
        else:
            runs.append((member, member))
    return runs


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    surplus = len(runs) - _MOST_SPANS
    if surplus <= 0:
        return runs
    gaps = sorted(range(1, len(runs)), key=lambda index: runs[index][0] - runs[index - 1][1])
    borders = [0, *sorted(set(range(1, len(runs))) - set(gaps[:surplus])), len(runs)]
    return [(runs[start][0], runs[end - 1][1]) for start, end in pairwise(borders)]
