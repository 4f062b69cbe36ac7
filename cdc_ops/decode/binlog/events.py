"""Walks the events of a binlog: verifies them, and lists those with rows of the tables that are asked for; others are passed over.

    bytes --list_rows--> RowEvents, and every event that is not plain: Python takes it, and calls again

Plain are events of rows whose table is known, and those that say nothing of rows. A table is known by its number and by every byte of its
description; a description that is new is Python's.
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numba import types

from cdc_ops.core.binlog.events import CHECKSUM_SIZE, HEADER_SIZE, LARGEST_EVENT, EventFlag, EventType
from cdc_ops.decode.binlog.bytes_of_events import u16, u32, u48
from cdc_ops.decode.binlog.checksums import crc32
from cdc_ops.decode.compiler import BYTES, BYTES_OUT, INT64S, Bytes, Int64s, helper, kernel

INSERT: Final = 0
UPDATE: Final = 1
DELETE: Final = 2


class Stop(IntEnum):
    """Why a walk stopped."""

    END = 0
    """No whole event follows before the end of the bytes."""
    FULL = 1
    """The list has no room for another event."""
    OTHER = 2
    """The event at `Place.at` is not plain; its checksum is right."""
    DAMAGED = 3
    """The event at `Place.at` does not fit the format, or not its checksum."""


class Place(IntEnum):
    """What stands where in the array of a walk's state, int64; changed in place, by the kernel and by Python."""

    AT = 0
    """Where the next event begins in the bytes."""
    END = 1
    """Where the bytes end that are walked."""
    BASE = 2
    """The offset in the file at which the bytes begin; -1 = within a compressed transaction, where headers have no positions."""
    CHECKED = 3
    """1 if events end with a checksum, which is verified."""
    STATEMENT = 4
    """The number of the statement: a table's number holds until its statement ends."""
    GTID = 5
    """Where the last event with a GTID begins in the bytes, -1 before the first."""
    COUNT = 6
    """How many events are listed."""
    POSITION = 7
    """Within a compressed transaction: the offset of its event in the file."""
    INNER = 8
    """Within a compressed transaction: the number of the event before, from 0."""


PLACES: Final = len(Place)


class RowEvents(NamedTuple):
    """Events with rows, one element an event, int64.

    Args:
        at: Where its header begins in the bytes.
        start: Where the number of its columns stands in them, and all that follows it.
        end: Where its rows end.
        slot: The description of its table.
        kind: INSERT, UPDATE or DELETE.
        position: The offset of the event in the file.
        inner: Its number within a compressed transaction, from 1; 0 outside.
        gtid: Where the event with the GTID of its transaction begins in the bytes, -1 = there is none.
        time: Seconds since 1970 in UTC at which the statement began.
    """

    at: Int64s
    start: Int64s
    end: Int64s
    slot: Int64s
    kind: Int64s
    position: Int64s
    inner: Int64s
    gtid: Int64s
    time: Int64s

    @classmethod
    def empty(cls, events: int) -> "RowEvents":
        """Makes a list with room for so many events."""
        return cls(*(np.zeros(events, np.int64) for _ in cls._fields))


class KnownTables(NamedTuple):
    """Descriptions of tables by their numbers: a hash table, whose places are the number modulo their count, or the next free one.

    Args:
        number: The number of a table, -1 = the place is free; a power of two of places, int64.
        slot: The description, int64.
        statement: The statement in which it was seen last, int64.
        first: Where a description begins in `text`, one element a slot, int64.
        last: Where it ends, int64.
        wanted: 1 if rows of the table are asked for, int64.
        text: The descriptions without their numbers.
    """

    number: Int64s
    slot: Int64s
    statement: Int64s
    first: Int64s
    last: Int64s
    wanted: Int64s
    text: Bytes


