"""Typing the cursor columns of a Postgres table, and warnings about them."""

import re
from collections.abc import Callable
from typing import Final

from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.sources.postgres.catalog import PostgresCatalog
from cdc_ops.sources.sql.cursors import index_warning, null_warning, type_columns
from cdc_ops.sources.sql.dialect import Dialect

_WHOLE: Final = frozenset(("smallint", "integer", "bigint"))
_MOMENT: Final = re.compile(r"^timestamp(?:\((\d)\))? (with|without) time zone$")
_DIGITS: Final = 6


def type_cursor(schema: TableSchema, names: tuple[str, ...]) -> Cursor:
    """Types the columns of a cursor.

    Raises:
        SourceTableError: one is missing, or has no order that a window could use.
    """
    return type_columns(schema, names, _typed, "timestamptz, a timestamp, a date")


def cursor_warnings(schema: TableSchema, cursor: Cursor, catalog: PostgresCatalog, dialect: Dialect) -> tuple[str, ...]:
    """Returns the warnings about a slow or incomplete cursor, each with its remedy."""
    checks: tuple[Callable[[], str], ...] = (
        lambda: index_warning(schema, cursor, dialect, catalog.expression_indexes(schema.table) if cursor.lead.coalesce else ()),
        lambda: null_warning(schema, cursor),
        lambda: _change_warning(schema, cursor, catalog),
    )
    return tuple(warning for check in checks if (warning := check()))


def _typed(column: Column) -> CursorColumn | None:
    if found := _MOMENT.match(column.source_type):
        kind = CursorType.TIMESTAMP if found[2] == "with" else CursorType.DATETIME
        return CursorColumn(name=column.name, type=kind, precision=int(found[1]) if found[1] else _DIGITS)
    if column.source_type == "date":
        return CursorColumn(name=column.name, type=CursorType.DATE)
    if column.source_type in _WHOLE or re.match(r"^numeric\(\d+,0\)$", column.source_type):
        return CursorColumn(name=column.name, type=CursorType.INTEGER)
    return None


def _change_warning(schema: TableSchema, cursor: Cursor, catalog: PostgresCatalog) -> str:
    lead = cursor.lead
    if lead.type.is_temporal:
        if catalog.has_update_trigger(schema.table):
            return ""
        return (
            f"Table {schema.table} has no BEFORE UPDATE trigger that could set {lead.name!r}: cdc-ops does not see an update that does not"
            " set it. Let the application set it in every update, or add such a trigger."
        )
    sequence = catalog.sequence(schema.table, lead.name)
    if sequence is None:
        return ""
    text = (
        f"Cursor column {lead.name!r} of {schema.table} is set only for new rows: cdc-ops does not see updates. Use an updated_at column."
    )
    if catalog.sequence_cache(sequence) > 1:
        text += " Each session takes a block of numbers from its sequence, so a smaller number can be used later and be missed: "
        text += f"ALTER SEQUENCE {sequence} CACHE 1"
    return text
