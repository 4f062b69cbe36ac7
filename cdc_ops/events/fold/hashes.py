"""Hashes of keys: equal keys have equal ones, whichever buffer, slice or chunk their values are in."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.events.fold.arrays import Int64s, Words, one_form

_SEED: Final = 0x9E3779B97F4A7C15
_LONG: Final = 512
"""Texts of more bytes are hashed one by one."""
_OF_LENGTH: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""Masks for the first bytes of a word."""


def key_hashes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Int64s:
    """Returns a hash of each row's key.

    Zeros of both signs are one number, and so are all NaNs. An integer has the hash of the same integer of another width.

    Args:
        columns: The columns of the key, in its order: numbers, decimals, dates, timestamps, booleans, texts or bytes; all of one length.

    Raises:
        TypeError: a column is of another type.
    """
    mixed = np.full(len(columns[0]), _SEED, np.uint64)
    for column in columns:
        begin = 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
            part = mixed[begin : begin + len(chunk)]
            for words in _words(chunk):
                part ^= words
                _mix(part)
            begin += len(chunk)
    return mixed.view(np.int64)


def bucket_of(keys: pa.StructArray | Sequence[pa.Array | pa.ChunkedArray], buckets: int) -> Int64s:
    """Returns the bucket of each key, from 0; all rows of a key are in one.

    Args:
        keys: Keys, or their columns, see `key_hashes`.
        buckets: How many there are.
    """
    columns = keys.flatten() if isinstance(keys, pa.StructArray) else keys
    return ((key_hashes(columns).view(np.uint64) >> np.uint64(32)) % np.uint64(buckets)).astype(np.int64)


def _mix(words: Words) -> None:
    """Mixes the bits of words, in place; different words stay different."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)


def _words(column: pa.Array) -> list[Words]:
    """Returns numbers that are the same for equal values: of a decimal two, else one. NULL has that of no value."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    there = None if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
    found = _decimals(column) if pa.types.is_decimal128(kind) else [_texts(column)] if _is_text(kind) else [_numbers(column)]
    return found if there is None else [np.where(there, words, np.uint64(_SEED >> 1)) for words in found]


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind))


def _decimals(column: pa.Array) -> list[Words]:
    words = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
    return [words[0::2], words[1::2]]


def _numbers(column: pa.Array) -> Words:
    kind, types = column.type, pa.types
    if types.is_floating(kind):
        bits: Words = one_form(pc.fill_null(column, 0).to_numpy()).astype(np.float64).view(np.uint64)
        return bits
    if types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif types.is_date32(kind) or types.is_time32(kind):
        column = column.cast(pa.int32())
    elif types.is_timestamp(kind) or types.is_date64(kind) or types.is_time64(kind):
        column = column.cast(pa.int64())
    elif not types.is_integer(kind):
        raise TypeError(f"no keys can be of type {kind}")
    numbers: npt.NDArray[Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64).view(np.uint64)


def _texts(column: pa.Array) -> Words:
    """Hashes texts, eight bytes of all of them at a time."""
    is_large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, buffer = column.buffers()
    count = len(column)
    borders = np.frombuffer(offsets, np.int64 if is_large else np.int32)[column.offset : column.offset + count + 1].astype(np.int64)
    if not count or borders[0] == borders[-1]:
        return np.zeros(count, np.uint64)
    data = np.zeros(borders[-1] - borders[0] + 8, np.uint8)
    data[:-8] = np.frombuffer(buffer, np.uint8)[borders[0] : borders[-1]]
    borders -= borders[0]
    begins, lengths = borders[:-1], np.diff(borders)
    found = lengths.view(np.uint64).copy()
    _mix(found)
    long = lengths > _LONG
    for index in np.flatnonzero(long).tolist():
        whole = data[begins[index] : borders[index + 1]].tobytes()
        found[index] = int.from_bytes(blake2b(whole, digest_size=8).digest(), "little")
    _hash_short(data, begins, np.where(long, 0, lengths), found)
    return found


def _hash_short(data: npt.NDArray[np.uint8], begins: Int64s, lengths: Int64s, found: Words) -> None:
    """Hashes texts that begin somewhere in bytes, of which the last 8 are no text's."""
    at_each_byte: Words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    left, rows = lengths, np.arange(len(lengths))
    for place in range(0, int(lengths.max()), 8):
        if (some := left > 0).all():
            words = at_each_byte[begins + place]
        else:
            rows, begins, left = rows[some], begins[some], left[some]
            words = at_each_byte[begins + place]
        words &= _OF_LENGTH[np.minimum(left, 8)]
        words ^= found[rows]
        _mix(words)
        found[rows] = words
        left = left - 8
