"""All that the ledger knows of a table goes from one pipeline to another, which has taken its Delta table over (`cdc-ops adopt`)."""

import json
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, func, select, update

from cdc_ops.core import json_codec
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.db import leases, operations, schema, table_rows
from cdc_ops.state.db.schema import (
    approvals,
    archive_gaps,
    findings,
    metadata,
    notified_alerts,
    notified_files,
    pipeline_files,
    runs,
    tables,
    waiters,
)
from cdc_ops.state.lease import Lease

_NAMED_IN: Final = {
    schema.operations: schema.operations.c.spec,
    runs: runs.c.body,
    archive_gaps: archive_gaps.c.body,
    findings: findings.c.body,
    notified_alerts: notified_alerts.c.body,
    approvals: approvals.c.body,
}
"""The columns whose JSON names the pipeline, as `pipeline` or within `subject`."""

_OF_TABLES: Final = tuple(
    one for one in metadata.sorted_tables if {"pipeline", "table_schema"} <= set(one.c.keys()) and one not in (tables, waiters)
)
_WHOLE: Final = TableName(schema="", name="")
"""What the rows of a pipeline as a whole have in place of a table."""


def adopt(connection: Connection, old: Lease, new: Lease, state: TableState) -> None:
    """Gives the rows of a table to another pipeline; see `StateStore.adopt`."""
    given = leases.hold(connection, old)
    leases.hold(connection, new)
    operations.discard_open(connection, old.pipeline, old.table)
    _move(connection, old.pipeline, new.pipeline, new.table)
    values = {"state": json_codec.dumps(state), "stats": given.stats}
    connection.execute(update(tables).where(table_rows.of_table(tables, new.pipeline, new.table)).values(values))
    for table in (waiters, tables):
        connection.execute(delete(table).where(table_rows.of_table(table, old.pipeline, old.table)))


def adopt_rest(connection: Connection, old: str, new: str) -> None:
    """Gives another pipeline what is of a pipeline as a whole; see `StateStore.adopt_rest`."""
    _move(connection, old, new, _WHOLE)
    _move_files(connection, old, new)
    if connection.execute(select(notified_files).where(notified_files.c.pipeline == old).limit(1)).first() is not None:
        connection.execute(delete(notified_files).where(notified_files.c.pipeline == new))
        connection.execute(update(notified_files).where(notified_files.c.pipeline == old).values(pipeline=new))


def _move_files(connection: Connection, old: str, new: str) -> None:
    """Puts the versions of the old pipeline's file in front of those of the new one's, which count on."""
    numbers, of = pipeline_files.c.number, pipeline_files.c.pipeline
    last = connection.scalar(select(func.max(numbers)).where(of == old))
    if last is None:
        return
    for number in connection.scalars(select(numbers).where(of == new).order_by(numbers.desc())).all():
        connection.execute(update(pipeline_files).where(of == new, numbers == number).values(number=number + last))
    connection.execute(update(pipeline_files).where(of == old).values(pipeline=new))


def _move(connection: Connection, old: str, new: str, table: TableName) -> None:
    """Moves rows of a table, or of a pipeline as a whole.

    What the new pipeline has of the table goes: it was refused the table until now. What it has of itself as a whole is newer, and stays.
    """
    for one in _OF_TABLES:
        mine, theirs = table_rows.of_table(one, new, table), table_rows.of_table(one, old, table)
        if table == _WHOLE:
            _leave_out_taken(connection, one, mine, theirs)
        else:
            connection.execute(delete(one).where(mine))
        rows = [dict(row) for row in connection.execute(select(one).where(theirs)).mappings()]
        if rows:
            _rename(connection, one, rows, new)


def _leave_out_taken(connection: Connection, table: Table, mine: ColumnElement[bool], theirs: ColumnElement[bool]) -> None:
    """Removes the old pipeline's rows whose keys, but for the name, the new one has."""
    names = [column.name for column in table.primary_key if column.name != "pipeline"]
    for row in connection.execute(select(*(table.c[name] for name in names)).where(mine)).all():
        connection.execute(delete(table).where(theirs, *(table.c[name] == value for name, value in zip(names, row, strict=True))))


def _rename(connection: Connection, table: Table, rows: list[dict[str, Any]], new: str) -> None:
    """Gives rows the new name, in their key and in their JSON; each is found by its primary key."""
    text = _NAMED_IN.get(table)
    keys = [column.name for column in table.primary_key]
    values: dict[str, Any] = {"pipeline": bindparam("new_pipeline"), **({text.name: bindparam("new_text")} if text is not None else {})}
    one = update(table).where(*(table.c[name] == bindparam(f"of_{name}") for name in keys)).values(values)
    changed = []
    for row in rows:
        found = {f"of_{name}": row[name] for name in keys} | {"new_pipeline": new}
        changed.append(found | ({"new_text": _renamed(row[text.name], row["pipeline"], new)} if text is not None else {}))
    connection.execute(one, changed)


def _renamed(text: str, old: str, new: str) -> str:
    data = json.loads(text)
    for part in (data, data.get("subject")):
        if isinstance(part, dict) and part.get("pipeline") == old:
            part["pipeline"] = new
    return json_codec.dumps(data)
