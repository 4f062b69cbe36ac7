"""The facts of a Postgres server for a safe bound."""

from datetime import datetime, timedelta
from typing import Final

from cdc_ops.core.cursor.cursors import CursorType, format_datetime
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import SourceError
from cdc_ops.sources.bounds.activity import ReplicaState, ServerActivity, Writer
from cdc_ops.sources.postgres.catalog import PostgresCatalog
from cdc_ops.sources.postgres.open_transactions import observe
from cdc_ops.sources.postgres.session import PostgresSession
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import NOTHING
from cdc_ops.sources.topology import PostgresFacts, Topology, postgres_topology

_REPLAY: Final = """
    SELECT pg_is_wal_replay_paused() AS paused, clock_timestamp() - pg_last_xact_replay_timestamp() AS since_replay,
      (SELECT clock_timestamp() - last_msg_send_time FROM pg_stat_wal_receiver
       WHERE status = 'streaming' AND pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()) AS since_message"""


_PART_OF: Final = """
    SELECT pg_is_in_recovery() AS standby, EXISTS (SELECT FROM pg_proc WHERE proname = 'aurora_version') AS aurora,
      (SELECT COALESCE(string_agg(extname, ' '), '') FROM pg_extension) AS extensions,
      (SELECT COALESCE(string_agg(subname, ' '), '') FROM pg_subscription AS s JOIN pg_database AS d ON d.oid = s.subdbid
       WHERE d.datname = current_database() AND s.subenabled) AS subscriptions"""

_ORIGIN: Final = """
    SELECT s.system_identifier AS number, CASE WHEN pg_is_in_recovery()
      THEN GREATEST(c.timeline_id, r.min_recovery_end_timeline, (SELECT received_tli FROM pg_stat_wal_receiver))
      ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END AS timeline
    FROM pg_control_system() AS s, pg_control_checkpoint() AS c, pg_control_recovery() AS r"""
"""What the server has in its control file may be some minutes old, so a primary is asked for the name of its log instead."""

_ROLE_ZONES: Final = """
    SELECT DISTINCT split_part(setting, '=', 2) AS zone FROM pg_db_role_setting AS s CROSS JOIN LATERAL unnest(s.setconfig) AS setting
    WHERE lower(split_part(setting, '=', 1)) = 'timezone'
      AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))"""


