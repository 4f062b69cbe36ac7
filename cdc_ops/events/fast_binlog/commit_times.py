"""When the transactions of a binlog were committed, by the offsets of the events that begin them; many at a time."""

from typing import Final

import numpy as np

from cdc_ops.core.binlog.event_stream import RawEvent
from cdc_ops.core.binlog.events import CHECKSUM_SIZE, HEADER_SIZE, EventType, read_header
from cdc_ops.core.binlog.transaction_events import read_gtid
from cdc_ops.decode.compiler import Bytes, Int64s

_SECOND: Final = 1_000_000
_CLOCK_AT: Final = HEADER_SIZE + 25
"""Where an event of MySQL says that two numbers of 8 bytes follow, and behind them when the transaction was committed."""
_CLOCK: Final = 2
_COMMITTED_AT: Final = _CLOCK_AT + 17
_COMMITTED_SIZE: Final = 7
_ORIGINAL_FOLLOWS: Final = 1 << 55


class CommitTimes:
    """The transactions of a file that was scanned.

    Args:
        data: All of its bytes, unpacked.
        checksummed: True if its events end with a checksum.
    """

    def __init__(self, data: Bytes, *, checksummed: bool) -> None:
        self._data = data
        self._behind = CHECKSUM_SIZE if checksummed else 0

    def of(self, offsets: Int64s) -> Int64s:
        """Returns microseconds since 1970 in UTC; whole seconds where the server says no more.

        Args:
            offsets: Of events that begin transactions, as often and in such an order as they come.

        Raises:
            ValueError: an offset is negative: rows stand before any event with a GTID.
            MalformedBytesError: an event is not whole.
        """
        own, places = np.unique(offsets, return_inverse=True)
        if own.size and own[0] < 0:
            raise ValueError("its transactions begin without GTID events")
        types, size = self._data[own + 4], self._unsigned(own + 9, 4) - self._behind
        is_clocked = np.isin(types, (EventType.GTID, EventType.ANONYMOUS_GTID)) & (size >= _COMMITTED_AT + _COMMITTED_SIZE)
        is_clocked[is_clocked] = self._data[own[is_clocked] + _CLOCK_AT] == _CLOCK
        committed = np.zeros(own.size, np.int64)
        committed[is_clocked] = self._unsigned(own[is_clocked] + _COMMITTED_AT, _COMMITTED_SIZE) & ~_ORIGINAL_FOLLOWS
        for place in np.flatnonzero(~is_clocked & (types != EventType.MARIADB_GTID)).tolist():
            committed[place] = read_gtid(self._event(int(own[place]))).committed
        seconds = committed == 0
        committed[seconds] = self._unsigned(own[seconds], 4) * _SECOND
        return committed[places]

    def _unsigned(self, offsets: Int64s, size: int) -> Int64s:
        """Reads an integer of so many bytes at each offset, little-endian."""
        found = np.zeros(offsets.size, np.int64)
        for place in range(size):
            found |= self._data[offsets + place].astype(np.int64) << (8 * place)
        return found

    def _event(self, offset: int) -> RawEvent:
        header = read_header(self._data[offset : offset + HEADER_SIZE].tobytes())
        return RawEvent(offset, 0, header, self._data[offset : offset + header.size - self._behind].tobytes())
