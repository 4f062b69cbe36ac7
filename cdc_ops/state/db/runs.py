"""The runs' record for people: one line per run and table, and the overview that the status page polls."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from cdc_ops.core import json_codec
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.table_state import TableState
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import TableOverview
from cdc_ops.state.db import table_rows
from cdc_ops.state.db.leases import lease_of
from cdc_ops.state.db.schema import KEY, runs, tables, utc_now
from cdc_ops.state.table_run import TableRun, TableRunStatus

_LINES: Final = 500
"""Lines that the search for the newest runs looks at first."""


def record(connection: Connection, run: TableRun) -> None:
    """Writes or replaces a line."""
    table_rows.register(connection, run.pipeline, run.table)
    table_rows.upsert(connection, runs, line(run))


def line(run: TableRun) -> dict[str, Any]:
    """Returns a line as the columns of its row."""
    told = {"run_id": run.run_id, "status": run.status.value, "started_at": run.timing.started_at, "body": json_codec.dumps(run)}
    searched = {"late_rows": run.result.late_rows, "max_commit_lag": run.result.max_commit_lag, "alert": run.messages.alert or None}
    return table_rows.key(run.pipeline, run.table) | told | searched


def newest(
    connection: Connection, pipeline: str | None, run_id: str | None, status: TableRunStatus | None, limit: int | None
) -> tuple[TableRun, ...]:
    """Returns lines, newest first; all of them without a limit."""
    query = select(runs.c.body).order_by(runs.c.started_at.desc(), *(runs.c[name] for name in KEY), runs.c.run_id).limit(limit)
    if pipeline is not None:
        query = query.where(runs.c.pipeline == pipeline)
    if run_id is not None:
        query = query.where(runs.c.run_id == run_id)
    if status is not None:
        query = query.where(runs.c.status == status.value)
    return tuple(json_codec.loads(TableRun, text) for text in connection.scalars(query))


def newest_runs(connection: Connection, pipelines: Sequence[str], limit: int) -> tuple[tuple[TableRun, ...], ...]:
    """Returns the lines of whole runs, the run that began a table last in front."""
    query = select(runs.c.pipeline, runs.c.run_id).order_by(runs.c.started_at.desc())
    if pipelines:
        query = query.where(runs.c.pipeline.in_(pipelines))
    lines = _LINES
    while True:  # as far along the index of instants as it takes: a run has as many lines as tables
        rows = connection.execute(query.limit(lines)).all()
        found = list(dict.fromkeys((row.pipeline, row.run_id) for row in rows))
        if len(found) >= limit or len(rows) < lines:
            return tuple(newest(connection, pipeline, run_id, None, None) for pipeline, run_id in found[:limit])
        lines *= 4


def history(connection: Connection, pipeline: str, table: TableName, status: TableRunStatus | None, limit: int) -> tuple[TableRun, ...]:
    """Returns one table's lines, newest first."""
    query = (
        select(runs.c.body).where(table_rows.of_table(runs, pipeline, table)).order_by(runs.c.started_at.desc(), runs.c.run_id).limit(limit)
    )
    if status is not None:
        query = query.where(runs.c.status == status.value)
    return tuple(json_codec.loads(TableRun, text) for text in connection.scalars(query))


def table_run(connection: Connection, pipeline: str, table: TableName, run_id: str) -> TableRun | None:
    """Returns one line."""
    text = connection.scalar(select(runs.c.body).where(table_rows.of_table(runs, pipeline, table), runs.c.run_id == run_id))
    return None if text is None else json_codec.loads(TableRun, text)


def overview(connection: Connection, pipeline: str | None, table: TableName | None = None) -> tuple[TableOverview, ...]:
    """Returns every known table, or those of a name, in one query: per table its row, and its newest line by a search in the index."""
    same = [runs.c[name] == tables.c[name] for name in KEY]
    last = select(runs.c.body).where(*same).order_by(runs.c.started_at.desc()).limit(1).scalar_subquery()
    leased = (tables.c.holder != "") & (tables.c.expires_at > utc_now())
    query = select(tables, last.label("last_run"), leased.label("leased")).order_by(*(tables.c[name] for name in KEY))
    if pipeline is not None:
        query = query.where(tables.c.pipeline == pipeline)
    if table is not None:
        query = query.where(tables.c.table_schema == table.schema, tables.c.table_name == table.name)
    return tuple(_overview(row) for row in connection.execute(query))


def state_of(row: Row[Any]) -> TableState:
    """Reads the state from a row of `cdc_tables`; a fresh one if nothing was ever settled."""
    if row.state is not None:
        return json_codec.loads(TableState, row.state)
    return TableState(pipeline=row.pipeline, table=TableName(schema=row.table_schema, name=row.table_name))


def _overview(row: Row[Any]) -> TableOverview:
    return TableOverview(
        state=state_of(row),
        stats=None if row.stats is None else json_codec.loads(TableStats, row.stats),
        last_run=None if row.last_run is None else json_codec.loads(TableRun, row.last_run),
        lease=lease_of(row) if row.leased else None,
    )
