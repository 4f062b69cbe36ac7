"""A MySQL or MariaDB server as one that has binlogs: its identity, its list of files, how long it keeps them, and their bytes.

BinlogServer(url) -> listing, retention, flush; copying(name) -> pieces of the file's events, until it ends
"""

import re
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

import pymysql

from cdc_ops.core.archive.binlogs.binlog_check import is_in_file, names_a_file
from cdc_ops.core.archive.binlogs.binlog_copies import Retention, ServerBinlog
from cdc_ops.core.binlog.events import MAGIC
from cdc_ops.errors import ArchiveGapError, CdcError, LeaseHeldError, SourceAccessError, SourceError
from cdc_ops.sources.mysql.binlogs.stream import Piece, dump
from cdc_ops.sources.mysql.session import Address, MySQLSession, connect, error_code, source_error

_NOTHING: Final = "Nothing was copied."
_NO_BINLOG: Final = 1381
_NO_SUCH_FILE: Final = 1236
_NO_PRIVILEGE: Final = (1044, 1045, 1142, 1227)
_AGES: Final = {"binlog_expire_logs_seconds": 1, "expire_logs_days": 86_400}
_PURGES: Final = "binlog_expire_logs_auto_purge"
_SIZES: Final = ("max_binlog_total_size", "binlog_space_limit")
"""Variables of MySQL, MariaDB and Percona Server by which they purge; each server has some of them."""
_LOCKED_SECONDS: Final = 30 * 86_400
"""How long the session that holds the lock may be silent while files are copied on other connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerIdentity:
    """Which server it is.

    Args:
        name: What tells it from others: the UUID of a MySQL, `server-<server_id>` of a MariaDB.
        version: In the server's words.
        is_mariadb: Whether it is a MariaDB.
    """

    name: str
    version: str
    is_mariadb: bool


class BinlogServer:
    """A server whose binlogs are copied. Connections open on first use.

    Args:
        url: Connection URL with credentials, `mysql://user:password@host:port/`; also `mariadb://`.

    Raises:
        ConfigError: the URL is not one of MySQL.
    """

    def __init__(self, url: str) -> None:
        self._address = Address(url)
        self._session = MySQLSession(self._address)

    @property
    def place(self) -> str:
        """Host and port."""
        return self._address.place

    def identity(self) -> ServerIdentity:
        """Returns which server it is.

        Raises:
            SourceError: it cannot be reached.
        """
        mariadb = self._session.is_mariadb
        row = self._session.row(f"SELECT {'@@server_id' if mariadb else '@@server_uuid'} AS name")
        name = f"server-{row['name']}" if mariadb else str(row["name"])
        return ServerIdentity(name=name, version=self._session.version, is_mariadb=mariadb)

    def now(self) -> datetime:
        """Returns the server's clock, UTC."""
        return datetime.fromtimestamp(int(self._session.row("SELECT UNIX_TIMESTAMP() AS now")["now"]), UTC)

    def binlogs(self) -> tuple[ServerBinlog, ...]:
        """Returns the server's binlogs in its order; the last one is being written.

        Raises:
            SourceAccessError: the user may not ask.
            SourceError: the server writes none.
        """
        if not int(self._session.row("SELECT @@log_bin AS logs")["logs"]):
            raise SourceError(
                f"The server at {self.place} does not write a binary log.",
                data=_NOTHING,
                next="Turn it on (log_bin), or remove 'archive.copy' from the pipeline file.",
            )
        rows = self._session.rows_if_allowed("SHOW BINARY LOGS")
        if rows is None:
            monitor = "BINLOG MONITOR" if self._session.is_mariadb else "REPLICATION CLIENT"
            raise self._may_not("list the binlogs", monitor)
        return tuple(
            ServerBinlog(
                name=str(row["log_name"]), listed_size=int(row["file_size"]), encrypted=str(row.get("encrypted", "No")).lower() == "yes"
            )
            for row in rows
        )

    def retention(self) -> Retention:
        """Returns how long the server keeps its binlogs."""
        names = ", ".join(f"'{name}'" for name in (*_AGES, _PURGES, *_SIZES))
        rows = self._session.rows(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
        known = {str(row["variable_name"]): str(row["value"]) for row in rows}
        seconds = next((value for name, unit in _AGES.items() if (value := float(known.get(name, 0)) * unit)), 0.0)
        purges = known.get(_PURGES, "ON").upper() in ("ON", "1")
        limits = [name for name in _SIZES if int(known.get(name, 0))]
        return Retention(keeps=timedelta(seconds=seconds) if seconds and purges else None, limited_by="".join(limits[:1]))

    def flush(self) -> None:
        """Closes the binlog that is being written, and begins another one.

        Raises:
            SourceAccessError: the user may not.
        """
        if self._session.rows_if_allowed("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS") is None:
            raise self._may_not("close the binlog", "RELOAD")

    def may_be_copied(self, *, flush: bool) -> ServerIdentity:
        """Returns which server it is, once it is sure that the user may do all that copying needs. Nothing is changed.

        Args:
            flush: Whether the binlog that is being written is to be closed.

        Raises:
            SourceAccessError: the user may not; the error has the statement that grants it.
            SourceError: the server writes no binlog, or cannot be reached.
        """
        identity = self.identity()
        self.beginning(self.binlogs()[-1].name, 1)
        if flush and not any(_lets_flush(str(text)) for row in self._session.rows("SHOW GRANTS") for text in row.values()):
            raise self._may_not("close the binlog", "RELOAD")
        return identity

    @contextmanager
    def only_one(self, what: str) -> Iterator[None]:
        """Keeps other archivers from the same work for as long as the block runs; a lost connection ends that.

        Args:
            what: A name of the work, at most 64 characters, without quotes.

        Raises:
            LeaseHeldError: another one does it.
        """
        self._session.execute(f"SET SESSION wait_timeout = {_LOCKED_SECONDS}")
        if not self._session.row(f"SELECT GET_LOCK('{what}', 0) AS got")["got"]:
            raise LeaseHeldError(
                f"Another process copies the binlogs of the server at {self.place} into this archive.",
                data=_NOTHING,
                next="Nothing to do: what it copies, this run would have copied. The server frees the work when that process ends.",
            )
        try:
            yield
        finally:
            self._session.close()  # which frees the work, also where the connection is lost already

    def beginning(self, name: str, size: int) -> bytes:
        """Returns about the first bytes of a binlog: whole events, until they are so many, or the file ends.

        Raises:
            SourceAccessError: the user may not read binlogs.
            SourceError: the server refuses, or cannot be reached.
        """
        found = bytearray(MAGIC)
        with closing(self.pieces(name)) as pieces:
            for piece, _, last in pieces:
                found += piece
                if last and len(found) >= size:
                    break
        return bytes(found)

    def pieces(self, name: str) -> Generator[Piece, None, None]:
        """Yields the events of one binlog, each in one or more pieces, and nothing of what frames them.

        Raises:
            ArchiveGapError: the server no longer has the file.
            SourceAccessError: the user may not read binlogs.
            SourceError: the server refuses, or cannot be reached.
        """
        mariadb = self._session.is_mariadb
        try:
            connection = connect(self._address)
            try:
                yield from _of_one_file(dump(connection, name, mariadb=mariadb))
            finally:
                connection._force_close()  # the server may be sending; a polite end would wait for it
        except (pymysql.Error, OSError, RuntimeError) as error:
            self._explain(error, name)

    def close(self) -> None:
        """Closes all connections."""
        self._session.close()

    def _explain(self, error: Exception, name: str) -> NoReturn:
        code = error_code(error)
        if code in _NO_PRIVILEGE:
            raise self._may_not("read the binlogs", "REPLICATION SLAVE") from None
        if code == _NO_SUCH_FILE and "first log file" in str(error):
            raise ArchiveGapError(
                f"The server at {self.place} no longer has the binlog {name}, which it listed a moment ago.",
                why="It was purged before it was copied.",
                data="Those before it are archived.",
                next="Run the archiver again: it copies the files that are left, and names what is missing.",
            ) from None
        raise source_error(error, self._address) from None

    def _may_not(self, what: str, privilege: str) -> CdcError:
        account = str(self._session.row("SELECT CURRENT_USER() AS account")["account"])
        user, _, host = account.rpartition("@")
        return SourceAccessError(
            f"User {account} may not {what} of the server at {self.place}.",
            why=f"It lacks the privilege {privilege}.",
            data=_NOTHING,
            next=f"GRANT {privilege} ON *.* TO '{user}'@'{host}';",
        )


def _lets_flush(grant: str) -> bool:
    """Says whether a line of `SHOW GRANTS`, which has what active roles give too, has what closing a binlog needs."""
    granted = re.match(r"GRANT (.+?) ON \*\.\* TO ", grant)
    return granted is not None and not {"RELOAD", "ALL PRIVILEGES"}.isdisjoint(granted[1].split(", "))


def _of_one_file(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Leaves out what frames a file, and ends where the server goes on with the next one."""
    begun = inside = False
    for piece, first, last in pieces:
        if first:
            inside = is_in_file(piece)
            if not inside and begun and names_a_file(piece):
                return
            begun = begun or inside
        if inside:
            yield piece, first, last
