"""The common part of database servers for tests and the demo: a folder, two logins, start, stop; outside the data path."""

import abc
import json
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import sqlalchemy
import tenacity
from sqlalchemy.pool import NullPool

from cdc_ops.dev.processes import LOG_FILE, ServerProcess, free_port, running_pid
from cdc_ops.errors import EnvironmentSetupError

ACCESS_FILE = "server.json"
START_TIMEOUT_SECONDS = 90.0


class DatabaseServer(abc.ABC):
    """One database server in one folder.

    A server that is started again in the same folder has the same data and passwords, and another port.

    Args:
        folder: Holds data, log, pid file and logins; created if it is missing.
        options: Further options for the server's command line.
        outlive: True if the server keeps running after the process that started it; then `stop_from_pidfile` ends it.
    """

    name: ClassVar[str]
    driver: ClassVar[str]
    admin: ClassVar[str]
    default_database: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    host = "127.0.0.1"
    user = "cdc"

    def __init__(self, folder: Path, *, options: Sequence[str] = (), outlive: bool = False) -> None:
        self.folder = folder.resolve()
        self.port = 0
        self.password = _new_password()
        self.admin_password = _new_password()
        self._options = tuple(options)
        self._engines: dict[str, sqlalchemy.Engine] = {}
        self._process = ServerProcess(self.name, self.folder, stop_signal=self.stop_signal, outlive=outlive)

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return self.folder / "data"

    @classmethod
    @abc.abstractmethod
    def ensure_installed(cls) -> Path:
        """Returns the path of the server's programs; fetches or installs them if they are missing.

        Raises:
            EnvironmentSetupError: the installation is not possible; the error has the command to run manually.
        """

    def start(self) -> Self:
        """Starts the server and waits until it answers. The first start in a folder creates the data.

        Raises:
            EnvironmentSetupError: the server cannot be installed, or does not start.
        """
        if running_pid(self.folder):
            raise EnvironmentSetupError(
                f"{self.name} already runs in {self.folder}",
                why="an earlier process started it and did not stop it",
                data="nothing was touched",
                next="use attach(folder), or stop_from_pidfile(folder)",
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self._read_access()
        self.port = free_port()
        self._write_access()
        if not self.data.exists():
            print(f"creating a {self.name} server in {self.folder} ...", file=sys.stderr, flush=True)
            self._create_data()
        self._process.start(self._command(), user=self._run_as())
        try:
            self._wait_until_ready()
            self._prepare()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops the server; its data stays."""
        self._process.stop()

    @classmethod
    def attach(cls, folder: Path) -> Self | None:
        """Returns the server that another process started in this folder, or None if none runs there."""
        server = cls(folder)
        if running_pid(server.folder) is None or not server._read_access():
            return None
        return server

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def url(self, database: str | None = None, *, as_admin: bool = False) -> str:
        """Returns the SQLAlchemy URL of a database, with the quoted password of `cdc`, or of the administrator."""
        login, password = (self.admin, self.admin_password) if as_admin else (self.user, self.password)
        address = sqlalchemy.URL.create(self.driver, login, password, self.host, self.port, database or self.default_database)
        return address.render_as_string(hide_password=False)

    def execute(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Runs the statements as the administrator, each in its own transaction, and returns the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with self._engine(self.url(database, as_admin=True)).connect() as connection:
            for statement in statements:
                result = connection.exec_driver_sql(statement)
                rows = [tuple(row) for row in result] if result.returns_rows else []
        return rows

    def _engine(self, url: str) -> sqlalchemy.Engine:
        """Returns an engine for a URL without a connection pool; the server's version and modes are asked once per URL."""
        if url not in self._engines:
            options = {"isolation_level": "AUTOCOMMIT", "no_parameters": True}  # a % in a statement is an ordinary character
            self._engines[url] = sqlalchemy.create_engine(url, poolclass=NullPool, execution_options=options)
        return self._engines[url]

    @abc.abstractmethod
    def create_database(self, name: str) -> None:
        """Creates a database with all rights for `cdc`, unless it exists."""

    def dump_log(self, lines: int = 40) -> str:
        """Returns the last lines of the server's log."""
        return self._process.log_tail(lines)

    @abc.abstractmethod
    def _create_data(self) -> None:
        """Creates the server's data before the first start."""

    @abc.abstractmethod
    def _command(self) -> list[str]:
        """Returns the command line of the server, without passwords."""

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Sets up the logins, after each start of the server."""

    def _run_as(self) -> str | None:
        return None

    def _wait_until_ready(self) -> None:
        late = tenacity.stop_after_delay(START_TIMEOUT_SECONDS)
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(sqlalchemy.exc.OperationalError),
            stop=lambda state: late(state) or self._process.exit_code() is not None,
            wait=tenacity.wait_fixed(0.1),
            reraise=True,
        )
        try:
            retrying(self.execute, "SELECT 1")
        except sqlalchemy.exc.OperationalError as error:
            ended = self._process.exit_code()
            reason = f"it ended with exit code {ended}" if ended is not None else f"it does not answer: {error.orig}"
            raise EnvironmentSetupError(
                f"{self.name} did not start in {self.folder}",
                why=f"{reason}\n{self.dump_log(15)}",
                data="nothing was read or written",
                next=f"read {self.folder / LOG_FILE}",
            ) from None

    def _write_access(self) -> None:
        path = self.folder / ACCESS_FILE
        path.touch(mode=0o600)
        path.write_text(json.dumps({"port": self.port, "password": self.password, "admin_password": self.admin_password}), "ascii")

    def _read_access(self) -> bool:
        path = self.folder / ACCESS_FILE
        if not path.exists():
            return False
        known = json.loads(path.read_text("ascii"))
        self.port, self.password, self.admin_password = known["port"], known["password"], known["admin_password"]
        return True


def _new_password() -> str:
    # The middle has characters that break careless quoting in URLs, property files and shells, but not in SQL literals.
    return f"{secrets.token_urlsafe(9)}@:/%#+& ?{secrets.token_urlsafe(9)}"
