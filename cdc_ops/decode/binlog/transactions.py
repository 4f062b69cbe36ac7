"""Walks the events of a binlog for their transactions: verifies them, and lists those that begin and end with plain events.

    bytes --follow--> begins and ends of transactions, and every event that is not plain: Python takes it, and calls again

Plain are the events of which nearly all files consist: a GTID, `BEGIN`, descriptions of tables and rows in a transaction, XID, and what
says nothing of rows. No rule is here of what a file must not hold: at everything else the walk stops.
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numba import types

from cdc_ops.core.binlog.control_events import COMPLETED_XA, GROUP_COMMIT, PREPARED_XA, STANDALONE
from cdc_ops.core.binlog.events import CHECKSUM_SIZE, HEADER_SIZE, EventType
from cdc_ops.core.binlog.file_scan import ROWS, WITHOUT_EFFECT
from cdc_ops.decode.binlog.bytes_of_events import u16, u32, word
from cdc_ops.decode.binlog.events import Stop, event_size
from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel


class ScanPlace(IntEnum):
    """What stands where in the array of a walk's state, int64; changed in place. The first four are those of `events.Place`."""

    AT = 0
    END = 1
    BASE = 2
    CHECKED = 3
    MARIADB = 4
    """1 if GTIDs of MariaDB are plain, 0 if those of MySQL are."""
    OPEN = 5
    """Where the transaction begins that is open, -1 = none is."""
    BEGUN = 6
    """1 if rows may follow in it."""
    GTIDS = 7
    """How many GTIDs are listed."""
    ENDS = 8
    """How many ends are listed."""
    FIRST_TIME = 9
    """Seconds since 1970 in UTC of the first event with a time; 0 = there is none yet."""
    LAST_TIME = 10
    SERVER = 11
    """The first server that an event names, 0 = none yet."""


class Transactions(NamedTuple):
    """Transactions, one element each, int64; their GTIDs and their ends are listed apart.

    Args:
        high: The domain, or the first 8 bytes of a server's UUID, little-endian.
        low: The server, or the last 8 bytes of its UUID.
        number: The number of the transaction.
        end: The offset behind its last event.
    """

    high: Int64s
    low: Int64s
    number: Int64s
    end: Int64s

    @classmethod
    def empty(cls, transactions: int) -> "Transactions":
        """Makes a list with room for so many transactions."""
        return cls(*(np.zeros(transactions, np.int64) for _ in cls._fields))


TRANSACTIONS: Final = types.NamedUniTuple(INT64S, 4, Transactions)
"""numba's type of `Transactions`."""

_OTHER, _PASS, _ROWS, _XID, _QUERY, _MARIADB_GTID, _MYSQL_GTID, _ANONYMOUS = range(8)
_AT, _END, _BASE, _CHECKED, _MARIADB, _OPEN, _BEGUN, _GTIDS, _ENDS, _FIRST_TIME, _LAST_TIME, _SERVER = range(12)
_STOP_END, _STOP_FULL, _STOP_OTHER, _STOP_DAMAGED = (int(stop) for stop in (Stop.END, Stop.FULL, Stop.OTHER, Stop.DAMAGED))
_HEADER: Final = int(HEADER_SIZE)
_CHECKSUM: Final = int(CHECKSUM_SIZE)
_WITH_COMMIT_ID: Final = GROUP_COMMIT
_ODD_FLAGS: Final = STANDALONE | PREPARED_XA | COMPLETED_XA
_MARIADB_GTID_SIZE: Final = 13
_COMMIT_ID_SIZE: Final = 8
_MYSQL_GTID_SIZE: Final = 25
_BEFORE_VARIABLES: Final = 13
_BEGIN: Final = np.frombuffer(b"\0BEGIN", np.uint8)
"""The end of the database's name, and the statement."""


def _actions() -> Bytes:
    """Returns what is done with each type of event."""
    actions = np.full(256, _OTHER, np.uint8)
    actions[list(WITHOUT_EFFECT)] = _PASS
    actions[[EventType.TABLE_MAP, *ROWS]] = _ROWS
    actions[EventType.XID] = _XID
    actions[EventType.QUERY] = _QUERY
    actions[EventType.MARIADB_GTID] = _MARIADB_GTID
    actions[EventType.GTID] = _MYSQL_GTID
    actions[EventType.ANONYMOUS_GTID] = _ANONYMOUS
    return actions


