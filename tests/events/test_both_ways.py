"""Plain Python reads change records as Spark's expressions do: golden folders, and random, hostile and damaged records."""

from pathlib import Path

import pytest
from cdc_ops.formats.files.containers import dialect, open_files
from cdc_ops.formats.files.csv import csv_records
from pyspark.sql import SparkSession

from cdc_ops.archives.local import LocalArchive
from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.core.events.format_spec import Container
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.testing.format_suite import GoldenFolder
from tests.events.both_ways import by_python, by_spark, differences, is_comparable
from tests.plain_formats import CASES

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "formats"


@pytest.mark.parametrize("folder", sorted(path.name for path in GOLDEN.iterdir()))
def test_golden_records_come_out_alike(spark: SparkSession, folder: str, tmp_path: Path) -> None:
    spec = format_spec(folder)
    golden = GoldenFolder(GOLDEN / folder, spec.files.container)
    if spec.files.container is Container.AVRO:
        records = open_files(spark, golden.write_avro(tmp_path), spec, golden.options, LocalArchive(str(tmp_path))).records().collect()
        rows = [(None if row[0] is None else row[0].encode(), *row[1:]) for row in records]
    else:
        rows = [(None if value is None else value.encode(), *place) for value, *place in golden.records()]
    if spec.files.container is Container.CSV:
        types = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS)
        lines = spark.createDataFrame([*golden.records()], types)
        rows = [(row[0].encode(), *row[1:]) for row in csv_records(lines, dialect(spec, golden.options)).collect()]
    rows += [(b'{"half": "a rec', "half written", 0, None, None), (b"{}", "empty", 0, None, None), (b'"\xff"', "garbled", 0, None, None)]
    exact = by_spark(spark, golden.options, golden.schema, golden.keys, rows)
    assert len(exact) >= len(golden.cases)
    assert differences(exact, by_python(golden.options, golden.schema, golden.keys, rows), rows) == []


@pytest.mark.parametrize("name", CASES)
def test_random_hostile_and_damaged_records_come_out_alike(spark: SparkSession, name: str) -> None:
    case = CASES[name]
    lines = [line for line in case.records(20260101).lines(3000) if is_comparable(line, by_variants=case.format.name == "maxwell")]
    assert len(lines) > 2500
    rows = [(line, "f", number, 0, 1000 + number) for number, line in enumerate(lines)]
    keys = case.table.primary_key
    exact = by_spark(spark, case.format, case.table, keys, rows)
    found = differences(exact, by_python(case.format, case.table, keys, rows), rows)
    assert found == [], "\n".join([f"{len(found)} differences", *found[:20]])
