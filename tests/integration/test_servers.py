"""The servers for tests: they start, answer, keep their data, and end - also when nobody is left to end them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy

from cdc_ops.dev.processes import PID_FILE, running_pid
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, MySQLServer, PostgresServer, stop_from_pidfile
from cdc_ops.errors import EnvironmentSetupError

KINDS = [MariaDBServer, MySQLServer, PostgresServer]


@pytest.fixture(autouse=True)
def _has_mysql(request: pytest.FixtureRequest) -> None:
    if "MySQL" in request.node.name:
        request.getfixturevalue("mysql")  # skips where there is none


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest, server_folder: Path) -> Iterator[DatabaseServer]:
    """A server that does not run: each test starts it and stops it. Its data is created once, which takes longer than a start."""
    made: DatabaseServer = request.param(server_folder / f"own-{request.param.name}")
    yield made
    made.stop()


def gone(pid: int, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/stat")
        try:
            if status.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False


def test_a_server_answers_keeps_its_data_and_ends(server: DatabaseServer) -> None:
    with server:
        pid = running_pid(server.folder)
        assert pid is not None
        server.create_database("shop")
        server.create_database("shop")
        engine = sqlalchemy.create_engine(server.url("shop"))
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20))")
            connection.exec_driver_sql("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
        engine.dispose()
        assert server.execute("SELECT id FROM orders WHERE note LIKE 'b%'", database="shop") == [(2,)]
    assert gone(pid)
    assert not (server.folder / PID_FILE).exists()
    with server:
        assert server.execute("SELECT count(*) FROM orders", database="shop") == [(2,)]


def test_a_server_listens_on_the_loopback_address_only(server: DatabaseServer) -> None:
    with server:
        listening = [
            line.split()[1]
            for table in ("tcp", "tcp6")
            for line in Path("/proc/net", table).read_text().splitlines()[1:]
            if line.split()[3] == "0A" and line.split()[1].endswith(f":{server.port:04X}")
        ]
    assert [address.split(":")[0] for address in listening] == ["0100007F"]


def test_passwords_are_neither_in_the_command_line_nor_readable_by_others(server: DatabaseServer) -> None:
    with server:
        command = Path(f"/proc/{running_pid(server.folder)}/cmdline").read_text()
    for password in (server.password, server.admin_password):
        assert password not in command
        assert password not in server.dump_log(1000)
    assert (server.folder / "server.json").stat().st_mode & 0o077 == 0


def test_a_server_can_be_found_and_stopped_through_its_folder(server: DatabaseServer) -> None:
    assert type(server).attach(server.folder) is None
    server.start()
    found = type(server).attach(server.folder)
    assert found is not None
    assert found.execute("SELECT 7") == [(7,)]
    with pytest.raises(EnvironmentSetupError, match="already runs"):
        type(server)(server.folder).start()
    found.stop()
    assert type(server).attach(server.folder) is None


def test_a_server_dies_with_its_starter_unless_it_may_outlive_it(server: DatabaseServer) -> None:
    code = (
        "import sys, time; from pathlib import Path; from cdc_ops.dev.servers import *\n"
        f"{type(server).__name__}(Path(sys.argv[1]), outlive=sys.argv[2] == 'outlive').start(); print('up', flush=True); time.sleep(600)"
    )
    folder = server.folder
    for mode in ("die", "outlive"):
        with subprocess.Popen([sys.executable, "-c", code, str(folder), mode], stdout=subprocess.PIPE, text=True) as starter:
            assert starter.stdout is not None
            assert starter.stdout.readline() == "up\n"
            pid = running_pid(folder)
            assert pid is not None
            starter.kill()
        if mode == "die":
            assert gone(pid)
        else:
            assert running_pid(folder) == pid
            assert stop_from_pidfile(folder)
            assert gone(pid)


def test_a_pid_file_that_names_a_stranger_stops_nobody(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        (tmp_path / PID_FILE).write_text(str(stranger.pid))
        assert not stop_from_pidfile(tmp_path)
        assert stranger.poll() is None
        os.kill(stranger.pid, signal.SIGTERM)


def test_an_option_that_the_server_refuses_shows_what_it_said(server_folder: Path) -> None:
    server = MariaDBServer(server_folder / "refusing", options=["--no-such-option=1"])
    with pytest.raises(EnvironmentSetupError, match="no-such-option"):
        server.start()
    assert running_pid(server.folder) is None
