"""Sixteen bytes at a time: numba's own loops take them one by one. Numba functions that kernels call; none checks where the bytes end."""

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from cdc_ops.decode.compiler import BYTES, BYTES_OUT

SIXTEEN: Final = 16
_BYTE: Final = ir.IntType(8)
_BLOCK: Final = ir.VectorType(_BYTE, SIXTEEN)
_BITS: Final = ir.IntType(SIXTEEN)
_WORD: Final = ir.IntType(32)


def _place(context: Any, builder: Any, kind: Any, values: Any, at: Any) -> Any:
    """Returns the pointer to sixteen bytes of an array."""
    first = context.make_array(kind)(context, builder, values).data
    return builder.bitcast(builder.gep(first, [at]), _BLOCK.as_pointer())


def _all(byte: int) -> Any:
    return ir.Constant(_BLOCK, [byte] * SIXTEEN)


def _before_first(builder: Any, found: Any) -> Any:
    """Returns how many bytes stand before the first one that was found, 16 if there is none."""
    bits = builder.zext(builder.bitcast(found, _BITS), _WORD)
    ended = builder.or_(bits, ir.Constant(_WORD, 1 << SIXTEEN))
    return builder.zext(builder.cttz(ended, ir.Constant(ir.IntType(1), 1)), cgutils.intp_t)


def _of_block(work: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """Returns signature and code of a function of sixteen bytes that returns a number."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return work(builder, builder.load(_place(context, builder, signature.args[0], *arguments), align=1))

    return types.int64(BYTES, types.int64), write


@intrinsic  # type: ignore[untyped-decorator]
def copy_sixteen(_context: Any, out: Any, at: Any, data: Any, start: Any) -> Any:
    """Copies sixteen bytes to `out[at]`."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into, place, values, first = arguments
        block = builder.load(_place(context, builder, signature.args[2], values, first), align=1)
        builder.store(block, _place(context, builder, signature.args[0], into, place), align=1)
        return context.get_dummy_value()

    return types.void(BYTES_OUT, types.int64, BYTES, types.int64), write


@intrinsic  # type: ignore[untyped-decorator]
def before_high(_context: Any, data: Any, start: Any) -> Any:
    """Returns how many of sixteen bytes stand before the first one of 128 and more, 16 if there is none."""
    return _of_block(lambda builder, block: _before_first(builder, builder.icmp_signed("<", block, _all(0))))
