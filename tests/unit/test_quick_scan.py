"""The scan of binlogs by kernels: it has the results and the errors of the reference scan, to the letter, on any bytes."""

import io
import random
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_ops.core.binlog import file_scan
from cdc_ops.core.binlog.event_stream import EventStream
from cdc_ops.core.binlog.events import EventType
from cdc_ops.core.binlog.file_scan import FileScan, PlainEvents, TransactionScan, scan_file
from cdc_ops.errors import CdcError
from cdc_ops.events.fast_binlog import quick_scan
from cdc_ops.events.fast_binlog.quick_scan import scan_content
from tests.binlog_files import BinlogWriter, with_checksums

MYSQL = "9.7.0"
SOURCES = (bytes(range(16)), bytes(range(100, 116)))


def outcome(scan: Callable[[], FileScan]) -> object:
    """All that a scan says, or what it refuses, word by word."""
    try:
        found = scan()
    except CdcError as error:
        return type(error), str(error)
    said = {one.name: getattr(found, one.name) for one in fields(found)}
    return {**said, "ends": list(found.ends)}


def assert_same(data: bytes) -> object:
    expected = outcome(lambda: scan_file("binlog.000001", io.BytesIO(data).read))
    assert outcome(lambda: scan_content("binlog.000001", np.frombuffer(data, np.uint8))) == expected
    return expected


class Events:
    """Appends events to a file, those of MariaDB or of MySQL."""

    def __init__(self, *, mariadb: bool, checksums: bool) -> None:
        self.writer = BinlogWriter(version="11.4.5-MariaDB-log" if mariadb else MYSQL, checksums=checksums)
        self._mariadb = mariadb

    def gtid(self, number: int, which: int) -> None:
        if self._mariadb:
            flags = (12, 0, 2, 1, 64, 44)[which]
            commit_id = struct.pack("<Q", 1) if flags == 2 else b""
            body = struct.pack("<QIB", number, which % 2, flags) + commit_id + (bytes(6) if which % 3 else b"")
            self.writer.event(EventType.MARIADB_GTID, body)
            return
        kind = (EventType.GTID, EventType.GTID, EventType.GTID, EventType.ANONYMOUS_GTID, EventType.MARIADB_GTID, EventType.GTID)[which]
        clock = b"\2" + bytes(16) + (1_700_000_000_000_000).to_bytes(7, "little") if which else b""
        self.writer.event(kind, b"\1" + SOURCES[which % 2] + struct.pack("<Q", number) + clock)

    def lists(self, number: int, which: int) -> None:
        if which % 3:
            self.writer.gtid_list((which, 1, number))
        else:
            interval = struct.pack("<QQQ", 1, 1, number + 1)
            self.writer.event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 1) + SOURCES[0] + interval)

    def begin(self, number: int, which: int) -> None:
        self.writer.query(("BEGIN", "BEGIN", "BEGIN", "begin", "BEGIN ", "XA START X'61',X'',1")[which])

    def rows(self, number: int, which: int) -> None:
        self.writer.table_map(table_id=which + 1)
        for _ in range(which % 3):
            self.writer.rows(EventType.WRITE_ROWS_V1, (number, "x"), table_id=which + 1)

    def ends(self, number: int, which: int) -> None:
        if which < 4:
            self.writer.commit()
        else:
            self.writer.query("COMMIT" if which == 4 else "ROLLBACK")

    def silent(self, number: int, which: int) -> None:
        kinds = (EventType.ROWS_QUERY, EventType.MARIADB_ANNOTATE_ROWS, EventType.INTVAR, EventType.HEARTBEAT, 99, EventType.ROWS_QUERY)
        self.writer.event(kinds[which], b"x", flags=0x80)

    def statement(self, number: int, which: int) -> None:
        sqls = ("SAVEPOINT `a`", "ROLLBACK TO `a`", "ALTER TABLE items ADD n INT", "XA END X'61',X'',1", "XA COMMIT X'61',X'',1", "DO f()")
        self.writer.query(sqls[which])

    def prepare(self, number: int, which: int) -> None:
        self.writer.event(EventType.XA_PREPARE, struct.pack("<BIII", which % 2, 1, 1, 0) + b"a")

    def time(self, number: int, which: int) -> None:
        self.writer.time = (0, 0, 1_700_000_001, 1_700_000_002, 5, 2**32 - 1)[which]
        self.writer.server_id = which % 3


KINDS = ("gtid", "lists", "begin", "rows", "ends", "silent", "statement", "prepare", "time")
EVENTS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 9), st.integers(0, 5)), max_size=25)
WHOLE_TRANSACTIONS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5), st.booleans()), max_size=12)