ROW_EVENTS: Final = types.NamedUniTuple(INT64S, 9, RowEvents)
"""numba's type of `RowEvents`."""
KNOWN_TABLES: Final = types.NamedTuple((*[INT64S] * 6, BYTES_OUT), KnownTables)
"""numba's type of `KnownTables`."""

_OTHER, _PASS, _GTID, _TABLE, _ROWS, _ROWS_V2 = 0, 1, 2, 3, 4, 7
_AT, _END, _BASE, _CHECKED, _STATEMENT, _GTID_AT, _COUNT, _POSITION, _INNER = range(9)
_STOP_END, _STOP_FULL, _STOP_OTHER, _STOP_DAMAGED = 0, 1, 2, 3
_ARTIFICIAL: Final = int(EventFlag.ARTIFICIAL)
_HEADER: Final = int(HEADER_SIZE)
_CHECKSUM: Final = int(CHECKSUM_SIZE)
_LARGEST: Final = int(LARGEST_EVENT)
_DUMMY_TABLE: Final = 0xFFFFFF
_STATEMENT_ENDS: Final = 1
_PASSED: Final = (
    *(EventType.QUERY, EventType.STOP, EventType.ROTATE, EventType.INTVAR, EventType.RAND, EventType.USER_VAR, EventType.XID),
    *(EventType.HEARTBEAT, EventType.HEARTBEAT_V2, EventType.IGNORABLE, EventType.ROWS_QUERY),
    *(EventType.PREVIOUS_GTIDS, EventType.TRANSACTION_CONTEXT, EventType.VIEW_CHANGE, EventType.XA_PREPARE),
    *(EventType.MARIADB_ANNOTATE_ROWS, EventType.MARIADB_BINLOG_CHECKPOINT, EventType.MARIADB_GTID_LIST),
    EventType.MARIADB_QUERY_COMPRESSED,
)
"""They have no rows; what they mean for transactions, a scan of the file has told before."""


def _actions() -> Bytes:
    """Returns what is done with each type of event."""
    actions = np.full(256, _OTHER, np.uint8)
    actions[list(_PASSED)] = _PASS
    actions[[EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID]] = _GTID
    actions[EventType.TABLE_MAP] = _TABLE
    actions[EventType.WRITE_ROWS_V1 : EventType.DELETE_ROWS_V1 + 1] = np.arange(_ROWS, _ROWS + 3)
    actions[EventType.WRITE_ROWS : EventType.DELETE_ROWS + 1] = np.arange(_ROWS_V2, _ROWS_V2 + 3)
    return actions


_ACTIONS: Final = _actions()


@helper
def event_size(data: Bytes, state: Int64s) -> int:
    """Returns the length of the event at AT; 0 if it is not whole, -1 if its header or its checksum is wrong."""
    at, left = state[_AT], state[_END] - state[_AT]
    if left < _HEADER:
        return 0
    size = u32(data, at + 9)
    if size < _HEADER + _CHECKSUM * state[_CHECKED] or size > _LARGEST:
        return -1
    if size > left:
        return 0
    position = u32(data, at + 13)
    has_position = state[_BASE] >= 0 and position != 0 and not u16(data, at + 17) & _ARTIFICIAL
    if has_position and position != (state[_BASE] + at + size) & 0xFFFFFFFF:
        return -1
    if state[_CHECKED] and crc32(data, at, at + size - _CHECKSUM) != u32(data, at + size - _CHECKSUM):
        return -1
    return size


@helper
def find_table(tables: KnownTables, number: int) -> int:
    """Returns the place of a table's number, or the free one where it belongs."""
    mask = tables.number.size - 1
    place = number & mask
    while tables.number[place] >= 0 and tables.number[place] != number:
        place = (place + 1) & mask
    return place


@helper
def is_same_table(tables: KnownTables, slot: int, data: Bytes, start: int, end: int) -> bool:
    """True if these bytes are the description of the slot."""
    first = tables.first[slot]
    if tables.last[slot] - first != end - start:
        return False
    differs = np.uint8(0)
    for place in range(end - start):
        differs |= tables.text[first + place] ^ data[start + place]
    return differs == 0


