"""Reads the rows of a SELECT by a binary COPY from Postgres: psycopg logs in, its libpq hands out blocks, compiled functions decode.

Called in Spark's tasks by the native reader, in a process of its own; Spark-free. Login, TLS and session settings are those of the plan
step.

A COPY takes its snapshot before it waits for the locks of its tables. If the one that it waits for writes a table anew, all its rows are
newer than that snapshot, and the COPY finds none. So the tables are locked first, by a statement before it in the same transaction.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import psycopg
import pyarrow as pa

from cdc_ops.decode.program import Field, Program
from cdc_ops.decode.wire.postgres_rows import PostgresRows
from cdc_ops.sources.base import NativeColumn
from cdc_ops.sources.postgres.native_reader.copying import copying
from cdc_ops.sources.postgres.session import PostgresAddress, source_error
from cdc_ops.sources.postgres.settings import SESSION_SETTINGS, TRANSACTION_SETTINGS
from cdc_ops.sources.sql.result_columns import check_result
from cdc_ops.sources.sql.session import ended_early, unreadable

_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY"
"""Each statement has a snapshot of its own: that of the COPY is newer than the locks, whatever isolation the server has as its default."""

_TEXTS: Final = frozenset((19, 25, 1042, 1043))
_SENT: Final[dict[tuple[str, str], frozenset[int]]] = {
    ("boolean", ""): frozenset((16,)),
    ("smallint", ""): frozenset((21,)),
    ("int", ""): frozenset((23,)),
    ("int", "days"): frozenset((1082,)),
    ("bigint", ""): frozenset((20,)),
    ("float", ""): frozenset((700,)),
    ("double", ""): frozenset((701,)),
    ("decimal", ""): frozenset((1700,)),
    ("string", ""): _TEXTS,
    ("binary", ""): frozenset((17,)),
}
"""Postgres' numbers of the types whose bytes are read as what travels in a form: those of other types may have the same length."""
_MOMENTS: Final = {"timestamp_ntz": frozenset((1114,)), "timestamp": frozenset((1184,))}
"""The same of moments in microseconds, by the type in which they are stored."""


def read_batches(url: str, statement: str, columns: Iterable[NativeColumn]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one SELECT, over a connection of its own: all that are committed once its tables are locked.

    Raises:
        SchemaChangedError: the columns are not of the types that were planned.
        CdcError: the server cannot be reached, refuses, or ends the rows early; or a value is none of its column.
    """
    address, wanted = PostgresAddress(url), tuple(columns)
    program = Program.of(Field.of(column.name, column.carried) for column in wanted)
    forms = tuple(column.form for column in wanted)
    connection = None
    try:
        connection = _connect(address)
        connection.execute(TRANSACTION_SETTINGS)
        connection.execute(SESSION_SETTINGS)
        connection.execute(_BEGIN)
        _lock(connection, address.place, statement, wanted)
        with copying(connection, f"COPY ({statement}) TO STDOUT (FORMAT binary)") as fill:
            yield from PostgresRows(program, forms, fill)
    except psycopg.Error as error:
        raise source_error(error, address) from None
    except OSError as error:
        raise ended_early(address.place, str(error)) from None
    except (ValueError, ArithmeticError) as error:
        raise unreadable(address.place, error) from None
    finally:
        if connection is not None:
            connection.close()


def _lock(connection: psycopg.Connection, place: str, statement: str, columns: tuple[NativeColumn, ...]) -> None:
    """Waits until nobody alters the tables of a SELECT, keeps it so until the transaction ends, and compares the columns with the plan.

    To ask for none of its rows takes the same locks as to read them all, of partitions and the tables of a view too, and needs no right
    that the read does not need: LOCK TABLE wants the whole table's.
    """
    found = connection.execute(f"{statement} LIMIT 0".encode()).description or ()
    check_result(place, columns, [one.type_code for one in found], _is_read)


def _is_read(column: NativeColumn, sent: int) -> bool:
    if column.form == "micros":
        return sent in _MOMENTS[column.stored]
    return sent in _SENT[column.carried.partition("(")[0], column.form]


def _connect(address: PostgresAddress) -> psycopg.Connection:
    url = address.engine_url()
    return psycopg.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=url.password,
        dbname=address.database,
        autocommit=True,
        **address.engine_options(),
    )
