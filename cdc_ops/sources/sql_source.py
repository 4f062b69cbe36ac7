"""What all SQL sources have in common: catalog, bounds, cuts and predicates put together; typing cursors and reading is each one's own."""

import time
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol, Self

from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.cursors import Cursor, CursorType, CursorValue
from cdc_ops.core.cursor.windows import SafeBound, Window
from cdc_ops.core.pipeline.pipeline import SourceConfig
from cdc_ops.core.reconcile.key_buckets import BucketSelection
from cdc_ops.core.schema.source_traits import SourceTraits
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.core.schema.value_policies import DEFAULT_TYPES, TypePolicies
from cdc_ops.errors import RequestError, SourceError
from cdc_ops.sources.access import SourceAccess
from cdc_ops.sources.base import DigestQuery, JdbcRead, SourcePosition
from cdc_ops.sources.bounds.clock import SHARE_SECONDS, BoundRequest, BoundStrategy, ClockBound, Probe
from cdc_ops.sources.bounds.counter import CounterBound
from cdc_ops.sources.bounds.zone_checks import ZoneChecks
from cdc_ops.sources.checksums import DigestSql
from cdc_ops.sources.chunks.chunks import ChunkPlan, ChunkSize
from cdc_ops.sources.chunks.partitions import BorderFinder, Slicer
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import NOTHING, SqlSession
from cdc_ops.sources.topology import Topology


class TableCatalog(Protocol):
    """Reads the schemas of one server."""

    def tables(self) -> tuple[TableName, ...]:
        """Returns the base tables that the user may read."""
        ...

    def schema(self, table: TableName, *, columns: Iterable[str], except_columns: Iterable[str], types: TypePolicies) -> TableSchema:
        """Reads columns, primary key and indexes; see `Source.schema`."""
        ...

    def traits(self, table: TableName) -> SourceTraits:
        """Reads what may keep a copy from being equal; see `Source.traits`."""
        ...


class Positions(Protocol):
    """What a server has committed, and whether a replica has applied it."""

    def position(self) -> SourcePosition:
        """See `Source.position`."""
        ...

    def has_applied(self, position: SourcePosition, within: timedelta) -> bool:
        """See `Source.has_applied`."""
        ...


