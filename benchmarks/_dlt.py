"""Copies a table into a Delta table with dlt's `sql_database` source and filesystem destination, and prints the seconds of each run.

Use, in an environment of its own with dlt[deltalake,sql-database] and pymysql: _dlt.py TABLE FOLDER RUNS BACKEND, the URL in PEER_URL.
"""

import os
import shutil
import sys
import time
from pathlib import Path

import dlt
from dlt.sources.sql_database import sql_table


def main() -> None:
    table, folder, runs, backend = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    for _ in range(runs):
        shutil.rmtree(folder, ignore_errors=True)
        destination = dlt.destinations.filesystem(bucket_url=(folder / "lake").as_uri())
        pipeline = dlt.pipeline("peer", destination=destination, dataset_name="lake", pipelines_dir=str(folder / "pipelines"))
        started = time.monotonic()
        # 100,000 rows a chunk is dlt's own advice for large tables; its default of 50,000 is slower.
        rows = sql_table(os.environ["PEER_URL"], table=table, backend=backend, chunk_size=100_000, defer_table_reflect=True)
        pipeline.run(rows, table_format="delta", write_disposition="replace", loader_file_format="parquet")
        print(f"{time.monotonic() - started:.3f}", flush=True)
    columns = pipeline.default_schema.tables[table]["columns"].values()
    print(", ".join(f"{column['name']} {column['data_type']}" for column in columns))


if __name__ == "__main__":
    main()
