"""The versions of pipeline files, in SQL; see state.pipeline_files for what each method promises."""

import hashlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection, delete, select

from cdc_ops.state.db import leases, table_rows
from cdc_ops.state.db.database import Database
from cdc_ops.state.db.schema import pipeline_files
from cdc_ops.state.notices.pipeline_files import KEPT, PipelineFileReader, PipelineFileStore, PipelineVersion

T = TypeVar("T")


class _Reading(Protocol):
    _database: Database

    def _read(self, query: Callable[[Connection], T], empty: T) -> T: ...


class SqlPipelineFileReader(PipelineFileReader):
    """The reading half; a part of `SqlStateReader`."""

    def pipeline_versions(self: "_Reading", pipeline: str, *, limit: int = KEPT) -> tuple[PipelineVersion, ...]:
        """See `PipelineFileReader`."""
        return self._read(lambda connection: _versions(connection, pipeline, limit), ())


class SqlPipelineFileStore(SqlPipelineFileReader, PipelineFileStore):
    """The writing half; a part of `SqlStateStore`."""

    def note_pipeline_file(self: "_Reading", pipeline: str, text: str, run_id: str) -> None:
        """See `PipelineFileStore`. A run that works by the newest version costs one query, and locks nothing."""
        digest = hashlib.sha256(text.encode()).hexdigest()
        newest = (
            select(pipeline_files.c.number, pipeline_files.c.digest)
            .where(pipeline_files.c.pipeline == pipeline)
            .order_by(pipeline_files.c.number.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            known = connection.execute(newest).first()
        if known is not None and known.digest == digest:
            return
        with self._database.write() as connection:
            known = connection.execute(newest.with_for_update()).first()
            if known is not None and known.digest == digest:
                return
            number = known.number + 1 if known else 1
            row = {"number": number, "digest": digest, "text": text, "run_id": run_id, "since": leases.clock(connection)}
            table_rows.upsert(connection, pipeline_files, {"pipeline": pipeline, **row})  # two at once: the last one stays
            connection.execute(
                delete(pipeline_files).where(pipeline_files.c.pipeline == pipeline, pipeline_files.c.number <= number - KEPT)
            )


def _versions(connection: Connection, pipeline: str, limit: int) -> tuple[PipelineVersion, ...]:
    query = select(pipeline_files).where(pipeline_files.c.pipeline == pipeline).order_by(pipeline_files.c.number.desc()).limit(limit)
    return tuple(
        PipelineVersion(pipeline=row.pipeline, number=row.number, text=row.text, run_id=row.run_id, since=row.since)
        for row in connection.execute(query)
    )
