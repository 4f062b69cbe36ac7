"""Folds the buckets of plain events in Python workers: all rows of some keys come in, the last of each go out. Spark-free.

    places and keys of all rows --last_rows--> which rows are the last ones --> their columns, of the row groups that have some
      --folded_batches--> Arrow, for a fold with what the exact way has read
      --land_buckets----> a Parquet file of the staging area, as Spark would land it

Of a stream whose keys change often most row groups have no last row: their columns are never read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc_ops.core import json_codec
from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.decode.json.events import DELETE
from cdc_ops.decode.plain_rows import HASH, LINE, OPERATION, PlainRows, column_name, key_name, part_name
from cdc_ops.formats.feed.plain import plain_format
from cdc_ops.lake.data_files.writer import DataFile, write_data_file
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.steps.log.plain.fold import fold_rows, last_rows

_INTEGERS: Final = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
_ROWS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldTask:
    """What is the same for all buckets.

    Args:
        format: The format's options from the pipeline file.
        spec: Its declaration.
        schema: The table.
        keys: The columns that identify a row.
        folder: Where the files of events are.
    """

    format: FormatOptions
    spec: FormatSpec
    schema: TableSchema
    keys: tuple[str, ...]
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """A row group of a file of plain events."""

    name: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """All row groups that have rows of a bucket's keys."""

    groups: tuple[RowGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedBucket:
    """What has been landed of a bucket.

    Args:
        file: Its rows, None if there are none.
        deletes: Keys that are gone.
        tied: Keys of which two different events have the same place.
        failure: Why the file could not be written, "" if it was.
    """

    file: DataFile | None = None
    deletes: int = 0
    tied: int = 0
    failure: str = ""


def folded_batches(batches: Iterator[pa.RecordBatch], task: FoldTask) -> Iterator[pa.RecordBatch]:
    """Folds the buckets of a partition; rows in have one text, the JSON of a `Bucket`; rows out are those of `latest_per_key`."""
    for rows, tied, form in _folded(batches, task):
        for start in range(0, rows.num_rows, _ROWS):
            yield _shown(task, form, rows.slice(start, _ROWS), tied[start : start + _ROWS])


def land_buckets(
    batches: Iterator[pa.RecordBatch], task: FoldTask, folder: str, codec: str, indexed: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Folds the buckets of a partition, and writes each as a file of landed rows; rows out have one text, a `LandedBucket` as JSON.

    Args:
        batches: As for `folded_batches`.
        task: What is the same for all of them.
        folder: Where landed rows go; it exists, where a folder has to.
        codec: How the files are compressed: one of `lake.data_files.writer.CODECS`.
        indexed: Columns whose bounds are told with a file.
    """
    try:
        for rows, tied, form in _folded(batches, task):
            file = write_data_file(folder, _landed(task, form, rows), indexed, codec)
            deletes = int((rows[OPERATION].to_numpy() == DELETE).sum())
            yield _told(LandedBucket(file=file, deletes=deletes, tied=int(tied.sum())))
    except (OSError, pa.ArrowException) as error:  # the driver lands with Spark then, which says it better
        yield _told(LandedBucket(failure=f"{type(error).__name__}: {error}"))


def _told(bucket: LandedBucket) -> pa.RecordBatch:
    return pa.record_batch({"landed": pa.array([json_codec.dumps(bucket)], pa.string())})


def _folded(batches: Iterator[pa.RecordBatch], task: FoldTask) -> Iterator[tuple[pa.Table, Any, PlainRows]]:
    """Yields the last rows of each bucket's keys, and which of them are tied."""
    form = plain_format(task.schema, task.keys, task.format)
    assert form is not None
    for batch in batches:
        for text in batch.column(0).to_pylist():
            yield *_last_rows_of(task, json_codec.loads(Bucket, text), form), form


def _last_rows_of(task: FoldTask, bucket: Bucket, form: PlainRows) -> tuple[pa.Table, Any]:
    keys = [key_name(key) for key in range(len(form.keys))]
    placed = _read(task, bucket.groups, [OPERATION, LINE, HASH, *(part_name(part) for part in range(form.parts + 1)), *keys])
    sizes = [one.num_rows for one in placed]
    found = last_rows(pa.concat_tables(placed).combine_chunks(), form)
    if found.doubled:
        return fold_rows(pa.concat_tables(_read(task, bucket.groups)).combine_chunks(), form)
    begins = np.cumsum([0, *sizes[:-1]])
    last = np.sort(found.rows)
    of_group = np.searchsorted(last, [*begins, sum(sizes)])
    taken = []
    for number, group in enumerate(bucket.groups):
        wanted = last[of_group[number] : of_group[number + 1]] - begins[number]
        if len(wanted):
            [values] = _read(task, (group,), [column_name(column) for column in range(len(form.columns))])
            rows = placed[number]
            for name in values.column_names:
                rows = rows.append_column(name, values[name])
            taken.append(rows if len(wanted) == rows.num_rows else rows.take(pa.array(wanted)))
    return pa.concat_tables(taken).combine_chunks(), np.zeros(len(last), np.bool_)


def _read(task: FoldTask, groups: tuple[RowGroup, ...], columns: list[str] | None = None) -> list[pa.Table]:
    filesystem, inner = open_filesystem(task.folder)
    tables = []
    for group in groups:
        with filesystem.open(f"{inner}/{group.name}", "rb") as file:
            tables.append(pq.ParquetFile(file).read_row_group(group.number, columns=columns))
    return tables


def _landed(task: FoldTask, form: PlainRows, rows: pa.Table) -> list[pa.RecordBatch]:
    """Returns rows as `steps.stage.folded_events.landed_rows` has them; of plain ones all columns are known."""
    count, names = rows.num_rows, task.schema.names
    key_of = {index: key for key, index in enumerate(form.keys)}
    values = [rows[key_name(key_of[index]) if index in key_of else column_name(index)] for index in range(len(names))]
    assert form.parts + 1 == len(task.spec.order), task.spec.order
    assert all(part.type in _INTEGERS for part in task.spec.order), task.spec.order
    parts = np.column_stack([rows[part_name(part)].to_numpy() for part in range(form.parts + 1)])
    places = pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32) * parts.shape[1], pa.array(np.ascontiguousarray(parts).ravel()))
    deleted = pa.array(rows[OPERATION].to_numpy() == DELETE)
    table = pa.table([*values, deleted, pa.nulls(count, pa.list_(pa.string())), places], names=[*names, DELETE_MARK, PRESENT, SEQUENCE])
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches


def _shown(task: FoldTask, form: PlainRows, rows: pa.Table, tied: Any) -> pa.RecordBatch:
    rows, count = rows.combine_chunks(), rows.num_rows
    deleted = pa.array(rows[OPERATION].to_numpy() == DELETE)

    def column(name: str) -> Any:
        return rows[name].combine_chunks() if count else rows[name]

    numbers = [column(part_name(part)).cast(_INTEGERS[one.type]) for part, one in enumerate(task.spec.order)]
    present = pa.array([[one.name for one in task.schema.columns]], pa.list_(pa.string()))
    none = pa.array([[]], pa.list_(pa.string()))
    keys = [column(key_name(key)) for key in range(len(form.keys))]
    values = [column(column_name(index)) for index in range(len(form.columns))]
    return pa.record_batch(
        {
            "key": pa.StructArray.from_arrays(keys, names=list(task.keys)),
            "deleted": deleted,
            "whole": pa.array(np.ones(count, np.bool_)),
            "row": pa.StructArray.from_arrays(values, names=list(task.schema.names)),
            "present": pc.if_else(deleted, none[0], present[0]),
            "position": pa.StructArray.from_arrays(numbers, names=[one.name for one in task.spec.order]),
            "tied": pa.array(tied),
        }
    )
