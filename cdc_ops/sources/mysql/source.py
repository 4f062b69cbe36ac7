"""The MySQL source: answers the plan step over SQLAlchemy and PyMySQL, and says how Spark reads. MariaDB derives from it.

What is to be read (`schema`, `cursor`), up to where without losing what commits later (`safe_bound`), how it is cut for several connections
and operations (`slices`, `chunks`), and the bounded read itself (`jdbc_read`). Each has a module of its own beside this one.
"""

from dataclasses import replace
from typing import Self

from cdc_ops.core.cursor.cursors import Cursor
from cdc_ops.core.pipeline.pipeline import SourceConfig
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.sources.base import JdbcRead
from cdc_ops.sources.bounds.clock import Probe
from cdc_ops.sources.bounds.outside_windows import outside_warnings
from cdc_ops.sources.checksums import DigestSql
from cdc_ops.sources.mysql.bounds.bound_probe import MySQLProbe
from cdc_ops.sources.mysql.catalog import Catalog, CatalogOfMany
from cdc_ops.sources.mysql.cursors import cursor_warnings, is_stamped, type_cursor
from cdc_ops.sources.mysql.jdbc import build_read
from cdc_ops.sources.mysql.replication.positions import MySQLPositions
from cdc_ops.sources.mysql.session import Address, MySQLSession
from cdc_ops.sources.mysql.split_points import MySQLBorders
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import SqlSession
from cdc_ops.sources.sql_source import SqlParts, SqlSource


class MySQLSource(SqlSource):
    """A MySQL server; see `Source` for what each method promises.

    Args:
        config: Kind and settings.
        url: Connection URL with credentials.
        writers: Those of the other nodes that write, for the plan; where rows are only read they are not needed.

    Raises:
        ConfigError: the URL is not one of MySQL.
    """

    def __init__(self, config: SourceConfig, url: str, writers: tuple[str, ...] = ()) -> None:
        own = Address(url)
        self._address = own.causal if config.writers else own
        self._nodes = tuple(MySQLSession(address) for address in (own, *(Address(one) for one in writers))) if writers else ()
        self._dialect = Dialect()
        self._session = MySQLSession(self._address)
        self._catalog: Catalog = Catalog(self._session, self._dialect)
        probe = MySQLProbe(self._session, self._catalog, self._nodes, config.replication_lag)
        borders, digests = MySQLBorders(self._session, self._dialect), DigestSql(self._dialect)
        parts = SqlParts(
            dialect=self._dialect,
            session=self._session,
            catalog=self._catalog,
            probe=probe,
            borders=borders,
            digests=digests,
            positions=MySQLPositions(self._session),
        )
        super().__init__(config, parts, str(self._address))

    def cursor(self, schema: TableSchema, columns: tuple[str, ...]) -> tuple[Cursor, tuple[str, ...]]:
        """Types the cursor columns, and warns of what makes them slow or incomplete."""
        cursor = type_cursor(schema, columns)
        rows = self._catalog.column_rows(schema.table)
        extras = {row["name"]: str(row["extra"] or "") for row in rows}
        stamped = any(row["name"] == cursor.lead.name and is_stamped(row) for row in rows)
        expressions = None if self._session.is_mariadb else self._catalog.expression_indexes(schema.table)
        warnings = cursor_warnings(schema, cursor, extras, self._dialect, expressions)
        presets = {row["name"]: str(row["preset"] or "") for row in rows}
        outside = outside_warnings(self.parts.session, self._dialect, schema, cursor, presets)
        return cursor, (*warnings, *outside, *self._zones.warnings(schema, cursor, stamped=stamped))

    def close(self) -> None:
        """Closes the connections."""
        super().close()
        for session in self._nodes:
            session.close()

    def shared(self, tables: tuple[TableName, ...], session: SqlSession, probe: Probe) -> Self:
        """Returns this source with the schemas of some tables read together, and with another session and probe."""
        catalog = CatalogOfMany(self._session, self._dialect, tables)
        other = self._rebuilt(replace(self.parts, catalog=catalog, session=session, probe=probe))
        other._catalog = catalog
        return other

    def jdbc_read(self, schema: TableSchema, slices: tuple[str, ...]) -> JdbcRead:
        """Returns how Spark reads those slices; opens no connection."""
        return build_read(self.config, self._address, self._dialect, schema, slices)
