"""Checks the events of one binlog as its server sends them, and says where the copy's bytes differ from what is sent. Pure.

    events on the wire -> BinlogCheck.take -> bytes to store; BinlogCheck.finish -> BinlogSummary | BinlogCopyError

A server frames a file with events that are not in it: an artificial ROTATE before it and behind it, heartbeats between. An artificial
event has the flag `ARTIFICIAL`; a file's own ROTATE has not.

Sources: MySQL and MariaDB, replication protocol; the dump of a closed file was compared with the file byte by byte on both.
"""

import enum
import struct
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cdc_ops.core.binlog.byte_reader import MalformedBytesError
from cdc_ops.core.binlog.events import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    MAGIC,
    POSITION_WRAP,
    EventFlag,
    EventType,
    name_of,
    read_format_description,
    read_header,
)
from cdc_ops.errors import BinlogCopyError

_FRAMES: Final = frozenset((int(EventType.ROTATE), int(EventType.HEARTBEAT), int(EventType.HEARTBEAT_V2)))
_FORMAT: Final = int(EventType.FORMAT_DESCRIPTION)
_HEADER: Final = struct.Struct("<IBIIIH")
"""As `core.binlog.events` reads it; here for each of millions of events, without a value made of it."""
_TYPE_AT: Final = 4
_PREAMBLE: Final = (
    *(EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS),
    *(EventType.MARIADB_GTID_LIST, EventType.MARIADB_BINLOG_CHECKPOINT, EventType.MARIADB_START_ENCRYPTION),
)
"""What every binlog begins with: its format, the transactions before it by MySQL or MariaDB, and MariaDB's checkpoint."""
_ENCRYPTION_EVENT: Final = HEADER_SIZE + 17
"""Length of MariaDB's START_ENCRYPTION without checksum: scheme, key version and nonce."""


