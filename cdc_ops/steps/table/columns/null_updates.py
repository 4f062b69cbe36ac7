"""`ignore_null_updates` at the plan: in which columns a NULL of an update leaves what is there, and for which tables that has a meaning."""

from collections.abc import Iterable

from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.core.schema.collated_keys import source_names
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError, SourceTableError

_NOTHING = "Nothing was read or written; the watermark stays."


def nulls_ignored(config: TableConfig, schema: TableSchema, keys: tuple[str, ...], order: Iterable[str]) -> tuple[str, ...]:
    """Returns the columns in which NULLs are ignored.

    Args:
        config: The table's settings.
        schema: Its columns.
        keys: Its keys, which are never NULL.
        order: The columns of `sequence_by`, which are not either.

    Raises:
        ConfigError: the table's rows at the source are no changes.
        SourceTableError: a column is named that is not copied.
    """
    settings = config.settings
    only, all_but = settings.apply.ignore_null_updates_column_list, settings.apply.ignore_null_updates_except_column_list
    if not _is_wanted(settings):
        return ()
    named = source_names(schema, keys)
    if settings.method is Method.QUERY and _lower(named) == _lower(schema.primary_key):
        raise ConfigError(
            f"'ignore_null_updates' of {config.table} has no effect: in a row that is read by query, a NULL is a value.",
            why="Its keys are the primary key; in a table of changes, several rows have the same key.",
            data=_NOTHING,
            next="Remove the setting from the pipeline file, or set the keys of the changed rows: 'keys: [id]'.",
        )
    for name in (*only, *all_but):
        if schema.column(name) is None:
            raise SourceTableError(
                f"'ignore_null_updates' of {config.table} names column {name!r}, which cdc-ops does not copy.",
                why=did_you_mean(name, schema.names),
                data=_NOTHING,
                next="Correct 'ignore_null_updates_column_list' or 'ignore_null_updates_except_column_list' in the pipeline file.",
            )
    wanted, never = _lower(only) or _lower(schema.names), {*_lower(all_but), *_lower(keys), *_lower(named), *_lower(order)}
    return tuple(name for name in schema.names if name.lower() in wanted and name.lower() not in never)


def _is_wanted(settings: TableSettings) -> bool:
    return bool(
        settings.apply.ignore_null_updates
        or settings.apply.ignore_null_updates_column_list
        or settings.apply.ignore_null_updates_except_column_list
    )


def _lower(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)
