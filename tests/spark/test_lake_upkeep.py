"""OPTIMIZE and VACUUM, and the comparison of two tables."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.maintenance import MaintenancePlan
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.core.operation.merge_plan import plan_merge
from cdc_ops.lake.diff.comparison import compare_tables
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.table.create import table_stats
from cdc_ops.lake.table.maintenance import maintain
from tests.lake_case import PIPELINE, SCHEMA_DDL, TABLE, Case, history
from tests.stores import at

NOW = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(("vacuum", "hours"), [(False, 0), (True, 0), (True, 168)])
def test_upkeep_keeps_rows_and_record_and_leaves_the_numbers_of_the_table(
    spark: SparkSession, tmp_path: Path, vacuum: bool, hours: int
) -> None:
    case, stats = Case(root=str(tmp_path)), None
    kept = (("delta.deletedFileRetentionDuration", f"interval {hours} hours"), ("delta.logRetentionDuration", "interval 168 hours"))
    for number in (1, 2):
        mode = ApplyMode.APPEND if number == 1 else ApplyMode.MERGE
        operation = case.operation(number, mode, properties=kept)
        batch = spark.range(10 if number == 1 else 5).selectExpr(  # the rows that stay keep the first file
            "id", f"'v{number}' name", "CAST(1 AS decimal(10, 2)) amount", "timestamp'2026-01-01' updated_at"
        )
        stats = apply(operation, Batch(rows=batch, plan=plan_merge(operation, None), read_rows=None)).stats
    assert stats is not None
    stats = replace(stats, commits_since_vacuum=2)
    at(case.path).joinpath("part-left-by-a-killed-writer.snappy.parquet").write_bytes(b"x")
    plan = MaintenancePlan(optimize=True, vacuum=vacuum)
    after = maintain(spark, MaintenanceTask(table=TABLE, path=case.path, plan=plan, stats=stats), NOW)
    assert (after.files, after.optimized_files, after.optimized_at) == (1, 1, NOW)
    assert (after.vacuumed_at, after.commits_since_vacuum) == ((NOW, 0) if vacuum else (None, 2))
    assert after.delta_version == history(spark, case.path, 1)[0]["version"]
    assert {row["userMetadata"] for row in history(spark, case.path) if row["version"] > stats.delta_version} == {None}
    head = read_head(case.path, PIPELINE, TABLE)
    assert head is not None
    assert (head.txn_version, head.record_version, head.foreign_changes, head.columns) == (2, 2, (), SCHEMA_DDL)
    rows = sorted((row["id"], row["name"]) for row in spark.read.format("delta").load(case.path).collect())
    assert rows == [(number, "v2" if number < 5 else "v1") for number in range(10)]
    left = len(list(at(case.path).glob("part-*")))
    assert left == 1 if vacuum and not hours else left > 2, "VACUUM removes what 'retention' does not keep, and nothing else"


def test_numbers_of_a_table_come_from_the_checksum_of_its_log_or_else_from_delta(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/t"
    spark.range(10).coalesce(1).write.format("delta").save(path)
    spark.range(10).coalesce(1).write.format("delta").mode("append").save(path)
    [checksum] = Path(path, "_delta_log").glob("*1.crc")
    from_log = table_stats(spark, path, 1)
    assert (from_log.delta_version, from_log.files) == (1, 2)
    assert from_log.size_bytes == sum(file.stat().st_size for file in Path(path).glob("part-*"))
    checksum.unlink()
    assert table_stats(spark, path, 1) == from_log


COLUMNS = "id bigint, name string, amount decimal(10,2), f double, bin binary"


def frame(spark: SparkSession, *rows: str) -> DataFrame:
    if not rows:
        return spark.createDataFrame([], COLUMNS)
    casts = ", ".join(f"CAST(col{index} AS {column.split()[1]}) {column.split()[0]}" for index, column in enumerate(COLUMNS.split(", "), 1))
    return spark.sql(f"SELECT {casts} FROM (VALUES {', '.join(rows)})")


SAME = ("(1, 'a', 1.50, 0.0D, X'00')", "(2, NULL, NULL, double('NaN'), NULL)")


def test_equal_tables_are_equal_whatever_the_sign_of_zero(spark: SparkSession) -> None:
    found = compare_tables(frame(spark, *SAME), frame(spark, "(1, 'a', 1.50, -0.0D, X'00')", SAME[1]), ("id",))
    assert found.equal
    assert (found.rows_source, found.rows_lake, found.samples) == (2, 2, ())


def test_empty_tables_are_equal(spark: SparkSession) -> None:
    found = compare_tables(frame(spark), frame(spark), ("id",))
    assert (found.equal, found.rows_source) == (True, 0)


def test_every_kind_of_difference_is_counted_and_named(spark: SparkSession) -> None:
    source = frame(spark, *SAME, "(3, 'x', NULL, NULL, NULL)", "(4, 'b', 1, 1.0D, X'01')", "(5, 'c', 1, 1.0D, X'01')")
    lake = frame(
        spark, *SAME, "(3, NULL, NULL, NULL, NULL)", "(4, 'b', 1, 1.0D, X'02')",
        "(6, 'd', 1, 1.0D, X'01')", "(7, 'e', 1, 1.0D, X'01')", "(7, 'e', 1, 1.0D, X'01')",
    )  # fmt: skip
    found = compare_tables(source, lake, ("id",))
    assert not found.equal
    assert (found.rows_source, found.rows_lake) == (5, 7)
    assert (found.only_in_source, found.only_in_lake, found.different, found.duplicates) == (1, 2, 2, 1)
    assert set(found.samples) <= {(kind, (key,)) for kind, key in [
        ("only in source", "5"), ("only in lake", "6"), ("only in lake", "7"), ("different", "3"), ("different", "4")]}  # fmt: skip
    assert {kind for kind, _ in found.samples} == {"only in source", "only in lake", "different"}


def test_a_value_that_moved_to_another_column_is_a_difference(spark: SparkSession) -> None:
    source = spark.sql("SELECT 1 id, 'x' a, CAST(NULL AS string) b")
    lake = spark.sql("SELECT 1 id, CAST(NULL AS string) a, 'x' b")
    assert compare_tables(source, lake, ("id",)).different == 1


def test_duplicates_on_both_sides_are_no_equality(spark: SparkSession) -> None:
    twice = frame(spark, SAME[0], SAME[0])
    found = compare_tables(twice, twice, ("id",))
    assert (found.equal, found.duplicates) == (False, 1)


def test_keys_may_be_composite_binary_and_null(spark: SparkSession) -> None:
    source = spark.sql("SELECT * FROM VALUES (X'00FF', 1), (X'00FF', NULL), (X'01', 1) AS t(k, n)")
    assert compare_tables(source, source, ("k", "n")).equal
    found = compare_tables(source, source.where("n IS NOT NULL"), ("k", "n"))
    assert (found.only_in_source, found.samples) == (1, (("only in source", ("00FF", "NULL")),))


def test_types_of_different_width_compare_by_value(spark: SparkSession) -> None:
    source = spark.sql("SELECT 1 id, CAST(1.5 AS decimal(4,1)) a, CAST(7 AS int) b, CAST(0.5 AS float) c")
    lake = spark.sql("SELECT 1L id, CAST(1.50 AS decimal(20,2)) a, CAST(7 AS bigint) b, CAST(0.5 AS double) c")
    assert compare_tables(source, lake, ("id",)).equal
    assert compare_tables(source, lake.withColumn("a", lake.a + 1), ("id",)).different == 1
