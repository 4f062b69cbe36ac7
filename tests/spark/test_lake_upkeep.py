"""OPTIMIZE and VACUUM, and the comparison of two tables."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.layout.compaction import Partitioning
from cdc_ops.core.layout.data_files import SizeClass
from cdc_ops.core.maintenance import MaintenancePlan, MaintenancePolicy, TableStats, Vacuum, choose_files
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.lake.diff.comparison import compare_tables
from cdc_ops.lake.log.data_files import partitioning, read_files
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.table.create import table_stats
from cdc_ops.lake.table.maintenance import maintain
from tests.commits import commits
from tests.lake_case import PIPELINE, SCHEMA_DDL, TABLE, Case
from tests.operations import changed
from tests.stores import at

NOW = datetime(2026, 2, 1, tzinfo=UTC)
OPTIMIZE = MaintenancePlan(optimize=True)


@pytest.mark.parametrize(("vacuum", "hours"), [pytest.param(False, 0, marks=pytest.mark.long), (True, 0), (True, 168)])
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
    stats = changed(stats, commits_since_vacuum=2)
    at(case.path).joinpath("part-left-by-a-killed-writer.snappy.parquet").write_bytes(b"x")
    plan = MaintenancePlan(optimize=True, vacuum=Vacuum.FULL if vacuum else Vacuum.NONE)
    plan = chosen(plan, case.path, MaintenancePolicy(min_small_files=1))
    after = maintain(spark, MaintenanceTask(table=TABLE, path=case.path, plan=plan, stats=stats), NOW)
    assert (after.files, after.upkeep.optimized_files, after.upkeep.optimized_at) == (1, 1, NOW)
    assert after.upkeep.last_upkeep is not None
    assert (after.upkeep.last_upkeep.files_before, after.upkeep.last_upkeep.bytes_before) == (stats.files, stats.size_bytes)
    assert (after.upkeep.last_upkeep.rewritten_bytes, after.upkeep.last_upkeep.written_bytes) == (stats.size_bytes, after.size_bytes)
    assert after.upkeep.vacuumed_fully_at == (NOW if vacuum else None)
    assert (after.upkeep.vacuumed_at, after.upkeep.commits_since_vacuum) == ((NOW, 0) if vacuum else (None, 2))
    told = commits(case.path)
    assert after.delta_version == told[-1]["version"]
    assert {commit["userMetadata"] for commit in told if commit["version"] > stats.delta_version} == {None}
    head = read_head(case.path, PIPELINE, TABLE)
    assert head is not None
    assert (head.txn_version, head.record_version, head.foreign_changes, head.columns) == (2, 2, (), SCHEMA_DDL)
    rows = sorted((row["id"], row["name"]) for row in spark.read.format("delta").load(case.path).collect())
    assert rows == [(number, "v2" if number < 5 else "v1") for number in range(10)]
    left = len(list(at(case.path).glob("part-*")))
    assert left == 1 if vacuum and not hours else left > 2, "VACUUM removes what 'retention' does not keep, and nothing else"


def test_numbers_of_a_table_come_from_the_checksum_of_its_log_or_else_from_its_list_of_files(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/t"
    spark.range(10).coalesce(1).write.format("delta").save(path)
    spark.range(10).coalesce(1).write.format("delta").mode("append").save(path)
    [checksum] = Path(path, "_delta_log").glob("*1.crc")
    from_log = table_stats(path, 1)
    assert (from_log.delta_version, from_log.files) == (1, 2)
    assert from_log.size_bytes == sum(file.stat().st_size for file in Path(path).glob("part-*"))
    checksum.unlink()
    rows = replace(from_log, rows=None, sizes=(SizeClass(files=2, bytes=from_log.size_bytes),))
    assert from_log.rows == 20
    assert replace(table_stats(path, 1), sizes=rows.sizes) == rows


def chosen(plan: MaintenancePlan, path: str, policy: MaintenancePolicy) -> MaintenancePlan:
    """The plan with the files that the log shows."""
    log = DeltaLog(path)
    version = log.newest() or 0
    return choose_files(replace(plan, reasons=("x", *plan.reasons)), policy, read_files(log, version), partitioning(log, version))


def grown(spark: SparkSession, path: str, *batches: tuple[int, int], kept: str = "", **layout: Any) -> None:
    """Makes a table, and appends so many rows from such a number on, each batch as a file of its own."""
    clause = "".join(f" {name.replace('_', ' ')} ({', '.join(columns)})" for name, columns in layout.items())
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, day DATE, text STRING) USING delta{clause} TBLPROPERTIES"
        f" ('delta.enableDeletionVectors' = 'true', 'delta.dataSkippingStatsColumns' = 'id'{kept})"
    )
    for start, rows in batches:
        frame = spark.range(start, start + rows, 1, 1).selectExpr("id", f"date'2026-01-01' + {start} % 2 day", "uuid() text")
        frame.write.format("delta").mode("append").save(path)


def names(path: str) -> set[str]:
    log = DeltaLog(path)
    return {add["path"] for add in log.adds(log.newest() or 0)}


def hashed(spark: SparkSession, path: str) -> tuple[Any, ...]:
    """The number of rows of a table, and what two tables of different rows do not have both: sums of the hashes of all rows."""
    sums = "count(*)", *(f"sum(CAST(xxhash64(id, day, text{salt}) AS decimal(38, 0)))" for salt in ("", ", 1"))
    return tuple(spark.read.format("delta").load(path).selectExpr(*sums).collect()[0])


def kept_up(
    spark: SparkSession, path: str, policy: MaintenancePolicy, plan: MaintenancePlan = OPTIMIZE
) -> tuple[MaintenancePlan, TableStats]:
    """Does what is due, and checks that it changed no row, and wrote again what the plan said."""
    plan, before = chosen(plan, path, policy), names(path)
    rows, stats = hashed(spark, path), table_stats(path, DeltaLog(path).newest() or 0)
    after = maintain(spark, MaintenanceTask(table=TABLE, path=path, plan=plan, stats=stats), NOW)
    assert hashed(spark, path) == rows
    assert after.upkeep.last_upkeep is not None
    assert after.upkeep.last_upkeep.rewritten_bytes == plan.rewritten_bytes
    assert len(before - names(path)) == sum(rewrite.files for rewrite in plan.rewrites)
    return plan, after


def test_optimize_writes_again_the_files_that_the_plan_names_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    path, policy = f"{tmp_path}/t", MaintenancePolicy(min_small_files=4, target_file_bytes=16 << 20)
    grown(spark, path, (0, 160_000), (400_000, 168_000), *((1_000_001 + number, 1) for number in range(5)))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 156000 OR id % 20 = 0").collect()
    plan, after = kept_up(spark, path, policy)
    [rewrite] = plan.rewrites
    assert (rewrite.files, rewrite.small_files, after.files) == (6, 5, 2), "the small ones, and the one of deleted rows beside them"
    assert (after.deleted_rows, after.rows) == (8_400, 168_000 + 3_800 + 5)
    assert not chosen(OPTIMIZE, path, policy).optimize, "nothing more is worth it"


def test_a_partition_is_written_again_alone(spark: SparkSession, tmp_path: Path) -> None:
    path, policy = f"{tmp_path}/t", MaintenancePolicy(min_small_files=4)
    grown(spark, path, *((number, 1) for number in (1, 3, 5, 7, 9, 0, 2, 4)), PARTITIONED_BY=["day"])
    plan, after = kept_up(spark, path, policy)
    assert [rewrite.where for rewrite in plan.rewrites] == ["`day` = CAST('2026-01-02' AS date)"]
    assert after.files == 4


def test_a_clustered_table_is_clustered_in_steps(spark: SparkSession, tmp_path: Path) -> None:
    path, policy = f"{tmp_path}/t", MaintenancePolicy(min_small_files=2)
    grown(spark, path, (0, 20_000), (50_000, 20_000), CLUSTER_BY=["id"])
    first, after = kept_up(spark, path, policy)
    assert (first.rewrites[0].files, after.files) == (2, 1)
    spark.range(100_000, 100_002, 1, 2).selectExpr("id", "date'2026-01-01' day", "'x' text").write.format("delta").mode("append").save(path)
    second, after = kept_up(spark, path, policy)
    assert (second.rewrites[0].files, after.files) == (2, 2), "the large part stays as it is"
    assert partitioning(DeltaLog(path), after.delta_version) == Partitioning(cluster_by=("id",))


def test_deleted_rows_are_purged_from_all_files(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/t"
    grown(spark, path, (0, 1_000), (5_000, 1_000))
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 7").collect()
    stats = table_stats(path, DeltaLog(path).newest() or 0)
    assert (stats.deleted_rows, stats.rows) == (1, 2_000)
    after = maintain(spark, MaintenanceTask(table=TABLE, path=path, plan=MaintenancePlan(purge=True), stats=stats), NOW)
    assert (after.deleted_rows, after.rows, after.files, after.upkeep.purged_at) == (0, 1_999, 2, NOW)


@pytest.mark.parametrize("pruned", [False, True])
def test_vacuum_goes_by_the_log_or_by_the_folder_where_the_log_was_cut(spark: SparkSession, tmp_path: Path, pruned: bool) -> None:
    path = f"{tmp_path}/t"
    kept = ", 'delta.deletedFileRetentionDuration' = 'interval 0 hours', 'delta.checkpointInterval' = '2'"
    grown(spark, path, (0, 10), (10, 10), (20, 10), kept=kept)
    spark.sql(f"OPTIMIZE delta.`{path}`").collect()
    orphan = Path(path, "part-left-by-a-killed-writer.snappy.parquet")
    orphan.write_bytes(b"x")
    os.utime(orphan, (0, 0))
    if pruned:
        for name in ("json", "crc"):
            Path(path, "_delta_log", f"{0:020d}.{name}").unlink()
    stats = table_stats(path, DeltaLog(path).newest() or 0)
    plan = MaintenancePlan(vacuum=Vacuum.LITE)
    after = maintain(spark, MaintenanceTask(table=TABLE, path=path, plan=plan, stats=stats), NOW)
    assert after.upkeep.last_upkeep is not None
    assert after.upkeep.last_upkeep.did == ("VACUUM FULL" if pruned else "VACUUM LITE")
    assert (after.upkeep.vacuumed_at, after.upkeep.vacuumed_fully_at) == (NOW, NOW if pruned else None)
    assert orphan.exists() is not pruned
    assert len(list(Path(path).glob("part-*"))) == (1 if pruned else 2)


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_files_are_read_from_checksum_and_from_checkpoint_alike(spark: SparkSession, tmp_path: Path, policy: str) -> None:
    path = f"{tmp_path}/t"
    kept = f", 'delta.checkpointPolicy' = '{policy}', 'delta.checkpointInterval' = '2', 'delta.columnMapping.mode' = 'name'"
    grown(spark, path, (0, 10), (10, 10), kept=kept, PARTITIONED_BY=["day"])
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3").collect()
    log = DeltaLog(path)
    version = log.newest() or 0
    listed = sorted(read_files(log, version, ("id",)), key=lambda file: file.bounds)
    assert [(file.rows, file.deleted, file.partition, file.bounds) for file in listed] == [
        (10, 1, ("2026-01-01",), ((0, 9),)),
        (10, 0, ("2026-01-01",), ((10, 19),)),
    ]
    for checksum in Path(path, "_delta_log").glob("*.crc"):
        checksum.unlink()
    assert list(Path(path, "_delta_log").glob("*.checkpoint*"))
    assert sorted(read_files(DeltaLog(path), version, ("id",)), key=lambda file: file.bounds) == listed


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
