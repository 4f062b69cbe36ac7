"""A session on a MySQL or MariaDB server, read-only, in UTC; and what its errors mean."""

import re
import ssl
import time
from dataclasses import replace
from typing import Any, Final

import pymysql
from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.errors import CdcError, SourceAccessError, SourceError, SourceTableError
from cdc_ops.sources.mysql.settings import LOCK_WAIT_SECONDS, SESSION_SETTINGS, SHOWN, unheld
from cdc_ops.sources.sql.session import (
    CONNECT_TIMEOUT_SECONDS,
    NOTHING,
    Row,
    ServerAddress,
    SqlSession,
    check_mode,
    check_options,
    interrupted,
    not_held,
    one_line,
    unreachable,
)

READ_TIMEOUT_SECONDS: Final = 900
_WORD: Final = 1 << 32
"""Servers greet with the last 32 bits of a connection's number."""

CAUSAL_PATIENCE_SECONDS: Final = 600
"""How long a read waits for other members of a replication group; the server measures it by the session's `wait_timeout`."""

CAUSAL_WAIT: Final = (
    f" /*!80014 , group_replication_consistency = 'BEFORE', wait_timeout = {CAUSAL_PATIENCE_SECONDS} */ /*M! , wsrep_sync_wait = 1 */"
)
"""What each session sets besides that reads rows where several nodes write: a read waits until this node has applied what was ordered
before it. A wait that takes too long is an error of the statement."""

_SSL_MODES: Final = ("disabled", "required", "verify_ca", "verify_identity")
_OPTIONS: Final = ("ssl_mode", "ssl_ca")
_CAUSAL: Final = "causal_reads"
"""An option that the source itself adds to an address, for the processes that read."""

_ACCESS: Final = frozenset((1044, 1045, 1129, 1130, 1142, 1143, 1227, 1251, 1370, 1405, 1524, 1698, 1820, 1862, 3118, 4151))
_UNREACHABLE: Final = frozenset(
    (
        *(2002, 2003, 2005, 2006, 2013, 2014, 2027, 2055),  # of the client
        *(1053, 1077, 1079, 3032),  # the server stops, or is in offline mode
        1047,  # a node of Galera that is not in step with its cluster
        *(1152, 1158, 1159, 1160, 1161, 1184, 1927, 3169, 4031),  # the server ended the connection, or was told to
    )
)
_INTERRUPTED: Final = frozenset((1205, 1213, 1317, 1969, 3024, 3797))
"""A statement was killed, waited too long for a lock or for other nodes, was the victim of a deadlock, or ran longer than it may."""
_BUSY: Final = frozenset((1040, 1041, 1135, 1203, 1226))
_NO_DATABASE: Final = 1049
_TABLE: Final = frozenset((1054, 1146, 1932))
_TLS: Final = 2026

_NO_PRIVILEGE: Final = frozenset((1044, 1142, 1143, 1227))
"""What the server answers where a grant is missing for one statement."""


class Address(ServerAddress):
    """Where a server is and who logs in; the password is in no text that it gives.

    Args:
        url: `mysql://user:password@host:port/database?ssl_mode=...&ssl_ca=...`; also `mariadb://`.

    Raises:
        ConfigError: it is not such a URL, or has an unknown option.
    """

    def __init__(self, url: str) -> None:
        parsed = ConnectionUrl.parse(url)
        super().__init__(parsed, ("mysql", "mariadb"), "mysql or mariadb")
        options = dict(parsed.options)
        self.waits_for_nodes = options.pop(_CAUSAL, "") == "1"
        self.ssl_mode, self.ssl_ca = _ssl_options(options)
        self._parsed = parsed

    @property
    def causal(self) -> "Address":
        """The same server, for sessions whose reads wait for what other nodes have committed."""
        return Address(replace(self._parsed, options=(*self._parsed.options, (_CAUSAL, "1"))).render())

    @property
    def session_settings(self) -> str:
        """What each connection sets that reads rows."""
        return SESSION_SETTINGS + (CAUSAL_WAIT if self.waits_for_nodes else "")

    def engine_url(self) -> URL:
        """Returns the address for SQLAlchemy."""
        return URL.create(
            "mysql+pymysql", self.user, self._password, self.host, self.port, self.database or None, query={"charset": "utf8mb4"}
        )

    def engine_options(self) -> dict[str, Any]:
        """Returns the driver's options for TLS and patience."""
        options: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "read_timeout": READ_TIMEOUT_SECONDS}
        options["password"] = self._password.encode()  # as text the driver would encode it as latin1, which the servers and JDBC do not
        if self.ssl_mode == "disabled":
            return options | {"ssl_disabled": True}
        if self.ssl_mode:
            context = ssl.create_default_context(cafile=self.ssl_ca or None)
            context.check_hostname = self.ssl_mode == "verify_identity"
            context.verify_mode = ssl.CERT_NONE if self.ssl_mode == "required" else ssl.CERT_REQUIRED
            options["ssl"] = context
        return options


