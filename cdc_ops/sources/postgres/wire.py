"""Reads the rows of a binary COPY from Postgres: psycopg logs in and hands out blocks, a compiled function decodes. Spark-free.

Called in Spark's tasks by the native reader, in a process of its own. Login, TLS and session settings are those of the plan step.
"""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import psycopg
import pyarrow as pa

from cdc_ops.decode.program import Field, Program
from cdc_ops.decode.wire.postgres_rows import PostgresRows
from cdc_ops.sources.base import NativeColumn
from cdc_ops.sources.postgres.session import SESSION_SETTINGS, PostgresAddress, source_error
from cdc_ops.sources.sql.session import ended_early, unreadable


def read_batches(url: str, statement: str, columns: Iterable[NativeColumn]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one COPY, over a connection of its own.

    Raises:
        CdcError: the server cannot be reached, refuses, or ends the rows early; or a value is none of its column.
    """
    address, wanted = PostgresAddress(url), tuple(columns)
    program = Program.of(Field.of(column.name, column.carried) for column in wanted)
    forms = tuple(column.form for column in wanted)
    try:
        with _connect(address) as connection, connection.cursor() as cursor:
            cursor.execute(SESSION_SETTINGS)
            with _nothing_old_collected(), cursor.copy(statement.encode()) as blocks:
                yield from PostgresRows(program, forms, blocks)
    except psycopg.Error as error:
        raise source_error(error, address) from None
    except OSError as error:
        raise ended_early(address.place, str(error)) from None
    except (ValueError, ArithmeticError) as error:
        raise unreadable(address.place, error) from None


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


def _connect(address: PostgresAddress) -> psycopg.Connection:
    url = address.engine_url()
    return psycopg.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        password=url.password,
        dbname=address.database,
        client_encoding="utf8",
        autocommit=True,
        **address.engine_options(),
    )
