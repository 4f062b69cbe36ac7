"""Reads the rows of a binary COPY from Postgres: psycopg logs in, its libpq hands out blocks, compiled functions decode. Spark-free.

Called in Spark's tasks by the native reader, in a process of its own. Login, TLS and session settings are those of the plan step.
"""

from collections.abc import Iterable, Iterator

import psycopg
import pyarrow as pa

from cdc_ops.decode.program import Field, Program
from cdc_ops.decode.wire.postgres_rows import PostgresRows
from cdc_ops.sources.base import NativeColumn
from cdc_ops.sources.postgres.copying import copying
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
    connection = None
    try:
        connection = _connect(address)
        connection.execute(SESSION_SETTINGS)
        with copying(connection, statement) as fill:
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
