"""The committed position of a MySQL or MariaDB server, and whether a replica has applied it.

A position is taken at the server and waited for at the replica; no clock and no lag is trusted. A commit is in the binary log before it is
visible, so a position that is taken now covers all that anybody can have seen.

    MariaDB   @@gtid_binlog_pos      MASTER_GTID_WAIT
    MySQL     file and offset        SOURCE_POS_WAIT (MASTER_POS_WAIT before 8.0.26), so the replica has to follow the server directly

MySQL's own GTID set is not taken: it is brought up to date after rows are visible.
"""

from datetime import timedelta
from typing import Final

from cdc_ops.errors import SourceAccessError, SourceError
from cdc_ops.sources.base import SourcePosition
from cdc_ops.sources.mysql.replication.replica import replica_lag, replica_status
from cdc_ops.sources.mysql.session import MySQLSession
from cdc_ops.sources.sql.session import NOTHING, Row

_NOT_FILTERS: Final = ("replicate_ignore_server_ids", "replicate_ignore_domain_ids", "replicate_do_domain_ids")


class MySQLPositions:
    """Positions of a server, and how far a replica is; see `Source.position` and `Source.has_applied`.

    Args:
        session: The connection.
    """

    def __init__(self, session: MySQLSession) -> None:
        self._session = session

    def position(self) -> SourcePosition:
        """Returns how far the server's binary log is.

        Raises:
            SourceError: it writes none.
            SourceAccessError: the user may not ask where a MySQL's log is.
        """
        mariadb = self._session.is_mariadb
        identity = "@@server_id" if mariadb else "@@server_uuid"
        row = self._session.row(f"SELECT {identity} AS server, @@log_bin AS logs")
        if not int(row["logs"]):
            raise SourceError(
                f"The server at {self._session.place} does not write a binary log, so it has no replicas.",
                data=NOTHING,
                next="Remove 'snapshot_connection' from the pipeline's source, or turn the binary log on.",
            )
        at = str(self._session.row("SELECT @@gtid_binlog_pos AS at")["at"]) if mariadb else self._file_and_offset()
        return SourcePosition(server=str(row["server"]), at=at)

    def has_applied(self, position: SourcePosition, within: timedelta) -> bool:
        """Waits until the replica has applied a position.

        Raises:
            SourceError: it is no replica of that server, replicates only a part of it, or its replication has stopped.
            SourceAccessError: the user may not ask it.
        """
        self._check(position.server)
        if self._session.is_mariadb:
            waited = self._session.row(f"SELECT MASTER_GTID_WAIT('{_quoted(position.at)}', {within.total_seconds():.3f}) AS waited")[
                "waited"
            ]
        else:
            name, _, offset = position.at.rpartition(":")
            function = "SOURCE_POS_WAIT" if self._release() >= (8, 0, 26) else "MASTER_POS_WAIT"
            seconds = max(int(within.total_seconds()), 1)  # 0 would wait for ever
            waited = self._session.row(f"SELECT {function}('{_quoted(name)}', {int(offset)}, {seconds}) AS waited")["waited"]
        return waited is not None and int(waited) >= 0

    def _check(self, server: str) -> None:
        rows = replica_status(self._session)
        if rows is None:
            raise SourceAccessError(
                f"User {self._session.user!r} lacks the privilege to check whether the server at {self._session.place} is a replica.",
                why="cdc-ops reads from 'snapshot_connection' only if it can check that the replica has applied all commits.",
                data=NOTHING,
                next="Grant it there: GRANT REPLICATION CLIENT ON *.* TO the user (MariaDB: SLAVE MONITOR).",
            )
        of_server = [row for row in rows if _followed(row) == server]
        if not of_server:
            followed = ", ".join(_followed(row) for row in rows)
            raise SourceError(
                f"The server at {self._session.place} is not a replica of the pipeline's source.",
                why=f"It replicates from the server {followed}; the source is {server}."
                if rows
                else "It does not replicate from a server.",
                data=NOTHING,
                next="Set 'snapshot_connection' to a server that replicates the source directly, or remove it.",
            )
        for row in of_server:
            _check_is_whole(self._session, row)
            replica_lag(self._session, row)  # raises if replication does not run

    def _file_and_offset(self) -> str:
        statement = "SHOW BINARY LOG STATUS" if self._release() >= (8, 2, 0) else "SHOW MASTER STATUS"
        rows = self._session.rows_if_allowed(statement)
        if not rows:
            raise SourceAccessError(
                f"User {self._session.user!r} lacks the privilege to read the binary log position of the server at {self._session.place}.",
                why="cdc-ops reads from 'snapshot_connection' only if it can check that the replica has applied all commits.",
                data=NOTHING,
                next="Grant it: GRANT REPLICATION CLIENT ON *.* TO the user.",
            )
        return f"{rows[0]['file']}:{rows[0]['position']}"

    def _release(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self._session.version.split("-", 1)[0].split(".")[:3])


def _followed(row: Row) -> str:
    """The server that a replica's channel follows, by what tells servers apart: a MySQL's UUID, a MariaDB's id."""
    return str(row.get("source_uuid") or row.get("master_uuid") or row.get("master_server_id"))


def _check_is_whole(session: MySQLSession, row: Row) -> None:
    filters = {name: value for name, value in row.items() if name.startswith("replicate_") and value and name not in _NOT_FILTERS}
    if filters:
        raise SourceError(
            f"The replica at {session.place} replicates only a part of its source.",
            why=", ".join(f"{name}: {value}" for name, value in sorted(filters.items())),
            data=NOTHING,
            next="Set 'snapshot_connection' to a replica without filters, or remove it.",
        )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")
