"""Which values are the same, as a table's keys and rows are compared: NULL is NULL, NaN is NaN, and zeros of both signs are one number."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.events.fold.arrays import Bools, Column, Int64s, one_form


def equal_values(some: Column, others: Column) -> Bools:
    """True where two columns of one type have the same value."""
    try:
        same = pc.equal(some, others).fill_null(False)
    except pa.ArrowNotImplementedError:  # of structs and lists
        return np.array([one == other for one, other in zip(some.to_pylist(), others.to_pylist(), strict=True)], np.bool_)
    found = _bools(same)
    if some.null_count and others.null_count:
        found |= _bools(some.is_null()) & _bools(others.is_null())
    if pa.types.is_floating(some.type):
        found |= _bools(pc.is_nan(some).fill_null(False)) & _bools(pc.is_nan(others).fill_null(False))
    return found


def _bools(column: Column) -> Bools:
    return np.array(column, np.bool_)


def key_codes(columns: Sequence[Column]) -> tuple[Int64s, int]:
    """Returns a number for each row's key, from 0 and without gaps, the same for equal keys and for no others; and how many keys there are.

    Args:
        columns: The columns of the key. NULLs are equal.
    """
    codes, count = _codes(columns[0])
    for column in columns[1:]:
        others, width = _codes(column)
        codes, count = _codes(pa.array(codes * width + others)) if width > 1 else (codes, count)
    return codes, count


def _codes(column: Column) -> tuple[Int64s, int]:
    if pa.types.is_floating(column.type):
        column = pa.array(one_form(pc.fill_null(column, 0).to_numpy()), mask=_bools(column.is_null()))
    encoded = column.dictionary_encode()
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    count = len(chunks[0].dictionary) if chunks else 0
    codes = [pc.fill_null(chunk.indices, count).to_numpy().astype(np.int64) for chunk in chunks]
    return (np.concatenate(codes) if codes else np.zeros(0, np.int64)), count + bool(column.null_count)
