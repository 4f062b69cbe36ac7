"""Rows that tasks replace are those that a MERGE changes; a table that asks more, and who comes in between, is left or told."""

import itertools
import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.results import Manifest, OperationResult, Outcome
from cdc_ops.core.text import quoted
from cdc_ops.errors import LakeConflictError
from cdc_ops.lake.data_files import key_search
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.merge import execute as execute_module
from cdc_ops.lake.merge import replace_by_tasks as module
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.conf import REPLACE_BY_TASKS
from tests import commits
from tests.lake_case import Lake, schema


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def load(lake: Lake, frame: Any, **changes: Any) -> OperationResult:
    operation = lake.case.operation(1, ApplyMode.APPEND, **changes)
    return apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), read_rows=1))


def replacing(lake: Lake, number: int, frame: Any, rows: int, **changes: Any) -> OperationResult:
    operation = lake.case.operation(number, **changes)
    landed = Manifest.of(operation_id="", attempt="", rows=rows, bytes=0, schema_fingerprint="")
    return apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), read_rows=rows, latest=frame, manifest=landed))


def is_by_tasks(lake: Lake, result: OperationResult) -> bool:
    assert result.delta_version is not None
    return commits.is_by_tasks(DeltaLog(lake.path).commit_info(result.delta_version))


def files_of(lake: Lake) -> list[dict[str, Any]]:
    log = DeltaLog(lake.path)
    return list(log.adds(log.newest() or 0))


def table(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lake.spark.read.format("delta").load(lake.path).collect())


def numbered(lake: Lake, count: int, files: int) -> None:
    load(
        lake, lake.spark.range(0, count, 1, files).selectExpr("id", "'old' name", "CAST(1.5 AS decimal(10, 2)) amount", "now() updated_at")
    )


def test_batches_of_any_keys_leave_the_rows_that_a_dictionary_has(lake: Lake) -> None:
    numbered(lake, 400, 10)
    expected, choice = dict.fromkeys(range(400), "old"), random.Random(7)
    for number in range(2, 8):
        keys = choice.sample(range(430), choice.choice([1, 5, 60, 200]))
        result = replacing(lake, number, lake.frame([(key, f"n{number}") for key in keys]), len(keys))
        assert is_by_tasks(lake, result)
        assert (result.counts.updated, result.counts.inserted) == (len(expected.keys() & set(keys)), len(set(keys) - expected.keys()))
        expected |= dict.fromkeys(keys, f"n{number}")
        assert lake.rows() == sorted(expected.items())
    assert any(file.get("deletionVector") for file in files_of(lake))


def test_rows_that_are_deleted_already_need_no_new_vector(lake: Lake) -> None:
    numbered(lake, 40, 1)
    [before] = files_of(lake)
    counts = list[int]()
    for number in (2, 3, 4):
        result = replacing(lake, number, lake.frame([(7, f"n{number}")]), 1)
        assert is_by_tasks(lake, result)
        assert (result.counts.updated, result.counts.inserted) == (1, 0)
        counts.append(len(list(Path(lake.path).glob("deletion_vector_*.bin"))))
    assert dict(lake.rows()) == {**dict.fromkeys(range(40), "old"), 7: "n4"}
    assert counts == [1, 1, 1]
    assert [file["deletionVector"]["cardinality"] for file in files_of(lake) if file["path"] == before["path"]] == [1]


def test_tables_are_replaced_at_the_same_time(spark: SparkSession, tmp_path: Path) -> None:
    lakes = [Lake(spark, tmp_path / str(number)) for number in range(2)]
    for one in lakes:
        numbered(one, 40, 1)
    with ThreadPoolExecutor(len(lakes)) as threads:
        results = list(threads.map(lambda one: replacing(one, 2, one.frame([(7, "new")]), 1), lakes))
    for one, result in zip(lakes, results, strict=True):
        assert is_by_tasks(one, result), result.counts.warning
        assert dict(one.rows()) == {**dict.fromkeys(range(40), "old"), 7: "new"}


