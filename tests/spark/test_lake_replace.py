"""Whole rows replace those with their keys: one commit, applied once, and only where no row of the table has a say in it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.results import KeyRange, Manifest, OperationResult, Outcome
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import find_commit, read_head
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.conf import REPLACE_BY_TASKS
from tests.commits import commits, is_by_tasks
from tests.lake_case import PIPELINE, TABLE, Lake, Row, schema


@pytest.fixture(params=["spark", "tasks"])
def lake(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lake]:
    """A lake into which rows are replaced by a statement of Spark's, or by tasks where these can."""
    spark.conf.set(REPLACE_BY_TASKS, str(request.param == "tasks").lower())
    yield Lake(spark, tmp_path)
    spark.conf.unset(REPLACE_BY_TASKS)


BY_TASKS = pytest.mark.parametrize("lake", [pytest.param("spark", marks=pytest.mark.long), "tasks"], indirect=True)
BY_SPARK = pytest.mark.parametrize("lake", ["spark", pytest.param("tasks", marks=pytest.mark.long)], indirect=True)
"""What both do alike is tried with one of them, and with the other when there is time."""


def asks_tasks(lake: Lake) -> bool:
    return lake.spark.conf.get(REPLACE_BY_TASKS) == "true"


def landed(rows: int) -> Manifest:
    return Manifest.of(operation_id="", attempt="", rows=rows, bytes=0, schema_fingerprint="")


def replacing(lake: Lake, op_seq: int, rows: list[Row], **changes: Any) -> OperationResult:
    """Applies a batch that has been brought to one row per key, as landed rows are."""
    operation, frame = lake.case.operation(op_seq, **changes), lake.frame(rows)
    return apply(
        operation, Batch(rows=frame, plan=plan_merge(operation, None), read_rows=len(rows), latest=frame, manifest=landed(len(rows)))
    )


def replaced(lake: Lake, version: int | None) -> bool:
    """True if a commit is one of a replacement."""
    operations: dict[int | None, str] = {**dict(lake.versions())}
    return operations[version] == ("MERGE" if by_tasks(lake, version) else "WRITE")


def test_whole_rows_replace_those_with_their_keys_in_one_commit(lake: Lake) -> None:
    lake.load([(key, "old") for key in range(1, 101)])
    result = replacing(lake, 2, [(2, "b"), (100, "z"), (101, "new"), (102, "new")])
    assert lake.rows() == sorted([*((key, "old") for key in range(1, 100) if key != 2), (2, "b"), (100, "z"), (101, "new"), (102, "new")])
    assert replaced(lake, result.delta_version)
    assert by_tasks(lake, result.delta_version) == asks_tasks(lake)
    assert (result.outcome, result.counts.read) == (Outcome.APPLIED, 4)
    assert (result.counts.inserted, result.counts.updated, result.counts.deleted) == (2, 2, 0)
    found = find_commit(lake.path, "operation-2")
    assert found is not None
    assert (found.version, found.record.op_seq) == (result.delta_version, 2)
    assert 0 < result.counts.bytes < 5_000  # of what is new, not of the file in which rows were deleted
    assert len(lake.versions()) == 3


def test_replaced_rows_are_replaced_once_whatever_is_tried_again(lake: Lake) -> None:
    lake.load([(1, "a"), (2, "b")])
    first = replacing(lake, 2, [(2, "c"), (3, "d")])
    before, versions = lake.rows(), lake.versions()
    again = replacing(lake, 2, [(2, "c"), (3, "d")])
    assert (first.outcome, again.outcome) == (Outcome.APPLIED, Outcome.ALREADY_APPLIED)
    assert (again.delta_version, again.counts) == (first.delta_version, first.counts)
    assert (lake.rows(), lake.versions()) == (before, versions)
    late = replacing(lake, 2, [(2, "x")], operation_id="another")
    assert (late.outcome, lake.rows()) == (Outcome.NUMBER_TAKEN, before)


@BY_TASKS
def test_replacing_with_nothing_new_or_nothing_at_all_advances_the_table(lake: Lake) -> None:
    lake.load([(1, "a")])
    empty = replacing(lake, 2, [])
    assert (empty.outcome, empty.counts.inserted, empty.counts.updated) == (Outcome.APPLIED, 0, 0)
    only_new = replacing(lake, 3, [(2, "b")])
    assert (only_new.counts.inserted, only_new.counts.updated) == (1, 0)
    head = read_head(lake.path, PIPELINE, TABLE)
    assert head is not None
    assert (head.txn_version, head.record_version) == (3, only_new.delta_version)
    assert lake.rows() == [(1, "a"), (2, "b")]
    assert all(replaced(lake, result.delta_version) for result in (empty, only_new))


