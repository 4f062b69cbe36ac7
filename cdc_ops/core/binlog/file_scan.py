"""Understands a binlog before a row of it is decoded: which transactions it has, which of them count, how it begins and ends. Pure.

    EventStream -> scan_file -> FileScan

A scan reads every event, verifies its checksum, and refuses what may concern any table: unknown events and incidents. What concerns some
tables only is noted: changes as statements, and distributed transactions that are decided in another file. Rows are decoded in a second
pass, which then needs no memory for transactions however large: it knows at their begin whether they were committed.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cdc_ops.core.binlog import refusals
from cdc_ops.core.binlog.byte_reader import MalformedBytesError
from cdc_ops.core.binlog.control_events import Query, read_load_query, read_query, read_rotate
from cdc_ops.core.binlog.event_stream import EventStream, FileEnd, RawEvent, Read
from cdc_ops.core.binlog.events import EventFlag, EventType, FormatDescription, name_of
from cdc_ops.core.binlog.gtids import GtidSet, MariaDbGtids, MySqlGtids
from cdc_ops.core.binlog.statements import StatementKind, kind_of, savepoint_of, xid_of
from cdc_ops.core.binlog.transaction_events import Xid, read_gtid, read_xa_prepare
from cdc_ops.core.binlog.unfollowed import Unfollowed, UnfollowedChange

GTIDS: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID})
QUERIES: Final = frozenset({EventType.QUERY, EventType.MARIADB_QUERY_COMPRESSED})
ROWS: Final = frozenset(
    {
        *(EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1),
        *(EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS, EventType.PARTIAL_UPDATE_ROWS),
        *(EventType.MARIADB_WRITE_ROWS_COMPRESSED, EventType.MARIADB_UPDATE_ROWS_COMPRESSED, EventType.MARIADB_DELETE_ROWS_COMPRESSED),
    }
)
WITHOUT_EFFECT: Final = frozenset(
    {
        *(EventType.INTVAR, EventType.RAND, EventType.USER_VAR, EventType.HEARTBEAT, EventType.HEARTBEAT_V2, EventType.IGNORABLE),
        *(EventType.ROWS_QUERY, EventType.TRANSACTION_CONTEXT, EventType.VIEW_CHANGE),
        *(EventType.MARIADB_ANNOTATE_ROWS, EventType.MARIADB_BINLOG_CHECKPOINT),
    }
)
"""Variables belong to statements, which are told; the others say nothing of rows."""
_LOADS: Final = frozenset({EventType.LOAD, EventType.CREATE_FILE, EventType.EXEC_LOAD, EventType.NEW_LOAD})
"""Of servers before MySQL 5.0."""
_LOADED: Final = frozenset({EventType.BEGIN_LOAD_QUERY, EventType.APPEND_BLOCK, EventType.DELETE_FILE, EventType.EXECUTE_LOAD_QUERY})
"""The file of LOAD DATA, and the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGtids:
    """The transactions of a binlog and of those before it, by their GTIDs.

    Args:
        before: Those of earlier files, as its begin lists them; None = the server lists none.
        after: Those, and the transactions of this file; None = the server lists none.
        numbered: How many transactions of this file have a GTID.
    """

    before: GtidSet | None
    after: GtidSet | None
    numbered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTimes:
    """When a binlog was written, by the server's clock: seconds since 1970 in UTC.

    Args:
        first: Of the first event with a time; 0 = there is none.
        last: Of the last one.
        begun: When the file was begun.
    """

    first: int
    last: int
    begun: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScan:
    """What a binlog holds.

    Args:
        description: What it says of its format and its server.
        server_id: The server that wrote it.
        gtids: Its transactions, and those before it.
        times: When it was written.
        size: Length of what was read; the offset behind the last event.
        complete_to: The offset behind the last whole transaction, or behind the last event if none is open.
        end: How it ends.
        next_name: The name of the next file, if it ends with ROTATE.
        dropped: Begin and end of what was rolled back: transactions, and what stands behind a savepoint.
        ends: The end of each transaction, in their order.
        may_define: True if it has statements that define tables, or compressed transactions, which may have some.
        unfollowed: Changes as statements.
        undecided: Begin and end of distributed transactions that are prepared here and decided in a later file; they are among `dropped`.
    """

    description: FormatDescription
    server_id: int
    gtids: FileGtids
    times: FileTimes
    size: int
    complete_to: int
    end: FileEnd
    next_name: str
    dropped: tuple[tuple[int, int], ...]
    ends: Sequence[int]
    may_define: bool = True
    unfollowed: tuple[UnfollowedChange, ...] = ()
    undecided: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class _Open:
    """The transaction in which the scan is."""

    start: int
    begun: bool = False
    savepoints: dict[str, int] = field(default_factory=dict)
    statements: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class _State:
    """What a scan has seen so far."""

    gtids_before: GtidSet | None = None
    gtids_after: GtidSet | None = None
    open: _Open | None = None
    complete_to: int = 0
    next_name: str = ""
    dropped: list[tuple[int, int]] = field(default_factory=list)
    prepared: dict[Xid, tuple[int, int]] = field(default_factory=dict)
    ends: "array[int]" = field(default_factory=lambda: array("Q"))
    times: list[int] = field(default_factory=list)
    server_id: int = 0
    may_define: bool = False
    begun: int = 0
    numbered: int = 0
    unfollowed: Unfollowed = field(default_factory=lambda: Unfollowed([]))


