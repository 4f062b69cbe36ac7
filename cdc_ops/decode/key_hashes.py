"""Hashes of keys: equal keys have equal ones, whichever buffer their bytes are in."""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numba import types

from cdc_ops.decode.cells import ASIDE, VALUE, Cells
from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.program import Field, Kind, Program, ProgramArrays
from cdc_ops.decode.text_columns import CELLS, PROGRAM

_ASIDE = 2
_STRINGS = 8


@kernel(types.void(PROGRAM, CELLS, BYTES, BYTES, types.int64, INT64S), makes_arrays=False)
def hash_keys(keys: ProgramArrays, cells: Cells, data: Bytes, aside: Bytes, rows: int, out: Int64s) -> None:
    """Fills in a hash of each row's key: equal keys have equal ones, whichever buffer their bytes are in."""
    for row in range(rows):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for key in range(keys.kind.size):
            low, high = cells.low[key, row], cells.high[key, row]
            if keys.kind[key] < _STRINGS:
                mixed = _mixed(mixed ^ np.uint64(low))
                mixed = _mixed(mixed ^ np.uint64(high))
            else:
                source = aside if cells.state[key, row] == _ASIDE else data
                for place in range(low, high):
                    mixed = (mixed ^ np.uint64(source[place])) * np.uint64(0x100000001B3)
                mixed = _mixed(mixed ^ np.uint64(high - low))
        out[row] = np.int64(mixed)


@helper
def _mixed(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def can_be_hashed(field: Field) -> bool:
    """True for columns of which equal values have the same bytes: floating-point zeros have two forms."""
    return field.kind not in (Kind.FLOAT, Kind.DOUBLE)


def hashes_of(fields: Sequence[Field], columns: Sequence[pa.Array]) -> Int64s:
    """Returns a hash of each row's key.

    Args:
        fields: What the key's columns are; all of them `can_be_hashed`.
        columns: Their values, none of them NULL.
    """
    rows = len(columns[0])
    cells, aside = Cells.empty(len(fields), rows), [np.zeros(0, np.uint8)]
    for key, (field, column) in enumerate(zip(fields, columns, strict=True)):
        if field.kind in (Kind.STRING, Kind.BINARY):
            _, offsets, data = column.buffers()
            places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + rows + 1].astype(np.int64)
            places += sum(part.size for part in aside)
            aside.append(np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8))
            cells.low[key], cells.high[key], cells.state[key] = places[:-1], places[1:], ASIDE
        else:
            words = _words(field, column)
            cells.low[key], cells.high[key], cells.state[key] = words[0], words[1], VALUE
    hashes = np.empty(rows, np.int64)
    bytes_aside = np.concatenate(aside)
    hash_keys(Program.of(fields).arrays, cells, bytes_aside, bytes_aside, rows, hashes)
    return hashes


def _words(field: Field, column: pa.Array) -> tuple[Int64s, Int64s]:
    """Returns the two words of each value of fixed size."""
    rows = len(column)
    none = np.zeros(rows, np.int64)
    match field.kind:
        case Kind.DECIMAL:
            words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + rows)]
            return words[0::2], words[1::2]
        case Kind.BOOLEAN:
            return column.cast(pa.int8()).to_numpy().astype(np.int64), none
        case Kind.DATE:
            return column.cast(pa.int32()).to_numpy().astype(np.int64), none
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return column.cast(pa.int64()).to_numpy(), none
        case _:
            return column.to_numpy().astype(np.int64), none
