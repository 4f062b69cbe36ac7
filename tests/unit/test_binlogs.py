"""Binlogs: what is read of them, what is refused by name, and what cut and changed bytes come to."""

import gzip
import io
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cdc_ops.core.binlog.event_stream import FileEnd
from cdc_ops.core.binlog.events import EventFlag, EventType
from cdc_ops.core.binlog.file_begin import read_begin
from cdc_ops.core.binlog.gtids import MariaDbGtids, MySqlGtids
from cdc_ops.core.binlog.statements import StatementKind, kind_of
from cdc_ops.core.binlog.unfollowed import LONGEST, MOST
from cdc_ops.errors import (
    BinlogCutError,
    BinlogDamagedError,
    BinlogEncryptedError,
    BinlogError,
    BinlogEventError,
    BinlogKindError,
    BinlogMetadataError,
    BinlogStatementError,
)
from cdc_ops.events.binlog.charsets import CHARSETS, BadText, charset_of
from cdc_ops.events.binlog.decoder import BadRows, BinlogFile, Definition, RowChange
from cdc_ops.events.binlog.jsonb import apply_diffs, read_json
from cdc_ops.events.binlog.texts import record_of
from cdc_ops.events.fast_binlog.quick_scan import scan_content
from tests.binlog_files import BinlogWriter, with_checksums
from tests.fast_binlogs import exact, fast, target

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def opened(data: bytes) -> BinlogFile:
    return BinlogFile.open("binlog.000001", lambda: io.BytesIO(data))


def rows(data: bytes) -> list[Any]:
    found = []
    for change in opened(data).changes():
        match change:
            case RowChange():
                found.append((str(change.op), dict(change.before or {}), dict(change.after or {})))
            case Definition():
                found.append(change.sql)
            case BadRows():
                found.append("bad")
    return found


def small() -> BinlogWriter:
    writer = BinlogWriter()
    writer.gtid_list((0, 1, 6))
    writer.transaction(7, (1, "one"), (2**64 - 1, None))
    writer.gtid(8, flags=1)
    writer.query("ALTER TABLE items ADD n INT")
    writer.gtid(9)
    writer.table_map()
    writer.rows(EventType.UPDATE_ROWS_V1, (1, "one"), (1, "zwei ü"))
    writer.table_map()
    writer.rows(EventType.DELETE_ROWS_V1, (2**64 - 1, None))
    writer.commit()
    return writer


WHOLE = small()
DATA = WHOLE.rotate()
EXPECTED = [
    ("c", {}, {"id": 1, "name": "one"}),
    ("c", {}, {"id": 2**64 - 1, "name": None}),
    "ALTER TABLE items ADD n INT",
    ("u", {"id": 1, "name": "one"}, {"id": 1, "name": "zwei ü"}),
    ("d", {"id": 2**64 - 1, "name": None}, {}),
]


def test_a_file_says_what_it_holds_and_what_stands_before_and_after_it() -> None:
    scan = opened(DATA).scan
    assert rows(DATA) == EXPECTED
    assert (str(scan.gtids.before), str(scan.gtids.after), scan.next_name, scan.end) == ("0-1-6", "0-1-9", "binlog.000002", FileEnd.ROTATE)
    assert scan.complete_to == scan.size == len(DATA)
    assert len(scan.ends) == 3
    begin = read_begin("f", io.BytesIO(DATA).read)
    assert (str(begin.gtids), begin.server_id, begin.description.is_mariadb) == ("0-1-6", 1, True)


@pytest.mark.parametrize(
    "pack", [gzip.compress, zstandard.ZstdCompressor().compress, lambda data: gzip.compress(data[:99]) + gzip.compress(data[99:])]
)
def test_packed_files_are_told_by_their_first_bytes_and_a_cut_one_is_not_taken_for_a_short_one(pack: Any) -> None:
    packed = pack(DATA)
    assert rows(packed) == EXPECTED
    for size in range(5, len(packed) - 1, 7):
        with pytest.raises(BinlogError):
            rows(packed[:size])


