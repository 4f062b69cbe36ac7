"""The last look at the keys of rows that are written as files of the table: none is NULL, and none comes twice.

Keys that a table has twice are found again by no MERGE, and those that are NULL are inserted by each. Tasks look at the rows of a slice
while they write them: these are all that can have a key twice, because what splits a table into slices and chunks are columns of its key.
What Spark has written is read again, key columns alone, file by file, and together where keys of files overlap.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from cdc_ops.errors import DuplicateKeyError, NullKeyError
from cdc_ops.lake.data_files.checked_write import WrittenFile, WrittenRows
from cdc_ops.lake.merge.apply import duplicate_keys

MOST_BYTES: Final = 512 << 20
"""Of keys of one slice that are kept until its end; a slice with more is not looked through for keys that come twice."""
_SHOWN: Final = 5
_DATA: Final = "Nothing of this batch was written; the watermark stays."
_NEXT: Final = "Set 'keys' to columns that are unique and NOT NULL at the source, or repair the rows there; then run again."


def with_whole_keys(batches: Iterable[pa.RecordBatch], keys: Sequence[str], table: str) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a slice as they come, and fails at a NULL in a key, or behind the last batch at a key that came twice.

    Args:
        batches: The rows, as they are stored.
        keys: The columns of the key; () if there is none.
        table: Whose rows, for messages.

    Raises:
        NullKeyError: a key column has a NULL.
        DuplicateKeyError: rows have the same key.
    """
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        part = batch.select(list(keys))
        _refuse_null(part, table)
        if size <= MOST_BYTES:
            kept.append(part)
            size += part.nbytes
        yield batch
    if keys and kept and size <= MOST_BYTES and (found := repeated_keys(pa.Table.from_batches(kept))):
        raise _repeated(table, keys, found)


def check_written_keys(written: WrittenRows, keys: Sequence[str], table: str) -> None:
    """Looks at the keys of rows that Spark has written and not committed.

    Args:
        written: The rows.
        keys: The columns of the key; () if there is none.
        table: Whose rows, for messages.

    Raises:
        NullKeyError: a key column has a NULL.
        DuplicateKeyError: rows have the same key.
    """
    if not keys:
        return
    ranges, sizes = list[dict[str, tuple[Any, Any]]](), list[int]()
    for file in written.files:
        rows, size = _keys_of([file], written, keys, table)
        sizes.append(size)
        ranges.append(_ranges(rows) if rows is not None else {})
        if rows is not None and (found := repeated_keys(rows)):
            raise _repeated(table, keys, found)
    for group in _overlapping(ranges, keys):
        large, rows = sum(sizes[number] for number in group) > MOST_BYTES, None
        if len(group) > 1 and not large:
            rows, _ = _keys_of([written.files[number] for number in group], written, keys, table)
        found = repeated_keys(rows) if rows is not None else duplicate_keys(written.frame(), tuple(keys)) if large else []
        if found:
            raise _repeated(table, keys, found)


def check_landed_keys(rows: DataFrame, keys: Sequence[str], table: str) -> None:
    """Looks for keys that come twice in landed rows whose keys the source promises to be unique; a NULL is found by other means.

    Raises:
        DuplicateKeyError: rows have the same key.
    """
    if found := duplicate_keys(rows, tuple(keys)):
        raise _repeated(table, keys, found)


def _keys_of(files: Iterable[WrittenFile], written: WrittenRows, keys: Sequence[str], table: str) -> tuple[pa.Table | None, int]:
    """Returns the keys in files, None if they are too many to be kept; and their bytes. All of them are looked at."""
    kept, size = list[pa.Table](), 0
    for part in (part for file in files for part in written.parts(file, keys)):
        _refuse_null(part, table)
        size += part.nbytes
        kept = [*kept, part] if size <= MOST_BYTES else []
    return pa.concat_tables(kept) if kept else None, size


def _ranges(rows: pa.Table) -> dict[str, tuple[Any, Any]]:
    """Returns the smallest and the largest value of the columns whose values Python orders as equality has it."""
    ordered = (pa.types.is_integer, pa.types.is_string, pa.types.is_decimal)
    columns = (name for name in rows.column_names if any(is_one(rows.schema.field(name).type) for is_one in ordered))
    return {name: tuple(pc.min_max(rows[name]).as_py().values()) for name in columns}


