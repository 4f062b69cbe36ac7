"""Finds the rows of data files that have some keys, by their key columns alone: tasks of Spark, without the JVM.

the table's files by its log --bounds--> those that may have one of the keys --tasks: the key columns--> the numbers of the rows
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.lake.file_io import open_filesystem

_SHAPE: Final = "number int, rows binary, keys binary, of bigint, others binary, failure string"
_LOCAL_FILES: Final = 8
_LOCAL_BYTES: Final = 64 * 2**20
"""Files that are searched where Spark's driver runs: a job for them would take longer to start."""
_TYPES: Final = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_OTHER_CALENDAR: Final = frozenset((b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"))
"""In a file's footer: old dates and times are not what they are called, and only Spark knows how to read them."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of a file.

    Args:
        numbers: Their numbers, ascending from 0.
        keys: For each of them the number of its key among those that were searched for.
        of: How many rows the file has, deleted ones included.
        others: The values that the rows have in `KeySearch.other`; None if they were not asked for.
    """

    numbers: Numbers
    keys: Numbers
    of: int
    others: pa.ChunkedArray | None = None


class NotSearchedError(Exception):
    """Tasks cannot search these files; the text says why."""


def key_type(kind: str) -> pa.DataType | None:
    """Returns Arrow's type for that of a key column, as Spark's DDL names it; None if such keys cannot be searched for.

    Floating numbers are not among them: NaN and the two zeros are equal to Spark as they are not to others.

    >>> key_type("bigint"), key_type("decimal(20,0)"), key_type("double")
    (DataType(int64), Decimal128Type(decimal128(20, 0)), None)
    """
    if decimal := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _TYPES.get(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySearch:
    """What is searched for.

    Args:
        folder: The table.
        keys: The keys, one a row; the columns are the table's key columns, with the types of `key_type`. None of them is NULL, or twice.
        other: A column whose values are wanted of the rows that are found, "" for none.
    """

    folder: str
    keys: pa.Table
    other: str = ""


def candidates(search: KeySearch, adds: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the files that may have one of the keys, by the bounds of their whole numbers: of these Delta keeps exact ones."""
    whole = {name: numbers for name in search.keys.column_names if (numbers := _whole_numbers(search.keys[name])) is not None}
    return [add for add in adds if _may_have_one(whole, json.loads(add.get("stats") or "{}"))] if whole else list(adds)


def _whole_numbers(keys: pa.ChunkedArray) -> Numbers | None:
    if not pa.types.is_integer(keys.type) and not (pa.types.is_decimal(keys.type) and keys.type.scale == 0):
        return None
    try:
        return np.asarray(keys.cast(pa.int64()).to_numpy())
    except pa.ArrowInvalid:  # a decimal that is larger
        return None


def _may_have_one(keys: Mapping[str, Numbers], stats: Mapping[str, Any]) -> bool:
    inside = np.ones(len(next(iter(keys.values()))), bool)
    for name, numbers in keys.items():
        low, high = ((stats.get(bounds) or {}).get(name) for bounds in ("minValues", "maxValues"))
        if isinstance(low, int) and isinstance(high, int):
            inside &= (numbers >= low) & (numbers <= high)
    return bool(inside.any())


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
    if outside := next((name for name in names if "://" in name or name.startswith("/") or name.startswith("file:")), ""):
        raise NotSearchedError(f"{outside} does not lie in the table's folder")
    search_files = partial(_search, search=search, names=tuple(map(unquote, names)))
    if len(names) <= _LOCAL_FILES and sum(int(file["size"]) for file in files) <= _LOCAL_BYTES:
        answers = answers_here(partial(search_files, step=1), [pa.record_batch({"id": pa.array([0], pa.int64())})])
    else:
        tasks = min(spark.sparkContext.defaultParallelism, len(names))
        answers = answers_of(spark.range(0, tasks, 1, tasks).mapInArrow(partial(search_files, step=tasks), _SHAPE))
    if failure := next((row["failure"] for row in answers if row["failure"]), ""):
        raise NotSearchedError(failure)
    by_number = {row["number"]: _found_rows(row) for row in answers}
    if len(by_number) != len(names):
        raise NotSearchedError("not all files were searched")
    return [by_number[number] for number in range(len(names))]


def _found_rows(answer: Mapping[str, Any]) -> FoundRows:
    others = pa.ipc.open_stream(answer["others"]).read_all().column(0) if answer["others"] else None
    numbers, keys = (np.frombuffer(answer[name], np.int64) for name in ("rows", "keys"))
    return FoundRows(numbers=numbers, keys=keys, of=answer["of"], others=others)


def answers_of(tasks: DataFrame) -> list[dict[str, Any]]:
    """Returns what tasks in Python say: an action.

    Raises:
        NotSearchedError: one of them failed in Python.
    """
    try:
        return [row.asDict() for row in tasks.collect()]
    except PythonException as error:
        raise NotSearchedError(str(error).strip().rpartition("\n")[2]) from error


def answers_here(
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], batches: Iterable[pa.RecordBatch]
) -> list[dict[str, Any]]:
    """Returns what a task in Python says that runs in the driver instead.

    Raises:
        NotSearchedError: it failed.
    """
    try:
        return [row for answer in task(iter(batches)) for row in answer.to_pylist()]
    except Exception as error:  # as of a task: Spark takes over, whatever it was
        raise NotSearchedError(f"{type(error).__name__}: {error}") from error


_NO_ROWS: Final = np.zeros(0, np.int64)
_NONE: Final = FoundRows(numbers=_NO_ROWS, keys=_NO_ROWS, of=0)


def _search(batches: Iterator[pa.RecordBatch], search: KeySearch, names: Sequence[str], step: int) -> Iterator[pa.RecordBatch]:
    filesystem, root = open_filesystem(search.folder)
    numbers = [number for batch in batches for first in batch.column(0).to_pylist() for number in range(first, len(names), step)]
    answers = list[tuple[FoundRows, str | None]]()
    for number in numbers:
        try:
            with filesystem.open(f"{root}/{names[number]}", "rb") as file:
                answers.append((_rows_with(pq.ParquetFile(file, coerce_int96_timestamp_unit="us"), search), None))
        except (OSError, KeyError, pa.ArrowException) as error:
            answers.append((_NONE, f"{names[number]}: {type(error).__name__}: {error}"))
    yield pa.record_batch(
        {
            "number": pa.array(numbers, pa.int32()),
            "rows": pa.array([found.numbers.tobytes() for found, _ in answers], pa.binary()),
            "keys": pa.array([found.keys.tobytes() for found, _ in answers], pa.binary()),
            "of": pa.array([found.of for found, _ in answers], pa.int64()),
            "others": pa.array([_others_as_stream(found) for found, _ in answers], pa.binary()),
            "failure": pa.array([failure for _, failure in answers], pa.string()),
        }
    )


def _others_as_stream(found: FoundRows) -> bytes | None:
    return None if found.others is None else as_stream(pa.table([found.others], [""]))


def as_stream(rows: pa.Table) -> bytes:
    """Returns rows as bytes that a task can hand to the driver."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


def _rows_with(file: pq.ParquetFile, search: KeySearch) -> FoundRows:
    # A column of another type than a key's may be a time inside a list.
    dated = bool(search.other) or any(map(pa.types.is_temporal, search.keys.schema.types))
    if dated and _OTHER_CALENDAR & (file.metadata.metadata or {}).keys():
        raise pa.ArrowNotImplementedError("its dates are of another calendar")
    numbers, keys, others, begin = [_NO_ROWS], [_NO_ROWS], list[pa.ChunkedArray](), 0
    for group in range(file.num_row_groups):
        places, of_key = _found(partial(_column, file, group, search.keys.schema), search.keys)
        numbers.append(begin + places)
        keys.append(of_key)
        others += [_others(file, group, search.other, places)] if search.other else []
        begin += file.metadata.row_group(group).num_rows
    values = pa.chunked_array([chunk for part in others for chunk in part.chunks], others[0].type) if others else None
    return FoundRows(numbers=np.concatenate(numbers), keys=np.concatenate(keys), of=begin, others=values)


def _others(file: pq.ParquetFile, group: int, name: str, places: Numbers) -> pa.ChunkedArray:
    """Returns the values of some rows in a column, NULLs if it has been added to the table since the file was written."""
    names = file.schema_arrow.names
    if name not in names:
        if name.lower() in map(str.lower, names):  # written by others: to Spark it is the same column
            raise KeyError(name)
        return pa.chunked_array([pa.nulls(len(places))])
    if not len(places):
        return pa.chunked_array([], file.schema_arrow.field(name).type)
    return file.read_row_group(group, columns=[name], use_threads=False)[name].take(places)


def _column(file: pq.ParquetFile, group: int, schema: pa.Schema, name: str) -> pa.ChunkedArray:
    values, kind = file.read_row_group(group, columns=[name], use_threads=False)[name], schema.field(name).type
    return values if values.type == kind else values.cast(kind)


def _found(column: Callable[[str], pa.ChunkedArray], keys: pa.Table) -> tuple[Numbers, Numbers]:
    """Returns where some keys stand, in ascending order, and for each place the number of its key.

    Args:
        column: Returns the values of a key column; of a further one only if there is a row that it may add to.
        keys: The keys, each of them once.
    """
    names, parts = keys.column_names, list[pa.ChunkedArray]()
    found: Numbers | None = None
    for name in names:
        part = column(name) if found is None else column(name).take(found)
        places, of_key = _places(part, keys[name])
        found = places if found is None else found[places]
        if len(names) == 1 or not len(found):
            return found, of_key
        parts = [one.take(places) for one in (*parts, part)]
    # Each part is one of some key: now those of which all parts are of the same key.
    numbered = list(map(str, range(len(names))))
    rows = pa.table([*parts, found], [*numbered, "place"])
    wanted = keys.rename_columns(numbered).append_column("key", pa.array(np.arange(len(keys))))
    same = rows.join(wanted, numbered, join_type="inner", use_threads=False).sort_by("place")
    return same["place"].to_numpy(), same["key"].to_numpy()


def _places(values: pa.ChunkedArray, keys: pa.ChunkedArray) -> tuple[Numbers, Numbers]:
    """Returns where some values stand, and which key each is: by bisection where all ascend, as in a file that was loaded by its key."""
    if pa.types.is_integer(keys.type) and not values.null_count:
        numbers = values.to_numpy()
        if len(numbers) and bool((numbers[1:] >= numbers[:-1]).all()):
            wanted, first_key = np.unique(keys.to_numpy(), return_index=True)
            ends = zip(np.searchsorted(numbers, wanted, "left"), np.searchsorted(numbers, wanted, "right"), first_key, strict=True)
            met = [(first, last, key) for first, last, key in ends if first < last]
            stand = [np.arange(first, last) for first, last, _ in met]
            keys_there = [np.full(last - first, key) for first, last, key in met]
            return np.concatenate([_NO_ROWS, *stand]), np.concatenate([_NO_ROWS, *keys_there])
    numbers_of_keys = pc.index_in(values, options=pc.SetLookupOptions(value_set=keys, skip_nulls=True))
    of_key = numbers_of_keys.fill_null(-1).to_numpy().astype(np.int64)
    places = np.flatnonzero(of_key >= 0)
    return places, of_key[places]