@helper
def _sees_table(data: Bytes, state: Int64s, tables: KnownTables, end: int) -> bool:
    """Notes the table that an event describes; False if it is not known."""
    at = state[_AT] + _HEADER
    if end - at < 6:
        return False
    place = find_table(tables, u48(data, at))
    if tables.number[place] < 0 or not is_same_table(tables, tables.slot[place], data, at + 6, end):
        return False
    tables.statement[place] = state[_STATEMENT]
    return True


@helper
def _sees_rows(data: Bytes, state: Int64s, tables: KnownTables, end: int, action: int) -> tuple[int, int]:
    """Returns where the columns of an event with rows begin, and the slot of its table: -1 = not plain."""
    at = state[_AT] + _HEADER
    start = at + 8
    if end < start:
        return start, -1
    number = u48(data, at)
    if action >= _ROWS_V2:
        if end - start < 2:
            return start, -1
        start += u16(data, start)
        if start < at + 10:
            return start, -1
    place = find_table(tables, number)
    if start > end or number == _DUMMY_TABLE or tables.number[place] < 0 or tables.statement[place] != state[_STATEMENT]:
        return start, -1
    if u16(data, at + 6) & _STATEMENT_ENDS:
        state[_STATEMENT] += 1
    return start, tables.slot[place]


@helper
def _append(events: RowEvents, state: Int64s, data: Bytes, slot: int, kind: int) -> int:
    """Lists an event; returns its place, where its begin and end are still to be said."""
    count = state[_COUNT]
    inside = state[_BASE] < 0
    events.at[count] = state[_AT]
    events.slot[count] = slot
    events.kind[count] = kind
    events.position[count] = state[_POSITION] if inside else state[_BASE] + state[_AT]
    events.inner[count] = state[_INNER] + 1 if inside else 0
    events.gtid[count] = state[_GTID_AT]
    events.time[count] = u32(data, state[_AT])
    state[_COUNT] += 1
    return count


@helper
def _take_rows(data: Bytes, state: Int64s, tables: KnownTables, events: RowEvents, event: tuple[int, int]) -> int:
    """Lists an event with rows, if they are asked for; returns why the walk stops at it, END if it does not."""
    end, action = event
    if state[_COUNT] == events.at.size:
        return _STOP_FULL
    start, slot = _sees_rows(data, state, tables, end, action)
    if slot < 0:
        return _STOP_OTHER
    if tables.wanted[slot]:
        place = _append(events, state, data, slot, (action - _ROWS) % 3)
        events.start[place] = start
        events.end[place] = end
    return _STOP_END


@kernel(types.int64(BYTES, INT64S, KNOWN_TABLES, ROW_EVENTS), makes_arrays=False)
def list_rows(data: Bytes, state: Int64s, tables: KnownTables, events: RowEvents) -> int:
    """Walks from `Place.AT` to `Place.END`, and lists the events with rows that are asked for.

    Args:
        data: The bytes.
        state: See `Place`; changed in place.
        tables: What is known of tables; the statements in it are changed.
        events: The list, filled from `Place.COUNT` on.

    Returns:
        Why it stopped, of `Stop`.
    """
    while True:
        size = event_size(data, state)
        if size <= 0:
            return _STOP_END if size == 0 else _STOP_DAMAGED
        action = _ACTIONS[data[state[_AT] + 4]]
        end = state[_AT] + size - _CHECKSUM * state[_CHECKED]
        if action == _GTID:
            state[_GTID_AT] = state[_AT]
        elif action == _TABLE:
            if not _sees_table(data, state, tables, end):
                return _STOP_OTHER
        elif action >= _ROWS:
            stop = _take_rows(data, state, tables, events, (end, action))
            if stop != _STOP_END:
                return stop
        elif action == _OTHER:
            return _STOP_OTHER
        state[_AT] += size
        state[_INNER] += 1
