"""The archiver: copies a server's closed binlogs into an archive, each once, whole and checked. No Spark, no ledger.

    what the server lists, what the archive has -> core.archive.binlog_copies.plan_copies -> each file: dump, check, write, publish

Nothing is remembered between runs: the names in the archive say what is there. A killed run leaves whole files only; the next goes on.
"""

import hashlib
import io
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cdc_ops.archives.atomic_files import ArchiveWriter, NewFile
from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.config.fields.values import longest_wait
from cdc_ops.core.archive.binlogs.binlog_check import BinlogCheck, BinlogEnd, BinlogSummary, holds_changes
from cdc_ops.core.archive.binlogs.binlog_copies import (
    ArchivedBinlog,
    CopyPlan,
    MissingBinlogs,
    ServerBinlog,
    follows,
    gap_error,
    plan_copies,
    purge_warning,
    replaced_error,
    retention_warnings,
    same_beginning,
)
from cdc_ops.core.archive.file_names import BinlogName, Compression, Layout, parse_name
from cdc_ops.core.archive.files import ListedRange
from cdc_ops.core.binlog.events import MAGIC
from cdc_ops.core.binlog.file_begin import FileBegin, read_begin
from cdc_ops.core.pipeline.archive_config import CopyCompression
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.text import size_text
from cdc_ops.errors import ArchiveGapError, ConfigError
from cdc_ops.sources.mysql.binlogs.server import BinlogServer, ServerIdentity
from cdc_ops.steps.archive.replaced_binlogs import BEGINNING, beginning_of

logger = logging.getLogger("cdc_ops.archive")

_BLOCK: Final = 256 * 1024
"""Bytes that are written at once: events are small and many."""
_READABLE: Final = (Compression.NONE, Compression.GZIP, Compression.ZSTD)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedBinlog:
    """A binlog that this run has copied.

    Args:
        path: In the archive, relative to its root.
        stored_bytes: Its size there.
        summary: What is in it.
    """

    path: str
    stored_bytes: int
    summary: BinlogSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What a run of the archiver has done, or would do.

    Args:
        pipeline: Its name.
        url: The archive.
        folder: The server's folder there.
        server: Host and port, and the server's version.
        copied: What this run has copied, in order.
        pending: What is still to be copied; empty unless nothing was to be written.
        active: The binlog that the server is writing.
        archived: How many binlogs of the server the archive has now.
        missing: What the archive lacks and the server no longer has.
        warnings: What somebody should know.
    """

    pipeline: str
    url: str
    folder: str
    server: str
    copied: tuple[CopiedBinlog, ...] = ()
    pending: tuple[ServerBinlog, ...] = ()
    active: str = ""
    archived: int = 0
    missing: tuple[MissingBinlogs, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def gap(self) -> ArchiveGapError | None:
        """The error of what is missing, None if nothing is."""
        return gap_error(self.missing, f"{self.url.rstrip('/')}/{self.folder}") if self.missing else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One run: the server, the archive, and what is known of both."""

    pipeline: Pipeline
    server: BinlogServer
    identity: ServerIdentity
    archive: Archive
    interval: timedelta | None

    @property
    def folder(self) -> str:
        return self.pipeline.archive.copy.server or self.identity.name

    @property
    def first_file(self) -> str:
        return self.pipeline.archive.copy.first_file


def archive_binlogs(pipeline: Pipeline, url: str, *, flush: bool = False, dry_run: bool = False) -> CopyReport:
    """Copies the closed binlogs of a pipeline's server that its archive does not have; each is logged.

    Args:
        pipeline: With `archive.copy`.
        url: Connection URL of the server, with credentials.
        flush: Close the newest binlog first, also if the pipeline file does not say so.
        dry_run: Only say what is to be copied, and what is missing.

    Raises:
        ConfigError: the pipeline copies no binlogs.
        SourceError: the server refuses or does not answer; the files that are named before are archived.
        BinlogsReplacedError: the server is not the one whose binlogs the archive has.
        BinlogCopyError: what the server sends is not a whole binlog.
        ArchiveError: the archive cannot be read or written.
        LeaseHeldError: another process does the same.
    """
    rules = pipeline.archive
    if not rules.copy.is_set:
        raise ConfigError(
            f"The pipeline {pipeline.name!r} copies no binlogs.",
            data="Nothing was copied.",
            next="Write 'copy: {connection: ID}' into the 'archive' of its file (docs/archives.md#the-archiver).",
        )
    with closing(BinlogServer(url)) as server, closing(open_archive(rules.url, dict(rules.options))) as archive:
        work = _Work(
            pipeline=pipeline,
            server=server,
            identity=server.identity(),
            archive=archive,
            interval=longest_wait(pipeline.cron),
        )
        if dry_run:
            return _looked(work)
        with server.only_one(_lock_name(pipeline, work.folder)):
            return _copied(work, flush=flush or rules.copy.flush)


def _looked(work: _Work) -> CopyReport:
    listed, plan, archived = _plan(work)
    return replace(_report(work, listed, plan, archived), pending=plan.copies, warnings=_warnings(work, listed, plan))


def _copied(work: _Work, *, flush: bool) -> CopyReport:
    ArchiveWriter(work.archive).clear(f"{work.folder}/")
    listed, plan, archived = _plan(work)
    if flush and holds_changes(work.server.beginning(listed[-1].name, BEGINNING)):
        work.server.flush()
        listed, plan, archived = _plan(work)
    warnings = _warnings(work, listed, plan)
    copied = tuple(_copy(work, file) for file in plan.copies)
    crashed = [item.path for item in copied if item.summary.end is BinlogEnd.CRASH]
    told = (
        (f"{', '.join(crashed)}: the server ended without closing it, so its last transactions may have been rolled back",)
        if crashed
        else ()
    )
    return replace(_report(work, listed, plan, archived), copied=copied, archived=archived + len(copied), warnings=(*warnings, *told))


