"""The CRC-32 of events, at memory speed where the processor multiplies without carry, else by tables. Numba functions that kernels call.

    bytes --64 at a time--> 64 bytes with the same remainder --> 16 bytes --> tables

A CRC is a remainder of polynomials. Multiplying 8 bytes by the remainder of x^n moves them n bits further on without changing what all
leaves, so four blocks of 16 bytes are folded into the next four until 64 bytes are left (Gopal et al., "Fast CRC Computation Using
PCLMULQDQ", 2009; the constants are theirs, for the polynomial of zlib with its bits reversed).
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from cdc_ops.decode.compiler import BYTES, Bytes, helper

_POLYNOMIAL: Final = 0xEDB88320
_BLOCK: Final = 16
_FOLD_64: Final = (0x0154442BD4, 0x01C6E41596)
"""For the low and the high 8 bytes of a block that moves by 64 bytes."""
_FOLD_16: Final = (0x01751997D0, 0x00CCAA009E)
"""The same for 16 bytes."""
_PAIR: Final = ir.VectorType(ir.IntType(64), 2)
_BYTE: Final = ir.IntType(8)


def _tables() -> npt.NDArray[np.uint32]:
    """Returns what a byte adds to a CRC-32, for each of its places among 16 bytes."""
    tables = np.zeros((_BLOCK, 256), np.uint32)
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(_POLYNOMIAL), first >> 1)
    tables[0] = first
    for place in range(1, _BLOCK):
        tables[place] = (tables[place - 1] >> 8) ^ first[tables[place - 1] & 0xFF]
    return tables


_TABLES: Final = _tables()


@helper
def _add_bytes(crc: np.uint32, data: Bytes, start: int, end: int) -> np.uint32:
    """Takes bytes into a CRC, 16 at a time."""
    at = start
    while at + 16 <= end:
        first = crc ^ _four_bytes(data, at)
        crc = (
            _four(first, 12)
            ^ _four(_four_bytes(data, at + 4), 8)
            ^ _four(_four_bytes(data, at + 8), 4)
            ^ _four(_four_bytes(data, at + 12), 0)
        )
        at += 16
    while at < end:
        crc = _TABLES[0, (crc ^ data[at]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        at += 1
    return crc


@helper
def _four_bytes(data: Bytes, at: int) -> np.uint32:
    low = np.uint32(data[at]) | np.uint32(data[at + 1]) << np.uint32(8)
    return low | np.uint32(data[at + 2]) << np.uint32(16) | np.uint32(data[at + 3]) << np.uint32(24)


@helper
def _four(value: np.uint32, behind: int) -> np.uint32:
    """Returns what four bytes add, with so many of the 16 bytes behind them."""
    low = _TABLES[behind + 3, value & np.uint32(0xFF)] ^ _TABLES[behind + 2, (value >> np.uint32(8)) & np.uint32(0xFF)]
    return low ^ _TABLES[behind + 1, (value >> np.uint32(16)) & np.uint32(0xFF)] ^ _TABLES[behind, value >> np.uint32(24)]


@helper
def crc32_by_tables(data: Bytes, start: int, end: int) -> int:
    """Returns the CRC-32 of bytes, the one of zlib and of binlogs."""
    return np.int64(_add_bytes(np.uint32(0xFFFFFFFF), data, start, end) ^ np.uint32(0xFFFFFFFF))


@intrinsic  # type: ignore[untyped-decorator]
def _folded(_context: Any, data: Any, start: Any, end: Any) -> Any:
    """Folds bytes, a multiple of 64 and at least 64 of them, into 16: returns their low and high 8 bytes."""
    signature = types.UniTuple(types.uint64, 2)(BYTES, types.int64, types.int64)
    return signature, _write_fold


def _write_fold(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Writes the code: the first 64 bytes, a loop over the others, and four blocks into one."""
    values, start, end = arguments
    first = context.make_array(signature.args[0])(context, builder, values).data
    multiply = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_PAIR, (_PAIR, _PAIR, _BYTE)), "llvm.x86.pclmulqdq")

    def load(at: Any) -> Any:
        loaded = builder.load(builder.bitcast(builder.gep(first, [at]), _PAIR.as_pointer()))
        loaded.align = 1
        return loaded

    def moved(block: Any, by: tuple[int, int]) -> Any:
        factors = ir.Constant(_PAIR, list(by))
        low = builder.call(multiply, [block, factors, ir.Constant(_BYTE, 0x00)])
        return builder.xor(low, builder.call(multiply, [block, factors, ir.Constant(_BYTE, 0x11)]))

    def places(at: Any) -> list[Any]:
        return [builder.add(at, ir.Constant(at.type, 16 * number)) for number in range(4)]

    blocks = [cgutils.alloca_once(builder, _PAIR) for _ in range(4)]
    for number, (block, place) in enumerate(zip(blocks, places(start), strict=True)):
        begin = load(place)
        if number == 0:  # a CRC begins with its 32 bits set
            begin = builder.xor(begin, ir.Constant(_PAIR, [0xFFFFFFFF, 0]))
        builder.store(begin, block)
    next_at = builder.add(start, ir.Constant(start.type, 64))
    with cgutils.for_range_slice(builder, next_at, end, ir.Constant(start.type, 64), intp=start.type) as (at, _):
        for block, place in zip(blocks, places(at), strict=True):
            builder.store(builder.xor(moved(builder.load(block), _FOLD_64), load(place)), block)
    left = builder.load(blocks[0])
    for block in blocks[1:]:
        left = builder.xor(moved(left, _FOLD_16), builder.load(block))
    halves = [builder.extract_element(left, ir.Constant(ir.IntType(32), number)) for number in range(2)]
    return context.make_tuple(builder, signature.return_type, halves)


@helper
def _add_word(crc: np.uint32, value: np.uint64) -> np.uint32:
    """Takes 8 bytes into a CRC."""
    low = crc ^ np.uint32(value & np.uint64(0xFFFFFFFF))
    return _four(low, 4) ^ _four(np.uint32(value >> np.uint64(32)), 0)


@helper
def crc32_by_folding(data: Bytes, start: int, end: int) -> int:
    """Returns the same as `crc32_by_tables`, several times as fast for more than some hundred bytes."""
    if end - start < 128:
        return crc32_by_tables(data, start, end)
    middle = start + (end - start) // 64 * 64
    low, high = _folded(data, start, middle)
    crc = _add_word(_add_word(np.uint32(0), low), high)
    return np.int64(_add_bytes(crc, data, middle, end) ^ np.uint32(0xFFFFFFFF))


CAN_FOLD: Final = bool(binding.get_host_cpu_features().get("pclmul"))
"""True where the processor multiplies without carry."""
crc32: Final = crc32_by_folding if CAN_FOLD else crc32_by_tables