def scan_file(file: str, read: Read) -> FileScan:
    """Scans a binlog to its end.

    Args:
        file: Its name, for messages.
        read: Returns its bytes, unpacked.

    Raises:
        BinlogError: it is damaged, cut within an event, encrypted, or has what cannot be followed. A file that ends within a transaction is
            none of these: see `FileScan.complete_to`.
    """
    stream = EventStream(file, read)
    scan = TransactionScan(stream)
    for event in stream:
        scan.step(event)
    return scan.finished()


_INCIDENT_ADVICE: Final = "The server lost changes (its error log says which). Take a new snapshot of the tables."
_UNKNOWN_ADVICE: Final = "Use a version of cdc-ops that knows the event; until then the tables stay as they are."
_SNAPSHOT_ADVICE: Final = "Take a new snapshot of the tables, behind this file."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainEvents:
    """Events that somebody else has verified and understood, one behind the other: of whole transactions, and of parts of them.

    Args:
        end: The offset behind the last one.
        open_at: Where the transaction begins that is open behind them; None = none is.
        begun: True if rows may follow in it.
        gtids: The transactions that began with them.
        ends: The ends of those that ended with them, int64.
        first_time: Seconds since 1970 in UTC of the first event with a time; 0 = there is none.
        last_time: Of the last one.
        server_id: The first server that one of them names; 0 = none does.
        numbered: How many of the transactions that began have a GTID.
    """

    end: int
    open_at: int | None
    begun: bool
    gtids: GtidSet
    ends: "array[int]"
    first_time: int
    last_time: int
    server_id: int
    numbered: int


