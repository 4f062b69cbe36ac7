"""The files that Airflow was notified of, in SQL; see state.notified_files for what each method promises.

Rows of a file can be inserted by two watchers at once, so writers of a pipeline lock one row of it first: that with the hash ''.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection, Row, delete, select, update

from cdc_ops.core import json_codec
from cdc_ops.core.archive.files import ListedFile
from cdc_ops.state.db import leases, table_rows
from cdc_ops.state.db.database import Database
from cdc_ops.state.db.schema import notified_files
from cdc_ops.state.notices.notified_files import NotificationStatus, NotifiedFile, NotifiedFilesReader, NotifiedFilesStore

T = TypeVar("T")
AT_ONCE: Final = 500
"""Rows of one statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """What of a file is neither searched for nor changed."""

    path: str
    file: ListedFile
    at: datetime


class _Reading(Protocol):
    _database: Database

    def _read(self, query: Callable[[Connection], T], empty: T) -> T: ...


class SqlNotifiedFilesReader(NotifiedFilesReader):
    """The reading half; a part of `SqlStateReader`."""

    def notified_files(self: "_Reading", pipeline: str) -> Mapping[str, NotifiedFile]:
        """See `NotifiedFilesReader`."""
        return self._read(lambda connection: _known(connection, pipeline), {})


class SqlNotifiedFilesStore(SqlNotifiedFilesReader, NotifiedFilesStore):
    """The writing half; a part of `SqlStateStore`."""

    def claim_files(
        self: "_Reading", pipeline: str, batch: str, files: Mapping[str, ListedFile], seen: Mapping[str, NotifiedFile], lasting: timedelta
    ) -> bool:
        """See `NotifiedFilesStore`."""
        with self._database.write() as connection:
            now, known = _lock(connection, pipeline), _known(connection, pipeline)
            if any(_notification(known.get(path)) != _notification(seen.get(path)) for path in files):
                return False
            rows = [
                _row(
                    pipeline,
                    NotifiedFile(path=path, file=file, batch=batch, status=NotificationStatus.CLAIMED, at=now, until=now + lasting),
                )
                for path, file in sorted(files.items())
            ]
            for start in range(0, len(rows), AT_ONCE):
                table_rows.upsert_all(connection, notified_files, rows[start : start + AT_ONCE])
        return True

    def claim_again(self: "_Reading", pipeline: str, batch: str, lasting: timedelta) -> bool:
        """See `NotifiedFilesStore`."""
        with self._database.write() as connection:
            now = _lock(connection, pipeline)
            ended = (*_claimed(pipeline, [batch]), notified_files.c.until <= now)
            return connection.execute(update(notified_files).where(*ended).values(until=now + lasting)).rowcount > 0

    def renew_claims(self: "_Reading", pipeline: str, batches: Iterable[str], lasting: timedelta) -> None:
        """See `NotifiedFilesStore`."""
        wanted = sorted(batches)
        if not wanted:
            return
        with self._database.write() as connection:
            now = _lock(connection, pipeline)
            connection.execute(update(notified_files).where(*_claimed(pipeline, wanted)).values(until=now + lasting))

    def confirm_notified(self: "_Reading", pipeline: str, batches: Iterable[str]) -> None:
        """See `NotifiedFilesStore`."""
        wanted = sorted(batches)
        if not wanted:
            return
        with self._database.write() as connection:
            _lock(connection, pipeline)
            connection.execute(update(notified_files).where(*_claimed(pipeline, wanted)).values(status=NotificationStatus.NOTIFIED.value))

    def forget_notified_files(self: "_Reading", pipeline: str, files: Iterable[NotifiedFile]) -> None:
        """See `NotifiedFilesStore`."""
        by_batch: dict[str, list[str]] = {}
        for file in files:
            by_batch.setdefault(file.batch, []).append(_hash(file.path))
        if not by_batch:
            return
        with self._database.write() as connection:
            _lock(connection, pipeline)
            for batch, hashes in sorted(by_batch.items()):
                for start in range(0, len(hashes), AT_ONCE):
                    mine = notified_files.c.pipeline == pipeline, notified_files.c.batch == batch
                    connection.execute(delete(notified_files).where(*mine, notified_files.c.path_hash.in_(hashes[start : start + AT_ONCE])))


def _lock(connection: Connection, pipeline: str) -> datetime:
    """Lets one writer of a pipeline in at a time, and returns the ledger's clock behind that door."""
    door = {"pipeline": pipeline, "path_hash": "", "batch": "", "status": "", "until": leases.clock(connection), "body": ""}
    table_rows.upsert(connection, notified_files, door)
    return leases.clock(connection)


def _claimed(pipeline: str, batches: Iterable[str]) -> tuple[Any, ...]:
    claimed = notified_files.c.status == NotificationStatus.CLAIMED.value
    return notified_files.c.pipeline == pipeline, notified_files.c.batch.in_(list(batches)), claimed


def _known(connection: Connection, pipeline: str) -> dict[str, NotifiedFile]:
    query = (
        select(notified_files)
        .where(notified_files.c.pipeline == pipeline, notified_files.c.path_hash != "")
        .order_by(notified_files.c.path_hash)
    )
    return {file.path: file for file in map(_file, connection.execute(query))}


def _notification(file: NotifiedFile | None) -> tuple[str, NotificationStatus] | None:
    """What must not have changed between a decision and a claim."""
    return None if file is None else (file.batch, file.status)


def _hash(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()


def _row(pipeline: str, file: NotifiedFile) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "path_hash": _hash(file.path),
        "batch": file.batch,
        "status": file.status.value,
        "until": file.until,
        "body": json_codec.dumps(_Body(path=file.path, file=file.file, at=file.at)),
    }


def _file(row: Row[Any]) -> NotifiedFile:
    body = json_codec.loads(_Body, row.body)
    return NotifiedFile(path=body.path, file=body.file, batch=row.batch, status=NotificationStatus(row.status), at=body.at, until=row.until)
