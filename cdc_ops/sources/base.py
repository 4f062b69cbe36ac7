"""The protocol of a source database, used by the plan and extract steps, and the registry of implementations.

A source is asked over SQLAlchemy in the plan step (seconds, no Spark) and read over JDBC in the extract step. All times are UTC unless
said.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from cdc_ops.core.cursor.auto_increment import CounterSamples
from cdc_ops.core.cursor.cursors import Cursor, CursorValue
from cdc_ops.core.cursor.windows import SafeBound, Window
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.reconcile.key_buckets import Buckets, BucketSelection
from cdc_ops.core.schema.source_traits import SourceTraits
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.core.schema.value_policies import DEFAULT_TYPES, TypePolicies
from cdc_ops.errors import ConfigError
from cdc_ops.sources.access import SourceAccess
from cdc_ops.sources.chunks.chunks import ChunkPlan, ChunkSize


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeColumn:
    """A column of a native read.

    Args:
        name: In the result.
        carried: Type in which it travels, as Spark's DDL: that of the JDBC read.
        form: How the reader makes that of what the server sends; "" = as the type is written.
        stored: Type in which it is stored, as Spark's DDL.
        finish: How a task makes the stored value of a plain one that travelled (`cdc_ops.decode.stored`); "" = only Spark can.
    """

    name: str
    carried: str
    form: str = ""
    stored: str = ""
    finish: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRead:
    """The same read without JDBC: the rows are read from the server's own protocol by Python, within Spark's tasks.

    Args:
        reader: `module:function` that reads one statement; called with the URL, the statement and the columns, it yields record batches.
        url: Connection URL with credentials; never logged, never written, in no plan.
        statements: One SELECT per slice.
        columns: What they yield: values as those of the relations.
    """

    reader: str
    url: str = field(repr=False)
    statements: tuple[str, ...]
    columns: tuple[NativeColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcRead:
    """One bounded read, ready for Spark's JDBC reader.

    Args:
        url: JDBC URL without credentials.
        driver: Driver class.
        relations: One parenthesised SELECT with alias per slice, for `dbtable`; what the decoders need.
        decoders: Spark SQL per column of the schema, over the columns of a relation, whose value a plain cast turns into the stored one.
        unstorable: Spark SQL per column of the schema that is true for values that no stored type holds, of which the decoder
            makes NULL; "" = there are none.
        properties: Driver and reader properties, credentials included; never logged, never written.
        session_init: SQL that every connection runs first.
        native: The same rows without JDBC, None where that is not wanted or not possible.
        over_jdbc: Why it is not possible where it is wanted.
    """

    url: str
    driver: str
    relations: tuple[str, ...]
    decoders: tuple[str, ...]
    properties: dict[str, str] = field(repr=False)
    session_init: str = ""
    unstorable: tuple[str, ...] = ()
    native: NativeRead | None = None
    over_jdbc: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition:
    """The position of a server's commit log at some time.

    Args:
        server: Which server, as its replicas know it.
        at: The position, in the server's own terms.
    """

    server: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestQuery:
    """The checksums to compute.

    Args:
        schema: The table.
        columns: What is hashed of each row.
        buckets: How rows are grouped.
        slices: Conditions that tile the table; each is computed over its own connection, and the answers are to be added up.
        within: Only these buckets of a coarser cut; None for all rows.
    """

    schema: TableSchema
    columns: tuple[str, ...]
    buckets: Buckets
    slices: tuple[str, ...]
    within: BucketSelection | None = None


class Source(Protocol):
    """A source database. Implementations open connections lazily and close them in `close`."""

    config: SourceConfig

    def access(self, lookback: timedelta) -> SourceAccess:
        """Connects, and returns the server's identity and what the user may see of its writers.

        Args:
            lookback: How far windows stay behind where the user does not see them, for the message.
        """
        ...

    def first_rows(self, schema: TableSchema, rows: int) -> JdbcRead:
        """Returns Spark's read of at most `rows` rows, the first by the primary key; the server reads no more than these."""
        ...

    def tables(self) -> tuple[TableName, ...]:
        """Returns the base tables that the user may read, without the server's own schemas."""
        ...

    def schema(
        self, table: TableName, *, columns: Iterable[str] = (), except_columns: Iterable[str] = (), types: TypePolicies = DEFAULT_TYPES
    ) -> TableSchema:
        """Reads columns, primary key and indexes.

        Args:
            table: The table.
            columns: Columns to read; empty = all.
            except_columns: Columns to leave out.
            types: What becomes of values that no stored type holds.

        Raises:
            SourceTableError: the table or a named column does not exist, or a column's type cannot be copied.
        """
        ...

    def traits(self, table: TableName) -> SourceTraits:
        """Returns what the catalog says of a table that may keep its copy from being equal; the table is one that `schema` has read."""
        ...

    def origin(self) -> str:
        """Returns the server, or the cluster, by whose clocks and counters the rows are stamped that are read here; "" if not known."""
        ...

    def cursor(self, schema: TableSchema, columns: tuple[str, ...]) -> tuple[Cursor, tuple[str, ...]]:
        """Returns the cursor of a table with the types of its columns.

        Returns:
            The cursor, and warnings with their fix (no index on the lead column, nullable, second resolution).

        Raises:
            SourceTableError: a cursor column is missing or cannot be ordered.
        """
        ...

    def now(self) -> datetime:
        """Returns the source's clock, UTC."""
        ...

    def safe_bound(
        self,
        schema: TableSchema,
        cursor: Cursor,
        lookback: timedelta,
        since: CursorValue | None,
        readings: CounterSamples | None = None,
    ) -> SafeBound:
        """Returns a cursor value below which no transaction can still commit.

        Args:
            schema: The table.
            cursor: Its cursor.
            lookback: How far to stay behind the clock where the source cannot tell its open writers.
            since: The watermark; an auto-increment source that has not moved answers at once.
            readings: What the last bound of an auto-increment cursor said to keep: lets it move while writers overlap for ever.
        """
        ...

    def literal(self, schema: TableSchema, cursor: Cursor, instant: datetime) -> CursorValue:
        """Returns the lead cursor value of an instant with a time zone, for backfills of a date range (DATETIME in the source's zone)."""
        ...

    def window_predicate(self, cursor: Cursor, window: Window) -> str:
        """Prints a window as a WHERE condition of the source's dialect."""
        ...

    def keys_predicate(self, schema: TableSchema, keys: tuple[str, ...], values: tuple[tuple[str, ...], ...]) -> str:
        """Prints a list of key values, given as text, as a WHERE condition; each is checked against its column's type."""
        ...

    def moved_from(self, schema: TableSchema, keys: tuple[str, ...], before: tuple[str, ...]) -> str:
        """Prints the condition for rows whose key changed (the columns `before` hold the old key), if no other row has the old key now.

        In a key of several columns NULL in one of `before` means that this one did not change.
        """
        ...

    def count(self, table: TableName, where: str, limit: int) -> int:
        """Counts the rows that match, but at most `limit`: it stops there, so it costs no more than that many index entries."""
        ...

    def null_predicate(self, cursor: Cursor) -> str:
        """Prints the condition that a row is in no window: its lead is NULL, or a zero or infinite date."""
        ...

    def checksum(self, table: TableName, expressions: tuple[str, ...], where: str) -> tuple[int, str]:
        """Returns the number of matching rows and an order-independent checksum over some expressions, as of one moment.

        Equal rows give equal checksums at any time; the text of a checksum means nothing to another kind of server.
        """
        ...

    def slices(self, schema: TableSchema, keys: tuple[str, ...], where: str, parts: int) -> tuple[str, ...]:
        """Splits the matching rows into about `parts` disjoint conditions that together cover `where` exactly ("" = the whole table).

        Not more than `parts`, but for tables that are counted along a text key, or whose key can be NULL.
        """
        ...

    def chunks(self, schema: TableSchema, keys: tuple[str, ...], size: ChunkSize, rest: str = "") -> ChunkPlan:
        """Splits the table, or the rest of a snapshot, into chunks and their partitions by the quantiles of its key.

        Args:
            schema: The table.
            keys: The columns that identify a row.
            size: How large a chunk may be.
            rest: Condition of the rows that are still to be read, "" for all.
        """
        ...

    def running(self) -> int:
        """Returns the number of statements that the server runs now, without this one."""
        ...

    def position(self) -> SourcePosition:
        """Returns a position of the server's log that covers every commit visible now.

        Raises:
            SourceError: it has no such log.
        """
        ...

    def has_applied(self, position: SourcePosition, within: timedelta) -> bool:
        """Waits until this server, a replica, has applied all commits of another server up to a position.

        Args:
            position: Of the server that it follows.
            within: How long to wait at most.

        Returns:
            False if it has not.

        Raises:
            SourceError: it does not follow that server, or does not go on.
        """
        ...

    def jdbc_read(self, schema: TableSchema, slices: tuple[str, ...]) -> JdbcRead:
        """Returns Spark's read of these partitions, with an explicit expression per column."""
        ...

    def extent(self, schema: TableSchema, key: str) -> tuple[int, int] | None:
        """Returns the smallest and largest value of a key, None if it is not an integer, has no index that starts with it, or no rows."""
        ...

    def undigestible(self, schema: TableSchema, columns: Iterable[str]) -> tuple[str, ...]:
        """Returns the columns without a common text of source and lake; checksums do not cover them."""
        ...

    def digest_read(self, query: DigestQuery) -> JdbcRead:
        """Returns Spark's read of checksums: bucket number, row count and sum of hashes, one row per bucket and partition."""
        ...

    def scope_predicate(self, schema: TableSchema, scope: BucketSelection) -> str:
        """Prints the condition that a row is in some buckets; "" for the whole table."""
        ...

    def close(self) -> None:
        """Closes all connections."""
        ...


