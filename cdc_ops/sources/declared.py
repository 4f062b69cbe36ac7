"""A source without a server: the pipeline file declares its tables, and their rows come only from an archive.

What needs a database is refused in the same words everywhere; `config` refuses what a file can say of it, this what a run may ask for.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.cursors import Cursor, CursorValue
from cdc_ops.core.cursor.windows import SafeBound, Window
from cdc_ops.core.pipeline.pipeline import SourceConfig
from cdc_ops.core.reconcile.key_buckets import BucketSelection
from cdc_ops.core.schema.declared_tables import START_NEW_PIPELINE, declared_schema
from cdc_ops.core.schema.schema_evolution import only_columns
from cdc_ops.core.schema.source_traits import PLAIN, SourceTraits
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.core.schema.value_policies import DEFAULT_TYPES, TypePolicies
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError, SourceTableError
from cdc_ops.sources.access import SourceAccess
from cdc_ops.sources.base import DigestQuery, JdbcRead, SourcePosition
from cdc_ops.sources.chunks.chunks import ChunkPlan, ChunkSize
from cdc_ops.sources.sql.catalog import choose_columns
from cdc_ops.sources.sql.session import NOTHING


def no_database(what: str) -> RequestError:
    """Returns the error for a request that needs a database.

    Args:
        what: What cannot be done, without a full stop.
    """
    return RequestError(
        f"{what}: the pipeline's source has no database.",
        why="With 'kind: none' rows come from the archive alone.",
        data=NOTHING,
        next="Runs, 'cdc-ops gap', 'cdc-ops quarantine' and 'cdc-ops replay' need no database. For everything else, configure the source:"
        f" 'kind: mysql', mariadb or postgres, with its 'connection'. {START_NEW_PIPELINE}.",
    )


class DeclaredSource:
    """See `Source` for what each method promises; those that would need a database raise RequestError.

    Args:
        config: With the tables.
        url: Not used.
    """

    def __init__(self, config: SourceConfig, url: str = "") -> None:
        self.config = config
        self._tables = {TableName.parse(declared.name): declared for declared in config.tables}

    def access(self, lookback: timedelta) -> SourceAccess:
        """Refuses."""
        _refuse()

    def first_rows(self, schema: TableSchema, rows: int) -> JdbcRead:
        """Refuses."""
        _refuse()

    def tables(self) -> tuple[TableName, ...]:
        """Returns the tables that are declared."""
        return tuple(sorted(self._tables))

    def schema(
        self, table: TableName, *, columns: Iterable[str] = (), except_columns: Iterable[str] = (), types: TypePolicies = DEFAULT_TYPES
    ) -> TableSchema:
        """Returns the declared schema of a table."""
        declared = self._tables.get(table)
        if declared is None:
            raise SourceTableError(
                f"The columns of {table} are not declared.",
                why=did_you_mean(str(table), map(str, self._tables)),
                data=NOTHING,
                next="Declare them in 'tables' of the pipeline's source.",
            )
        try:
            schema = declared_schema(declared, self.config.dialect, types)
        except ValueError as error:
            raise SourceTableError(f"The columns of {table} cannot be read: {error}.", data=NOTHING, next="Correct the type.") from error
        rows = [{"name": name} for name in schema.names]
        return only_columns(schema, (row["name"] for row in choose_columns(table, rows, tuple(columns), tuple(except_columns))))

    def traits(self, table: TableName) -> SourceTraits:
        """Returns that nothing unusual is known: there is no catalog to ask."""
        return PLAIN

    def origin(self) -> str:
        """Refuses."""
        _refuse()

    def now(self) -> datetime:
        """Returns this machine's clock, UTC."""
        return datetime.now(UTC)

    def undigestible(self, schema: TableSchema, columns: Iterable[str]) -> tuple[str, ...]:
        """Refuses."""
        _refuse()

    def cursor(self, schema: TableSchema, columns: tuple[str, ...]) -> tuple[Cursor, tuple[str, ...]]:
        """Refuses."""
        _refuse()

    def safe_bound(
        self, schema: TableSchema, cursor: Cursor, lookback: timedelta, since: CursorValue | None, readings: CounterSamples | None = None
    ) -> SafeBound:
        """Refuses."""
        _refuse()

    def literal(self, schema: TableSchema, cursor: Cursor, instant: datetime) -> CursorValue:
        """Refuses."""
        _refuse()

    def window_predicate(self, cursor: Cursor, window: Window) -> str:
        """Refuses."""
        _refuse()

    def keys_predicate(self, schema: TableSchema, keys: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> str:
        """Refuses."""
        _refuse()

    def moved_from(self, schema: TableSchema, keys: tuple[str, ...], before: tuple[str, ...]) -> str:
        """Refuses."""
        _refuse()

    def count(self, table: TableName, where: str, limit: int) -> int:
        """Refuses."""
        _refuse()

    def null_predicate(self, cursor: Cursor) -> str:
        """Refuses."""
        _refuse()

    def checksum(self, table: TableName, expressions: tuple[str, ...], where: str) -> tuple[int, str]:
        """Refuses."""
        _refuse()

    def slices(self, schema: TableSchema, keys: tuple[str, ...], where: str, parts: int) -> tuple[str, ...]:
        """Refuses."""
        _refuse()

    def chunks(self, schema: TableSchema, keys: tuple[str, ...], size: ChunkSize, rest: str = "") -> ChunkPlan:
        """Refuses."""
        _refuse()

    def running(self) -> int:
        """Refuses."""
        _refuse()

    def position(self) -> SourcePosition:
        """Refuses."""
        _refuse()

    def has_applied(self, position: SourcePosition, within: timedelta) -> bool:
        """Refuses."""
        _refuse()

    def jdbc_read(self, schema: TableSchema, slices: tuple[str, ...]) -> JdbcRead:
        """Refuses."""
        _refuse()

    def extent(self, schema: TableSchema, key: str) -> tuple[int, int] | None:
        """Refuses."""
        _refuse()

    def digest_read(self, query: DigestQuery) -> JdbcRead:
        """Refuses."""
        _refuse()

    def scope_predicate(self, schema: TableSchema, scope: BucketSelection) -> str:
        """Refuses."""
        _refuse()

    def close(self) -> None:
        """Nothing is open."""


def _refuse() -> NoReturn:
    raise no_database("Rows cannot be read or compared at the source")
