"""One connection to a MySQL or MariaDB server, opened on first use, read-only, in UTC; and what its errors mean."""

import re
import ssl
from typing import Any, Final, NoReturn

import sqlalchemy
from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection
from sqlalchemy.pool import NullPool

from cdc_ops.core.connections import ConnectionUrl
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import CdcError, ConfigError, SourceAccessError, SourceError, SourceTableError, SourceUnreachableError

Row = dict[str, Any]

CONNECT_TIMEOUT_SECONDS: Final = 5
READ_TIMEOUT_SECONDS: Final = 900

SESSION_SETTINGS: Final = (
    # The last two are comments that only one of the two servers executes: a read-only session, by the name that each gives to it.
    "SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600"
    " /*!80000 , transaction_read_only = 1 */ /*M! , tx_read_only = 1 */"
)
"""What every connection sets, from Python and from Spark: literals and text mean the same on both, whatever the server's defaults."""

_NOTHING: Final = "Nothing was read; the watermark stays."
_SSL_MODES: Final = ("disabled", "required", "verify_ca", "verify_identity")
_OPTIONS: Final = ("ssl_mode", "ssl_ca")

_ACCESS: Final = frozenset((1044, 1045, 1129, 1130, 1142, 1143, 1227, 1251, 1370, 1405, 1524, 1698, 1820, 1862, 3118, 4151))
_UNREACHABLE: Final = frozenset((2002, 2003, 2005, 2006, 2013, 2014, 2055, 1053, 1077, 1079, 1152, 1184))
_BUSY: Final = frozenset((1040, 1203, 1226, 4031))
_TABLE: Final = frozenset((1049, 1054, 1146, 1932))
_TLS: Final = 2026

_NO_PRIVILEGE: Final = frozenset((1044, 1142, 1227))
"""What the server answers where a grant is missing for one statement."""


class Address:
    """Where a server is and who logs in; the password is in no text that it gives.

    Args:
        url: `mysql://user:password@host:port/database?ssl_mode=...&ssl_ca=...`; also `mariadb://`.

    Raises:
        ConfigError: it is not such a URL, or has an unknown option.
    """

    def __init__(self, url: str) -> None:
        parsed = ConnectionUrl.parse(url)
        if parsed.scheme not in ("mysql", "mariadb"):
            raise ConfigError(
                f"The connection of the source leads to a {parsed.scheme} server.",
                why="The pipeline's source is of kind mysql or mariadb.",
                data=_NOTHING,
                next="Correct 'kind' of the source, or its connection.",
            )
        self.host = parsed.host
        self.port = parsed.default_port
        self.user = parsed.user
        self.database = parsed.database
        self._password = parsed.password
        self.ssl_mode, self.ssl_ca = _ssl_options(dict(parsed.options))

    def __repr__(self) -> str:
        return f"Address({self})"

    def __str__(self) -> str:
        return f"{self.user}@{self.place}"

    @property
    def place(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def password(self) -> str:
        """The password, for drivers only."""
        return self._password

    def engine_url(self) -> URL:
        """Returns the address for SQLAlchemy."""
        return URL.create(
            "mysql+pymysql", self.user, self._password, self.host, self.port, self.database or None, query={"charset": "utf8mb4"}
        )

    def engine_options(self) -> dict[str, Any]:
        """Returns the driver's options for TLS and patience."""
        options: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "read_timeout": READ_TIMEOUT_SECONDS}
        if self.ssl_mode == "disabled":
            return options | {"ssl_disabled": True}
        if self.ssl_mode:
            context = ssl.create_default_context(cafile=self.ssl_ca or None)
            context.check_hostname = self.ssl_mode == "verify_identity"
            context.verify_mode = ssl.CERT_NONE if self.ssl_mode == "required" else ssl.CERT_REQUIRED
            options["ssl"] = context
        return options


