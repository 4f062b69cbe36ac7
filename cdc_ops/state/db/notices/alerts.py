"""Findings and what receivers were told, in SQL; see state.alerts for what each method promises."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, select

from cdc_ops.core import json_codec
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.db import table_rows
from cdc_ops.state.db.database import Database
from cdc_ops.state.db.schema import findings, notified_alerts
from cdc_ops.state.notices.alerts import AlertReader, AlertStore, Finding, NotifiedAlert, Subject, findings_of
from cdc_ops.state.table_run import TableRun

T = TypeVar("T")
_PASSING: Final = tuple(kind.value for kind in AlertKind if not kind.lasts)


class _Reading(Protocol):
    _database: Database

    def _read(self, query: Callable[[Connection], T], empty: T) -> T: ...


class SqlAlertReader(AlertReader):
    """The reading half; a part of `SqlStateReader`."""

    def findings(self: "_Reading", pipeline: str) -> tuple[Finding, ...]:
        """See `AlertReader`."""
        order = (findings.c[name] for name in ("table_schema", "table_name", "kind", "detail"))
        query = select(findings.c.body).where(findings.c.pipeline == pipeline).order_by(*order)
        return self._read(lambda connection: tuple(json_codec.loads(Finding, text) for text in connection.scalars(query)), ())

    def notified_alerts(self: "_Reading", pipeline: str) -> tuple[NotifiedAlert, ...]:
        """See `AlertReader`."""
        order = (notified_alerts.c[name] for name in ("table_schema", "table_name", "kind", "detail", "receiver"))
        query = select(notified_alerts.c.body).where(notified_alerts.c.pipeline == pipeline).order_by(*order)
        return self._read(lambda connection: tuple(json_codec.loads(NotifiedAlert, text) for text in connection.scalars(query)), ())


class SqlAlertStore(SqlAlertReader, AlertStore):
    """The writing half; a part of `SqlStateStore`."""

    def put_finding(self: "_Reading", finding: Finding) -> None:
        """See `AlertStore`."""
        with self._database.write() as connection:
            _put(connection, finding)

    def drop_findings(self: "_Reading", pipeline: str, table: TableName | None, kind: AlertKind, *, detail: str | None = None) -> None:
        """See `AlertStore`. Nothing is locked where there is none."""
        mine = and_(*(findings.c[name] == value for name, value in _place(pipeline, table).items()), findings.c.kind == kind.value)
        mine = mine if detail is None else and_(mine, findings.c.detail == detail)
        if self._read(lambda connection: connection.scalar(select(findings.c.kind).where(mine).limit(1)), None) is None:
            return
        with self._database.write() as connection:
            connection.execute(delete(findings).where(mine))

    def put_notified(self: "_Reading", notified: Iterable[NotifiedAlert]) -> None:
        """See `AlertStore`."""
        with self._database.write() as connection:
            for one in notified:
                values = _key(one.subject) | {"receiver": one.receiver, "body": json_codec.dumps(one)}
                table_rows.upsert(connection, notified_alerts, values)

    def forget_notified(self: "_Reading", notified: Iterable[NotifiedAlert]) -> None:
        """See `AlertStore`."""
        with self._database.write() as connection:
            for one in notified:
                connection.execute(
                    delete(notified_alerts).where(_of(notified_alerts, one.subject), notified_alerts.c.receiver == one.receiver)
                )


def record(connection: Connection, run: TableRun) -> None:
    """Writes what a line of a run says that the next one will not."""
    for finding in findings_of(run):
        _put(connection, finding)


def prune(connection: Connection, pipeline: str, table: TableName, before: datetime) -> None:
    """Forgets what happened in runs from before an instant; what lasts until somebody has acted stays."""
    old = (findings.c.found_at < before, findings.c.kind.in_(_PASSING))
    connection.execute(delete(findings).where(table_rows.of_table(findings, pipeline, table), *old))


def _put(connection: Connection, finding: Finding) -> None:
    values = _key(finding.subject) | {"found_at": finding.found_at, "body": json_codec.dumps(finding)}
    table_rows.upsert(connection, findings, values)


def _place(pipeline: str, table: TableName | None) -> dict[str, str]:
    if table is None:  # '' is the name of no table
        return {"pipeline": pipeline, "table_schema": "", "table_name": ""}
    return table_rows.key(pipeline, table)


def _key(subject: Subject) -> dict[str, Any]:
    return _place(subject.pipeline, subject.table) | {"kind": subject.kind.value, "detail": subject.detail}


def _of(target: Table, subject: Subject) -> ColumnElement[bool]:
    return and_(*(target.c[name] == value for name, value in _key(subject).items()))
