"""Events that frame transactions and files: GTIDs, statements, commits, the name of the next file. Pure.

Each function takes the body of an event: what stands between its header and its checksum.
"""

import zlib
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.binlog.byte_reader import ByteReader, MalformedBytesError
from cdc_ops.core.binlog.gtids import uuid_text

_LOGICAL_CLOCK: Final = 2
_ORIGINAL_FOLLOWS: Final = 1 << 55
STANDALONE: Final = 1
GROUP_COMMIT: Final = 2
DDL: Final = 32
PREPARED_XA: Final = 64
COMPLETED_XA: Final = 128
_MULTI_ENGINE: Final = 1
START_ALTER: Final = 2
COMMIT_ALTER: Final = 4
ROLLBACK_ALTER: Final = 8
_FILE_OF_LOAD: Final = 13
LARGEST_INFLATED: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotate:
    """The end of a file, and the name of the next one."""

    name: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gtid:
    """The begin of a transaction.

    Args:
        text: Its GTID; empty = the server gives none.
        committed: Microseconds since 1970 in UTC at which it was committed on the server that wrote the file; 0 = not said.
        flags: Of MariaDB: see the constants of this module.
        alter: Of MariaDB: whether an ALTER TABLE in two phases starts or ends.
    """

    text: str
    committed: int = 0
    flags: int = 0
    alter: int = 0

    @property
    def standalone(self) -> bool:
        """True if the transaction is a single statement without a commit of its own. MariaDB only."""
        return bool(self.flags & STANDALONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A statement.

    Args:
        database: The default database of the session.
        sql: The statement, in the session's character set.
        error_code: Not 0 if the statement ended with an error after it had changed something.
    """

    database: str
    sql: str
    error_code: int


def read_rotate(body: bytes) -> Rotate:
    """Reads a ROTATE event."""
    reader = ByteReader(body)
    position = reader.u64()
    return Rotate(name=reader.rest().decode("utf-8", "replace"), position=position)


def read_mysql_gtid(body: bytes, *, anonymous: bool = False) -> Gtid:
    """Reads a GTID or ANONYMOUS_GTID event of MySQL."""
    reader = ByteReader(body)
    reader.skip(1)
    source, number = uuid_text(reader.take(16)), reader.u64()
    committed = 0
    if reader.left >= 17 and reader.u8() == _LOGICAL_CLOCK:
        reader.skip(16)
        if reader.left >= 7:
            committed = reader.unsigned(7) & ~_ORIGINAL_FOLLOWS
    return Gtid(text="" if anonymous else f"{source}:{number}", committed=committed)


def read_tagged_gtid(body: bytes) -> Gtid:
    """Reads a GTID_TAGGED event of MySQL 8.3 and later.

    Its fields have numbers and integers of 1 to 9 bytes, by MySQL's own rules of serialization.
    """
    reader = ByteReader(body)
    _packed_unsigned(reader)  # version
    _packed_unsigned(reader)  # size
    _packed_unsigned(reader)  # the last field that must be understood
    _field(reader, 0)
    _packed_bytes(reader, 1)  # flags
    _field(reader, 1)
    source = uuid_text(_packed_bytes(reader, 16))
    _field(reader, 2)
    number = _packed_signed(reader)
    _field(reader, 3)
    tag = reader.take(_packed_unsigned(reader)).decode("ascii", "replace")
    for clock in (4, 5):
        _field(reader, clock)
        _packed_signed(reader)
    _field(reader, 6)
    return Gtid(text=f"{source}:{tag}:{number}" if tag else f"{source}:{number}", committed=_packed_unsigned(reader))


def read_mariadb_gtid(body: bytes, server_id: int) -> Gtid:
    """Reads a GTID event of MariaDB; the server's number stands in the header."""
    reader = ByteReader(body)
    number, domain, flags = reader.u64(), reader.u32(), reader.u8()
    alter = 0
    if flags & GROUP_COMMIT:
        reader.skip(8)
    if flags & (PREPARED_XA | COMPLETED_XA):
        reader.skip(4)
        reader.skip(reader.u8() + reader.u8())
    if reader.left:  # a short event is filled with zeros
        alter = reader.u8() & (START_ALTER | COMMIT_ALTER | ROLLBACK_ALTER)
    return Gtid(text=f"{domain}-{server_id}-{number}", flags=flags, alter=alter)


def read_load_query(body: bytes) -> Query:
    """Reads an EXECUTE_LOAD_QUERY event: a QUERY event that also says which file it loads."""
    return read_query(body, more=_FILE_OF_LOAD)


def read_query(body: bytes, *, compressed: bool = False, more: int = 0) -> Query:
    """Reads a QUERY event, or MariaDB's compressed one.

    Args:
        body: The body of the event.
        compressed: It is the compressed one.
        more: Bytes of its fixed part that other events have behind those of QUERY.
    """
    reader = ByteReader(body)
    reader.skip(8)
    size, error_code, variables = reader.u8(), reader.u16(), reader.u16()
    reader.skip(more + variables)
    database = reader.take(size).decode("utf-8", "replace")
    reader.skip(1)
    sql = inflated(reader.rest()) if compressed else reader.rest()
    return Query(database=database, sql=sql.decode("utf-8", "surrogateescape"), error_code=error_code)


def inflated(block: bytes, limit: int = LARGEST_INFLATED) -> bytes:
    """Returns what MariaDB compressed: a byte that describes, the length, and a stream of zlib.

    Raises:
        MalformedBytesError: it is not such a block, or not as long as it says.
    """
    reader = ByteReader(block)
    described = reader.u8()
    if not described & 0x80 or described & 0x70:
        raise MalformedBytesError(f"a compressed block begins with {described:#04x}")
    size = int.from_bytes(reader.take(described & 7), "big")
    if size > limit:
        raise MalformedBytesError(f"a compressed block holds {size} bytes")
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(reader.rest(), size + 1)
    except zlib.error as error:
        raise MalformedBytesError(f"a compressed block cannot be unpacked: {error}") from None
    if len(data) != size or not unpacker.eof:
        raise MalformedBytesError(f"a compressed block holds {size} bytes, and {len(data)} came out")
    return data


def _field(reader: ByteReader, number: int) -> None:
    """Passes over the number of a field, which has to be the expected one."""
    found = _packed_unsigned(reader)
    if found != number:
        raise MalformedBytesError(f"the field {number} of the tagged GTID is missing; {found} stands there")


def _packed_unsigned(reader: ByteReader) -> int:
    """The number of ones that end the first byte says how many bytes follow it."""
    raw, size = _packed(reader)
    return raw >> size


def _packed_signed(reader: ByteReader) -> int:
    value = _packed_unsigned(reader)
    return -(1 + (value >> 1)) if value & 1 else value >> 1


def _packed(reader: ByteReader) -> tuple[int, int]:
    first = reader.u8()
    size = 1
    while size < 9 and first >> (size - 1) & 1:
        size += 1
    raw = first | reader.unsigned(size - 1) << 8
    return (raw, size) if size < 9 else (raw >> 8 << 9, 9)


def _packed_bytes(reader: ByteReader, size: int) -> bytes:
    return bytes(_packed_unsigned(reader) & 0xFF for _ in range(size))
