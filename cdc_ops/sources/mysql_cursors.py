"""Typing the cursor columns of a MySQL or MariaDB table, and what an operator should know of them."""

from collections.abc import Callable
from typing import Final

from cdc_ops.core.cursors import Cursor, CursorColumn, CursorType
from cdc_ops.core.tables import Column, TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.core.typemap import DeclaredType
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.dialect import Dialect

_NOTHING: Final = "Nothing was read; the watermark stays."
_WHOLE: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))


def type_cursor(schema: TableSchema, names: tuple[str, ...]) -> Cursor:
    """Types the columns of a cursor.

    Raises:
        SourceTableError: one is missing, or has no order that a window could use.
    """
    if not names:
        raise SourceTableError(f"Table {schema.table} has no cursor column.", data=_NOTHING, next="Name one: 'cursor: updated_at'.")
    return Cursor(columns=tuple(_typed(schema, name) for name in names))


def cursor_warnings(schema: TableSchema, cursor: Cursor, extras: dict[str, str], dialect: Dialect) -> tuple[str, ...]:
    """Returns what makes a cursor slow or incomplete, each with its fix.

    Args:
        schema: The table.
        cursor: Its cursor.
        extras: EXTRA of information_schema.columns by column name.
        dialect: Prints statements.
    """
    checks: tuple[Callable[[], str], ...] = (
        lambda: _index_warning(schema, cursor, dialect),
        lambda: _null_warning(schema, cursor),
        lambda: _resolution_warning(schema, cursor, dialect),
        lambda: _change_warning(schema, cursor, extras.get(cursor.lead.name, "")),
    )
    return tuple(warning for check in checks if (warning := check()))


def _typed(schema: TableSchema, name: str) -> CursorColumn:
    column = schema.column(name)
    if column is None:
        raise SourceTableError(
            f"Table {schema.table} has no cursor column {name!r}, or the pipeline leaves it out.",
            why=did_you_mean(name, (column.name for column in schema.columns)),
            data=_NOTHING,
            next="Correct 'cursor' in the pipeline file; cursor columns cannot be left out of 'columns'.",
        )
    kind = DeclaredType.parse(column.source_type)
    precision = kind.numbers[0] if kind.numbers else 0
    if kind.base == "datetime":
        return CursorColumn(name=column.name, type=CursorType.DATETIME, precision=precision)
    if kind.base == "timestamp":
        return CursorColumn(name=column.name, type=CursorType.TIMESTAMP, precision=precision)
    if kind.base in _WHOLE or (kind.base == "decimal" and column.delta_type.endswith(",0)")):
        return CursorColumn(name=column.name, type=CursorType.INTEGER)
    raise _unordered(schema, column)


def _unordered(schema: TableSchema, column: Column) -> SourceTableError:
    usable = [one.name for one in schema.columns if DeclaredType.parse(one.source_type).base in ("datetime", "timestamp")]
    return SourceTableError(
        f"Column {column.name!r} of {schema.table} ({column.source_type}) cannot be a cursor.",
        why="A cursor is a DATETIME, a TIMESTAMP or a whole number that grows with every change.",
        data=_NOTHING,
        next=f"Use one of: {', '.join(usable)}." if usable else "Add an updated_at TIMESTAMP(6) column to the table.",
    )


def _index_warning(schema: TableSchema, cursor: Cursor, dialect: Dialect) -> str:
    if any(index[0] == cursor.lead.name for index in schema.indexes):
        return ""
    columns = ", ".join(dialect.name(column.name) for column in cursor.columns)
    index = dialect.name("cdc_" + "_".join(column.name for column in cursor.columns)[:50])
    return (
        f"No index of {schema.table} starts with {cursor.lead.name!r}: every run reads the whole table. "
        f"Create one: CREATE INDEX {index} ON {dialect.table(schema.table)} ({columns})"
    )


def _null_warning(schema: TableSchema, cursor: Cursor) -> str:
    column = schema.column(cursor.lead.name)
    if column is None or not column.nullable:
        return ""
    return (
        f"Cursor column {column.name!r} of {schema.table} can be NULL: such rows come with the snapshot only. "
        "Fill it in and declare it NOT NULL, with a default."
    )


def _resolution_warning(schema: TableSchema, cursor: Cursor, dialect: Dialect) -> str:
    lead = cursor.lead
    if not lead.type.is_temporal or lead.precision > 0:
        return ""
    return (
        f"Cursor column {lead.name!r} of {schema.table} keeps whole seconds: the second that is not over is left to the next run. "
        f"For a finer one: ALTER TABLE {dialect.table(schema.table)} MODIFY {dialect.name(lead.name)} {lead.type.value.upper()}(6) ..."
    )


def _change_warning(schema: TableSchema, cursor: Cursor, extra: str) -> str:
    lead, extra = cursor.lead, extra.lower()
    if "auto_increment" in extra:
        return f"Cursor column {lead.name!r} of {schema.table} only numbers new rows: updates are not seen. Use an updated_at column."
    if not lead.type.is_temporal or "on update" in extra:
        return ""
    return (
        f"Cursor column {lead.name!r} of {schema.table} has no ON UPDATE CURRENT_TIMESTAMP: an update that does not set it is not seen. "
        f"Add ON UPDATE CURRENT_TIMESTAMP({lead.precision or ''})".removesuffix("()")
    )
