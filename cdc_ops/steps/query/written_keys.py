"""The keys of rows that Spark has written or landed, before their commit: none is NULL, and none comes twice. Runs in Spark's driver.

What is written is read again, key columns alone, file by file, and together where keys of files overlap. What tasks write themselves they
look at while they write (`unique_keys`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from cdc_ops.lake.data_files.checked_write import WrittenFile, WrittenRows
from cdc_ops.lake.merge.apply import duplicate_keys
from cdc_ops.steps.query.unique_keys import MOST_BYTES, refuse_null_keys, repeated_error, repeated_keys


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
            raise repeated_error(table, keys, found)
    for group in _overlapping(ranges, keys):
        large, rows = sum(sizes[number] for number in group) > MOST_BYTES, None
        if len(group) > 1 and not large:
            rows, _ = _keys_of([written.files[number] for number in group], written, keys, table)
        found = repeated_keys(rows) if rows is not None else duplicate_keys(written.frame(), tuple(keys)) if large else []
        if found:
            raise repeated_error(table, keys, found)


def check_landed_keys(rows: DataFrame, keys: Sequence[str], table: str) -> None:
    """Looks for keys that come twice in landed rows whose keys the source promises to be unique; a NULL is found by other means.

    Raises:
        DuplicateKeyError: rows have the same key.
    """
    if found := duplicate_keys(rows, tuple(keys)):
        raise repeated_error(table, keys, found)


def _keys_of(files: Iterable[WrittenFile], written: WrittenRows, keys: Sequence[str], table: str) -> tuple[pa.Table | None, int]:
    """Returns the keys in files, None if they are too many to be kept; and their bytes. All of them are looked at."""
    kept, size = list[pa.Table](), 0
    for part in (part for file in files for part in written.parts(file, keys)):
        refuse_null_keys(part, table)
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
