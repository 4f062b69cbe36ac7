"""The rows of a COPY from libpq's own function, without an object of Python for each: what arrives is put end to end into one buffer.

The connection, its login, TLS, waiting and errors stay libpq's: this calls `PQgetCopyData`, as its drivers do, and copies what it returns.
"""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from cdc_ops.decode.compiler import BYTES_OUT, INT64S, Bytes, Int64s, kernel

GET: Final = 0
"""Place of the address of `PQgetCopyData`."""
FREE: Final = 1
"""Place of the address of `PQfreemem`."""
CONNECTION: Final = 2
"""Place of the address of the connection, a `PGconn`."""
SLOT: Final = 3
"""Place of the address of the block that is being copied, which belongs to libpq and is to be freed; 0 = none."""
TAKEN: Final = 4
"""Place of how many of its bytes are copied."""
SIZE: Final = 5
"""Place of how many it has; if there is no block, the last answer of `PQgetCopyData`: -1 at the end, -2 after an error."""
PLACES: Final = 6

_INT: Final = ir.IntType(32)


def _function(builder: Any, address: Any, result: Any, *parameters: Any) -> Any:
    return builder.inttoptr(address, ir.FunctionType(result, parameters).as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def _get_copy_data(_context: Any, function: Any, connection: Any, slot: Any) -> Any:
    """Waits for a block, and puts its address into the slot; returns its size, -1 at the end, -2 after an error."""

    def write(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, *given = arguments
        answer = builder.call(_function(builder, address, _INT, cgutils.intp_t, cgutils.intp_t, _INT), [*given, ir.Constant(_INT, 0)])
        return builder.sext(answer, cgutils.intp_t)

    return types.int64(types.int64, types.int64, types.int64), write


@intrinsic  # type: ignore[untyped-decorator]
def _free(_context: Any, function: Any, block: Any) -> Any:
    def write(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.call(_function(builder, arguments[0], ir.VoidType(), cgutils.intp_t), [arguments[1]])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), write


@intrinsic  # type: ignore[untyped-decorator]
def _copy(_context: Any, out: Any, at: Any, address: Any, count: Any) -> Any:
    """Copies so many bytes of memory to `out[at]`."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into, place, source, size = arguments
        first = context.make_array(signature.args[0])(context, builder, into).data
        cgutils.raw_memcpy(builder, builder.gep(first, [place]), builder.inttoptr(source, cgutils.voidptr_t), size, 1)
        return context.get_dummy_value()

    return types.void(BYTES_OUT, types.int64, types.int64, types.int64), write


@kernel(types.int64(INT64S, types.int64, BYTES_OUT, types.int64), makes_arrays=False)
def copy_blocks(state: Int64s, slot: int, out: Bytes, start: int) -> int:
    """Waits for blocks and copies them, until the buffer is full or no more come.

    Args:
        state: `PLACES` numbers; those from SLOT on are changed.
        slot: Address of the one at SLOT.
        out: The buffer.
        start: Where its free bytes begin.

    Returns:
        Where they begin then; `state[SIZE]` is negative if no more blocks come.
    """
    at = start
    while at < out.size:
        if state[SLOT] == 0:
            state[TAKEN] = 0
            state[SIZE] = _get_copy_data(state[GET], state[CONNECTION], slot)
            if state[SIZE] < 0:
                break
        count = min(state[SIZE] - state[TAKEN], out.size - at)
        _copy(out, at, state[SLOT] + state[TAKEN], count)
        at += count
        state[TAKEN] += count
        if state[TAKEN] == state[SIZE]:
            _free(state[FREE], state[SLOT])
            state[SLOT] = 0
    return at


@kernel(types.void(INT64S), makes_arrays=False)
def forget_block(state: Int64s) -> None:
    """Gives a block that was not copied to its end back to libpq."""
    if state[SLOT] != 0:
        _free(state[FREE], state[SLOT])
        state[SLOT] = 0
