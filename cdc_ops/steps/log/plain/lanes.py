"""Both lanes of an operation put together: what their looks show, and what their events come to. Runs in Spark."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.core.operation.operation import Operation
from cdc_ops.steps.log.plain.lane import PlainEvents, folds_in_workers
from cdc_ops.steps.stage.folded_events import fold_events

_FEW: Final = 200_000
"""So many events of the exact way are few: their keys go to all executors."""

_HIGHEST: Final = ("place", "at", "behind_at", "last")
_ADDED: Final = ("events", "behind")


def together(exact: Iterable[Any], plain: Iterable[dict[str, Any]]) -> Any:
    """Returns one look for each file, of what the exact way and the fast lane have seen in it."""
    found = {row["file"]: row.asDict() for row in exact}
    for look in plain:
        other = found.get(look["file"])
        found[look["file"]] = look if other is None else _sum(other, look)
    return list(found.values())


def _sum(exact: dict[str, Any], look: dict[str, Any]) -> dict[str, Any]:
    """Returns the look at a file of which both have seen events; what only the exact way reads stays as it is."""
    both = dict(exact)
    for name in _ADDED:
        both[name] = exact[name] + look[name]
    for name in _HIGHEST:
        given = [one[name] for one in (exact, look) if one[name]]
        both[name] = max(given, key=_comparable) if given else None
    lowest = [one["lowest"] for one in (exact, look) if one["lowest"]]
    both["lowest"] = min(lowest, key=_comparable) if lowest else None
    return both


def _comparable(value: Any) -> Any:
    return value if isinstance(value, str) else tuple(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedLanes:
    """What an operation has read of its files.

    Args:
        operation: The operation.
        feed: The landed feed of the exact way.
        events: How many changes it has.
        plain: What the fast lane has read, None if it was not taken.
        merged: Paths of the files that lie before the first gap.
    """

    operation: Operation
    feed: DataFrame
    events: int
    plain: PlainEvents | None
    merged: Sequence[str]

    def folded(self, *, truncated: bool, partial: bool) -> DataFrame:
        """Returns what the events come to, as `fold_events` does.

        The workers fold the keys that the exact way has read no event of. An event of the exact way may speak of some columns only, or may
        stand at the place of a plain one: its keys are folded with all of their events.

        Args:
            truncated: False if there is no TRUNCATE among them.
            partial: False if each update is known to speak of all columns.
        """
        plain = self.plain
        if plain is None or not plain.events(self.merged):
            return fold_events(self.feed, self.operation, truncated=truncated, partial=partial)
        if not folds_in_workers(self.operation) or truncated or self.events > _FEW:
            both = self.feed.unionByName(plain.feed(self.merged, self.feed))
            return fold_events(both, self.operation, truncated=truncated, partial=partial)
        folded = plain.folded(self.merged)
        if not self.events:
            return folded
        changes = self.feed.where(F.col("kind") == RecordKind.CHANGE)
        keys = F.broadcast(
            changes.select(F.explode(F.array("key", "previous_key")).alias("key")).where(F.col("key").isNotNull()).distinct()
        )
        mixed = changes.unionByName(plain.feed(self.merged, self.feed).join(keys, "key", "left_semi").select(*self.feed.columns))
        return fold_events(mixed, self.operation, truncated=False, partial=partial).unionByName(
            folded.join(keys, "key", "left_anti").select(*folded.columns)
        )

    @property
    def workers_alone(self) -> PlainEvents | None:
        """What the fast lane has read if the exact way has read nothing, and the workers fold it; else None."""
        return self.plain if self.plain is not None and self.plain.takes_all(self.operation, self.merged) else None

    def remove(self) -> None:
        """Removes what the fast lane has written; what cannot be removed goes when the staging area is cleared."""
        if self.plain is not None:
            self.plain.remove()
