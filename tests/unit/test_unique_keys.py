"""Keys of rows that are written as files: what comes twice or is NULL is found, in keys of every type, and nothing else is."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_ops.errors import DuplicateKeyError, NullKeyError
from cdc_ops.lake.data_files.checked_write import WrittenFile, WrittenRows
from cdc_ops.steps.query import unique_keys
from cdc_ops.steps.query.unique_keys import repeated_keys, with_whole_keys
from cdc_ops.steps.query.written_keys import check_written_keys

COLUMNS = {
    "bigint": pa.array([3, -1, 2], pa.int64()),
    "int": pa.array([3, -1, 2], pa.int32()),
    "double": pa.array([0.5, -1.0, 2.0]),
    "decimal": pa.array([Decimal("0.001"), Decimal("-7.000"), Decimal("99999999999999999999.999")], pa.decimal128(38, 3)),
    "date": pa.array([date(2024, 1, 1), date(1, 1, 1), date(9999, 12, 31)]),
    "timestamp": pa.array([datetime(2024, 1, day, tzinfo=UTC) for day in (3, 1, 2)], pa.timestamp("us", "UTC")),
    "boolean": pa.array([True, False, True]).slice(0, 2),
    "text": pa.array(["a", "", "ab"]),
    "text of one length": pa.array(["abcdefghij", "abcdefghik", "bbcdefghij"]),
    "bytes": pa.array([b"\0\0", b"\0", b""]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_key_that_comes_twice_is_named_and_others_are_not(kind: str) -> None:
    column = COLUMNS[kind]
    assert repeated_keys(pa.table({"k": column})) == []
    for twice in range(len(column)):
        doubled = pa.chunked_array([column, column.slice(twice, 1)])
        assert repeated_keys(pa.table({"k": doubled})) == [str(column[twice].as_py())]
        assert repeated_keys(pa.table({"k": doubled, "other": range(len(doubled))})) == []
        assert len(repeated_keys(pa.table({"k": doubled, "same": ["x"] * len(doubled)}))) == 1


def batches(*parts: list[Any]) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"v": [0] * len(part), "id": pa.array(part, pa.int64())}) for part in parts]


def test_rows_pass_as_they_are_and_a_key_of_an_earlier_batch_stops_the_slice_at_its_end() -> None:
    good = batches([1, 2], [4, 3])
    assert list(with_whole_keys(good, ("id",), "shop.t")) == good
    passed = with_whole_keys(batches([1, 2], [3, 1]), ("id",), "shop.t")
    assert [next(passed).num_rows, next(passed).num_rows] == [2, 2]
    with pytest.raises(DuplicateKeyError, match=r"Several rows of shop\.t have the same key \(id\): 1\."):
        next(passed)
    assert len(list(with_whole_keys(batches([1, 1]), (), "a table without keys"))) == 1


def test_a_null_in_a_key_stops_the_slice() -> None:
    with pytest.raises(NullKeyError, match=r"1 rows of shop\.t have NULL in the key column 'id'"):
        list(with_whole_keys(batches([1], [None]), ("id",), "shop.t"))


def test_keys_beyond_the_memory_for_them_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_keys, "MOST_BYTES", 20)
    assert len(list(with_whole_keys(batches([1, 1], [2, 2], [3, 3]), ("id",), "shop.t"))) == 3


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.int64(), pa.decimal128(20, 0)], ids=str)
def test_a_slice_without_rows_has_no_key_twice(kind: pa.DataType) -> None:
    assert repeated_keys(pa.table({"id": pa.array([], kind)})) == []


def written(folder: Path, *files: Mapping[str, Any], partition: tuple[str | None, ...] = ()) -> WrittenRows:
    """Files of two row groups, in which `id` has another name; the column `country` is that of partitions."""
    found = []
    for number, columns in enumerate(files):
        rows = pa.table({f"col-{name}": values for name, values in columns.items()})
        pq.write_table(rows, folder / f"{number}.parquet", row_group_size=max(rows.num_rows // 2, 1))
        of_file = {"col-country": partition[number]} if partition else {}
        found.append(WrittenFile(name=f"{number}.parquet", rows=rows.num_rows, partition=of_file))
    names = {name: f"col-{name}" for name in ("country", "id", "v")}
    return WrittenRows(folder=str(folder), files=tuple(found), names=names, frame=lambda: pytest.fail("Spark was asked"))


@pytest.mark.parametrize(
    ("files", "twice"),
    [
        ([{"id": [1, 2, 3, 1]}], "1"),
        ([{"id": [1, 2]}, {"id": [5, 6, 7]}, {"id": [4, 2]}], "2"),
        ([{"id": [b"a", b"b"]}, {"id": [b"c", b"a"]}], "b'a'"),
        ([{"id": ["a", "x"], "v": [1, 2]}, {"id": ["b", "x"], "v": [1, 2]}], "x"),
        ([{"id": [1, 9]}, {"id": [2, 3]}, {"id": [4, 9]}], "9"),
    ],
)
def test_a_key_that_stands_in_one_written_file_or_in_two_of_them_is_named(tmp_path: Path, files: list[Any], twice: str) -> None:
    with pytest.raises(DuplicateKeyError, match=rf"shop\.t have the same key \(ID\): {twice}\."):
        check_written_keys(written(tmp_path, *files), ("ID",), "shop.t")


def test_written_keys_that_come_once_pass_and_one_that_is_null_does_not(tmp_path: Path) -> None:
    whole = {"id": [1, 2, 3, None], "v": [1, 1, 1, 1]}
    check_written_keys(written(tmp_path, {"id": [1, 2], "v": [1, 1]}, {"id": [1, 2], "v": [2, 3]}), ("id", "v"), "shop.t")
    check_written_keys(written(tmp_path, whole, whole), (), "a table without keys")
    check_written_keys(written(tmp_path), ("id",), "a table without rows")
    with pytest.raises(NullKeyError, match="NULL in the key column 'id'"):
        check_written_keys(written(tmp_path, whole), ("v", "id"), "shop.t")


def test_a_key_with_a_column_of_partitions_is_the_same_only_in_the_same_partition(tmp_path: Path) -> None:
    files, keys = ({"id": [1, 2]}, {"id": [2, 3]}), ("country", "id")
    check_written_keys(written(tmp_path, *files, partition=("DE", "AT")), keys, "shop.t")
    with pytest.raises(DuplicateKeyError, match="DE, 2"):
        check_written_keys(written(tmp_path, *files, partition=("DE", "DE")), keys, "shop.t")
    with pytest.raises(DuplicateKeyError, match=r"\(id\): 2"):
        check_written_keys(written(tmp_path, *files, partition=("DE", "AT")), ("id",), "shop.t")
    with pytest.raises(NullKeyError, match="'country'"):
        check_written_keys(written(tmp_path, *files, partition=("DE", None)), keys, "shop.t")
