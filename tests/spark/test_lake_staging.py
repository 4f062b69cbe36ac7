"""Landing rows and reading them back, and what the manifest says of them."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Operation
from cdc_ops.errors import EnvironmentSetupError, LandedRowsLostError, NullKeyError
from cdc_ops.lake.staging import landing, shared_folder
from cdc_ops.lake.staging.landing import land, read_landed
from cdc_ops.lake.staging.manifests import Landed, find_landed, landed_files, read_manifest
from cdc_ops.lake.staging.shared_folder import check_shared, roots_of
from tests.lake_case import Case, schema
from tests.operations import with_fields

TYPED = schema(
    ("i", "int"), ("l", "bigint"), ("small", "decimal(9,2)"), ("wide", "decimal(30,4)"), ("d", "date"), ("ts", "timestamp"),
    ("ntz", "timestamp_ntz"), ("s", "string"), ("bin", "binary"), ("flag", "boolean"), ("f", "double"),
)  # fmt: skip
ROWS = """
    VALUES (3, -5L, -1.50, 12345678901234567890.1234, DATE'1969-12-31', TIMESTAMP'2026-01-01 00:00:00.000001Z',
            TIMESTAMP_NTZ'0001-01-01 00:00:00', "it's", X'00', true, 0.5D),
           (4, 9223372036854775807L, 2.25, -0.0001, DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999Z',
            TIMESTAMP_NTZ'2026-07-01 12:30:00', '\\u00fc\\\\', X'FF', false, double('NaN'))
"""


@pytest.fixture
def operation(tmp_path: Path) -> Operation:
    names = tuple(column.name for column in TYPED.columns)
    return Case(root=str(tmp_path)).operation(1, schema=TYPED, keys=names)


def test_the_manifest_counts_what_is_there_and_gives_the_range_of_each_key_as_literals(spark: SparkSession, operation: Operation) -> None:
    frame = spark.sql(
        f"SELECT {', '.join(f'CAST(col{i} AS {c.delta_type}) {c.name}' for i, c in enumerate(TYPED.columns, 1))} FROM ({ROWS})"
    )
    manifest = land(spark, frame, operation, "first")
    assert read_manifest(operation.target.staging) == manifest
    assert (manifest.operation_id, manifest.attempt, manifest.landed.rows, manifest.null_keys) == (operation.operation_id, "first", 2, 0)
    assert manifest.landed.files == len(landed_files(operation.target.staging, "first"))
    assert [item.column for item in manifest.key_ranges] == ["i", "l", "small", "wide", "d", "ts", "ntz", "s"]
    for item in manifest.key_ranges:
        low, high = frame.selectExpr(f"min(`{item.column}`) <=> {item.low}", f"max(`{item.column}`) <=> {item.high}").collect()[0]
        assert (low, high) == (True, True), item
    back = read_landed(spark, operation, manifest)
    assert back.dtypes == [(column.name, column.delta_type) for column in TYPED.columns]
    assert back.exceptAll(frame).isEmpty()
    assert frame.exceptAll(back).isEmpty()


def test_rows_that_a_cluster_has_written_and_nobody_here_can_see_are_refused(
    spark: SparkSession, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an executor on another machine wrote into its own folder of that name is missing here, as if it had written nothing."""
    rows = spark.range(0, 50, 1, 2).selectExpr(*(f"CAST(NULL AS {c.delta_type}) {c.name}" for c in TYPED.columns))
    monkeypatch.setattr(shared_folder, "has_remote_executors", lambda _: True)
    assert land(spark, rows, operation, "seen").landed.rows == 50
    assert land(spark, rows.limit(0), operation, "empty").landed.rows == 0
    check_shared(spark, [operation.target.staging, "s3a://never/asked"])
    genuine = shared_folder._parts
    monkeypatch.setattr(shared_folder, "_parts", lambda folder: genuine(folder)[1:])
    with pytest.raises(EnvironmentSetupError, match="do not share the folder") as caught:
        land(spark, rows, operation, "unseen")
    assert "50 rows there, of which 25 can be seen" in caught.value.why
    with pytest.raises(EnvironmentSetupError, match="do not share the folder"):
        check_shared(spark, [operation.target.staging])
    left = read_manifest(operation.target.staging)
    assert left is not None
    assert left.attempt == "empty"


def test_one_folder_stands_for_all_that_lie_beside_each_other() -> None:
    assert roots_of(()) == roots_of(["s3a://bucket/lake/a"]) == ()
    assert roots_of(["/lake/shop/a", "file:/lake/shop/b/", "s3a://bucket/c"]) == ("/lake/shop",)
    assert roots_of(["file:///lake/shop/a", "/lake/other/b"]) == ("/lake",)


