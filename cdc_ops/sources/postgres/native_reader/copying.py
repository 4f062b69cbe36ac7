"""The bytes of a COPY of Postgres, as psycopg's libpq hands them out: end to end in large blocks, by a compiled loop. Spark-free."""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import numpy as np
import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from cdc_ops.decode.compiler import Bytes
from cdc_ops.decode.wire.libpq_blocks import CONNECTION, FREE, GET, PLACES, SIZE, SLOT, copy_blocks, forget_block
from cdc_ops.decode.wire.postgres_rows import Fill, fill_from

_END: Final = -1


@contextmanager
def copying(connection: psycopg.Connection, statement: str) -> Iterator[Fill]:
    """Begins a COPY, and yields what fills a buffer with the bytes that it sends.

    A COPY that is not read to its end leaves a connection that is only to be closed.

    Raises:
        psycopg.Error: the server refuses, or ends the COPY early; also within the block, from what fills.
    """
    functions = libpq_functions(sys.modules.get(type(connection.pgconn).__module__))
    if functions is None:
        with _nothing_old_collected(), connection.cursor() as cursor, cursor.copy(statement.encode()) as blocks:
            yield fill_from(blocks)
        return
    copied = _Copied(connection.pgconn, *functions)
    copied.begin(statement)
    try:
        yield copied.fill
    finally:
        forget_block(copied.state)


def libpq_functions(module: ModuleType | None) -> tuple[int, int] | None:
    """Returns the addresses of `PQgetCopyData` and `PQfreemem` of the very library that psycopg calls; None if they are not to be had.

    Args:
        module: That with psycopg's connections. A compiled one is linked to its libpq, so what is looked up through it is what it uses.
    """
    try:
        library = ctypes.CDLL(str(module.__file__)) if module is not None else None
        if library is None or library.PQlibVersion() != pq.version():
            return None
        get, free = (ctypes.cast(function, ctypes.c_void_p).value for function in (library.PQgetCopyData, library.PQfreemem))
    except (OSError, AttributeError):  # psycopg in pure Python, or one that hides its library
        return None
    return (get, free) if get and free else None


class _Copied:
    """A COPY that was begun.

    Args:
        connection: psycopg's own.
        get: Address of `PQgetCopyData`.
        free: Address of `PQfreemem`.
    """

    def __init__(self, connection: Any, get: int, free: int) -> None:
        self._connection = connection
        self.state = np.zeros(PLACES, np.int64)
        self.state[GET], self.state[FREE], self.state[CONNECTION] = get, free, connection.pgconn_ptr
        self._slot = int(self.state.ctypes.data) + SLOT * self.state.itemsize

    def begin(self, statement: str) -> None:
        result = self._connection.exec_(statement.encode())
        if result.status != pq.ExecStatus.COPY_OUT:
            raise error_from_result(result)

    def fill(self, view: Bytes) -> int:
        """Fills a buffer, and returns how many bytes it has put there: fewer than there is room for only at the end."""
        if self.state[SIZE] < 0:
            return 0
        count = int(copy_blocks(self.state, self._slot, view, 0))
        if self.state[SIZE] == _END:
            self._finish()
        elif self.state[SIZE] < 0:
            raise psycopg.OperationalError(self._connection.get_error_message())
        return count

    def _finish(self) -> None:
        """Takes what the server says behind the rows: that it has ended the COPY, or an error."""
        done = False
        while (result := self._connection.get_result()) is not None:
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise error_from_result(result)
            done = True
        if not done:
            raise psycopg.OperationalError("the server has not ended the COPY")


@contextmanager
def _nothing_old_collected() -> Iterator[None]:
    """Keeps Python's garbage collector from what is there already.

    The driver makes some objects for each row, so the collector runs again and again: over all objects of numba and pyarrow that takes more
    than twice the time of reading and decoding.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