class MySQLSession(SqlSession):
    """A connection to MySQL or MariaDB.

    Args:
        address: Where and who.
    """

    lock_limit = ("SET SESSION lock_wait_timeout = 3", f"SET SESSION lock_wait_timeout = {LOCK_WAIT_SECONDS}")

    def __init__(self, address: Address) -> None:
        super().__init__(address, lambda error: source_error(error, address))
        self.address = address
        self.version = ""
        self.is_relayed = False
        self._used = 0.0

    @property
    def is_mariadb(self) -> bool:
        """True if the server is a MariaDB; opens the connection."""
        self._connected()
        return "mariadb" in self.version.lower()

    def _connected(self) -> Connection:
        # The server ends a session that waits for nodes after a shorter silence than others.
        if self.address.waits_for_nodes and time.monotonic() - self._used > CAUSAL_PATIENCE_SECONDS / 2:
            self.close()
        self._used = time.monotonic()
        return super()._connected()

    def _prepare(self, connection: Connection) -> None:
        connection.exec_driver_sql(self.address.session_settings)
        if lost := unheld({str(name): str(value) for name, value in connection.exec_driver_sql(SHOWN)}):
            raise not_held(self.place, lost, "A limit of the server's start, or a proxy in between, changes what the session has set.")
        self.version, number = connection.exec_driver_sql("SELECT VERSION(), CONNECTION_ID() + 0").one()
        greeted = getattr(connection.connection.dbapi_connection, "thread_id", lambda: number)()
        self.is_relayed = int(greeted) % _WORD != int(number) % _WORD

    def rows_unless(self, sql: str, codes: frozenset[int]) -> list[Row] | int | None:
        """Runs one statement like `rows_if_allowed`, but returns the server's number of an error that is one of `codes`."""
        self._connected()
        try:
            return self._run(sql)
        except exc.DBAPIError as error:
            if self._lacks_privilege(error):
                return None
            if error_code(error) in codes:
                return error_code(error)
            self._give_up(error)

    def _lacks_privilege(self, error: exc.DBAPIError) -> bool:
        return error_code(error) in _NO_PRIVILEGE


def connect(address: Address) -> Any:
    """Opens a connection of PyMySQL's own, for what is read by its bytes; it has the settings of every session."""
    return pymysql.connect(
        host=address.host,
        port=address.port,
        user=address.user,
        database=address.database or None,
        charset="utf8mb4",
        autocommit=True,
        init_command=address.session_settings,
        **address.engine_options(),
    )


def error_code(error: BaseException) -> int:
    """Returns the server's or the driver's number of an error, 0 if it has none."""
    original = error.orig if isinstance(error, exc.DBAPIError) else error
    arguments: tuple[object, ...] = getattr(original, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def source_error(error: BaseException, address: Address) -> CdcError:
    """Says what an error of the driver means: names user, host and port, never the password."""
    code, text = error_code(error), _message(error)
    if code in _ACCESS:
        return _access_error(code, text, address)
    if code in _UNREACHABLE or code == 0:
        return unreachable(f"cdc-ops cannot reach the database server at {address.place}.", text, "Check host, port and network")
    if code in _INTERRUPTED:
        return interrupted(address.place, text)
    if code in _BUSY:
        return unreachable(
            f"The server at {address.place} does not accept more connections.", text, "Lower 'parallelism', or raise the server's limit"
        )
    if code == _NO_DATABASE:
        return SourceTableError(
            f"The database server at {address.place} does not have the database {address.database!r}.",
            why=text,
            data=NOTHING,
            next="Correct the database in the URL of the connection.",
        )
    if code in _TABLE:
        return SourceTableError(
            f"The database server at {address.place} does not know a name in a statement.",
            why=text,
            data=NOTHING,
            next="Correct the name, or create it.",
        )
    if code == _TLS:
        return SourceAccessError(
            f"cdc-ops cannot open an encrypted connection to {address.place}.",
            why=text,
            data=NOTHING,
            next="Check 'ssl_mode' and 'ssl_ca' of the connection.",
        )
    return SourceError(f"The database server at {address.place} refused a statement (error {code}).", why=text, data=NOTHING)


def _access_error(code: int, text: str, address: Address) -> CdcError:
    login = code in (1045, 1129, 1130, 1251, 1524, 1698, 1820, 1862, 3118, 4151)
    return SourceAccessError(
        f"The database server at {address.place} refuses "
        + (f"the login of user {address.user!r}." if login else f"user {address.user!r} a privilege."),
        why=text,
        data=NOTHING,
        next="Check user and password of the connection, and the hosts from which the user may log in."
        if login
        else f"Grant it, e.g. GRANT SELECT ON `{address.database or '*'}`.* TO {_account(text)}".replace("`*`", "*"),
    )


def _account(refusal: str) -> str:
    """Returns the user of a refusal as statements have it: with the host by which the server knows it."""
    found = re.search(r"for user ('[^']*'@'[^']*')", refusal)
    return found[1] if found else "the user named above."


def _message(error: BaseException) -> str:
    original = error.orig if isinstance(error, exc.DBAPIError) else error
    arguments: tuple[object, ...] = getattr(original, "args", ())
    text = str(arguments[1]) if len(arguments) > 1 else str(original)
    return one_line(text)


def _ssl_options(query: dict[str, str]) -> tuple[str, str]:
    check_options(query, _OPTIONS, ("charset",))
    mode, authority = query.get("ssl_mode", "").lower().replace("-", "_"), query.get("ssl_ca", "")
    check_mode("ssl_mode", mode, _SSL_MODES)
    return mode or ("verify_ca" if authority else ""), authority