def file_of(events: list[tuple[str, int, int]], *, mariadb: bool, checksums: bool, closed: bool) -> BinlogWriter:
    made = Events(mariadb=mariadb, checksums=checksums)
    for kind, number, which in events:
        getattr(made, kind)(number, which)
    if closed:
        made.writer.rotate()
    return made.writer


@settings(max_examples=400)
@given(EVENTS, st.booleans(), st.booleans(), st.booleans())
def test_any_order_of_events_is_scanned_as_by_the_reference(
    events: list[tuple[str, int, int]], mariadb: bool, checksums: bool, closed: bool
) -> None:
    assert_same(bytes(file_of(events, mariadb=mariadb, checksums=checksums, closed=closed).data))


@settings(max_examples=200)
@given(WHOLE_TRANSACTIONS, st.booleans(), st.booleans())
def test_transactions_are_scanned_as_by_the_reference(transactions: list[tuple[int, int, bool]], mariadb: bool, listed: bool) -> None:
    events: list[tuple[str, int, int]] = [("lists", 5, 1 if mariadb else 0)] if listed else []
    for number, which, silent in transactions:
        events += [("time", 1, which), ("gtid", number, 0 if mariadb else which % 3), ("begin", 1, 0), ("rows", 1, which)]
        events += [("silent", 1, 0)] * silent + [("ends", 1, 0)]
    found = assert_same(bytes(file_of(events, mariadb=mariadb, checksums=True, closed=True).data))
    assert isinstance(found, dict), found
    assert len(found["ends"]) == len(transactions)


def test_damaged_files_are_refused_in_the_words_of_the_reference() -> None:
    chance, seen = random.Random(7), Counter[str]()
    for _ in range(1_500):
        events = [("gtid", 1, 0), ("begin", 1, 0), ("rows", 1, 4), ("ends", 1, 0), ("time", 1, chance.randrange(6))] * chance.randrange(
            1, 4
        )
        mariadb = chance.random() < 0.5
        writer = file_of(events, mariadb=mariadb, checksums=True, closed=chance.random() < 0.7)
        data = bytearray(writer.data)
        for _ in range(chance.randrange(1, 4)):
            begin = chance.choice(writer.offsets[1:])
            place = begin + (chance.choice((4, 13, 17, 19, 20, 27, 28, 30, 31)) if chance.random() < 0.8 else chance.randrange(19))
            data[min(place, len(data) - 1)] = (
                chance.randrange(256) if chance.random() < 0.5 else chance.choice((2, 16, 19, 23, 33, 34, 162))
            )
        damaged = with_checksums(bytes(data), writer.offsets) if chance.random() < 0.8 else bytes(data)
        if chance.random() < 0.2:
            damaged = damaged[: chance.randrange(len(damaged))]
        found = assert_same(damaged)
        seen["read" if isinstance(found, dict) else found[0].__name__] += 1  # type: ignore[index]
    assert {"read", "BinlogDamagedError", "BinlogCutError", "BinlogEventError"} <= set(seen), seen
    assert seen["read"] > 100, seen


def test_more_transactions_than_are_listed_at_once_and_what_kernels_take_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all events of a plain file never reach Python: else the scan would not be quick, whatever it found."""
    monkeypatch.setattr(quick_scan, "_AT_ONCE", 7)
    stepped, passed = Counter[bool](), list[PlainEvents]()
    step, pass_over = TransactionScan.step, TransactionScan.pass_over
    for mariadb in (True, False):
        events = [("lists", 0, 1 if mariadb else 0)]
        for number in range(1, 101):
            events += [("gtid", number, 0), ("begin", 1, 0), ("rows", 1, 2), ("ends", 1, 0)]
        data = bytes(file_of(events, mariadb=mariadb, checksums=True, closed=True).data)
        expected = assert_same(data)
        assert isinstance(expected, dict)
        assert str(expected["gtids"].after) == ("0-1-100,1-1-0" if mariadb else "00010203-0405-0607-0809-0a0b0c0d0e0f:1-100")

        def count(scan: TransactionScan, event: file_scan.RawEvent, own: bool = mariadb) -> None:
            stepped[own] += 1
            step(scan, event)

        def note(scan: TransactionScan, plain: PlainEvents) -> None:
            passed.append(plain)
            pass_over(scan, plain)

        with monkeypatch.context() as watched:
            watched.setattr(TransactionScan, "step", count)
            watched.setattr(TransactionScan, "pass_over", note)
            scan_content("binlog.000001", np.frombuffer(data, np.uint8))
        assert sum(1 for _ in EventStream("binlog.000001", io.BytesIO(data).read)) > 500
    assert max(stepped.values()) < 25, stepped
    assert sum(len(one.ends) for one in passed) > 160
