"""A connection to a source database, opened on first use and reopened after it was lost; and the server's address.

What differs between servers (the driver, what every session sets, what an error means) is in the subclasses.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

import sqlalchemy
from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection
from sqlalchemy.pool import NullPool

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import CdcError, ConfigError, SourceError, SourceInterruptedError, SourceUnreachableError

Row = dict[str, Any]

CONNECT_TIMEOUT_SECONDS: Final = 5
NOTHING: Final = "Nothing was read; the watermark stays."


class ServerAddress:
    """Where a server is and who logs in; the password is in no text that it gives.

    Args:
        parsed: The connection's URL.
        schemes: The schemes that lead to such a server.
        kinds: What the pipeline calls such servers, for messages.
    """

    def __init__(self, parsed: ConnectionUrl, schemes: tuple[str, ...], kinds: str) -> None:
        if parsed.scheme not in schemes:
            raise ConfigError(
                f"The connection of the source points to a {parsed.scheme} server.",
                why=f"The pipeline's source is of kind {kinds}.",
                data=NOTHING,
                next="Correct 'kind' of the source, or its connection.",
            )
        self.host = parsed.host
        self.port = parsed.default_port
        self.user = parsed.user
        self.database = parsed.database
        self._password = parsed.password
        self._url = parsed.render()

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

    @property
    def url(self) -> str:
        """The whole address with the password, for another process that reads."""
        return self._url

    def engine_url(self) -> URL:
        """Returns the address for SQLAlchemy."""
        raise NotImplementedError

    def engine_options(self) -> dict[str, Any]:
        """Returns the driver's options for TLS and patience."""
        raise NotImplementedError


class SqlSession:
    """A connection that opens on first use and reopens after it was lost.

    Args:
        address: Where and who.
        explain: Says what an error of the driver means.
    """

    lock_limit: tuple[str, str] = ("", "")
    """Statements that limit the wait for a table's lock to a few seconds, and that end the limit."""

    def __init__(self, address: ServerAddress, explain: Callable[[BaseException], CdcError]) -> None:
        self.place, self.user = address.place, address.user
        self._shown = str(address)
        self._explain = explain
        self._engine = sqlalchemy.create_engine(
            address.engine_url(),
            poolclass=NullPool,
            connect_args=address.engine_options(),
            isolation_level="AUTOCOMMIT",  # each statement sees what is committed when it begins
            execution_options={"no_parameters": True},  # a % in a statement is only a %
            hide_parameters=True,
        )
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown})"

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
            if self._lacks_privilege(error):
                return None
            self._give_up(error)

    def row(self, sql: str) -> Row:
        """Runs one statement that returns exactly one row."""
        [row] = self.rows(sql)
        return row

    def answer(self, sql: str, names: tuple[str, ...]) -> Row:
        """Runs one SELECT that returns exactly one row with these columns; in an `IdleProbe` it waits for others."""
        row = self.row(sql)
        return {name: row[name] for name in names}

    def execute(self, sql: str) -> None:
        """Runs one statement for its effect on the session."""
        self.rows(sql)

    def close(self) -> None:
        """Closes the connection, if one is open; the next statement opens another. It never fails."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # A connection that the server has ended cannot be closed politely, and nothing hangs on it: sessions only read.
            with suppress(exc.SQLAlchemyError, OSError):
                connection.close()

    def _prepare(self, connection: Connection) -> None:
        """Sets what every session needs."""
        raise NotImplementedError

    def _lacks_privilege(self, error: exc.DBAPIError) -> bool:
        """True if the server answered that a grant is missing for one statement."""
        raise NotImplementedError

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
            raise self._explain(error) from None
        self._connection = connection
        try:
            self._prepare(connection)
        except exc.DBAPIError as error:
            self.close()  # without its settings a session would read times in another zone
            raise self._explain(error) from None
        except BaseException:
            self.close()
            raise
        return connection

    def _give_up(self, error: exc.DBAPIError) -> NoReturn:
        problem = self._explain(error)
        if problem.retryable or error.connection_invalidated:
            self.close()
        raise problem from None


def unreachable(what: str, why: str, check: str) -> SourceUnreachableError:
    """Returns the error for a server that may answer later."""
    return SourceUnreachableError(what, why=why, data=NOTHING, next=f"{check}; scheduled runs retry automatically.")


def ended_early(place: str, why: str) -> SourceUnreachableError:
    """Returns the error for a connection that a native reader lost in the middle of the rows."""
    return unreachable(
        f"The connection to the database server at {place} ended before its rows did.", why, "Check the server's log and the network"
    )


def unreadable(place: str, error: Exception) -> SourceError:
    """Returns the error for bytes of which a native reader can make no value."""
    return SourceError(
        f"The database server at {place} sent a value that the native reader cannot read exactly.",
        why=str(error)[:400],
        data=NOTHING,
        next="Set 'reader: jdbc' for the source, and report the type of the column.",
    )


def interrupted(place: str, why: str) -> SourceInterruptedError:
    """The error for a statement that the server did not run to its end, and may run at another time."""
    return SourceInterruptedError(
        f"The database server at {place} ended a statement of cdc-ops early.",
        why=why,
        data=NOTHING,
        next="Nothing to do for a single case: scheduled runs retry automatically. If it repeats, look for a limit on the run time of"
        " statements, or for a tool that ends long ones, and exempt the user of the connection.",
    )


def not_held(place: str, settings: tuple[str, ...], why: str) -> SourceError:
    """The error for settings that a session has although they change what it reads."""
    return SourceError(
        f"A session on the database server at {place} has {', '.join(settings)}, which changes what is read.",
        why=why,
        data=NOTHING,
        next="Take the setting back for the login of the connection, or let cdc-ops connect to the server itself.",
    )


def one_line(text: str) -> str:
    """Returns the beginning of a message of the server, without line breaks."""
    return re.sub(r"\s+", " ", text).strip()[:400]


def check_options(given: dict[str, str], known: tuple[str, ...], tolerated: tuple[str, ...] = ()) -> None:
    """Checks the names of a connection's options.

    Raises:
        ConfigError: one is unknown.
    """
    for name in given:
        if name not in (*known, *tolerated):
            raise ConfigError(
                f"The connection of the source has an unknown option {name!r}.",
                why=did_you_mean(name, known),
                data=NOTHING,
                next="Correct or remove it.",
            )


def check_mode(option: str, mode: str, known: tuple[str, ...]) -> None:
    """Checks how a connection is to be encrypted.

    Raises:
        ConfigError: there is no such mode.
    """
    if mode and mode not in known:
        raise ConfigError(
            f"{option}={mode!r} of the connection does not exist.", why=did_you_mean(mode, known), data=NOTHING, next="Correct it."
        )