def test_a_file_of_which_no_row_is_left_leaves_the_table(lake: Lake) -> None:
    numbered(lake, 40, 4)
    before = {file["path"] for file in files_of(lake)}
    replacing(lake, 2, lake.frame([(key, "a") for key in range(5)]), 5)
    assert len(before & {file["path"] for file in files_of(lake)}) == 4
    result = replacing(lake, 3, lake.frame([(key, "b") for key in range(5, 10)]), 5)
    assert (result.counts.updated, result.counts.inserted) == (5, 0)
    assert len(before & {file["path"] for file in files_of(lake)}) == 3
    assert dict(lake.rows()) == {**dict.fromkeys(range(40), "old"), **dict.fromkeys(range(5), "a"), **dict.fromkeys(range(5, 10), "b")}


def test_only_files_that_may_have_a_key_are_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(lake, 100, 10)
    read, search = list[int](), module.find_rows

    def counted(*arguments: Any) -> Any:
        read.append(len(arguments[2]))
        return search(*arguments)

    monkeypatch.setattr(module, "find_rows", counted)
    replacing(lake, 2, lake.frame([(15, "a"), (17, "a"), (95, "a"), (1000, "a")]), 4)
    assert read == [2]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", "concat('Straße ', id)"),
        pytest.param("int", "id", marks=pytest.mark.long),
        pytest.param("smallint", "id", marks=pytest.mark.long),
        pytest.param("bigint", "-id", marks=pytest.mark.long),
        ("decimal(20,0)", "CAST(id AS decimal(20,0)) + 9223372036854775800"),
        ("decimal(12,3)", "id / 8"),
        ("binary", "unhex(md5(CAST(id AS string)))"),
        ("date", "date_add(DATE'1500-01-01', CAST(id * 9000 AS INT))"),
        pytest.param("timestamp", "TIMESTAMP'1500-03-01 00:00:00.000001' + make_dt_interval(id)", marks=pytest.mark.long),
        ("timestamp_ntz", "TIMESTAMP_NTZ'2026-03-29 02:30:00.999999' + make_dt_interval(id)"),
    ],
)
def test_keys_of_these_types_are_found(lake: Lake, kind: str, value: str) -> None:
    shape = schema(("k", kind), ("v", "int"), keys=("k",))

    def rows(low: int, high: int, version: int) -> Any:
        return lake.spark.range(low, high, 1, 2).selectExpr(f"CAST({value} AS {kind}) k", f"{version} v")

    load(lake, rows(0, 100, 1), schema=shape, keys=("k",))
    result = replacing(lake, 2, rows(90, 110, 2), 20, schema=shape, keys=("k",))
    assert is_by_tasks(lake, result)
    assert (result.counts.inserted, result.counts.updated) == (10, 10)
    stored = table(lake)
    assert [version for _, version in stored].count(1) == 90
    assert len({key for key, _ in stored}) == 110


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("int", "string"), marks=pytest.mark.long),
        pytest.param(("date", "decimal(20,0)"), marks=pytest.mark.long),
        ("bigint", "timestamp", "smallint"),
    ],
)
def test_batches_of_keys_of_several_parts_leave_the_rows_that_a_dictionary_has(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...]
) -> None:
    monkeypatch.setattr(module, "_LOCAL_ROWS", -1)  # by tasks, however few rows
    monkeypatch.setattr(key_search, "_LOCAL_FILES", -1)
    names = ["Part`0", "p.art1", 'q"2`'][: len(kinds)]  # PySpark takes the names that go to tasks apart
    shape = schema(*zip(names, kinds, strict=True), ("v", "int"), keys=tuple(names))
    values = {"date": "date_add(DATE'2026-01-01', {})", "timestamp": "TIMESTAMP'2026-01-01' + make_dt_interval({})"}

    numbers = [f"p{number}" for number in range(len(kinds))]
    parts = [
        f"CAST({values.get(kind, '{}').format(at)} AS {kind}) {quoted(name)}" for at, kind, name in zip(numbers, kinds, names, strict=True)
    ]

    def frame(keys: list[tuple[int, ...]], *more: str) -> Any:
        rows = lake.spark.createDataFrame(keys, ", ".join(f"{number} int" for number in numbers)).repartition(3)
        return rows.selectExpr(*parts, *more)

    choice, expected = random.Random(str(kinds)), dict[tuple[int, ...], int]()
    every = list(itertools.product(range(7), repeat=len(kinds)))
    typed = {tuple(row[len(kinds) :]): tuple(row[: len(kinds)]) for row in frame(every, *numbers).collect()}
    for number in range(1, 6):
        keys = choice.sample(every, 25)
        result = (
            load(lake, frame(keys, "1 v"), schema=shape, keys=tuple(names))
            if number == 1
            else replacing(lake, number, frame(keys, f"{number} v"), len(keys), schema=shape, keys=tuple(names))
        )
        assert number == 1 or is_by_tasks(lake, result), result.counts.warning
        assert (result.counts.updated, result.counts.inserted) == (len(expected.keys() & set(keys)), len(set(keys) - expected.keys()))
        expected |= dict.fromkeys(keys, number)
        assert table(lake) == sorted((*typed[key], version) for key, version in expected.items())


