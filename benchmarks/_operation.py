"""Reads a whole table into Delta several times in one Spark session and prints the seconds of each, by the wall and of the processors.

Use: python -m benchmarks._operation TABLE FOLDER RUNS [jdbc|native] [SCHEMA]

One operation is what the merge step does for a snapshot: read, write, commit, look at the table. It is neither planned nor
entered in a ledger here, and Spark runs already.

The last line says how much memory Spark's Python workers have used at most: the largest of them, and all of them, in MiB.
"""

import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks._harness import CONNECTION, DATABASE, cpu_of_family, family
from cdc_ops.core.apply.apply_spec import ApplyMode, ApplySpec, Landing
from cdc_ops.core.operation.operation import Operation, OperationKind, Planning, SourceColumns, Target
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.reads import ChunkRead
from cdc_ops.core.pipeline.pipeline import Reader, SourceConfig, SourceKind, SparkConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.lake.spark.session import build_session
from cdc_ops.sources.base import Source, open_source
from cdc_ops.steps.merge import merge


def snapshot(source: Source, table: TableName, path: Path, name: str) -> Operation:
    """Returns the snapshot of a table into a new folder, cut as `cdc-ops run` cuts it."""
    schema = source.schema(table)
    cursor, _ = source.cursor(schema, ("updated_at", "id"))
    return Operation(
        pipeline="bench_operation",
        table=table,
        op_seq=1,
        operation_id=name,
        plan=Planning(run_id=name, planned_at=datetime.now(UTC)),
        kind=OperationKind.SNAPSHOT_CHUNK,
        generation=1,
        target=Target(path=str(path), staging=str(path.with_suffix(".staging"))),
        source=SourceColumns(schema=schema, cursor=cursor),
        before=TableProgress(),
        after=TableProgress(),
        apply=ApplySpec(keys=schema.primary_key, mode=ApplyMode.APPEND, landing=Landing.DIRECT),
        read=ChunkRead(slices=source.slices(schema, schema.primary_key, "", TableSettings().load.parallelism)),
    )


def worker_peaks() -> list[float]:
    """Returns the largest resident memory in MiB that each of Spark's Python workers has had; they live on between operations."""
    found = []
    for pid in family(os.getpid()):
        folder = Path(f"/proc/{pid}")
        if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
            status = dict(line.split(":", 1) for line in (folder / "status").read_text("utf-8").splitlines())
            found.append(int(status["VmHWM"].split()[0]) / 1024)
    return found


def main() -> None:
    table, folder, runs = (
        TableName(schema=sys.argv[5] if len(sys.argv) > 5 else DATABASE, name=sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[3]),
    )
    url = os.environ[f"CDC_OPS_CONN_{CONNECTION.upper()}"]
    reader = Reader(sys.argv[4] if len(sys.argv) > 4 else Reader.JDBC)
    kind = SourceKind(url.partition(":")[0].replace("postgresql", "postgres"))
    source = open_source(SourceConfig(kind=kind, connection=CONNECTION, reader=reader), url)
    spark = build_session("benchmark operation", extra_conf={"spark.driver.memory": SparkConfig().driver_memory})
    for number in range(runs):
        path = folder / "table"
        shutil.rmtree(path, ignore_errors=True)
        operation = snapshot(source, table, path, f"run-{number}")
        started, used = time.monotonic(), cpu_of_family(os.getpid())
        merge(spark.newSession(), source, operation)
        print(f"{time.monotonic() - started:.3f} {cpu_of_family(os.getpid()) - used:.2f}", flush=True)
    peaks = worker_peaks()
    print(f"{max(peaks, default=0):.0f} {sum(peaks):.0f}", flush=True)
    source.close()
    spark.stop()


if __name__ == "__main__":
    main()
