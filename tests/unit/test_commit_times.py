"""The times at which transactions of binlogs were committed: many at once are those that each event says alone."""

import io
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.binlog.event_stream import EventStream
from cdc_ops.core.binlog.events import EventType
from cdc_ops.core.binlog.file_scan import GTIDS
from cdc_ops.core.binlog.transaction_events import read_gtid
from cdc_ops.events.fast_binlog.commit_times import CommitTimes
from tests.binlog_files import BinlogWriter

MICROS = st.integers(0, 2**55 - 1)
BEGINS = st.lists(st.tuples(st.sampled_from(["mariadb", "mysql", "anonymous", "tagged", "short"]), MICROS, st.booleans()), max_size=20)
ORIGINAL_FOLLOWS = 1 << 55


def begin(writer: BinlogWriter, kind: str, micros: int, original: bool) -> None:
    if kind == "mariadb":
        writer.gtid(1)
        return
    if kind == "tagged":
        numbers = (0, 0, 0)  # version, size, the last field that must be understood
        fields = bytes((0, 0, 2, *bytes(16), 4, 4, 6, 0, 8, 0, 10, 0, 12)) + bytes((micros % 128 << 1,))
        writer.event(EventType.GTID_TAGGED, bytes(numbers) + fields)
        return
    clock = (micros | (ORIGINAL_FOLLOWS if original else 0)).to_bytes(7, "little") + (bytes(7) if original else b"")
    body = b"\1" + bytes(range(16)) + struct.pack("<Q", 5) + (b"" if kind == "short" else b"\2" + bytes(16) + clock)
    writer.event(EventType.ANONYMOUS_GTID if kind == "anonymous" else EventType.GTID, body)


@given(BEGINS, st.booleans())
def test_times_of_many_transactions_are_those_of_each(begins: list[tuple[str, int, bool]], checksums: bool) -> None:
    writer = BinlogWriter(checksums=checksums)
    for number, (kind, micros, original) in enumerate(begins):
        writer.time = 1_700_000_000 + number
        begin(writer, kind, micros, original)
    events = [event for event in EventStream("f", io.BytesIO(bytes(writer.data)).read) if event.header.type in GTIDS]
    assert len(events) == len(begins)
    expected = [read_gtid(event).committed or event.header.time * 1_000_000 for event in events]
    offsets = np.array([event.offset for event in events], np.int64)
    times = CommitTimes(np.frombuffer(bytes(writer.data), np.uint8), checksummed=checksums)
    again = np.concatenate((offsets[::-1], offsets))
    assert times.of(again).tolist() == [*expected[::-1], *expected]


def test_rows_before_any_transaction_are_named() -> None:
    with pytest.raises(ValueError, match="without GTID events"):
        CommitTimes(np.zeros(99, np.uint8), checksummed=True).of(np.array([-1, 4], np.int64))
