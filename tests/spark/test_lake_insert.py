"""A batch into a table without rows is appended: one commit, the rows that a MERGE inserts, and no way past a row that came meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.operation.log_batch import PRESENT, REST_IS_NULL
from cdc_ops.core.operation.merging.merge_plan import MergePlan, plan_merge
from cdc_ops.core.operation.results import OperationResult, Outcome
from cdc_ops.errors import LakeConflictError
from cdc_ops.lake.data_files import checked_write
from cdc_ops.lake.log.head import find_commit, read_head
from cdc_ops.lake.merge import execute
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.table.create import ensure_table
from tests.lake_case import PIPELINE, TABLE, Lake, Row, schema

MERGES = pytest.mark.parametrize("merges", [False, True], ids=["insert", "merge"])
"""The same by the statement that an INSERT replaces."""


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """A table that is there and has no rows."""
    found = Lake(spark, tmp_path)
    ensure_table(spark, found.case.operation(1))
    return found


def applied(lake: Lake, op_seq: int, frame: DataFrame, change: Callable[[MergePlan], MergePlan] = lambda plan: plan) -> OperationResult:
    operation = lake.case.operation(op_seq)
    return apply(operation, Batch(rows=frame, plan=change(plan_merge(operation, None)), read_rows=frame.count()))


def inserting(lake: Lake, op_seq: int, rows: list[Row]) -> OperationResult:
    return applied(lake, op_seq, lake.frame(rows))


def statement(lake: Lake, result: OperationResult) -> str:
    operations: dict[int | None, str] = {**dict(lake.versions())}
    return operations[result.delta_version]


def only_merge(monkeypatch: pytest.MonkeyPatch, merges: bool) -> str:
    """Takes the way of the INSERT away; returns the statement that is expected."""
    if merges:
        monkeypatch.setattr(execute, "can_commit", lambda _: False)
    return "MERGE" if merges else "WRITE"


@MERGES
def test_the_first_rows_of_a_table_come_in_one_counted_commit(lake: Lake, merges: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = only_merge(monkeypatch, merges)
    result = inserting(lake, 1, [(1, "a"), (2, "b")])
    assert statement(lake, result) == expected
    assert lake.rows() == [(1, "a"), (2, "b")]
    assert (result.outcome, result.counts.read, result.counts.inserted, result.counts.updated) == (Outcome.APPLIED, 2, 2, 0)
    found, head = find_commit(lake.path, "operation-1"), read_head(lake.path, PIPELINE, TABLE)
    assert found is not None
    assert head is not None
    assert (found.version, found.record.op_seq, head.txn_version) == (result.delta_version, 1, 1)
    second = inserting(lake, 2, [(2, "c"), (3, "d")])  # rows are there: another statement
    assert (lake.rows(), second.counts.updated) == ([(1, "a"), (2, "c"), (3, "d")], 1)


def test_first_rows_come_once_whatever_is_tried_again(lake: Lake) -> None:
    first = inserting(lake, 1, [(1, "a")])
    versions = lake.versions()
    again = inserting(lake, 1, [(1, "a")])
    assert (again.outcome, again.counts, again.delta_version) == (Outcome.ALREADY_APPLIED, first.counts, first.delta_version)
    assert (lake.rows(), lake.versions()) == ([(1, "a")], versions)


def test_a_number_that_an_empty_table_has_is_not_taken_twice(lake: Lake) -> None:
    empty = inserting(lake, 2, [])
    assert (empty.outcome, statement(lake, empty), lake.rows()) == (Outcome.APPLIED, "WRITE", [])
    versions = lake.versions()
    again = inserting(lake, 2, [])
    assert (again.outcome, again.delta_version, lake.versions()) == (Outcome.ALREADY_APPLIED, empty.delta_version, versions)
    operation = lake.case.operation(2, operation_id="another")
    frame = lake.frame([(1, "x")])
    late = apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), read_rows=1))
    assert (late.outcome, lake.rows()) == (Outcome.NUMBER_TAKEN, [])
    assert inserting(lake, 3, [(1, "a")]).outcome is Outcome.APPLIED
    assert lake.rows() == [(1, "a")]


@MERGES
def test_deleted_rows_are_not_inserted(lake: Lake, merges: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = only_merge(monkeypatch, merges)
    gone = f"CASE id WHEN 1 THEN true WHEN 2 THEN false ELSE CAST(NULL AS boolean) END {DELETE_MARK}"
    frame = lake.frame([(1, "gone"), (2, "there"), (3, "unknown")]).selectExpr("*", gone)
    result = applied(lake, 1, frame, lambda plan: replace(plan, deleted_flag=DELETE_MARK))
    assert (statement(lake, result), lake.rows()) == (expected, [(2, "there")])
    assert result.counts.inserted == 1
    every = lake.frame([(7, "gone")]).selectExpr("*", f"true {DELETE_MARK}")
    monkeypatch.undo()
    other = Lake(lake.spark, Path(lake.case.root) / "other")
    ensure_table(lake.spark, other.case.operation(1))
    nothing = applied(other, 1, every, lambda plan: replace(plan, deleted_flag=DELETE_MARK))
    assert (nothing.outcome, other.rows()) == (Outcome.APPLIED, [])


@MERGES
def test_rows_that_are_not_known_as_a_whole_end_the_statement(lake: Lake, merges: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = only_merge(monkeypatch, merges)

    def rows(*present: str) -> DataFrame:
        shown = f"CASE id WHEN 1 THEN CAST(NULL AS array<string>) ELSE array({', '.join(map(repr, present))}) END {PRESENT}"
        return lake.frame([(1, "whole"), (2, "part")]).selectExpr("*", shown)

    before = lake.versions()
    with pytest.raises((PySparkException, Py4JJavaError), match="CDC_OPS_INCOMPLETE"):
        applied(lake, 1, rows("id", "name"), lambda plan: replace(plan, present=PRESENT))
    assert (lake.rows(), lake.versions()) == ([], before)
    result = applied(lake, 1, rows("id", "name", REST_IS_NULL), lambda plan: replace(plan, present=PRESENT))
    assert (statement(lake, result), lake.rows()) == (expected, [(1, "whole"), (2, "part")])


@MERGES
def test_first_rows_have_any_names_and_values_and_get_the_types_of_the_table(
    spark: SparkSession, tmp_path: Path, merges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = only_merge(monkeypatch, merges)
    lake = Lake(spark, tmp_path)
    columns = (
        ("s", "string"),
        ("T", "bigint"),
        ("a `b`", "decimal(20,2)"),
        ("__cdc_x.y", "timestamp_ntz"),
        ("z", "binary"),
        ("f", "double"),
    )
    shape = schema(*columns, keys=("s", "T"))
    operation = lake.case.operation(1, schema=shape, keys=("s", "T"))
    ensure_table(spark, operation)
    frame = spark.sql(
        "SELECT '' s, 1 t, CAST(-0.50 AS decimal(4,2)) `a ``b```, timestamp_ntz'0001-01-01 00:00:00.000001' `__cdc_x.y`, X'00ff' z,"
        " double('NaN') f"
        " UNION ALL SELECT 's', -9223372036854775808L, NULL, NULL, X'', double('-0.0')"
        " UNION ALL SELECT 't', 9223372036854775807L, 99.99, timestamp_ntz'9999-12-31 23:59:59.999999', NULL, NULL"
    )
    result = apply(operation, Batch(rows=frame, plan=plan_merge(operation, None)))
    assert statement(lake, result) == expected
    stored = spark.read.format("delta").load(lake.path)
    assert dict(stored.dtypes) == dict(columns)
    shown = stored.selectExpr(
        "s", "CAST(T AS string)", "CAST(`a ``b``` AS string)", "CAST(`__cdc_x.y` AS string)", "hex(z)", "CAST(f AS string)"
    )
    assert sorted(map(tuple, shown.collect())) == [
        ("", "1", "-0.50", "0001-01-01 00:00:00.000001", "00FF", "NaN"),
        ("s", "-9223372036854775808", None, None, "", "-0.0"),
        ("t", "9223372036854775807", "99.99", "9999-12-31 23:59:59.999999", None, None),
    ]


def by_hand(lake: Lake, key: int) -> None:
    lake.spark.sql(f"INSERT INTO delta.`{lake.path}` VALUES ({key}, 'by hand', 1, TIMESTAMP'2026-01-01')")


def test_a_row_that_came_before_the_statement_began_is_merged_with(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table was looked at while it was empty, and has the row when Delta's transaction begins."""
    insert = execute._insert
    seen: list[Any] = []

    def late(*arguments: Any) -> Any:
        by_hand(lake, 2)
        seen.append(insert(*arguments))
        return seen[-1]

    monkeypatch.setattr(execute, "_insert", late)
    result = inserting(lake, 1, [(1, "a"), (2, "b")])
    assert seen == [None]
    assert (statement(lake, result), lake.rows()) == ("MERGE", [(1, "a"), (2, "b")])