_ACTIONS: Final = _actions()


@helper
def _is_begin(data: Bytes, body: int, end: int) -> bool:
    """True if the body of a QUERY event is `BEGIN`."""
    if end - body < _BEFORE_VARIABLES + _BEGIN.size:
        return False
    statement = body + _BEFORE_VARIABLES + u16(data, body + 11) + np.int64(data[body + 8])
    if end - statement != _BEGIN.size:
        return False
    differs = np.uint8(0)
    for place in range(1, _BEGIN.size):
        differs |= data[statement + place] ^ _BEGIN[place]
    return differs == 0


@helper
def _list_gtid(listed: Transactions, state: Int64s, gtid: tuple[int, int, int]) -> bool:
    """Begins a transaction with a GTID; False if its number is none."""
    high, low, number = gtid
    if number <= 0:
        return False
    count = state[_GTIDS]
    listed.high[count], listed.low[count], listed.number[count] = high, low, number
    state[_GTIDS] += 1
    return True


@helper
def _begins(data: Bytes, state: Int64s, listed: Transactions, action: int, end: int) -> bool:
    """Takes an event that begins a transaction; False if it is not plain."""
    at = state[_AT]
    body = at + _HEADER
    if state[_OPEN] >= 0 or (action == _MARIADB_GTID) != (state[_MARIADB] == 1):
        return False
    if action == _MARIADB_GTID:
        if end - body < _MARIADB_GTID_SIZE:
            return False
        flags = np.int64(data[body + 12])
        short = flags & _WITH_COMMIT_ID and end - body < _MARIADB_GTID_SIZE + _COMMIT_ID_SIZE
        if flags & _ODD_FLAGS or short or not _list_gtid(listed, state, (u32(data, body + 8), u32(data, at + 5), word(data, body))):
            return False
    else:
        if end - body < _MYSQL_GTID_SIZE:
            return False
        own = (word(data, body + 1), word(data, body + 9), word(data, body + 17))
        if action == _MYSQL_GTID and not _list_gtid(listed, state, own):
            return False
    state[_OPEN], state[_BEGUN] = at, action == _MARIADB_GTID
    return True


@helper
def _takes(data: Bytes, state: Int64s, listed: Transactions, action: int, span: tuple[int, int]) -> bool:
    """Takes an event into account; False if it is not plain."""
    end, behind = span
    if action == _PASS:
        return True
    if action == _ROWS:
        return state[_OPEN] >= 0 and state[_BEGUN] == 1
    if action == _XID:
        if state[_OPEN] < 0:
            return False
        listed.end[state[_ENDS]] = state[_BASE] + behind
        state[_ENDS] += 1
        state[_OPEN], state[_BEGUN] = -1, 0
        return True
    if action == _QUERY:
        if state[_OPEN] < 0 or not _is_begin(data, state[_AT] + _HEADER, end):
            return False
        state[_BEGUN] = 1
        return True
    return action != _OTHER and _begins(data, state, listed, action, end)


@kernel(types.int64(BYTES, INT64S, TRANSACTIONS), makes_arrays=False)
def follow(data: Bytes, state: Int64s, listed: Transactions) -> int:
    """Walks from `ScanPlace.AT` to `ScanPlace.END` as long as the events are plain.

    Args:
        data: The bytes.
        state: See `ScanPlace`; changed in place.
        listed: The lists, filled from `ScanPlace.GTIDS` and `ScanPlace.ENDS` on.

    Returns:
        Why it stopped, of `Stop`.
    """
    room = listed.end.size
    while True:
        if state[_GTIDS] == room or state[_ENDS] == room:
            return _STOP_FULL
        size = event_size(data, state)
        if size <= 0:
            return _STOP_END if size == 0 else _STOP_DAMAGED
        at = state[_AT]
        if not _takes(data, state, listed, _ACTIONS[data[at + 4]], (at + size - _CHECKSUM * state[_CHECKED], at + size)):
            return _STOP_OTHER
        time, server = u32(data, at), u32(data, at + 5)
        if time != 0:
            state[_LAST_TIME] = time
            if state[_FIRST_TIME] == 0:
                state[_FIRST_TIME] = time
        if state[_SERVER] == 0:
            state[_SERVER] = server
        state[_AT] += size
