"""Lists the writers of a MySQL or MariaDB server: open transactions that write, and running statements.

NOW() is fixed when a statement starts and its row becomes visible when the transaction commits; in between, only what is read here tells
that the row exists. The order of reading carries the proof:

1. the clock: a writer that begins later has a later NOW();
2. the statements: one that runs now is seen here, whether or not InnoDB has heard of it;
3. the transactions, from a listing that the server made *after* 2: what has stopped running since step 2 is open here, or has ended.

Traps, measured on MariaDB 10.11 and 11.4 and on MySQL 9.7:

- `innodb_trx` is a cache that the server renews only when nobody has read it for 100 ms; polling faster freezes it. Each read therefore
  looks for its own statement in the listing and tries again until it is there.
- `trx_started` is in the time zone of the operating system, whatever the session's time zone is, and in whole seconds.
- `trx_read_only` is 0 for plain readers too; they are known by having modified nothing while they run nothing but a SELECT.
- A prepared XA transaction that outlives a restart is listed as begun when InnoDB took it over. The server's uptime counts from before
  that, and recovery may take minutes. InnoDB switches its default counters on after recovery: their time tells the two apart.

Not seen: a SELECT that calls a function which writes, before its first row; and a statement that waited *before* InnoDB knew its
transaction (for a metadata lock, say) and has ended by now while the transaction is still open: its rows can be older than the
transaction's start. The lookback and the comparison of source and lake are there for such cases.
"""

import random
import re
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_ops.errors import SourceError
from cdc_ops.sources.bounds.activity import ServerActivity, Writer
from cdc_ops.sources.mysql.session import MySQLSession
from cdc_ops.sources.sql.session import Row

CACHE_SECONDS: Final = 0.11
"""The server renews the listing of transactions when nobody has read it for 0.1 s."""

_FRESH_ATTEMPTS: Final = 40
_LONGEST_PAUSE: Final = 3
"""Times CACHE_SECONDS. Two runs that looked again after equal pauses would keep the listing old for each other."""

_ROUNDING: Final = timedelta(seconds=1)
"""Starts are known in whole seconds, and NOW() of a statement is a little before its transaction's start."""

_COMMENTS: Final = re.compile(r"^(?:\s|\(|/\*(?!!|M!).*?\*/|--\s[^\n]*\n|#[^\n]*\n)*", re.DOTALL)
_READS: Final = re.compile(r"^(?:select|show|desc|describe|explain|help|use|with|analyze\s+select)\b", re.IGNORECASE)
_CHANGES: Final = re.compile(r"\b(?:insert|update|delete|replace)\b", re.IGNORECASE)
_LISTED_CHARACTERS: Final = 1024
"""The listing of transactions shows no more of a statement."""

_LOCKING: Final = re.compile(r"\b(?:for\s+update|into\s+(?:outfile|dumpfile))\b", re.IGNORECASE)
_IDLE_COMMANDS: Final = frozenset(("sleep", "daemon", "binlog dump", "binlog dump gtid", "slave_io", "killed", "statistics", "ping"))
_SYSTEM_USERS: Final = frozenset(("system user", "event_scheduler"))

_TRANSACTIONS: Final = (
    "SELECT /* {nonce} */ trx_id, trx_state, trx_mysql_thread_id, trx_rows_modified, trx_query,"
    # The session's zone is the system's here. In the hour that is repeated at the end of summer time the earlier meaning is taken.
    " UNIX_TIMESTAMP(trx_started)"
    " - IF(FROM_UNIXTIME(UNIX_TIMESTAMP(trx_started) - 3600) = trx_started, 3600, 0) AS started,"
    " trx_mysql_thread_id = CONNECTION_ID() AS own"
    " FROM information_schema.innodb_trx"
)

_TAKEN_OVER: Final = (
    "SELECT UNIX_TIMESTAMP(MIN(time_enabled)) AS ready FROM information_schema.innodb_metrics"
    " WHERE name IN ('trx_rseg_history_len', 'lock_deadlocks', 'buffer_pool_reads')"
)


def observe(session: MySQLSession) -> ServerActivity:
    """Reads first the clock, then the writers; this order makes the result a safe bound.

    Raises:
        SourceError: the server does not renew its listing of transactions.
    """
    before = session.row("SELECT UTC_TIMESTAMP(6) AS now, CURRENT_USER() AS account")
    statements = session.rows("SELECT UTC_TIMESTAMP(6) AS now, p.*, p.id = CONNECTION_ID() AS own FROM information_schema.processlist AS p")
    transactions = _fresh_transactions(session)
    now = before["now"].replace(tzinfo=UTC)
    if transactions is None:
        return ServerActivity(now=now, writers=(), complete=False, account=before["account"])
    users = {int(row["id"]): _who(row) for row in statements}
    born = server_start(session, now)
    writers = [_statement_writer(row) for row in statements if _runs_a_write(row)]
    ready = None if all(row["trx_mysql_thread_id"] for row in transactions) else _engine_ready(session)
    writers += [_transaction_writer(row, users, now, born, ready) for row in transactions if _may_commit(row)]
    return ServerActivity(now=now, writers=tuple(writers), complete=True, account=before["account"])


