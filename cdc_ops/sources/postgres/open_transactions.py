"""Lists the writers of a Postgres database: open and prepared transactions.

now() is fixed when a *transaction* begins, not when it first writes: BEGIN, a SELECT, a pause and then an UPDATE stamp the row with the
time of the BEGIN. So every open transaction counts, whether or not it has written yet, except those that surely never will:

- our own sessions and those of pg_dump, which are read-only;
- sessions of roles that are read-only by default (`ALTER ROLE report SET default_transaction_read_only = on`);
- a plain SELECT that is a transaction of its own and calls nothing but functions that are known not to write.

As soon as one of them has a transaction id it has written, and counts. The order of reading carries the proof:

1. the clock: a transaction that begins later has a later now();
2. the sessions: one that began before is seen, as a session says what it does before its transaction begins, and forgets it only after
   its rows are visible;
3. the prepared transactions, after 2: what has left its session meanwhile is here, or has ended.

Not seen: a SELECT whose view or attribute notation hides a function that writes, before its first row. The lookback and the comparison of
source and lake are there for such cases.
"""

import re
import time
from typing import Final

from cdc_ops.sources.bounds.activity import ServerActivity, Writer
from cdc_ops.sources.postgres.session import APPLICATION, PostgresSession
from cdc_ops.sources.sql.session import Row

_BREATH_SECONDS: Final = 0.01
"""Between a transaction's first look at the clock and its being listed there are a few instructions."""

_SESSIONS: Final = f"""
    SELECT a.pid, a.usename AS role, COALESCE(host(a.client_addr), 'local') AS host, a.state, a.backend_xid::text AS xid,
      COALESCE(a.xact_start, a.query_start, clock_timestamp()) AS started, a.query, a.state = 'disabled' AS hides,
      a.xact_start = a.query_start AND a.state = 'active' AS is_alone,
      octet_length(a.query) < (SELECT setting::int FROM pg_settings WHERE name = 'track_activity_query_size') - 1 AS is_whole,
      a.application_name = 'pg_dump' OR (a.application_name = '{APPLICATION}' AND a.usename = current_user) OR COALESCE((
        SELECT bool_and(lower(split_part(one, '=', 2)) IN ('on', 'true', 'yes', '1')) FROM pg_db_role_setting s, unnest(s.setconfig) AS one
        WHERE s.setrole = a.usesysid AND s.setdatabase IN (0, a.datid) AND one LIKE 'default_transaction_read_only=%'), false) AS only_reads
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
      AND a.backend_type NOT IN ('autovacuum worker', 'parallel worker', 'walsender')
      AND (a.xact_start IS NOT NULL OR a.backend_xid IS NOT NULL OR a.state IN ('active', 'fastpath function call', 'disabled'))"""

_PREPARED: Final = """
    SELECT transaction::text AS xid, gid, owner, prepared FROM pg_prepared_xacts WHERE database = current_database()"""

_READS: Final = re.compile(r"^\s*(?:select|table|values|show)\b", re.IGNORECASE)
_MAY_WRITE: Final = re.compile(r"--|/\*|;|\binto\b|\bfor\s+(?:no\s+key\s+)?(?:update|share|key)\b", re.IGNORECASE)
_BEFORE_PARENTHESIS: Final = re.compile(r"([^\s(),+*/<>=|-]*)\s*\(")
_HARMLESS: Final = frozenset(
    (
        *("", "select", "from", "where", "and", "or", "not", "on", "in", "exists", "any", "all", "as", "using", "by", "values", "over"),
        *("filter", "case", "when", "then", "else", "union", "except", "intersect", "join", "lateral", "having", "distinct", "limit"),
        *("count", "sum", "avg", "min", "max", "coalesce", "nullif", "greatest", "least", "round", "abs", "cast", "numeric", "varchar"),
        *("lower", "upper", "length", "substring", "trim", "concat", "to_char", "date_trunc", "extract", "now", "pg_sleep", "row_number"),
    )
)
"""Words and functions after which a parenthesis changes nothing."""


def observe(session: PostgresSession) -> ServerActivity:
    """Reads first the clock, then the writers; this order makes the result a safe bound."""
    before = session.row(
        "SELECT clock_timestamp() AS now, current_user::text AS account,"
        " pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS complete"
    )
    now, complete = before["now"], bool(before["complete"])
    time.sleep(_BREATH_SECONDS)
    sessions, prepared = session.rows(_SESSIONS), session.rows(_PREPARED)
    writers = [_session_writer(row) for row in sessions if _may_commit(row)]
    writers += [_prepared_writer(row) for row in prepared]
    return ServerActivity(now=now, writers=tuple(writers) if complete else (), complete=complete, account=before["account"])


def is_plain_read(sql: str) -> bool:
    """True if a statement surely changes no row: anything that is not recognised counts as a write."""
    text = sql.strip().removesuffix(";")
    if not _READS.match(text) or _MAY_WRITE.search(text):
        return False
    return all(word.lower() in _HARMLESS for word in _BEFORE_PARENTHESIS.findall(text))


def _may_commit(row: Row) -> bool:
    if row["xid"] is not None or row["hides"]:
        return True
    only_reads = row["only_reads"] or (row["is_alone"] and row["is_whole"] and is_plain_read(str(row["query"])))
    return not only_reads


def _session_writer(row: Row) -> Writer:
    return Writer(
        connection=int(row["pid"]),
        transaction=row["xid"] or "",
        started=row["started"],
        label=f"a transaction of {row['role']}@{row['host']} on connection {row['pid']}, open since {_clock(row)} ({row['state']})",
        start_known=not row["hides"],
        hint=f"To inspect it: SELECT * FROM pg_stat_activity WHERE pid = {row['pid']}. "
        f"To end it (this rolls it back): SELECT pg_terminate_backend({row['pid']})",
    )


def _prepared_writer(row: Row) -> Writer:
    name = str(row["gid"]).replace("'", "''")
    return Writer(
        connection=0,
        transaction=row["xid"],
        started=row["prepared"],
        label=f"the prepared transaction {row['gid']!r} of {row['owner']}, prepared at {row['prepared']:%Y-%m-%d %H:%M:%S} UTC",
        start_known=False,  # only when it was prepared is known; its rows are as old as its beginning
        hint=f"To inspect it: SELECT * FROM pg_prepared_xacts. To end it: COMMIT PREPARED '{name}' or ROLLBACK PREPARED '{name}'",
    )


def _clock(row: Row) -> str:
    return f"{row['started']:%Y-%m-%d %H:%M:%S} UTC"
