"""A watcher of an archive: finds the files that a run would read, and notifies Airflow of each once, in batches.

    listing -> what runs would read -> quiet -> claimed in the ledger -> Batch -> (Airflow stores its event) -> confirmed -> forgotten

It lists with the code of the runs, so it finds what they find. It writes only what it has notified; it changes nothing in the archive, and
needs no lease.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.files import ListedFile
from cdc_ops.core.archive.quiet import NO_ARRIVALS, Arrivals, next_arrivals
from cdc_ops.core.pipeline.watch import Watch, watched_folders
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.notices.notified_files import NotificationStatus, NotifiedFile
from cdc_ops.state.sql import SqlStateStore
from cdc_ops.steps.archive.watched_folder import FolderLook, is_consumed, look_into

CLAIM: Final = timedelta(minutes=1)
"""How long a batch is left to a watcher that may have died before Airflow had its event; or three listings, if that is longer."""
SHOWN: Final = 100
"""Paths that an event names."""
REMEMBERED: Final = timedelta(days=7)
"""How long files are remembered in folders that are not watched any more: another watcher may still know the old pipeline file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Files of one event.

    Args:
        pipeline: Whose runs read them.
        batch: Its id: the same if it is sent again because nobody knows whether Airflow has it.
        files: By full path.
    """

    pipeline: str
    batch: str
    files: Mapping[str, ListedFile]

    @property
    def event(self) -> dict[str, object]:
        """What the asset event says: plain JSON data."""
        paths = sorted(self.files)
        size = sum(file.size for file in self.files.values())
        return {"pipeline": self.pipeline, "batch": self.batch, "files": len(paths), "size_bytes": size, "paths": paths[:SHOWN]}


@dataclass(slots=True, kw_only=True)
class _Found:
    """One look at the whole archive, by full path; see `FolderLook`."""

    ready: dict[str, ListedFile] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    left: dict[str, datetime] = field(default_factory=dict)
    is_young: bool = False
    folders: dict[str, tuple[tuple[TableName, ...], FolderLook]] = field(default_factory=dict)

    def add(self, location: str, readers: tuple[TableName, ...], look: FolderLook) -> None:
        """Adds what a folder holds."""
        self.ready |= {f"{location}/{path}": file for path, file in look.ready.items()}
        self.unread |= {f"{location}/{path}" for path in look.unread}
        self.left |= {f"{location}/{path}": started for path, started in look.left.items()}
        self.is_young = self.is_young or look.is_young
        self.folders[location] = readers, look


class ArchiveWatcher:
    """Watches the archive of one pipeline. Any number of watchers may do so beside each other; one thread uses one.

    Args:
        watch: What is watched.
        store: The ledger.
        claim: How long a batch is left to a watcher that may have died before Airflow had its event.
    """

    def __init__(self, watch: Watch, store: SqlStateStore, *, claim: timedelta = CLAIM) -> None:
        self._watch, self._store = watch, store
        self._claim = max(claim, 3 * watch.interval) if claim else claim
        self._archives: dict[str, Archive] = {}
        self._listed_at: dict[str, datetime] = {}
        self._arrivals: Arrivals = NO_ARRIVALS
        self._unconfirmed: set[str] = set()

    def look(self) -> tuple[Batch, ...]:
        """Lists the archive once, and returns what Airflow is to be notified of now: claimed, so that no other watcher does it.

        Raises:
            ArchiveError, ArchiveUnreachableError: it cannot be listed; nothing is lost, the next look finds the same.
            LedgerUnavailableError: the ledger does not answer.
        """
        self._store.renew_claims(self._watch.pipeline, self._unconfirmed, self._claim)
        found, notified = self._found(), dict(self._store.notified_files(self._watch.pipeline))
        gone = self._consumed(found, notified)
        self._store.forget_notified_files(self._watch.pipeline, gone)
        notified = {path: file for path, file in notified.items() if file not in gone}
        doubtful = self._doubtful(notified)
        fresh = {path: file for path, file in found.ready.items() if _is_due(path, file, notified.get(path), found)}
        self._arrivals = next_arrivals(self._arrivals, fresh, is_young=found.is_young)
        batches = [*doubtful, *(self._claimed(fresh, notified) if self._arrivals.are_due else ())]
        self._unconfirmed |= {batch.batch for batch in batches}
        return tuple(batches)

    def confirm(self, batches: Iterable[str]) -> None:
        """Notes that Airflow has the events of batches: they are never sent again.

        Raises:
            LedgerUnavailableError: the ledger does not answer; call this again.
        """
        stored = tuple(batches)
        self._store.confirm_notified(self._watch.pipeline, stored)
        self._unconfirmed -= set(stored)

    def close(self) -> None:
        """Closes the archive; the ledger is left open."""
        for archive in self._archives.values():
            archive.close()
        self._archives.clear()

    def _found(self) -> _Found:
        """Looks into all folders. The ledger is asked first: a run that ends meanwhile has then left nothing, it is still at work."""
        known = {one.state.table: one for one in self._store.overview(self._watch.pipeline)}
        found = _Found()
        folders = watched_folders(self._watch, self._open(self._watch.root).folders, known)
        for folder, readers in folders.items():
            location = self._watch.location(folder)
            owner = self._watch.pipeline, readers
            at = self._listed_at.get(location)
            look = look_into(self._open(location), self._watch.archive, self._store, owner, known, at)
            if look.listed_at is not None:
                self._listed_at[location] = look.listed_at
            found.add(location, readers, look)
        return found

    def _open(self, location: str) -> Archive:
        if location not in self._archives:
            self._archives[location] = open_archive(location, dict(self._watch.archive.options))
        return self._archives[location]

    def _consumed(self, found: _Found, notified: Mapping[str, NotifiedFile]) -> tuple[NotifiedFile, ...]:
        """Returns what needs no memory any more: all its tables have it, it is gone, or nobody looks there."""
        now, watched = self._store.now(), tuple(f"{location}/" for location in found.folders)
        done = [file for path, file in notified.items() if not path.startswith(watched) and file.at < now - REMEMBERED]
        for location, (readers, look) in found.folders.items():
            mine = {path[len(location) + 1 :]: file for path, file in notified.items() if path.startswith(f"{location}/")}
            settled = {path: file for path, file in mine.items() if path not in look.unread}
            consumed = is_consumed(self._store, self._watch.pipeline, readers, {path: file.file for path, file in settled.items()})
            done += [file for path, file in settled.items() if look.is_whole or path in consumed]
        return tuple(done)

    def _doubtful(self, notified: Mapping[str, NotifiedFile]) -> list[Batch]:
        """Takes over the batches of watchers that are gone, and returns them to be sent again."""
        now, batches = self._store.now(), dict[str, dict[str, ListedFile]]()
        for path, file in notified.items():
            if file.is_doubtful(now):
                batches.setdefault(file.batch, {})[path] = file.file
        pipeline = self._watch.pipeline
        return [
            Batch(pipeline=pipeline, batch=batch, files=files)
            for batch, files in sorted(batches.items())
            if self._store.claim_again(pipeline, batch, self._claim)
        ]

    def _claimed(self, fresh: Mapping[str, ListedFile], notified: Mapping[str, NotifiedFile]) -> tuple[Batch, ...]:
        batch = Batch(pipeline=self._watch.pipeline, batch=secrets.token_hex(8), files=fresh)
        self._arrivals = NO_ARRIVALS
        return (batch,) if self._store.claim_files(batch.pipeline, batch.batch, fresh, notified, self._claim) else ()


def _is_due(path: str, file: ListedFile, notified: NotifiedFile | None, found: _Found) -> bool:
    """True if Airflow is to be notified of a file: for the first time, in another form, or because a run has left it for the next one."""
    if notified is None or not notified.file.same_as(file):
        return True
    left = found.left.get(path)
    return notified.status is NotificationStatus.NOTIFIED and left is not None and notified.at < left
