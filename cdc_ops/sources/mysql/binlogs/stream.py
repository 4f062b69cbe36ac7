"""The bytes of one binlog through the replication protocol, on a connection of PyMySQL: what a replica receives, read in blocks.

    dump(connection, name) -> pieces of events: as they are in the server's file, and those with which the server frames it

The server goes on with the next file by itself; the caller stops when the file that it wants has ended, and closes the connection.

- **Nothing waits.** `BINLOG_DUMP_NON_BLOCK`: at the end of the newest file the server ends the answer. So no heartbeats are asked for.
- **Server id 0.** Any other id would end the dump of a replica that has the same; for the same reason nothing is registered. `mysqlbinlog`
  does it like this.
- **Checksums** are asked for, or the server refuses files that have them. It sends each file as it was written, with or without.
- **MariaDB** rewrites or leaves out events for readers that do not name their capability, and annotations without a flag.

Sources: MySQL and MariaDB, COM_BINLOG_DUMP; compared with the servers' files byte by byte.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

from pymysql.constants import CR
from pymysql.err import OperationalError
from pymysql.protocol import MysqlPacket

_COM_BINLOG_DUMP: Final = 0x12
_NON_BLOCK, _SEND_ANNOTATIONS = 1, 2
_FIRST_EVENT: Final = 4
_MARIADB_CAPABILITY: Final = 4
"""The highest: GTIDs and all that came before them."""

_FRAME: Final = 4
_MOST: Final = 0xFFFFFF
"""Bytes of the largest packet; a longer answer goes on in the next one."""
_OK, _END, _ERROR = 0x00, 0xFE, 0xFF
_HEADER: Final = 20
"""Of an event's first packet: its status and its header."""
_BLOCK: Final = 1024 * 1024

Piece = tuple[memoryview, bool, bool]
"""A part of an event, whether the event begins with it, and whether it ends with it. The memory is reused after the next piece."""


def dump(connection: Any, name: str, *, mariadb: bool) -> Iterator[Piece]:
    """Yields the events of a binlog, and then those of the files behind it.

    Args:
        connection: A `pymysql.Connection`, open, and not used for anything else afterwards.
        name: The file.
        mariadb: Whether the server is a MariaDB.

    Raises:
        pymysql.Error: the server refuses, or the connection is lost.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'")
        if mariadb:
            cursor.execute(f"SET @mariadb_slave_capability = {_MARIADB_CAPABILITY}")
    flags = _NON_BLOCK | (_SEND_ANNOTATIONS if mariadb else 0)
    connection._execute_command(_COM_BINLOG_DUMP, struct.pack("<IHI", _FIRST_EVENT, flags, 0) + name.encode())
    yield from _Answer(connection).pieces()


class _Answer:
    """The packets of the answer to a command, read in blocks: events are small and many, and calls would take most of the time."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._file = connection._rfile
        self._memory = memoryview(bytearray(_BLOCK))
        self._start = self._end = 0
        self._number = connection._next_seq_id
        connection._sock.settimeout(connection._read_timeout)

    def pieces(self) -> Iterator[Piece]:
        """Yields the events until the server ends its answer."""
        first = True
        while True:
            packet = self._packet(first)
            if packet is None:
                return
            length, last = packet
            if length <= _BLOCK:
                self._need(length)
            while length > self._end - self._start:  # a part of a large packet: what there is of it
                part = self._memory[self._start : self._end]
                length -= len(part)
                yield part, first, False
                first = False
                self._start = self._end = 0
                self._need(1)
            self._start += length
            yield self._memory[self._start - length : self._start], first, last
            first = last

    def _packet(self, first: bool) -> tuple[int, bool] | None:
        """Returns the length of the next packet without its status, and whether it is the event's last; None if it ends the answer."""
        self._need(_FRAME)
        frame = int.from_bytes(self._memory[self._start : self._start + _FRAME], "little")
        length, number = frame & _MOST, frame >> 24
        if number != self._number:
            raise self._lost(f"a packet has number {number}, not {self._number}")
        self._number = (number + 1) % 256
        self._start += _FRAME
        if not first:
            return length, length < _MOST
        self._need(min(length, _HEADER))
        status = self._memory[self._start] if length else _ERROR
        if status == _END:
            return None
        if status != _OK:
            self._need(length)
            MysqlPacket(bytes(self._memory[self._start : self._start + length]), "utf8").raise_for_error()
        self._start += 1
        return length - 1, length < _MOST

    def _need(self, count: int) -> None:
        """Reads until so many bytes are there."""
        if self._start + count > len(self._memory):
            left = self._end - self._start
            self._memory[:left] = self._memory[self._start : self._end]
            self._start, self._end = 0, left
        while self._end - self._start < count:
            try:
                received = self._file.readinto1(self._memory[self._end :])
            except OSError as error:
                raise self._lost(str(error)) from None
            if not received:
                raise self._lost("the server closed it")
            self._end += received

    def _lost(self, why: str) -> OperationalError:
        return OperationalError(CR.CR_SERVER_LOST, f"Lost connection to the server during the dump of a binlog ({why})")
