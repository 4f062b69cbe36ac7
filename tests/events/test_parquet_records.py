"""Records of Parquet files: every row with its place, and every value with all of its digits."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_ops.core.events.format_spec import Container
from cdc_ops.errors import ArchiveFileError
from cdc_ops.events.records.reader import MOST_RECORDS, FileCount
from tests.events.archived import opened, put, read, records_of

PARQUET = Container.PARQUET
DAY = datetime.date(2020, 1, 1)
US, UTC = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
ROW = pa.struct([("a", pa.int8()), ("t", US), ("d", pa.decimal128(20, 9)), ("y", pa.binary()), ("n", pa.uint64())])


def write(folder: Path, name: str, table: pa.Table, **options: Any) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name, **options)
    return name


def values(folder: Path, array: pa.Array, **options: Any) -> list[str]:
    """The JSON of the values of a column."""
    found = records_of(folder, write(folder, "t.parquet", pa.table({"x": array}), **options), PARQUET)
    return [value.decode().removeprefix('{"x":').removesuffix("}") for value, _ in found]


def garbled() -> pa.Array:
    return pa.array([b"\xff", b"a"]).view(pa.string())


@pytest.mark.parametrize("first_line", [0, 99, 100, 101, 2999, 3000])
def test_rows_have_their_place_and_their_values(tmp_path: Path, first_line: int) -> None:
    table = pa.table(
        {
            "id": pa.array(range(3000), pa.int32()),
            "at": pa.array([1_700_000_000_123_456] * 3000, UTC),
            "code": pa.array([b"ab\x00\xff"] * 3000, pa.binary()),
            "amount": pa.array([Decimal("1234567890123456789012345678.0123456789")] * 3000, pa.decimal128(38, 10)),
            "note": pa.nulls(3000, pa.string()),
        }
    )
    name = write(tmp_path, "shop/a [1]/LOAD00000001.parquet", table, row_group_size=100)
    found, count = read(opened(tmp_path, name, PARQUET, first_line))
    assert count == FileCount(lines=3000)
    rows = [(json.loads(value or b""), line) for value, line in found]
    assert [line for _, line in rows] == [row["id"] for row, _ in rows] == list(range(first_line, 3000))
    amount = "1234567890123456789012345678.0123456789"
    for row, line in rows:
        assert row == {"id": line, "at": "2023-11-14 22:13:20.123456", "code": "YWIA/w==", "amount": amount, "note": None}


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([True, None]), ["true", "null"]),
        (pa.array([2**64 - 1, None], pa.uint64()), ['"18446744073709551615"', "null"]),
        (pa.array([2**32 - 1], pa.uint32()), ["4294967295"]),
        (
            pa.array([0, -1, 253402300800000000, -62167219200000001], US),
            [
                '"1970-01-01 00:00:00.000000"',
                '"1969-12-31 23:59:59.999999"',
                '"+10000-01-01 00:00:00.000000"',
                '"-0001-12-31 23:59:59.999999"',
            ],
        ),
        (pa.array([-1, None], pa.timestamp("ms", tz="Asia/Shanghai")), ['"1969-12-31 23:59:59.999000"', "null"]),
        (pa.array([0, 2932897, -719529], pa.date32()), ['"1970-01-01"', '"+10000-01-01"', '"-0001-12-31"']),
        (pa.array([Decimal("0E-10"), Decimal("1E-10")], pa.decimal128(38, 10)), ['"0.0000000000"', '"0.0000000001"']),
        (pa.array([0.1, float("nan"), float("-inf"), None], pa.float32()), ["0.1", '"NaN"', '"-Infinity"', "null"]),
        (pa.array([0.1, float("inf"), -0.0]), ["0.1", '"Infinity"', "-0.0"]),
        (pa.array(['ü"', "b"]).dictionary_encode(), ['"ü\\""', '"b"']),
        (pa.array([b"ab"], pa.binary(2)), ['"YWI="']),
        (pa.array([5], pa.duration("us")), ["5"]),
        (pa.nulls(1), ["null"]),
        (pa.array([[1, None], None, []], pa.list_(pa.int32())), ["[1,null]", "null", "[]"]),
        (pa.array([[float("nan")]]), ['["NaN"]']),
        (pa.array([[("k", DAY), ("l", None)], None, []], pa.map_(pa.string(), pa.date32())), ['{"k":"2020-01-01","l":null}', "null", "{}"]),
        (pa.array([[(1, "a")]], pa.map_(pa.int32(), pa.string())), ['{"1":"a"}']),
        (
            pa.array([{"a": 1, "t": 0, "d": Decimal("1.5"), "y": b"\xff", "n": 2**64 - 1}, None], ROW),
            ['{"a":1,"t":"1970-01-01 00:00:00.000000","d":1.500000000,"y":"/w==","n":18446744073709551615}', "null"],
        ),
    ],
)
def test_values_are_spelled_as_spark_spells_them(tmp_path: Path, array: pa.Array, expected: list[str]) -> None:
    assert values(tmp_path, array) == expected
    assert values(tmp_path, array, store_schema=False) == expected


def test_the_old_timestamps_of_parquet_are_read_in_all_years(tmp_path: Path) -> None:
    moments = pa.array([1_700_000_000_123_456, -62135596800000000, 253402300799999999], UTC)
    expected = ['"2023-11-14 22:13:20.123456"', '"0001-01-01 00:00:00.000000"', '"9999-12-31 23:59:59.999999"']
    assert values(tmp_path, moments, use_deprecated_int96_timestamps=True) == expected


def test_a_row_with_text_that_is_not_utf8_is_that_text(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([1, 2]), "a": garbled(), "b": pa.array(["x", None]), "c": pa.array([b"z", b"z"])})
    found = records_of(tmp_path, write(tmp_path, "t.parquet", table), PARQUET)
    assert found == [(b"\xff,x", 0), (b'{"id":2,"a":"a","b":null,"c":"eg=="}', 1)]
    nested = pa.ListArray.from_arrays([0, 1, 2], garbled())
    [(first, _), (second, _)] = records_of(tmp_path, write(tmp_path, "u.parquet", pa.table({"x": nested})), PARQUET)
    assert (first, second) == (b"\xff", b'{"x":["a"]}')


def test_batches_are_bounded_and_files_without_rows_have_none(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(MOST_RECORDS + 1))})
    assert [len(batch) for batch in opened(tmp_path, write(tmp_path, "t.parquet", table), PARQUET).batches()] == [MOST_RECORDS, 1]
    assert read(opened(tmp_path, write(tmp_path, "none.parquet", table.slice(0, 0)), PARQUET)) == ([], FileCount(lines=0))
    assert read(opened(tmp_path, "nowhere.parquet", PARQUET, size=0)) == ([], FileCount(lines=0))


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.timestamp("ns")])
def test_a_type_that_is_not_read_is_named(tmp_path: Path, kind: pa.DataType) -> None:
    with pytest.raises(ArchiveFileError, match=r"t\.parquet cannot be read: its column 'x' has the type (time64|timestamp)"):
        values(tmp_path, pa.array([0], kind))


def test_damaged_and_emptied_files_are_named(tmp_path: Path) -> None:
    name = write(tmp_path, "t.parquet", pa.table({"x": ["a" * 1000, "b"]}), compression="none")
    whole = (tmp_path / name).read_bytes()
    for data in (whole[:-9], b"{}", b"PAR1" * 9, whole[:4] + b"\xff" * 30 + whole[34:]):
        put(tmp_path, name, data)
        with pytest.raises(ArchiveFileError, match=r"t\.parquet cannot be read: "):
            read(opened(tmp_path, name, PARQUET))
    with pytest.raises(ArchiveFileError, match=rf"found no data in t\.parquet; the listing showed {2 * len(whole)} bytes"):
        read(opened(tmp_path, name, PARQUET, size=2 * len(whole)))


def test_a_file_that_is_no_parquet_by_its_name_is_refused(tmp_path: Path) -> None:
    for name in ("t/LOAD00000001.csv", "LOAD00000001.parquet.gz"):
        with pytest.raises(ArchiveFileError, match=r"does not end with '\.parquet'"):
            opened(tmp_path, name, PARQUET, size=10)
