"""Keys of rows that tasks write as files: what comes twice or is NULL is found, in keys of every type, and nothing else is."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from cdc_ops.errors import DuplicateKeyError, NullKeyError
from cdc_ops.steps.query import unique_keys
from cdc_ops.steps.query.unique_keys import repeated_keys, with_whole_keys

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
