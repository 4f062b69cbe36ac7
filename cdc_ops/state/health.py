"""How a ledger stands, for `cdc-ops check`: nothing is created, upgraded or written."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import update

from cdc_ops.state.db import leases
from cdc_ops.state.db.database import Database
from cdc_ops.state.db.schema import tables
from cdc_ops.state.migrate import is_current, ledger_version


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHealth:
    """What a ledger answers.

    Args:
        safe_url: Its URL without password.
        version: The version of its tables, None if there is no ledger yet.
        current: False if the next run creates or upgrades it.
        now: Its clock, UTC.
    """

    safe_url: str
    version: str | None
    current: bool
    now: datetime


def ledger_health(url: str) -> LedgerHealth:
    """Connects to a ledger, and tries whether it may be written: by an update that no row matches.

    Raises:
        ConfigError: the URL cannot be meant, or the database refuses the login.
        StateError: the ledger is newer than this code, or refuses to be written.
        LedgerUnavailableError: its database does not answer.
    """
    reader = Database(url, read_only=True)
    try:
        with reader.read() as connection:
            version, now = ledger_version(connection), leases.clock(connection)
    finally:
        reader.close()
    current = is_current(version, reader.safe_url)
    if current:
        writer = Database(url, read_only=False)
        try:
            with writer.write() as connection:
                connection.execute(update(tables).where(tables.c.token < 0).values(token=0, purpose=""))
        finally:
            writer.close()
    return LedgerHealth(safe_url=reader.safe_url, version=version, current=current, now=now)
