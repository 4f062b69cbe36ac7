"""Which binlogs are copied, which are lost, and whether a server is the one that the archive knows; and the check of what it sends."""

import io
import itertools
import struct
import zlib
from datetime import timedelta
from typing import Any

import pymysql
import pytest

from cdc_ops.core.archive.binlogs.binlog_check import BinlogCheck, BinlogEnd, BinlogSummary, holds_changes, is_in_file
from cdc_ops.core.archive.binlogs.binlog_copies import (
    ArchivedBinlog,
    CopyPlan,
    Retention,
    ServerBinlog,
    follows,
    gap_error,
    plan_copies,
    purge_warning,
    retention_warnings,
    same_beginning,
)
from cdc_ops.core.archive.file_names import BinlogName, Layout, parse_name
from cdc_ops.core.binlog.events import MAGIC, FormatDescription
from cdc_ops.core.binlog.file_begin import FileBegin
from cdc_ops.core.binlog.gtids import GtidSet, MariaDbGtids, MySqlGtids
from cdc_ops.errors import BinlogCopyError, BinlogsReplacedError, ConfigError
from cdc_ops.sources.mysql.binlogs.stream import _Answer

SIZE = 1000


def listed(*numbers: int, base: str = "mysql-bin") -> tuple[ServerBinlog, ...]:
    return tuple(ServerBinlog(name=f"{base}.{number:06}", listed_size=SIZE) for number in numbers)


def archived(*numbers: int, base: str = "mysql-bin", suffix: str = "", size: int = SIZE) -> tuple[ArchivedBinlog, ...]:
    names = [parse_name(Layout.BINLOG, f"db1/{base}.{number:06}{suffix}") for number in numbers]
    return tuple(ArchivedBinlog(name=name, size=size) for name in names if isinstance(name, BinlogName))


def numbers(plan: CopyPlan) -> list[int]:
    return [file.number for file in plan.copies]


def test_all_but_the_newest_binlog_are_copied_behind_those_that_the_archive_has() -> None:
    assert numbers(plan_copies(listed(3, 4, 5, 6), ())) == [3, 4, 5]
    plan = plan_copies(listed(3, 4, 5, 6), archived(1, 2, 3))
    assert (numbers(plan), plan.missing) == ([4, 5], ())
    assert plan.recognised_by is not None
    assert plan.recognised_by[1].number == 3
    assert plan_copies(listed(6), archived(4, 5)) == CopyPlan()
    assert numbers(plan_copies(listed(999_999, 1_000_000, 1_000_001), archived(999_998))) == [999_999, 1_000_000]


def test_a_hole_in_the_archive_is_filled_and_what_lies_before_its_first_file_is_left_out() -> None:
    assert numbers(plan_copies(listed(1, 2, 3, 4, 5, 6), archived(2, 4))) == [3, 5]
    assert numbers(plan_copies(listed(1, 2, 3, 4, 5, 6), (), "mysql-bin.000004")) == [4, 5]


@pytest.mark.parametrize(
    ("server", "archive", "first", "missing", "copies"),
    [
        ((6, 7), (1, 2, 3), "", ["mysql-bin.000004 to mysql-bin.000005"], [6]),
        ((9,), (1, 2, 3), "", ["mysql-bin.000004 to mysql-bin.000008"], []),
        ((6, 7), (1, 3, 5), "", ["mysql-bin.000002", "mysql-bin.000004"], [6]),
        ((6, 7), (1, 3, 5), "mysql-bin.000005", [], [6]),
        ((6, 7), (), "mysql-bin.000005", ["mysql-bin.000005"], [6]),
        ((6, 7), (), "", [], [6]),
    ],
)
def test_what_neither_server_nor_archive_has_is_named_and_the_rest_is_copied(
    server: tuple[int, ...], archive: tuple[int, ...], first: str, missing: list[str], copies: list[int]
) -> None:
    plan = plan_copies(listed(*server), archived(*archive), first)
    assert ([str(item) for item in plan.missing], numbers(plan)) == (missing, copies)
    if missing:
        error = gap_error(plan.missing, "s3://b/db1")
        assert missing[0] in error.what
        assert f"first_file: mysql-bin.{plan.missing[-1].last + 1:06}" in error.next


