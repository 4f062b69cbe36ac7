"""What the log says of a file stays as it was written when rows of the file are replaced: readers leave files out by it."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merge_plan import plan_merge
from cdc_ops.core.operation.results import Manifest, OperationResult
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.statistics_text import members
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
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


@pytest.mark.parametrize("kind", KEYS)
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
