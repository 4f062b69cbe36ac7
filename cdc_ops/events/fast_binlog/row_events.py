"""Lists the events with rows of one table in a range of a file, ready for the kernels: unpacked where they are compressed.

    bytes of a file --RowEventWalk--> batches of listed events, with the bytes that they stand in

What the kernel stops at is taken here: new descriptions of tables, compressed transactions and events, and what does not fit, which the
reference decoder refuses or passes over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from cdc_ops.core.binlog import refusals
from cdc_ops.core.binlog.byte_reader import ByteReader, MalformedBytesError
from cdc_ops.core.binlog.control_events import inflated
from cdc_ops.core.binlog.event_stream import EventStream, RawEvent
from cdc_ops.core.binlog.events import CHECKSUM_SIZE, HEADER_SIZE, MAGIC, EventType, name_of, read_header
from cdc_ops.core.binlog.file_scan import ROWS, FileScan
from cdc_ops.decode.binlog.events import PLACES, KnownTables, Place, RowEvents, Stop, list_rows
from cdc_ops.decode.compiler import Bytes
from cdc_ops.events.binlog.decoder import check_inner, unpacked_events
from cdc_ops.events.binlog.rows import STATEMENT_END, table_id_of
from cdc_ops.events.fast_binlog.known_tables import Descriptions

_EVENTS: Final = 1 << 16
_UNPACKED: Final = 1 << 24
"""Bytes that are unpacked before they are decoded."""
_FIRST_EVENT: Final = len(MAGIC)
_DUMMY_TABLE: Final = 0xFFFFFF
_PLAIN_TYPE: Final = {
    EventType.MARIADB_WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS_V1,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS_V1,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS_V1,
}


@dataclass(slots=True)
class Listed:
    """Events with rows, and the bytes that they stand in.

    Args:
        data: The bytes.
        events: The events; the first `count` are listed.
        count: Their number.
        exact: True if the reference decoder is to decode them.
    """

    data: Bytes
    events: RowEvents
    count: int
    exact: bool = False


@dataclass(slots=True)
class _Walked:
    """Bytes on their way through the kernel: those of the file, or unpacked ones."""

    data: Bytes
    state: np.ndarray
    unpacked: bool


class RowEventWalk:
    """Walks one range of a file.

    Args:
        file: Its name, for messages.
        data: All of its bytes, unpacked.
        scan: What it holds.
        tables: The descriptions of tables, of which this walk adds new ones.
    """

    def __init__(self, file: str, data: Bytes, scan: FileScan, tables: Descriptions) -> None:
        self._file = file
        self._data = data
        self._description = scan.description
        self._tables = tables
        self._known: KnownTables = tables.for_kernels(None)
        self._events = RowEvents.empty(_EVENTS)
        self._unpacked: bytearray | None = None

    def listed(self, start: int, end: int) -> Iterator[Listed]:
        """Yields the events of a range that begins and ends between transactions; decode each before the next.

        Raises:
            BinlogError: bytes do not fit the format or their checksum.
        """
        state = np.zeros(PLACES, np.int64)
        state[Place.AT], state[Place.END] = min(self._behind_description(start), end), end
        state[Place.CHECKED] = self._description.checksummed
        state[Place.GTID] = -1
        yield from self._walk(_Walked(self._data, state, False))
        yield from self._full(state)

    def _behind_description(self, start: int) -> int:
        """Passes over the description of the format: the scan judged it, and its checksum does not fit while the server writes the file."""
        if start > _FIRST_EVENT:
            return start
        return _FIRST_EVENT + read_header(self._data[_FIRST_EVENT : _FIRST_EVENT + HEADER_SIZE].tobytes()).size

    def _walk(self, walked: _Walked) -> Iterator[Listed]:
        """Takes bytes to their end, whatever the kernel stops at."""
        state = walked.state
        while True:
            before = int(state[Place.COUNT])
            stop = list_rows(walked.data, state, self._known, self._events)
            self._keep(walked, before)
            if stop == Stop.END and state[Place.AT] == state[Place.END]:
                return
            if stop == Stop.FULL or (self._unpacked is not None and len(self._unpacked) > _UNPACKED):
                yield from self._full(state)
            if stop in (Stop.DAMAGED, Stop.END):
                self._refuse(walked)
            if stop == Stop.OTHER:
                yield from self._other(walked)

    def _keep(self, walked: _Walked, first: int) -> None:
        """Copies the events that were listed beside those that are unpacked, so that all stand in the same bytes."""
        if self._unpacked is None:
            return
        for place in range(first, int(walked.state[Place.COUNT])):
            at, end = int(self._events.at[place]), int(self._events.end[place])
            shift = len(self._unpacked) - at
            self._unpacked += walked.data[at:end].tobytes()
            self._events.at[place] += shift
            self._events.start[place] += shift
            self._events.end[place] += shift

    def _full(self, state: np.ndarray) -> Iterator[Listed]:
        """Yields what is listed, and empties the list."""
        if count := int(state[Place.COUNT]):
            data = self._data if self._unpacked is None else np.frombuffer(bytes(self._unpacked), np.uint8)
            yield Listed(data, self._events, count)
            state[Place.COUNT] = 0
        if self._unpacked is not None:
            self._unpacked = bytearray()

    def _refuse(self, walked: _Walked) -> None:
        """Raises the error of the reference decoder at bytes that do not fit."""
        offset = int(walked.state[Place.POSITION] if walked.unpacked else walked.state[Place.AT])
        if not walked.unpacked:
            self._read_alone(offset, int(walked.state[Place.END]))
        raise refusals.damaged(self._file, offset, "its events do not fit the format")

    def _read_alone(self, offset: int, end: int) -> None:
        """Reads one event of the file as the reference decoder does, which raises if it is wrong."""
        place = offset

        def read(size: int) -> bytes:
            nonlocal place
            part = self._data[place : min(place + size, end)].tobytes()
            place += len(part)
            return part

        next(iter(EventStream(self._file, read, start=offset, description=self._description)), None)

    def _other(self, walked: _Walked) -> Iterator[Listed]:
        """Takes the event at which the kernel stopped."""
        event = self._event_at(walked)
        kind = event.header.type
        try:
            if kind == EventType.TABLE_MAP:
                yield from self._describe(event, walked)
                return  # the kernel takes the event now that the table is known
            if kind == EventType.TRANSACTION_PAYLOAD:
                yield from self._payload(event, walked.state)
            elif kind in _PLAIN_TYPE:
                yield from self._compressed(event, walked)
            elif kind in ROWS:
                yield from self._rows(event, walked)
            elif not walked.unpacked:
                self._read_alone(event.offset, int(walked.state[Place.END]))  # what it takes, the scan of the file has judged
        except MalformedBytesError as error:
            raise refusals.damaged(self._file, event.offset, f"{name_of(kind)}: {error}") from None
        walked.state[Place.AT] += event.header.size
        walked.state[Place.INNER] += 1

    def _event_at(self, walked: _Walked) -> RawEvent:
        state, at = walked.state, int(walked.state[Place.AT])
        header = read_header(walked.data[at : at + HEADER_SIZE].tobytes())
        end = at + header.size - CHECKSUM_SIZE * int(state[Place.CHECKED])
        offset, inner = (int(state[Place.POSITION]), int(state[Place.INNER]) + 1) if walked.unpacked else (at, 0)
        return RawEvent(offset, inner, header, walked.data[at:end].tobytes())

    def _describe(self, event: RawEvent, walked: _Walked) -> Iterator[Listed]:
        count = len(self._tables.readers)
        reader = self._tables.add(event.body)
        if reader is not None:
            if reader.table.lacks:
                name = f"{reader.table.database}.{reader.table.table}"
                raise refusals.no_metadata(self._file, event.offset, name, reader.table.lacks)
            if count:  # the kernels' layout of the table changes
                yield from self._full(walked.state)
        self._known = self._tables.for_kernels(self._known)

    def _payload(self, event: RawEvent, state: np.ndarray) -> Iterator[Listed]:
        """Unpacks a compressed transaction, some bytes at a time, and walks over its events."""
        yield from self._begin_unpacking(state)
        chunk, inner = bytearray(), 0
        for number, part in enumerate(unpacked_events(event), 1):
            check_inner(self._file, part)
            chunk += part.data
            if len(chunk) > _UNPACKED:
                yield from self._walk_unpacked(bytes(chunk), state, event.offset, inner)
                chunk, inner = bytearray(), number
        yield from self._walk_unpacked(bytes(chunk), state, event.offset, inner)

    def _walk_unpacked(self, data: bytes, outer: np.ndarray, offset: int, inner: int) -> Iterator[Listed]:
        state = outer.copy()
        state[Place.AT], state[Place.END], state[Place.BASE], state[Place.CHECKED] = 0, len(data), -1, 0
        state[Place.POSITION], state[Place.INNER] = offset, inner
        yield from self._walk(_Walked(np.frombuffer(data, np.uint8), state, True))
        outer[Place.COUNT], outer[Place.STATEMENT] = state[Place.COUNT], state[Place.STATEMENT]

    def _begin_unpacking(self, state: np.ndarray) -> Iterator[Listed]:
        if self._unpacked is None:
            yield from self._full(state)
            self._unpacked = bytearray()

    def _compressed(self, event: RawEvent, walked: _Walked) -> Iterator[Listed]:
        """Makes a plain event of a compressed one of MariaDB: everything before the rows stands as it is."""
        if self._asked_for(event, walked.state) is None:
            return
        yield from self._begin_unpacking(walked.state)
        reader = ByteReader(event.data, HEADER_SIZE + self._description.table_id_size + 2)
        count = reader.length()
        reader.skip((count + 7) // 8 * (2 if event.header.type == EventType.MARIADB_UPDATE_ROWS_COMPRESSED else 1))
        head, rows = bytearray(event.data[: reader.at]), inflated(reader.rest())
        head[4] = _PLAIN_TYPE[EventType(event.header.type)]
        head[9:13] = (len(head) + len(rows)).to_bytes(4, "little")
        yield from self._walk_unpacked(bytes(head) + rows, walked.state, event.offset, -1)

    def _rows(self, event: RawEvent, walked: _Walked) -> Iterator[Listed]:
        """Takes rows that are not plain: partial updates, rows of no table, and what does not fit."""
        slot = self._asked_for(event, walked.state)
        if slot is not None:
            yield from self._full(walked.state)
            yield self._alone(event, slot, walked)
            self._end_statement(event, walked.state)

    def _asked_for(self, event: RawEvent, state: np.ndarray) -> int | None:
        """Returns the slot of the table of rows, if it is asked for; else passes over them."""
        number, _ = table_id_of(event.body, self._description)
        known = self._tables.numbers.get(number)
        if number != _DUMMY_TABLE and (known is None or not self._seen_now(number, state)):
            raise refusals.damaged(self._file, event.offset, "rows stand before the description of their table")
        if known is not None and self._tables.readers[known] is not None:
            return known
        self._end_statement(event, state)
        return None

    def _end_statement(self, event: RawEvent, state: np.ndarray) -> None:
        if table_id_of(event.body, self._description)[1] & STATEMENT_END:
            state[Place.STATEMENT] += 1

    def _seen_now(self, number: int, state: np.ndarray) -> bool:
        places = np.flatnonzero(self._known.number == number)
        return bool(places.size) and bool(self._known.statement[places[0]] == state[Place.STATEMENT])

    def _alone(self, event: RawEvent, slot: int, walked: _Walked) -> Listed:
        events = RowEvents.empty(1)
        events.end[0], events.slot[0], events.position[0], events.inner[0] = len(event.data), slot, event.offset, event.inner
        events.gtid[0], events.time[0] = walked.state[Place.GTID], event.header.time
        return Listed(np.frombuffer(event.data, np.uint8), events, 1, exact=True)