class BinlogEnd(enum.StrEnum):
    """The last event of a closed binlog."""

    ROTATE = "rotate"
    STOP = "stop"
    """The server was shut down."""
    CRASH = "crash"
    """Neither: the server ended without closing the file, and began another one when it started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogSummary:
    """What a whole binlog is.

    Args:
        size: Bytes of the copy, uncompressed.
        events: Events in it.
        begun_at, ended_at: Times of the first and the last event, by the server's clock, UTC.
        end: How it ends.
        was_encrypted: Whether MariaDB has it encrypted on its disk; see `BinlogCheck.take`.
    """

    size: int
    events: int
    begun_at: datetime
    ended_at: datetime
    end: BinlogEnd
    was_encrypted: bool = False


class BinlogCheck:
    """Follows the events of one file from its first byte to its last.

    Args:
        name: The file, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._size = len(MAGIC)
        self._events = 0
        self._begun = self._ended = 0
        self._last = 0
        self._checksummed = False
        self._was_encrypted = False
        self._length = self._seen = self._crc = 0
        self._checksum = b""

    @property
    def size(self) -> int:
        """Bytes of the file so far."""
        return self._size

    def take(self, piece: memoryview, *, first: bool, last: bool) -> bytes:
        """Checks a piece of an event of the file.

        Args:
            piece: The whole event, or a part of a large one. The first part has at least the header.
            first, last: Whether the event begins, and ends, with this piece.

        Returns:
            What the copy has before this piece and the server does not send, usually nothing. MariaDB leaves out the event that says how
            its file is encrypted; an ignorable event of the same length keeps all positions as they are on the server.

        Raises:
            BinlogCopyError: the event cannot be one of this file.
        """
        filler = self._begin(piece) if first else b""
        covered = self._length - CHECKSUM_SIZE - self._seen if self._checksummed else 0
        if covered > 0:
            self._crc = zlib.crc32(piece[:covered], self._crc)
        if self._checksummed and covered < len(piece):
            self._checksum += bytes(piece[max(covered, 0) :])
        self._seen += len(piece)
        if last:
            self._end()
        return filler

    def finish(self, expected: int) -> BinlogSummary:
        """Returns what the file is, when its server has nothing more of it.

        Args:
            expected: Its length, as the server lists it.

        Raises:
            BinlogCopyError: the length differs, or nothing was sent.
        """
        if self._size != expected or not self._events:
            raise self._damaged(f"the server lists {expected:,} bytes and sends {self._size:,}")
        ends: dict[int, BinlogEnd] = {EventType.ROTATE: BinlogEnd.ROTATE, EventType.STOP: BinlogEnd.STOP}
        return BinlogSummary(
            size=self._size,
            events=self._events,
            begun_at=datetime.fromtimestamp(self._begun, UTC),
            ended_at=datetime.fromtimestamp(self._ended, UTC),
            end=ends.get(self._last, BinlogEnd.CRASH),
            was_encrypted=self._was_encrypted,
        )

    def _begin(self, piece: memoryview) -> bytes:
        time, kind, _, length, position, _ = _HEADER.unpack_from(piece)
        if (kind == _FORMAT) != (not self._events):
            raise self._damaged(f"its {'first' if not self._events else 'second or a later'} event is {name_of(kind)}")
        filler = self._filler(length, position) if self._events == 1 else b""
        self._size += len(filler)
        end = self._size + length
        if position not in (end, 0) and end < POSITION_WRAP:
            raise self._damaged(f"an event of {length:,} bytes at {self._size:,} says that it ends at {position:,}")
        if not self._events:
            self._checksummed = self._reads_checksums(bytes(piece))
            self._begun = time
        self._ended = time or self._ended
        self._length, self._seen, self._crc, self._checksum, self._last = length, 0, 0, b"", kind
        return filler

    def _reads_checksums(self, format_event: bytes) -> bool:
        try:
            return read_format_description(format_event).checksummed
        except MalformedBytesError as error:
            raise self._damaged(str(error)) from None

    def _end(self) -> None:
        if self._seen != self._length:
            raise self._damaged(f"an event at {self._size:,} has {self._seen:,} bytes and says {self._length:,}")
        if self._checksummed and int.from_bytes(self._checksum, "little") != self._crc:
            raise self._damaged(f"the checksum of the event at {self._size:,} is wrong")
        self._size += self._length
        self._events += 1

    def _filler(self, length: int, position: int) -> bytes:
        """Returns an event in place of the one that MariaDB does not send, b"" if the second event follows the first."""
        missing = position - self._size - length
        if missing != _ENCRYPTION_EVENT + (CHECKSUM_SIZE if self._checksummed else 0):
            return b""
        self._was_encrypted = True
        header = _HEADER.pack(0, EventType.IGNORABLE, 0, missing, self._size + missing, EventFlag.IGNORABLE)
        event = header + bytes(_ENCRYPTION_EVENT - HEADER_SIZE)
        return event + zlib.crc32(event).to_bytes(CHECKSUM_SIZE, "little") if self._checksummed else event

    def _damaged(self, why: str) -> BinlogCopyError:
        return BinlogCopyError(
            f"The binlog {self._name} is not what it should be: {why}.",
            why="The server sends it like that: the file may be damaged on its disk, or something between changed it.",
            data="The file was not archived, and no later one; those before it are.",
            next=f"Check it on the server: mysqlbinlog --verify-binlog-checksum {self._name}. If it cannot be repaired, set"
            " 'archive.copy.first_file' to the file behind it; tables that are read from the archive need a resync then.",
        )


def is_in_file(event: memoryview) -> bool:
    """Returns whether an event is one of the file, and not a heartbeat or a name with which the server frames it."""
    if event[_TYPE_AT] not in _FRAMES:
        return True
    header = read_header(event)
    return header.type == EventType.ROTATE and not (header.has(EventFlag.ARTIFICIAL) and not header.position)


def names_a_file(event: memoryview) -> bool:
    """Returns whether an event that is in no file says which file comes now."""
    return read_header(event).type == EventType.ROTATE


def holds_changes(beginning: bytes) -> bool:
    """Returns whether a binlog has more than what every new one begins with.

    Args:
        beginning: Whole events from its start; all of them, unless some hold changes or they are very many.
    """
    at = len(MAGIC)
    while at + HEADER_SIZE <= len(beginning):
        header = read_header(beginning[at : at + HEADER_SIZE])
        if header.type not in _PREAMBLE:
            return True
        at += max(header.size, HEADER_SIZE)
    return False
