"""Small SQL that the ledger's modules share: a source table's rows, inserts that do not mind a row being there.

The dialects are imported where they are used: each comes with all of its drivers.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, false, or_

from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.db.schema import tables


def key(pipeline: str, table: TableName) -> dict[str, str]:
    """Returns the key columns of a source table."""
    return {"pipeline": pipeline, "table_schema": table.schema, "table_name": table.name}


def of_table(target: Table, pipeline: str, table: TableName) -> ColumnElement[bool]:
    """Returns the condition that picks a source table's rows of one of the ledger's tables."""
    return and_(*(target.c[name] == value for name, value in key(pipeline, table).items()))


def among(target: Table, found: Iterable[tuple[str, TableName]]) -> ColumnElement[bool]:
    """Returns the condition that picks the rows of some source tables; each server finds ranges of its index in it.

    Args:
        target: One of the ledger's tables.
        found: Pipelines with their tables.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for pipeline, table in found:
        names.setdefault((pipeline, table.schema), []).append(table.name)
    here = (
        and_(target.c.pipeline == pipeline, target.c.table_schema == schema, target.c.table_name.in_(some))
        for (pipeline, schema), some in sorted(names.items())
    )
    return or_(false(), *here)


def register(connection: Connection, pipeline: str, table: TableName) -> None:
    """Makes the ledger know a source table, unless it does."""
    fresh = key(pipeline, table) | {"token": 0, "holder": "", "purpose": ""}
    match connection.dialect.name:
        case "mysql":  # INSERT IGNORE would lock for reading only, and two that then want to write would wait for each other
            from sqlalchemy.dialects import mysql

            connection.execute(mysql.insert(tables).values(fresh).on_duplicate_key_update(token=tables.c.token))
        case "postgresql":
            from sqlalchemy.dialects import postgresql

            connection.execute(postgresql.insert(tables).values(fresh).on_conflict_do_nothing())
        case _:
            from sqlalchemy.dialects import sqlite

            connection.execute(sqlite.insert(tables).values(fresh).on_conflict_do_nothing())


def upsert(connection: Connection, target: Table, values: dict[str, Any]) -> None:
    """Inserts a row, or replaces the other columns of the one that has its primary key."""
    names = [column.name for column in target.primary_key]
    rest = {name: value for name, value in values.items() if name not in names}
    match connection.dialect.name:
        case "mysql":
            from sqlalchemy.dialects import mysql

            connection.execute(mysql.insert(target).values(values).on_duplicate_key_update(rest))
        case "postgresql":
            from sqlalchemy.dialects import postgresql

            connection.execute(postgresql.insert(target).values(values).on_conflict_do_update(index_elements=names, set_=rest))
        case _:
            from sqlalchemy.dialects import sqlite

            connection.execute(sqlite.insert(target).values(values).on_conflict_do_update(index_elements=names, set_=rest))


def upsert_all(connection: Connection, target: Table, rows: Sequence[dict[str, Any]], changed: Sequence[str] = ()) -> None:
    """Inserts rows in one statement; of a row that is there, the columns `changed` get the new values (all but its key without any).

    Args:
        connection: A transaction.
        target: The ledger's table.
        rows: With the same columns each.
        changed: Columns.
    """
    names = [column.name for column in target.primary_key]
    replaced = list(changed) or [name for name in rows[0] if name not in names]
    match connection.dialect.name:
        case "mysql":
            from sqlalchemy.dialects import mysql

            inserted = mysql.insert(target).values(list(rows))
            connection.execute(inserted.on_duplicate_key_update({name: inserted.inserted[name] for name in replaced}))
        case "postgresql":
            from sqlalchemy.dialects import postgresql

            given = postgresql.insert(target).values(list(rows))
            connection.execute(given.on_conflict_do_update(index_elements=names, set_={name: given.excluded[name] for name in replaced}))
        case _:
            from sqlalchemy.dialects import sqlite

            new = sqlite.insert(target).values(list(rows))
            connection.execute(new.on_conflict_do_update(index_elements=names, set_={name: new.excluded[name] for name in replaced}))
