"""Keys that the source compares by a collation (`Abc` equals `ABC`), and the lake's column that compares them the same way. Pure.

Only the source knows what it holds for equal. So it computes a text from each key, equal for keys that it holds for equal and for no
others (the weights of a collation, the lower case of citext). The text is stored beside the key, in a column of the lake alone, and
takes the key's place wherever rows are matched: the key itself becomes a value like all others, and follows a change of its spelling.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cdc_ops.core.schema.schema_evolution import ChangeKind, SchemaChange
from cdc_ops.core.schema.tables import Column, TableSchema

PREFIX: Final = "_key_"
"""Prefix of such a column's name; the name of the key follows."""


def key_column(column: Column) -> Column:
    """Returns the lake's column that is compared in place of a collated key."""
    return Column(
        name=PREFIX + column.name,
        source_type="text",
        delta_type="string",
        nullable=column.nullable,
        expression=column.normal,
        normalises=column.name,
    )


def with_key_columns(schema: TableSchema, names: Iterable[str]) -> TableSchema:
    """Returns a schema whose collation key columns are exactly those of the named keys, after the source's own columns."""
    columns = tuple(column for column in schema.columns if not column.normalises)
    keys = (column for name in names if (column := schema.column(name)) is not None and column.normal)
    return replace(schema, columns=(*columns, *(key_column(column) for column in keys)))


def alike(schema: TableSchema, frozen: TableSchema) -> TableSchema:
    """Returns the source's current schema with the collation key columns that a frozen schema has."""
    return with_key_columns(schema, (column.normalises for column in frozen.columns if column.normalises))


def source_names(schema: TableSchema, names: Iterable[str]) -> tuple[str, ...]:
    """Returns the source's column for each of some lake columns, in the same order."""
    return tuple((column.normalises if (column := schema.column(name)) is not None else "") or name for name in names)


def rules_of(schema: TableSchema) -> tuple[tuple[str, str], ...]:
    """Returns, for each collation key column, its name and the source's rule of comparison, e.g. a collation."""
    keys = (column for column in schema.columns if column.normalises)
    return tuple((column.name, found.loose) for column in keys if (found := schema.column(column.normalises)) is not None)


def compare_rules(recorded: Iterable[tuple[str, str]], schema: TableSchema) -> tuple[SchemaChange, ...]:
    """Compares the recorded collations of the keys with the current ones: another collation makes other keys equal.

    Args:
        recorded: What the newest commit says, empty if it is silent.
        schema: The source's columns now, with those that stand for keys.
    """
    before, after = dict(recorded), dict(rules_of(schema))
    changed = [name for name in before if name in after and before[name] != after[name]]
    if not changed:
        return ()
    was, now = (", ".join(f"{name.removeprefix(PREFIX)} under {rules[name]}" for name in changed) for rules in (before, after))
    return (SchemaChange(kind=ChangeKind.KEYS, column="", before=was, after=now),)
