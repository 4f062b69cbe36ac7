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
- MySQL 9 cannot fill `innodb_trx` while a transaction runs a statement with an emoji. Mostly it ends while it is tried again; if not,
  InnoDB's monitor lists the transactions (innodb_status.py). Threads are listed by processlist.py.
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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_ops.errors import SourceError
from cdc_ops.sources.bounds.activity import ServerActivity, Writer
from cdc_ops.sources.mysql.bounds.innodb_status import parse_transactions
from cdc_ops.sources.mysql.bounds.processlist import inspect, is_of_server, list_threads, surely_idle
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
_NOT_CONVERTED: Final = frozenset((3854,))
_UNREADABLE_ATTEMPTS: Final = 5

_TRANSACTIONS: Final = (
    "SELECT /* {nonce} */ trx_id, trx_state, trx_mysql_thread_id, trx_rows_modified, trx_query,"
    # The session's zone is the system's here. In the hour that is repeated at the end of summer time the earlier meaning is taken.
    " UNIX_TIMESTAMP(trx_started)"
    " - IF(FROM_UNIXTIME(UNIX_TIMESTAMP(trx_started) - 3600) = trx_started, 3600, 0) AS started,"
    " trx_mysql_thread_id = CONNECTION_ID() AS own"
    " FROM information_schema.innodb_trx"
)

_PREPARED_HINT: Final = "To inspect it: XA RECOVER. To end it: XA COMMIT or XA ROLLBACK, with the XID from that list."

_TAKEN_OVER: Final = (
    "SELECT UNIX_TIMESTAMP(MIN(time_enabled)) AS ready FROM information_schema.innodb_metrics"
    " WHERE name IN ('trx_rseg_history_len', 'lock_deadlocks', 'buffer_pool_reads')"
)


def observe(session: MySQLSession) -> ServerActivity:
    """Reads first the clock, then the writers; this order makes the result a safe bound.

    Raises:
        SourceError: the server does not renew its listing of transactions.
    """
    before = session.row("SELECT UTC_TIMESTAMP(6) AS now, CURRENT_USER() AS account, CONNECTION_ID() AS own")
    now = before["now"].replace(tzinfo=UTC)
    threads = list_threads(session, now, int(before["own"]))
    transactions = _fresh_transactions(session, now, int(before["own"]))
    if transactions is None:
        return ServerActivity(now=now, writers=(), complete=False, account=before["account"])
    owners = {int(row["id"]): _owner(session, row) for row in threads}
    born = server_start(session, now)
    writers = [_statement_writer(row, owners[int(row["id"])]) for row in threads if _runs_a_write(row)]
    ready = None if all(row["trx_mysql_thread_id"] for row in transactions) else _engine_ready(session)
    writers += [_transaction_writer(row, owners, now, born, ready) for row in transactions if _may_commit(row)]
    return ServerActivity(now=now, writers=tuple(writers), complete=True, account=before["account"])


def is_plain_read(sql: str) -> bool:
    """True if a statement surely changes no row: anything that is not recognised counts as a write."""
    text = _COMMENTS.sub("", sql, count=1)
    if not _READS.match(text) or _LOCKING.search(text):
        return False
    is_with = text[:4].lower() == "with"
    return not is_with or (len(sql) < _LISTED_CHARACTERS and not _CHANGES.search(text))


