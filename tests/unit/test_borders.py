"""Cutting a table without a server: borders from estimates, conditions that tile an axis (SQLite evaluates them), progress."""

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_ops.core import json_codec
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.sources.chunks.chunks import MOST_CHUNKS, ChunkSize, assemble, shape_of
from cdc_ops.sources.chunks.split_key import SplitKey, choose_axis, why_uncut
from cdc_ops.sources.chunks.split_points import Range, Split, even_borders
from cdc_ops.sources.mysql.split_points import MySQLBorders
from cdc_ops.sources.postgres.dialect import PostgresDialect
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.steps.planning.whole_tables.snapshot import chunk_progress, remaining_rows_condition

TABLE = TableName(schema="main", name="t")
DIALECTS = (Dialect(), PostgresDialect())
BIGGEST = 18446744073709551615


def column(name: str, declared: str = "int", *, nullable: bool = False) -> Column:
    return Column(name=name, source_type=declared, delta_type="x", nullable=nullable, expression=name)


def counter(values: list[int]) -> Any:
    """Counts as exactly as an index could, and how often it was asked."""
    ordered = sorted(values)

    def count(ranges: Sequence[Range]) -> list[int]:
        asked.append(len(ranges))
        return [bisect_right(ordered, high) - bisect_left(ordered, low) for low, high in ranges]

    asked: list[int] = []
    return count, asked


SHAPES = {
    "dense": list(range(1, 100_001)),
    "one far away": [*range(1, 100_000), BIGGEST],
    "both ends": [-(2**63), *range(99_998), 2**63 - 1],
    "two clusters": [*range(50_000), *range(10**15, 10**15 + 50_000)],
    "ever sparser": sorted({int(1.0005**step) for step in range(80_000)} | set(range(30_000))),
    "multiples": list(range(0, 10**12, 10**7)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("parts", [2, 7, 40])
def test_parts_are_even_however_the_numbers_are_spread(shape: str, parts: int) -> None:
    values = SHAPES[shape]
    count, asked = counter(values)
    borders, rows = even_borders(min(values), max(values), parts, count)
    ends = [bisect_left(values, border) for border in borders]
    found = [high - low for low, high in zip([0, *ends], [*ends, len(values)], strict=True)]
    assert found == rows
    assert len(found) == parts
    assert max(found) <= 1.5 * len(values) / parts
    assert sum(asked) <= 32 * parts + 1000


def test_numbers_that_are_too_few_give_fewer_parts() -> None:
    count, _ = counter([5])
    assert even_borders(5, 5, 4, count) == ((), [1])
    assert even_borders(5, 6, 4, counter([5, 6])[0]) == ((6,), [1, 1])


NUMBERS = st.integers(-3, 3)
PAIRS = st.tuples(NUMBERS, NUMBERS, NUMBERS)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(PAIRS, max_size=20),
    late=st.lists(PAIRS, max_size=10),
    borders=st.lists(PAIRS, max_size=6),
    width=st.integers(1, 3),
    readers=st.integers(1, 3),
    rest=st.sampled_from(["", "a > -2", "a < 0 OR b = 1"]),
    dialect=st.sampled_from(DIALECTS),
)
def test_every_row_is_in_one_slice_also_one_that_comes_later(
    rows: list[tuple[int, ...]],
    late: list[tuple[int, ...]],
    borders: list[tuple[int, ...]],
    width: int,
    readers: int,
    rest: str,
    dialect: Dialect,
) -> None:
    axis = SplitKey(columns=tuple(column(name) for name in ("a", "b", "c")[:width]))
    cut = Split(borders=tuple(tuple(map(str, border)) for border in sorted({border[:width] for border in borders})))
    chunks = assemble(dialect, axis, cut, rest, readers, 100)
    assert_tiled(rows + late, [one for chunk in chunks for one in chunk.slices], rest)
    for place, chunk in enumerate(chunks):
        behind = [one for later in chunks[place + 1 :] for one in later.slices]
        assert bool(behind) == bool(chunk.rest)
        if behind:
            assert_tiled(rows + late, behind, chunk.rest)


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.none() | st.integers(-9, 9), max_size=20),
    borders=st.lists(st.integers(-9, 9), max_size=5),
    dialect=st.sampled_from(DIALECTS),
)
def test_rows_without_a_place_are_a_slice_of_the_first_chunk(rows: list[int | None], borders: list[int], dialect: Dialect) -> None:
    axis = SplitKey(columns=(column("a", nullable=True),))
    chunks = assemble(dialect, axis, Split(borders=tuple((str(border),) for border in sorted(set(borders)))), "", 1, 10)
    assert_tiled([(row, 0, 0) for row in rows], [one for chunk in chunks for one in chunk.slices], "")
    assert len(chunks[0].slices) == 2


def assert_tiled(rows: list[tuple[Any, ...]], slices: list[str], whole: str) -> None:
    """Lets SQLite say which rows each condition holds for."""
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, a INT, b INT, c INT)")
        database.executemany("INSERT INTO t (a, b, c) VALUES (?, ?, ?)", rows)

        def matching(condition: str) -> list[int]:
            return [row[0] for row in database.execute(f"SELECT n FROM t{f' WHERE {condition}' if condition else ''}")]

        assert sorted(number for one in slices for number in matching(one)) == sorted(matching(whole))
    database.close()


# ------------------------------------------------------------------------------------------------------------ what is cut by


def schema(*columns: Column, primary_key: tuple[str, ...] = (), indexes: tuple[tuple[str, ...], ...] = ()) -> TableSchema:
    return TableSchema(table=TABLE, columns=columns, primary_key=primary_key, indexes=indexes)


