"""The ledger's database: which one a URL means, its transactions, and its failures in our words. No password leaves this module.

A write is serial: SQLite takes its write lock at BEGIN; on servers every write locks the source table's row in `cdc_tables` first, and one
of what watchers have told a row of its own. The two isolation levels are set, not inherited: writes decide by what is committed *now*,
reads by one snapshot.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import tenacity
from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import NullPool

from cdc_ops.errors import CdcError, ConfigError, LedgerUnavailableError, StateError

PATIENCE: Final = timedelta(seconds=30)
"""How long a statement waits for another's lock before the ledger counts as unavailable."""

_WRITES: Final = "cdc_ops_writes"
_DRIVERS: Final = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_REFUSED_MYSQL: Final = (1044, 1045, 1049, 1698)  # no right, wrong login, no such database, login by another way
_REFUSED_POSTGRES: Final = (
    *("authentication failed", "no password supplied", "no pg_hba.conf entry", "permission denied", "does not exist"),
    "invalid connection option",
)


class Database:
    """One engine with its pool, for reading or for both.

    Args:
        url: SQLAlchemy URL of SQLite, Postgres, MySQL or MariaDB; where it names no driver, the one that cdc-ops installs is taken.
        read_only: Whether the database itself shall refuse every write; then a missing SQLite file is not created but seems empty.
        patience: How long a statement waits for a lock.

    Raises:
        ConfigError: the URL cannot be meant.
    """

    def __init__(self, url: str, *, read_only: bool, patience: timedelta = PATIENCE) -> None:
        self._url = _parsed(url)
        self.safe_url = _safe_url(self._url)
        self._engine = _engine(self._url, read_only, patience)

    @property
    def kind(self) -> str:
        """`sqlite`, `postgresql` or `mysql` (which includes MariaDB)."""
        return self._engine.dialect.name

    @property
    def name(self) -> str:
        """The database's name; for SQLite the file's path."""
        return self._url.database or ""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One transaction that only reads."""
        with self._translated(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction that may write; it is committed unless an error leaves the block."""
        with self._translated(), self._engine.connect() as connection:
            connection.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection

    def close(self) -> None:
        """Closes all connections."""
        self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, UnicodeError, OSError) as error:
            raise _translate(error, self.safe_url) from None  # a driver's error can carry what it was called with


def _parsed(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise _wrong_url("SQLAlchemy cannot parse the ledger's URL.") from None
    backend, _, driver = url.drivername.partition("+")
    backend = {"mariadb": "mysql", "postgres": "postgresql"}.get(backend, backend)
    if backend not in ("sqlite", "postgresql", "mysql"):
        raise _wrong_url(f"A ledger in {backend!r} is not supported.")
    if "@" in (url.host or ""):
        raise _wrong_url("The ledger's URL has more than one '@'.")
    database = url.database or ""
    if backend == "sqlite" and (database in ("", ":memory:") or database.startswith("file:")):
        raise _wrong_url("A SQLite ledger needs the path of a file.")
    return url.set(drivername=f"{backend}+{driver}" if driver else _DRIVERS.get(backend, backend))


def _wrong_url(what: str) -> ConfigError:
    return ConfigError(
        what,
        data="Nothing was read or written.",
        next="Write sqlite:////path/ledger.db, postgresql://user:password@host/database or mysql://user:password@host/database; "
        "in a password write '@' as %40, '/' as %2F and ':' as %3A.",
    )


def _safe_url(url: URL) -> str:
    return url.set(query={}).render_as_string(hide_password=True)


def _engine(url: URL, read_only: bool, patience: timedelta) -> Engine:
    options: dict[str, Any] = {"hide_parameters": True}
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite_engine(url, read_only, patience, options)
        options |= {"pool_pre_ping": True, "isolation_level": "REPEATABLE READ" if read_only else "READ COMMITTED"}
        if read_only:
            options["execution_options"] = {"postgresql_readonly": True}
        engine = create_engine(url, connect_args={"connect_timeout": 10}, **options)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise _wrong_url(f"The driver {url.drivername!r} of the ledger's URL is not installed: {error}.") from None
    seconds = max(round(patience.total_seconds()), 1)

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Dialect, _: object, arguments: list[Any], options: dict[str, Any]) -> Any:
        """Connects; an option that the driver does not know is a ConfigError."""
        try:
            return dialect.connect(*arguments, **options)
        except TypeError as error:
            raise _wrong_url(f"The driver {url.drivername!r} of the ledger's URL does not know an option: {error}.") from None

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        """Limits waits for locks to `patience`, and makes readers read-only on MySQL."""
        with connection.cursor() as cursor:
            if engine.dialect.name == "mysql":
                cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {seconds}")
                cursor.execute(f"SET SESSION TRANSACTION {'READ ONLY' if read_only else 'READ WRITE'}")
            else:
                cursor.execute(f"SET lock_timeout = '{seconds}s'")
        connection.commit()

    return engine


