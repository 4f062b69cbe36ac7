"""Whole runs of pipelines over archived binlogs, from the pipeline file to the ledger.

    python -m benchmarks.binlog_runs [--rows 200000]

The files are those of `benchmarks.binlog`: one table, and twenty in turn, with as many rows of 12 columns each. One Spark session of two
cores runs all; a first small run, which is not measured, warms it. The rows of the lake are counted after each run.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from benchmarks._harness import BENCH, DATABASE, report
from benchmarks._pipeline_run import run_described
from benchmarks.binlog import TABLES, Rate, files, measured
from benchmarks.events import session
from cdc_ops.decode import warm_up
from cdc_ops.events.binlog.decoder import BinlogFile
from cdc_ops.events.binlog.files import open_binlog

DECLARED: Final = {
    **{"id": "bigint unsigned primary key", "customer_id": "int", "status": "varchar(20)", "total": "decimal(12,2)", "currency": "char(3)"},
    **{"quantity": "smallint", "weight": "double", "note": "varchar(200)", "express": "tinyint", "ordered_on": "date"},
    **{"created_at": "datetime", "updated_at": "datetime(6)"},
}


def one_run(spark: SparkSession, binlog: Path, tables: list[str]) -> int:
    """Feeds tables from one file; returns how many rows they have."""
    place = BENCH / "binlog_runs"
    shutil.rmtree(place, ignore_errors=True)
    (place / "archive").mkdir(parents=True)
    base, _, following = BinlogFile.open(binlog.name, open_binlog(str(binlog))).scan.next_name.rpartition(".")
    shutil.copyfile(binlog, place / "archive" / f"{base}.{int(following) - 1:06}")  # its own name, which it is held against
    described = {
        "pipeline": "bench_binlogs",
        "source": {"kind": "none", "dialect": "mysql", "tables": {f"{DATABASE}.{name}": DECLARED for name in tables}},
        "target": {"root": f"{place}/lake", "staging": f"{place}/staging"},
        "archive": {
            **{"url": f"{place}/archive", "layout": "binlog", "format": "mysql-binlog", "min_file_age": "0s"},
        },
        "defaults": {"method": "log"},
        "tables": {f"{DATABASE}.{name}": None for name in tables},
    }
    run_described(spark, place, described)
    return sum(spark.read.format("delta").load(f"{place}/lake/{DATABASE}/{name}").count() for name in tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--only", choices=("one", "twenty"), help="one table, or twenty")
    chosen = parser.parse_args()
    made, small = files(chosen.rows), files(2 * TABLES * 2_500)
    warm_up()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session("3g")
    spark.sparkContext.setLogLevel("ERROR")
    rates: dict[str, Rate] = {}
    wanted = {"one": ["orders"], "twenty": [f"orders_{number}" for number in range(TABLES)]}
    wanted = {name: tables for name, tables in wanted.items() if name == (chosen.only or name)}
    for name, tables in wanted.items():
        one_run(spark, small[name], tables)
        rate = measured(f"{name} table{'s' * (name != 'one')}", lambda name=name, tables=tables: one_run(spark, made[name], tables), 2)  # type: ignore[misc]
        assert rate.rows == chosen.rows, rate
        rates[name] = rate
    spark.stop()
    lines = [f"{name}: {chosen.rows / rate.wall:,.0f} rows/s, {rate.processor:.1f} processor seconds" for name, rate in rates.items()]
    report(f"Whole runs over binlogs with {chosen.rows:,} rows of 12 columns", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
