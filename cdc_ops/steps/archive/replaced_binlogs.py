"""Finds binlogs that were written again under names that a table has passed: after a RESET, or by another server. No Spark.

Numbers say nothing of it: they begin anew. A file below the watermark that changed or arrived late has to have begun before the last one
that the table has; one that began later is of another sequence, whose earlier files nobody would read.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Final

from cdc_ops.archives.base import Archive
from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts
from cdc_ops.core.archive.binlogs.binlog_sequence import begins_alike, binlog_name, text_of_gtids
from cdc_ops.core.archive.file_names import BinlogName, Compression, FileName
from cdc_ops.core.archive.files import FileRecord, FileStatus, ListedFile
from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.binlog.event_stream import FileEnd
from cdc_ops.core.binlog.file_begin import read_begin
from cdc_ops.errors import ArchiveOrderError

BEGINNING: Final = 64 * 1024
"""Bytes by which a binlog is recognised: its format, the transactions before it, and the first ones in it."""
_PACKED_BEGINNING: Final = 16 * BEGINNING
"""Bytes that are read of an archived one: its beginning, whether that is compressed, or is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFiles:
    """What is known of the files of a listing.

    Args:
        listed: The files as they are now, by path.
        known: What the ledger knows of them.
        since: When everything was listed before, by the store's clock; None = never.
    """

    listed: Mapping[str, ListedFile]
    known: Mapping[str, FileRecord]
    since: datetime | None


def check_not_replaced(archive: Archive, names: Iterable[FileName], files: KnownFiles, watermark: ArchiveWatermark) -> None:
    """Refuses an archive in which binlogs that the table has passed were replaced by those of another sequence.

    Args:
        archive: Open archive, of which the first bytes of files are read that changed or arrived below the watermark.
        names: Of all files that were listed.
        files: What is known of them.
        watermark: Where the table stands.

    Raises:
        ArchiveOrderError: a binlog was replaced.
        BinlogError: a binlog that changed cannot be read.
    """
    if (last := watermark.last_binlog) is None:
        return
    reached = binlog_name(last.path)
    for name in names:
        if not isinstance(name, BinlogName) or name.stream != reached.stream or name.number > reached.number or not _is_new(name, files):
            continue
        here = begin_of(archive, name)
        is_same = here is None or (begins_alike(last, here) if name.number == reached.number else here.begun <= last.begun)
        if not is_same:
            raise _replaced(name.path, last)


def begin_of(archive: Archive, name: BinlogName) -> BinlogFacts | None:
    """Returns what the begin of an archived binlog says, None if it is compressed in a way that is not read here.

    Raises:
        BinlogError: it is no binlog, damaged or cut at its begin.
    """
    if not (beginning := beginning_of(archive, name)):
        return None
    begin = read_begin(name.path, BytesIO(beginning).read)
    before = text_of_gtids(begin.server_id, begin.gtids)
    return BinlogFacts(
        path=name.path,
        size=0,
        complete_to=0,
        end=FileEnd.NONE,
        next_name="",
        before=before,
        after="",
        transactions=0,
        server_id=begin.server_id,
        begun=begin.time,
        started=bool(begin.description.created),
    )


def beginning_of(archive: Archive, name: BinlogName) -> bytes:
    """Returns the first bytes of an archived binlog as they are uncompressed, b"" if it is compressed in another way than copies are."""
    packed = archive.head(name.path, _PACKED_BEGINNING)
    match name.compression:
        case Compression.NONE:
            return packed
        case Compression.GZIP:
            return zlib.decompressobj(31).decompress(packed, _PACKED_BEGINNING)
        case Compression.ZSTD:
            import pyarrow

            with pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd") as stream:
                return bytes(stream.read(BEGINNING))
        case _:
            return b""


def _is_new(name: BinlogName, files: KnownFiles) -> bool:
    """True for a file that is not what was read of it, or that arrived after everything had been listed."""
    file, record = files.listed[name.path], files.known.get(name.path)
    if record is not None:
        return record.status is FileStatus.CONSUMED and not file.same_as(record.file)
    return files.since is not None and file.modified is not None and file.modified > files.since


def _replaced(path: str, last: BinlogFacts) -> ArchiveOrderError:
    return ArchiveOrderError(
        f"{path} was replaced by a binlog of another sequence: the table has followed the binlogs up to {last.path}, which begins otherwise"
        " or was begun before it.",
        why="After RESET BINARY LOGS (RESET MASTER), or on a new server, numbers begin anew, and files are copied over old names.",
        data="Nothing was read or written; the watermark stays.",
        next="Give the new binlogs a folder of their own, and read all rows anew: 'cdc-ops resync --mode full'. If a wrong file was copied,"
        " bring back the right one.",
    )