def test_what_is_no_binlog_is_refused_by_name() -> None:
    for begin, error, text in (
        (b"\xfdbin" + bytes(508), BinlogEncryptedError, "binlog_encryption=ON"),
        (b"\xfd7zXZ\0", BinlogKindError, "packed with xz"),
        (b"# at 4\n", BinlogKindError, "do not"),
        (b"", BinlogKindError, "is no binlog"),
        (b"\xfeb", BinlogCutError, "first 4 bytes"),
    ):
        with pytest.raises(error, match=text):
            opened(begin)
    for flags in (0, EventFlag.IGNORABLE):
        writer = BinlogWriter()
        writer.event(EventType.MARIADB_START_ENCRYPTION, bytes(17), flags=int(flags))
        with pytest.raises(BinlogEncryptedError, match="encrypt_binlog=ON"):
            opened(bytes(writer.data) + bytes(range(100, 140)))


@pytest.mark.parametrize("flags", [0, int(EventFlag.IGNORABLE)])
def test_a_file_that_mariadb_has_encrypted_and_sent_decrypted_is_read(flags: int) -> None:
    writer = BinlogWriter()
    writer.event(EventType.MARIADB_START_ENCRYPTION, bytes(17), flags=flags)
    writer.gtid_list((0, 1, 6))
    writer.transaction(7, (1, "one"))
    data = writer.rotate()
    wanted = target("shop.items", {"id": "decimal(20,0)", "name": "string"})
    assert [row["id"] for row in fast(opened(data), data, wanted)["rows"]] == [1]
    assert fast(opened(data), data, wanted) == exact(opened(data), wanted)
    assert str(scan_content("f", np.frombuffer(data, np.uint8)).gtids.after) == str(opened(data).scan.gtids.after) == "0-1-7"
    assert str(read_begin("f", io.BytesIO(data).read).gtids) == "0-1-6"
    writer = BinlogWriter()
    writer.event(EventType.MARIADB_START_ENCRYPTION, bytes(17), flags=flags)
    writer.transaction(7, (1, "one"))  # plain events follow at once
    assert scan_content("f", np.frombuffer(bytes(writer.data), np.uint8)).size == len(writer.data)


def test_events_that_may_stand_for_rows_are_refused_with_file_and_position() -> None:
    for kind, body, flags, error, text in (
        (99, b"x", 0, BinlogEventError, r"binlog.000001 has, at byte \d+, an event of the unknown type 99"),
        (EventType.INCIDENT, b"\1\0\0", 0, BinlogEventError, "INCIDENT"),
        (EventType.NEW_LOAD, b"x", 0, BinlogStatementError, "LOAD DATA"),
        (20, b"x", 0, BinlogEventError, "unknown type 20"),
        (99, b"x", EventFlag.IGNORABLE, None, ""),
    ):
        writer = BinlogWriter()
        writer.event(kind, body, flags=int(flags))
        if error is None:
            assert rows(writer.rotate()) == []
        else:
            with pytest.raises(error, match=text):
                opened(bytes(writer.data))
    writer = BinlogWriter()
    writer.gtid(1)
    writer.table_map(metadata=False)
    writer.rows(EventType.WRITE_ROWS_V1, (1, "a"))
    writer.commit()
    with pytest.raises(BinlogMetadataError, match=r"rows of shop.items without the names and signs and character sets"):
        rows(writer.rotate())


