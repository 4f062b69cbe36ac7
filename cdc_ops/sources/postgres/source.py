"""The Postgres source: answers the plan step over SQLAlchemy and psycopg, and says how Spark reads.

What it shares with the other SQL sources is in `sql_source`; what Postgres does its own way has a module each beside this one.
"""

from dataclasses import replace
from typing import Self

from cdc_ops.core.cursor.cursors import Cursor
from cdc_ops.core.pipeline.pipeline import SourceConfig
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.sources.base import JdbcRead
from cdc_ops.sources.bounds.clock import Probe
from cdc_ops.sources.bounds.outside_windows import outside_warnings
from cdc_ops.sources.checksums import PostgresDigestSql
from cdc_ops.sources.postgres.bound_probe import PostgresProbe
from cdc_ops.sources.postgres.catalog import PostgresCatalog, PostgresCatalogOfMany
from cdc_ops.sources.postgres.cursors import cursor_warnings, type_cursor
from cdc_ops.sources.postgres.dialect import PostgresDialect
from cdc_ops.sources.postgres.jdbc import build_read
from cdc_ops.sources.postgres.session import PostgresAddress, PostgresSession
from cdc_ops.sources.postgres.split_points import PostgresBorders
from cdc_ops.sources.sql.session import SqlSession
from cdc_ops.sources.sql_source import NoPositions, SqlParts, SqlSource


class PostgresSource(SqlSource):
    """A Postgres server; see `Source` for what each method promises.

    Args:
        config: Kind and settings.
        url: Connection URL with credentials.

    Raises:
        ConfigError: the URL is not one of Postgres, or names no database.
    """

    def __init__(self, config: SourceConfig, url: str) -> None:
        self._address = PostgresAddress(url)
        self._dialect = PostgresDialect()
        self._session = PostgresSession(self._address)
        self._catalog: PostgresCatalog = PostgresCatalog(self._session, self._dialect)
        probe = PostgresProbe(self._session, self._catalog, self._dialect, config.replication_lag)
        borders, digests = PostgresBorders(self._session, self._dialect), PostgresDigestSql(self._dialect)
        parts = SqlParts(
            dialect=self._dialect,
            session=self._session,
            catalog=self._catalog,
            probe=probe,
            borders=borders,
            digests=digests,
            positions=NoPositions(self._address.place),
        )
        super().__init__(config, parts, str(self._address))

    def cursor(self, schema: TableSchema, columns: tuple[str, ...]) -> tuple[Cursor, tuple[str, ...]]:
        """Types the cursor columns, and warns of what makes them slow or incomplete."""
        cursor = type_cursor(schema, columns)
        stamped = self._catalog.is_stamped(schema.table, cursor.lead.name)
        warnings = cursor_warnings(schema, cursor, self._catalog, self._dialect)
        outside = outside_warnings(self.parts.session, self._dialect, schema, cursor, self._catalog.presets(schema.table))
        return cursor, (*warnings, *outside, *self._zones.warnings(schema, cursor, stamped=stamped))

    def shared(self, tables: tuple[TableName, ...], session: SqlSession, probe: Probe) -> Self:
        """Returns this source with the schemas of some tables read together, and with another session and probe."""
        catalog = PostgresCatalogOfMany(self._session, self._dialect, tables)
        other = self._rebuilt(replace(self.parts, catalog=catalog, session=session, probe=probe))
        other._catalog = catalog
        return other

    def jdbc_read(self, schema: TableSchema, slices: tuple[str, ...]) -> JdbcRead:
        """Returns how Spark reads those slices; opens no connection."""
        return build_read(self.config.reader, self._address, self._dialect, schema, slices)
