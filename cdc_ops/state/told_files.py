"""What the ledger keeps for watchers of archives: the files that Airflow has been told of and that no run has consumed yet.

    new file -> claimed (a watcher is about to tell it) -> told (Airflow has stored its event) -> forgotten (the tables have it)

A watcher claims files before it tells them, so that of two watchers one does. If it ends in between, its claim runs out, and the next
watcher tells the same batch again under the same id.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_ops.core.archive.files import ListedFile


class TellingStatus(enum.StrEnum):
    """How far the telling of a file has come."""

    CLAIMED = "claimed"
    """A watcher is about to tell it."""
    TOLD = "told"
    """Airflow has it: a run has started, or will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldFile:
    """A file of an archive that a watcher has told, or is about to tell.

    Args:
        path: Its full path or URL.
        file: As it was then.
        batch: Id of the batch with which it is told.
        status: How far that has come.
        at: When it was claimed, by the ledger's clock, UTC.
        until: When a claim ends, by the same clock.
    """

    path: str
    file: ListedFile
    batch: str
    status: TellingStatus
    at: datetime
    until: datetime

    def is_doubtful(self, now: datetime) -> bool:
        """True if its watcher is gone, and nobody knows whether Airflow has the event."""
        return self.status is TellingStatus.CLAIMED and self.until <= now


class ToldFilesReader(ABC):
    """Reads what was told."""

    @abstractmethod
    def told_files(self, pipeline: str) -> Mapping[str, ToldFile]:
        """Returns the files that are being told or were told and are not forgotten, by path."""


class ToldFilesStore(ToldFilesReader):
    """Writes it, one writer of a pipeline at a time. No lease is needed: it decides nothing of what is read or written of a table."""

    @abstractmethod
    def claim_files(
        self, pipeline: str, batch: str, files: Mapping[str, ListedFile], seen: Mapping[str, ToldFile], lasting: timedelta
    ) -> bool:
        """Claims files for a watcher that is about to tell them, all or none.

        Args:
            pipeline: Of the watcher.
            batch: Id of the batch.
            files: What it is about to tell, by full path.
            seen: What it knew of these files when it decided so.
            lasting: For how long, by the ledger's clock.

        Returns:
            False if another watcher was faster.
        """

    @abstractmethod
    def claim_again(self, pipeline: str, batch: str, lasting: timedelta) -> bool:
        """Takes over a claim that has ended, to tell its batch again; False if there is none, or another watcher was faster."""

    @abstractmethod
    def renew_claims(self, pipeline: str, batches: Iterable[str], lasting: timedelta) -> None:
        """Extends claims whose batches Airflow has not confirmed yet."""

    @abstractmethod
    def confirm_told(self, pipeline: str, batches: Iterable[str]) -> None:
        """Notes that Airflow has the events of batches; such as are unknown are left alone."""

    @abstractmethod
    def forget_told_files(self, pipeline: str, files: Iterable[ToldFile]) -> None:
        """Forgets files, unless they have been told in another batch meanwhile."""
