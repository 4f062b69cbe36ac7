"""The runs' record for people: one line per run and table, and the overview that the status page polls."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Row, Select, func, select

from cdc_ops.core import json_codec
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.protocol.table_state import Phase, TableState
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import RunGlance, TableGlance, TableOverview
from cdc_ops.state.db import table_rows, totals
from cdc_ops.state.db.leases import lease_of
from cdc_ops.state.db.schema import KEY, runs, tables, utc_now
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.state.totals import added_by

T = TypeVar("T")

_LINES: Final = 500
"""Lines that the search for the newest runs looks at first."""


def record(connection: Connection, run: TableRun) -> None:
    """Writes or replaces a line, and adds what its run did to the table's sums."""
    table_rows.register(connection, run.pipeline, run.table)
    before = table_run(connection, run.pipeline, run.table, run.run_id) if run.status.has_ended else None
    added = added_by(run, before)
    totals.add(connection, [added] if added else [])
    table_rows.upsert(connection, runs, line(run))


def line(run: TableRun) -> dict[str, Any]:
    """Returns a line as the columns of its row."""
    told = {"run_id": run.run_id, "status": run.status.value, "started_at": run.timing.started_at, "body": json_codec.dumps(run)}
    searched = {"late_rows": run.result.late_rows, "max_commit_lag": run.result.max_commit_lag, "alert": run.messages.alert or None}
    counts = run.result.counts
    written = counts.inserted + counts.updated + counts.deleted if run.status is TableRunStatus.COMMITTED else 0
    return table_rows.key(run.pipeline, run.table) | told | searched | {"rows_written": written}


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


Glances = dict[tuple[str | None, ...], TableGlance]
"""Glances at tables that nobody holds, by their names and the JSON texts of state, numbers and newest line."""


def glances(connection: Connection, known: Glances) -> tuple[tuple[TableGlance, ...], Glances]:
    """Returns every known table at a glance, in one query. A few values are taken out of the JSON, and no value object is made of the rest.

    Letting the database take them out costs its server more than it spares here: it parses a text anew for each value.

    Args:
        connection: To the ledger.
        known: What an earlier call has taken out.

    Returns:
        The tables, and what was taken out, for the next call.
    """
    taken: Glances = {}

    def one(row: Row[Any]) -> TableGlance:
        texts = (row.pipeline, row.table_schema, row.table_name, row.state, row.stats, row.last_run)
        taken[texts] = glance = known.get(texts) or _glance(row)
        return replace(glance, is_leased=True) if row.leased else glance

    return tuple(one(row) for row in connection.execute(_with_newest_line())), taken


def _with_newest_line() -> Select[Any]:
    """Returns the query of every table's row with its newest line, which is found in the index."""
    same = [runs.c[name] == tables.c[name] for name in KEY]
    last = select(runs.c.body).where(*same).order_by(runs.c.started_at.desc()).limit(1).scalar_subquery()
    leased = (tables.c.holder != "") & (tables.c.expires_at > utc_now())
    return select(tables, last.label("last_run"), leased.label("leased")).order_by(*(tables.c[name] for name in KEY))


def _glance(row: Row[Any]) -> TableGlance:
    state, stats = _members(row.state), _members(row.stats)
    ready, begun = state.get("watermark") is not None, state.get("snapshot") is not None
    return TableGlance(
        pipeline=row.pipeline,
        table=TableName(schema=row.table_schema, name=row.table_name),
        phase=Phase.READY if ready else Phase.SNAPSHOT if begun else Phase.NEW,
        fresh_at=_instant(state.get("fresh_at")),
        missing_since=_instant(state.get("missing_since")),
        size_bytes=stats.get("size_bytes"),
        last_run=None if row.last_run is None else _run_glance(_members(row.last_run)),
    )


def _run_glance(line: dict[str, Any]) -> RunGlance:
    max_lag = line.get("max_lag")
    return RunGlance(
        status=TableRunStatus(line["status"]),
        started_at=datetime.fromisoformat(line["started_at"]),
        read=line.get("counts", {}).get("read", 0),
        max_lag=None if max_lag is None else timedelta(seconds=max_lag),
    )


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _members(text: str | None) -> dict[str, Any]:
    """Returns the members of a JSON text, none if there is no text.

    Raises:
        StateError: it is no JSON.
    """
    return {} if text is None else json_codec.loads(dict[str, Any], text)


Parsed = dict[tuple[type, str], Any]
"""Values by their class and JSON text."""

Among = Sequence[tuple[str, TableName]]
"""Tables with their pipelines."""


def overview(
    connection: Connection, pipeline: str | None, table: TableName | None = None, known: Parsed | None = None, among: Among | None = None
) -> tuple[tuple[TableOverview, ...], Parsed]:
    """Returns every known table, or some of them, in one query: per table its row, and its newest line by a search in the index.

    Parsing is nearly all of the work for many tables, most of which are the same a minute later.

    Args:
        connection: To the ledger.
        pipeline, table: Only these.
        known: What an earlier overview has parsed.
        among: Only these, by pipeline and table.

    Returns:
        The tables, and all that was parsed of them, for the next overview.
    """
    query = _with_newest_line()
    if pipeline is not None:
        query = query.where(tables.c.pipeline == pipeline)
    if table is not None:
        query = query.where(tables.c.table_schema == table.schema, tables.c.table_name == table.name)
    if among is not None:
        query = query.where(table_rows.among(tables, among))
    parsed: Parsed = {}

    def read(cls: type[T], text: str | None) -> T | None:
        if text is None:
            return None
        found = (known or {}).get((cls, text))
        value: T = json_codec.loads(cls, text) if found is None else found
        parsed[cls, text] = value
        return value

    def one(row: Row[Any]) -> TableOverview:
        return TableOverview(
            state=read(TableState, row.state) or state_of(row),
            stats=read(TableStats, row.stats),
            last_run=read(TableRun, row.last_run),
            lease=lease_of(row) if row.leased else None,
        )

    return tuple(one(row) for row in connection.execute(query)), parsed


def rows_written(connection: Connection, since: datetime) -> dict[str, int]:
    """Returns the rows that runs since an instant have written, by pipeline: for each a part of an index is read, and no line.

    Lines grouped by pipeline would be as many searches as lines, or a sort of them.
    """
    of = select(tables.c.pipeline).distinct().subquery()
    written = func.sum(runs.c.rows_written)
    query = select(of.c.pipeline, select(written).where(runs.c.pipeline == of.c.pipeline, runs.c.started_at >= since).scalar_subquery())
    return {pipeline: int(rows) for pipeline, rows in connection.execute(query) if rows}


def state_of(row: Row[Any]) -> TableState:
    """Reads the state from a row of `cdc_tables`; a fresh one if nothing was ever settled."""
    if row.state is not None:
        return json_codec.loads(TableState, row.state)
    return TableState(pipeline=row.pipeline, table=TableName(schema=row.table_schema, name=row.table_name))
