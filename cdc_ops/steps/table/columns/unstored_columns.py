"""Columns that changes are ordered or deleted by and that are not stored: `except_column_list` leaves them out of the table. No Spark here.

    except_column_list: [operation, sequence_num]     sequence_by: sequence_num     apply_as_deletes: "operation = 'DELETE'"

They are read and landed with each row, behind the columns of the table, and end there.
"""

from collections.abc import Iterable

from cdc_ops.config.expressions.sequence_by import order_names
from cdc_ops.config.expressions.spark_conditions import named_columns
from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.collated_keys import source_names
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.errors import ConfigError
from cdc_ops.sources.base import Source


def hidden_columns(source: Source, config: TableConfig) -> tuple[Column, ...]:
    """Returns the columns that are read and not stored; asks the source only if there are any.

    Raises:
        SourceTableError: one of them has a type that nobody knows.
    """
    settings = config.settings
    ordering = {name.lower() for name in order_names(settings.order.sequence_by, settings.load.except_column_list)}
    deciding = named_columns((settings.apply.apply_as_deletes, settings.apply.apply_as_truncates), settings.load.except_column_list)
    names = [name for name in settings.load.except_column_list if name.lower() in ordering or name in deciding]
    return source.schema(config.table, columns=names, types=settings.types).columns if names else ()


def check_hidden_order(config: TableConfig, schema: TableSchema, keys: tuple[str, ...], hidden: Iterable[Column]) -> None:
    """Checks that rows can be ordered by columns that the table does not have.

    Raises:
        ConfigError: rows would have to be compared or kept, and their order is not known then.
    """
    settings, names = config.settings, {column.name.lower() for column in hidden}
    if not any(name.lower() in names for name in order_names(settings.order.sequence_by, names)):
        return
    wrong = ""
    if tuple(name.lower() for name in source_names(schema, keys)) == tuple(name.lower() for name in schema.primary_key):
        wrong = "its keys are the primary key, so cdc-ops compares its rows with the source, and must store the columns that order them"
    elif settings.apply.deletes is not Deletes.HARD:
        wrong = f"'deletes: {settings.apply.deletes}' keeps rows that only the lake has, and a full resync would lose their order"
    if wrong:
        raise ConfigError(
            f"'except_column_list' of {config.table} excludes columns of 'sequence_by': {wrong}.",
            data="Nothing was read or written; the watermark stays.",
            next="Remove the column from 'except_column_list' in the pipeline file.",
        )
