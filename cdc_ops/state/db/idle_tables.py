"""Tables without news, in bulk: a thousand of them are read, settled and pruned by a few statements.

One of them is settled as if a run had taken its lease, moved its state, written its line and given the lease back, all in one
transaction. No lease is held before: that nothing happened since the table was looked at is compared while its row is locked. Whoever took
the lease meanwhile has moved its token, whoever holds it stands in the row, and what was planned is an open operation.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, delete, exists, or_, select

from cdc_ops.core import json_codec
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import FreeTable, IdleTable
from cdc_ops.state.db import runs as run_lines
from cdc_ops.state.db import table_rows, totals
from cdc_ops.state.db.operations import OperationStatus
from cdc_ops.state.db.pruning import SETTLED
from cdc_ops.state.db.schema import KEY, operations, runs, tables
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.state.totals import added_by

AT_ONCE: Final = 250
"""Tables in one transaction."""

_RUNS_AT_ONCE: Final = 20
"""Runs whose lines one call forgets, at most."""

_OPERATIONS_AT_ONCE: Final = 500

_Key = tuple[str, str]


def portions(names: Iterable[TableName]) -> Iterator[tuple[TableName, ...]]:
    """Yields tables in the order of their keys, which is the order of locks, a transaction's worth at a time."""
    ordered = sorted(names)
    for start in range(0, len(ordered), AT_ONCE):
        yield tuple(ordered[start : start + AT_ONCE])


def free_tables(connection: Connection, pipeline: str, among: Iterable[TableName]) -> tuple[FreeTable, ...]:
    """Returns those of some tables that have a state, no holder, not even one whose lease has expired, and no open operation."""
    same = [runs.c[name] == tables.c[name] for name in KEY]
    last = select(runs.c.body).where(*same).order_by(runs.c.started_at.desc()).limit(1).scalar_subquery()
    is_open = exists().where(*(operations.c[name] == tables.c[name] for name in KEY), operations.c.status == OperationStatus.OPEN.value)
    query = select(tables, last.label("last_run")).where(tables.c.holder == "", tables.c.state.is_not(None), ~is_open)
    rows = (row for some in portions(among) for row in connection.execute(query.where(_among(tables, pipeline, some))))
    return tuple(
        FreeTable(
            state=run_lines.state_of(row),
            token=row.token,
            stats=None if row.stats is None else json_codec.loads(TableStats, row.stats),
            last_run=None if row.last_run is None else json_codec.loads(TableRun, row.last_run),
        )
        for row in rows
    )


def settle(connection: Connection, pipeline: str, idle: Sequence[IdleTable]) -> tuple[TableName, ...]:
    """Settles those of some tables that are as they were seen, and returns them."""
    names = [item.seen.state.table for item in idle]
    in_order = [tables.c[name] for name in KEY]
    locked = connection.execute(select(tables).where(_among(tables, pipeline, names)).order_by(*in_order).with_for_update())
    rows = {(row.table_schema, row.table_name): row for row in locked}
    busy = _with_open_operations(connection, pipeline, names)
    settled = [item for item in idle if _is_as_seen(item, rows.get(_key_of(item.seen.state.table)), busy)]
    if settled:
        table_rows.upsert_all(connection, tables, [_row(item) for item in settled], ("state", "token"))
        table_rows.upsert_all(connection, runs, [run_lines.line(item.run) for item in settled])
        totals.add(connection, [added for item in settled if (added := added_by(item.run, None))])
    return tuple(item.seen.state.table for item in settled)


def old_lines(connection: Connection, pipeline: str, names: Sequence[TableName], before: datetime) -> tuple[str, ...]:
    """Returns some runs of which tables have lines that are forgotten."""
    query = select(runs.c.run_id).where(_old(pipeline, names, before)).distinct().limit(_RUNS_AT_ONCE)
    return tuple(connection.scalars(query))


def prune(connection: Connection, pipeline: str, names: Sequence[TableName], run_ids: Sequence[str], before: datetime) -> int:
    """Removes the lines of some runs, and the tables' operations that were settled before the instant; tables have newer lines.

    Returns:
        How many were removed.
    """
    removed = connection.execute(delete(runs).where(_old(pipeline, names, before), runs.c.run_id.in_(run_ids))).rowcount
    old = (_among(operations, pipeline, names), operations.c.status.in_(SETTLED), operations.c.settled_at < before)
    ids = tuple(connection.scalars(select(operations.c.operation_id).where(*old).limit(_OPERATIONS_AT_ONCE)))
    if ids:
        removed += connection.execute(delete(operations).where(operations.c.operation_id.in_(ids))).rowcount
    return int(removed)


def _old(pipeline: str, names: Iterable[TableName], before: datetime) -> ColumnElement[bool]:
    """Returns the condition of lines that began before an instant and did not commit.

    Those that committed stay while the tables are idle: asset events need the newest, and to look for that in each table would read
    all of its idle lines. They go when a table has news, one by one (`pruning.old_runs`); until then no more of them come.
    """
    return and_(_among(runs, pipeline, names), runs.c.started_at < before, runs.c.status != TableRunStatus.COMMITTED.value)


def _is_as_seen(item: IdleTable, row: Row[Any] | None, busy: frozenset[_Key]) -> bool:
    if row is None or row.holder or row.token != item.seen.token or _key_of(item.seen.state.table) in busy:
        return False
    return run_lines.state_of(row) == item.seen.state


def _with_open_operations(connection: Connection, pipeline: str, names: Iterable[TableName]) -> frozenset[_Key]:
    columns = (operations.c.table_schema, operations.c.table_name)
    is_open = (_among(operations, pipeline, names), operations.c.status == OperationStatus.OPEN.value)
    return frozenset((row.table_schema, row.table_name) for row in connection.execute(select(*columns).where(*is_open).distinct()))


def _row(item: IdleTable) -> dict[str, Any]:
    key = table_rows.key(item.new.pipeline, item.new.table)
    return key | {"state": json_codec.dumps(item.new), "token": item.seen.token + 1, "holder": "", "purpose": ""}


def _among(target: Table, pipeline: str, names: Iterable[TableName]) -> ColumnElement[bool]:
    """Returns the condition that picks the rows of some source tables; each server finds ranges of its index in it."""
    schemas: dict[str, list[str]] = {}
    for table in names:
        schemas.setdefault(table.schema, []).append(table.name)
    here = (and_(target.c.table_schema == schema, target.c.table_name.in_(found)) for schema, found in sorted(schemas.items()))
    return and_(target.c.pipeline == pipeline, or_(*here))


def _key_of(table: TableName) -> _Key:
    return table.schema, table.name