def test_the_primary_key_is_cut_by_with_all_columns_that_can_be() -> None:
    table = schema(column("a", "varchar(9)"), column("b"), column("k", "enum('x')"), primary_key=("a", "b"), indexes=(("a", "b"), ("b",)))
    axis = choose_axis(table, ("b",), MySQLBorders.is_cuttable)
    assert axis is not None
    assert axis.primary
    assert axis.names == ("a", "b")
    mixed = schema(column("a"), column("k", "enum('x')"), column("b"), primary_key=("a", "k", "b"), indexes=(("a", "k", "b"),))
    axis = choose_axis(mixed, ("a", "k", "b"), MySQLBorders.is_cuttable)
    assert axis is not None
    assert axis.names == ("a",)


def test_without_a_primary_key_an_index_over_the_declared_keys_serves_but_no_other() -> None:
    columns = (column("a", nullable=True), column("b"), column("c"))
    table = schema(*columns, indexes=(("c", "b"), ("a",), ("b", "c")))
    axis = choose_axis(table, ("b",), MySQLBorders.is_cuttable)
    assert axis is not None
    assert axis.names == ("b",)
    assert not axis.primary
    assert choose_axis(schema(*columns, indexes=(("c", "b"),)), ("b",), MySQLBorders.is_cuttable) is None
    assert "an index on (b) lets cdc-ops read the table in parts" in why_uncut(schema(*columns), ("b",), MySQLBorders.is_cuttable)


def test_only_a_lone_first_column_may_be_null() -> None:
    table = schema(column("a"), column("b", nullable=True), column("c", nullable=True), indexes=(("a", "b"), ("c", "a")))
    axis = choose_axis(table, ("a", "b"), MySQLBorders.is_cuttable)
    assert axis is not None
    assert axis.names == ("a",)
    axis = choose_axis(table, ("c", "b"), MySQLBorders.is_cuttable)
    assert axis is not None
    assert axis.names == ("c",)
    assert axis.nullable


@pytest.mark.parametrize("declared", ["enum('a')", "set('a')", "bit(3)", "year(4)", "float", "double", "json", "geometry"])
def test_types_whose_order_is_not_that_of_their_text_are_not_cut_by(declared: str) -> None:
    table = schema(column("k", declared), primary_key=("k",), indexes=(("k",),))
    assert choose_axis(table, ("k",), MySQLBorders.is_cuttable) is None
    assert "SQL cannot reliably compare" in why_uncut(table, ("k",), MySQLBorders.is_cuttable)


def test_chunks_are_bounded_in_rows_and_bytes_and_in_number() -> None:
    assert ChunkSize(rows=1000, bytes=50_000).rows_of(100) == 500
    assert ChunkSize(rows=1000, bytes=50_000).rows_of(0) == 1000
    assert ChunkSize(rows=1000, bytes=10).rows_of(100) == 1
    shape = shape_of(10_001, 5_000, 4)
    assert (shape.chunks, shape.parts, shape.rows) == (3, 12, 834)
    assert shape_of(10**12, 1, 4).chunks == MOST_CHUNKS
    assert shape_of(0, 5, 4).chunks == 1


# ------------------------------------------------------------------------------------------------------------------ progress


def start(**parts: Any) -> SnapshotProgress:
    return SnapshotProgress(**{"bound": CursorValue(parts=("1",)), "done": 0, "total": 0, **parts})


def chunks_of(count: int, rest: str = "") -> Any:
    borders = tuple((str(place),) for place in range(1, count))
    return assemble(Dialect(), SplitKey(columns=(column("a"),)), Split(borders=borders), rest, 1, 10 * count)


def test_progress_does_not_grow_with_the_number_of_chunks() -> None:
    few, many = ([after for *_, after in chunk_progress(start(), chunks_of(count)) if after] for count in (3, 900))
    assert max(len(json_codec.dumps(after)) for after in many) < max(len(json_codec.dumps(after)) for after in few) + 20
    assert [after.done for after in many] == list(range(1, 900))
    assert many[-1].rows_done == 8990
    assert many[-1].rows_total == 9000


@pytest.mark.parametrize("done", [1, 2, 4])
def test_what_is_left_after_a_lost_ledger_is_what_the_last_record_says(done: int) -> None:
    afters = [after for *_, after in chunk_progress(start(), chunks_of(5)) if after]
    record = json_codec.loads(SnapshotProgress, json_codec.dumps(afters[done - 1]))
    rest = remaining_rows_condition(record)
    assert rest == f"`a` >= {done}"
    again = list(chunk_progress(record, chunks_of(3, rest)))
    assert [before.done for _, before, _ in again] == [done, done + 1, done + 2]
    assert again[0][2] is not None
    assert again[0][2].total == done + 3
    assert again[-1][2] is None
    rows = [(value, 0, 0) for value in range(-5, 9)]
    assert_tiled(rows, [one for chunk, *_ in again for one in chunk.slices], rest)


def test_an_older_record_that_lists_its_chunks_is_still_read() -> None:
    text = '{"bound":{"parts":["1"]},"chunks":["a < 1","a >= 1 AND a < 5","a >= 5"],"done":1,"total":3}'
    record = json_codec.loads(SnapshotProgress, text)
    assert remaining_rows_condition(record) == "(a >= 1 AND a < 5) OR (a >= 5)"
    assert [after for *_, after in chunk_progress(record, chunks_of(1)) if after] == []
