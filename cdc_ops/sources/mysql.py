"""The MySQL source: answers the plan step over SQLAlchemy and PyMySQL, and says how Spark reads. MariaDB derives from it.

What is to be read (`schema`, `cursor`), up to where without losing what commits later (`safe_bound`), how it is cut for several connections
and operations (`slices`, `chunks`), and the bounded read itself (`jdbc_read`). Each has a module of its own beside this one.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cdc_ops.core.cursors import Cursor, CursorType, CursorValue, format_datetime
from cdc_ops.core.pipeline import SourceConfig
from cdc_ops.core.tables import TableName, TableSchema
from cdc_ops.core.windows import SafeBound, Window
from cdc_ops.errors import RequestError
from cdc_ops.sources.base import JdbcRead
from cdc_ops.sources.dialect import Dialect
from cdc_ops.sources.mysql_bounds import BoundRequest, BoundStrategy, ClockBound, CounterBound
from cdc_ops.sources.mysql_catalog import Catalog
from cdc_ops.sources.mysql_cursors import cursor_warnings, type_cursor
from cdc_ops.sources.mysql_jdbc import build_read
from cdc_ops.sources.mysql_session import Address, MySQLSession
from cdc_ops.sources.mysql_slices import Slicer
from cdc_ops.sources.ranges import ceil_moment


class MySQLSource:
    """A MySQL server; see `Source` for what each method promises.

    Args:
        config: Kind and settings.
        url: Connection URL with credentials.

    Raises:
        ConfigError: the URL is not one of MySQL.
    """

    def __init__(self, config: SourceConfig, url: str) -> None:
        self.config = config
        self._address = Address(url)
        self._dialect = Dialect()
        self._session = MySQLSession(self._address)
        self._catalog = Catalog(self._session, self._dialect)
        self._slicer = Slicer(self._session, self._dialect)
        self._clock = ClockBound(self._session, config.time_zone)
        self._counter = CounterBound(self._session, self._catalog, self._dialect)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address})"

    def tables(self) -> tuple[TableName, ...]:
        """Returns the base tables that the user may read."""
        return self._catalog.tables()

    def schema(self, table: TableName, *, columns: Iterable[str] = (), except_columns: Iterable[str] = ()) -> TableSchema:
        """Reads columns, primary key and indexes."""
        return self._catalog.schema(table, columns=columns, except_columns=except_columns)

    def cursor(self, schema: TableSchema, columns: tuple[str, ...]) -> tuple[Cursor, tuple[str, ...]]:
        """Types the cursor columns, and warns of what makes them slow or incomplete."""
        cursor = type_cursor(schema, columns)
        extras = {row["name"]: str(row["extra"] or "") for row in self._catalog.column_rows(schema.table)}
        return cursor, cursor_warnings(schema, cursor, extras, self._dialect)

    def now(self) -> datetime:
        """Returns the server's clock, UTC."""
        now: datetime = self._session.row("SELECT UTC_TIMESTAMP(6) AS now")["now"]
        return now.replace(tzinfo=UTC)

    def safe_bound(self, schema: TableSchema, cursor: Cursor, overlap: timedelta, since: CursorValue | None) -> SafeBound:
        """Returns a position below which nothing can still be committed."""
        strategy: BoundStrategy = self._clock if cursor.lead.type.is_temporal else self._counter
        return strategy.bound(BoundRequest(schema=schema, cursor=cursor, overlap=overlap, since=since))

    def literal(self, schema: TableSchema, cursor: Cursor, instant: datetime) -> CursorValue:
        """Returns the lead cursor value of an aware instant, raised to the fraction that the column keeps."""
        if cursor.lead.type is CursorType.INTEGER:
            raise RequestError(
                f"The cursor {cursor.lead.name!r} of {schema.table} counts; an instant has no place on it.",
                data="Nothing was read or written.",
                next="Use --mode keys or --mode full.",
            )
        return CursorValue(parts=(format_datetime(ceil_moment(self._clock.literal(cursor, instant), cursor.lead.precision)),))

    def window_predicate(self, cursor: Cursor, window: Window) -> str:
        """Prints a window as a WHERE condition."""
        return self._dialect.window(cursor, window)

    def keys_predicate(self, schema: TableSchema, keys: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> str:
        """Prints a list of key values as a WHERE condition."""
        return self._dialect.keys(schema, keys, values)

    def count(self, table: TableName, where: str, limit: int) -> int:
        """Counts the rows that match, but at most `limit`."""
        condition = f" WHERE {where}" if where else ""
        bounded = f"SELECT 1 FROM {self._dialect.table(table)}{condition} LIMIT {int(limit)}"
        row = self._session.row(f"SELECT COUNT(*) AS n FROM ({bounded}) AS q")
        return int(row["n"])

    def slices(self, schema: TableSchema, keys: tuple[str, ...], where: str, parts: int) -> tuple[str, ...]:
        """Cuts the rows that match into at most `parts` disjoint conditions that together cover `where` exactly."""
        return self._slicer.slices(schema, keys, where, parts)

    def chunks(self, schema: TableSchema, keys: tuple[str, ...], rows: int) -> tuple[str, ...]:
        """Cuts the whole table into disjoint conditions of about `rows` rows each."""
        return self._slicer.chunks(schema, keys, rows)

    def jdbc_read(self, schema: TableSchema, slices: tuple[str, ...]) -> JdbcRead:
        """Returns how Spark reads those slices; opens no connection."""
        return build_read(self.config, self._address, self._dialect, schema, slices)

    def close(self) -> None:
        """Closes the connection."""
        self._session.close()
