"""What the ledger keeps for watchers of archives: the files that Airflow has been notified of and no run has consumed.

    new file -> claimed (a watcher is about to send its event) -> notified (Airflow has stored it) -> forgotten (the tables have it)

A watcher claims files before it sends their event, so only one of two watchers does. If it ends in between, its claim expires, and the
next watcher sends the same batch again under the same id.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_ops.core.archive.files import ListedFile


class NotificationStatus(enum.StrEnum):
    """How far the notification of a file has come."""

    CLAIMED = "claimed"
    """A watcher is about to send its event."""
    NOTIFIED = "notified"
    """Airflow has it: a run has started, or will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedFile:
    """A file of an archive that Airflow has been notified of, or is about to be.

    Args:
        path: Its full path or URL.
        file: As it was then.
        batch: Id of the batch in which its event is sent.
        status: How far that has come.
        at: When it was claimed, by the ledger's clock, UTC.
        until: When a claim ends, by the same clock.
    """

    path: str
    file: ListedFile
    batch: str
    status: NotificationStatus
    at: datetime
    until: datetime

    def is_doubtful(self, now: datetime) -> bool:
        """True if its watcher is gone, and nobody knows whether Airflow has the event."""
        return self.status is NotificationStatus.CLAIMED and self.until <= now


class NotifiedFilesReader(ABC):
    """Reads what Airflow was notified of."""

    @abstractmethod
    def notified_files(self, pipeline: str) -> Mapping[str, NotifiedFile]:
        """Returns the files that are claimed or notified and not forgotten, by path."""


class NotifiedFilesStore(NotifiedFilesReader):
    """Writes it, one writer of a pipeline at a time. No lease is needed: it decides nothing of what is read or written of a table."""

    @abstractmethod
    def claim_files(
        self, pipeline: str, batch: str, files: Mapping[str, ListedFile], seen: Mapping[str, NotifiedFile], lasting: timedelta
    ) -> bool:
        """Claims files for a watcher that is about to send their event, all or none.

        Args:
            pipeline: Of the watcher.
            batch: Id of the batch.
            files: What the event is about, by full path.
            seen: What it knew of these files when it decided so.
            lasting: For how long, by the ledger's clock.

        Returns:
            False if another watcher was faster.
        """

    @abstractmethod
    def claim_again(self, pipeline: str, batch: str, lasting: timedelta) -> bool:
        """Takes over an expired claim, to send its batch again; False if there is none, or another watcher was faster."""

    @abstractmethod
    def renew_claims(self, pipeline: str, batches: Iterable[str], lasting: timedelta) -> None:
        """Extends claims whose batches Airflow has not confirmed yet."""

    @abstractmethod
    def confirm_notified(self, pipeline: str, batches: Iterable[str]) -> None:
        """Notes that Airflow has the events of batches; such as are unknown are left alone."""

    @abstractmethod
    def forget_notified_files(self, pipeline: str, files: Iterable[NotifiedFile]) -> None:
        """Forgets files, unless another batch has notified Airflow of them meanwhile."""
