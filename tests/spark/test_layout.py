"""Tables that are partitioned or clustered: a row is found wherever it lies, and the layout follows the pipeline file where it can."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.layout.compaction import Partitioning
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.merging.statement import Statement
from cdc_ops.lake.log.data_files import partitioning
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.merge.partition_values import unstorable_partition
from tests.lake_case import PIPELINE, TABLE, Lake, Row, schema


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def laid_out(lake: Lake) -> Partitioning:
    log = DeltaLog(lake.path)
    return partitioning(log, log.newest() or 0)


def changed(lake: Lake, statement: Statement, number: int, rows: list[Row], **layout: tuple[str, ...]) -> None:
    operation, frame = lake.case.operation(number, **layout), lake.frame(rows)
    latest = frame if statement is Statement.REPLACE else None
    apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), read_rows=len(rows), latest=latest))
    by = lake.versions()[0][1]
    assert by == ("WRITE" if statement is Statement.REPLACE else "MERGE")


@pytest.mark.parametrize("statement", list(Statement))
@pytest.mark.parametrize("setting", ["partition_by", pytest.param("cluster_by", marks=pytest.mark.long)])
def test_a_row_whose_partition_changes_is_found_and_stays_one_row(lake: Lake, statement: Statement, setting: str) -> None:
    layout = {setting: ("name",)}
    lake.apply(lake.case.operation(1, ApplyMode.APPEND, **layout), [(1, "a"), (2, "a"), (3, "b")])
    wanted = Partitioning(partition_by=(("name", "string"),)) if setting == "partition_by" else Partitioning(cluster_by=("name",))
    assert laid_out(lake) == wanted
    changed(lake, statement, 2, [(1, "b"), (4, "c")], **layout)
    assert lake.rows() == [(1, "b"), (2, "a"), (3, "b"), (4, "c")]
    assert laid_out(lake) == wanted


@pytest.mark.parametrize("statement", list(Statement))
def test_a_partition_may_have_a_dot_in_its_name(lake: Lake, statement: Statement) -> None:
    columns = schema(("id", "bigint"), ("first.name", "string"), ("updated_at", "timestamp"))

    def write(number: int, mode: ApplyMode, rows: list[Row]) -> None:
        operation = lake.case.operation(number, mode, schema=columns, partition_by=("first.name",))
        frame = lake.frame(rows).selectExpr("id", "name AS `first.name`", "updated_at")
        latest = frame if mode is ApplyMode.MERGE and statement is Statement.REPLACE else None
        apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), read_rows=len(rows), latest=latest))

    write(1, ApplyMode.APPEND, [(1, "a"), (2, "a")])
    write(2, ApplyMode.MERGE, [(1, "b"), (3, "c")])
    assert sorted(tuple(row)[:2] for row in lake.spark.read.format("delta").load(lake.path).collect()) == [(1, "b"), (2, "a"), (3, "c")]
    assert laid_out(lake) == Partitioning(partition_by=(("first.name", "string"),))


def test_only_a_replacement_of_the_table_changes_its_partitions(lake: Lake) -> None:
    lake.load([(1, "a"), (2, "b")])
    changed(lake, Statement.MERGE, 2, [(1, "c")], partition_by=("name",))
    assert laid_out(lake) == Partitioning()
    for number, names in ((3, ("name",)), (4, ("updated_at",)), (5, ())):
        whole = lake.case.operation(number, ApplyMode.OVERWRITE, replaces_schema=True, partition_by=names)
        lake.apply(whole, [(1, "c"), (2, "b")])
        head = read_head(lake.path, PIPELINE, TABLE)
        assert head is not None
        assert head.partition_by == names
    assert lake.rows() == [(1, "c"), (2, "b")]


def test_clustering_follows_the_pipeline_file_and_comes_back_behind_a_replacement(lake: Lake) -> None:
    lake.load([(1, "a"), (2, "b")])
    changed(lake, Statement.MERGE, 2, [(1, "c")], cluster_by=("name", "id"))
    assert laid_out(lake).cluster_by == ("name", "id")
    whole = lake.case.operation(3, ApplyMode.OVERWRITE, replaces_schema=True, cluster_by=("name", "id"))
    lake.apply(whole, [(1, "c"), (2, "b")])
    changed(lake, Statement.REPLACE, 4, [(1, "d")], cluster_by=("name", "id"))
    assert laid_out(lake).cluster_by == ("name", "id")
    changed(lake, Statement.REPLACE, 5, [(1, "e")])
    assert laid_out(lake).cluster_by == ("name", "id"), "no setting leaves a table as it is"
    assert lake.rows() == [(1, "e"), (2, "b")]


LOST = ("", "__HIVE_DEFAULT_PARTITION__", "a\0b", "x" * 251, "/" * 84)
KEPT = ("a b", ".", "..", "a/b%2F=:", " ", "null", "x" * 250, "\u00e9\n\x01", "{\\}")


@pytest.mark.parametrize("how", [ApplyMode.APPEND, pytest.param(ApplyMode.OVERWRITE, marks=pytest.mark.long), *Statement])
def test_a_text_that_no_partition_holds_stops_the_table_before_its_commit(lake: Lake, how: ApplyMode | Statement) -> None:
    lake.apply(lake.case.operation(1, ApplyMode.APPEND, partition_by=("name",)), list(enumerate(KEPT)))
    assert lake.rows() == list(enumerate(KEPT))
    before = lake.versions()
    for text in LOST:
        mode = how if isinstance(how, ApplyMode) else ApplyMode.MERGE
        whole = {"replaces_schema": True} if how is ApplyMode.OVERWRITE else {}
        operation, frame = lake.case.operation(2, mode, partition_by=("name",), **whole), lake.frame([(7, "ok"), (8, text)])
        with pytest.raises(Exception, match="CDC_OPS_PARTITION") as failure:
            apply(operation, Batch(rows=frame, plan=plan_merge(operation, None), latest=frame if how is Statement.REPLACE else None))
        error = unstorable_partition(operation, str(failure.value))
        assert error is not None
        assert f"Column 'name' of shop.orders has the value {text[:60]!r}"[:60] in error.what
        assert "id = 8" in error.what
        assert "cluster_by" in error.next
    assert lake.versions() == before


def test_a_delete_of_a_row_that_no_partition_can_hold_passes(lake: Lake) -> None:
    lake.apply(lake.case.operation(1, ApplyMode.APPEND, partition_by=("name",)), [(1, "a"), (2, "b")])
    operation = lake.case.operation(2, partition_by=("name",), delete_where=f"{DELETE_MARK}")
    frame = lake.frame([(2, ""), (3, "")]).selectExpr("*", f"true AS {DELETE_MARK}")
    apply(operation, Batch(rows=frame, plan=plan_merge(operation, None)))
    assert lake.rows() == [(1, "a")]
