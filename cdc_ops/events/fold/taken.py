"""Rows of columns of Arrow, taken chunk by chunk: Arrow itself would first copy all chunks into one, which texts may not fit into."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cdc_ops.events.fold.arrays import Bools, Int64s


def taken(column: pa.ChunkedArray, rows: Int64s, missing: Bools | None = None) -> pa.ChunkedArray:
    """Returns some rows of a column; ascending ones are taken fastest.

    Args:
        column: The column.
        rows: Their numbers.
        missing: For which of them NULL is to be returned.
    """
    if (rows[1:] >= rows[:-1]).all():
        return pa.chunked_array(_by_chunk(column, rows, missing), column.type)
    try:
        return column.take(pa.array(rows, mask=missing))
    except pa.ArrowInvalid:  # the column is more than one array holds
        return _taken_in_parts(column, rows, missing)


def _taken_in_parts(column: pa.ChunkedArray, rows: Int64s, missing: Bools | None) -> pa.ChunkedArray:
    """Takes rows in any order from a column of any size: in the column's order first; of those, fewer at a time are put in order.

    Raises:
        ArrowInvalid: not even one of them fits into an array.
    """
    order = np.argsort(rows, kind="stable")
    found = pa.chunked_array(_by_chunk(column, rows[order], None if missing is None else missing[order]), column.type)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    try:
        return found.take(pa.array(place))
    except pa.ArrowInvalid:
        if len(rows) < 2:
            raise
    half = len(rows) // 2
    halves = [taken(found, place[part]) for part in (slice(half), slice(half, None))]
    return pa.chunked_array([chunk for one in halves for chunk in one.chunks], column.type)


def _by_chunk(column: pa.ChunkedArray, rows: Int64s, missing: Bools | None) -> Iterator[pa.Array]:
    begin = first = 0
    for chunk in column.chunks:
        end = begin + len(chunk)
        last = int(np.searchsorted(rows, end))
        if last > first:
            yield chunk.take(pa.array(rows[first:last] - begin, mask=None if missing is None else missing[first:last]))
        begin, first = end, last