def _fresh_transactions(session: MySQLSession, now: datetime, own: int) -> list[Row] | None:
    """Lists the open transactions as of now; None without the privilege to see them."""
    unreadable = 0
    session.execute("SET SESSION time_zone = 'SYSTEM'")
    try:
        session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")  # makes this connection itself appear in the listing
        for _ in range(_FRESH_ATTEMPTS):
            nonce = f"cdc-ops {secrets.token_hex(8)}"
            rows = session.rows_unless(_TRANSACTIONS.format(nonce=nonce), _NOT_CONVERTED)
            if rows is None:
                return None
            if isinstance(rows, int):
                unreadable += 1
                monitored = _monitored(session, now, own) if unreadable >= _UNREADABLE_ATTEMPTS else None
                if monitored is not None:
                    return monitored
            elif any(row["own"] and nonce in str(row["trx_query"]) for row in rows):
                return [row for row in rows if not row["own"]]
            time.sleep(random.uniform(1, _LONGEST_PAUSE) * CACHE_SECONDS)
    finally:
        session.execute("COMMIT")
        session.execute("SET SESSION time_zone = '+00:00'")
    raise SourceError(
        f"The server at {session.address.place} does not refresh its list of open transactions.",
        why="Something reads information_schema.innodb_trx more than ten times a second, so the server keeps returning an old copy of it."
        if not unreadable
        else "The server cannot print that list because of the text of a statement in it (error 3854), and InnoDB's monitor cuts it.",
        data="Nothing was read; the watermark stays.",
        next="Reduce the monitoring to once a second." if not unreadable else "Run again when fewer transactions are open.",
    )


def _monitored(session: MySQLSession, now: datetime, own: int) -> list[Row] | None:
    session.execute("SET SESSION character_set_results = 'binary'")
    try:
        status = session.row("SHOW ENGINE INNODB STATUS")["status"]
    finally:
        session.execute("SET SESSION character_set_results = utf8mb4")
    text = status.decode("utf-8", "replace") if isinstance(status, bytes) else str(status)
    return parse_transactions(text, now.timestamp(), own)


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
    return not surely_idle(row) and (row["info"] is None or not is_plain_read(str(row["info"])))


def _may_commit(row: Row) -> bool:
    statement = row["trx_query"]
    running_write = statement is not None and not is_plain_read(str(statement))
    return bool(row["trx_rows_modified"]) or row["trx_state"] == "LOCK WAIT" or running_write or not row["trx_mysql_thread_id"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner:
    """Whose a thread is, and what to do about it."""

    name: str
    hint: str


def _statement_writer(row: Row, owner: _Owner) -> Writer:
    seconds = float(row["time_ms"]) / 1000 if row.get("time_ms") is not None else float(row["time"] or 0)
    state = str(row["state"] or row["command"]).lower()
    return Writer(
        connection=int(row["id"]),
        transaction="",
        started=row["now"] - timedelta(seconds=max(seconds, 0)) - _ROUNDING,
        label=f"a statement of {owner.name} on connection {row['id']}, running for {seconds:.0f} s ({state})",
        hint=owner.hint,
    )


def _transaction_writer(row: Row, owners: dict[int, _Owner], now: datetime, born: datetime, ready: datetime | None) -> Writer:
    started = datetime.fromtimestamp(float(row["started"]), UTC) if row["started"] is not None else born
    connection = int(row["trx_mysql_thread_id"] or 0)
    owner = owners.get(connection, _Owner(name="an unknown user", hint="To inspect it: SHOW ENGINE INNODB STATUS"))
    who = f"of {owner.name} on connection {connection}" if connection else "without a connection (prepared XA)"
    state = str(row["trx_state"]).lower() + ("" if row["trx_query"] else ", idle")
    return Writer(
        connection=connection,
        transaction=str(row["trx_id"]) if row["trx_rows_modified"] else "",
        started=started - _ROUNDING,
        label=f"transaction {row['trx_id']} {who}, open for {max((now - started).total_seconds(), 0):.0f} s ({state})",
        start_known=bool(connection) or (ready is not None and started > ready),
        hint=owner.hint if connection else _PREPARED_HINT,
    )


def _owner(session: MySQLSession, row: Row) -> _Owner:
    name = f"{row['user']}@{str(row['host'] or '').rpartition(':')[0] or row['host']}"
    look, connection = inspect(session, int(row["id"])), int(row["id"])
    if is_of_server(row["user"]):
        return _Owner(
            name="the server itself", hint=f"To inspect it: {look}. It is a thread of the server (replication, events): do not end it"
        )
    return _Owner(name=name, hint=f"To inspect it: {look}. To end it (this rolls it back): KILL {connection}")
