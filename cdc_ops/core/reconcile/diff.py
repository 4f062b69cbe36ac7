"""Comparison of source and lake: levels, buckets, differences, and the limit of deletes. Pure.

Both sides compute, per bucket, how many rows there are and the sum of a 60-bit hash over each row's canonical text. The sum does not
depend on the order of rows; the texts are made to be the same on both sides (`core.reconcile.row_text`, `sources.checksums`).
"""

import enum
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.approvals import Asked, Decision, asks
from cdc_ops.core.reconcile.key_buckets import Buckets, BucketSelection
from cdc_ops.errors import DeletesRefusedError, RequestError

ALWAYS_ALLOWED: Final = 10
"""Deletes that a ratio never stops, so that small tables can lose a row; only a whole table's rows it does."""

SAMPLES: Final = 5
"""Keys that the refusal of deletes names."""


_ACCEPTED: Final = re.compile(r"(?P<rows>\d{1,18})|(?P<percent>\d{1,3}(\.\d+)?)\s*%")


class CompareLevel(enum.StrEnum):
    """What a comparison compares."""

    KEYS = "keys"
    """The same keys on both sides: finds deletes, changed keys and lost rows."""
    ROWS = "rows"
    """The same values in all columns."""
    WHOLE = "whole"
    """The same values, found without checksums: everything is read, and compared in the lake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGuard:
    """The limit of deletes in one comparison.

    Args:
        max_ratio: Share of the table's rows.
        max_rows: Number of rows; 0 = as many as the ratio allows.
        accepted: Deletes that somebody has accepted for this one operation; 0 = nobody was asked.
        accepted_ratio: Share of the table's rows that somebody has accepted for it; 0 = nobody was asked.
        approved: Deletes that somebody has granted after a refusal, as long as they are no larger a share of the table than they were
            then, and a tenth of it; 0 = nobody was asked.
        approved_of: Rows that the table had then.
    """

    max_ratio: float = 0.1
    max_rows: int = 0
    accepted: int = 0
    accepted_ratio: float = 0.0
    approved: int = 0
    approved_of: int = 0

    def allows(self, deletes: int, rows: int) -> bool:
        """True if a table of this size allows this number of deletes without confirmation."""
        if deletes <= self.accepted or deletes <= self.accepted_ratio * rows or self._approves(deletes, rows):
            return True
        if self.max_rows and deletes > self.max_rows:
            return False
        return deletes <= self.max_ratio * rows or (deletes <= ALWAYS_ALLOWED and deletes < rows)

    def _approves(self, deletes: int, rows: int) -> bool:
        """True if it is what was granted: no row more, and no larger a part of the table, but for what it has lost in daily work."""
        return deletes <= self.approved and 10 * deletes * self.approved_of <= 11 * self.approved * rows

    def check(self, deletes: int, rows: int, samples: Iterable[str], *, pipeline: str, table: str, digest: Callable[[], str] = str) -> None:
        """Checks the number of deletes before anything is written.

        Args:
            deletes: Rows that would go.
            rows: Rows of the Delta table.
            samples: Some of their keys.
            pipeline, table: For the command that accepts them.
            digest: Returns a digest of all their keys, by which the same question is known again; "" if they have none.

        Raises:
            DeletesRefusedError: more rows would be deleted than the limit allows.
        """
        if self.allows(deletes, rows):
            return
        limit = f"max_delete_rows is {self.max_rows:,}, " if self.max_rows else ""
        share = enough_percent(deletes, rows)
        raise DeletesRefusedError(
            f"The comparison would delete {deletes:,} of {rows:,} rows of {table}, for example the keys {'; '.join(samples)}.",
            why=f"The source no longer has them; {limit}max_delete_ratio is {self.max_ratio:g}."
            + (f" {self.accepted:,} deletes were accepted." if self.accepted else "")
            + (f" {self.accepted_ratio:.6g} of the rows were accepted." if self.accepted_ratio else "")
            + (f" {self.approved:,} deletes of {self.approved_of:,} rows were approved." if self.approved else ""),
            data="Nothing was written; the watermark stays.",
            next="Check at the source whether these rows were deleted on purpose: an emptied or half-loaded table looks the same. If so:\n"
            f"        cdc-ops reconcile --pipeline {pipeline} --table {table} --accept-deletes {share}%\n"
            "        (or a number of rows). If every run deletes as many, raise the limits in the pipeline file.",
        ).asking(asks(Asked(decision=Decision.DELETES, deletes=deletes, rows=rows, keys=digest())))


def enough_percent(deletes: int, rows: int) -> int:
    """Returns a share, in percent, that is enough for so many deletes also when the source has moved on a little: a tenth more.

    >>> enough_percent(2_000, 10_000)
    22
    """
    return min(100, math.ceil(110 * deletes / rows)) if rows else 100


def parse_accepted(text: str) -> tuple[int, float]:
    """Parses the accepted deletes: a number of rows, or a percentage of the table's rows; "" = none.

    >>> parse_accepted("500"), parse_accepted("12.5%")
    ((500, 0.0), (0, 0.125))

    Raises:
        RequestError: it is neither.
    """
    found = _ACCEPTED.fullmatch(text.strip())
    if found and found["rows"]:
        return int(found["rows"]), 0.0
    if found and found["percent"] and float(found["percent"]) <= 100:
        return 0, float(found["percent"]) / 100
    if not text.strip():
        return 0, 0.0
    raise RequestError(
        f"{text!r} is not a number of deletes.",
        why="It is neither a whole number of rows nor a percentage.",
        data="Nothing was read or written; the watermark stays.",
        next="Write 500 for up to 500 rows, or 30% for up to 30 percent of the table's rows.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedOperation:
    """An abandoned operation whose Spark application may still run.

    Args:
        op_seq, operation_id, run_id: As its plan had them.
        kind: An `OperationKind`.
    """

    op_seq: int
    operation_id: str
    run_id: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSpec:
    """The comparison of an operation, frozen at the plan.

    Args:
        strength: What a comparison compares.
        buckets: The cut; None where everything is read.
        readers: Connections that read what differs.
        guard: How many deletes are too many.
        why: Why it is done this way, for people.
        heals: It stands for events that an archive lacks: it commits even if nothing differs, because its commit passes them.
        scope: What a verification found to differ: only this is read, without another look at checksums. None = checksums tell.
        seals: The last operation that was given up and that the lake has no later number than: it may commit nothing any more once this
            one looks at the table. None if there is none.
    """

    strength: CompareLevel
    buckets: Buckets | None
    readers: int
    guard: DeleteGuard
    why: str = ""
    heals: bool = False
    scope: BucketSelection | None = None
    seals: AbandonedOperation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDigest:
    """Row count and checksum of a bucket on one side."""

    rows: int
    total: int


Digests = dict[int, BucketDigest]
"""By bucket number; a bucket without rows is missing."""


def added(parts: Iterable[tuple[int, int, int]]) -> Digests:
    """Returns the sum of several readers' results: bucket number, rows, sum of hashes."""
    sums: Digests = {}
    for number, rows, total in parts:
        known = sums.get(number, BucketDigest(rows=0, total=0))
        sums[number] = BucketDigest(rows=known.rows + rows, total=known.total + total)
    return sums


def differing(buckets: Buckets, source: Digests, lake: Digests) -> BucketSelection:
    """Returns the buckets whose rows are not the same on both sides."""
    return BucketSelection(buckets=buckets, members=tuple(sorted(n for n in source.keys() | lake.keys() if source.get(n) != lake.get(n))))


def rows_in(scope: BucketSelection, digests: Digests) -> int:
    """Returns how many rows one side has in some buckets."""
    return sum(digests[number].rows for number in scope.members if number in digests)