SourceFactory = Callable[..., Source]

_LOADERS: Final[dict[SourceKind, str]] = {
    SourceKind.MYSQL: "cdc_ops.sources.mysql.source:MySQLSource",
    SourceKind.MARIADB: "cdc_ops.sources.mysql.mariadb:MariaDBSource",
    SourceKind.POSTGRES: "cdc_ops.sources.postgres.source:PostgresSource",
    SourceKind.NONE: "cdc_ops.sources.declared:DeclaredSource",
}


def open_source(config: SourceConfig, url: str, writers: tuple[str, ...] = ()) -> Source:
    """Opens the source that a pipeline names.

    Args:
        config: Kind and settings.
        url: Connection URL with credentials, `mysql://user:password@host:port/database`; "" for a source that is declared.
        writers: URLs of the other nodes that write (`SourceConfig.writers`), for who takes bounds.

    Raises:
        ConfigError: the URL does not fit the kind, or the kind cannot be read.
    """
    from importlib import import_module

    if config.kind not in _LOADERS:
        raise ConfigError(
            f"Sources of kind {config.kind.value!r} are not supported.",
            why=f"Valid kinds are: {', '.join(kind.value for kind in _LOADERS)}.",
            data="Nothing was read or written.",
            next="Correct 'kind' of the source.",
        )
    module, _, name = _LOADERS[config.kind].partition(":")
    factory: SourceFactory = getattr(import_module(module), name)
    return factory(config, url, writers) if writers else factory(config, url)
