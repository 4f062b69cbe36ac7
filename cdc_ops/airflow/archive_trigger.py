"""Watches an archive in Airflow's triggerer, and gives an asset event for each batch of files that has landed.

    ArchiveTrigger (its arguments: the archive and the tables, as one text) -> shared stream -> ArchiveWatcher -> TriggerEvent

Airflow's shared streams tell when an event is stored in its database; only then the ledger notes the batch as notified. Airflow's own file
triggers delete the file that they report, so they are not for archives. All that blocks runs in threads: the triggerer has one event loop.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from cdc_ops.airflow.connections import ledger_url
from cdc_ops.core import json_codec
from cdc_ops.core.pipeline.watch import Watch
from cdc_ops.errors import CdcError
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.steps.archive.watch import ArchiveWatcher, Batch

log = logging.getLogger("cdc_ops.airflow")


class ArchiveTrigger(BaseEventTrigger):
    """Fires one event for each batch of new files of a pipeline's archive. It never writes to the archive.

    Args:
        watch: JSON of a `Watch`. Airflow keeps it in its database and shows it; it holds no secret.
    """

    def __init__(self, watch: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watch = watch

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Returns the class path and the argument, from which any triggerer makes the same trigger."""
        return f"{type(self).__module__}.{type(self).__name__}", {"watch": self.watch}

    def shared_stream_key(self) -> Hashable:
        """Returns what tells one watched archive from another; Airflow reports stored events for shared streams only."""
        return self.serialize()[0], self.watch

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """Returns what finds the batches."""
        return _Batches(kwargs["watch"])

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Batch]) -> AsyncIterator[TriggerEvent]:
        """Yields an event for each batch."""
        async for batch in shared_stream:
            yield TriggerEvent(batch.event)  # type: ignore[no-untyped-call]

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yields the same events where Airflow does not say which it has stored: a batch is sent again unless a run confirms it."""
        async for batch, _ in _Batches(self.watch).open_stream():
            yield TriggerEvent(batch.event)  # type: ignore[no-untyped-call]


class _Batches(SharedStreamProducer):
    """Looks at the archive at intervals, and confirms what Airflow has stored. What fails is tried again at the next look."""

    def __init__(self, watch: str) -> None:
        self._watch = json_codec.loads(Watch, watch)
        self._stored: set[str] = set()
        self._store: SqlStateStore | None = None
        self._watcher: ArchiveWatcher | None = None
        self._trouble = ""

    async def open_stream(self) -> AsyncIterator[tuple[Batch, str]]:
        """Yields batches, for ever."""
        while True:
            for batch in await asyncio.to_thread(self._look):
                log.info("Pipeline %s: %d new files, batch %s", batch.pipeline, len(batch.files), batch.batch)
                yield batch, batch.batch
            await asyncio.sleep(self._watch.interval.total_seconds())

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Notes batches as notified whose events Airflow has stored; the others keep their claims, which run out."""
        self._stored |= {item.broker_payload for item in batch if item.outcome.is_clean}
        await asyncio.to_thread(self._confirmed)

    async def aclose(self) -> None:
        """Closes ledger and archive."""
        await asyncio.to_thread(self._closed)

    def _look(self) -> tuple[Batch, ...]:
        try:
            watcher = self._opened()
            watcher.confirm(tuple(self._stored))
            self._stored.clear()
            batches = watcher.look()
        except Exception as error:  # one that ended the trigger would end all watching, and tell nobody
            self._log_trouble(error)
            return ()
        if self._trouble:
            log.info("Pipeline %s: the archive is watched again", self._watch.pipeline)
        self._trouble = ""
        return batches

    def _confirmed(self) -> None:
        try:
            stored = tuple(self._stored)
            self._opened().confirm(stored)
            self._stored -= set(stored)
        except Exception as error:  # as in _look
            self._log_trouble(error)

    def _opened(self) -> ArchiveWatcher:
        if self._watcher is None:
            self._store = open_store(ledger_url())
            self._watcher = ArchiveWatcher(self._watch, self._store)
        return self._watcher

    def _log_trouble(self, error: Exception) -> None:
        """Logs what went wrong, once as long as it stays the same: each look tries again."""
        text = str(error) if isinstance(error, CdcError) else f"{type(error).__name__}: {error}"
        if text != self._trouble:
            unforeseen = None if isinstance(error, CdcError) else error
            words = "Pipeline %s: its archive cannot be watched now; the next look tries again.\n%s"
            log.error(words, self._watch.pipeline, text, exc_info=unforeseen)
        self._trouble = text

    def _closed(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        if self._store is not None:
            self._store.close()
