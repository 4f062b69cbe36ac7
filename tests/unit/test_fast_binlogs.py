"""The fast way to read binlogs gives what the reference decoder alone gives, on whole files and on damaged ones."""

import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import types

from cdc_ops.core.binlog.events import CHECKSUM_SIZE, HEADER_SIZE, EventType
from cdc_ops.decode.binlog.checksums import crc32_by_folding, crc32_by_tables
from cdc_ops.decode.compiler import BYTES, kernel
from cdc_ops.errors import BinlogCutError, BinlogDamagedError, BinlogError
from cdc_ops.events.fast_binlog.change_batches import Target
from tests.binlog_files import BinlogWriter, with_checksums
from tests.fast_binlogs import exact, fast, opened, target

ITEMS = {"id": "decimal(20,0)", "name": "string"}


def written() -> BinlogWriter:
    writer = BinlogWriter()
    writer.gtid_list((0, 1, 6))
    writer.transaction(7, (1, "one"), (2**64 - 1, None), (3, "zwei ü"))
    writer.gtid(8)
    writer.table_map()
    writer.rows(EventType.UPDATE_ROWS_V1, (1, "one"), (1, "𝄞"), (3, None), (4, ""))
    writer.table_map(table_id=9)
    writer.rows(EventType.DELETE_ROWS, (4, "four"), table_id=9)
    writer.commit()
    return writer


WHOLE = written()
DATA = WHOLE.rotate()


@kernel(types.int64(BYTES, types.int64, types.int64))
def by_tables(data: Any, start: int, end: int) -> int:
    return int(crc32_by_tables(data, start, end))


@kernel(types.int64(BYTES, types.int64, types.int64))
def by_folding(data: Any, start: int, end: int) -> int:
    return int(crc32_by_folding(data, start, end))


@pytest.mark.parametrize("checksum", [by_tables, by_folding])
def test_checksums_are_those_of_zlib_at_every_length_and_place(checksum: Any) -> None:
    if checksum is by_folding and sys.platform == "linux" and "pclmulqdq" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor does not multiply without carry")
    data = np.random.default_rng(7).integers(0, 256, 1000, dtype=np.uint8)
    for size in (0, 1, 15, 16, 17, 63, 64, 127, 128, 129, 191, 192, 193, 255, 900):
        for start in (0, 1, 3):
            assert checksum(data, start, start + size) == zlib.crc32(data[start : start + size].tobytes())


@pytest.mark.parametrize("rows", [1, 2, 3, 20_000])
@pytest.mark.parametrize("images", [True, False])
def test_rows_of_a_file_equal_those_of_the_reference_decoder_in_batches_of_any_size(rows: int, images: bool) -> None:
    file, wanted = opened(DATA), target("shop.items", ITEMS, images=images)
    found = fast(file, DATA, wanted, rows)
    assert found == exact(file, wanted)
    assert [row["name"] for row in found["rows"]] == ["one", None, "zwei ü", "𝄞", "", "four"]
    assert found["kind"] == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize("columns", [{"name": "string"}, {"id": "bigint"}, {"id": "int", "other": "string"}, {"name": "binary"}])
def test_columns_may_be_left_out_be_unknown_or_of_a_type_that_does_not_hold_all_values(columns: dict[str, str]) -> None:
    file, wanted = opened(DATA), target("shop.items", columns)
    assert fast(file, DATA, wanted) == exact(file, wanted)


def test_other_tables_are_passed_over() -> None:
    wanted = target("shop.others", ITEMS)
    assert fast(opened(DATA), DATA, wanted)["rows"] == []


def same(data: bytes, wanted: Target) -> Any:
    try:
        file = opened(data)
    except BinlogError:
        return None
    found, wants = fast(file, data, wanted), exact(file, wanted)
    # Of several things that are wrong in one batch, either may be told.
    assert found == wants or (isinstance(found, type) and isinstance(wants, type))
    return found


def test_a_file_that_the_server_still_writes_is_read() -> None:
    data = bytearray(DATA)
    data[4 + 17] |= 1  # LOG_EVENT_BINLOG_IN_USE_F, which the server sets without a new checksum
    found = same(bytes(data), target("shop.items", ITEMS))
    assert found["rows"] == fast(opened(DATA), DATA, target("shop.items", ITEMS))["rows"] != []


SIZES = {place + byte for place in WHOLE.offsets for byte in range(9, 13)}
PLACES = [place for place in range(WHOLE.offsets[1], len(DATA)) if place not in SIZES]


@settings(max_examples=300)
@example(changes=[(654, 0)])  # an update whose images before have no columns
@example(changes=[(780, 24)])  # a delete that becomes an update of no columns
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.integers(0, 255)), min_size=1, max_size=6))
def test_changed_bytes_with_a_right_checksum_come_to_the_same_in_both_ways(changes: list[tuple[int, int]]) -> None:
    changed = bytearray(DATA)
    for place, byte in changes:
        changed[place] = byte
    same(with_checksums(bytes(changed), WHOLE.offsets), target("shop.items", ITEMS, images=True))


@given(st.integers(WHOLE.offsets[1] * 8, len(DATA) * 8 - 1))
def test_a_file_that_changes_after_it_was_scanned_is_noticed(bit: int) -> None:
    changed = bytearray(DATA)
    changed[bit >> 3] ^= 1 << (bit & 7)
    assert fast(opened(DATA), bytes(changed), target("shop.items", ITEMS)) in (BinlogDamagedError, BinlogCutError)


@given(st.integers(0, len(DATA)))
def test_a_cut_file_comes_to_the_same_in_both_ways(size: int) -> None:
    same(DATA[:size], target("shop.items", ITEMS))


def test_rows_that_were_rolled_back_to_a_savepoint_do_not_come_out() -> None:
    writer = BinlogWriter()
    writer.gtid(7)
    writer.table_map()
    writer.rows(EventType.WRITE_ROWS_V1, (1, "kept"))
    writer.query("SAVEPOINT a")
    writer.table_map()
    writer.rows(EventType.WRITE_ROWS_V1, (2, "undone"))
    writer.query("ROLLBACK TO a")
    writer.table_map()
    writer.rows(EventType.WRITE_ROWS_V1, (3, "kept"))
    writer.commit()
    data, wanted = writer.rotate(), target("shop.items", ITEMS)
    found = fast(opened(data), data, wanted)
    assert found == exact(opened(data), wanted)
    assert [row["id"] for row in found["rows"]] == [1, 3]


def test_compressed_rows_of_other_tables_are_not_unpacked() -> None:
    writer = BinlogWriter()
    writer.gtid(7)
    writer.table_map()
    rows = WHOLE.data[WHOLE.offsets[4] + HEADER_SIZE : WHOLE.offsets[5] - CHECKSUM_SIZE]
    writer.event(EventType.MARIADB_WRITE_ROWS_COMPRESSED, bytes(rows[:10]) + b"\x81\x01no stream of zlib")
    writer.commit()
    data = writer.rotate()
    assert fast(opened(data), data, target("shop.items", ITEMS)) is BinlogDamagedError
    assert fast(opened(data), data, target("shop.others", ITEMS)) == exact(opened(data), target("shop.others", ITEMS))
    assert fast(opened(data), data, target("shop.others", ITEMS))["rows"] == []