@BY_TASKS
def test_rows_replaced_again_and_again_are_there_once(lake: Lake) -> None:
    lake.load([(key, "0") for key in range(10)])
    for number in range(2, 6):
        result = replacing(lake, number, [(key, str(number)) for key in range(number, 10)])
        assert (result.counts.inserted, result.counts.updated) == (0, 10 - number)
    assert lake.rows() == [(0, "0"), (1, "0"), (2, "2"), (3, "3"), (4, "4"), *((key, "5") for key in range(5, 10))]


@BY_SPARK
def test_nothing_of_a_replacement_leaks_into_later_statements(lake: Lake) -> None:
    lake.load([(1, "a")])
    replacing(lake, 2, [(2, "b")])
    lake.spark.sql(f"INSERT INTO delta.`{lake.path}` VALUES (9, 'by hand', 1, TIMESTAMP'2026-01-01')")
    assert lake.rows()[-1] == (9, "by hand")
    assert commits(lake.path)[-1]["userMetadata"] is None
    views = [row["viewName"] for row in lake.spark.sql("SHOW VIEWS IN global_temp").collect()]
    assert not [view for view in views if view.startswith("cdc_ops_")]


@BY_TASKS
@pytest.mark.parametrize(
    "alter",
    [
        "ADD COLUMNS (theirs string)",
        "SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
    ],
)
def test_what_only_a_merge_keeps_is_kept(lake: Lake, alter: str) -> None:
    lake.load([(1, "a"), (2, "b")])
    lake.spark.sql(f"ALTER TABLE delta.`{lake.path}` {alter}")
    result = replacing(lake, 2, [(2, "c"), (3, "d")])
    assert not replaced(lake, result.delta_version)
    assert (result.counts.inserted, result.counts.updated) == (1, 1)
    assert lake.rows() == [(1, "a"), (2, "c"), (3, "d")]


@BY_SPARK
def test_replaced_rows_have_any_names_and_keys_of_several_columns(lake: Lake) -> None:
    columns = (("s", "string"), ("t", "int"), ("a `b`", "string"), ("__cdc_x.y", "int"))
    shape = schema(*columns, keys=("s", "t"))

    def batch(number: int, rows: list[tuple[str, int, str, int]]) -> OperationResult:
        operation = lake.case.operation(number, schema=shape, keys=("s", "t"))
        frame = lake.spark.createDataFrame(rows, ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns))
        return apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), latest=frame, manifest=landed(len(rows))))

    batch(1, [("a", 1, "x", 1), ("a", 2, "x", 2), ("b", 1, "x", 3)])
    result = batch(2, [("a", 2, "y", 4), ("b", 2, "y", 5)])
    assert replaced(lake, result.delta_version)
    stored = lake.spark.read.format("delta").load(lake.path)
    assert sorted(map(tuple, stored.collect())) == [("a", 1, "x", 1), ("a", 2, "y", 4), ("b", 1, "x", 3), ("b", 2, "y", 5)]


def test_rows_that_replace_get_the_wider_type_of_the_table(lake: Lake) -> None:
    lake.load([(1, "a")])
    operation = lake.case.operation(2)
    frame = lake.frame([(1, "b"), (2, "c")]).withColumn("id", F.col("id").cast("int"))
    result = apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), latest=frame))
    assert replaced(lake, result.delta_version)
    assert lake.rows() == [(1, "b"), (2, "c")]
    assert dict(lake.spark.read.format("delta").load(lake.path).dtypes)["id"] == "bigint"


@BY_SPARK
def test_literals_prune_a_replacement_and_change_nothing_of_it(lake: Lake) -> None:
    lake.load([(key, "a") for key in range(1, 1_001)])
    operation, frame = lake.case.operation(2), lake.frame([(10, "b"), (20, "b"), (2_000, "b")])
    plan = replace(plan_merge(operation, None), prune=(KeyRange(column="id", low="10", high="2000"),))
    result = apply(operation, Batch(rows=frame, plan=plan, latest=frame, manifest=landed(3)))
    assert replaced(lake, result.delta_version)
    assert (result.counts.inserted, result.counts.updated) == (1, 2)
    assert [row for row in lake.rows() if row[1] == "b"] == [(10, "b"), (20, "b"), (2_000, "b")]
    assert len(lake.rows()) == 1_001


def test_a_replacement_that_fails_leaves_nothing_behind_and_may_be_repeated(lake: Lake) -> None:
    lake.load([(1, "a"), (2, "b")])
    operation, rows = lake.case.operation(2), lake.frame([(1, "x"), (3, "x")])
    broken = rows.withColumn("name", F.expr("IF(id = 3, raise_error('no'), name)"))
    before = lake.rows(), lake.versions()
    with pytest.raises(PySparkException, match="no"):
        apply(operation, Batch(rows=broken, plan=plan_merge(operation, None), latest=broken, manifest=landed(2)))
    assert (lake.rows(), lake.versions()) == before
    assert replacing(lake, 2, [(1, "x"), (3, "x")]).outcome is Outcome.APPLIED
    assert lake.rows() == [(1, "x"), (2, "b"), (3, "x")]


