"""A binlog through Spark's data source, and what the hand-over of its batches takes alone."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks._binlog_rows import COLUMNS, scanned, target_of
from benchmarks._harness import DATABASE
from benchmarks._rates import Rate, measured
from cdc_ops.events.fast_binlog.changes import TableChanges
from cdc_ops.mysql_binlog import BinlogDataSource


class HandOver(DataSource):
    """The same rows without a file: each task makes its batch once, and hands it over again and again. It is what Spark alone takes."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return HandOverReader({name: int(value) for name, value in self.options.items() if name in ("rows", "tasks")}, self.options["file"])


class HandOverReader(DataSourceReader):
    def __init__(self, sizes: dict[str, int], file: str) -> None:
        self._sizes = sizes
        self._file = file

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._sizes["tasks"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch, left = first_batch(Path(self._file)), self._sizes["rows"] // self._sizes["tasks"]
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


def first_batch(path: Path) -> pa.RecordBatch:
    file, data = scanned(path)
    return next(TableChanges(file.name, data, file.scan, target_of("orders")).read(4, file.scan.complete_to)).rows


def through_spark(path: Path, cores: int) -> tuple[Rate, Rate]:
    """Reads the table through the data source, once before it is measured, and throws the rows away; then its batches without reading.

    The process, its JVM and its workers get so many processors: `local[1]` alone leaves the workers of Python the second one.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", False)
        .config("spark.driver.memory", "1g")
        .config("spark.ui.showConsoleProgress", False)
    )
    with builder.getOrCreate() as session:
        session.sparkContext.setLogLevel("ERROR")
        session.dataSource.register(BinlogDataSource)
        reader = session.read.format("mysql_binlog").schema(", ".join(f"{name} {ddl}" for name, ddl in COLUMNS.items()))
        rows = reader.options(table=f"{DATABASE}.orders", splitBytes=str(8 << 20)).load(str(path))
        count, tasks = rows.count(), rows.rdd.getNumPartitions()
        session.dataSource.register(HandOver)
        ready = session.read.format("HandOver").schema(rows.schema).options(rows=count, tasks=tasks, file=str(path)).load()
        assert count - tasks < ready.count() <= count

        def read(frame: DataFrame) -> int:
            frame.write.format("noop").mode("overwrite").save()
            return count

        name = f"{cores} core{'s' * (cores > 1)}"
        read(rows)
        return measured(f"through Spark, {name}", lambda: read(rows)), measured(f"the hand-over alone, {name}", lambda: read(ready))


def on_cores(path: Path, cores: int) -> tuple[Rate, Rate]:
    """Returns what `through_spark` does in a process of its own, hence with a JVM of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(through_spark, path, cores).result()
