"""What `cdc-ops as-of` and `changes` write: whole values, and no traceback for a place that Spark does not know."""

import json

import pytest
from pyspark.sql import SparkSession

from cdc_ops.cli.chosen.tables import write_rows
from cdc_ops.errors import EnvironmentSetupError

TIMES = "SELECT timestamp'2026-01-02 03:04:05.000007Z' there, timestamp_ntz'2026-01-02 03:04:05.120000' local, NULL note"


def test_lines_of_json_have_times_to_the_microsecond_and_nulls(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(spark.sql(TIMES), "", kind="json")
    assert json.loads(capsys.readouterr().out) == {
        "there": "2026-01-02T03:04:05.000007Z",
        "local": "2026-01-02T03:04:05.120000",
        "note": None,
    }


@pytest.mark.parametrize("kind", ["json", "parquet", "delta"])
def test_a_url_of_s3_as_others_write_it_is_refused_with_the_one_that_spark_knows(spark: SparkSession, kind: str) -> None:
    with pytest.raises(EnvironmentSetupError, match="Writing to s3://lake/audit failed: Spark has no file system for s3://") as caught:
        write_rows(spark.range(1), "s3://lake/audit", kind=kind)
    assert caught.value.next == "Write s3a:// in its place."
