"""Copies a table into a Delta table with ConnectorX and delta-rs, and prints the seconds of the whole and of both halves, and the types.

Use, in an environment of its own with connectorx, deltalake and pyarrow: _connectorx.py TABLE FOLDER RUNS, the URL in PEER_URL.
"""

import os
import shutil
import sys
import time

import connectorx
import deltalake


def main() -> None:
    table, folder, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for _ in range(runs):
        shutil.rmtree(folder, ignore_errors=True)
        started = time.monotonic()
        rows = connectorx.read_sql(
            os.environ["PEER_URL"], f"SELECT * FROM {table}", partition_on="id", partition_num=4, return_type="arrow", protocol="binary"
        )
        read = time.monotonic()
        deltalake.write_deltalake(folder, rows)
        written = time.monotonic()
        print(f"{written - started:.3f} read {read - started:.3f} write {written - read:.3f}", flush=True)
    print(", ".join(f"{field.name} {field.type}" for field in rows.schema))


if __name__ == "__main__":
    main()
