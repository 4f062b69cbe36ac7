"""The reference decoder: committed transactions of a binlog with their row changes and definitions.

    file -> scan_file (understand all of it) -> BinlogFile.changes -> RowChange | Definition ...

A file is read twice. The first pass verifies every checksum and learns which transactions count; the second decodes rows and hands each
over at once. So memory does not grow with transactions: it is that of the largest event, and 8 bytes for each transaction.
A compressed transaction is unpacked event by event; its packed bytes are one event.

Tables that are not asked for are passed over undecoded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import zstandard

from cdc_ops.core.binlog import refusals
from cdc_ops.core.binlog.byte_reader import ByteReader, MalformedBytesError
from cdc_ops.core.binlog.control_events import Gtid, read_query
from cdc_ops.core.binlog.event_stream import EventStream, RawEvent
from cdc_ops.core.binlog.events import HEADER_SIZE, EventHeader, EventType, name_of, read_header
from cdc_ops.core.binlog.file_scan import GTIDS, QUERIES, ROWS, FileScan, scan_file
from cdc_ops.core.binlog.statements import StatementKind, kind_of
from cdc_ops.core.binlog.transaction_events import is_not_applied, read_gtid
from cdc_ops.core.binlog.unfollowed import UnfollowedChange
from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.events.binlog.files import LARGEST_WINDOW, Open, unpacked
from cdc_ops.events.binlog.rows import STATEMENT_END, Image, TableReader, read_rows, table_id_of
from cdc_ops.events.binlog.table_map import TableMap, read_table_map, read_table_name

WantTable = Callable[[str, str], bool]
"""True if the rows of a table, by its database and its name, are asked for."""
WantRows = Callable[[TableMap, int], bool]
"""True if the rows of an event are asked for, by its table and its offset; that of the compressed transaction for events within one."""
_DUMMY_TABLE: Final = 0xFFFFFF
"""The number of no table: the end of a statement without rows."""
_PAYLOAD_END, _PAYLOAD_SIZE, _PAYLOAD_COMPRESSION, _PAYLOAD_UNPACKED = range(4)
_ZSTD, _NOT_PACKED = 0, 255


@dataclass(frozen=True, slots=True)
class Transaction:
    """A committed transaction.

    Args:
        gtid: Its GTID; empty = the server gives none.
        committed: Microseconds since 1970 in UTC at which it was committed; whole seconds where the server says no more.
        start: Where it begins in its file.
        end: Behind its end.
    """

    gtid: str
    committed: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a change in its file; places of a file compare in the order in which rows were changed.

    Args:
        offset: Where its event begins; that of the compressed transaction for events within one.
        inner: The number of the event within a compressed transaction, from 1; 0 outside.
        row: The number of the row in its event, from 0.
    """

    offset: int
    inner: int
    row: int


@dataclass(frozen=True, slots=True)
class RowChange:
    """One changed row.

    Args:
        transaction: Its transaction.
        place: Its place.
        table: Its table, as described before the row.
        op: `CREATE`, `UPDATE` or `DELETE`.
        before: The row before, by column; None for `CREATE`.
        after: The row after; None for `DELETE`.
        time: Seconds since 1970 in UTC at which its statement began.
    """

    transaction: Transaction
    place: Place
    table: TableMap
    op: EventOperation
    before: Image | None
    after: Image | None
    time: int


@dataclass(frozen=True, slots=True)
class Definition:
    """A statement that defines tables, or empties one.

    Args:
        transaction: Its transaction.
        place: Its place.
        database: The default database of its session.
        sql: The statement.
        time: Seconds since 1970 in UTC at which it began.
    """

    transaction: Transaction
    place: Place
    database: str
    sql: str
    time: int


@dataclass(frozen=True, slots=True)
class BadRows:
    """An event whose checksum is right and whose rows do not fit the description of their table; nothing of it was decoded.

    Args:
        transaction: Its transaction.
        place: The place of its first row.
        table: Its table.
        reason: What does not fit.
        raw: The event.
        time: Seconds since 1970 in UTC at which its statement began.
    """

    transaction: Transaction
    place: Place
    table: TableMap
    reason: str
    raw: bytes
    time: int


