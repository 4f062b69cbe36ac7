"""Folds plain events in Python workers: of all rows of some keys, the last of each. Spark-free.

Plain events have all columns, or delete: so the last event of a key has all that is known of it, and the ones before it say nothing more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.decode.json.events import DELETE
from cdc_ops.decode.plain_rows import HASH, OPERATION, PlainRows, column_name, key_name, part_name
from cdc_ops.formats.feed.plain import plain_format
from cdc_ops.lake.file_io import open_filesystem

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


def fold_rows(table: pa.Table, form: PlainRows) -> tuple[pa.Table, np.ndarray[Any, Any]]:
    """Returns the last row of each key, and for each of them whether two different events of its key have the same place."""
    order = _ordered(table, form)
    rows = table.take(pa.array(order))
    same_key = _same_as_next(rows, form)
    last = np.append(~same_key, True)
    if not rows.num_rows:
        return rows, np.zeros(0, np.bool_)
    places = [rows[part_name(part)].to_numpy() for part in range(form.parts + 1)]
    doubled = same_key.copy()
    for numbers in places:
        doubled &= numbers[1:] == numbers[:-1]
    tied = np.zeros(rows.num_rows, np.bool_)
    for index in np.flatnonzero(doubled).tolist():
        tied[index] = _content(rows, form, index) != _content(rows, form, index + 1)
    groups = np.append(0, np.cumsum(last[:-1]))
    tied_groups = np.bincount(groups, weights=tied) > 0
    return rows.filter(pa.array(last)), tied_groups


def _ordered(table: pa.Table, form: PlainRows) -> Any:
    """Returns the order of rows by key and place."""
    numbers = [table[part_name(part)].to_numpy() for part in range(form.parts + 1)]
    varying = [one for one in numbers if len(one) and (one != one[0]).any()]
    order = np.lexsort((*reversed(varying), table[HASH].to_numpy()))
    hashes = table[HASH].to_numpy()[order]
    if bool((hashes[1:] == hashes[:-1]).any()) and _has_collision(table, form, order, hashes):
        names = [*(key_name(key) for key in range(len(form.keys))), *(part_name(part) for part in range(form.parts + 1))]
        return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]).to_numpy()
    return order


def _has_collision(table: pa.Table, form: PlainRows, order: Any, hashes: Any) -> bool:
    """True if two different keys have one hash."""
    same = hashes[1:] == hashes[:-1]
    names = [key_name(key) for key in range(len(form.keys))]
    return bool((same & ~_same_as_next(table.select(names).take(pa.array(order)), form)).any())


def _same_as_next(rows: pa.Table, form: PlainRows) -> Any:
    """True for each row but the last one whose key is that of the next row."""
    same = np.ones(max(rows.num_rows - 1, 0), np.bool_)
    for key in range(len(form.keys)):
        column = rows[key_name(key)].combine_chunks()
        same &= pc.equal(column.slice(0, len(same)), column.slice(1)).to_numpy(zero_copy_only=False)
    return same


def _content(rows: pa.Table, form: PlainRows, index: int) -> dict[str, Any]:
    names = [OPERATION, *(column_name(column) for column in range(len(form.columns)))]
    [row] = rows.select(names).slice(index, 1).to_pylist()
    return {name: repr(value) for name, value in row.items()}


def folded_batches(batches: Iterator[pa.RecordBatch], task: FoldTask) -> Iterator[pa.RecordBatch]:
    """Folds the buckets of a partition; rows in have one text, the JSON of a `Bucket`; rows out are those of `latest_per_key`."""
    from cdc_ops.core import json_codec

    form = plain_format(task.schema, task.keys, task.format)
    assert form is not None
    for batch in batches:
        for text in batch.column(0).to_pylist():
            rows, tied = fold_rows(_read(task, json_codec.loads(Bucket, text)), form)
            for start in range(0, rows.num_rows, _ROWS):
                yield _shown(task, form, rows.slice(start, _ROWS), tied[start : start + _ROWS])


def _read(task: FoldTask, bucket: Bucket) -> pa.Table:
    filesystem, inner = open_filesystem(task.folder)
    tables = []
    for group in bucket.groups:
        with filesystem.open(f"{inner}/{group.name}", "rb") as file:
            tables.append(pq.ParquetFile(file).read_row_group(group.number))
    return pa.concat_tables(tables).combine_chunks()


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