def test_an_empty_window_is_landed_too(spark: SparkSession, operation: Operation) -> None:
    empty = spark.createDataFrame([], ", ".join(f"{c.name} {c.delta_type}" for c in TYPED.columns))
    manifest = land(spark, empty, operation, "first")
    assert (manifest.landed.rows, manifest.key_ranges) == (0, ())
    assert read_landed(spark, operation, manifest).isEmpty()


def test_null_keys_are_counted_and_stop_the_merge(spark: SparkSession, tmp_path: Path) -> None:
    two = schema(("a", "bigint"), ("b", "string"), ("v", "int"), keys=("a", "b"))
    operation = Case(root=str(tmp_path)).operation(1, schema=two, keys=("a", "b"))
    frame = spark.sql("SELECT * FROM VALUES (1L, 'x', 1), (NULL, 'y', 1), (3L, NULL, NULL) AS t(a, b, v)")
    manifest = land(spark, frame, operation, "first")
    assert manifest.null_keys == 2
    with pytest.raises(NullKeyError, match="2 rows"):
        plan_merge(operation, manifest)


def test_keys_too_long_for_statistics_are_counted_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    operation = Case(root=str(tmp_path)).operation(1, schema=schema(("k", "string")), keys=("k",))
    manifest = land(spark, spark.sql("SELECT repeat('x', 10000) k UNION ALL SELECT NULL"), operation, "first")
    assert (manifest.null_keys, manifest.key_ranges) == (1, ())
    manifest = land(spark, spark.sql("SELECT repeat('x', 100) k"), operation, "second")
    assert (manifest.null_keys, manifest.key_ranges) == (0, ())


def test_a_killed_try_is_not_mixed_with_the_next_one(spark: SparkSession, tmp_path: Path) -> None:
    operation = Case(root=str(tmp_path)).operation(1, schema=schema(("k", "bigint")))
    operation = with_fields(operation, keys=("k",))
    spark.range(5).toDF("k").write.parquet(f"{operation.target.staging}/killed")
    assert read_manifest(operation.target.staging) is None
    manifest = land(spark, spark.range(2).toDF("k"), operation, "second")
    assert sorted(row["k"] for row in read_landed(spark, operation, manifest).collect()) == [0, 1]


@pytest.mark.local_store
def test_landed_rows_that_vanished_are_missed(spark: SparkSession, tmp_path: Path) -> None:
    operation = Case(root=str(tmp_path)).operation(1, schema=schema(("k", "bigint")), keys=("k",))
    manifest = land(spark, spark.range(100).repartition(2).toDF("k"), operation, "first")
    Path(landed_files(operation.target.staging, "first")[0].path).unlink()
    with pytest.raises(LandedRowsLostError, match="not complete: 1 of 2 files"):
        read_landed(spark, operation, manifest)
    again = land(spark, spark.range(100).repartition(2).toDF("k"), operation, "second")
    assert read_landed(spark, operation, again).count() == 100
    with pytest.raises(LandedRowsLostError, match="1 of 2 files"):  # a zombie that still has the first manifest: the two never mix
        read_landed(spark, operation, manifest)
    shutil.rmtree(f"{operation.target.staging}/first")
    with pytest.raises(LandedRowsLostError, match="not complete: 0 of 2 files"):
        read_landed(spark, operation, manifest)


@pytest.mark.local_store
def test_landed_rows_that_vanish_between_the_check_and_the_read_are_missed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = Case(root=str(tmp_path)).operation(1, schema=schema(("k", "bigint")), keys=("k",))
    manifest = land(spark, spark.range(100).repartition(2).toDF("k"), operation, "first")

    def vanishing(*_: object) -> str:
        Path(landed_files(operation.target.staging, "first")[0].path).unlink()
        return ""

    monkeypatch.setattr(landing, "find_damage", vanishing)
    with pytest.raises(LandedRowsLostError, match="1 of 2 files"):
        read_landed(spark, operation, manifest)


@pytest.mark.parametrize("moment", ["writing", "checking", "finishing"])
def test_a_try_that_fails_before_all_of_it_is_written_and_checked_has_not_landed(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    operation = Case(root=str(tmp_path)).operation(1, schema=schema(("k", "bigint")), keys=("k",))
    rows = spark.range(2).toDF("k")
    seen: list[int] = []

    def fail(*_: object) -> Any:
        seen.append(len(landed_files(operation.target.staging, "first")))
        raise RuntimeError("killed here")

    steps = {"checking": {"check": fail}, "finishing": {"finish": fail}}
    failing = rows.withColumn("k", F.when(F.col("k") == 1, F.raise_error(F.lit("killed here"))).otherwise(F.col("k")))
    with pytest.raises(Exception, match="killed here"):
        land(spark, failing if moment == "writing" else rows, operation, "first", **steps.get(moment, {}))
    assert moment == "writing" or min(seen) > 0, "the rows were written before"
    assert find_landed(operation) == Landed()
    assert read_manifest(operation.target.staging) is None