Change = RowChange | Definition | BadRows


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogFile:
    """A binlog that was understood.

    Args:
        name: Its name, for messages.
        open_file: Opens it.
        scan: What it holds.
    """

    name: str
    open_file: Open
    scan: FileScan

    @classmethod
    def open(cls, name: str, open_file: Open) -> "BinlogFile":
        """Scans a file.

        Raises:
            BinlogError: it is damaged, encrypted, cut within an event, or has what cannot be followed.
        """
        with unpacked(name, open_file) as read:
            return cls(name=name, open_file=open_file, scan=scan_file(name, read))

    def undecided(self) -> Iterator[UnfollowedChange]:
        """Yields the distributed transactions that another file decides, each with the tables of its rows."""
        if not self.scan.undecided:
            return
        tables: dict[tuple[int, int], set[tuple[str, str]]] = {span: set() for span in self.scan.undecided}
        with unpacked(self.name, self.open_file) as read:
            for event in EventStream(self.name, read):
                if event.header.type == EventType.TABLE_MAP:
                    for start, end in (span for span in tables if span[0] <= event.offset < span[1]):
                        tables[start, end].add(read_table_name(event.body, self.scan.description)[1:])
        for (start, end), names in tables.items():
            yield UnfollowedChange(start=start, end=end, tables=tuple(sorted(names)))

    def changes(
        self, wanted: WantTable = lambda _database, _table: True, *, start: int = 0, rows_at: WantRows | None = None
    ) -> Iterator[Change]:
        """Yields the changes of committed transactions in their order.

        Args:
            wanted: The tables whose rows are decoded; definitions come out for all.
            start: Only transactions that begin there or later.
            rows_at: The events whose rows are decoded, of the wanted tables; None = all of them.

        Raises:
            BinlogMetadataError: rows lack what they cannot be read without.
            BinlogDamagedError: the file changed since it was scanned, or its events contradict each other.
        """
        with unpacked(self.name, self.open_file) as read:
            yield from _Decoder(self, EventStream(self.name, read), wanted, rows_at).changes(start)


@dataclass(slots=True)
class _Tables:
    """The descriptions of tables in a file. Numbers hold for a statement; a description that comes again costs nothing."""

    by_id: dict[int, TableReader | None] = field(default_factory=dict)
    by_body: dict[bytes, TableReader] = field(default_factory=dict)


class _Decoder:
    """Follows one file."""

    def __init__(self, file: BinlogFile, stream: EventStream, wanted: WantTable, rows_at: WantRows | None) -> None:
        self._file = file
        self._stream = stream
        self._wanted = wanted
        self._rows_at = rows_at
        self._tables = _Tables()
        self._ends = iter(file.scan.ends)
        self._dropped = list(file.scan.dropped)
        self._transaction: Transaction | None = None
        self._gtid = Gtid(text="")

    def changes(self, start: int) -> Iterator[Change]:
        """Yields the changes of transactions that begin at or behind an offset."""
        for event in self._stream:
            if event.offset >= self._file.scan.complete_to:
                return
            kind = event.header.type
            if kind in GTIDS:
                self._begin(event)
            elif kind not in ROWS and kind not in QUERIES and kind not in (EventType.TABLE_MAP, EventType.TRANSACTION_PAYLOAD):
                continue
            elif self._transaction is None or self._transaction.end <= event.offset:
                self._begin(event)
            if event.offset >= start and (self._transaction is None or self._transaction.start >= start):
                yield from self._decoded(event)

    def _begin(self, event: RawEvent) -> None:
        self._gtid = read_gtid(event) if event.header.type in GTIDS else Gtid(text="")
        end = next((end for end in self._ends if end > event.offset), event.end)
        committed = self._gtid.committed or event.header.time * 1_000_000
        self._transaction = Transaction(self._gtid.text, committed, event.offset, end)
        self._dropped = [span for span in self._dropped if span[1] > event.offset]

    def _decoded(self, event: RawEvent) -> Iterator[Change]:
        """Yields the changes of one event."""
        kind = event.header.type
        try:
            if kind == EventType.TABLE_MAP:
                self._describe(event)
            elif any(first <= event.offset < behind for first, behind in self._dropped):
                return
            elif kind in ROWS:
                yield from self._rows(event)
            elif kind in QUERIES:
                yield from self._definition(event)
            elif kind == EventType.TRANSACTION_PAYLOAD:
                for inner in unpacked_events(event):
                    yield from self._inner(inner)
        except MalformedBytesError as error:
            raise refusals.damaged(self._file.name, event.offset, f"{name_of(kind)}: {error}") from None

    def _inner(self, event: RawEvent) -> Iterator[Change]:
        check_inner(self._file.name, event)
        if event.header.type == EventType.TABLE_MAP or event.header.type in ROWS or event.header.type in QUERIES:
            yield from self._decoded(event)

    def _describe(self, event: RawEvent) -> None:
        description = self._file.scan.description
        table_id, database, table = read_table_name(event.body, description)
        if not self._wanted(database, table):
            self._tables.by_id[table_id] = None
            return
        key = event.body
        if key not in self._tables.by_body:
            table_map = read_table_map(event.body, description)
            if table_map.lacks:
                raise refusals.no_metadata(self._file.name, event.offset, f"{database}.{table}", table_map.lacks)
            self._tables.by_body[key] = TableReader(table_map)
        self._tables.by_id[table_id] = self._tables.by_body[key]

    def _rows(self, event: RawEvent) -> Iterator[Change]:
        description = self._file.scan.description
        table_id, flags = table_id_of(event.body, description)
        if table_id not in self._tables.by_id and table_id != _DUMMY_TABLE:
            raise refusals.damaged(self._file.name, event.offset, "rows stand before the description of their table")
        table = self._tables.by_id.get(table_id)
        if table is not None and (self._rows_at is None or self._rows_at(table.table, event.offset)):
            yield from self._decoded_rows(event, table)
        if flags & STATEMENT_END:
            self._tables.by_id.clear()

    def _decoded_rows(self, event: RawEvent, table: TableReader) -> Iterator[Change]:
        transaction = self._transaction
        if transaction is None:
            raise refusals.damaged(self._file.name, event.offset, "rows stand outside of a transaction")
        time = event.header.time
        try:
            rows = list(read_rows(event.header.type, event.body, table, self._file.scan.description))
        except MalformedBytesError as error:
            yield BadRows(transaction, Place(event.offset, event.inner, 0), table.table, str(error), event.data, time)
            return
        for number, row in enumerate(rows):
            place = Place(event.offset, event.inner, number)
            yield RowChange(transaction, place, table.table, row.op, row.before, row.after, time)

    def _definition(self, event: RawEvent) -> Iterator[Change]:
        query = read_query(event.body, compressed=event.header.type == EventType.MARIADB_QUERY_COMPRESSED)
        transaction = self._transaction
        if kind_of(query.sql) is StatementKind.DEFINITION and transaction is not None and not is_not_applied(self._gtid):
            yield Definition(transaction, Place(event.offset, event.inner, 0), query.database, query.sql, event.header.time)


