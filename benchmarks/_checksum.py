"""Prints the number of rows of a Delta table and the sum of their checksums: python -m benchmarks._checksum PATH [KIND]"""

import sys

from benchmarks._rows import lake_checksum
from cdc_ops.lake.spark.session import build_session

if __name__ == "__main__":
    spark = build_session("benchmark checksum")
    kind = sys.argv[2] if len(sys.argv) > 2 else "mariadb"
    row = spark.read.format("delta").load(sys.argv[1]).selectExpr("COUNT(*)", lake_checksum(kind)).first()
    assert row is not None
    print(row[0], row[1])
    spark.stop()