def test_a_row_that_came_while_the_statement_wrote_is_a_conflict(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    written = checked_write.CheckedWrite._written
    seen: list[int] = []

    def late(*arguments: Any) -> Any:
        found = written(*arguments)
        by_hand(lake, 2)
        seen.append(found.rows)
        return found

    monkeypatch.setattr(checked_write.CheckedWrite, "_written", late)
    with pytest.raises(LakeConflictError):
        inserting(lake, 1, [(1, "a"), (2, "b")])
    assert (seen, lake.rows()) == ([2], [(2, "by hand")])
    monkeypatch.undo()
    assert inserting(lake, 1, [(1, "a"), (2, "b")]).outcome is Outcome.APPLIED
    assert lake.rows() == [(1, "a"), (2, "b")]


def test_a_partitioned_table_gets_its_first_rows_by_a_merge(spark: SparkSession, tmp_path: Path) -> None:
    """It puts the rows of a partition into one file; an append would write a file for each task and partition."""
    lake = Lake(spark, tmp_path)
    operation, frame = lake.case.operation(1, partition_by=("name",)), lake.frame([(1, "a")])
    result = apply(operation, Batch(rows=frame, plan=plan_merge(operation, None)))
    assert (statement(lake, result), lake.rows()) == ("MERGE", [(1, "a")])
