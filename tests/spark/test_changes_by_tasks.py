"""Deletes and an order of changes, by tasks and by a MERGE: the same rows and the same counts, whatever the table has."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.scd import POSITION_TYPE
from cdc_ops.core.operation.merging.merge_plan import MergePlan, plan_merge
from cdc_ops.core.operation.results import Manifest, OperationResult, Outcome
from cdc_ops.lake.data_files import key_search
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.merge import replace_by_tasks as module
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.conf import REPLACE_BY_TASKS
from cdc_ops.lake.table.create import ensure_table
from tests.commits import is_by_tasks
from tests.lake_case import Lake, schema

Change = tuple[int, str, int | None, bool]
"""Key, name, place in the order, and whether the row is deleted."""

PLACES = {
    POSITION_TYPE: "array({} div 3, {} % 3)",
    "bigint": "{} - 5",
    "string": "substr('aAäbBé€z𝄞', {} + 1, 2)",
    "decimal(20,0)": "CAST({} AS decimal(20,0)) + 9223372036854775800",
    "timestamp": "TIMESTAMP'1500-03-01 00:00:00.000001' + make_dt_interval(0, 0, 0, {})",
    "date": "date_add(DATE'1500-01-01', {})",
    "binary": "unhex(hex({} * 31))",
}
"""Types of places, each with the place of a number."""


def of_kind(kind: str) -> Any:
    return schema(("id", "bigint"), ("name", "string"), ("seq", kind))


def frame(spark: SparkSession, changes: list[Change], kind: str) -> DataFrame:
    rows = spark.createDataFrame(changes, f"id bigint, name string, place int, {DELETE_MARK} boolean")
    place = PLACES[kind].format("place", "place")
    return rows.selectExpr("id", "name", f"CAST(if(place IS NULL, NULL, {place}) AS {kind}) seq", DELETE_MARK)


class Both:
    """Two tables that get the same batches: one by tasks, and one by Spark's MERGE."""

    def __init__(self, spark: SparkSession, folder: Path, kind: str, ordered: bool = True) -> None:
        self.spark, self.kind, self.ordered = spark, kind, ordered
        self.tasks, self.merge = Lake(spark, folder / "tasks"), Lake(spark, folder / "merge")
        for lake in (self.tasks, self.merge):
            ensure_table(spark, lake.case.operation(1, schema=of_kind(kind)))

    def changed(self, number: int, changes: list[Change]) -> tuple[OperationResult, OperationResult]:
        """Applies a batch to both; returns what happened, by tasks first."""
        self.spark.conf.set(REPLACE_BY_TASKS, "false")
        merged = self.apply(self.merge, number, changes)
        self.spark.conf.set(REPLACE_BY_TASKS, "true")
        return self.apply(self.tasks, number, changes), merged

    def apply(self, lake: Lake, number: int, changes: list[Change], change: Callable[[MergePlan], MergePlan] = lambda plan: plan) -> Any:
        operation = lake.case.operation(number, schema=of_kind(self.kind))
        rows = frame(self.spark, changes, self.kind)
        plan = replace(plan_merge(operation, None), deleted_flag=DELETE_MARK, sequence="seq" if self.ordered else "")
        landed = Manifest.of(operation_id="", attempt="", rows=len(changes), bytes=0, schema_fingerprint="")
        return apply(operation, Batch(rows=rows, plan=change(plan), read_rows=len(changes), latest=rows, manifest=landed))


def rows_of(lake: Lake) -> list[str]:
    return sorted(map(str, lake.spark.read.format("delta").load(lake.path).collect()))


def commit_of(lake: Lake, result: OperationResult) -> Any:
    assert result.delta_version is not None
    return DeltaLog(lake.path).commit_info(result.delta_version)


