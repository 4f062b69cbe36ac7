"""Scans the files of a partition, whatever they hold: a Spark task. Spark-free."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from cdc_ops.core import json_codec
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.steps.log.plain.file_scan import FileScan, FileTask, FileTasks, ScanTask


def scans_of(batches: Iterator[pa.RecordBatch], tasks: tuple[ScanTask, ...]) -> Iterator[pa.RecordBatch]:
    """Scans the files of a partition; rows in have one text, the JSON of `FileTasks`, rows out that of a `FileScan`."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            scans = scan_file(tasks, json_codec.loads(FileTasks, text).files)
            yield pa.record_batch({"scan": pa.array([json_codec.dumps(one) for one in scans], pa.string())})


def scan_file(tasks: Sequence[ScanTask], files: Sequence[FileTask]) -> list[FileScan]:
    """Scans one file for all tables that want it."""
    if format_spec(tasks[0].format.name).is_binlog:
        from cdc_ops.steps.log.plain.binlog_scan import scan_binlog

        return scan_binlog(tasks, files)
    from cdc_ops.steps.log.plain.scan import scan_lines

    return [scan_lines(tasks[file.table], file) for file in files]
