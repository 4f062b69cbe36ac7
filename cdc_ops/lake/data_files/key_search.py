"""Finds the rows of data files that have some keys, by their key column alone: tasks of Spark, without the JVM.

the table's files by its log --bounds--> those that may have one of the keys --tasks: the key column--> the numbers of the rows
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession

from cdc_ops.lake.file_io import open_filesystem

_SHAPE: Final = "number int, rows binary, of bigint, failure string"
_INTEGERS: Final = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
KEY_TYPES: Final = {**_INTEGERS, "string": pa.string()}
"""Types of key columns, as Spark's DDL names them, that can be searched for, with those of Arrow."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of a file: their numbers, ascending from 0; and how many the file has, deleted ones included."""

    numbers: Numbers
    of: int


class NotSearchedError(Exception):
    """Tasks cannot search these files; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySearch:
    """What is searched for.

    Args:
        folder: The table.
        column: Its key column.
        kind: One of `KEY_TYPES`.
        keys: The keys, of the type of `KEY_TYPES`, none of them NULL.
    """

    folder: str
    column: str
    kind: str
    keys: pa.Array


def candidates(search: KeySearch, adds: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the files that may have one of the keys, by the bounds of their whole numbers: of these Delta keeps exact ones."""
    if search.kind not in _INTEGERS:
        return list(adds)
    keys = np.sort(search.keys.to_numpy())
    found = []
    for add in adds:
        stats = json.loads(add.get("stats") or "{}")
        low, high = ((stats.get(bounds) or {}).get(search.column) for bounds in ("minValues", "maxValues"))
        if isinstance(low, int) and isinstance(high, int):
            first = int(np.searchsorted(keys, low))
            if first == len(keys) or int(keys[first]) > high:
                continue
        found.append(add)
    return found


def find_rows(spark: SparkSession, search: KeySearch, files: Sequence[Mapping[str, Any]]) -> list[FoundRows]:
    """Returns for each file the rows with one of the keys, of which some may be deleted already: an action.

    Args:
        spark: The session.
        search: What is searched for.
        files: Entries of the table's log.

    Raises:
        NotSearchedError: a file cannot be read so.
    """
    names = [str(file["path"]) for file in files]
    if strange := next((name for name in names if "://" in name or name.startswith("/") or name.startswith("file:")), ""):
        raise NotSearchedError(f"{strange} does not lie in the table's folder")
    tasks = min(spark.sparkContext.defaultParallelism, len(names))
    if not tasks:
        return []
    task = partial(_search, search=search, names=tuple(map(unquote, names)), step=tasks)
    answers = answers_of(spark.range(0, tasks, 1, tasks).mapInArrow(task, _SHAPE))
    if failure := next((row["failure"] for row in answers if row["failure"]), ""):
        raise NotSearchedError(failure)
    by_number = {row["number"]: FoundRows(np.frombuffer(row["rows"], np.int64), row["of"]) for row in answers}
    if len(by_number) != len(names):
        raise NotSearchedError("not all files were searched")
    return [by_number[number] for number in range(len(names))]


def answers_of(tasks: DataFrame) -> list[Row]:
    """Returns what tasks in Python say: an action.

    Raises:
        NotSearchedError: one of them failed in Python.
    """
    try:
        return list(tasks.collect())
    except PythonException as error:
        raise NotSearchedError(str(error).strip().rpartition("\n")[2]) from error


_NONE: Final = FoundRows(np.zeros(0, np.int64), 0)


def _search(batches: Iterator[pa.RecordBatch], search: KeySearch, names: Sequence[str], step: int) -> Iterator[pa.RecordBatch]:
    filesystem, root = open_filesystem(search.folder)
    numbers = [number for batch in batches for first in batch.column(0).to_pylist() for number in range(first, len(names), step)]
    answers = list[tuple[FoundRows, str | None]]()
    for number in numbers:
        try:
            with filesystem.open(f"{root}/{names[number]}", "rb") as file:
                answers.append((_rows_with(pq.ParquetFile(file), search), None))
        except (OSError, KeyError, pa.ArrowException) as error:
            answers.append((_NONE, f"{names[number]}: {type(error).__name__}: {error}"))
    yield pa.record_batch(
        {
            "number": pa.array(numbers, pa.int32()),
            "rows": pa.array([found.numbers.tobytes() for found, _ in answers], pa.binary()),
            "of": pa.array([found.of for found, _ in answers], pa.int64()),
            "failure": pa.array([failure for _, failure in answers], pa.string()),
        }
    )


def _rows_with(file: pq.ParquetFile, search: KeySearch) -> FoundRows:
    found, begin = [np.zeros(0, np.int64)], 0
    for group in range(file.num_row_groups):
        values = file.read_row_group(group, columns=[search.column], use_threads=False)[search.column]
        if values.type != search.keys.type:
            values = values.cast(search.keys.type)
        found.append(begin + _found(values, search.keys))
        begin += len(values)
    return FoundRows(np.concatenate(found), begin)


def _found(values: pa.ChunkedArray, keys: pa.Array) -> Numbers:
    """Returns where some keys stand: by bisection where the values ascend, as they do in a file that was loaded by its key."""
    if pa.types.is_integer(keys.type) and not values.null_count:
        numbers = values.to_numpy()
        if len(numbers) and bool((numbers[1:] >= numbers[:-1]).all()):
            wanted = np.sort(keys.to_numpy())
            ends = zip(np.searchsorted(numbers, wanted, "left"), np.searchsorted(numbers, wanted, "right"), strict=True)
            return np.concatenate([np.zeros(0, np.int64), *(np.arange(first, last) for first, last in ends if first < last)])
    return np.flatnonzero(pc.is_in(values, options=pc.SetLookupOptions(value_set=keys)).to_numpy())