class NoPositions:
    """For servers whose replicas cannot be read from.

    Args:
        place: Where the server is, for the message.
    """

    def __init__(self, place: str) -> None:
        self._place = place

    def position(self) -> SourcePosition:
        """Refuses."""
        raise self._refusal()

    def has_applied(self, position: SourcePosition, within: timedelta) -> bool:
        """Refuses."""
        raise self._refusal()

    def _refusal(self) -> SourceError:
        return SourceError(
            f"What a replica of the server at {self._place} has applied is unknown.",
            why="cdc-ops reads whole tables only from replicas of MySQL and MariaDB.",
            data=NOTHING,
            next="Remove 'snapshot_connection' from the pipeline's source.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlParts:
    """What a source is put together from."""

    dialect: Dialect
    session: SqlSession
    catalog: TableCatalog
    probe: Probe
    borders: BorderFinder
    digests: DigestSql
    positions: Positions


class SqlSource:
    """The part of `Source` that is the same on every server; see there for what each method promises.

    Args:
        config: Kind and settings.
        parts: What the server does its own way.
        shown: Who and where, without the password.
    """

    def __init__(self, config: SourceConfig, parts: SqlParts, shown: str) -> None:
        self.config = config
        self._shown = shown
        self._parts = parts
        self._slicer = Slicer(parts.session, parts.dialect, parts.borders)
        self._clock = ClockBound(parts.probe, config.time_zone)
        self._zones = ZoneChecks(parts.probe, parts.session, parts.dialect, self._clock, config.time_zone)
        self._origin = (0.0, "")
        self._counter = CounterBound(parts.probe, parts.session, parts.dialect)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shown})"

    @property
    def parts(self) -> SqlParts:
        """What this source is put together from."""
        return self._parts

    def shared(self, tables: tuple[TableName, ...], session: SqlSession, probe: Probe) -> Self | None:
        """Returns this source with the schemas of some tables read together, and with another session and probe (sql/idle_probe.py).

        Returns:
            None from a source that reads schemas only one by one.
        """
        return None

    def _rebuilt(self, parts: SqlParts) -> Self:
        other = copy(self)
        SqlSource.__init__(other, self.config, parts, self._shown)
        return other

    def access(self, lookback: timedelta) -> SourceAccess:
        """Connects, and asks who the server is and what the user may see."""
        session, probe = self._parts.session, self._parts.probe
        version = str(session.row("SELECT VERSION() AS version")["version"]).split(" on ")[0]
        seen, replica, topology = probe.observe(), probe.replica(), probe.topology()
        part_of = "" if topology.name == Topology().name else f", {topology.name}"
        return SourceAccess(
            place=session.place,
            version=f"{version}{part_of}" + (f", all {seen.nodes} nodes asked" if seen.nodes > 1 else ""),
            account=seen.account,
            missing_grant="" if seen.complete else probe.missing_grant(seen, f"windows stay {lookback.total_seconds():g} s behind"),
            replica=replica.warning(lookback) if replica else "",
        )

    def first_rows(self, schema: TableSchema, rows: int) -> JdbcRead:
        """Returns how Spark reads the first rows by the primary key: one slice, which ends there."""
        dialect = self._parts.dialect
        # Qualified, it is the column that the index has, and not what the SELECT makes of it under the same name.
        keys = ", ".join(f"{dialect.table(schema.table)}.{dialect.name(key)}" for key in schema.primary_key)
        read = self.jdbc_read(schema, ("",))
        [relation] = read.relations
        select, alias = relation.removeprefix("(").rsplit(")", 1)
        # Without a primary key the order would cost a sort of the whole table.
        return replace(read, relations=(f"({select}{f' ORDER BY {keys}' if keys else ''} LIMIT {int(rows)}){alias}",), native=None)

    def tables(self) -> tuple[TableName, ...]:
        """Returns the base tables that the user may read."""
        return self._parts.catalog.tables()

    def schema(
        self, table: TableName, *, columns: Iterable[str] = (), except_columns: Iterable[str] = (), types: TypePolicies = DEFAULT_TYPES
    ) -> TableSchema:
        """Reads columns, primary key and indexes."""
        return self._parts.catalog.schema(table, columns=columns, except_columns=except_columns, types=types)

    def traits(self, table: TableName) -> SourceTraits:
        """Reads what may keep a copy from being equal."""
        return self._parts.catalog.traits(table)

    def origin(self) -> str:
        """Returns who stamps the rows; the tables of one run share an answer that is not older than `SHARE_SECONDS`."""
        at, found = self._origin
        if not at or time.monotonic() - at >= SHARE_SECONDS:
            found = self._parts.probe.origin()
            self._origin = (time.monotonic(), found)
        return found

    def now(self) -> datetime:
        """Returns the server's clock, UTC."""
        return self._parts.probe.now()

    def safe_bound(
        self,
        schema: TableSchema,
        cursor: Cursor,
        lookback: timedelta,
        since: CursorValue | None,
        readings: CounterSamples | None = None,
    ) -> SafeBound:
        """Returns a position below which nothing can still be committed."""
        strategy: BoundStrategy = self._clock if cursor.lead.type.is_temporal else self._counter
        return strategy.bound(BoundRequest(schema=schema, cursor=cursor, lookback=lookback, since=since, readings=readings))

    def literal(self, schema: TableSchema, cursor: Cursor, instant: datetime) -> CursorValue:
        """Returns the lead cursor value of an aware instant, raised to the fraction that the column keeps."""
        if cursor.lead.type is CursorType.INTEGER:
            raise RequestError(
                f"The cursor {cursor.lead.name!r} of {schema.table} is numeric and has no value for an instant.",
                data="Nothing was read or written.",
                next="Use --mode keys or --mode full.",
            )
        return CursorValue(parts=(cursor.lead.literal(cursor.lead.ceil(self._clock.literal(cursor, instant))),))

    def window_predicate(self, cursor: Cursor, window: Window) -> str:
        """Prints a window as a WHERE condition."""
        return self._parts.dialect.window(cursor, window)

    def keys_predicate(self, schema: TableSchema, keys: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> str:
        """Prints a list of key values as a WHERE condition."""
        return self._parts.dialect.keys(schema, keys, values)

    def moved_from(self, schema: TableSchema, keys: tuple[str, ...], before: tuple[str, ...]) -> str:
        """Prints the condition that a row had another key before, which no row of the table has now."""
        return self._parts.dialect.moved_from(schema.table, keys, before)

    def count(self, table: TableName, where: str, limit: int) -> int:
        """Counts the rows that match, but at most `limit`."""
        condition = f" WHERE {where}" if where else ""
        bounded = f"SELECT 1 FROM {self._parts.dialect.table(table)}{condition} LIMIT {int(limit)}"
        row = self._parts.session.answer(f"SELECT COUNT(*) AS n FROM ({bounded}) AS q", ("n",))
        return int(row["n"])

    def null_predicate(self, cursor: Cursor) -> str:
        """Prints the condition that a row is in no window."""
        parts = (f"{self._parts.dialect.operand(cursor.lead)} IS NULL", self._parts.dialect.outside(cursor.lead))
        return f"({' OR '.join(filter(None, parts))})"

    def checksum(self, table: TableName, expressions: tuple[str, ...], where: str) -> tuple[int, str]:
        """Counts the rows that match, with a checksum of some expressions of theirs."""
        condition = f" WHERE {where}" if where else ""
        dialect = self._parts.dialect
        sums = f"COUNT(*) AS n, {dialect.checksum(expressions)} AS checksum"
        row = self._parts.session.answer(f"SELECT {sums} FROM {dialect.table(table)}{condition}", ("n", "checksum"))
        return int(row["n"]), str(row["checksum"])

    def slices(self, schema: TableSchema, keys: tuple[str, ...], where: str, parts: int) -> tuple[str, ...]:
        """Cuts the rows that match into at most `parts` disjoint conditions that together cover `where` exactly."""
        return self._slicer.slices(schema, keys, where, parts)

    def chunks(self, schema: TableSchema, keys: tuple[str, ...], size: ChunkSize, rest: str = "") -> ChunkPlan:
        """Cuts the whole table, or what a snapshot has left of it, into chunks and their slices."""
        return self._slicer.chunks(schema, keys, size, rest)

    def extent(self, schema: TableSchema, key: str) -> tuple[int, int] | None:
        """Returns smallest and largest value of an indexed key that is a whole number."""
        return self._slicer.extent(schema, key)

    def undigestible(self, schema: TableSchema, columns: Iterable[str]) -> tuple[str, ...]:
        """Returns those columns of which no checksum can be computed on both sides."""
        return self._parts.digests.undigestible(schema, columns)

    def digest_read(self, query: DigestQuery) -> JdbcRead:
        """Returns how Spark reads checksums."""
        return self._parts.digests.read(query, self.jdbc_read(query.schema, ("",)))

    def scope_predicate(self, schema: TableSchema, scope: BucketSelection) -> str:
        """Prints the condition that a row is in some buckets."""
        return self._parts.digests.condition(schema, scope)

    def jdbc_read(self, schema: TableSchema, slices: tuple[str, ...]) -> JdbcRead:
        """Returns how Spark reads those slices; each server has its own way."""
        raise NotImplementedError

    def position(self) -> SourcePosition:
        """Returns a position that covers everything that can be seen now."""
        return self._parts.positions.position()

    def has_applied(self, position: SourcePosition, within: timedelta) -> bool:
        """Waits until this server, a replica, has applied a position of the one that it follows."""
        return self._parts.positions.has_applied(position, within)

    def running(self) -> int:
        """Returns how many statements the server runs at this moment."""
        return self._parts.probe.running()

    def close(self) -> None:
        """Closes the connection."""
        self._parts.session.close()
