"""A session on a Postgres server, read-only, in UTC; and what its errors mean."""

from typing import Any, Final

from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.errors import CdcError, ConfigError, SourceAccessError, SourceError, SourceTableError
from cdc_ops.sources.postgres.settings import REFUSED, SESSION_SETTINGS, TRANSACTION_SETTINGS, why_forbidden
from cdc_ops.sources.sql.session import (
    CONNECT_TIMEOUT_SECONDS,
    NOTHING,
    ServerAddress,
    SqlSession,
    check_mode,
    check_options,
    interrupted,
    not_held,
    one_line,
    unreachable,
)

APPLICATION: Final = "cdc-ops"
"""Name of all our sessions: they are read-only, so they hold nothing back."""

_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_OPTIONS: Final = ("sslmode", "sslrootcert")

_LOOKS: Final = 3

_NO_DATABASE: Final = "3D000"
_TABLE: Final = frozenset(("3F000", "42P01", "42703"))
_CHARACTERS: Final = frozenset(("22021", "22P05"))
_BUSY: Final = frozenset(("53000", "53200", "53300", "53400"))
_LOST: Final = frozenset(("57P01", "57P02", "57P03", "57P05"))
_INTERRUPTED: Final = frozenset(("57014", "40001", "40P01", "55P03", "25P03", "25P04"))
"""A statement was cancelled or ran too long, a standby had to go on with its replay, or a lock was not to be had."""
_LOST_TEXTS: Final = (
    *(
        "connection has been closed unexpectedly",
        "closed the connection",
        "eof detected",
        "unexpected eof",
        "connection refused",
        "connection reset",
    ),
    *("timeout expired", "timed out", "could not translate host name", "failed to resolve host", "no route to host", "is unreachable"),
)
_LOGIN_TEXTS: Final = ("password authentication failed", "no pg_hba.conf entry", "no password supplied", "authentication failed", "role ")
_BUSY_TEXTS: Final = ("too many", "remaining connection slots")
_STARTING_TEXTS: Final = ("starting up", "shutting down", "not accepting", "not yet accepting", "in recovery mode")
_TLS_TEXTS: Final = ("certificate", "does not support ssl")


class PostgresAddress(ServerAddress):
    """Where a server is and who logs in; the password is in no text that it gives.

    Args:
        url: `postgresql://user:password@host:port/database?sslmode=...&sslrootcert=...`.

    Raises:
        ConfigError: it is not such a URL, names no database, or has an unknown option.
    """

    def __init__(self, url: str) -> None:
        parsed = ConnectionUrl.parse(url)
        super().__init__(parsed, ("postgresql",), "postgres")
        if not self.database:
            raise ConfigError(
                f"The connection of the source to {self.place} does not name a database.",
                why="Postgres tables belong to one database.",
                data=NOTHING,
                next="Write it as postgresql://user:password@host:port/database.",
            )
        options = dict(parsed.options)
        check_options(options, _OPTIONS)
        self.ssl_root = options.get("sslrootcert", "")
        self.ssl_mode = options.get("sslmode", "").lower() or ("verify-ca" if self.ssl_root else "")
        check_mode("sslmode", self.ssl_mode, _SSL_MODES)

    def engine_url(self) -> URL:
        """Returns the address for SQLAlchemy."""
        return URL.create("postgresql+psycopg", self.user, self._password, self.host, self.port, self.database)

    def engine_options(self) -> dict[str, Any]:
        """Returns the driver's options for TLS and patience."""
        options: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": APPLICATION, "client_encoding": "utf8"}
        return options | self.ssl_options()

    def ssl_options(self) -> dict[str, str]:
        """Returns the options for TLS, which have the same names for both drivers."""
        return {name: value for name, value in (("sslmode", self.ssl_mode), ("sslrootcert", self.ssl_root)) if value}


class PostgresSession(SqlSession):
    """A connection to Postgres.

    Args:
        address: Where and who.
    """

    lock_limit = ("SET lock_timeout = '3s'", "SET lock_timeout = 0")

    def __init__(self, address: PostgresAddress) -> None:
        super().__init__(address, lambda error: source_error(error, address))
        self.address = address

    def _prepare(self, connection: Connection) -> None:
        connection.exec_driver_sql(TRANSACTION_SETTINGS)
        connection.exec_driver_sql(SESSION_SETTINGS)
        if found := {str(row.name): str(row.setting) for row in connection.exec_driver_sql(REFUSED)}:
            why = "; ".join(f"{name}: {why_forbidden(name)}" for name in sorted(found))
            raise not_held(self.place, tuple(f"{name} = {value}" for name, value in sorted(found.items())), why)
        driver: Any = connection.connection.dbapi_connection
        # What only speaks Postgres' language may have no numbers, and say -1 or 0 to all.
        if (mine := _backend(connection)) > 0 and mine != driver.info.backend_pid:
            self._check_pooler(connection, mine)

    def _check_pooler(self, connection: Connection, mine: int) -> None:
        """Refuses a pooler that gives the server's session of an idle client to the next one.

        It greets with a number of its own; that of the server's session then says whether two clients have one session, or one has two.

        Raises:
            SourceError: it does.
        """
        with self._engine.connect() as second:
            asked = [(_backend(second), _backend(connection)) for _ in range(_LOOKS)]
        if lends_sessions((mine, *(own for _, own in asked)), tuple(other for other, _ in asked)):
            raise SourceError(
                f"The connection to {self.place} leads through a pooler that lends out the server's sessions by transactions.",
                why="What a session sets (its time zone, its isolation, that no rows are hidden) holds for the server's session that"
                " happens to run it, and the next statement may run in another.",
                data=NOTHING,
                next="Connect to the server itself, or to a pool that keeps a session for each client (pgbouncer: pool_mode = session).",
            )

    def _lacks_privilege(self, error: exc.DBAPIError) -> bool:
        return error_state(error) == "42501"


