"""What the log says of a file stays as it was written when rows of the file are replaced: readers leave files out by it."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.maintenance import MaintenancePlan, with_bounds
from cdc_ops.core.operation.job import MaintenanceTask
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.results import Manifest, OperationResult
from cdc_ops.errors import LakeConflictError
from cdc_ops.lake.data_files import commit as commit_module
from cdc_ops.lake.log import bounds as log_bounds
from cdc_ops.lake.log.bounds import EXACT_BOUNDS, has_exact_bounds
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.statistics_text import members
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.session import private_session
from cdc_ops.lake.table import bounds as bounds_module
from cdc_ops.lake.table.bounds import correct_bounds
from cdc_ops.lake.table.create import table_stats, translated_conflicts
from cdc_ops.lake.table.maintenance import maintain
from tests.lake_case import Lake, schema

KEYS = {
    "decimal(38,18)": ("0.123456789012345678", "5", "12345678901234566.890000000000000001"),
    "decimal(18,4)": ("-90071992547409.9231", "5", "90071992547409.9231"),
}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def frame(lake: Lake, kind: str, keys: tuple[str, ...], value: str) -> Any:
    rows = [(key, value) for key in keys]
    return lake.spark.createDataFrame(rows, "k string, v string").selectExpr(f"CAST(k AS {kind}) k", "v").coalesce(1)


def applied(lake: Lake, number: int, rows: Any, count: int, **changes: Any) -> OperationResult:
    operation = lake.case.operation(number, ApplyMode.APPEND if number == 1 else ApplyMode.MERGE, keys=("k",), **changes)
    landed = Manifest.of(operation_id="", attempt="", rows=count, bytes=0, schema_fingerprint="")
    latest = None if number == 1 else rows
    return apply(operation, Batch(rows=rows, plan=plan_merge(operation, None), read_rows=count, latest=latest, manifest=landed))


def entries(lake: Lake, *, with_vector: bool = True) -> list[dict[str, Any]]:
    log = DeltaLog(lake.path)
    return [add for add in log.adds(log.newest() or 0) if bool(add.get("deletionVector")) is with_vector]


@pytest.mark.parametrize("kind", ["decimal(38,18)", pytest.param("decimal(18,4)", marks=pytest.mark.long)])
def test_bounds_of_decimals_keep_all_digits_when_rows_of_their_file_are_replaced(lake: Lake, kind: str) -> None:
    keys, shape = KEYS[kind], schema(("k", kind), ("v", "string"), keys=("k",))
    applied(lake, 1, frame(lake, kind, keys, "old"), 3, schema=shape)
    table = f"delta.`{lake.path}`"
    lake.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '3')")
    [before] = entries(lake, with_vector=False)
    bounds = members(before["stats"])["minValues"], members(before["stats"])["maxValues"]
    assert Decimal(keys[0]) == json.loads(bounds[0], parse_float=Decimal)["k"]
    for number, replaced in ((2, "5"), (3, "6"), (4, keys[0]), (5, "5")):
        before_rows = lake.spark.read.format("delta").load(lake.path).count()
        result = applied(lake, number, frame(lake, kind, (replaced,), str(number)), 1, schema=shape)
        is_new = replaced == "6"
        assert (result.counts.updated, result.counts.inserted) == (int(not is_new), int(is_new))
        assert lake.spark.read.format("delta").load(lake.path).count() == before_rows + is_new
        [entry] = [one for one in entries(lake) if one["path"] == before["path"]]
        told = members(entry["stats"])
        assert (told["minValues"], told["maxValues"]) == bounds
        assert (told["numRecords"], told["tightBounds"]) == ("3", "false")
        for key in keys:
            assert lake.spark.sql(f"SELECT * FROM {table} WHERE k = CAST('{key}' AS {kind})").count() == 1, f"{key} after {number}"
    operation = lake.case.operation(6, ApplyMode.MERGE, keys=("k",), schema=shape)
    merged = frame(lake, kind, keys, "merged")  # by a MERGE of Spark's: no one landed this batch
    result = apply(operation, Batch(rows=merged, plan=plan_merge(operation, None), read_rows=3))
    assert (result.counts.updated, result.counts.inserted) == (3, 0)
    assert DeltaLog(lake.path).names.count("00000000000000000003.checkpoint.parquet") == 1


def test_what_the_log_says_of_values_is_the_same_text_before_and_after_rows_are_replaced(lake: Lake) -> None:
    values = {
        "k": ("bigint", "id + 9007199254740993"),
        "t": ("tinyint", "id"),
        "d": ("decimal(38,10)", "CAST(id AS decimal(38,10)) / 7 + 12345678901234567890"),
        "e": ("decimal(5,2)", "id / 8"),
        "w": ("decimal(38,0)", "CAST(id AS decimal(38,0)) + 123456789012345678901234567890"),
        "b": ("boolean", "id % 2 = 0"),
        "f": ("float", "if(id = 0, float('-0.0'), CAST(id AS float) / 3)"),
        "g": ("double", "if(id = 3, double('NaN'), if(id = 4, double('-Infinity'), id / 3))"),
        "h": ("double", "if(id = 0, double('-0.0'), if(id = 9, double('Infinity'), 1e300 / id))"),
        "day": ("date", "date_add(DATE'1500-01-01', CAST(id * 9000 AS INT))"),
        "i": ("timestamp", "TIMESTAMP'2026-03-29 01:59:59.999999' + make_dt_interval(id)"),
        "j": ("timestamp_ntz", "TIMESTAMP_NTZ'1500-03-01 12:00:00.000001' + make_dt_interval(id)"),
        "s": ("string", "concat('Ü\"\\\\\\n', repeat(char(128512), 40), id)"),
        "z": ("string", "if(id = 0, concat(char(0), '0', char(0)), NULL)"),
        "raw": ("binary", "unhex(hex(id))"),
    }
    shape = schema(*((name, kind) for name, (kind, _) in values.items()), keys=("k",))
    bounded = values.keys() - {"b", "raw"}  # Delta keeps no bounds of these types
    listed = (("delta.dataSkippingStatsColumns", ",".join(name for name in values if name in bounded)),)
    rows = lake.spark.range(0, 10, 1, 1).selectExpr(*(f"CAST({text} AS {kind}) {name}" for name, (kind, text) in values.items()))
    applied(lake, 1, rows, 10, schema=shape, properties=listed)
    [before] = entries(lake, with_vector=False)
    told = members(before["stats"])
    assert json.loads(told["minValues"]).keys() == bounded
    for number in (2, 3):
        applied(lake, number, rows.where(f"t = {number}"), 1, schema=shape, properties=listed)
        [after] = entries(lake)
        assert members(after["stats"]) == {**told, "tightBounds": "false"}


WIDE = "decimal(38,18)"
SHAPE = schema(("k", WIDE), ("v", "string"), keys=("k",))


def as_doubles(text: str, rows: int) -> str:
    """Returns a file's statistics as the version before wrote them: read by Python's json, and then by Delta's, and printed again."""
    told = {"tightBounds": False, **json.loads(text), "numRecords": rows}
    return json.dumps({**told, "tightBounds": False}, separators=(",", ":")).replace("e+", "E")


