"""Poolers between us and Postgres: one that keeps a session for each client is as good as the server, one that lends them is refused."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.dev.processes import free_port
from cdc_ops.dev.servers import PostgresServer
from cdc_ops.errors import SourceError
from cdc_ops.sources.base import open_source

PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")


@contextmanager
def pooler(server: PostgresServer, folder: Path, mode: str) -> Iterator[int]:
    """A pgbouncer before the server; yields its port."""
    assert PROGRAM
    folder.mkdir(mode=0o755)
    port, login = free_port(), server.user
    (folder / "users").write_text(f'"{login}" "{server.password}"\n')
    (folder / "ini").write_text(
        f"[databases]\npostgres = host={server.host} port={server.port} dbname=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users\n"
        f"pool_mode = {mode}\nignore_startup_parameters = extra_float_digits\n"
    )
    user = server._run_as()  # it refuses to run as root, like the server
    if user:
        for path in (folder, folder / "ini", folder / "users"):
            shutil.chown(path, user)
    process = subprocess.Popen([PROGRAM, "-q", str(folder / "ini")], user=user, cwd="/", stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with suppress(psycopg.OperationalError), psycopg.connect(host="127.0.0.1", port=port, user=login, dbname="postgres"):
                break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


@pytest.mark.skipif(PROGRAM is None, reason="no pgbouncer on this machine")
@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_that_lends_sessions_is_refused_by_name(postgres: PostgresServer, server_folder: Path, mode: str) -> None:
    with pooler(postgres, server_folder / f"pooler-{mode}", mode) as port:
        url = ConnectionUrl.from_parts("postgresql", "127.0.0.1", port, postgres.user, postgres.password, "postgres").render()
        with closing(open_source(SourceConfig(kind=SourceKind.POSTGRES, connection="c"), url)) as source:
            if mode == "session":
                assert source.now().tzinfo is not None
                return
            with pytest.raises(SourceError, match="a pooler that lends out the server's sessions") as caught:
                source.now()
    assert "pool_mode = session" in caught.value.next
