"""The facts of a MySQL or MariaDB server for a safe bound."""

from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_ops.core.schema.tables import TableName
from cdc_ops.sources.bounds.activity import ReplicaState, ServerActivity, Writer
from cdc_ops.sources.mysql.bounds.nodes import observe_nodes
from cdc_ops.sources.mysql.bounds.open_transactions import CACHE_SECONDS, observe, server_start
from cdc_ops.sources.mysql.catalog import Catalog
from cdc_ops.sources.mysql.replication.replica import replica_origin, replica_state
from cdc_ops.sources.mysql.replication.topology import read_topology, wait_for_group
from cdc_ops.sources.mysql.session import MySQLSession
from cdc_ops.sources.topology import Topology, Writes

_SESSION_ZONES: Final = (
    "SELECT DISTINCT v.VARIABLE_VALUE AS zone FROM performance_schema.variables_by_thread AS v"
    " JOIN performance_schema.threads AS t ON t.THREAD_ID = v.THREAD_ID WHERE v.VARIABLE_NAME = 'time_zone'"
    " AND t.PROCESSLIST_ID IS NOT NULL AND t.PROCESSLIST_USER IS NOT NULL"
    " AND t.PROCESSLIST_USER <> SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"
)
"""Sessions of our own user are left out: they only read, in UTC."""


class MySQLProbe:
    """A server's writers, clock and counters; see `Probe`.

    Args:
        session: The connection.
        catalog: Knows a table's next number.
        writers: Sessions at all nodes that write, the source's own first, if the pipeline names others.
        declared_lag: The pipeline's `replication_lag`.
    """

    look_again_seconds = CACHE_SECONDS

    def __init__(
        self, session: MySQLSession, catalog: Catalog, writers: tuple[MySQLSession, ...] = (), declared_lag: timedelta = timedelta(0)
    ) -> None:
        self._session = session
        self._catalog = catalog
        self._writers = writers
        self._declared_lag = declared_lag

    def now(self) -> datetime:
        """Returns the server's clock, UTC."""
        now: datetime = self._session.row("SELECT UTC_TIMESTAMP(6) AS now")["now"]
        return now.replace(tzinfo=UTC)

    def observe(self) -> ServerActivity:
        """Reads the clock, then the writers: those of all nodes that write.

        Raises:
            SourceError: the server is a part of something that does not show who else writes, and no lag is declared.
        """
        if self._writers:
            return observe_nodes(self._writers)
        topology = self.topology()
        if topology.why and not self._declared_lag:
            raise topology.refusal(self._session.place)
        if topology.writes is Writes.HERE and topology.view:
            wait_for_group(self._session)
        return observe(self._session)

    def topology(self) -> Topology:
        """Returns what the server is a part of."""
        return read_topology(self._session)

    def origin(self) -> str:
        """Returns who stamps the rows that are read here: this server, the one that it follows, or its cluster; "" if that is unknown."""
        found = self.topology()
        is_alone = found.origin and found.writes is Writes.HERE and not found.view
        return replica_origin(self._session, found.origin) if is_alone else found.origin

    def server(self) -> tuple[str, datetime]:
        """Returns the server's own identity, and its start rounded up to whole seconds."""
        mine = "CONCAT_WS(' ', @@hostname, @@port, @@server_id, @@datadir)" if self._session.is_mariadb else "@@server_uuid"
        row = self._session.row(f"SELECT {mine} AS identity, UTC_TIMESTAMP(6) AS now")
        return str(row["identity"]), server_start(self._session, row["now"].replace(tzinfo=UTC)) + timedelta(seconds=1)

    def running(self) -> int:
        """Returns `Threads_running` without this statement."""
        return int(self._session.row("SHOW GLOBAL STATUS LIKE 'Threads_running'")["value"]) - 1

    def replica(self) -> ReplicaState | None:
        """Returns how far behind a replica is; the declared lag of a server that does not show who else writes."""
        if not self._writers and self._declared_lag and (topology := self.topology()).why:
            return ReplicaState(lag=self._declared_lag, declared=topology.name)
        return replica_state(self._session)

    def earliest_stamp(self, writer: Writer, lookback: timedelta) -> datetime:
        """Returns the earliest time that a writer may have put into a row."""
        # A statement that waits for a metadata lock takes its NOW() before InnoDB sees its transaction: the lookback covers the wait.
        return writer.started - lookback

    def zone(self) -> tuple[str, bool]:
        """Returns the global time zone; the name that the operating system uses is not reliable."""
        zones = self._session.row("SELECT @@global.time_zone AS zone, @@system_time_zone AS system_zone")
        system = zones["zone"] == "SYSTEM"
        return zones["system_zone"] if system else zones["zone"], not system

    def session_zones(self) -> tuple[str, ...]:
        """Returns the zones of other users' sessions (MySQL, with SELECT on performance_schema); else the global one, of new sessions."""
        if not self._session.is_mariadb:
            rows = self._session.rows_if_allowed(_SESSION_ZONES) or []
            begins = self.zone()[0] if rows else ""
            if zones := {begins if row["zone"] == "SYSTEM" else str(row["zone"]) for row in rows}:
                return tuple(sorted(zones))
        return (self.zone()[0],)

    def wall_clock(self, instants: tuple[datetime, ...]) -> tuple[datetime, ...]:
        """Turns instants into wall-clock times of the server's own zone."""
        self._session.execute("SET SESSION time_zone = @@global.time_zone")
        try:
            moments = (f"FROM_UNIXTIME({_unix(instant)}) AS m{index}" for index, instant in enumerate(instants))
            row = self._session.row(f"SELECT {', '.join(moments)}")
        finally:
            self._session.execute("SET SESSION time_zone = '+00:00'")
        return tuple(row[f"m{index}"] for index in range(len(instants)))

    def next_number(self, table: TableName, column: str) -> int | None:
        """Returns the next number of an AUTO_INCREMENT column."""
        return self._catalog.auto_increment(table, column)

    def missing_grant(self, seen: ServerActivity, instead: str) -> str:
        """The warning that names what to grant."""
        user, _, host = seen.account.rpartition("@")
        return (
            f"User {seen.account} lacks the privilege to see open transactions; {instead}, and a transaction that stays open longer can be"
            f" read late. Grant it: GRANT PROCESS ON *.* TO '{user}'@'{host}'"
        )

    def unknown_start(self, writer: Writer) -> str:
        """The warning about a transaction that outlived a restart of the server."""
        return (
            f"Held back by {writer.label}: it was prepared before the server restarted, so its start is unknown. "
            "List it with XA RECOVER and end it with XA COMMIT or XA ROLLBACK."
        )


def _unix(instant: datetime) -> str:
    microseconds = (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return f"{microseconds // 1_000_000}.{microseconds % 1_000_000:06d}"
