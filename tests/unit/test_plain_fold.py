"""The fold of plain rows in workers equals a dictionary that is filled in the order of places."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cdc_ops.decode.plain_rows import HASH, LINE, OPERATION, PlainRows, column_name, key_name, part_name
from cdc_ops.formats.feed.plain import plain_format
from cdc_ops.steps.log.plain.buckets import Bucket, FoldTask, LandedBucket, RowGroup, folded_batches, land_buckets
from cdc_ops.steps.log.plain.fold import fold_rows, last_rows

from cdc_ops.core import json_codec
from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.core.schema.tables import Column, TableName, TableSchema

SCHEMA = TableSchema(
    table=TableName(schema="shop", name="orders"),
    columns=(
        Column(name="id", source_type="bigint", delta_type="bigint", nullable=False, expression="id"),
        Column(name="note", source_type="text", delta_type="string", nullable=True, expression="note"),
    ),
    primary_key=("id",),
)
OPTIONS = FormatOptions(name="debezium-mysql", settings={})
SPEC = format_spec(OPTIONS.name)
UPDATE, DELETE = ord("u"), ord("d")


def form() -> PlainRows:
    found = plain_format(SCHEMA, ("id",), OPTIONS)
    assert found is not None
    return found


def rows_of(events: list[tuple[int, int, tuple[int, ...], str | None]], hashes: dict[int, int]) -> pa.Table:
    """Plain rows of events: key, operation, the last parts of the place, and a value."""
    parts = form().parts + 1
    places = [(0,) * (parts - len(place)) + place for _, _, place, _ in events]
    ids = [key for key, *_ in events]
    gone = [operation == DELETE for _, operation, *_ in events]
    return pa.table(
        {
            OPERATION: pa.array([operation for _, operation, *_ in events], pa.int8()),
            LINE: pa.array(range(len(events)), pa.int64()),
            HASH: pa.array([hashes.get(key, key * 7919 % 101) for key in ids], pa.int64()),
            **{part_name(part): pa.array([place[part] for place in places], pa.int64()) for part in range(parts)},
            column_name(0): pa.array([None if lost else key for key, lost in zip(ids, gone, strict=True)], pa.int64()),
            column_name(1): pa.array([None if lost else value for (*_, value), lost in zip(events, gone, strict=True)], pa.string()),
            key_name(0): pa.array(ids, pa.int64()),
        }
    )


def last_of(events: list[tuple[int, int, tuple[int, ...], str | None]]) -> dict[int, tuple[bool, str | None]]:
    found = {}
    for key, operation, _, value in sorted(events, key=lambda one: one[2]):
        found[key] = (operation == DELETE, None if operation == DELETE else value)
    return found


def events_of(seed: int, *, ascending: bool) -> list[tuple[int, int, tuple[int, ...], str | None]]:
    choice = random.Random(seed)
    places = choice.sample(range(1000), 60)
    places = sorted(places) if ascending else places
    operations = choice.choices([UPDATE, UPDATE, UPDATE, DELETE], k=60)
    return [
        (choice.randrange(20), operation, (place // 10, place % 10), f"v{place}")
        for place, operation in zip(places, operations, strict=True)
    ]


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("collide", [{}, {3: 5, 7: 5, 5: 5}], ids=["hashes differ", "keys share a hash"])
def test_the_last_row_of_each_key_is_that_with_the_largest_place(ascending: bool, collide: dict[int, int]) -> None:
    for seed in range(20):
        events = events_of(seed, ascending=ascending)
        rows, tied = fold_rows(rows_of(events, collide), form())
        found = {
            key: (operation == DELETE, value)
            for key, operation, value in zip(*(rows[name].to_pylist() for name in (key_name(0), OPERATION, column_name(1))), strict=True)
        }
        assert found == last_of(events)
        assert rows.num_rows == len(found)
        assert not tied.any()


@pytest.mark.parametrize("second", ["x", "y"])
@pytest.mark.parametrize("before", [[], [(1, UPDATE, (9, 9), "later")]], ids=["in order", "not in order"])
def test_two_events_at_one_place_are_tied_if_they_differ(second: str, before: list[Any]) -> None:
    events = [*before, (2, UPDATE, (5, 1), "x"), (2, UPDATE, (5, 1), second), (3, UPDATE, (6, 1), "z")]
    table = rows_of(events, {})
    assert last_rows(table, form()).doubled
    rows, tied = fold_rows(table, form())
    assert [key for key, is_tied in zip(rows[key_name(0)].to_pylist(), tied.tolist(), strict=True) if is_tied] == (
        [2] if second == "y" else []
    )


def test_no_rows_fold_to_none() -> None:
    rows, tied = fold_rows(rows_of([], {}), form())
    assert (rows.num_rows, len(tied)) == (0, 0)


def written(folder: Path, groups: list[pa.Table]) -> tuple[FoldTask, list[pa.RecordBatch]]:
    """Row groups of one bucket, as a scan writes them, and what a task is asked for."""
    with pq.ParquetWriter(folder / "part-plain-0.parquet", groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=2**20)
    bucket = Bucket(groups=tuple(RowGroup(name="part-plain-0.parquet", number=number) for number in range(len(groups))))
    task = FoldTask(format=OPTIONS, spec=SPEC, schema=SCHEMA, keys=("id",), folder=str(folder))
    return task, [pa.record_batch({"bucket": pa.array([json_codec.dumps(bucket)])})]


@pytest.mark.parametrize("ascending", [True, False])
def test_a_bucket_comes_to_the_same_as_arrow_and_as_a_landed_file(tmp_path: Path, ascending: bool) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    events = events_of(1, ascending=ascending)
    stale = (99, UPDATE, (0, 0), "stale")  # alone in a row group, of which nothing is needed then
    events = [stale, *events, (99, UPDATE, (999, 9), "last")]
    table = rows_of(events, {})
    task, asked = written(tmp_path, [table.slice(0, 1), table.slice(1, 30), table.slice(31)])
    [answer] = land_buckets(iter(asked), task, str(landing), "snappy", ())
    told = json_codec.loads(LandedBucket, answer.column(0)[0].as_py())
    assert (told.failure, told.tied) == ("", 0)
    assert told.file is not None
    landed = pq.read_table(landing / told.file.name)
    assert landed.column_names == ["id", "note", DELETE_MARK, PRESENT, SEQUENCE]
    found = {row["id"]: (row[DELETE_MARK], row["note"]) for row in landed.to_pylist()}
    assert found == last_of(events)
    assert told.deletes == sum(gone for gone, _ in found.values()) > 0
    assert landed.num_rows == told.file.rows == len(found)
    assert {tuple(row[SEQUENCE]) for row in landed.to_pylist() if row["id"] == 99} == {(0,) * (form().parts - 1) + (999, 9)}
    arrow = pa.Table.from_batches(list(folded_batches(iter(asked), task))).to_pylist()
    assert {row["key"]["id"]: (row["deleted"], row["row"]["note"]) for row in arrow} == found
    places = {row["key"]["id"]: [*row["position"].values()] for row in arrow}
    assert places == {row["id"]: row[SEQUENCE] for row in landed.to_pylist()}


def test_a_bucket_that_cannot_be_landed_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    task, asked = written(tmp_path, [rows_of(events_of(2, ascending=True), {})])
    [answer] = land_buckets(iter(asked), task, str(tmp_path / "nowhere"), "snappy", ())
    told = json_codec.loads(LandedBucket, answer.column(0)[0].as_py())
    assert "FileNotFoundError" in told.failure
    assert told.file is None
    assert np.count_nonzero([entry.is_dir() for entry in tmp_path.iterdir()]) == 0
