"""Small binlogs, made at run time: the bytes that a MariaDB or a MySQL would write."""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts
from cdc_ops.core.archive.read_files import ReadFile
from cdc_ops.core.binlog.events import MAGIC, EventType

ROWS_TABLE = ("shop", "items")
UTF8MB4 = 45


@dataclass
class BinlogWriter:
    """Builds one file, event by event; each gets its checksum and its position."""

    version: str = "11.4.5-MariaDB-log"
    checksums: bool = True
    server_id: int = 1
    time: int = 1_700_000_000
    created: int = 0
    data: bytearray = field(default_factory=lambda: bytearray(MAGIC))
    offsets: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        sizes = bytes(range(1, 172))
        body = struct.pack("<H50sIB", 4, self.version.encode(), self.created, 19) + sizes + bytes((int(self.checksums),))
        self.event(EventType.FORMAT_DESCRIPTION, body, checksum=True)

    def event(self, kind: int, body: bytes, *, flags: int = 0, checksum: bool | None = None, artificial_end: int | None = None) -> int:
        """Appends an event and returns its offset."""
        has = self.checksums if checksum is None else checksum
        offset, size = len(self.data), 19 + len(body) + (4 if has else 0)
        end = offset + size if artificial_end is None else artificial_end
        raw = struct.pack("<IBIIIH", self.time, kind, self.server_id, size, end % 2**32, flags) + body
        self.data += raw + (struct.pack("<I", zlib.crc32(raw)) if has else b"")
        self.offsets.append(offset)
        return offset

    def gtid(self, number: int, *, flags: int = 12) -> int:
        return self.event(EventType.MARIADB_GTID, struct.pack("<QIB6x", number, 0, flags))

    def anonymous(self, *rows: tuple[int, str | None]) -> None:
        """Inserts rows and commits, as MySQL does without GTIDs."""
        self.event(EventType.ANONYMOUS_GTID, bytes(1 + 16) + struct.pack("<QBQQ", 0, 2, 0, 1) + (self.time * 10**6).to_bytes(7, "little"))
        self.query("BEGIN")
        self.table_map()
        self.rows(EventType.WRITE_ROWS, *rows)
        self.commit()

    def no_gtids(self) -> int:
        """What a MySQL without GTIDs says of the transactions before the file."""
        return self.event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 0))

    def gtid_list(self, *last: tuple[int, int, int]) -> int:
        return self.event(EventType.MARIADB_GTID_LIST, struct.pack("<I", len(last)) + b"".join(struct.pack("<IIQ", *one) for one in last))

    def query(self, sql: str, database: str = "shop") -> int:
        name = database.encode()
        return self.event(EventType.QUERY, struct.pack("<IIBHH", 1, 0, len(name), 0, 0) + name + b"\0" + sql.encode())

    def table_map(self, *, metadata: bool = True, table_id: int = 7) -> int:
        """A table of `id BIGINT UNSIGNED, name VARCHAR(20)`."""
        database, table = (name.encode() for name in ROWS_TABLE)
        body = struct.pack("<IHH", table_id, 0, 1) + bytes((len(database),)) + database + b"\0" + bytes((len(table),)) + table + b"\0"
        body += bytes((2, 8, 15, 2)) + struct.pack("<H", 80) + b"\2"
        if metadata:
            body += bytes((1, 1, 0x80)) + bytes((2, 1, UTF8MB4)) + bytes((4, 8)) + b"\2id\4name" + bytes((8, 1, 0))
        return self.event(EventType.TABLE_MAP, body)

    def rows(self, kind: int, *images: tuple[int, str | None], table_id: int = 7) -> int:
        sides = 2 if kind in (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS) else 1
        extra = struct.pack("<H", 2) if kind >= EventType.WRITE_ROWS else b""
        head = struct.pack("<IHH", table_id, 0, 1) + extra + b"\2" + b"\3" * sides
        return self.event(kind, head + b"".join(_image(*image) for image in images))

    def transaction(self, number: int, *rows: tuple[int, str | None]) -> None:
        """Inserts rows and commits."""
        self.gtid(number)
        self.table_map()
        self.rows(EventType.WRITE_ROWS_V1, *rows)
        self.commit()

    def commit(self) -> int:
        return self.event(EventType.XID, struct.pack("<Q", 1))

    def rotate(self, name: str = "binlog.000002") -> bytes:
        """Closes the file and returns its bytes."""
        self.event(EventType.ROTATE, struct.pack("<Q", 4) + name.encode())
        return bytes(self.data)


def _image(number: int, name: str | None) -> bytes:
    text = b"" if name is None else bytes((len(name.encode()),)) + name.encode()
    return bytes((0 if name is not None else 2,)) + struct.pack("<Q", number) + text


def with_checksums(data: bytes, offsets: Iterable[int]) -> bytes:
    """Returns a file with the right checksum of each event, whatever was changed in it; sizes must be as they were."""
    found = bytearray(data)
    ends = [*list(offsets)[1:], len(data)]
    for start, end in zip(offsets, ends, strict=True):
        found[end - 4 : end] = struct.pack("<I", zlib.crc32(bytes(found[start : end - 4])))
    return bytes(found)


def read_file(facts: BinlogFacts) -> ReadFile:
    """What reading a binlog shows of it; its lines are its transactions."""
    return ReadFile(path=facts.path, lines=facts.transactions, binlog=facts)