def test_a_transaction_counts_when_it_is_committed_and_as_far_as_it_was_not_rolled_back() -> None:
    writer = BinlogWriter()
    writer.gtid(1)
    for key, statement in ((1, "SAVEPOINT `a b`"), (2, "ROLLBACK TO `a b`"), (3, "")):
        writer.table_map()
        writer.rows(EventType.WRITE_ROWS_V1, (key, "x"))
        if statement:
            writer.query(statement.replace("a b", "ab"))
    writer.commit()
    writer.gtid(2)
    writer.table_map()
    writer.rows(EventType.WRITE_ROWS_V1, (4, "x"))
    writer.query("ROLLBACK")
    unfinished = writer.gtid(3)
    writer.table_map()
    writer.rows(EventType.WRITE_ROWS_V1, (5, "x"))
    data = bytes(writer.data)
    assert [row[2]["id"] for row in rows(data)] == [1, 3]
    assert opened(data).scan.complete_to == unfinished
    with pytest.raises(BinlogDamagedError, match="closed within a transaction"):
        opened(writer.rotate())


def test_changes_as_statements_are_noted_with_their_place_and_what_they_name() -> None:
    writer = BinlogWriter()
    begun = writer.gtid(1)
    writer.query("insert into items values (1)")
    writer.query("update log set a = 1", database="other")
    behind = writer.commit()
    alone = writer.gtid(2, flags=1)
    writer.query("ALTER TABLE items DROP PARTITION p1")
    writer.gtid(3)
    writer.event(EventType.BEGIN_LOAD_QUERY, b"file")
    loaded = b"LOAD DATA INFILE 'x' INTO TABLE `items`"
    writer.event(EventType.EXECUTE_LOAD_QUERY, struct.pack("<IIBHH", 1, 0, 4, 0, 0) + bytes(13) + b"shop\0" + loaded)
    writer.commit()
    writer.transaction(4, (1, "one"))
    data = writer.rotate()
    found = opened(data).scan.unfollowed
    assert [(change.database, change.sql) for change in found] == [
        ("shop", "insert into items values (1)"),
        ("other", "update log set a = 1"),
        ("shop", "ALTER TABLE items DROP PARTITION p1"),
        ("shop", loaded.decode()),
    ]
    assert (found[0].start, found[0].end) == (found[1].start, found[1].end) == (begun, alone)
    assert begun < behind < alone == found[2].start < found[2].end == found[3].start
    assert rows(data) == [("c", {}, {"id": 1, "name": "one"})]  # the others are followed
    assert scan_content("f", np.frombuffer(data, np.uint8)).unfollowed == found


def test_many_changes_as_statements_are_noted_in_bounded_memory_and_concern_all_tables_then() -> None:
    writer = BinlogWriter()
    for number in range(MOST + 20):
        writer.gtid(number + 1, flags=1)
        writer.query(f"insert into t{number} values (1)")
    writer.gtid(9_999, flags=1)
    writer.query("insert into items values ('" + "x" * LONGEST + "')")
    found = opened(writer.rotate()).scan.unfollowed
    assert len(found) == MOST + 1
    assert (found[-1].sql, found[-1].start, found[-1].tables) == ("", found[-2].end, None)


def test_distributed_transactions_that_another_file_decides_are_left_out_and_told_with_their_tables() -> None:
    def prepared() -> BinlogWriter:
        writer = BinlogWriter()
        writer.gtid(1)
        writer.table_map()
        writer.rows(EventType.WRITE_ROWS_V1, (1, "x"))
        writer.event(EventType.XA_PREPARE, struct.pack("<BIII", 0, 1, 1, 0) + b"a")
        return writer

    open_ended = prepared()
    assert rows(bytes(open_ended.data)) == []
    assert opened(bytes(open_ended.data)).scan.complete_to == open_ended.offsets[1]
    undecided = opened(prepared().rotate())
    [change] = undecided.undecided()
    assert (change.tables, change.start, change.end) == ((("shop", "items"),), open_ended.offsets[1], len(open_ended.data))
    assert rows(prepared().rotate()) == []
    for decision, expected in (("COMMIT", 1), ("ROLLBACK", 0)):
        writer = prepared()
        writer.gtid(2, flags=1)
        writer.query(f"XA {decision} X'61',X'',1")
        data = writer.rotate()
        assert len(rows(data)) == expected
        assert not list(opened(data).undecided())
    writer = BinlogWriter()
    writer.gtid(2, flags=1)
    writer.query("XA COMMIT X'61',X'',1")
    writer.transaction(3, (2, "y"))
    assert len(rows(writer.rotate())) == 1  # what it commits was told where it was prepared