def is_plain_read(sql: str) -> bool:
    """True if a statement surely changes no row: anything that is not recognised counts as a write."""
    text = _COMMENTS.sub("", sql, count=1)
    if not _READS.match(text) or _LOCKING.search(text):
        return False
    is_with = text[:4].lower() == "with"
    return not is_with or (len(sql) < _LISTED_CHARACTERS and not _CHANGES.search(text))


def _fresh_transactions(session: MySQLSession) -> list[Row] | None:
    """Lists the open transactions as of now; None without the privilege to see them."""
    session.execute("SET SESSION time_zone = 'SYSTEM'")
    try:
        session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")  # makes this connection itself appear in the listing
        for _ in range(_FRESH_ATTEMPTS):
            nonce = f"cdc-ops {secrets.token_hex(8)}"
            rows = session.rows_if_allowed(_TRANSACTIONS.format(nonce=nonce))
            if rows is None:
                return None
            if any(row["own"] and nonce in str(row["trx_query"]) for row in rows):
                return [row for row in rows if not row["own"]]
            time.sleep(random.uniform(1, _LONGEST_PAUSE) * CACHE_SECONDS)
    finally:
        session.execute("COMMIT")
        session.execute("SET SESSION time_zone = '+00:00'")
    raise SourceError(
        f"The server at {session.address.place} does not refresh its list of open transactions.",
        why="Something reads information_schema.innodb_trx more than ten times a second, so the server keeps returning an old copy of it.",
        data="Nothing was read; the watermark stays.",
        next="Reduce the monitoring to once a second.",
    )


def _engine_ready(session: MySQLSession) -> datetime | None:
    """Returns when InnoDB had taken over what was prepared before the server's start, to a second; None if nothing tells."""
    session.execute("SET SESSION time_zone = 'SYSTEM'")
    try:
        rows = session.rows_if_allowed(_TAKEN_OVER)
    finally:
        session.execute("SET SESSION time_zone = '+00:00'")
    return datetime.fromtimestamp(float(rows[0]["ready"]), UTC) if rows and rows[0]["ready"] is not None else None


def server_start(session: MySQLSession, now: datetime) -> datetime:
    """Returns when the server was started, to a second, as of its clock `now`."""
    uptime = session.row("SHOW GLOBAL STATUS LIKE 'Uptime'")
    return now - timedelta(seconds=int(uptime["value"]))


def _runs_a_write(row: Row) -> bool:
    if row["own"] or str(row["command"]).lower() in _IDLE_COMMANDS:
        return False
    statement = row["info"]
    if statement is None:
        # Between two statements, or before the text of one is known; the server's own threads stay in that state for ever.
        return str(row["command"]).lower() != "connect" and str(row["user"]) not in _SYSTEM_USERS
    return not is_plain_read(str(statement))


def _may_commit(row: Row) -> bool:
    statement = row["trx_query"]
    running_write = statement is not None and not is_plain_read(str(statement))
    return bool(row["trx_rows_modified"]) or row["trx_state"] == "LOCK WAIT" or running_write or not row["trx_mysql_thread_id"]


def _statement_writer(row: Row) -> Writer:
    seconds = float(row["time_ms"]) / 1000 if row.get("time_ms") is not None else float(row["time"] or 0)
    state = str(row["state"] or row["command"]).lower()
    return Writer(
        connection=int(row["id"]),
        transaction="",
        started=row["now"].replace(tzinfo=UTC) - timedelta(seconds=max(seconds, 0)) - _ROUNDING,
        label=f"a statement of {_who(row)} on connection {row['id']}, running for {seconds:.0f} s ({state})",
        hint=_hint(int(row["id"])),
    )


def _transaction_writer(row: Row, users: dict[int, str], now: datetime, born: datetime, ready: datetime | None) -> Writer:
    started = datetime.fromtimestamp(float(row["started"]), UTC) if row["started"] is not None else born
    connection = int(row["trx_mysql_thread_id"] or 0)
    known = f"of {users.get(connection, 'an unknown user')} on connection {connection}"
    who = known if connection else "without a connection (prepared XA)"
    state = str(row["trx_state"]).lower() + ("" if row["trx_query"] else ", idle")
    return Writer(
        connection=connection,
        transaction=str(row["trx_id"]) if row["trx_rows_modified"] else "",
        started=started - _ROUNDING,
        label=f"transaction {row['trx_id']} {who}, open for {max((now - started).total_seconds(), 0):.0f} s ({state})",
        start_known=bool(connection) or (ready is not None and started > ready),
        hint=_hint(connection),
    )


def _hint(connection: int) -> str:
    if not connection:
        return "To inspect it: XA RECOVER. To end it: XA COMMIT or XA ROLLBACK, with the XID from that list."
    look = f"SELECT * FROM information_schema.processlist WHERE ID = {connection}"
    return f"To inspect it: {look}. To end it (this rolls it back): KILL {connection}"


def _who(row: Row) -> str:
    return f"{row['user']}@{str(row['host'] or '').rpartition(':')[0] or row['host']}"