def _overlapping(ranges: Sequence[Mapping[str, tuple[Any, Any]]], keys: Sequence[str]) -> list[list[int]]:
    """Returns the numbers of the files in groups: two files of different groups have no key in common.

    >>> _overlapping([{"a": (5, 9)}, {"a": (1, 4)}, {"a": (4, 4)}], ["a", "b"])
    [[1, 2], [0]]
    """
    best = [list(range(len(ranges)))]
    for key in keys:
        if not all(key in known for known in ranges):
            continue
        groups, end = list[list[int]](), None
        for number in sorted(range(len(ranges)), key=lambda one: ranges[one][key]):
            low, high = ranges[number][key]
            if end is None or low > end:
                groups.append([])
            groups[-1].append(number)
            end = high if end is None or high > end else end
        best = groups if len(groups) > len(best) else best
    return best


def repeated_keys(rows: pa.Table) -> list[str]:
    """Returns some of the rows that a table has more than once, as text; values that are told apart cost no more than sorting numbers.

    >>> repeated_keys(pa.table({"a": [1, 2, 1], "b": ["x", "y", "x"]})), repeated_keys(pa.table({"a": [1, 2]}))
    (['1, x'], [])
    """
    if rows.num_rows < 2:
        return []
    numbers = _numbers(rows)
    if numbers is not None:
        if (numbers[1:] > numbers[:-1]).all():
            return []
        numbers = np.sort(numbers)
        if (numbers[1:] != numbers[:-1]).all():
            return []
    counted = rows.group_by(rows.column_names, use_threads=False).aggregate([([], "count_all")])
    several = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, _SHOWN)
    return [", ".join(str(value) for value in row.values()) for row in several.select(rows.column_names).to_pylist()]


def _numbers(rows: pa.Table) -> np.ndarray[Any, Any] | None:
    """Returns a number for each row, the same for equal rows and, very rarely, for others; None where that is not cheap."""
    words = []
    for column in rows.columns:
        found = _words(column.combine_chunks())
        if found is None:
            return None
        words += found
    if len(words) == 1:
        return words[0]
    total = np.zeros(rows.num_rows, np.uint64)
    for word in words:
        total = (total ^ word) * np.uint64(0xFF51AFD7ED558CCD)
        total ^= total >> np.uint64(33)
        total *= np.uint64(0xC4CEB9FE1A85EC53)
        total ^= total >> np.uint64(29)
    return total


def _words(column: pa.Array) -> list[np.ndarray[Any, Any]] | None:
    """Returns the bytes of values that are all as long, as numbers of 64 bits; None of others."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        lengths = np.diff(offsets)
        width = int(lengths[0])
        if not width or (lengths != width).any():
            return None
        data = np.frombuffer(column.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    elif (pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)) or pa.types.is_decimal128(kind):
        width = kind.byte_width
        data = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * width : (column.offset + len(column)) * width]
        if width == 8:
            return [data.view(np.int64).astype(np.uint64)]
    else:
        return None
    padded = np.zeros((len(column), -(-width // 8) * 8), np.uint8)
    padded[:, :width] = data.reshape(len(column), width)
    return list(np.ascontiguousarray(padded.view(np.uint64).T))


def _refuse_null(rows: pa.Table | pa.RecordBatch, table: str) -> None:
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if column.null_count:
            raise _null(table, name, column.null_count)


def _null(table: str, name: str, count: int) -> NullKeyError:
    return NullKeyError(
        f"{count:,} rows of {table} have NULL in the key column {name!r}, or a value that is stored as NULL.",
        why="A NULL never equals a NULL, so every run would insert these rows again.",
        data=_DATA,
        next=_NEXT,
    )


def _repeated(table: str, keys: Sequence[str], found: Sequence[str]) -> DuplicateKeyError:
    return DuplicateKeyError(
        f"Several rows of {table} have the same key ({', '.join(keys)}): {'; '.join(found)}.",
        why="The source does not keep these keys unique among the rows that a SELECT of the table brings: tables that inherit from it have"
        " keys of their own. Or keys that differ there are stored as one.",
        data=_DATA,
        next=_NEXT,
    )
