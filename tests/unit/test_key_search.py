"""Rows of data files are found by their keys: each of them, by its number in the file, in files that may have one."""

import itertools
import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_ops.lake.data_files.key_search import KeySearch, NotSearchedError, _found, _search, candidates, find_rows, key_type


def search_for(keys: list[Any], kind: str = "bigint", folder: str = "") -> KeySearch:
    return KeySearch(folder=folder, keys=pa.table({"id": pa.array(keys, key_type(kind))}))


def entry(low: Any, high: Any) -> dict[str, Any]:
    return {"path": f"{low}.parquet", "stats": json.dumps({"numRecords": 1, "minValues": {"id": low}, "maxValues": {"id": high}})}


def test_files_without_one_of_the_keys_are_left_out_by_their_bounds() -> None:
    files = [entry(0, 9), entry(10, 19), entry(20, 29), {"path": "unknown", "stats": "{}"}, {"path": "none"}, entry(30, 39)]
    found = [file["path"] for file in candidates(search_for([31, 10, 9]), files)]
    assert found == ["0.parquet", "10.parquet", "unknown", "none", "30.parquet"]
    assert [file["path"] for file in candidates(search_for([-1, 40]), files)] == ["unknown", "none"]


def test_bounds_of_texts_say_nothing() -> None:
    files = [entry("a", "b"), entry("c", "d")]
    assert candidates(search_for(["x"], "string"), files) == files


def answers(folder: Path, search: KeySearch, names: list[str]) -> list[tuple[list[int], int, str | None]]:
    batches = [pa.record_batch({"id": pa.array([0, 1], pa.int64())})]
    rows = [row for batch in _search(iter(batches), search, names, 2) for row in batch.to_pylist()]
    found = {row["number"]: (list(memoryview(row["rows"]).cast("q")), row["of"], row["failure"]) for row in rows}
    return [found[number] for number in range(len(names))]


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()])
def test_rows_are_numbered_through_all_row_groups(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(
        pa.table({"id": pa.array([5, 6, 7, 8, None, 9, 5, 1], kind), "other": list("abcdefgh")}), tmp_path / "one.parquet", row_group_size=3
    )
    pq.write_table(pa.table({"id": pa.array([], kind)}), tmp_path / "none.parquet")
    found = answers(tmp_path, search_for([5, 9, 100], folder=str(tmp_path)), ["one.parquet", "none.parquet"])
    assert found == [([0, 5, 6], 8, None), ([], 0, None)]


def test_a_file_that_cannot_be_searched_says_why(tmp_path: Path) -> None:
    pq.write_table(pa.table({"other": [1]}), tmp_path / "strange.parquet")
    missing, strange = answers(tmp_path, search_for([1], folder=str(tmp_path)), ["missing.parquet", "strange.parquet"])
    assert "FileNotFoundError" in str(missing[2])
    assert "id" in str(strange[2])


@pytest.mark.parametrize("path", ["s3a://other/part.parquet", "/elsewhere/part.parquet", "file:/elsewhere/part.parquet"])
def test_files_of_other_folders_are_not_searched(path: str) -> None:
    with pytest.raises(NotSearchedError, match="does not lie in the table's folder"):
        find_rows(None, search_for([1]), [{"path": path}])  # type: ignore[arg-type]


def bounded(**bounds: tuple[Any, Any]) -> dict[str, Any]:
    low, high = ({name: two[end] for name, two in bounds.items()} for end in (0, 1))
    return {"path": "one", "stats": json.dumps({"numRecords": 1, "minValues": low, "maxValues": high})}


def test_a_file_is_left_out_if_no_key_lies_in_the_bounds_of_all_its_columns() -> None:
    keys = pa.table({"shop": pa.array([1, 2], pa.int32()), "day": ["a", "b"], "number": pa.array([10, 20], pa.decimal128(20, 0))})
    search = KeySearch(folder="", keys=keys)
    assert candidates(search, [bounded(shop=(1, 2), number=(5, 15))])
    assert candidates(search, [bounded(number=(20, 30)), bounded(shop=(2, 2)), bounded(day=("x", "y"))])
    assert not candidates(search, [bounded(shop=(2, 2), number=(5, 15)), bounded(shop=(1, 1), number=(11, 30)), bounded(number=(11, 19))])
    large = KeySearch(folder="", keys=pa.table({"number": pa.array([2**63], pa.decimal128(20, 0))}))
    assert candidates(large, [bounded(number=(1, 2))]), "nothing is known of keys that no BIGINT holds"


VALUES: dict[str, list[Any]] = {
    "bigint": [1, 2, 3, -(2**63), 2**63 - 1],
    "string": ["", "a", "A", "ä", "a "],
    "binary": [b"", b"\0", b"\0\0", b"a", b"\xff"],
    "boolean": [True, False],
    "date": [date(1, 1, 1), date(1582, 10, 15), date(2026, 3, 29), date(9999, 12, 31)],
    "timestamp": [datetime(1, 1, 1, tzinfo=UTC), datetime(1500, 3, 1, 0, 0, 0, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1, 1, 1), datetime(1500, 3, 1, 0, 0, 0, 1), datetime(2300, 1, 1)],
    "decimal(20,0)": [Decimal(2**63), Decimal(-1), Decimal(0)],
    "decimal(5,2)": [Decimal("1.00"), Decimal("1.01"), Decimal("-999.99")],
}


@pytest.mark.parametrize("kinds", [*((kind,) for kind in VALUES), *itertools.permutations(VALUES, 2), ("int", *VALUES)], ids=str)
def test_rows_are_found_if_all_parts_of_their_key_are_those_of_one_key(kinds: tuple[str, ...]) -> None:
    choice = random.Random(str(kinds))
    columns = [[*VALUES.get(kind, range(5)), None] for kind in kinds]
    rows = [tuple(map(choice.choice, columns)) for _ in range(300)]
    keys = list({tuple(choice.choice(values[:-1]) for values in columns) for _ in range(6)} | {row for row in rows[:3] if None not in row})
    names = [f"k{number}" for number in range(len(kinds))]

    def as_table(values: list[tuple[Any, ...]]) -> pa.Table:
        types = [key_type(kind) for kind in kinds]
        return pa.table([pa.array(part, kind) for part, kind in zip(zip(*values, strict=True), types, strict=True)], names)

    expected = [number for number, row in enumerate(rows) if row in set(keys)]
    places, of_key = _found(as_table(rows).column, as_table(keys))
    assert places.tolist() == expected
    assert [keys[key] for key in of_key] == [rows[number] for number in expected]
    assert expected or len(kinds) > 2


def test_further_parts_are_read_only_where_the_first_is_one_of_the_keys() -> None:
    read = list[str]()

    def column(name: str) -> pa.ChunkedArray:
        read.append(name)
        return pa.chunked_array([[1, 2, 3] if name == "a" else [7, 8, 9]], pa.int64())

    def keys(a: int, b: int) -> pa.Table:
        return pa.table({"a": pa.array([a], pa.int64()), "b": pa.array([b], pa.int64())})

    assert _found(column, keys(5, 7))[0].tolist() == []
    assert read == ["a"]
    assert [part.tolist() for part in _found(column, keys(2, 8))] == [[1], [0]]
    assert read == ["a", "a", "b"]


def test_another_column_is_read_of_the_rows_that_are_found_and_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([5, 6, 7, 8], pa.int64()), "Seq": [[1], None, [3, 1], [4]]})
    pq.write_table(rows, tmp_path / "one.parquet", row_group_size=3)
    pq.write_table(rows.select(["id"]), tmp_path / "before.parquet")
    files = [{"path": f"{name}.parquet", "size": 1} for name in ("one", "before")]

    def found(other: str, files: list[dict[str, Any]]) -> list[Any]:
        search = KeySearch(folder=str(tmp_path), keys=search_for([8, 6, 7]).keys, other=other)
        return [(one.numbers.tolist(), one.keys.tolist(), one.others.to_pylist()) for one in find_rows(None, search, files)]  # type: ignore[arg-type, union-attr]

    assert found("Seq", files) == [([1, 2, 3], [1, 2, 0], [None, [3, 1], [4]]), ([1, 2, 3], [1, 2, 0], [None] * 3)]
    with pytest.raises(NotSearchedError, match="seq"):  # to Spark it is the same column
        found("seq", files)


