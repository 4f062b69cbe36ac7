"""Lists the threads of a MySQL or MariaDB server: what runs, whose it is, and whether it may write.

The text of another session's statement must not break the list. MySQL 9 refuses to fill `information_schema.processlist` when a statement
has a character of four bytes or an invalid one (error 3854), whichever columns are asked for; so MySQL is asked by SHOW FULL PROCESSLIST,
whose texts are taken as bytes. MariaDB replaces such characters in its table, which also knows milliseconds.
"""

from datetime import UTC, datetime
from typing import Any, Final

from cdc_ops.errors import SourceError
from cdc_ops.sources.mysql.session import MySQLSession
from cdc_ops.sources.sql.session import NOTHING, Row

_MARIADB: Final = "SELECT UTC_TIMESTAMP(6) AS now, p.*, p.id = CONNECTION_ID() AS own FROM information_schema.processlist AS p"

_IDLE_COMMANDS: Final = frozenset(
    ("sleep", "daemon", "binlog dump", "binlog dump gtid", "slave_io", "killed", "quit", "statistics", "ping")
)
"""Commands that write nothing by themselves; "quit" ends a connection, and rolls its transaction back."""

_SYSTEM_USERS: Final = frozenset(("system user", "event_scheduler"))
_LISTED_ONLY: Final = frozenset((("system user", "connect", "Group replication applier module"),))
"""User, command and text of threads that never write; the text is a constant of the server. Each is told by all three."""


def list_threads(session: MySQLSession, now: datetime, connection: int) -> list[Row]:
    """Returns the server's threads: id, user, host, command, time (or time_ms), state, info, and `now`, not later than the list.

    Args:
        session: The connection.
        now: The server's clock, read before.
        connection: The connection's own id.

    Raises:
        SourceError: the server is set to list threads from its performance schema, and has lost some there.
    """
    if session.is_mariadb:
        return [row | {"now": row["now"].replace(tzinfo=UTC)} for row in session.rows(_MARIADB)]
    _refuse_incomplete(session)
    session.execute("SET SESSION character_set_results = 'binary'")
    try:
        rows = session.rows("SHOW FULL PROCESSLIST")
    finally:
        session.execute("SET SESSION character_set_results = utf8mb4")
    texts = [{name: _text(value) for name, value in row.items()} for row in rows]
    return [row | {"now": now, "own": int(row["id"]) == connection, "time_ms": None} for row in texts]


def is_of_server(user: object) -> bool:
    """True if a thread belongs to the server itself: replication, a cluster's appliers, the scheduler of events."""
    return str(user) in _SYSTEM_USERS


def surely_idle(row: Row) -> bool:
    """True for a thread that surely writes nothing now: only what is positively known, whatever else is listed counts."""
    user, command, text = str(row["user"]), str(row["command"]).lower(), row["info"]
    if row["own"] or command in _IDLE_COMMANDS or (user, command, text) in _LISTED_ONLY:
        return True
    # Between two statements, or before the text of one is known; the server's own threads stay in that state for ever.
    return text is None and (command == "connect" or is_of_server(user))


def inspect(session: MySQLSession, connection: int) -> str:
    """Returns the statement with which to look at a thread."""
    if session.is_mariadb:
        return f"SELECT * FROM information_schema.processlist WHERE ID = {connection}"
    return f"SHOW FULL PROCESSLIST (Id {connection})"


def _refuse_incomplete(session: MySQLSession) -> None:
    found = session.rows("SHOW GLOBAL VARIABLES LIKE 'performance_schema_show_p%'")
    shown = {str(row["variable_name"]): str(row["value"]) for row in found}
    if shown.get("performance_schema_show_processlist", "OFF") != "ON":
        return
    lost = session.row("SHOW GLOBAL STATUS LIKE 'Performance_schema_thread_instances_lost'")["value"]
    if int(lost):
        raise SourceError(
            f"The server at {session.address.place} does not list all of its threads.",
            why=f"It lists them from its performance schema (performance_schema_show_processlist = ON), which has lost {lost} of them.",
            data=NOTHING,
            next="SET GLOBAL performance_schema_show_processlist = OFF, or raise performance_schema_max_thread_instances and restart it.",
        )


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
