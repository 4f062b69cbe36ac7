"""Typing the cursor columns of a MySQL or MariaDB table, and warnings about them."""

from collections.abc import Callable
from typing import Final

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.sources.sql.cursors import index_warning, null_warning, type_columns
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import Row

_WHOLE: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))


def type_cursor(schema: TableSchema, names: tuple[str, ...]) -> Cursor:
    """Types the columns of a cursor.

    Raises:
        SourceTableError: one is missing, or has no order that a window could use.
    """
    return type_columns(schema, names, _typed, "DATETIME, a TIMESTAMP, a DATE")


def cursor_warnings(
    schema: TableSchema, cursor: Cursor, extras: dict[str, str], dialect: Dialect, expressions: tuple[str, ...] | None = ()
) -> tuple[str, ...]:
    """Returns the warnings about a slow or incomplete cursor, each with its remedy.

    Args:
        schema: The table.
        cursor: Its cursor.
        extras: EXTRA of information_schema.columns by column name.
        dialect: Prints statements.
        expressions: Its indexes on expressions, None if the server knows none.
    """
    checks: tuple[Callable[[], str], ...] = (
        lambda: index_warning(schema, cursor, dialect, expressions),
        lambda: null_warning(schema, cursor),
        lambda: _change_warning(schema, cursor, extras.get(cursor.lead.name, "")),
    )
    return tuple(warning for check in checks if (warning := check()))


def is_stamped(row: Row) -> bool:
    """True if the server puts the session's time into a column, when a row is inserted or updated."""
    text = f"{row['preset'] or ''} {row['extra'] or ''}".lower()
    return any(name in text for name in ("current_timestamp", "now(", "localtime"))


def _typed(column: Column) -> CursorColumn | None:
    kind = DeclaredType.parse(column.source_type)
    precision = kind.numbers[0] if kind.numbers else 0
    if kind.base == "datetime":
        return CursorColumn(name=column.name, type=CursorType.DATETIME, precision=precision)
    if kind.base == "timestamp":
        return CursorColumn(name=column.name, type=CursorType.TIMESTAMP, precision=precision)
    if kind.base == "date":
        return CursorColumn(name=column.name, type=CursorType.DATE)
    if kind.base in _WHOLE or (kind.base == "decimal" and column.delta_type.endswith(",0)")):
        return CursorColumn(name=column.name, type=CursorType.INTEGER)
    return None


def _change_warning(schema: TableSchema, cursor: Cursor, extra: str) -> str:
    lead, extra = cursor.lead, extra.lower()
    if "auto_increment" in extra:
        only_new = f"Cursor column {lead.name!r} of {schema.table} is set only for new rows: cdc-ops does not see updates."
        return f"{only_new} Use an updated_at column."
    if not lead.type.is_temporal or lead.coalesce or "on update" in extra:
        return ""
    return (
        f"Cursor column {lead.name!r} of {schema.table} has no ON UPDATE CURRENT_TIMESTAMP: cdc-ops does not see an update that does"
        f" not set it. Add ON UPDATE CURRENT_TIMESTAMP({lead.precision or ''})".removesuffix("()")
    )
