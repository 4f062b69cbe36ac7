"""Rows of a binary COPY by libpq's own function, from a real server: how a COPY ends early, what else the server says, other drivers."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from psycopg import pq

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.dev.servers import PostgresServer
from cdc_ops.errors import CdcError, SourceError, SourceInterruptedError, SourceUnreachableError
from cdc_ops.sources.base import NativeColumn
from cdc_ops.sources.postgres.native_reader import copying
from cdc_ops.sources.postgres.native_reader.wire import read_batches
from tests.integration.test_postgres_bounds import wait_until

COLUMNS = (
    NativeColumn(name="c1", carried="int", form="", stored="int", finish="same"),
    NativeColumn(name="c2", carried="string", form="", stored="string", finish="same"),
)
MANY = 1_000_000
"""Rows of which no socket holds all."""


def url(server: PostgresServer) -> str:
    return ConnectionUrl.from_parts("postgresql", server.host, server.port, server.user, server.password, "postgres").render()


def copied(server: PostgresServer, select: str) -> Iterator[pa.RecordBatch]:
    return read_batches(url(server), select, COLUMNS)


def begun(server: PostgresServer, text: str = "repeat('x', 100)") -> tuple[Iterator[pa.RecordBatch], int]:
    """Returns a COPY of which some rows are read and the server waits to send more, and the number of its session."""
    batches = copied(server, f"SELECT n, {text} FROM generate_series(1, {MANY}) AS n")
    assert next(batches).num_rows
    return batches, session(server)


def session(server: PostgresServer) -> int:
    [(number,)] = server.execute("SELECT pid FROM pg_stat_activity WHERE query LIKE 'COPY %' AND state = 'active'")
    return int(number)


def rest(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def assert_gone(server: PostgresServer) -> None:
    wait_until(lambda: not server.execute("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY %'"))


def test_psycopgs_own_library_is_found() -> None:
    functions = copying.libpq_functions(sys.modules[pq.PGconn.__module__])
    assert functions is not None
    assert all(functions)
    assert copying.libpq_functions(None) is None
    assert copying.libpq_functions(sys.modules[__name__]) is None


@pytest.mark.parametrize(
    ("end", "error", "text"),
    [
        ("SELECT pg_cancel_backend({})", SourceInterruptedError, "canceling statement due to user request"),
        ("SELECT pg_terminate_backend({})", SourceUnreachableError, "terminat"),
    ],
)
def test_a_copy_that_is_ended_in_the_middle_says_how(postgres: PostgresServer, end: str, error: type[CdcError], text: str) -> None:
    batches, number = begun(postgres)
    postgres.execute(end.format(number))
    with pytest.raises(error, match=text) as caught:
        rest(batches)
    assert caught.value.retryable
    assert_gone(postgres)


def test_an_error_of_a_late_row_is_the_servers_own(postgres: PostgresServer) -> None:
    batches = copied(postgres, f"SELECT n, (1 / ({MANY} - n))::text FROM generate_series(1, {MANY}) AS n")
    assert next(batches).num_rows
    with pytest.raises(SourceError, match="22012") as caught:
        rest(batches)
    assert "division by zero" in caught.value.why
    assert not caught.value.retryable


def test_a_limit_of_the_role_on_the_time_of_statements_does_not_end_it(postgres: PostgresServer) -> None:
    postgres.execute(f"ALTER ROLE {postgres.user} SET statement_timeout = '700ms'")
    try:
        with psycopg.connect(url(postgres)) as other, pytest.raises(psycopg.errors.QueryCanceled):
            other.execute("SELECT pg_sleep(2)")
        batches, _ = begun(postgres)
        time.sleep(1)
        assert rest(batches) > 0
    finally:
        postgres.execute(f"ALTER ROLE {postgres.user} RESET statement_timeout")


def test_a_statement_that_the_server_refuses_is_its_error(postgres: PostgresServer) -> None:
    with pytest.raises(SourceError, match="does not know a name"):
        list(copied(postgres, "SELECT 1, nothing"))


def test_a_reader_that_gives_up_leaves_no_session(postgres: PostgresServer) -> None:
    batches, _ = begun(postgres)
    batches.close()  # type: ignore[attr-defined]
    assert_gone(postgres)


def test_notices_between_rows_change_nothing(postgres: PostgresServer) -> None:
    postgres.execute(
        "CREATE OR REPLACE FUNCTION noisy(n int) RETURNS text LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE WARNING 'row % is here', n; RETURN 'é' || n; END $$"
    )
    rows = pa.Table.from_batches(list(copied(postgres, "SELECT n, noisy(n) FROM generate_series(1, 20000) AS n"))).to_pylist()
    assert rows == [{"c1": number, "c2": f"é{number}"} for number in range(1, 20_001)]


@pytest.mark.parametrize("rows", [0, 1, 50_000])
def test_rows_by_blocks_of_the_driver_are_the_same(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    select = f"SELECT n, NULLIF(repeat('x', n % 300), '') FROM generate_series(1, {rows}) AS n"
    found = list(copied(postgres, select))
    assert rest(iter(found)) == rows
    monkeypatch.setattr(copying, "libpq_functions", lambda module: None)
    assert list(copied(postgres, select)) == found
    batches, number = begun(postgres)
    postgres.execute(f"SELECT pg_cancel_backend({number})")
    with pytest.raises(SourceInterruptedError):
        rest(batches)
    assert_gone(postgres)


def test_a_row_that_is_larger_than_all_buffers_arrives(postgres: PostgresServer) -> None:
    size = 40_000_000
    batches = list(copied(postgres, f"SELECT n, repeat('ü', CASE n WHEN 2 THEN {size // 2} ELSE 3 END) FROM generate_series(1, 3) AS n"))
    assert [len(text.encode()) for batch in batches for text in batch.column(1).to_pylist()] == [6, size, 6]


def test_what_fills_is_of_no_use_behind_the_end(postgres: PostgresServer) -> None:
    import numpy as np

    with (
        psycopg.connect(url(postgres), autocommit=True) as connection,
        copying.copying(connection, "COPY (SELECT 1) TO STDOUT (FORMAT binary)") as fill,
    ):
        view = np.empty(1000, np.uint8)
        assert fill(view) == 11 + 8 + 2 + 4 + 4 + 2
        assert fill(view) == 0
        assert connection.execute("SELECT 7").fetchone() == (7,)


def test_a_connection_with_tls_is_read_the_same_way(server_folder: Path) -> None:
    key, certificate = server_folder / "server.key", server_folder / "server.crt"
    make = ["openssl", "req", "-new", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*make, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    options = ("-c", "ssl=on", "-c", f"ssl_cert_file={certificate}", "-c", f"ssl_key_file={key}")
    server = PostgresServer(server_folder / "postgres_tls", options=options)
    if user := server._run_as():
        shutil.chown(key, user)
    with server:
        batches = read_batches(
            f"{url(server)}?sslmode=require",
            f"SELECT n, (SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()) FROM generate_series(1, {MANY}) AS n",
            COLUMNS,
        )
        first = next(batches)
        assert set(first.column(1).to_pylist()) == {"true"}
        assert first.num_rows + rest(batches) == MANY
        batches, number = begun(server)
        server.execute(f"SELECT pg_terminate_backend({number})")
        with pytest.raises(SourceUnreachableError):
            rest(batches)
