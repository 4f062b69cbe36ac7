"""What is set aside of a landed feed: every record that could not be read, byte by byte, and no other."""

from pathlib import Path

from pyspark.sql import SparkSession

from cdc_ops.lake.quarantine.read import read_quarantine
from cdc_ops.lake.quarantine.write import quarantine
from tests.lake_case import Case

RAW = '{"op": "c", "after": {"name": "größe\t'
FEED = "kind string, raw string, file string, line bigint, position struct<tx: bigint>, reason string"


def test_records_that_cannot_be_read_are_set_aside_with_their_bytes_and_place(spark: SparkSession, tmp_path: Path) -> None:
    feed, place = str(tmp_path / "feed"), str(tmp_path / "quarantine")
    rows = [
        ("bad", RAW, "a.json", 1, (5,), "no JSON"),
        ("change", '{"op": "c"}', "a.json", 2, (6,), None),
        ("control", None, "a.json", 3, None, None),
    ]
    spark.createDataFrame(rows, FEED).write.parquet(feed)
    operation = Case(root=str(tmp_path)).operation(4)
    for _ in range(2):  # a try that died before its commit, and the one that followed
        quarantine(spark, operation, place, feed)
    [record] = read_quarantine(place)
    assert record.raw == RAW.encode()
    assert (record.file, record.line, record.position, record.reason, record.op_seq) == ("a.json", 1, '{"tx":5}', "no JSON", 4)
    assert spark.read.format("delta").load(place).count() == 1
