"""Runs the documented MERGE of changed rows on a Spark server that runs; prints seconds and the client's processor seconds of each.

Use: python -m benchmarks._bare_merge ADDRESS TABLE RUNS CHANGED

Each statement changes other rows of the table. What is timed is the statement alone: the batch was written before, as Parquet.
"""

import random
import shutil
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main() -> None:
    address, table, runs, changed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    spark = SparkSession.builder.remote(address).getOrCreate()
    rows = spark.read.format("delta").load(str(table))
    largest = rows.agg(F.max("id")).collect()[0][0]
    batch = table.with_suffix(".batch")
    for seed in range(runs):
        shutil.rmtree(batch, ignore_errors=True)
        keys = random.Random(1_000 + seed).sample(range(1, largest + 1), changed)
        chosen = rows.join(F.broadcast(spark.createDataFrame([(key,) for key in keys], "id bigint")), "id")
        chosen.withColumn("quantity", F.expr("CAST(quantity + 1 AS SMALLINT)")).coalesce(1).write.parquet(str(batch))
        spark.read.schema(rows.schema).parquet(str(batch)).createOrReplaceTempView("updates")
        print("start", flush=True)
        sys.stdin.readline()
        started, used = time.monotonic(), time.process_time()
        spark.sql(
            f"MERGE INTO delta.`{table}` t USING updates s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()
        print(f"{time.monotonic() - started:.3f} {time.process_time() - used:.3f}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
