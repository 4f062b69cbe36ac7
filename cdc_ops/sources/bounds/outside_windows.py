"""Warnings about rows that no window has although their cursor is not NULL: zero dates of MySQL, and infinite ones of Postgres."""

import re
from collections.abc import Mapping
from typing import Final

from cdc_ops.core.cursor.cursors import Cursor
from cdc_ops.core.pipeline.table_settings import NULLS_UNREAD
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.session import SqlSession

_COUNTED: Final = 1000
"""Such rows are counted up to so many: it is the number of index entries that a plan reads for them at most."""
_NO_MOMENT: Final = re.compile(r"0000-00-00[ 0:.]*|-?infinity", re.IGNORECASE)


def outside_warnings(
    session: SqlSession, dialect: Dialect, schema: TableSchema, cursor: Cursor, presets: Mapping[str, str]
) -> tuple[str, ...]:
    """Returns the warnings about a cursor whose value may be no moment.

    Args:
        session: The connection.
        dialect: Prints statements.
        schema: The table.
        cursor: Its cursor.
        presets: The defaults of the table's columns, as the server prints them.
    """
    outside = dialect.outside(cursor.lead)
    if not outside:
        return ()
    defaults = ((name, _NO_MOMENT.search(presets.get(name, ""))) for name in cursor.lead.columns)
    told = [
        f"Cursor column {name!r} of {schema.table} has the default {found[0].strip()!r}: a row that leaves it so is in no window;"
        f" {NULLS_UNREAD}. Declare the column with the current time as its default."
        for name, found in defaults
        if found
    ]
    if not cursor.lead.coalesce and any(index[0] == cursor.lead.name for index in schema.indexes):
        told.append(_rows(session, f"SELECT 1 FROM {dialect.table(schema.table)} WHERE {outside}", schema, cursor))
    return tuple(filter(None, told))


def _rows(session: SqlSession, select: str, schema: TableSchema, cursor: Cursor) -> str:
    found = int(session.answer(f"SELECT COUNT(*) AS n FROM ({select} LIMIT {_COUNTED + 1}) AS q", ("n",))["n"])
    if not found:
        return ""
    shown = f"at least {_COUNTED:,}" if found > _COUNTED else f"{found:,}"
    return (
        f"{shown} {'row' if found == 1 else 'rows'} of {schema.table} are in no window: cursor column {cursor.lead.name!r} is a zero or"
        f" infinite date there; {NULLS_UNREAD}. Set the column in these rows."
    )