def _report(work: _Work, listed: tuple[ServerBinlog, ...], plan: CopyPlan, archived: int) -> CopyReport:
    return CopyReport(
        pipeline=work.pipeline.name,
        url=work.pipeline.archive.url,
        folder=work.folder,
        server=f"{work.server.place}, {work.identity.version}",
        active=listed[-1].name,
        archived=archived,
        missing=plan.missing,
    )


def _plan(work: _Work) -> tuple[tuple[ServerBinlog, ...], CopyPlan, int]:
    """Returns what the server has, what is to be done, and how many files the archive has.

    Raises:
        BinlogsReplacedError: the server is another one.
    """
    archived = _archived(work)
    listed = work.server.binlogs()
    plan = plan_copies(listed, archived, work.first_file)
    _recognise(work, plan)
    return listed, plan, len({item.name.number for item in archived})


def _archived(work: _Work) -> tuple[ArchivedBinlog, ...]:
    files = work.archive.list([ListedRange(prefix=f"{work.folder}/")]).files
    names = ((parse_name(Layout.BINLOG, file.path), file.size) for file in files)
    return tuple(ArchivedBinlog(name=name, size=size) for name, size in names if isinstance(name, BinlogName) and name.host == work.folder)


def _recognise(work: _Work, plan: CopyPlan) -> None:
    """Makes sure that the server is the one whose binlogs are archived; so the user's right to read binlogs is seen too.

    Where both have a binlog, it begins with the same bytes. Where they have none in common, the next one begins behind the archive's last.
    """
    if plan.recognised_by is not None:
        copy, file = plan.recognised_by
        begins_alike = same_beginning(beginning_of(work.archive, copy.name), work.server.beginning(file.name, BEGINNING))
        if copy.name.compression in _READABLE and not begins_alike:
            raise replaced_error(work.folder, f"{file.name} begins with other bytes in the archive than at the server")
    elif plan.copies:
        first = plan.copies[0].name
        begin = _begin(first, work.server.beginning(first, BEGINNING))
        known = plan.followed
        if known is not None and known.name.compression in _READABLE:
            before = _begin(known.name.path, beginning_of(work.archive, known.name))
            if not follows(before, begin):
                raise replaced_error(work.folder, f"{first} begins before transactions that the archive has in {known.name.path}")


def _begin(name: str, beginning: bytes) -> FileBegin:
    return read_begin(name, io.BytesIO(beginning).read)


def _warnings(work: _Work, listed: tuple[ServerBinlog, ...], plan: CopyPlan) -> tuple[str, ...]:
    retention = work.server.retention()
    found = retention_warnings(retention, work.interval)
    if not plan.copies or retention.keeps is None:
        return found
    oldest = plan.copies[0]
    behind = next(file for file, before in zip(listed[1:], listed, strict=False) if before == oldest)
    closed = datetime.fromtimestamp(_begin(behind.name, work.server.beginning(behind.name, 1)).time, UTC)
    late = purge_warning(oldest.name, closed + retention.keeps - work.server.now(), work.interval)
    return (*found, late) if late else found


def _copy(work: _Work, file: ServerBinlog) -> CopiedBinlog:
    """Copies one file, which is visible in the archive once it is whole and checked."""
    compress = work.pipeline.archive.copy.compress
    path = f"{work.folder}/{file.name}{compress.suffix}"
    with ArchiveWriter(work.archive).new_file(path) as new:
        summary = _write(work, file, new, compress)
        stored = new.size
        if not new.publish():
            _check_other(work, file, path, stored)
    logger.info(
        f"{path}: {size_text(summary.size)}, {summary.events:,} events" + (f", stored in {size_text(stored)}" if compress.suffix else "")
    )
    return CopiedBinlog(path=path, stored_bytes=stored, summary=summary)


def _check_other(work: _Work, file: ServerBinlog, path: str, size: int) -> None:
    """Makes sure that a file which somebody else has archived meanwhile is a copy of the same binlog."""
    there = next((item for item in _archived(work) if item.name.path == path), None)
    if (
        there is None
        or there.size != size
        or not same_beginning(beginning_of(work.archive, there.name), work.server.beginning(file.name, BEGINNING))
    ):
        raise replaced_error(work.folder, f"Another process has archived another {file.name} there")


def _write(work: _Work, file: ServerBinlog, new: NewFile, compress: CopyCompression) -> BinlogSummary:
    check = BinlogCheck(file.name)
    with _compressed(new, compress) as out, closing(work.server.pieces(file.name)) as pieces:
        block = bytearray(MAGIC)
        for piece, first, last in pieces:
            block += check.take(piece, first=first, last=last)
            block += piece
            if len(block) >= _BLOCK:
                out.write(block)
                block.clear()
        out.write(block)
        return check.finish(file.size)


@contextmanager
def _compressed(new: NewFile, compress: CopyCompression) -> Iterator[Any]:
    """Yields what takes the bytes of a file; the same bytes always become the same file."""
    if compress is CopyCompression.NONE:
        yield new
        return
    import pyarrow

    with pyarrow.CompressedOutputStream(pyarrow.PythonFile(new, "wb"), compress.value) as out:
        yield out


def _lock_name(pipeline: Pipeline, folder: str) -> str:
    place = f"{pipeline.archive.url.rstrip('/')}/{folder}"
    return f"cdc-ops archive {hashlib.sha256(place.encode()).hexdigest()[:32]}"
