"""Numbers from the bytes of binlog events. Numba functions that kernels call; none checks where the bytes end."""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

import numpy as np

from cdc_ops.decode.compiler import Bytes, helper


@helper
def u16(data: Bytes, at: int) -> int:
    """Reads an unsigned integer of 2 bytes, little-endian."""
    return np.int64(data[at]) | np.int64(data[at + 1]) << 8


@helper
def u24(data: Bytes, at: int) -> int:
    """Reads an unsigned integer of 3 bytes, little-endian."""
    return u16(data, at) | np.int64(data[at + 2]) << 16


@helper
def u32(data: Bytes, at: int) -> int:
    """Reads an unsigned integer of 4 bytes, little-endian."""
    return np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24


@helper
def u48(data: Bytes, at: int) -> int:
    """Reads an unsigned integer of 6 bytes, little-endian."""
    return u32(data, at) | u16(data, at + 4) << 32


@helper
def word(data: Bytes, at: int) -> int:
    """Reads 8 bytes, little-endian, as a signed integer."""
    return u32(data, at) | u32(data, at + 4) << 32


@helper
def unsigned(data: Bytes, at: int, size: int) -> int:
    """Reads an unsigned integer of 1 to 4 bytes, little-endian."""
    if size == 1:
        return np.int64(data[at])
    if size == 2:
        return u16(data, at)
    return u24(data, at) if size == 3 else u32(data, at)


@helper
def big_endian(data: Bytes, at: int, size: int) -> int:
    """Reads an unsigned integer of up to 7 bytes, big-endian."""
    value = np.int64(0)
    for place in range(at, at + size):
        value = value << 8 | np.int64(data[place])
    return value
