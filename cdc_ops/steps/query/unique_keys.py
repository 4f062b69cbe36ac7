"""The last look at the keys of rows that tasks write as files of the table: none is NULL, and none comes twice. Spark-free.

The rows of a slice are all that can have a key twice: what splits a table into slices and chunks are columns of its key. Keys that a table
has twice are found again by no MERGE, and those that are NULL are inserted by each. `written_keys` looks at what Spark has written.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.errors import DuplicateKeyError, NullKeyError

MOST_BYTES: Final = 512 << 20
"""Of keys that are kept to be looked through for those that come twice; a slice with more passes."""
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
        refuse_null_keys(part, table)
        if size <= MOST_BYTES:
            kept.append(part)
            size += part.nbytes
        yield batch
    if keys and kept and size <= MOST_BYTES and (found := repeated_keys(pa.Table.from_batches(kept))):
        raise repeated_error(table, keys, found)


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


def refuse_null_keys(rows: pa.Table | pa.RecordBatch, table: str) -> None:
    """Refuses keys of which a column has a NULL.

    Raises:
        NullKeyError: one has.
    """
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


def repeated_error(table: str, keys: Sequence[str], found: Sequence[str]) -> DuplicateKeyError:
    """Returns the error for keys that come twice, with some of them as text."""
    return DuplicateKeyError(
        f"Several rows of {table} have the same key ({', '.join(keys)}): {'; '.join(found)}.",
        why="The source does not keep these keys unique among the rows that a SELECT of the table brings: tables that inherit from it have"
        " keys of their own. Or keys that differ there are stored as one.",
        data=_DATA,
        next=_NEXT,
    )