@pytest.fixture
def many_files(lake: Lake) -> Lake:
    """A table of 40 files of 10 ids each."""
    frame = lake.spark.range(0, 400, 1, 40).selectExpr(
        "id", "'old' name", "CAST(1.5 AS decimal(10, 2)) amount", "timestamp'2026-01-01 00:00:00' updated_at"
    )
    operation = lake.case.operation(1, ApplyMode.APPEND)
    result = apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), read_rows=400))
    assert result.stats is not None
    assert result.stats.files == 40
    return lake


def found_by_literals(lake: Lake, version: int | None) -> bool:
    """True if a statement of Spark's has found the rows by literals, or tasks have."""
    assert version is not None
    parameters = DeltaLog(lake.path).commit_info(version)["operationParameters"]
    return by_tasks(lake, version) if asks_tasks(lake) else "predicate" in parameters


def by_tasks(lake: Lake, version: int | None) -> bool:
    assert version is not None
    return is_by_tasks(DeltaLog(lake.path).commit_info(version))


def test_few_keys_of_a_large_table_are_replaced_by_literals_in_one_counted_commit(many_files: Lake) -> None:
    lake, before = many_files, dict.fromkeys(range(400), "old")
    keys = [*range(0, 400, 13), 400, 9_223_372_036_854_775_807, -9_223_372_036_854_775_807]
    result = replacing(lake, 2, [(key, "new") for key in keys])
    assert found_by_literals(lake, result.delta_version)
    assert lake.rows() == sorted({**before, **dict.fromkeys(keys, "new")}.items())
    assert (result.counts.inserted, result.counts.updated, result.counts.deleted, result.counts.read) == (3, 31, 0, 34)
    again = replacing(lake, 2, [(key, "newer") for key in keys])
    assert (again.outcome, again.counts) == (Outcome.ALREADY_APPLIED, result.counts)
    third = replacing(lake, 3, [(13, "third"), (14, "third"), (500, "third")])
    assert (third.counts.inserted, third.counts.updated) == (1, 2)
    assert [row for row in lake.rows() if row[1] == "third"] == [(13, "third"), (14, "third"), (500, "third")]
    assert len(lake.rows()) == 404


@BY_SPARK
def test_the_smallest_bigint_is_replaced_too(many_files: Lake) -> None:
    smallest = -9_223_372_036_854_775_808
    first, second = replacing(many_files, 2, [(smallest, "a"), (0, "a")]), replacing(many_files, 3, [(smallest, "b"), (0, "b")])
    assert (first.counts.inserted, second.counts.inserted, second.counts.updated) == (1, 0, 2)
    assert [row for row in many_files.rows() if row[0] <= 0] == [(smallest, "b"), (0, "b")]


def test_rows_in_files_without_statistics_are_replaced(many_files: Lake) -> None:
    lake = many_files
    lake.spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        lake.frame([(700, "old"), (701, "old")]).coalesce(1).write.format("delta").mode("append").save(lake.path)
    finally:
        lake.spark.conf.unset("spark.databricks.delta.stats.collect")
    result = replacing(lake, 2, [(701, "new"), (5, "new")])
    assert found_by_literals(lake, result.delta_version)
    assert [row for row in lake.rows() if row[0] in (5, 700, 701)] == [(5, "new"), (700, "old"), (701, "new")]
    assert len(lake.rows()) == 402


@BY_SPARK
def test_a_batch_of_no_rows_in_a_large_table_is_a_commit_that_changes_nothing(many_files: Lake) -> None:
    before = many_files.rows()
    result = replacing(many_files, 2, [])
    assert (result.outcome, many_files.rows()) == (Outcome.APPLIED, before)


@pytest.mark.parametrize(
    ("kind", "value"), [("string", "repeat('x', 40) || id"), ("timestamp", "timestamp_micros(id)"), ("decimal(20,0)", "id")]
)
def test_keys_whose_statistics_are_cut_are_found_in_a_table_of_many_files(lake: Lake, kind: str, value: str) -> None:
    shape = schema(("k", kind), ("v", "int"), keys=("k",))

    def batch(number: int, low: int, high: int, parts: int) -> OperationResult:
        operation = lake.case.operation(number, ApplyMode.APPEND if number == 1 else ApplyMode.MERGE, schema=shape, keys=("k",))
        frame = lake.spark.range(low, high, 1, parts).selectExpr(f"CAST({value} AS {kind}) k", f"{number} v")
        return apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), latest=frame, manifest=landed(high - low)))

    batch(1, 0, 400, 40)
    result = batch(2, 390, 410, 1)
    assert (result.counts.inserted, result.counts.updated) == (10, 10)
    stored = lake.spark.read.format("delta").load(lake.path)
    assert sorted(tuple(row) for row in stored.groupBy("v").count().collect()) == [(1, 390), (2, 20)]
