"""Scans a binlog as `core.binlog.file_scan` does, at memory speed: kernels follow plain events, and the reference takes all others.

content (bytes) --follow--> transactions, event by event where something is not plain --TransactionScan--> FileScan
"""

from array import array
from typing import Final

import numpy as np

from cdc_ops.core.binlog.event_stream import EventStream
from cdc_ops.core.binlog.file_scan import FileScan, PlainEvents, TransactionScan
from cdc_ops.core.binlog.gtids import GtidSet, Interval, MariaDbGtids, MySqlGtids, uuid_text
from cdc_ops.decode.binlog.transactions import ScanPlace, Transactions, follow
from cdc_ops.decode.compiler import Bytes, Int64s

_AT_ONCE: Final = 1 << 16
"""Transactions that are listed before Python takes them."""


def scan_content(file: str, data: Bytes) -> FileScan:
    """Scans the whole content of a binlog.

    Args:
        file: Its name, for messages.
        data: All of its bytes, unpacked.

    Raises:
        BinlogError: as `file_scan.scan_file`, of which this has the results and the errors.
    """
    content = _Content(data)
    stream = EventStream(file, content.read)
    scan = TransactionScan(stream)
    walk = _Walk(data, checked=stream.description.checksummed)
    while (event := stream.next_event()) is not None:
        scan.step(event)
        known = scan.state.gtids_after
        is_mariadb = stream.description.is_mariadb if known is None else isinstance(known, MariaDbGtids)
        passed = walk.from_(stream.offset, scan, is_mariadb=is_mariadb)
        if passed is not None:
            scan.pass_over(passed)
            stream.skip_to(passed.end)
            content.at = passed.end
    return scan.finished()


class _Content:
    """Bytes that are read like a file."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self.at = 0

    def read(self, size: int) -> bytes:
        part = self._data[self.at : self.at + size].tobytes()
        self.at += len(part)
        return part


class _Walk:
    """The kernel, and what it fills."""

    def __init__(self, data: Bytes, *, checked: bool) -> None:
        self._data = data
        self._listed = Transactions.empty(_AT_ONCE)
        self._state = np.zeros(len(ScanPlace), np.int64)
        self._state[ScanPlace.END] = data.size
        self._state[ScanPlace.CHECKED] = checked

    def from_(self, start: int, scan: TransactionScan, *, is_mariadb: bool) -> PlainEvents | None:
        """Follows the events from an offset on; returns what they did, None if the first one is not plain."""
        state, open_at = self._state, scan.open_at
        state[ScanPlace.AT], state[ScanPlace.MARIADB] = start, is_mariadb
        state[ScanPlace.OPEN], state[ScanPlace.BEGUN] = -1 if open_at is None else open_at, scan.begun
        state[ScanPlace.GTIDS :] = 0
        follow(self._data, state, self._listed)
        if state[ScanPlace.AT] == start:
            return None
        ends = array("Q")
        ends.frombytes(self._listed.end[: state[ScanPlace.ENDS]].tobytes())
        return PlainEvents(
            end=int(state[ScanPlace.AT]),
            open_at=None if state[ScanPlace.OPEN] < 0 else int(state[ScanPlace.OPEN]),
            begun=bool(state[ScanPlace.BEGUN]),
            gtids=(_of_mariadb if is_mariadb else _of_mysql)(self._listed, int(state[ScanPlace.GTIDS])),
            ends=ends,
            first_time=int(state[ScanPlace.FIRST_TIME]),
            last_time=int(state[ScanPlace.LAST_TIME]),
            server_id=int(state[ScanPlace.SERVER]),
            numbered=int(state[ScanPlace.GTIDS]),
        )


def _of_mariadb(listed: Transactions, count: int) -> GtidSet:
    """Returns the last listed transaction of each domain."""
    domains, places = np.unique(listed.high[:count][::-1], return_index=True)
    last = count - 1 - places
    found = zip(domains.tolist(), listed.low[last].tolist(), listed.number[last].tolist(), strict=True)
    return MariaDbGtids(last={domain: (server, number) for domain, server, number in found})


def _of_mysql(listed: Transactions, count: int) -> GtidSet:
    """Returns the listed transactions: numbers that follow each other are one interval."""
    if not count:
        return MySqlGtids()
    high, low, number = listed.high[:count], listed.low[:count], listed.number[:count]
    follows = (high[1:] == high[:-1]) & (low[1:] == low[:-1]) & (number[1:] == number[:-1] + 1)
    firsts = np.flatnonzero(np.concatenate(([True], ~follows)))
    lasts = np.append(firsts[1:], count) - 1
    found: dict[str, list[Interval]] = {}
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        found.setdefault(_source(high, low, first), []).append((int(number[first]), int(number[last]) + 1))
    return MySqlGtids().joined(MySqlGtids(intervals={source: tuple(intervals) for source, intervals in found.items()}))


def _source(high: Int64s, low: Int64s, place: int) -> str:
    return uuid_text(high[place : place + 1].tobytes() + low[place : place + 1].tobytes())
