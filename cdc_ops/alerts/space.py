"""Whether the disks of this machine on which cdc-ops writes are nearly full. Object stores and quotas are not looked at."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cdc_ops.alerts.host import Place
from cdc_ops.core.pipeline.pipeline import Pipeline

PLACES: Final = ("lake", "staging", "ledger")
"""Names of places."""

_GIB: Final = 2**30
LEAST: Final = _GIB
"""Bytes that are little on any disk."""
MOST: Final = 20 * _GIB
"""Bytes that are not little on any disk."""
SHARE: Final = 0.05
"""Part of a disk that is little, between these two; and of the files that it can have."""
SMALL: Final = 0.25
"""Part that is not little on a disk of any size."""
AGAIN: Final = 1.25
"""So much more than little has to be free until the alert is over: what is written and removed in between would bring it back at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much room a disk has.

    Args:
        names: What is on it.
        path: A path on it.
        free, size: Bytes that a user may still write, and bytes in all.
        free_files, files: The same of files, 0 and 0 on a file system that does not count them.
    """

    names: tuple[str, ...]
    path: str
    free: int
    size: int
    free_files: int = 0
    files: int = 0

    @property
    def wanted(self) -> float:
        """Bytes that have to be free."""
        return min(MOST, max(LEAST, SHARE * self.size), SMALL * self.size)

    def is_little(self, factor: float = 1.0) -> bool:
        """True if less is free than has to be, times a factor."""
        return self.free < factor * self.wanted or (self.files > 0 and self.free_files < factor * SHARE * self.files)


def places_of(pipeline: Pipeline, ledger: str) -> tuple[Place, ...]:
    """Returns where a pipeline writes on the local file system.

    Args:
        pipeline: With its lake and its staging area.
        ledger: URL of the ledger; only a SQLite file is on a disk of this machine for certain.
    """
    file = ledger.removeprefix("sqlite:///") if ledger.startswith("sqlite:///") else ""
    named = dict(zip(PLACES, (pipeline.target.root, pipeline.target.staging, file), strict=True))
    local = {name: path.removeprefix("file://") for name, path in named.items() if path and _is_local(path)}
    return tuple(Place(name=name, path=path) for name, path in local.items())


def rooms_of(places: tuple[Place, ...]) -> Iterator[Room]:
    """Looks at the disks of some places; a place that this machine does not have is left out, and places on one disk are one."""
    disks: dict[int, list[Place]] = {}
    for place in places:
        if os.path.exists(place.path):
            disks.setdefault(os.stat(place.path).st_dev, []).append(place)
    for on_it in disks.values():
        found = os.statvfs(on_it[0].path)
        yield Room(
            names=tuple(place.name for place in on_it),
            path=on_it[0].path,
            free=found.f_bavail * found.f_frsize,
            size=found.f_blocks * found.f_frsize,
            free_files=found.f_favail,
            files=found.f_files,
        )


def _is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file:///")
