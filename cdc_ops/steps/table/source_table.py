"""A table at its source, checked against its settings. Asks the source; no Spark here."""

from dataclasses import dataclass, replace

from cdc_ops.config.expressions.spark_conditions import check_condition
from cdc_ops.core.apply.scd import LATEST, TableStorage
from cdc_ops.core.cursor.cursors import Cursor
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.table_settings import NULLS_UNREAD, Method, NullCursor
from cdc_ops.core.schema.collated_keys import source_names
from cdc_ops.core.schema.schema_evolution import SchemaChange
from cdc_ops.core.schema.server_types.unsigned_bigints import widened
from cdc_ops.core.schema.table_identity import NO_IDENTITY, TableIdentity
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.base import Source
from cdc_ops.steps.table.columns.unstored_columns import hidden_columns
from cdc_ops.steps.table.columns.wide_columns import wide_from_the_start
from cdc_ops.steps.table.source_traits import check_traits
from cdc_ops.steps.table.storage import stored_as


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """What the source says of a table at the plan, checked against its settings.

    Args:
        pipeline, config: Whose table, how.
        schema, keys, cursor: Its columns; keys as the lake's rows are matched (`ApplySpec.keys`).
        warnings: What the operator should know.
        changes: What has to be altered in the lake before these columns can be written.
        fingerprint: Of the source's schema, before the lake's types were put in.
        notes: What is said of changed columns; a part of the warnings.
        stored_as: How the table is stored.
        hidden: Columns that are read and not stored.
        stored: Columns that the lake has and the source has not.
        identity: What tells the table from others that have had its name, and its server from others that answer there; not known where no
            cursor follows its rows.
    """

    pipeline: Pipeline
    config: TableConfig
    schema: TableSchema
    keys: tuple[str, ...]
    cursor: Cursor
    warnings: tuple[str, ...]
    changes: tuple[SchemaChange, ...] = ()
    fingerprint: str = ""
    notes: tuple[str, ...] = ()
    stored_as: TableStorage = LATEST
    hidden: tuple[Column, ...] = ()
    stored: tuple[str, ...] = ()
    identity: TableIdentity = NO_IDENTITY

    @property
    def keys_are_primary(self) -> bool:
        """True if the source itself guarantees that keys are unique and not NULL."""
        return tuple(key.lower() for key in self.source_keys) == tuple(key.lower() for key in self.schema.primary_key)

    @property
    def reads_changes(self) -> bool:
        """True if the source's rows are changes, of which a key may have several: they are ordered by the table's `sequence_by`."""
        return bool(self.config.settings.order.sequence_by) and not self.keys_are_primary

    @property
    def source_keys(self) -> tuple[str, ...]:
        """The key columns of the source."""
        return source_names(self.schema, self.keys)


def read_source_table(pipeline: Pipeline, source: Source, config: TableConfig) -> SourceTable:
    """Reads a table's schema and checks keys and cursor.

    Raises:
        SourceTableError: a key or cursor column cannot be used, there is a cursor and no key, or what is read would not be its rows alone.
        ConfigError: a condition in the settings is none on the table's columns.
    """
    settings = config.settings
    schema = source.schema(
        config.table, columns=settings.load.columns, except_columns=settings.load.except_column_list, types=settings.types
    )
    schema = wide_from_the_start(config, schema)
    keys, hidden = _checked_keys(config, schema), widened(hidden_columns(source, config))
    schema = schema.keyed(keys)
    for name, condition in (
        ("apply_as_deletes", settings.apply.apply_as_deletes),
        ("apply_as_truncates", settings.apply.apply_as_truncates),
    ):
        if condition:
            check_condition(name, condition, schema.extended(hidden).names)
    traits = source.traits(schema.table)
    told = check_traits(config, schema, traits)
    cursor, warnings = Cursor(columns=()), tuple[str, ...]()
    if settings.load.cursor and settings.method is not Method.LOG:
        cursor, warnings = source.cursor(schema, settings.load.cursor)
        if settings.load.null_cursor is NullCursor.CHECKSUM:
            warnings = tuple(text for text in warnings if NULLS_UNREAD not in text)
    stored = stored_as(pipeline, config, schema, keys, hidden)
    source_table = SourceTable(
        pipeline=pipeline, config=config, schema=schema, keys=keys, cursor=cursor, warnings=(*told, *warnings), stored_as=stored
    )
    identity = replace(traits.identity, origin=source.origin()) if cursor.columns else NO_IDENTITY
    return replace(source_table, hidden=hidden, identity=identity)


def _checked_keys(config: TableConfig, schema: TableSchema) -> tuple[str, ...]:
    wanted = config.settings.keys or schema.primary_key
    if not wanted and not config.settings.load.cursor and config.settings.method is Method.QUERY:
        return ()  # compared as a whole, and replaced as a whole
    if not wanted:
        raise SourceTableError(
            f"Table {config.table} has no primary key.",
            why="Without a key, a changed row looks like a new row.",
            data="Nothing was read; the watermark stays.",
            next="Name the columns that identify a row: 'keys: [id]' in the pipeline file. Or set 'cursor: []': every run then compares the"
            " whole table, and replaces it when it differs.",
        )
    found = []
    for name in wanted:
        column = schema.column(name)
        if column is None:
            raise SourceTableError(
                f"Table {config.table} has no key column {name!r}.",
                why=did_you_mean(name, (column.name for column in schema.columns)),
                data="Nothing was read; the watermark stays.",
                next="Correct 'keys' in the pipeline file; 'columns' must contain the key columns.",
            )
        found.append(column.name)
    return tuple(found)