@pytest.mark.parametrize(
    ("server", "archive", "says"),
    [
        (listed(1, 2, 3), archived(1, 2, 50), "still writes mysql-bin.000003"),
        (listed(1, 2, 3), archived(1, 2, 3), "still writes mysql-bin.000003"),
        (listed(7, 8, base="binlog"), archived(5, 6), "named mysql-bin"),
        (listed(1, 2, 3), archived(1, size=999), "999 bytes in the archive, and 1,000 at the server"),
    ],
)
def test_a_server_that_was_reset_is_refused(server: tuple[ServerBinlog, ...], archive: tuple[ArchivedBinlog, ...], says: str) -> None:
    with pytest.raises(BinlogsReplacedError) as refused:
        plan_copies(server, archive)
    assert says in refused.value.why


def test_sizes_of_compressed_copies_say_nothing_and_mysqls_encryption_header_is_not_sent() -> None:
    assert numbers(plan_copies(listed(1, 2, 3), archived(1, suffix=".zst", size=7))) == [2]
    assert ServerBinlog(name="binlog.000001", listed_size=1512, encrypted=True).size == 1000


def test_a_first_file_of_another_name_is_a_mistake_in_the_file() -> None:
    with pytest.raises(ConfigError, match="the server writes mysql-bin"):
        plan_copies(listed(1, 2), (), "binlog.000001")


def test_two_beginnings_are_the_same_as_far_as_both_go_but_for_the_mark_of_an_open_file() -> None:
    plain = MAGIC + bytes(range(60))
    marked = bytearray(plain)
    marked[21] |= 1
    assert same_beginning(plain, plain + b"more")
    assert same_beginning(plain, bytes(marked))
    assert not same_beginning(plain, plain[:-1] + b"x")
    assert not same_beginning(b"", plain)


def begin(time: int, gtids: GtidSet | None, version: str = "9.7.4") -> FileBegin:
    description = FormatDescription(server_version=version, created=0, checksummed=True, header_sizes=b"", in_use=False)
    return FileBegin(description=description, server_id=1, time=time, gtids=gtids, size=100)


def test_a_binlog_follows_another_one_if_it_knows_its_transactions() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    some, more, others = (MySqlGtids.parse(f"{uuid}:{span}") for span in ("1-5", "1-9", "1-4:6"))
    assert follows(begin(1, some), begin(2, more))
    assert not follows(begin(1, some), begin(2, others))
    assert not follows(begin(2, some), begin(1, more))
    assert follows(begin(1, MariaDbGtids.parse("0-1-5")), begin(2, MariaDbGtids.parse("0-2-6,1-1-1")))
    assert not follows(begin(1, MariaDbGtids.parse("0-1-5")), begin(2, MariaDbGtids.parse("0-1-4")))
    assert not follows(begin(1, None), begin(2, None, "11.4.5-MariaDB"))


def test_a_server_that_keeps_binlogs_for_too_short_a_time_is_told() -> None:
    hour = timedelta(hours=1)
    [text] = retention_warnings(Retention(keeps=hour), timedelta(minutes=45))
    assert "keeps binlogs for 1 h and the pipeline runs every 45 min" in text
    assert retention_warnings(Retention(keeps=hour), timedelta(minutes=30)) == ()
    assert retention_warnings(Retention(), hour) == ()
    assert "max_binlog_total_size" in retention_warnings(Retention(limited_by="max_binlog_total_size"), None)[0]
    assert "may purge it in 1 h" in purge_warning("b.000001", hour, hour)
    assert "may purge it at any moment" in purge_warning("b.000001", -hour, hour)
    assert purge_warning("b.000001", 2 * hour, hour) == ""
    assert "in 24 h" in purge_warning("b.000001", timedelta(days=1), None)


def event(kind: int, at: int, body: bytes = b"", *, flags: int = 0, position: int | None = None) -> bytes:
    size = 19 + len(body) + 4
    head = struct.pack("<IBIIIH", 1_700_000_000, kind, 1, size, at + size if position is None else position, flags) + body
    return head + zlib.crc32(head).to_bytes(4, "little")


FORMAT = event(15, 4, struct.pack("<H50sIB", 4, b"11.4.5-MariaDB", 0, 19) + bytes(40) + b"\x01")
AFTER = 4 + len(FORMAT)


def checked(*events: bytes, expected: int = 0) -> tuple[BinlogSummary, bytes]:
    check, content = BinlogCheck("b.000001"), MAGIC
    for one in events:
        content += check.take(memoryview(one), first=True, last=True) + one
    return check.finish(expected or len(content)), content


def test_a_whole_file_ends_with_a_rotate_a_stop_or_a_crash() -> None:
    for kind, end in ((4, BinlogEnd.ROTATE), (3, BinlogEnd.STOP), (16, BinlogEnd.CRASH)):
        summary, content = checked(FORMAT, event(2, AFTER, b"BEGIN"), event(kind, AFTER + 28))
        assert (summary.end, summary.events, summary.size) == (end, 3, len(content))


