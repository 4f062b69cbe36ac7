"""Events of a binlog: types, flags, the header of 19 bytes, the description at the start of a file. Pure.

Sources: MySQL's and MariaDB's documentation of the binlog, and files of both servers.
"""

import enum
import struct
import zlib
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.binlog.byte_reader import ByteReader, MalformedBytesError

MAGIC: Final = b"\xfebin"
"""What a binlog begins with."""
ENCRYPTED_MAGIC: Final = b"\xfdbin"
"""What a binlog of MySQL begins with that was encrypted with a key of its keyring."""
HEADER_SIZE: Final = 19
CHECKSUM_SIZE: Final = 4
LARGEST_EVENT: Final = (1 << 30) + (1 << 20)
"""Servers limit an event to 1 GiB (`max_allowed_packet`) and its own few bytes; a larger number is damage."""
POSITION_WRAP: Final = 1 << 32
"""Headers have 4 bytes for positions; in a longer file they begin anew."""

_HEADER: Final = struct.Struct("<IBIIIH")
_IN_USE_AT: Final = 17
_VERSION: Final = 4


class EventType(enum.IntEnum):
    """The types of events that have a meaning here."""

    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_ROWS_COMPRESSED = 166
    MARIADB_UPDATE_ROWS_COMPRESSED = 167
    MARIADB_DELETE_ROWS_COMPRESSED = 168


class EventFlag(enum.IntFlag):
    """The flags of a header."""

    IN_USE = 0x1
    """Of a file's description: the file was not closed."""
    THREAD_SPECIFIC = 0x4
    SUPPRESS_USE = 0x8
    ARTIFICIAL = 0x20
    RELAY_LOG = 0x40
    IGNORABLE = 0x80
    """Who does not know the type may skip the event."""


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The first 19 bytes of an event.

    Args:
        time: Seconds since 1970 in UTC at which the statement began; 0 for events without a statement.
        type: See `EventType`; may be one that is not known.
        server_id: The server that wrote the change first.
        size: Length of the whole event: header, body and checksum.
        position: The end of the event in its file, modulo 4 GiB; 0 where the server does not say.
        flags: See `EventFlag`.
    """

    time: int
    type: int
    server_id: int
    size: int
    position: int
    flags: int

    def has(self, flag: EventFlag) -> bool:
        """True if a flag is set."""
        return bool(self.flags & flag)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatDescription:
    """What the first event of a file says about all others.

    Args:
        server_version: As the server spells it, such as `11.4.5-MariaDB-log`.
        created: Seconds since 1970 in UTC at which the server started; 0 if the file did not begin with a start of the server.
        checksummed: True if every event ends with a CRC-32.
        header_sizes: Length of what stands before the body of each event type, from type 1.
        in_use: True if the server had not closed the file.
    """

    server_version: str
    created: int
    checksummed: bool
    header_sizes: bytes
    in_use: bool

    @property
    def is_mariadb(self) -> bool:
        """True for MariaDB, whose GTIDs and some events differ from MySQL's."""
        return "mariadb" in self.server_version.lower()

    @property
    def table_id_size(self) -> int:
        """How many bytes the number of a table has."""
        sizes = self.header_sizes
        return 4 if len(sizes) >= EventType.TABLE_MAP and sizes[EventType.TABLE_MAP - 1] == 6 else 6


def read_header(data: bytes | memoryview) -> EventHeader:
    """Returns the header that begins these bytes, at least `HEADER_SIZE`."""
    time, kind, server_id, size, position, flags = _HEADER.unpack_from(data)
    return EventHeader(time, kind, server_id, size, position, flags)


def read_format_description(event: bytes) -> FormatDescription:
    """Returns the description, from the whole event with header and checksum.

    Raises:
        MalformedBytesError: it is another version of the format than that of MySQL 5.0 and later, or not whole.
    """
    header = read_header(event)
    reader = ByteReader(event, HEADER_SIZE)
    version, server, created, header_size = reader.u16(), reader.take(50), reader.u32(), reader.u8()
    if version != _VERSION or header_size != HEADER_SIZE:
        raise MalformedBytesError(f"it has version {version} of the format, with headers of {header_size} bytes")
    if reader.left < 1 + CHECKSUM_SIZE:
        raise MalformedBytesError("the description of the format is too short")
    sizes, algorithm = reader.take(reader.left - 1 - CHECKSUM_SIZE), reader.u8()
    if algorithm not in (0, 1):
        raise MalformedBytesError(f"checksums of the kind {algorithm} are not known")
    # Some servers leave the checksum of the description at 0 while checksums are off.
    is_right = stored_checksum(event) == checksum(event, in_use=header.has(EventFlag.IN_USE))
    if not is_right and (algorithm == 1 or stored_checksum(event) != 0):
        raise MalformedBytesError("the checksum of the description is wrong")
    name = server.split(b"\0", 1)[0].decode("utf-8", "replace")
    in_use = header.has(EventFlag.IN_USE)
    return FormatDescription(server_version=name, created=created, checksummed=algorithm == 1, header_sizes=sizes, in_use=in_use)


def checksum(event: bytes, *, in_use: bool = False) -> int:
    """Returns the CRC-32 of an event without its last 4 bytes.

    The server computes that of the description with a clear IN_USE flag, and changes the flag in the file later.
    """
    if not in_use:
        return zlib.crc32(memoryview(event)[:-CHECKSUM_SIZE])
    cleared = bytearray(event[:-CHECKSUM_SIZE])
    cleared[_IN_USE_AT] &= ~int(EventFlag.IN_USE) & 0xFF
    return zlib.crc32(cleared)


def stored_checksum(event: bytes) -> int:
    """Returns the last 4 bytes of an event as a number."""
    return int.from_bytes(event[-CHECKSUM_SIZE:], "little")


def name_of(kind: int) -> str:
    """Returns how messages name the type of an event, such as `WRITE_ROWS (30)`."""
    name = _NAMES.get(kind)
    return f"the unknown type {kind}" if name is None else f"{name} ({kind})"


_NAMES: Final = {int(kind): kind.name for kind in EventType}
