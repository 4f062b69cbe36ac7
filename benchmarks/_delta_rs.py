"""Merges batches into Delta tables with delta-rs, in one process that lives on, and prints seconds and processor seconds of each.

Use, in an environment of its own with deltalake and pyarrow: _delta_rs.py, with lines of TABLE BATCH KEY on standard input.
"""

import sys
import time

import deltalake
import pyarrow.dataset


def main() -> None:
    for line in sys.stdin:
        table, batch, key = line.split()
        started, used = time.monotonic(), time.process_time()
        rows = pyarrow.dataset.dataset(batch, format="parquet").to_table()
        merge = deltalake.DeltaTable(table).merge(rows, predicate=f"t.{key} = s.{key}", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
        print(f"{time.monotonic() - started:.3f} {time.process_time() - used:.3f}", flush=True)


if __name__ == "__main__":
    main()