def test_a_large_event_comes_in_pieces() -> None:
    large = event(30, AFTER, bytes(range(256)) * 8)
    check = BinlogCheck("b.000001")
    check.take(memoryview(FORMAT), first=True, last=True)
    cuts = [0, 30, 31, len(large) - 6, len(large) - 3, len(large)]
    for low, high in itertools.pairwise(cuts):
        check.take(memoryview(large)[low:high], first=low == 0, last=high == len(large))
    assert check.finish(AFTER + len(large)).events == 2


@pytest.mark.parametrize(
    ("events", "expected", "says"),
    [
        ((event(2, 4),), 0, "its first event is QUERY"),
        ((FORMAT, FORMAT), 0, "second or a later event is FORMAT_DESCRIPTION"),
        ((FORMAT, event(2, AFTER + 1)), 0, "says that it ends at"),
        ((FORMAT, event(2, AFTER)[:-1] + b"\x00"), 0, "checksum"),
        ((FORMAT, event(2, AFTER) + b"x"), 0, "bytes and says"),
        ((FORMAT,), 5, "the server lists 5 bytes"),
        ((), 4, "the server lists 4 bytes"),
        ((FORMAT[:-3] + b"abc",), 0, "checksum of the description"),
    ],
)
def test_what_cannot_be_the_file_is_refused(events: tuple[bytes, ...], expected: int, says: str) -> None:
    with pytest.raises(BinlogCopyError, match=says):
        checked(*events, expected=expected)


def test_an_event_that_mariadb_keeps_for_itself_leaves_its_room_so_that_positions_stay() -> None:
    summary, content = checked(FORMAT, event(163, AFTER + 40, bytes(4)), event(4, AFTER + 67))
    assert summary.was_encrypted
    assert content[AFTER + 4] == 28
    assert len(content) == AFTER + 40 + 27 + 23
    stream = checked(FORMAT, content[AFTER : AFTER + 40], event(163, AFTER + 40, bytes(4)))
    assert stream[0].events == 3


def test_what_frames_a_file_is_told_from_what_is_in_it() -> None:
    assert not is_in_file(memoryview(event(4, 0, b"x" * 20, flags=0x20, position=0)))
    assert not is_in_file(memoryview(event(27, 0)))
    assert is_in_file(memoryview(event(4, 500, b"x" * 20)))
    assert is_in_file(memoryview(event(163, AFTER, flags=0x20, position=0)))


def test_a_new_binlog_holds_no_changes() -> None:
    new = MAGIC + FORMAT + event(163, AFTER, bytes(4)) + event(161, AFTER + 27, b"b")
    assert not holds_changes(new)
    assert holds_changes(new + event(162, len(new)))


class Wire:
    """A connection whose server has sent some bytes."""

    def __init__(self, sent: bytes) -> None:
        self._rfile = io.BufferedReader(io.BytesIO(sent))
        self._next_seq_id = 1
        self._read_timeout = None
        self._sock = self

    def settimeout(self, seconds: Any) -> None:
        pass


def packet(number: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes((number,)) + payload


def received(sent: bytes) -> list[tuple[bytes, bool, bool]]:
    return [(bytes(piece), first, last) for piece, first, last in _Answer(Wire(sent)).pieces()]


def test_an_event_of_more_than_16_mib_is_read_over_its_packets() -> None:
    most = 0xFFFFFF
    sent = (
        packet(1, b"\x00" + b"a" * (most - 1))
        + packet(2, b"b" * most)
        + packet(3, b"")
        + packet(4, b"\x00" + b"c" * 30)
        + packet(5, b"\xfe")
    )
    found = received(sent)
    assert b"".join(piece for piece, _, _ in found) == b"a" * (most - 1) + b"b" * most + b"c" * 30
    assert [first for _, first, _ in found].count(True) == 2
    assert [last for _, _, last in found].count(True) == 2
    assert max(len(piece) for piece, _, _ in found) <= 1024 * 1024


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (packet(1, b"\x00" + b"a" * 30), "Lost connection"),
        (packet(1, b"\x00" + b"a" * 30)[:-5], "Lost connection"),
        (packet(2, b"\x00" + b"a" * 30), "number 2, not 1"),
        (packet(1, b"\xff" + struct.pack("<H", 1236) + b"#HY000Could not find first log file name"), "Could not find"),
    ],
)
def test_an_answer_that_breaks_off_is_an_error_and_no_end(sent: bytes, says: str) -> None:
    with pytest.raises(pymysql.Error, match=says):
        received(sent)
