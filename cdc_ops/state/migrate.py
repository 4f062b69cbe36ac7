"""Brings a ledger to the version that this code needs, once, whoever comes first.

    url --migrate--> ledger at `schema.VERSION`

A ledger that is up to date costs one query; Alembic is imported only for one that is not.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import Column, Connection, MetaData, String, Table, func, inspect, select

from cdc_ops.errors import LedgerUnavailableError, StateError
from cdc_ops.state.db.database import Database
from cdc_ops.state.db.schema import VERSION, VERSION_TABLE

_LOCK_NUMBER: Final = 0x6364635F6F7073  # "cdc_ops"
_LOCK_SECONDS: Final = 60
_one_alembic = threading.Lock()  # its context belongs to the process, not to a thread
_version = Table(VERSION_TABLE, MetaData(), Column("version_num", String(32)))


def migrate(url: str) -> None:
    """Creates or upgrades the ledger at a URL; several processes may do so at once.

    Raises:
        StateError: the ledger is newer than this code.
        LedgerUnavailableError: its database does not answer.
    """
    database = Database(url, read_only=False)
    try:
        upgrade(database)
    finally:
        database.close()


def upgrade(database: Database) -> None:
    """Does what `migrate` says on an open database."""
    with database.read() as connection:
        version = ledger_version(connection)
    if is_current(version, database.safe_url):
        return
    with _alone(database), database.write() as connection:  # in this order: what is migrated is committed before the next one looks
        if not is_current(ledger_version(connection), database.safe_url):
            _run_alembic(connection)


def ledger_version(connection: Connection) -> str | None:
    """Returns the ledger's version, None if there is no ledger yet."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version: str | None = connection.scalar(select(_version.c.version_num))
    return version


def is_current(version: str | None, safe_url: str) -> bool:
    """True if a ledger has the version that this code needs, False if it is older or not there.

    Raises:
        StateError: it is newer.
    """
    if version is not None and version > VERSION:
        raise StateError(
            f"The ledger {safe_url} has version {version}; this cdc-ops knows up to {VERSION}.",
            why="A newer cdc-ops upgraded it, and this version could misread its rows.",
            data="Nothing was read or written.",
            next="Install the same cdc-ops version everywhere.",
        )
    return version == VERSION


def outdated(version: str, safe_url: str) -> LedgerUnavailableError:
    """Returns the error for a reader of a ledger that waits to be upgraded: readers never do it."""
    return LedgerUnavailableError(
        f"The ledger {safe_url} has version {version}; this cdc-ops reads version {VERSION}.",
        why="An older cdc-ops wrote it, and no run has started since the upgrade.",
        data="Nothing was read or written.",
        next="The next run upgrades it.",
    )


def _run_alembic(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "cdc_ops.state:migrations")
    config.attributes["connection"] = connection
    with _one_alembic:
        command.upgrade(config, "head")


@contextmanager
def _alone(database: Database) -> Iterator[None]:
    """Keeps other processes from migrating meanwhile, by a connection of its own; SQLite's write transaction does so by itself."""
    if database.kind == "sqlite":
        yield
        return
    with database.write() as connection:
        if database.kind == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK_NUMBER)))
            yield
            return
        # MySQL commits at every CREATE, so the lock is the session's; its name is one for the whole server.
        name = f"cdc_ops:{hashlib.sha256(database.name.encode()).hexdigest()[:32]}"
        if connection.scalar(select(func.get_lock(name, _LOCK_SECONDS))) != 1:
            raise LedgerUnavailableError(f"Another process has been migrating the ledger {database.safe_url} for {_LOCK_SECONDS} s.")
        try:
            yield
        finally:
            connection.execute(select(func.release_lock(name)))