def written_wrong(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a table of the version before: the rows of one file, of which one was replaced by tasks."""
    monkeypatch.setattr(commit_module, "statistics_beside_deleted_rows", as_doubles)
    applied(lake, 1, frame(lake, WIDE, KEYS[WIDE], "old"), 3, schema=SHAPE)
    applied(lake, 2, frame(lake, WIDE, ("5",), "new"), 1, schema=SHAPE)
    lake.spark.sql(f"ALTER TABLE delta.`{lake.path}` UNSET TBLPROPERTIES ('{EXACT_BOUNDS[0]}')")
    monkeypatch.undo()
    assert found(lake) == [0, 1, 0], "readers miss two rows"


def found(lake: Lake) -> list[int]:
    return [lake.spark.sql(f"SELECT * FROM delta.`{lake.path}` WHERE k = CAST('{key}' AS {WIDE})").count() for key in KEYS[WIDE]]


def is_exact(lake: Lake) -> bool:
    return has_exact_bounds(DeltaLog(lake.path).now().state)


def merged(lake: Lake, number: int) -> OperationResult:
    """Merges each key by a MERGE of Spark's, which leaves files out by their bounds."""
    operation = lake.case.operation(number, ApplyMode.MERGE, keys=("k",), schema=SHAPE)
    return apply(operation, Batch(rows=frame(lake, WIDE, KEYS[WIDE], "merged"), plan=plan_merge(operation, None), read_rows=3))


def upkeep(lake: Lake) -> str:
    stats = table_stats(lake.path, DeltaLog(lake.path).newest() or 0)
    task = MaintenanceTask(table=lake.case.operation(1).table, path=lake.path, plan=with_bounds(MaintenancePlan()), stats=stats)
    after = maintain(lake.spark, task, datetime(2026, 1, 1, tzinfo=UTC))
    assert after.exact_bounds
    assert (after.files, after.size_bytes, after.deleted_rows) == (stats.files, stats.size_bytes, stats.deleted_rows)
    assert after.upkeep.last_upkeep is not None
    return after.upkeep.last_upkeep.did


def test_upkeep_corrects_the_bounds_that_an_earlier_version_wrote_wrong(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    written_wrong(lake, monkeypatch)
    [wrong] = entries(lake)
    assert upkeep(lake) == "bounds of decimals corrected for 1 files"
    assert found(lake) == [1, 1, 1]
    [right] = entries(lake)
    assert right["deletionVector"] == wrong["deletionVector"]
    bounds = members(right["stats"])
    assert bounds["minValues"] == '{"k":0.123456789012345678}'
    assert bounds["maxValues"] == '{"k":12345678901234566.890000000000000001}'
    assert (bounds["numRecords"], bounds["tightBounds"]) == ("3", "false")
    assert is_exact(lake)
    versions = lake.versions()
    assert upkeep(lake) == "bounds of decimals checked"
    assert lake.versions() == versions, "a table is looked at once"
    lake.spark.sql(f"ALTER TABLE delta.`{lake.path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")  # a checkpoint of each version
    result = merged(lake, 3)
    assert (result.counts.updated, result.counts.inserted, result.counts.repairs.corrected_bounds) == (3, 0, 0)
    assert lake.spark.read.format("delta").load(lake.path).count() == 3
    assert found(lake) == [1, 1, 1]


def test_a_merge_corrects_them_first_and_inserts_no_key_a_second_time(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    written_wrong(lake, monkeypatch)
    result = merged(lake, 3)
    assert (result.counts.updated, result.counts.inserted, result.counts.repairs.corrected_bounds) == (3, 0, 1)
    assert "bounds of decimals were wrong for 1 data file" in result.counts.warning
    assert found(lake) == [1, 1, 1]
    assert result.stats is not None
    assert result.stats.exact_bounds


def test_wrong_bounds_that_delta_has_printed_again_are_corrected_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    written_wrong(lake, monkeypatch)
    lake.spark.sql(f"DELETE FROM delta.`{lake.path}` WHERE v = 'old' AND CAST(k AS double) < 1")
    assert found(lake) == [0, 1, 0]
    assert correct_bounds(lake.spark, lake.path) == 1
    assert found(lake) == [0, 1, 1]


def test_where_the_jvm_cannot_be_asked_the_files_are_written_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    written_wrong(lake, monkeypatch)
    monkeypatch.setattr(bounds_module, "can_commit", lambda _: False)
    assert correct_bounds(lake.spark, lake.path) == 1
    assert found(lake) == [1, 1, 1]
    assert not entries(lake)
    assert is_exact(lake)


def test_a_file_that_somebody_removes_meanwhile_does_not_come_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    written_wrong(lake, monkeypatch)
    look = log_bounds.corrected_entries

    def met(*arguments: Any) -> Any:
        with private_session(lake.spark, {}) as session:
            session.sql(f"DELETE FROM delta.`{lake.path}` WHERE v = 'old'")
        return look(*arguments)

    monkeypatch.setattr(bounds_module, "corrected_entries", met)
    with pytest.raises(LakeConflictError), translated_conflicts("a test"):
        correct_bounds(lake.spark, lake.path)
    assert [row["v"] for row in lake.spark.read.format("delta").load(lake.path).collect()] == ["new"]
    assert not is_exact(lake)
