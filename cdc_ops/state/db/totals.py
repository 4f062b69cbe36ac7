"""The sums of `state.totals` in SQL: one row per table, and one per pipeline for questions about it as a whole. Each statement adds."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, func, select

from cdc_ops.core.approvals import ApprovalRecord
from cdc_ops.core.json_codec import group_of
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.db.schema import KEY, totals
from cdc_ops.state.totals import Totals

_SUMS: Final = tuple(group_of(Totals))


def read(connection: Connection, pipeline: str | None) -> tuple[Totals, ...]:
    """Returns the sums of all tables, or of a pipeline's, in the order of their names."""
    query = select(totals).order_by(*(totals.c[name] for name in KEY))
    return tuple(_of(row) for row in connection.execute(query if pipeline is None else query.where(totals.c.pipeline == pipeline)))


def add(connection: Connection, more: Iterable[Totals]) -> None:
    """Adds to the sums of tables, each of which is named once, in one statement."""
    rows = [_row(one) for one in more]
    if not rows:
        return
    match connection.dialect.name:
        case "mysql":
            from sqlalchemy.dialects import mysql

            inserted = mysql.insert(totals).values(rows)
            connection.execute(inserted.on_duplicate_key_update(_added(lambda name: inserted.inserted[name])))
        case "postgresql":
            from sqlalchemy.dialects import postgresql

            given = postgresql.insert(totals).values(rows)
            connection.execute(given.on_conflict_do_update(index_elements=KEY, set_=_added(lambda name: given.excluded[name])))
        case _:
            from sqlalchemy.dialects import sqlite

            new = sqlite.insert(totals).values(rows)
            connection.execute(new.on_conflict_do_update(index_elements=KEY, set_=_added(lambda name: new.excluded[name])))


def add_question(connection: Connection, record: ApprovalRecord) -> None:
    """Counts a question by its status: that it is asked, or how it ended."""
    counted: dict[str, Any] = {record.status.value: 1}
    add(connection, [Totals.of(pipeline=record.pipeline, table=record.table, **counted)])


def _added(given: Callable[[str], ColumnElement[Any]]) -> dict[str, ColumnElement[Any]]:
    """Returns what a row that is there becomes: a success without an instant leaves the last one."""
    sums = {name: totals.c[name] + given(name) for name in _SUMS}
    return {**sums, "succeeded_at": func.coalesce(given("succeeded_at"), totals.c.succeeded_at)}


def _row(one: Totals) -> dict[str, Any]:
    place = {"table_schema": one.table.schema, "table_name": one.table.name} if one.table else {"table_schema": "", "table_name": ""}
    return {"pipeline": one.pipeline, **place, **one.sums, "succeeded_at": one.succeeded_at}


def _of(row: Row[Any]) -> Totals:
    table = TableName(schema=row.table_schema, name=row.table_name) if row.table_name else None
    sums = {name: getattr(row, name) for name in _SUMS}
    return Totals.of(pipeline=row.pipeline, table=table, **sums, succeeded_at=row.succeeded_at)