def test_positions_beyond_four_gibibytes_begin_anew_and_others_that_disagree_are_damage() -> None:
    writer = BinlogWriter()
    writer.event(EventType.STOP, b"", artificial_end=99)
    with pytest.raises(BinlogDamagedError, match="bytes were added or lost"):
        opened(bytes(writer.data))
    with pytest.raises(BinlogDamagedError, match="second description"):
        opened(bytes(BinlogWriter().data) + bytes(BinlogWriter().data[4:]))


@given(st.integers(0, len(DATA)))
def test_a_cut_file_gives_an_error_or_a_prefix_of_its_transactions(size: int) -> None:
    try:
        found = rows(DATA[:size])
    except (BinlogCutError, BinlogKindError):
        assert size not in {*WHOLE.offsets[1:], len(DATA)}
    else:
        assert found == EXPECTED[: len(found)]
        assert size in {*WHOLE.offsets[1:], len(DATA)}


@given(st.integers(0, len(DATA) * 8 - 1))
def test_a_bit_that_flips_is_always_noticed(bit: int) -> None:
    changed = bytearray(DATA)
    changed[bit >> 3] ^= 1 << (bit & 7)
    flipped_in_use = bit >> 3 == 4 + 17 and bit & 7 == 0  # the server itself changes this flag without a new checksum
    if flipped_in_use:
        assert rows(bytes(changed)) == EXPECTED
    else:
        with pytest.raises(BinlogError):
            rows(bytes(changed))


def _mutations() -> st.SearchStrategy[list[tuple[int, int]]]:
    sizes = {place + byte for place in WHOLE.offsets for byte in range(9, 13)}
    places = [place for place in range(WHOLE.offsets[1], len(DATA)) if place not in sizes]
    return st.lists(st.tuples(st.sampled_from(places), st.integers(0, 255)), min_size=1, max_size=6)


def test_two_columns_of_the_same_name_are_damage() -> None:
    named = with_checksums(DATA.replace(b"\2id\4name", b"\3abc\3abc"), WHOLE.offsets)
    with pytest.raises(BinlogDamagedError, match="two columns have the same name"):
        list(opened(named).changes())


@settings(max_examples=400)
@example(changes=[(382, 254)])  # the type of a string in the metadata of a column
@given(_mutations())
def test_changed_bytes_with_a_right_checksum_give_a_named_error_or_rows_and_nothing_else(changes: list[tuple[int, int]]) -> None:
    changed = bytearray(DATA)
    for place, byte in changes:
        changed[place] = byte
    said = ""
    try:
        for change in opened(with_checksums(bytes(changed), WHOLE.offsets)).changes():
            assert record_of(change, 1)
    except BinlogError as error:
        said = str(error)
    assert not said or "binlog.000001" in said


@given(st.binary(max_size=200))
def test_bytes_of_json_give_a_document_or_a_value_error(data: bytes) -> None:
    for read in (lambda: read_json(data), lambda: apply_diffs({"a": [1]}, data)):
        try:
            read()
        except ValueError:
            continue