class TransactionScan:
    """Follows the transactions of a file: event by event, or by what others say of many plain ones.

    Args:
        stream: The file, before its first event.
    """

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._file = stream.file
        self.state = _State(complete_to=stream.offset)

    @property
    def open_at(self) -> int | None:
        """Where the transaction begins that is open, None if none is."""
        return None if self.state.open is None else self.state.open.start

    @property
    def begun(self) -> bool:
        """True if rows may follow in the open transaction."""
        return self.state.open is not None and self.state.open.begun

    def step(self, event: RawEvent) -> None:
        """Takes one event into account.

        Raises:
            BinlogError: it does not fit the format or those before it, or cannot be followed.
        """
        try:
            self._step(event)
        except MalformedBytesError as error:
            raise refusals.damaged(self._file, event.offset, f"{name_of(event.header.type)}: {error}") from None
        if event.header.time:
            self._saw(event.header.time, event.header.time)
        self.state.server_id = self.state.server_id or event.header.server_id
        if self.state.open is None:
            self.state.complete_to = event.end

    def pass_over(self, events: PlainEvents) -> None:
        """Takes many events into account, as if each had been taken by `step`."""
        state = self.state
        if events.last_time:
            self._saw(events.first_time, events.last_time)
        state.server_id = state.server_id or events.server_id
        if state.open is not None and state.open.statements and events.open_at != state.open.start:
            state.unfollowed.add(state.open.start, events.ends[0], state.open.statements)
        state.ends.extend(events.ends)
        state.numbered += events.numbered
        if state.gtids_after is not None:
            state.gtids_after = state.gtids_after.joined(events.gtids)
        if events.open_at is None:
            state.open, state.complete_to = None, events.end
        elif state.open is not None and state.open.start == events.open_at:
            state.open.begun = events.begun
        else:  # each event before it left no transaction open, or ended one
            state.open, state.complete_to = _Open(events.open_at, begun=events.begun), events.open_at

    def finished(self) -> FileScan:
        """Returns what the file holds, once its last event was taken."""
        state, end = self.state, self._stream.ended
        undecided = tuple(sorted(state.prepared.values()))
        is_closed = end is not FileEnd.NONE
        first, last = state.times or (0, 0)
        return FileScan(
            description=self._stream.description,
            server_id=state.server_id,
            gtids=FileGtids(before=state.gtids_before, after=state.gtids_after, numbered=state.numbered),
            times=FileTimes(first=first, last=last, begun=state.begun),
            size=self._stream.offset,
            complete_to=state.complete_to if is_closed else min([state.complete_to, *(start for start, _ in undecided)]),
            end=end,
            next_name=state.next_name,
            dropped=tuple(sorted((*state.dropped, *undecided))),
            ends=state.ends,
            may_define=state.may_define,
            unfollowed=tuple(state.unfollowed.changes),
            undecided=undecided if is_closed else (),
        )

    def _saw(self, first: int, last: int) -> None:
        self.state.times = [self.state.times[0] if self.state.times else first, last]

    def _step(self, event: RawEvent) -> None:
        kind = event.header.type
        if kind in ROWS or kind == EventType.TABLE_MAP:
            self._rows(event)
        elif kind in GTIDS:
            self._begin(event)
        elif kind in QUERIES:
            self._statement(event)
        elif kind == EventType.XID:
            self._end(event)
        elif kind == EventType.XA_PREPARE:
            self._prepare(event)
        elif kind == EventType.TRANSACTION_PAYLOAD:
            self.state.may_define = True
            self._rows(event, whole=True)
            self._end(event)
        elif kind not in WITHOUT_EFFECT:
            self._frame(event)

    def _frame(self, event: RawEvent) -> None:
        """Takes events that begin and end files, and refuses the unknown."""
        kind, state = event.header.type, self.state
        match kind:
            case EventType.FORMAT_DESCRIPTION:
                state.begun = event.header.time
            case EventType.MARIADB_START_ENCRYPTION:
                return  # the stream has seen that what follows is plain: the server sends its files decrypted, and this event with them
            case EventType.PREVIOUS_GTIDS:
                state.gtids_before = state.gtids_after = MySqlGtids.read(event.body)
            case EventType.MARIADB_GTID_LIST:
                state.gtids_before = state.gtids_after = MariaDbGtids.read(event.body)
            case EventType.ROTATE | EventType.STOP:
                if state.open is not None:
                    raise refusals.damaged(self._file, event.offset, "the file was closed within a transaction")
                state.next_name = read_rotate(event.body).name if kind == EventType.ROTATE else ""
            case EventType.INCIDENT:
                raise refusals.not_understood(self._file, event.offset, "an INCIDENT: the server lost changes", _INCIDENT_ADVICE)
            case _:
                self._refuse_unknown(event)

    def _refuse_unknown(self, event: RawEvent) -> None:
        if event.header.type in _LOADS:
            raise refusals.statement(self._file, event.offset, "LOAD DATA")
        if event.header.type in _LOADED:
            if event.header.type == EventType.EXECUTE_LOAD_QUERY:
                self._change(event, read_load_query(event.body))
            return
        if not event.header.has(EventFlag.IGNORABLE):
            raise refusals.not_understood(self._file, event.offset, f"an event of {name_of(event.header.type)}", _UNKNOWN_ADVICE)

    def _begin(self, event: RawEvent) -> None:
        if self.state.open is not None:
            raise refusals.damaged(self._file, event.offset, "a transaction begins within another one")
        gtid = read_gtid(event)
        self.state.open = _Open(event.offset, begun=event.header.type == EventType.MARIADB_GTID and not gtid.standalone)
        self.state.numbered += bool(gtid.text)
        if gtid.text and self.state.gtids_after is not None:
            if isinstance(self.state.gtids_after, MariaDbGtids) != (event.header.type == EventType.MARIADB_GTID):
                raise refusals.damaged(self._file, event.offset, "GTIDs of MySQL and of MariaDB stand in one file")
            self.state.gtids_after = self.state.gtids_after.with_gtid(gtid.text)

    def _rows(self, event: RawEvent, *, whole: bool = False) -> None:
        opened = self.state.open
        if opened is None or opened.begun is whole:
            raise refusals.damaged(self._file, event.offset, f"{name_of(event.header.type)} stands outside of a transaction, or within one")

    def _statement(self, event: RawEvent) -> None:
        query = read_query(event.body, compressed=event.header.type == EventType.MARIADB_QUERY_COMPRESSED)
        kind, opened = kind_of(query.sql), self._opened(event)
        self.state.may_define |= kind is StatementKind.DEFINITION
        match kind:
            case StatementKind.BEGIN | StatementKind.XA_START:
                opened.begun = True
            case StatementKind.COMMIT:
                self._end(event)
            case StatementKind.ROLLBACK:
                self.state.dropped.append((opened.start, event.end))
                self._end(event)
            case StatementKind.XA_COMMIT | StatementKind.XA_ROLLBACK:
                self._decide(event, xid_of(query.sql), committed=kind is StatementKind.XA_COMMIT)
            case StatementKind.CHANGE:
                self._change(event, query)
            case StatementKind.DEFINITION if not opened.begun:
                self._end(event)
            case _:
                self._savepoint(event, opened, kind, query.sql)

    def _change(self, event: RawEvent, query: Query) -> None:
        """Notes a statement that changes rows; alone it is a transaction."""
        opened = self._opened(event)
        opened.statements.append((query.database, query.sql))
        if not opened.begun:
            self._end(event)

    def _savepoint(self, event: RawEvent, opened: _Open, kind: StatementKind, sql: str) -> None:
        if kind is StatementKind.SAVEPOINT:
            opened.savepoints[savepoint_of(sql)] = event.end
        elif kind is StatementKind.ROLLBACK_TO:
            self._roll_back_to(event, opened, savepoint_of(sql))

    def _roll_back_to(self, event: RawEvent, opened: _Open, name: str) -> None:
        """Drops what a transaction did behind a savepoint; logged only where the server could not leave it out of the file."""
        if name not in opened.savepoints:
            what = "the ROLLBACK of a part of a transaction, to a savepoint that is not in the file"
            raise refusals.not_understood(self._file, event.offset, what, _SNAPSHOT_ADVICE)
        self.state.dropped.append((opened.savepoints[name], event.offset))

    def _opened(self, event: RawEvent) -> _Open:
        if self.state.open is None:  # MySQL 5.6 and before wrote no GTID events while GTIDs were off
            self.state.open = _Open(event.offset)
        return self.state.open

    def _end(self, event: RawEvent) -> None:
        if (opened := self.state.open) is None:
            raise refusals.damaged(self._file, event.offset, "a transaction ends, and none has begun")
        if opened.statements:
            self.state.unfollowed.add(opened.start, event.end, opened.statements)
        self.state.open = None
        self.state.ends.append(event.end)

    def _prepare(self, event: RawEvent) -> None:
        opened = self._opened(event)
        one_phase, xid = read_xa_prepare(event.body)
        if not one_phase:
            self.state.prepared[xid] = (opened.start, event.end)
        self._end(event)

    def _decide(self, event: RawEvent, xid: Xid | None, *, committed: bool) -> None:
        span = None if xid is None else self.state.prepared.pop(xid, None)  # without one it was told where it was prepared
        if span is not None and not committed:
            self.state.dropped.append(span)
        self._end(event)
