"""Cuts large files into parts that tasks read side by side: files of lines that are not compressed. Runs in Spark."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, islice
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from cdc_ops.archives.registry import open_archive
from cdc_ops.core import json_codec
from cdc_ops.core.events.format_spec import Container
from cdc_ops.events.records.json_lines import ByteRange, count_range, is_compressed, ranges
from cdc_ops.events.registry import spec_of
from cdc_ops.events.scan.request import FileTasks, TableTask
from cdc_ops.lake.spark.local_rows import local_rows

_LARGE: Final = 64 * 2**20
"""Bytes of a part, at most."""


def split(spark: SparkSession, task: TableTask, files: Sequence[FileTasks]) -> list[FileTasks]:
    """Returns files, or in place of a large one its parts. Lines of the parts are counted first, side by side: an action if there are any.

    Args:
        spark: The session.
        task: Of any of the tables: it names the archive and the format.
        files: The files.
    """
    large = [one for one in files if _is_large(one, task)]
    if not large:
        return list(files)
    cut = {one.path: [replace(one, start=part.start, stop=part.stop) for part in ranges(one.path, one.size, _LARGE)] for one in large}
    lines = iter(_counted(spark, task, list(chain.from_iterable(cut.values()))))
    found = [one for one in files if one.path not in cut]
    for parts in cut.values():
        *firsts, _ = accumulate(islice(lines, len(parts)), initial=0)
        found += [replace(part, first_line=first) for part, first in zip(parts, firsts, strict=True)]
    return found


def _is_large(file: FileTasks, task: TableTask) -> bool:
    return file.size > 2 * _LARGE and spec_of(task.archive.format).files.container is Container.LINES and not is_compressed(file.path)


def _counted(spark: SparkSession, task: TableTask, parts: Sequence[FileTasks]) -> list[int]:
    """Returns the lines of each part."""
    texts = [(f"{number} {json_codec.dumps(part)}",) for number, part in enumerate(parts)]
    rows = local_rows(spark, texts, {"part": "string"}).repartition(len(parts))
    counted = rows.mapInArrow(partial(_count_lines, task=task), "part bigint, lines bigint").collect()
    lines = {row["part"]: row["lines"] for row in counted}
    return [lines[number] for number in range(len(parts))]


def _count_lines(batches: Iterator[pa.RecordBatch], task: TableTask) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in batch.column(0).to_pylist():
            number, _, part_text = text.partition(" ")
            part = json_codec.loads(FileTasks, part_text)
            with closing(open_archive(task.archive.url, dict(task.archive.options))) as archive:
                lines = count_range(archive, part.path, ByteRange(part.start, part.stop))
            yield pa.record_batch({"part": pa.array([int(number)], pa.int64()), "lines": pa.array([lines], pa.int64())})