_WITHIN_PAYLOADS: Final = frozenset(
    {EventType.XID, EventType.ROWS_QUERY, EventType.INTVAR, EventType.RAND, EventType.USER_VAR, EventType.TRANSACTION_CONTEXT}
)


def check_inner(file: str, event: RawEvent) -> None:
    """Refuses an event that must not stand within a compressed transaction, or whose meaning there is not known.

    Raises:
        BinlogError: a statement changes rows or takes them back, or the type of the event is not known.
        MalformedBytesError: a statement is not whole.
    """
    kind = event.header.type
    if kind in QUERIES:
        query = read_query(event.body, compressed=kind == EventType.MARIADB_QUERY_COMPRESSED)
        statement = kind_of(query.sql)
        if statement is StatementKind.CHANGE:
            raise refusals.statement(file, event.offset, query.sql)
        if statement in (StatementKind.ROLLBACK, StatementKind.ROLLBACK_TO):
            what = "a ROLLBACK within a compressed transaction"
            raise refusals.not_understood(file, event.offset, what, "Take a new snapshot of the tables, behind this file.")
    elif kind != EventType.TABLE_MAP and kind not in ROWS and kind not in _WITHIN_PAYLOADS:
        what = f"{name_of(kind)} within a compressed transaction"
        raise refusals.not_understood(file, event.offset, what, "Use a version of cdc-ops that knows the event.")


def unpacked_events(event: RawEvent) -> Iterator[RawEvent]:
    """Yields the events of a compressed transaction, which have neither checksums nor positions.

    Raises:
        MalformedBytesError: it is not whole, or does not end with a commit.
    """
    reader, sizes = ByteReader(event.body), {_PAYLOAD_COMPRESSION: _ZSTD}
    while (kind := reader.length()) != _PAYLOAD_END:
        part = ByteReader(reader.counted())
        sizes[kind] = part.length()
    packed = reader.rest()
    if sizes[_PAYLOAD_COMPRESSION] not in (_ZSTD, _NOT_PACKED):
        raise MalformedBytesError(f"a transaction is compressed in the way {sizes[_PAYLOAD_COMPRESSION]}, which is not known")
    read = _payload_reader(packed, is_packed=sizes[_PAYLOAD_COMPRESSION] == _ZSTD)
    inner, size, last = 0, 0, 0
    while head := read(HEADER_SIZE):
        header = read_header(head) if len(head) == HEADER_SIZE else EventHeader(0, 0, 0, 0, 0, 0)
        body = read(max(header.size - HEADER_SIZE, 0))
        if header.size < HEADER_SIZE or len(body) != header.size - HEADER_SIZE:
            raise MalformedBytesError("an event of a compressed transaction is cut")
        inner, size, last = inner + 1, size + header.size, header.type
        yield RawEvent(event.offset, inner, header, head + body)
    if size != sizes.get(_PAYLOAD_UNPACKED, size):
        raise MalformedBytesError(f"a compressed transaction has {size} bytes, and {sizes[_PAYLOAD_UNPACKED]} are expected")
    if last not in (EventType.XID, EventType.QUERY):
        raise MalformedBytesError(f"a compressed transaction ends with {name_of(last)}")


def _payload_reader(packed: bytes, *, is_packed: bool) -> Callable[[int], bytes]:
    """Returns the function that reads so many bytes of a transaction, fewer only at its end."""
    if not is_packed:
        plain = ByteReader(packed)
        return lambda size: plain.take(min(size, plain.left))
    source = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).stream_reader(packed, read_across_frames=True)

    def read(size: int) -> bytes:
        parts = []
        try:
            while size and (part := source.read(min(size, 1 << 20))):
                parts.append(part)
                size -= len(part)
        except zstandard.ZstdError as error:
            raise MalformedBytesError(f"a compressed transaction cannot be unpacked: {error}") from None
        return b"".join(parts)

    return read