def test_statements_are_told_apart_and_unknown_ones_count_as_changes() -> None:
    expected = {
        StatementKind.CHANGE: (
            *(
                "insert into t values ('/* */')",
                "WITH a AS (SELECT 1) DELETE FROM t",
                "CREATE TABLE t AS SELECT 1",
                "DO f()",
                "",
                "call p()",
            ),
            *("ALTER TABLE t TRUNCATE PARTITION p0", "SET STATEMENT max_statement_time=1 FOR UPDATE t SET a=1"),
        ),
        StatementKind.DEFINITION: (
            *("/*!40000 ALTER TABLE `t` DISABLE KEYS */", "-- why\nDROP TABLE t", "CREATE TABLE t (a INT COMMENT 'SELECT')"),
            *("create table `select` (a int)", "SET STATEMENT max_statement_time=1 FOR ALTER TABLE t ADD b INT", "GRANT ALL ON *.* TO a"),
        ),
        StatementKind.BEGIN: ("BEGIN",),
        StatementKind.ROLLBACK_TO: ("ROLLBACK TO `a`",),
        StatementKind.XA_COMMIT: ("XA COMMIT X'61',X'',1",),
    }
    assert {sql: kind_of(sql) for texts in expected.values() for sql in texts} == {
        sql: kind for kind, texts in expected.items() for sql in texts
    }


def test_sets_of_transactions_know_what_is_in_them() -> None:
    some = MySqlGtids.parse(f"{SOURCE}:1-5:7,\n{SOURCE}:tag:1-3")
    assert str(some) == f"{SOURCE}:1-5:7,{SOURCE}:tag:1-3"
    assert str(some.with_gtid(f"{SOURCE}:6").with_gtid(f"{SOURCE}:8")) == f"{SOURCE}:1-8,{SOURCE}:tag:1-3"
    assert str(some.minus(MySqlGtids.parse(f"{SOURCE}:2-3"))) == f"{SOURCE}:1:4-5:7,{SOURCE}:tag:1-3"
    assert not MySqlGtids.parse(f"{SOURCE}:1-4").contains(some)
    with pytest.raises(ValueError, match="neither a number"):
        MySqlGtids.parse(f"{SOURCE}:?")
    assert str(MariaDbGtids.parse("1-2-7,0-1-3").minus(MariaDbGtids.parse("0-1-3"))) == "1-2-7"


@given(st.sets(st.integers(1, 40)), st.sets(st.integers(1, 40)))
def test_sets_of_transactions_are_sets_of_numbers(mine: set[int], others: set[int]) -> None:
    def gtids(numbers: set[int]) -> MySqlGtids:
        return MySqlGtids.parse(",".join(f"{SOURCE}:{number}" for number in numbers))

    assert gtids(mine).minus(gtids(others)) == gtids(mine - others)
    assert gtids(mine).contains(gtids(others)) is (others <= mine)


def _texts() -> Iterator[tuple[int, bytes, str]]:
    yield 8, b"\x80\x81\xff", "€\x81ÿ"
    yield 45, "😀".encode(), "😀"
    yield 13, b"\x81\x5f", "\\"
    yield 2304, "é".encode(), "é"
    yield 1071, b"\xe9", "é"


def test_texts_are_read_as_the_server_reads_them_and_bytes_that_are_none_are_marked() -> None:
    for collation, raw, text in _texts():
        charset = charset_of(collation)
        assert charset is not None
        assert charset.decode(raw) == text
    assert CHARSETS["utf8mb4"].decode(b"\xff") == BadText(b"\xff", "utf8mb4")
    assert CHARSETS["utf8mb3"].decode("😀".encode()) == BadText("😀".encode(), "utf8mb3")
    assert CHARSETS["eucjpms"].decode(b"\x8f\xa2\xb7") == BadText(b"\x8f\xa2\xb7", "eucjpms")
    assert charset_of(9999) is None


def test_system_versioning_that_begins_or_ends_in_the_log_is_a_change_that_cannot_be_followed() -> None:
    for sql, kind in (
        ("ALTER TABLE t ADD SYSTEM VERSIONING", StatementKind.CHANGE),
        ("alter online table t add column a int, DROP SYSTEM VERSIONING", StatementKind.CHANGE),
        ("CREATE TABLE t (a INT) WITH SYSTEM VERSIONING", StatementKind.DEFINITION),
    ):
        assert kind_of(sql) is kind