def test_values_of_all_types_are_those_that_spark_writes(lake: Lake) -> None:
    kinds = {
        **{"k": "bigint", "t": "tinyint", "d": "decimal(38,10)", "b": "boolean", "f": "float", "g": "double", "day": "date"},
        **{"w": "timestamp_ntz", "i": "timestamp", "s": "string", "raw": "binary", "n": "decimal(5,2)"},
    }
    shape = schema(*kinds.items(), keys=("k",))
    values = {
        "k": "id",
        "t": "id",
        "d": "CAST(id AS decimal(38,10)) / 7",
        "b": "id % 2 = 0",
        "f": "CAST(id AS float) / 3",
        "g": "if(id = 3, double('NaN'), id / 3)",
        "day": "date_add(DATE'1500-01-01', CAST(id * 9000 AS INT))",
        "w": "TIMESTAMP_NTZ'1500-03-01 12:00:00.000001' + make_dt_interval(id)",
        "i": "TIMESTAMP'2026-03-29 01:59:59.999999' + make_dt_interval(id)",
        "s": "if(id = 4, NULL, concat('Ü', id))",
        "raw": "unhex(hex(id))",
        "n": "NULL",
    }
    frame = lake.spark.range(0, 20).selectExpr(*(f"CAST({values[name]} AS {kind}) {name}" for name, kind in kinds.items()))
    load(lake, frame.where("k < 10").withColumn("s", frame["k"].cast("string")), schema=shape, keys=("k",))
    result = replacing(lake, 2, frame, 20, schema=shape, keys=("k",))
    assert is_by_tasks(lake, result)
    wanted = sorted(map(str, frame.collect()))
    assert sorted(map(str, lake.spark.read.format("delta").load(lake.path).collect())) == wanted


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {table} WHERE id = 3",
        pytest.param("UPDATE {table} SET name = 'theirs' WHERE id = 3", marks=pytest.mark.long),
        "OPTIMIZE {table}",
    ],
)
def test_who_changes_the_rows_meanwhile_is_a_conflict_and_nothing_is_lost(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    numbered(lake, 40, 4)
    search, after = module.find_rows, list[Any]()

    def met(*arguments: Any) -> Any:
        lake.spark.sql(statement.format(table=f"delta.`{lake.path}`"))
        after.append(lake.rows())
        return search(*arguments)

    monkeypatch.setattr(module, "find_rows", met)
    with pytest.raises(LakeConflictError):
        replacing(lake, 2, lake.frame([(3, "ours"), (99, "ours")]), 2)
    assert [lake.rows()] == after
    monkeypatch.setattr(module, "find_rows", search)
    assert replacing(lake, 2, lake.frame([(3, "ours"), (99, "ours")]), 2).outcome is Outcome.APPLIED
    assert [row for row in lake.rows() if row[1] == "ours"] == [(3, "ours"), (99, "ours")]


def test_a_new_key_that_another_writer_inserts_meanwhile_does_not_come_twice(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(lake, 40, 4)
    search = module.find_rows

    def met(*arguments: Any) -> Any:
        table = f"delta.`{lake.path}`"
        lake.spark.sql(
            f"MERGE INTO {table} t USING (SELECT 99L id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, name) VALUES (id, 'theirs')"
        )
        return search(*arguments)

    monkeypatch.setattr(module, "find_rows", met)
    with pytest.raises(LakeConflictError):  # our commit only adds a file: Delta would take it for one that depends on nothing
        replacing(lake, 2, lake.frame([(99, "ours")]), 1)
    monkeypatch.setattr(module, "find_rows", search)
    assert replacing(lake, 2, lake.frame([(99, "ours")]), 1).outcome is Outcome.APPLIED
    assert [row for row in lake.rows() if row[0] == 99] == [(99, "ours")]


def test_an_operation_that_another_try_commits_meanwhile_is_applied_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(lake, 40, 4)
    search, results = module.find_rows, list[OperationResult]()

    def met(*arguments: Any) -> Any:
        monkeypatch.setattr(module, "find_rows", search)
        results.append(replacing(lake, 2, lake.frame([(3, "ours"), (99, "ours")]), 2))
        return search(*arguments)

    monkeypatch.setattr(module, "find_rows", met)
    late = replacing(lake, 2, lake.frame([(3, "ours"), (99, "ours")]), 2)
    assert [result.outcome for result in results] == [Outcome.APPLIED]
    assert late.outcome is Outcome.ALREADY_APPLIED
    assert len(lake.rows()) == 41


def test_deleted_rows_stay_deleted_and_vectors_stay_when_the_table_is_cleaned(lake: Lake) -> None:
    numbered(lake, 40, 2)
    lake.spark.sql(f"DELETE FROM delta.`{lake.path}` WHERE id IN (1, 2, 25)")
    replacing(lake, 2, lake.frame([(2, "back"), (3, "new"), (26, "new")]), 3)
    expected = {key: "old" for key in range(40) if key not in (1, 25)} | {2: "back", 3: "new", 26: "new"}
    assert lake.rows() == sorted(expected.items())
    lake.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        lake.spark.sql(f"VACUUM delta.`{lake.path}` RETAIN 0 HOURS")
        assert dict(lake.rows()) == expected
        lake.spark.sql(f"OPTIMIZE delta.`{lake.path}`")
    finally:
        lake.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert lake.rows() == sorted(expected.items())
    assert len(expected) == 38


@pytest.mark.parametrize(
    "alter",
    [
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ADD CONSTRAINT positive CHECK (amount > 0)",
        pytest.param("SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')", marks=pytest.mark.long),
        pytest.param("SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')", marks=pytest.mark.long),
        "SET TBLPROPERTIES ('delta.checkpoint.writeStatsAsJson' = 'false', 'delta.checkpoint.writeStatsAsStruct' = 'true')",
    ],
)
def test_tables_that_ask_more_are_left_to_spark(lake: Lake, alter: str) -> None:
    numbered(lake, 20, 2)
    lake.spark.sql(f"ALTER TABLE delta.`{lake.path}` {alter}")
    result = replacing(lake, 2, lake.frame([(3, "new"), (99, "new")]), 2)
    assert result.outcome is Outcome.APPLIED
    assert not is_by_tasks(lake, result)
    assert [row for row in lake.rows() if row[1] == "new"] == [(3, "new"), (99, "new")]


def test_a_table_that_changes_before_the_transaction_begins_is_left_to_spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(lake, 20, 2)
    look = execute_module.replacement_of

    def met(*arguments: Any, **others: Any) -> Any:
        found = look(*arguments, **others)
        lake.spark.sql(f"DELETE FROM delta.`{lake.path}` WHERE id = 5")
        return found

    monkeypatch.setattr(execute_module, "replacement_of", met)
    result = replacing(lake, 2, lake.frame([(3, "new"), (99, "new")]), 2)
    assert result.outcome is Outcome.APPLIED
    assert not is_by_tasks(lake, result)
    assert [key for key, _ in lake.rows()] == [*(key for key in range(20) if key != 5), 99]


def test_a_file_that_tasks_cannot_read_is_left_to_spark_and_the_run_says_so(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(lake, 20, 2)
    monkeypatch.setattr(module, "candidates", lambda _, adds: [{**add, "path": f"/elsewhere/{add['path']}"} for add in adds])
    result = replacing(lake, 2, lake.frame([(3, "new"), (99, "new")]), 2)
    assert result.outcome is Outcome.APPLIED
    assert not is_by_tasks(lake, result)
    assert "does not lie in the table's folder" in result.counts.warning
    assert [row for row in lake.rows() if row[1] == "new"] == [(3, "new"), (99, "new")]
    assert {path.name for path in Path(lake.path).glob("*.parquet")} == {file["path"] for file in files_of(lake)}


def test_a_batch_that_a_task_cannot_write_is_left_to_spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbered(lake, 20, 2)
    monkeypatch.setattr(module, "_write", lambda batches, **_: (1 // 0 for _ in batches))
    result = replacing(lake, 2, lake.frame([(3, "new"), (99, "new")]), 2)
    assert result.outcome is Outcome.APPLIED
    assert "because tasks could not (ZeroDivisionError: " in result.counts.warning
    assert [row for row in lake.rows() if row[1] == "new"] == [(3, "new"), (99, "new")]


@pytest.mark.long  # test_lake_replace.py asks sessions of both kinds
def test_tasks_replace_no_rows_where_the_session_says_so(lake: Lake) -> None:
    numbered(lake, 20, 2)
    lake.spark.conf.set(REPLACE_BY_TASKS, "false")
    try:
        result = replacing(lake, 2, lake.frame([(3, "new"), (99, "new")]), 2)
    finally:
        lake.spark.conf.unset(REPLACE_BY_TASKS)
    assert not is_by_tasks(lake, result)
    assert [row for row in lake.rows() if row[1] == "new"] == [(3, "new"), (99, "new")]


@pytest.mark.parametrize("policy", ["classic", pytest.param("v2", marks=pytest.mark.long)])
def test_rows_of_files_that_only_a_checkpoint_names_are_replaced_and_their_entries_keep_what_they_say(lake: Lake, policy: str) -> None:
    table = f"delta.`{lake.path}`"
    numbered(lake, 600, 2)
    lake.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointPolicy' = '{policy}', 'delta.checkpointInterval' = '1')")
    lake.spark.sql(f"ALTER TABLE {table} CLUSTER BY (id)")
    lake.spark.sql(f"OPTIMIZE {table} FULL")
    # Of more than 50 files the checksum of a version tells none.
    more = lake.spark.range(600, 1200, 1, 60).selectExpr("id", "'old' name", "CAST(1.5 AS decimal(10, 2)) amount", "now() updated_at")
    more.write.format("delta").mode("append").save(lake.path)
    log = DeltaLog(lake.path)
    assert any(f"{log.newest():020d}.checkpoint" in name for name in log.names)
    assert log.checksum(log.newest() or 0).get("allFiles") is None
    assert [file.get("clusteringProvider") for file in files_of(lake)].count("liquid") == 1
    expected = dict.fromkeys(range(1200), "old")
    for number in range(2, 5):
        rows = [(key, f"new {number}") for key in (number, 100 + number, 700, 1200 + number)]
        result = replacing(lake, number, lake.frame(rows), len(rows))
        assert is_by_tasks(lake, result), result.counts.warning
        expected |= dict(rows)
    assert lake.rows() == sorted(expected.items())
    files = files_of(lake)
    assert [file.get("clusteringProvider") for file in files].count("liquid") == 1
    assert all("minValues" in json.loads(file["stats"]) for file in files)


@pytest.mark.parametrize("files", [4, 40])
def test_a_large_table_is_left_to_literals_where_spark_can_use_them(lake: Lake, monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    numbered(lake, 80, files)
    monkeypatch.setattr(module, "_MOST_STORED", 1_000)
    result = replacing(lake, 2, lake.frame([(3, "new"), (99, "new")]), 2)
    assert is_by_tasks(lake, result) == (files < 32), "literals are for tables of 32 files or more"
    assert [row for row in lake.rows() if row[1] == "new"] == [(3, "new"), (99, "new")]