@pytest.fixture(autouse=True)
def reset(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(REPLACE_BY_TASKS)


@pytest.fixture(params=["in the driver", "in tasks"])
def place_of_work(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in tasks":
        monkeypatch.setattr(module, "_LOCAL_ROWS", -1)
        monkeypatch.setattr(key_search, "_LOCAL_FILES", -1)


def random_changes(choice: random.Random, places: range) -> list[Change]:
    keys = choice.sample(range(20), choice.choice([3, 12, 15]))
    return [(key, f"n{choice.randrange(100)}", choice.choice([*places, None]), choice.random() < 0.4) for key in keys]


@pytest.mark.parametrize("kind", [POSITION_TYPE, *(pytest.param(one, marks=pytest.mark.long) for one in PLACES if one != POSITION_TYPE)])
@pytest.mark.usefixtures("place_of_work")
def test_any_batches_leave_the_rows_and_counts_of_a_merge(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    both, choice, older, seen = Both(spark, tmp_path, kind), random.Random(19), 0, set[str]()
    for number in range(2, 6):
        changes = random_changes(choice, range(9))
        by_tasks, merged = both.changed(number, changes)
        assert is_by_tasks(commit_of(both.tasks, by_tasks)), by_tasks.counts.warning
        assert not is_by_tasks(commit_of(both.merge, merged))
        assert rows_of(both.tasks) == rows_of(both.merge)
        assert replace(by_tasks.counts, bytes=0) == replace(merged.counts, bytes=0)
        counts = merged.counts
        older += len(changes) - counts.inserted - counts.updated - counts.deleted
        seen |= {name for name in ("inserted", "updated", "deleted") if getattr(counts, name)}
    assert seen == {"inserted", "updated", "deleted"}
    assert older, "no row was older than the table's"


@pytest.mark.usefixtures("place_of_work")
def test_deletes_without_an_order_leave_the_rows_and_counts_of_a_merge(spark: SparkSession, tmp_path: Path) -> None:
    both, choice = Both(spark, tmp_path, "bigint", ordered=False), random.Random(3)
    for number in range(2, 5):
        by_tasks, merged = both.changed(number, random_changes(choice, range(9)))
        assert is_by_tasks(commit_of(both.tasks, by_tasks)), by_tasks.counts.warning
        assert rows_of(both.tasks) == rows_of(both.merge)
        assert replace(by_tasks.counts, bytes=0) == replace(merged.counts, bytes=0)


def test_a_batch_that_changes_nothing_is_a_commit_with_its_number(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path, "bigint")
    both.changed(2, [(1, "a", 5, False), (2, "b", 5, False)])
    before = rows_of(both.tasks)
    for number, changes in ((3, [(1, "x", 4, False), (2, "x", 3, True)]), (4, [(9, "gone", 1, True)]), (5, list[Change]())):
        by_tasks, merged = both.changed(number, changes)
        assert (by_tasks.outcome, by_tasks.counts) == (Outcome.APPLIED, merged.counts)
        assert is_by_tasks(commit_of(both.tasks, by_tasks))
        assert rows_of(both.tasks) == before
        assert both.apply(both.tasks, number, changes).outcome is Outcome.ALREADY_APPLIED
    assert not [action for version in (3, 4) for _, action in DeltaLog(both.tasks.path).actions(version, "add")]


def test_files_of_older_rows_are_gone_before_the_commit(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path, "bigint")
    both.changed(2, [(key, "old", 5, False) for key in range(20)])
    by_tasks, _ = both.changed(3, [(key, "new", 4 + key % 2 * 2, False) for key in range(0, 30)])
    assert (by_tasks.counts.inserted, by_tasks.counts.updated) == (10, 10)
    log = DeltaLog(both.tasks.path)
    named = {file["path"] for file in log.adds(log.newest() or 0)}
    assert {path.name for path in Path(both.tasks.path).glob("*.parquet")} == named
    assert rows_of(both.tasks) == rows_of(both.merge)


@pytest.mark.parametrize("ordered", [True, pytest.param(False, marks=pytest.mark.long)])
def test_what_tasks_cannot_decide_is_a_merge_of_sparks(spark: SparkSession, tmp_path: Path, ordered: bool) -> None:
    both = Both(spark, tmp_path, "bigint", ordered)
    for number, lake in ((2, both.tasks), (2, both.merge)):
        both.apply(lake, number, [(1, "a", 5, False), (2, "b", 5, False)])
        frame(spark, [(1, "twice", 3, False)], "bigint").drop(DELETE_MARK).write.format("delta").mode("append").save(lake.path)
    by_tasks, _ = both.changed(3, [(1, "new", 4, False), (3, "c", 1, False)])
    assert not is_by_tasks(commit_of(both.tasks, by_tasks))
    assert "the table has several rows of a key" in by_tasks.counts.warning
    assert rows_of(both.tasks) == rows_of(both.merge)


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: replace(plan, truncates=("1",), delete_missing_where="t.seq < 1"),
        lambda plan: replace(plan, columns=("id", "name", "seq"), deleted_column="name"),
    ],
    ids=["truncate", "soft deletes"],
)
def test_rows_that_the_batch_does_not_name_or_know_as_a_whole_are_for_a_merge(spark: SparkSession, tmp_path: Path, change: Any) -> None:
    both = Both(spark, tmp_path, "bigint")
    both.apply(both.tasks, 2, [(1, "true", 5, False)])
    result = both.apply(both.tasks, 3, [(2, "false", 6, False)], change)
    assert not is_by_tasks(commit_of(both.tasks, result))


def test_rows_from_before_the_order_was_kept_are_older_than_all(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path, "bigint")
    for lake in (both.tasks, both.merge):
        old = spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, name string").coalesce(1)
        old.write.format("delta").mode("append").save(lake.path)
    log = DeltaLog(both.tasks.path)
    [file] = log.adds(log.newest() or 0)
    assert "seq" not in spark.read.parquet(f"{both.tasks.path}/{file['path']}").columns
    by_tasks, merged = both.changed(4, [(1, "new", 1, False), (2, "gone", None, True), (3, "c", None, False)])
    assert is_by_tasks(commit_of(both.tasks, by_tasks)), by_tasks.counts.warning
    assert rows_of(both.tasks) == rows_of(both.merge)
    assert replace(by_tasks.counts, bytes=0) == replace(merged.counts, bytes=0)


def test_a_place_is_found_whatever_the_case_of_its_columns_name(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path, "bigint")
    both.changed(2, [(1, "a", 5, False), (2, "b", 5, False)])
    before = rows_of(both.tasks)
    older = both.apply(both.tasks, 3, [(1, "x", 4, False), (2, "x", 3, True)], lambda plan: replace(plan, sequence="SEQ"))
    assert is_by_tasks(commit_of(both.tasks, older)), older.counts.warning
    assert rows_of(both.tasks) == before


def test_places_that_python_has_not_are_for_a_merge(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path, "date")
    both.changed(2, [(1, "a", 5, False)])
    operation = both.tasks.case.operation(3, schema=of_kind("date"))
    rows = frame(spark, [(1, "late", 1, False)], "date").withColumn("seq", F.expr("DATE'+12026-01-01'"))
    plan = replace(plan_merge(operation, None), deleted_flag=DELETE_MARK, sequence="seq")
    landed = Manifest.of(operation_id="", attempt="", rows=1, bytes=0, schema_fingerprint="")
    files = set(Path(both.tasks.path).glob("*.parquet"))
    result = apply(operation, Batch(rows=rows, plan=plan, read_rows=1, manifest=landed))
    assert not is_by_tasks(commit_of(both.tasks, result))
    assert "the order of changes" in result.counts.warning
    assert result.counts.updated == 1
    assert len(set(Path(both.tasks.path).glob("*.parquet")) - files) == 1, "a file that no commit names stays"


def test_many_rows_of_a_comparison_are_for_a_merge(spark: SparkSession, tmp_path: Path) -> None:
    both = Both(spark, tmp_path, "bigint")
    both.changed(2, [(1, "a", 5, False), (2, "b", 5, False)])
    operation = both.tasks.case.operation(3, schema=of_kind("bigint"))
    rows = frame(spark, [(1, "a", 6, True)], "bigint")
    landed = Manifest.of(operation_id="", attempt="", rows=0, bytes=0, schema_fingerprint="")
    plan = replace(plan_merge(operation, None), deleted_flag=DELETE_MARK)
    result = apply(operation, Batch(rows=rows, plan=plan, read_rows=1, manifest=landed, differences=100_001))
    assert not is_by_tasks(commit_of(both.tasks, result))
    assert result.counts.deleted == 1