def _backend(connection: Connection) -> int:
    """Returns the number of the server's session that runs this statement."""
    return int(connection.exec_driver_sql("SELECT pg_catalog.pg_backend_pid()").scalar_one())


def lends_sessions(mine: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """True if a client was given several sessions of the server, or one that another client had while both were connected.

    Args:
        mine: The numbers of the sessions that ran the statements of a client.
        others: Those of another client at the same time.

    >>> lends_sessions((7, 7), (8, 8)), lends_sessions((7, 7), (8, 7)), lends_sessions((7, 9), (8, 8))
    (False, True, True)
    """
    return len(set(mine)) > 1 or not set(mine).isdisjoint(others)


def error_state(error: BaseException) -> str:
    """Returns the SQLSTATE of an error; "" where the connection could not be made, which has none."""
    original = error.orig if isinstance(error, exc.DBAPIError) else error
    return str(getattr(original, "sqlstate", None) or "")


def source_error(error: BaseException, address: PostgresAddress) -> CdcError:
    """Says what an error of the driver means: names user, host and port, never the password."""
    original = error.orig if isinstance(error, exc.DBAPIError) else error
    state, text = error_state(error) or _state_of_text(str(original)), one_line(str(original))
    if state.startswith("28"):
        return SourceAccessError(
            f"The database server at {address.place} refuses the login of user {address.user!r}.",
            why=text,
            data=NOTHING,
            next="Check user and password of the connection, and pg_hba.conf of the server.",
        )
    if state == "42501":
        return SourceAccessError(
            f"The database server at {address.place} refuses user {address.user!r} a privilege.",
            why=text,
            data=NOTHING,
            next="Grant it, e.g. GRANT SELECT ON the table and GRANT USAGE ON its schema; if row-level security hides rows, BYPASSRLS.",
        )
    if state == _NO_DATABASE or state in _TABLE:
        return _unknown_name(state, text, address)
    if state in _INTERRUPTED:
        return interrupted(address.place, text)
    if state in _BUSY:
        return unreachable(
            f"The server at {address.place} does not accept more connections.", text, "Lower 'parallelism', or raise the server's limit"
        )
    if not state or state.startswith("08") or state in _LOST:
        return unreachable(f"cdc-ops cannot reach the database server at {address.place}.", text, "Check host, port and network")
    if state == "TLS":
        return SourceAccessError(
            f"cdc-ops cannot open an encrypted connection to {address.place}.",
            why=text,
            data=NOTHING,
            next="Check 'sslmode' and 'sslrootcert'.",
        )
    return _refusal(state, text, address)


def _unknown_name(state: str, text: str, address: PostgresAddress) -> SourceTableError:
    if state == _NO_DATABASE:
        what, remedy = f"does not have the database {address.database!r}", "Correct the database in the URL of the connection."
    else:
        what, remedy = "does not know a name in a statement", "Correct the name, or create it."
    return SourceTableError(f"The database server at {address.place} {what}.", why=text, data=NOTHING, next=remedy)


def _refusal(state: str, text: str, address: PostgresAddress) -> SourceError:
    if state not in _CHARACTERS:
        return SourceError(f"The database server at {address.place} refused a statement (error {state}).", why=text, data=NOTHING)
    return SourceError(
        f"The database server at {address.place} has text that is not UTF-8.",
        why=f"{text}. A database in SQL_ASCII keeps whatever bytes its clients send.",
        data=NOTHING,
        next="Correct the rows, or leave the column out with 'except_column_list' and store its bytes in a column of type bytea.",
    )


def _state_of_text(text: str) -> str:
    """Tells refusals of a login apart by the server's words: the client library gives no code for them."""
    words = text.lower()
    if "database " in words and "does not exist" in words:
        return "3D000"
    if any(one in words for one in _BUSY_TEXTS):
        return "53300"
    if any(one in words for one in _STARTING_TEXTS):
        return "57P03"
    if any(one in words for one in _LOGIN_TEXTS):
        return "28000"
    if any(one in words for one in _TLS_TEXTS):
        return "TLS"
    # A server that goes away over TLS ends an "SSL connection": that is no refusal.
    return "TLS" if "ssl" in words and not any(one in words for one in _LOST_TEXTS) else ""
