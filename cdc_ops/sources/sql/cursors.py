"""Typing the cursor columns of a table, and what makes a cursor slow or incomplete on any server."""

import re
from collections.abc import Callable

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, coalesced_columns
from cdc_ops.core.pipeline.table_settings import NULLS_UNREAD
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import NOTHING


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
        raise SourceTableError(f"Table {schema.table} has no cursor column.", data=NOTHING, next="Set one: 'cursor: updated_at'.")
    columns = []
    for name in names:
        if "(" in name and schema.column(name) is None:
            columns.append(_type_coalesce(schema, name, typed))
            continue
        column = _existing(schema, name)
        part = typed(column)
        if part is None:
            usable = [one.name for one in schema.columns if (other := typed(one)) and other.type.is_temporal]
            raise SourceTableError(
                f"Column {column.name!r} of {schema.table} ({column.source_type}) cannot be a cursor.",
                why=f"A cursor is a {kinds} or an integer that increases with every change.",
                data=NOTHING,
                next=f"Use one of: {', '.join(usable)}." if usable else "Add an updated_at TIMESTAMP(6) column to the table.",
            )
        columns.append(part)
    return Cursor(columns=tuple(columns))


def _type_coalesce(schema: TableSchema, text: str, typed: Callable[[Column], CursorColumn | None]) -> CursorColumn:
    """Types `COALESCE(a, b)`: columns of one temporal kind, with the coarsest precision among them, which is safe for all."""
    names = coalesced_columns(text)
    if not names:
        raise SourceTableError(
            f"{text!r} cannot be a cursor of {schema.table}.",
            why="The only supported expression is COALESCE(column, column, ...): source and lake must order it in the same way.",
            data=NOTHING,
            next="Add a generated column with an index, and use it as the cursor.",
        )
    existing = tuple(_existing(schema, name) for name in names)
    parts = tuple(part for column in existing if (part := typed(column)))
    if len(parts) < len(existing) or len({part.type for part in parts}) > 1 or not parts[0].type.is_temporal:
        kinds = ", ".join(f"{column.name} {column.source_type}" for column in existing)
        raise SourceTableError(
            f"{text!r} cannot be a cursor of {schema.table}: its columns are not of one temporal type ({kinds}).",
            data=NOTHING,
            next="Name columns of the same type, or add a generated column with an index, and use it as the cursor.",
        )
    coalesce = tuple(column.name for column in existing)
    shown = f"COALESCE({', '.join(coalesce)})"
    return CursorColumn(name=shown, type=parts[0].type, precision=min(part.precision for part in parts), coalesce=coalesce)


def _existing(schema: TableSchema, name: str) -> Column:
    column = schema.column(name)
    if column is None:
        raise SourceTableError(
            f"Table {schema.table} has no cursor column {name!r}, or the pipeline excludes it.",
            why=did_you_mean(name, (column.name for column in schema.columns)),
            data=NOTHING,
            next="Correct 'cursor' in the pipeline file; 'columns' must contain the cursor columns.",
        )
    return column


def index_warning(schema: TableSchema, cursor: Cursor, dialect: Dialect, expressions: tuple[str, ...] | None = ()) -> str:
    """Warns of a lead without an index.

    Args:
        schema: The table.
        cursor: Its cursor.
        dialect: Prints statements.
        expressions: Definitions of the table's indexes on expressions, as the server prints them; None if it knows no such indexes.
    """
    if cursor.lead.coalesce:
        operand = dialect.operand(cursor.lead)
        if any(_bare(operand) in _bare(one) for one in expressions or ()):
            return ""
        warning = f"No index of {schema.table} serves {cursor.lead.name}: every run reads the whole table. "
        if expressions is not None:
            return f"{warning}Create one: {dialect.expression_index(schema.table, operand)}"
        declared = next(column.source_type for column in schema.columns if column.name == cursor.lead.coalesce[0])
        return (
            f"{warning}Make it a column: ALTER TABLE {dialect.table(schema.table)} ADD COLUMN cdc_cursor {declared.upper()} AS ({operand}) "
            "STORED, ADD INDEX (cdc_cursor); then 'cursor: cdc_cursor'."
        )
    if any(index[0] == cursor.lead.name for index in schema.indexes):
        return ""
    columns = ", ".join(dialect.name(column.name) for column in cursor.columns)
    index = dialect.name("cdc_" + "_".join(column.name for column in cursor.columns)[:50])
    return (
        f"No index of {schema.table} starts with {cursor.lead.name!r}: every run reads the whole table. "
        f"Create one: CREATE INDEX {index} ON {dialect.table(schema.table)} ({columns})"
    )


def _bare(text: str) -> str:
    return re.sub(r"[\s`\"]", "", text.lower())


def null_warning(schema: TableSchema, cursor: Cursor) -> str:
    """Warns of a lead column that can be NULL."""
    column = schema.column(cursor.lead.name)
    if column is None or not column.nullable:
        return ""
    return (
        f"Cursor column {column.name!r} of {schema.table} can be NULL: {NULLS_UNREAD}. Fill the column, and declare it NOT NULL with a"
        " default."
    )
