"""What the ledger keeps of archives, in SQL; see archive_base for what each method promises."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection, delete, select

from cdc_ops.core import json_codec
from cdc_ops.core.archive.completeness import GapRecord, GapStatus
from cdc_ops.core.archive.files import FileRecord, FileStatus
from cdc_ops.core.archive.listing import ListingMark
from cdc_ops.core.archive.watermarks import AcceptedGap, Gap
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.state.archive_base import ArchiveReader, ArchiveStore
from cdc_ops.state.db import leases, table_rows
from cdc_ops.state.db.database import Database
from cdc_ops.state.db.schema import archive_files, archive_gaps, archive_marks
from cdc_ops.state.lease import Lease

T = TypeVar("T")
AT_ONCE: Final = 500
"""Paths or rows of one statement."""


class _Reading(Protocol):
    _database: Database

    def _read(self, query: Callable[[Connection], T], empty: T) -> T: ...


class SqlArchiveReader(ArchiveReader):
    """The reading half; a part of `SqlStateReader`."""

    def archive_files(self: "_Reading", pipeline: str, table: TableName, paths: Iterable[str] | None = None) -> Mapping[str, FileRecord]:
        """See `ArchiveReader`."""
        return self._read(lambda connection: _by_path(_records(connection, pipeline, table, paths)), {})

    def pending_files(self: "_Reading", pipeline: str, table: TableName) -> Mapping[str, FileRecord]:
        """See `ArchiveReader`."""
        pending = archive_files.c.status.in_([FileStatus.WAITING.value, FileStatus.FROZEN.value])
        query = select(archive_files.c.body).where(table_rows.of_table(archive_files, pipeline, table), pending)
        return self._read(lambda connection: _by_path(map(_file, connection.scalars(query))), {})

    def frozen_files(self: "_Reading", pipeline: str, table: TableName, operation_id: str) -> tuple[FileRecord, ...]:
        """See `ArchiveReader`."""
        mine = (table_rows.of_table(archive_files, pipeline, table), archive_files.c.operation_id == operation_id)
        query = select(archive_files.c.body).where(*mine)
        none: tuple[FileRecord, ...] = ()
        records = self._read(lambda connection: tuple(map(_file, connection.scalars(query))), none)
        return tuple(sorted(records, key=lambda record: record.file.path))

    def listing_mark(self: "_Reading", pipeline: str, table: TableName) -> ListingMark | None:
        """See `ArchiveReader`."""
        query = select(archive_marks.c.body).where(table_rows.of_table(archive_marks, pipeline, table))
        text: str | None = self._read(lambda connection: connection.scalar(query), None)
        return None if text is None else json_codec.loads(ListingMark, text)

    def archive_gaps(self: "_Reading", pipeline: str | None = None, table: TableName | None = None) -> tuple[GapRecord, ...]:
        """See `ArchiveReader`."""
        query = select(archive_gaps.c.body).where(archive_gaps.c.status != GapStatus.CLOSED.value)
        if pipeline is not None:
            query = query.where(archive_gaps.c.pipeline == pipeline)
        if table is not None:
            query = query.where(archive_gaps.c.table_schema == table.schema, archive_gaps.c.table_name == table.name)
        ordered = query.order_by(*(archive_gaps.c[name] for name in ("pipeline", "table_schema", "table_name", "found_at", "gap_id")))
        return self._read(lambda connection: tuple(json_codec.loads(GapRecord, text) for text in connection.scalars(ordered)), ())


class SqlArchiveStore(SqlArchiveReader, ArchiveStore):
    """The writing half; a part of `SqlStateStore`."""

    def put_files(self: "_Reading", lease: Lease, records: Iterable[FileRecord], gone: Iterable[str] = ()) -> None:
        """See `ArchiveStore`."""
        values = {_hash(record.file.path): _row(lease, record) for record in records}
        forgotten = {_hash(path) for path in gone} - values.keys()
        if not values and not forgotten:
            return
        with self._database.write() as connection:
            leases.hold(connection, lease)
            mine = table_rows.of_table(archive_files, lease.pipeline, lease.table)
            for hashes in _portions(sorted(values.keys() | forgotten)):
                connection.execute(delete(archive_files).where(mine, archive_files.c.path_hash.in_(hashes)))
            for some in _portions(list(values.values())):
                connection.execute(archive_files.insert(), some)

    def put_listing_mark(self: "_Reading", lease: Lease, mark: ListingMark) -> None:
        """See `ArchiveStore`."""
        with self._database.write() as connection:
            leases.hold(connection, lease)
            table_rows.upsert(connection, archive_marks, table_rows.key(lease.pipeline, lease.table) | {"body": json_codec.dumps(mark)})

    def report_gaps(self: "_Reading", lease: Lease, gaps: Iterable[Gap]) -> tuple[GapRecord, ...]:
        """See `ArchiveStore`."""
        with self._database.write() as connection:
            leases.hold(connection, lease)
            now = leases.clock(connection)
            mine = table_rows.of_table(archive_gaps, lease.pipeline, lease.table)
            texts = connection.scalars(select(archive_gaps.c.body).where(mine))
            known = {record.gap_id: record for record in (json_codec.loads(GapRecord, text) for text in texts)}
            fresh = {
                record.gap_id: record
                for record in (
                    GapRecord(pipeline=lease.pipeline, table=lease.table, gap=gap, status=GapStatus.OPEN, found_at=now) for gap in gaps
                )
            }
            for gap_id, record in known.items():
                if record.status is GapStatus.OPEN and gap_id not in fresh:
                    _put_gap(connection, replace(record, status=GapStatus.CLOSED))
            for gap_id, record in fresh.items():
                if gap_id not in known:
                    _put_gap(connection, record)
                elif (before := known[gap_id]).status is GapStatus.CLOSED:
                    status = GapStatus.OPEN if before.decision is None else GapStatus.ACCEPTED
                    _put_gap(connection, replace(record, status=status, decision=before.decision))
        return SqlArchiveReader.archive_gaps(self, lease.pipeline, lease.table)

    def close_gaps(self: "_Reading", lease: Lease, gaps: Iterable[GapRecord]) -> None:
        """See `ArchiveStore`."""
        closed = [replace(record, status=GapStatus.CLOSED) for record in gaps]
        if not closed:
            return
        with self._database.write() as connection:
            leases.hold(connection, lease)
            for record in closed:
                _put_gap(connection, record)

    def accept_gap(
        self: "_Reading", pipeline: str, gap_id: str, *, who: str, why: str, tables: Collection[TableName] = ()
    ) -> tuple[GapRecord, ...]:
        """See `ArchiveStore`."""
        if not why.strip():
            raise RequestError(
                "An accepted gap needs a reason.",
                why="The reason is empty.",
                data="Nothing was changed.",
                next="State why the loss is acceptable.",
            )
        with self._database.write() as connection:
            wanted = (archive_gaps.c.pipeline == pipeline, archive_gaps.c.gap_id == gap_id)
            ordered = select(archive_gaps.c.body).where(*wanted).order_by(archive_gaps.c.table_schema, archive_gaps.c.table_name)
            texts = connection.scalars(ordered.with_for_update())
            found = [json_codec.loads(GapRecord, text) for text in texts]
            accepted = tuple(
                _accepted(connection, record, who, why.strip())
                for record in found
                if record.status is not GapStatus.CLOSED and (not tables or record.table in tables)
            )
        if accepted:
            return accepted
        of_tables = f" of {', '.join(map(str, tables))}" if tables else ""
        known = ", ".join(record.gap_id for record in SqlArchiveReader.archive_gaps(self, pipeline)) or "none"
        raise RequestError(
            f"Pipeline {pipeline!r} has no open gap {gap_id!r}{of_tables}.",
            why=f"Open gaps are: {known}.",
            data="Nothing was changed.",
            next="List the gaps again: cdc-ops gap list. A gap whose range changed has another id.",
        )


def _records(connection: Connection, pipeline: str, table: TableName, paths: Iterable[str] | None) -> Iterator[FileRecord]:
    mine = select(archive_files.c.body).where(table_rows.of_table(archive_files, pipeline, table))
    if paths is None:
        yield from map(_file, connection.scalars(mine))
        return
    for hashes in _portions(sorted({_hash(path) for path in paths})):
        yield from map(_file, connection.scalars(mine.where(archive_files.c.path_hash.in_(hashes))))


def _by_path(records: Iterable[FileRecord]) -> Mapping[str, FileRecord]:
    return {record.file.path: record for record in records}


def _file(text: str) -> FileRecord:
    return json_codec.loads(FileRecord, text)


def _hash(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()


def _row(lease: Lease, record: FileRecord) -> dict[str, Any]:
    return table_rows.key(lease.pipeline, lease.table) | {
        "path_hash": _hash(record.file.path),
        "status": record.status.value,
        "operation_id": record.operation_id,
        "body": json_codec.dumps(record),
    }


def _put_gap(connection: Connection, record: GapRecord) -> None:
    values = {"gap_id": record.gap_id, "status": record.status.value, "found_at": record.found_at, "body": json_codec.dumps(record)}
    table_rows.upsert(connection, archive_gaps, table_rows.key(record.pipeline, record.table) | values)


def _accepted(connection: Connection, record: GapRecord, who: str, why: str) -> GapRecord:
    """Accepts an open gap; one that is accepted keeps its first decision."""
    if record.status is GapStatus.ACCEPTED:
        return record
    gap, at = record.gap, leases.clock(connection)
    decision = AcceptedGap(stream=gap.stream, low=gap.low, high=gap.high, who=who, at=at, why=why)
    accepted = replace(record, status=GapStatus.ACCEPTED, decision=decision)
    _put_gap(connection, accepted)
    return accepted


def _portions(items: list[T]) -> Iterator[list[T]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