class MySQLSession:
    """A connection that opens when first asked and opens anew after it was lost.

    Args:
        address: Where and who.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._engine = sqlalchemy.create_engine(
            address.engine_url(),
            poolclass=NullPool,
            connect_args=address.engine_options(),
            isolation_level="AUTOCOMMIT",  # each statement sees what is committed when it begins
            execution_options={"no_parameters": True},  # a % in a statement is only a %
            hide_parameters=True,
        )
        self._connection: Connection | None = None
        self.version = ""

    def __repr__(self) -> str:
        return f"MySQLSession({self.address})"

    @property
    def is_mariadb(self) -> bool:
        """True if the server is a MariaDB; opens the connection."""
        self._connected()
        return "mariadb" in self.version.lower()

    def rows(self, sql: str) -> list[Row]:
        """Runs one statement and returns its rows, column names in lower case.

        Raises:
            SourceError: the server cannot be reached, or refuses.
        """
        self._connected()
        try:
            return self._run(sql)
        except exc.DBAPIError as error:
            self._give_up(error)

    def rows_if_allowed(self, sql: str) -> list[Row] | None:
        """Runs one statement like `rows`, but returns None if the user lacks the grant for it."""
        self._connected()
        try:
            return self._run(sql)
        except exc.DBAPIError as error:
            if error_code(error) in _NO_PRIVILEGE:
                return None
            self._give_up(error)

    def row(self, sql: str) -> Row:
        """Runs one statement that returns exactly one row."""
        [row] = self.rows(sql)
        return row

    def execute(self, sql: str) -> None:
        """Runs one statement for its effect on the session."""
        self.rows(sql)

    def close(self) -> None:
        """Closes the connection, if one is open; a later question opens another."""
        if self._connection is not None:
            try:
                self._connection.close()
            except exc.DBAPIError:
                self._connection.invalidate()  # it was lost before: there is nothing left to close
            self._connection = None

    def _run(self, sql: str) -> list[Row]:
        result = self._connected().exec_driver_sql(sql)
        if not result.returns_rows:
            return []
        names = [name.lower() for name in result.keys()]  # noqa: SIM118 - a result is no dict
        return [dict(zip(names, row, strict=True)) for row in result]

    def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        try:
            connection = self._engine.connect()
        except (exc.DBAPIError, OSError, RuntimeError) as error:
            raise source_error(error, self.address) from None
        self._connection = connection
        try:
            connection.exec_driver_sql(SESSION_SETTINGS)
            self.version = str(connection.exec_driver_sql("SELECT VERSION()").scalar_one())
            if "mariadb" not in self.version.lower() and int(self.version.split(".", 1)[0]) >= 8:
                # Otherwise row counts and AUTO_INCREMENT are up to a day old.
                connection.exec_driver_sql("SET SESSION information_schema_stats_expiry = 0")
        except exc.DBAPIError as error:
            self._give_up(error)
        return connection

    def _give_up(self, error: exc.DBAPIError) -> NoReturn:
        problem = source_error(error, self.address)
        if isinstance(problem, SourceUnreachableError) or error.connection_invalidated:
            self.close()
        raise problem from None


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
        return _unreachable(f"Cannot reach the database server at {address.place}.", text, "Check host, port and network")
    if code in _BUSY:
        return _unreachable(f"The server at {address.place} takes no more connections.", text, "Lower 'readers', or raise its limit")
    if code in _TABLE:
        return SourceTableError(
            f"The database server at {address.place} does not know a name.", why=text, data=_NOTHING, next="Correct the name, or create it."
        )
    if code == _TLS:
        return SourceAccessError(
            f"No encrypted connection to {address.place}.", why=text, data=_NOTHING, next="Check 'ssl_mode' and 'ssl_ca' of the connection."
        )
    return SourceError(f"The database server at {address.place} refused a statement (error {code}).", why=text, data=_NOTHING)


def _access_error(code: int, text: str, address: Address) -> CdcError:
    login = code in (1045, 1129, 1130, 1251, 1524, 1698, 1820, 1862, 3118, 4151)
    return SourceAccessError(
        f"The database server at {address.place} refuses "
        + (f"the login of user {address.user!r}." if login else f"user {address.user!r} a privilege."),
        why=text,
        data=_NOTHING,
        next="Check user and password of the connection, and from which hosts the user may log in."
        if login
        else f"Grant it, e.g. GRANT SELECT ON `{address.database or '*'}`.* TO the user that the text above names.".replace("`*`", "*"),
    )


def _unreachable(what: str, why: str, check: str) -> SourceUnreachableError:
    return SourceUnreachableError(what, why=why, data=_NOTHING, next=f"{check}; a scheduled run tries again by itself.")


def _message(error: BaseException) -> str:
    original = error.orig if isinstance(error, exc.DBAPIError) else error
    arguments: tuple[object, ...] = getattr(original, "args", ())
    text = str(arguments[1]) if len(arguments) > 1 else str(original)
    return re.sub(r"\s+", " ", text)[:400]


def _ssl_options(query: dict[str, str]) -> tuple[str, str]:
    for name in query:
        if name not in (*_OPTIONS, "charset"):
            raise ConfigError(
                f"The connection of the source has an unknown option {name!r}.",
                why=did_you_mean(name, _OPTIONS),
                data=_NOTHING,
                next="Correct or remove it.",
            )
    mode, authority = query.get("ssl_mode", "").lower().replace("-", "_"), query.get("ssl_ca", "")
    if mode and mode not in _SSL_MODES:
        raise ConfigError(
            f"ssl_mode={mode!r} of the connection does not exist.", why=did_you_mean(mode, _SSL_MODES), data=_NOTHING, next="Correct it."
        )
    return mode or ("verify_ca" if authority else ""), authority
