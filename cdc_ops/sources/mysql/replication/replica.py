"""Whether a MySQL or MariaDB server is a replica, and how far behind its primary it is."""

from datetime import timedelta

from cdc_ops.core.schema.table_identity import OF_A_NUMBER
from cdc_ops.errors import SourceError, SourceUnreachableError
from cdc_ops.sources.bounds.activity import ReplicaState
from cdc_ops.sources.mysql.session import MySQLSession
from cdc_ops.sources.sql.session import Row


def replica_state(session: MySQLSession) -> ReplicaState | None:
    """Returns how far behind a replica is; None for a server that follows nobody.

    Raises:
        SourceError: its replication is stopped.
    """
    rows = replica_status(session)
    if rows is None:
        return ReplicaState(lag=timedelta(0), certain=False) if read_only(session) else None
    if not rows:
        return None
    return ReplicaState(lag=max(replica_lag(session, row) for row in rows) + timedelta(seconds=1))


def read_only(session: MySQLSession) -> bool:
    """True if clients may not write to the server."""
    # MariaDB 12 prints OFF, ON, NO_LOCK or NO_LOCK_NO_ADMIN.
    return str(session.row("SELECT @@global.read_only AS read_only")["read_only"]).upper() not in ("0", "OFF")


def replica_origin(session: MySQLSession, itself: str) -> str:
    """Returns who stamps the rows of a server: those that it follows, else the server itself; "" if the user may not see whether it does.

    Args:
        session: The connection.
        itself: The server's own identity.
    """
    rows = replica_status(session)
    if rows is None:
        return "" if read_only(session) else itself
    return " ".join(sorted({_followed(row) for row in rows})) if rows else itself


def _followed(row: Row) -> str:
    number = row.get("source_server_id", row.get("master_server_id")) or 0
    return str(row.get("source_uuid", row.get("master_uuid")) or (f"{OF_A_NUMBER}{number}" if int(number) else ""))


def replica_status(session: MySQLSession) -> list[Row] | None:
    """Returns a line per server that is followed, names in lower case; None if the user may not ask."""
    if session.is_mariadb:
        return session.rows_if_allowed("SHOW ALL SLAVES STATUS")
    release = tuple(int(part) for part in session.version.split("-", 1)[0].split(".")[:3])
    return session.rows_if_allowed("SHOW REPLICA STATUS" if release >= (8, 0, 22) else "SHOW SLAVE STATUS")


def replica_lag(session: MySQLSession, row: Row) -> timedelta:
    """Returns how far behind a line of the status says to be, in whole seconds.

    Raises:
        SourceError: replication is stopped.
        SourceUnreachableError: it is connecting.
    """
    seconds = row.get("seconds_behind_source", row.get("seconds_behind_master"))
    if seconds is not None:
        return timedelta(seconds=int(seconds))
    running = {name: str(row.get(name)) for name in row if name.endswith(("_io_running", "_sql_running"))}
    connecting = any(state in ("Connecting", "Preparing") for state in running.values())
    raise (SourceUnreachableError if connecting else SourceError)(
        f"The source at {session.address.place} is a replica, and its replication is stopped.",
        why=", ".join(f"{name}: {state}" for name, state in sorted(running.items())) or "The server reports no lag.",
        data="Nothing was read; the watermark stays.",
        next="Start its replication (START REPLICA), or connect to its primary.",
    )
