"""Typing the cursor columns of a table, and what makes a cursor slow or incomplete on any server."""

from collections.abc import Callable

from cdc_ops.core.cursors import Cursor, CursorColumn
from cdc_ops.core.tables import Column, TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.dialect import Dialect
from cdc_ops.sources.session import NOTHING


def type_columns(schema: TableSchema, names: tuple[str, ...], typed: Callable[[Column], CursorColumn | None], kinds: str) -> Cursor:
    """Types the columns of a cursor.

    Args:
        schema: The table.
        names: The cursor's columns.
        typed: Types one column; None for one that no window can be ordered by.
        kinds: The types that can, for messages.

    Raises:
        SourceTableError: one is missing, or has no order that a window could use.
    """
    if not names:
        raise SourceTableError(f"Table {schema.table} has no cursor column.", data=NOTHING, next="Name one: 'cursor: updated_at'.")
    columns = []
    for name in names:
        column = _existing(schema, name)
        part = typed(column)
        if part is None:
            usable = [one.name for one in schema.columns if (other := typed(one)) and other.type.is_temporal]
            raise SourceTableError(
                f"Column {column.name!r} of {schema.table} ({column.source_type}) cannot be a cursor.",
                why=f"A cursor is a {kinds} or a whole number that grows with every change.",
                data=NOTHING,
                next=f"Use one of: {', '.join(usable)}." if usable else "Add an updated_at TIMESTAMP(6) column to the table.",
            )
        columns.append(part)
    return Cursor(columns=tuple(columns))


def _existing(schema: TableSchema, name: str) -> Column:
    column = schema.column(name)
    if column is None:
        raise SourceTableError(
            f"Table {schema.table} has no cursor column {name!r}, or the pipeline leaves it out.",
            why=did_you_mean(name, (column.name for column in schema.columns)),
            data=NOTHING,
            next="Correct 'cursor' in the pipeline file; cursor columns cannot be left out of 'columns'.",
        )
    return column


def index_warning(schema: TableSchema, cursor: Cursor, dialect: Dialect) -> str:
    """Warns of a lead column without an index."""
    if any(index[0] == cursor.lead.name for index in schema.indexes):
        return ""
    columns = ", ".join(dialect.name(column.name) for column in cursor.columns)
    index = dialect.name("cdc_" + "_".join(column.name for column in cursor.columns)[:50])
    return (
        f"No index of {schema.table} starts with {cursor.lead.name!r}: every run reads the whole table. "
        f"Create one: CREATE INDEX {index} ON {dialect.table(schema.table)} ({columns})"
    )


def null_warning(schema: TableSchema, cursor: Cursor) -> str:
    """Warns of a lead column that can be NULL."""
    column = schema.column(cursor.lead.name)
    if column is None or not column.nullable:
        return ""
    return (
        f"Cursor column {column.name!r} of {schema.table} can be NULL: such rows come with the snapshot only, unless 'null_cursor: sweep' "
        "is set. Fill it in and declare it NOT NULL, with a default."
    )
