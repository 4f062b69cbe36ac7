"""Reads the events of a binlog one by one, with their own offsets and verified checksums. Pure: the bytes come from the caller.

    read(size) -> EventStream -> RawEvent ... -> FileEnd

Memory is that of the largest event: bytes are read as they come, and a length that the file does not hold allocates nothing.
Offsets are counted here, because those in headers have 4 bytes only and begin anew in files above 4 GiB; a header that contradicts the
count is damage.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.binlog import refusals
from cdc_ops.core.binlog.byte_reader import MalformedBytesError
from cdc_ops.core.binlog.events import (
    CHECKSUM_SIZE,
    ENCRYPTED_MAGIC,
    HEADER_SIZE,
    LARGEST_EVENT,
    MAGIC,
    POSITION_WRAP,
    EventFlag,
    EventHeader,
    EventType,
    FormatDescription,
    checksum,
    name_of,
    read_format_description,
    read_header,
    stored_checksum,
)

Read = Callable[[int], bytes]
"""Returns at most so many bytes, fewer if they are not there yet, and none at the end of the file."""

_AT_ONCE: Final = 1 << 20


class FileEnd(enum.StrEnum):
    """How a file ends."""

    ROTATE = "rotate"
    """With the name of the next file: the server closed it."""
    STOP = "stop"
    """The server was shut down."""
    NONE = "none"
    """With any other event: the server wrote on, or crashed."""


@dataclass(frozen=True, slots=True)
class RawEvent:
    """One event, checked.

    Args:
        offset: Where it begins in its file; that of the compressed transaction for events within one.
        inner: Its number within a compressed transaction, from 1; 0 outside.
        header: Its header.
        data: The whole event with its header and without its checksum.
    """

    offset: int
    inner: int
    header: EventHeader
    data: bytes

    @property
    def body(self) -> bytes:
        """What stands between header and checksum."""
        return self.data[HEADER_SIZE:]

    @property
    def end(self) -> int:
        """The offset behind an event outside of a compressed transaction."""
        return self.offset + self.header.size


class EventStream:
    """The events of one file.

    The description of the format is read at once; a stream that begins in the middle gets the description of the same file.

    Args:
        file: The name of the file, for messages.
        read: Returns its bytes.
        start: Where the bytes begin: 0, or the begin of an event.
        description: The description of the file, if the bytes begin in its middle.

    Raises:
        BinlogError: it is no binlog, or encrypted, or damaged at its begin.
    """

    def __init__(self, file: str, read: Read, *, start: int = 0, description: FormatDescription | None = None) -> None:
        self.file = file
        self.offset = start
        """Behind the last event that was read whole."""
        self._read = read
        self._last = FileEnd.NONE
        self._first: RawEvent | None = None
        self._ahead = b""
        if description is None:
            description = self._opened()
        self.description = description

    @property
    def ended(self) -> FileEnd:
        """How the file ends, once all events were read."""
        return self._last

    def __iter__(self) -> Iterator[RawEvent]:
        """Yields the events, from the description of the format on.

        Raises:
            BinlogError: bytes do not fit the format or their checksum, the file is encrypted, or ends within an event.
        """
        while (event := self.next_event()) is not None:
            yield event

    def next_event(self) -> RawEvent | None:
        """Returns the next event, None at the end of the file.

        Raises:
            BinlogError: as the iteration.
        """
        event, self._first = self._first or self._next(), None
        if event is not None:
            self._last = _END_OF.get(event.header.type, FileEnd.NONE)
        return event

    def skip_to(self, offset: int) -> None:
        """Goes on behind events that somebody else has read and verified, of which none ends the file.

        Args:
            offset: Where the next event begins; what `read` returns next begins there, too.
        """
        self.offset = offset
        self._ahead = b""
        self._last = FileEnd.NONE

    def _opened(self) -> FormatDescription:
        magic = self._bytes(len(MAGIC))
        check_magic(self.file, magic)
        self.offset = len(MAGIC)
        header, data = self._raw()
        if header is None:
            raise refusals.cut(self.file, self.offset, "nothing stands behind its first 4 bytes")
        if header.type != EventType.FORMAT_DESCRIPTION:
            why = f"it begins with {name_of(header.type)}, and not with the description of its format"
            raise refusals.damaged(self.file, self.offset, why)
        try:
            description = read_format_description(data)
        except MalformedBytesError as error:
            raise refusals.damaged(self.file, self.offset, str(error)) from None
        self._first = RawEvent(self.offset, 0, header, data[:-CHECKSUM_SIZE])
        self._pass(header)
        return description

    def _next(self) -> RawEvent | None:
        header, data = self._raw()
        if header is None:
            return None
        if header.type == EventType.MARIADB_START_ENCRYPTION and not self._goes_on_plain(self.offset + header.size):
            raise refusals.encrypted(self.file, self.offset, "the server has encrypt_binlog=ON")
        if self.description.checksummed or header.type == EventType.FORMAT_DESCRIPTION:
            if checksum(data) != stored_checksum(data):
                raise refusals.damaged(self.file, self.offset, f"the checksum of {name_of(header.type)} is wrong")
            data = data[:-CHECKSUM_SIZE]
        if header.type == EventType.FORMAT_DESCRIPTION:
            raise refusals.damaged(
                self.file, self.offset, "a second description of the format stands there: the file is a relay log, or several in one"
            )
        event = RawEvent(self.offset, 0, header, data)
        self._pass(header)
        return event

    def _goes_on_plain(self, offset: int) -> bool:
        """Returns whether the next header is one: not in a file that MariaDB has encrypted, but in what it sends of it."""
        self._ahead = self._bytes(HEADER_SIZE)
        if len(self._ahead) < HEADER_SIZE:
            return not self._ahead
        header = read_header(self._ahead)
        return HEADER_SIZE <= header.size <= LARGEST_EVENT and header.position == (offset + header.size) % POSITION_WRAP

    def _raw(self) -> tuple[EventHeader | None, bytes]:
        """Returns the header and the bytes of the next event; none at the end of the file."""
        head, self._ahead = self._ahead or self._bytes(HEADER_SIZE), b""
        if not head:
            return None, b""
        if len(head) < HEADER_SIZE:
            raise refusals.cut(self.file, self.offset + len(head), "only a part of the header of an event is there")
        header = read_header(head)
        least = HEADER_SIZE + (CHECKSUM_SIZE if self._checksummed() else 0)
        if not least <= header.size <= LARGEST_EVENT:
            raise refusals.damaged(self.file, self.offset, f"an event cannot have {header.size} bytes")
        body = self._bytes(header.size - HEADER_SIZE)
        if len(body) < header.size - HEADER_SIZE:
            missing = header.size - HEADER_SIZE - len(body)
            raise refusals.cut(
                self.file, self.offset + HEADER_SIZE + len(body), f"the last {missing} bytes of {name_of(header.type)} are missing"
            )
        return header, head + body

    def _checksummed(self) -> bool:
        return self.description.checksummed if hasattr(self, "description") else True

    def _pass(self, header: EventHeader) -> None:
        """Moves behind an event, whose header has to agree."""
        behind = self.offset + header.size
        if header.position and header.position != behind % POSITION_WRAP and not header.has(EventFlag.ARTIFICIAL):
            why = f"its header says that the event ends at {header.position}, and it ends at {behind}: bytes were added or lost before it"
            raise refusals.damaged(self.file, self.offset, why)
        self.offset = behind

    def _bytes(self, size: int) -> bytes:
        """Returns so many bytes, fewer only at the end of the file."""
        first = self._read(min(size, _AT_ONCE)) if size else b""
        if len(first) == size or not first:
            return first
        parts, left = [first], size - len(first)
        while left and (part := self._read(min(left, _AT_ONCE))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


_END_OF: Final[dict[int, FileEnd]] = {EventType.ROTATE: FileEnd.ROTATE, EventType.STOP: FileEnd.STOP}


def check_magic(file: str, begin: bytes) -> None:
    """Checks the first 4 bytes of a file.

    Raises:
        BinlogKindError: no binlog begins so.
        BinlogEncryptedError: it is encrypted.
    """
    if begin[:4] == MAGIC:
        return
    if begin[:4] == ENCRYPTED_MAGIC:
        raise refusals.encrypted(file, 0, "the server has binlog_encryption=ON")
    if begin and MAGIC.startswith(begin):
        raise refusals.cut(file, len(begin), "not even its first 4 bytes are there")
    why = "binlogs begin with the bytes fe 62 69 6e, those that MariaDB keeps in InnoDB (binlog_storage_engine) do not"
    raise refusals.unreadable_kind(file, begin, why)
