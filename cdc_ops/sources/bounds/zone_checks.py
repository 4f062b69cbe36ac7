"""Warnings for cursors without a zone: sessions that write in another time zone than the source's, and rows in the future.

`DATETIME DEFAULT CURRENT_TIMESTAMP` (in Postgres `timestamp DEFAULT now()`) takes the zone of the *session* that writes. Rows that a
session further west stamps lie below the watermark at once, and no increment reads them.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_ops.core.cursor.cursors import Cursor, CursorType
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.sources.bounds.clock import ClockBound, Probe
from cdc_ops.sources.bounds.time_zones import same_clock
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import SqlSession

COUNTED: Final = 1000
"""Rows in the future are counted up to so many: it is the number of index entries that a plan reads for them at most."""

_SLACK: Final = timedelta(minutes=1)
"""Rows are committed while the check looks."""

_FIX: Final = (
    "Rows that sessions further west stamp lie below the watermark at once and are not read. Make the column a TIMESTAMP (in Postgres"
    " timestamptz), or have all applications write in one zone, best UTC, and name it in 'time_zone' of the source; until then a"
    " 'reconcile_schedule' finds rows that are missing, and 'cdc-ops reconcile --rows' also those that are old"
)


@dataclass(slots=True)
class ZoneChecks:
    """Checks the time zones of one server; it asks for the zones once.

    Args:
        probe: The server.
        session: The connection.
        dialect: How statements are printed.
        clock: Turns instants into wall-clock times of the source's zone.
        time_zone: Zone of zone-less columns, as the pipeline file says; "" = the server's global zone.
    """

    probe: Probe
    session: SqlSession
    dialect: Dialect
    clock: ClockBound
    time_zone: str
    _others: tuple[str, ...] | None = None

    def warnings(self, schema: TableSchema, cursor: Cursor, *, stamped: bool) -> tuple[str, ...]:
        """Returns the warnings for a cursor, () for a cursor with a time zone or without a time.

        Args:
            schema: The table.
            cursor: Its cursor.
            stamped: True if the server puts the session's time into the column, by its default or ON UPDATE.
        """
        if cursor.lead.type is not CursorType.DATETIME:
            return ()
        checks = (self._session_warning(schema, cursor) if stamped else "", self._future_warning(schema, cursor))
        return tuple(warning for warning in checks if warning)

    def _session_warning(self, schema: TableSchema, cursor: Cursor) -> str:
        zone = self.time_zone or self.probe.zone()[0]
        if self._others is None:
            self._others = tuple(other for other in self.probe.session_zones() if not same_clock(zone, other, datetime.now(UTC)))
        if not self._others:
            return ""
        return (
            f"Cursor column {cursor.lead.name!r} of {schema.table} is stamped by the server in the zone of the session that writes, and"
            f" there are sessions in {', '.join(self._others)}, while the source's zone is {zone}. {_FIX}."
        )

    def _future_warning(self, schema: TableSchema, cursor: Cursor) -> str:
        lead = cursor.lead
        if lead.coalesce or not any(index[0] == lead.name for index in schema.indexes):
            return ""  # without an index the question would read the whole table
        column, table = self.dialect.operand(lead), self.dialect.table(schema.table)
        border = self.dialect.literal(lead, lead.literal(lead.ceil(self.clock.latest(cursor, self.probe.now()) + _SLACK)))
        # MAX is one look at the end of the index, on every server and whatever its statistics say.
        finite = f"{column} < {self.dialect.endless}" if self.dialect.endless else ""  # those above are in no window (outside_windows.py)
        of = f"{table} WHERE {finite}" if finite else table
        ends = f"SELECT MAX({column}) > {border} AS ahead, CAST(MAX({column}) AS CHAR(40)) AS newest FROM {of}"
        newest = self.session.answer(ends, ("ahead", "newest"))
        if not newest["ahead"]:
            return ""
        ahead = " AND ".join(filter(None, (f"{column} > {border}", finite)))
        rows = f"SELECT 1 FROM {table} WHERE {ahead} ORDER BY {column} DESC LIMIT {COUNTED + 1}"
        found = int(self.session.row(f"SELECT COUNT(*) AS n FROM ({rows}) AS q")["n"])
        shown = f"at least {COUNTED:,}" if found > COUNTED else f"{found:,}"
        return (
            f"{shown} {'row' if found == 1 else 'rows'} of {schema.table} lie in the future: cursor column {lead.name!r} is up to"
            f" {str(newest['newest']).strip()}, above the source's clock. They are read when the clock has passed them. Another zone than"
            f" 'time_zone' of the source ({self.time_zone or 'not set: the global zone of the server'}) may have stamped them. {_FIX}."
        )
