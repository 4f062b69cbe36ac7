"""Rows of data files are found by their keys: each of them, by its number in the file, in files that may have one."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_ops.lake.data_files.key_search import KEY_TYPES, KeySearch, NotSearchedError, _found, _search, candidates, find_rows


def search_for(keys: list[Any], kind: str = "bigint", folder: str = "") -> KeySearch:
    return KeySearch(folder=folder, column="id", kind=kind, keys=pa.array(keys, KEY_TYPES[kind]))


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
    found = _found(pa.chunked_array([values[:100], values[100:]], pa.int64()), pa.array(keys, pa.int64()))
    assert found.tolist() == [number for number, value in enumerate(values) if value in set(keys)]
    assert bool(values) == bool(len(found))
