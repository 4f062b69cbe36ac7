"""Reads the rows of a statement from a MySQL or MariaDB server's own protocol: PyMySQL logs in, compiled functions decode. Spark-free.

Called in Spark's tasks by the native reader, in a process of its own. Login, TLS and session settings are those of the plan step.
"""

import select
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from typing import Any, Final

import pyarrow as pa
import pymysql
from pymysql.connections import MySQLResult
from pymysql.constants import FIELD_TYPE
from pymysql.constants.COMMAND import COM_QUERY
from pymysql.err import raise_mysql_exception

from cdc_ops.decode.wire.columns import WireColumn
from cdc_ops.decode.wire.mysql_rows import MySQLRows
from cdc_ops.sources.base import NativeColumn
from cdc_ops.sources.mysql.session import READ_TIMEOUT_SECONDS, Address, connect, source_error
from cdc_ops.sources.mysql.wire_dates import day_number, instant_micros, wall_clock_micros
from cdc_ops.sources.sql.result_columns import check_result
from cdc_ops.sources.sql.session import ended_early, unreadable

_DAYS_BEFORE_1970: Final = 719528
_PIECE: Final = 256 << 10
_MOMENT_MILLISECONDS: Final = 5
_FORMS: Final[dict[str, dict[str, Any]]] = {
    "": {},
    "days": {"read": "date", "offset": _DAYS_BEFORE_1970, "exact": day_number},
    "wall_clock": {"read": "timestamp_ntz", "exact": wall_clock_micros},
    "instant": {"read": "timestamp_ntz", "exact": instant_micros},
}

_BYTES: Final = 63
"""The number of the character set of what is no text."""
_MOMENTS: Final = {"days": FIELD_TYPE.DATE, "wall_clock": FIELD_TYPE.DATETIME, "instant": FIELD_TYPE.TIMESTAMP}
_WHOLE: Final = frozenset((FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.INT24, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.YEAR))
_NUMBERS: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), _WHOLE),  # as text a number is exact, or too large and refused
    **dict.fromkeys(("float", "double"), frozenset((FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE))),
    "decimal": _WHOLE | {FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL},
}
_TEXTS: Final = frozenset(
    (
        *(FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING, FIELD_TYPE.ENUM, FIELD_TYPE.SET, FIELD_TYPE.JSON),
        *(FIELD_TYPE.TINY_BLOB, FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB, FIELD_TYPE.BLOB, FIELD_TYPE.GEOMETRY),
        242,  # VECTOR, which PyMySQL does not know
    )
)


def read_batches(url: str, statement: str, columns: Iterable[NativeColumn]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one statement, over a connection of its own.

    Raises:
        SchemaChangedError: the columns are not of the types that were planned.
        CdcError: the server cannot be reached, refuses, or ends the rows early; or a value is none of its column.
    """
    address, wanted = Address(url), tuple(columns)
    wire = tuple(WireColumn(name=column.name, carried=column.carried, **_FORMS[column.form]) for column in wanted)
    connection = None
    try:
        connection = connect(address)
        yield from MySQLRows(wire, *_begin(connection, statement, address.place, wanted), raise_mysql_exception)
    except (pymysql.MySQLError, RuntimeError) as error:
        raise source_error(error, address) from None
    except OSError as error:
        raise ended_early(address.place, str(error)) from None
    except (ValueError, ArithmeticError) as error:
        raise unreadable(address.place, error) from None
    finally:
        if connection is not None:
            connection._force_close()


def _begin(connection: Any, statement: str, place: str, columns: tuple[NativeColumn, ...]) -> tuple[Callable[[memoryview], int], int]:
    """Sends a statement; returns what reads the rows that follow, and the number of their first packet.

    PyMySQL has no public way to its bytes; what is used here is checked by the tests of its pinned version.
    """
    connection._execute_command(COM_QUERY, statement)
    result: Any = MySQLResult(connection)
    result.init_unbuffered_query()
    result.unbuffered_active = False  # nobody is to read the rest when the result goes away
    check_result(place, columns, [(field.type_code, field.charsetnr == _BYTES) for field in result.fields or ()], _is_read)
    connection._sock.settimeout(READ_TIMEOUT_SECONDS)
    return filler(connection._rfile, connection._sock), connection._next_seq_id


def _is_read(column: NativeColumn, sent: tuple[int, bool]) -> bool:
    """True if values come as the text, or the bytes, of the planned type."""
    code, is_bytes = sent
    if column.form:
        return code == _MOMENTS[column.form]
    kind = column.carried.partition("(")[0]
    if kind in ("string", "binary"):
        return code in _TEXTS and is_bytes == (kind == "binary")
    return code in _NUMBERS[kind]


def filler(stream: BufferedReader, connection: socket.socket) -> Callable[[memoryview], int]:
    """Returns what reads the bytes that there are into a buffer, and waits only if there are none, or for a moment until they are many.

    What came with the description of the columns is in the stream's own buffer. Python's `readinto1` would copy it and then wait for more,
    which for a small result never comes.

    Args:
        stream: PyMySQL's, of which nobody reads any more.
        connection: The socket below it.
    """
    more = stream.readinto1 if isinstance(connection, ssl.SSLSocket) else _pieces(connection)
    waiting = True

    def fill(view: memoryview) -> int:
        nonlocal waiting
        if not waiting:
            return more(view)
        waiting = False
        found = stream.read(len(stream.peek()))
        view[: len(found)] = found
        return len(found)

    return fill


def _pieces(connection: socket.socket) -> Callable[[memoryview], int]:
    """Returns what waits for a large piece, at most for a moment, then for anything: servers send 16 KB at a time."""
    readable = select.poll()
    readable.register(connection, select.POLLIN)

    def wake_for(size: int) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def read(view: memoryview) -> int:
        wake_for(min(_PIECE, len(view)))
        readable.poll(_MOMENT_MILLISECONDS)
        wake_for(1)
        return connection.recv_into(view)

    return read
