"""Whether files still arrive, so that one run is started for a batch of them and not one for each. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.archive.files import ListedFile

MOST_LISTINGS: Final = 10
"""After so many listings with new files Airflow is notified of them, although more still arrive: a busy archive is never quiet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """New files of a listing that Airflow has not been notified of.

    Args:
        ready: What a run would read, by path.
        is_young: True if others are there that a run would not read yet, because they were written a moment ago.
        listings: How many listings in a row had files that were ready, with this one.
        is_quiet: True if the listing before had the same files, and none is young.
    """

    ready: Mapping[str, ListedFile]
    is_young: bool = False
    listings: int = 0
    is_quiet: bool = False

    @property
    def are_due(self) -> bool:
        """True if Airflow is to be notified of them now."""
        return bool(self.ready) and (self.is_quiet or self.listings >= MOST_LISTINGS)


NO_ARRIVALS: Final = Arrivals(ready={})


def next_arrivals(before: Arrivals, ready: Mapping[str, ListedFile], *, is_young: bool) -> Arrivals:
    """Returns the new files of a listing, compared with the listing before.

    >>> one = {"a": ListedFile(path="a", size=1)}
    >>> first = next_arrivals(NO_ARRIVALS, one, is_young=False)
    >>> first.are_due, next_arrivals(first, one, is_young=False).are_due, next_arrivals(first, one, is_young=True).are_due
    (False, True, False)
    """
    same = dict(before.ready) == dict(ready)
    return Arrivals(
        ready=ready, is_young=is_young, listings=before.listings + 1 if ready else 0, is_quiet=same and not is_young and bool(ready)
    )
