"""Keys that change: a source column that holds the key from before, read as the delete of a key that the source has no more. No Spark here.

    keys: [id]    previous_key: [old_id]        id 7 becomes 9  ->  one MERGE deletes 7 and inserts 9

The column usually keeps the old key for ever, and another row may get that key. So the read that brings the row asks in the same
statement whether the source has a row with that key, and brings the old key only if it has none.
"""

from typing import Final

from cdc_ops.core.schema.collated_keys import source_names
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.base import Source

PREFIX: Final = "__cdc_before_"
"""What the names of the columns begin with in which old keys travel; the lake never has them."""

_EXACT: Final = ("decimal", "numeric", "bit")
"""Types whose arguments matter too: another scale would round."""


def before_columns(source: Source, schema: TableSchema, keys: tuple[str, ...], before: tuple[str, ...]) -> tuple[Column, ...]:
    """Returns what is read to learn which keys are gone: one column per key column, NULL where the row's key is its first or was reused.

    Args:
        source: Prints the question whether a key is in use.
        schema: The table, with the columns that stand for loosely compared keys.
        keys: Its keys, as the lake's rows are matched.
        before: The table's `previous_key`; in a key of several columns NULL means that this one did not change.

    Raises:
        SourceTableError: a column is missing or cannot be compared with its key, or there are not as many as keys.
    """
    if not before:
        return ()
    named = source_names(schema, keys)
    if len(before) != len(keys):
        raise _unusable(schema.table, f"it names {len(before)} columns, and the keys are {', '.join(named) or 'none'}")
    columns = tuple(_checked(schema, key, old) for key, old in zip(named, before, strict=True))
    moved = source.moved_from(schema, named, tuple(column.name for column in columns))
    return tuple(_travelling(schema, key, column, moved, index) for index, (key, column) in enumerate(zip(keys, columns, strict=True)))


def _travelling(schema: TableSchema, key: str, before: Column, moved: str, index: int) -> Column:
    stored = schema.column(key)
    if stored is None:
        raise ValueError(f"{schema.table} has no column {key!r}")
    own = schema.column(stored.normalises) if stored.normalises else stored
    if own is None:
        raise ValueError(f"{schema.table} has no column {stored.normalises!r}")
    old, now = (one.normal if stored.normalises else one.expression for one in (before, own))
    if stored.normalises and before.loose != own.loose:
        raise _unusable(schema.table, f"column {before.name!r} is not compared like key column {own.name!r} ({own.loose})")
    return Column(
        name=f"{PREFIX}{index}",
        source_type=stored.source_type if stored.normalises else before.source_type,
        delta_type=stored.delta_type,
        nullable=True,
        expression=f"CASE WHEN {moved} THEN COALESCE({old}, {now}) END",
        lossy=before.lossy,
    )


def _checked(schema: TableSchema, key: str, before: str) -> Column:
    column, own = schema.column(before), schema.column(key)
    if column is None or own is None:
        raise _unusable(schema.table, f"cdc-ops does not copy a column {before!r}. {did_you_mean(before, schema.names)}")
    first, second = DeclaredType.parse(column.source_type), DeclaredType.parse(own.source_type)
    alike = (first.base, first.unsigned) == (second.base, second.unsigned)
    if not alike or (first.base in _EXACT and first.numbers != second.numbers):
        raise _unusable(schema.table, f"column {before!r} is {column.source_type}, and key column {key!r} is {own.source_type}")
    return column


def _unusable(table: TableName, why: str) -> SourceTableError:
    return SourceTableError(
        f"'previous_key' of {table} cannot be used: {why}" + ("" if why.endswith("?") else "."),
        why="For each key column, it must name a column of the same type that holds the key before its last change.",
        data="Nothing was read; the watermark stays.",
        next="Correct 'previous_key' in the pipeline file, or remove it: a reconcile then finds changed keys.",
    )