def _sqlite_engine(url: URL, read_only: bool, patience: timedelta, options: dict[str, Any]) -> Engine:
    path = Path(url.database or "").absolute()

    def connect() -> sqlite3.Connection:
        """Opens the file; for a reader a missing ledger is an empty one."""
        if read_only and not path.exists():
            return sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
        target = f"{path.as_uri()}?mode={'ro' if read_only else 'rwc'}"
        seconds = patience.total_seconds()
        return sqlite3.connect(target, uri=True, timeout=seconds, check_same_thread=False, isolation_level=None)

    # Without a pool, a reader sees a ledger that was removed and created again.
    engine = create_engine(url, creator=connect, **options, **({"poolclass": NullPool} if read_only else {}))

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        """Makes readers read-only; writers get foreign keys and the write-ahead log."""
        if read_only:
            connection.execute("PRAGMA query_only = ON")
            return
        connection.execute("PRAGMA foreign_keys = ON")
        _write_ahead(connection, patience)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        """Takes the write lock at BEGIN, so that a writer waits there and nowhere later."""
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(connection: sqlite3.Connection, patience: timedelta) -> None:
    """Switches to the write-ahead log. SQLite does not wait for a lock when it switches, so we do."""
    for attempt in tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(sqlite3.OperationalError),
        stop=tenacity.stop_after_delay(patience),
        wait=tenacity.wait_random(0.01, 0.05),
        reraise=True,
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL")


def _translate(error: Exception, safe_url: str) -> CdcError:
    cause = getattr(error, "orig", None) or error
    why = " ".join(str(cause).split()) or type(cause).__name__
    if isinstance(error, DBAPIError) and _refused(cause):
        return ConfigError(
            f"The ledger {safe_url} refuses the login.",
            why=why,
            data="Nothing was read or written there; tables and watermarks stay.",
            next="Correct the login, its rights or the database's name in the ledger's URL.",
        )
    if isinstance(error, (OperationalError, InterfaceError, PoolTimeoutError, OSError)) or getattr(error, "connection_invalidated", False):
        return LedgerUnavailableError(
            f"The ledger {safe_url} does not answer.",
            why=why,
            data="The last write happened completely or not at all; repeating it changes nothing.",
            next="Retry. If the error stays, check that the server runs, the disk has space, the file's folder is writable, and no other"
            " process holds its lock.",
        )
    return StateError(
        f"The ledger {safe_url} refused a statement.",
        why=why,
        data="The statement's transaction was rolled back.",
        next="If the ledger is damaged, move it away and restore it from the Delta tables: cdc-ops state rebuild",
    )


def _refused(cause: BaseException) -> bool:
    """True for a login or a database that will not be there at the next try either."""
    if type(cause).__module__.startswith("pymysql"):
        return bool(cause.args) and cause.args[0] in _REFUSED_MYSQL
    if type(cause).__module__.startswith("psycopg"):
        # Failing to connect has no code and no class of its own; what fails later has.
        return type(cause).__name__ in ("OperationalError", "ProgrammingError") and any(text in str(cause) for text in _REFUSED_POSTGRES)
    return False