def test_dates_of_another_calendar_are_left_to_spark(tmp_path: Path) -> None:
    old = pa.table({"id": pa.array([date(1500, 1, 1)]), "number": [1]}).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    pq.write_table(old, tmp_path / "old.parquet")
    [(_, _, failure)] = answers(tmp_path, search_for([date(1500, 1, 1)], "date", str(tmp_path)), ["old.parquet"])
    assert "another calendar" in str(failure)
    number = KeySearch(folder=str(tmp_path), keys=pa.table({"number": pa.array([1], pa.int64())}))
    assert answers(tmp_path, number, ["old.parquet"]) == [([0], 1, None)]


@pytest.mark.parametrize("order", ["ascending", "any", "repeated", "with NULL", "none"])
def test_keys_are_found_in_whatever_order_the_values_are(order: str) -> None:
    choice = random.Random(5)
    values = {
        "ascending": sorted(choice.sample(range(-500, 500), 300)),
        "any": choice.sample(range(-500, 500), 300),
        "repeated": sorted(choice.choices(range(-50, 50), k=300)),
        "with NULL": [None, *sorted(choice.sample(range(-500, 500), 300))],
        "none": [],
    }[order]
    keys = choice.sample(range(-600, 600), 200)
    stored = pa.chunked_array([values[:100], values[100:]], pa.int64())
    found, of_key = _found({"id": stored}.__getitem__, pa.table({"id": pa.array(keys, pa.int64())}))
    assert [keys[key] for key in of_key] == [values[number] for number in found]
    assert found.tolist() == [number for number, value in enumerate(values) if value in set(keys)]
    assert bool(values) == bool(len(found))