class PostgresProbe:
    """A server's writers, clock and sequences; see `Probe`.

    Args:
        session: The connection.
        catalog: Knows a table's sequences.
        dialect: How literals are printed.
        declared_lag: The pipeline's `replication_lag`.
    """

    look_again_seconds = 0.1

    def __init__(
        self, session: PostgresSession, catalog: PostgresCatalog, dialect: Dialect, declared_lag: timedelta = timedelta(0)
    ) -> None:
        self._declared_lag = declared_lag
        self._session = session
        self._catalog = catalog
        self._dialect = dialect

    def now(self) -> datetime:
        """Returns the server's clock, UTC."""
        now: datetime = self._session.row("SELECT clock_timestamp() AS now")["now"]
        return now

    def observe(self) -> ServerActivity:
        """Reads the clock, then the writers.

        Raises:
            SourceError: the server is a part of something that does not show who else writes, and no lag is declared.
        """
        topology = self.topology()
        if topology.why and not self._declared_lag:
            raise topology.refusal(self._session.place)
        return observe(self._session)

    def topology(self) -> Topology:
        """Returns what the server is a part of."""
        version = str(self._session.row("SELECT version() AS version")["version"])
        if "CockroachDB" in version:
            return postgres_topology(PostgresFacts(version=version))
        row = self._session.row(_PART_OF)
        return postgres_topology(
            PostgresFacts(
                version=version,
                extensions=tuple(row["extensions"].split()),
                subscriptions=tuple(row["subscriptions"].split()),
                is_aurora=row["aurora"],
                is_standby=row["standby"],
            )
        )

    def origin(self) -> str:
        """Returns the cluster's number and its timeline, which each promotion of a standby raises; a standby has those of its primary.

        Returns:
            "" if the user may not see them, and for what is no single server.
        """
        if self.topology() != Topology():
            return ""  # of Aurora, too: its instances have one storage, so that a failover loses no commit
        rows = self._session.rows_if_allowed(_ORIGIN)
        return f"{rows[0]['number']}/{rows[0]['timeline']}" if rows else ""

    def server(self) -> tuple[str, datetime]:
        """Returns the server's start, to the microsecond, which no other server shares."""
        started: datetime = self._session.row("SELECT pg_postmaster_start_time() AS started")["started"]
        return f"started {started.isoformat()}", started

    def running(self) -> int:
        """Returns the active backends of clients; without pg_read_all_stats a server shows only those of the same user."""
        active = "state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        return int(self._session.row(f"SELECT count(*) AS running FROM pg_stat_activity WHERE {active}")["running"])

    def replica(self) -> ReplicaState | None:
        """Returns how far behind a standby is: the age of what it replays or, when it has replayed all, of its primary's last message.

        Raises:
            SourceError: its replay is paused, or it has replayed nothing yet.
        """
        if self._declared_lag and (topology := self.topology()).why:
            return ReplicaState(lag=self._declared_lag, declared=topology.name)
        if not self._session.row("SELECT pg_is_in_recovery() AS standby")["standby"]:
            return None
        state = self._session.row(_REPLAY)
        lag: timedelta | None = state["since_message"] if state["since_message"] is not None else state["since_replay"]
        if state["paused"] or lag is None:
            trouble = "has paused its replay" if state["paused"] else "has replayed nothing"
            raise SourceError(
                f"The source at {self._session.place} is a standby that {trouble}.",
                why="Its lag behind its primary is therefore unknown.",
                data=NOTHING,
                next="Resume its replay (SELECT pg_wal_replay_resume()), or connect to its primary.",
            )
        return ReplicaState(lag=max(lag, timedelta(0)) + timedelta(seconds=1))

    def earliest_stamp(self, writer: Writer, lookback: timedelta) -> datetime:
        """Returns the earliest time that a writer may have put into a row: now() is exactly the start of its transaction."""
        return writer.started

    def zone(self) -> tuple[str, bool]:
        """Returns the zone in which sessions begin."""
        return str(self._session.row("SELECT reset_val AS zone FROM pg_settings WHERE name = 'TimeZone'")["zone"]), True

    def session_zones(self) -> tuple[str, ...]:
        """Returns the zone in which sessions begin, and those that roles and databases have; sessions of others do not show theirs."""
        rows = self._session.rows(_ROLE_ZONES)
        return tuple(sorted({self.zone()[0], *(str(row["zone"]) for row in rows)}))

    def wall_clock(self, instants: tuple[datetime, ...]) -> tuple[datetime, ...]:
        """Turns instants into wall-clock times of the zone in which sessions begin."""
        zone = self._dialect.text(self.zone()[0])
        literals = (self._dialect.moment(format_datetime(instant.replace(tzinfo=None)), CursorType.TIMESTAMP) for instant in instants)
        row = self._session.row("SELECT " + ", ".join(f"{one} AT TIME ZONE {zone} AS m{index}" for index, one in enumerate(literals)))
        return tuple(row[f"m{index}"] for index in range(len(instants)))

    def next_number(self, table: TableName, column: str) -> int | None:
        """Returns the next number of a serial or identity column."""
        return self._catalog.next_number(table, column)

    def missing_grant(self, seen: ServerActivity, instead: str) -> str:
        """The warning that names what to grant."""
        return (
            f"User {seen.account} lacks the privilege to see open transactions; {instead}, and a transaction that stays open longer can be"
            f" read late. Grant it: GRANT pg_read_all_stats TO {self._dialect.name(seen.account)}"
        )

    def unknown_start(self, writer: Writer) -> str:
        """Returns the warning about a transaction whose start is unknown."""
        return (
            f"Held back by {writer.label}: its start is unknown. To end it: COMMIT PREPARED or ROLLBACK PREPARED for a transaction in "
            "pg_prepared_xacts; close a session with track_activities = off."
        )
