"""Prints the number of rows of a Delta table and the sum of their checksums: python -m benchmarks._checksum PATH"""

import sys

from benchmarks._rows import LAKE_TEXT
from cdc_ops.lake.spark.session import build_session

if __name__ == "__main__":
    spark = build_session("benchmark checksum")
    row = spark.read.format("delta").load(sys.argv[1]).selectExpr("COUNT(*)", f"SUM(CRC32(CAST({LAKE_TEXT} AS BINARY)))").first()
    assert row is not None
    print(row[0], row[1])
    spark.stop()
