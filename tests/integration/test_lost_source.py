"""A source or a ledger that goes away in the middle: real servers that are stopped, connections and statements that are killed."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.cli.session import LocalSpark
from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, MySQLServer, PostgresServer
from cdc_ops.errors import LedgerUnavailableError, SourceInterruptedError, SourceUnreachableError
from cdc_ops.sources.base import open_source
from cdc_ops.sources.sql_source import SqlSource
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps import discovery
from cdc_ops.testing.source_harness import background, wait_until
from tests.world import World

KINDS = ("mariadb", "mysql", "postgres")
SERVERS = {"mariadb": MariaDBServer, "mysql": MySQLServer, "postgres": PostgresServer}


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    """The server that all tests share."""
    found: DatabaseServer = request.getfixturevalue(request.param)
    found.create_database("lost")
    return found


@pytest.fixture(params=KINDS)
def own_server(request: pytest.FixtureRequest, server_folder: Path) -> Iterator[DatabaseServer]:
    """A server that a test may stop."""
    if request.param == "mysql":
        request.getfixturevalue("mysql")  # skips where there is none
    found = SERVERS[request.param](server_folder / f"own-{request.param}")
    with found:
        found.create_database("lost")
        yield found


def url_of(server: DatabaseServer, database: str = "lost") -> str:
    scheme = "postgresql" if isinstance(server, PostgresServer) else "mysql"
    return ConnectionUrl.from_parts(scheme, server.host, server.port, server.user, server.password, database).render()


def opened(server: DatabaseServer) -> SqlSource:
    source = open_source(SourceConfig(kind=SourceKind(server.name.lower()), connection="shop_db"), url_of(server))
    assert isinstance(source, SqlSource)
    return source


def identity(source: SqlSource) -> int:
    postgres = source.config.kind is SourceKind.POSTGRES
    return int(source._parts.session.row(f"SELECT {'pg_backend_pid()' if postgres else 'CONNECTION_ID()'} AS id")["id"])


def statement_of(server: DatabaseServer, number: int) -> list[Any]:
    """What a connection is running, () if it is gone."""
    if isinstance(server, PostgresServer):
        return server.execute(f"SELECT query FROM pg_stat_activity WHERE pid = {number}")
    return server.execute(f"SELECT INFO FROM information_schema.processlist WHERE ID = {number}")


def end(server: DatabaseServer, number: int, *, statement_only: bool = False) -> None:
    if isinstance(server, PostgresServer):
        server.execute(f"SELECT {'pg_cancel_backend' if statement_only else 'pg_terminate_backend'}({number})")
    else:
        server.execute(f"KILL {'QUERY ' if statement_only else ''}{number}")


def long_statement(server: DatabaseServer) -> str:
    if isinstance(server, PostgresServer):
        return "SELECT pg_sleep(60)"
    many = ", ".join(f"information_schema.columns AS c{number}" for number in range(4))
    return f"SELECT COUNT(*) AS long_one FROM {many}"


def test_closing_a_connection_that_the_server_has_ended_raises_nothing_and_the_next_question_opens_another(server: DatabaseServer) -> None:
    source = opened(server)
    number = identity(source)
    end(server, number)
    wait_until(lambda: not statement_of(server, number), "the connection is gone")
    source.close()
    assert identity(source) != number
    source.close()


@pytest.mark.parametrize("statement_only", [True, False], ids=["statement", "connection"])
def test_a_killed_statement_and_a_killed_connection_may_be_tried_again(server: DatabaseServer, statement_only: bool) -> None:
    source = opened(server)
    number, long = identity(source), long_statement(server)
    wanted = SourceInterruptedError if statement_only else SourceUnreachableError

    def ask() -> None:
        with pytest.raises(wanted) as caught:
            source._parts.session.rows(long)
        assert caught.value.retryable

    with background(ask):
        wait_until(lambda: any(long in str(row) for row in statement_of(server, number)), "the statement runs")
        end(server, number, statement_only=statement_only)
    source.close()
    assert source.now()
    source.close()


def test_a_session_that_was_interrupted_before_it_was_prepared_is_not_used(server: DatabaseServer) -> None:
    source = opened(server)
    session, prepare = source._parts.session, type(source._parts.session)._prepare
    long = long_statement(server)

    def slow(connection: Any) -> None:
        connection.exec_driver_sql(long)

    session._prepare = slow  # type: ignore[method-assign]

    def ask() -> None:
        with pytest.raises(SourceInterruptedError):
            source.now()

    def running() -> list[Any]:
        if isinstance(server, PostgresServer):
            return server.execute(f"SELECT pid FROM pg_stat_activity WHERE query = '{long}'")
        return server.execute(f"SELECT ID FROM information_schema.processlist WHERE INFO = '{long}'")

    with background(ask):
        wait_until(running, "the statement runs")
        end(server, running()[0][0], statement_only=True)
    session._prepare = prepare.__get__(session)  # type: ignore[method-assign]
    zone = "current_setting('TimeZone')" if isinstance(server, PostgresServer) else "@@time_zone"
    assert session.row(f"SELECT {zone} AS zone")["zone"] in ("UTC", "+00:00")
    source.close()


def shop(server: DatabaseServer, folder: Path, monkeypatch: pytest.MonkeyPatch, tables: int) -> None:
    """Tables at a source, and the file of a pipeline that copies them all."""
    names = [f"t{number}" for number in range(tables)]
    server.execute(*(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v INT)" for name in names), database="lost")
    server.execute(*(f"INSERT INTO {name} VALUES (1, 1), (2, 2)" for name in names), database="lost")
    schema = "public" if isinstance(server, PostgresServer) else "lost"
    (folder / "shop.yaml").write_text(
        f"pipeline: shop\nsource: {{kind: {server.name.lower()}, connection: shop_db}}\n"
        f"target: {{root: {folder / 'lake'}, staging: {folder / 'staging'}}}\ntables:\n  {schema}.*: {{cursor: []}}\n"
    )
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{folder / 'ledger.db'}")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(folder))
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", url_of(server))


@pytest.mark.parametrize(
    ("own_server", "as_json"), [("mariadb", False), ("mysql", True), ("postgres", True)], indirect=["own_server"], ids=KINDS
)
def test_a_server_that_stops_during_a_run_ends_it_with_its_report_and_code_6(
    own_server: DatabaseServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    own_server.execute(*(f"DROP TABLE IF EXISTS t{number}" for number in range(3)), database="lost")
    shop(own_server, tmp_path, monkeypatch, 3)
    stopped: list[str] = []

    class Stopping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "sync operation" in record.getMessage() and not stopped:
                stopped.append(record.getMessage())
                own_server.stop()

    heard = logging.getLogger("cdc_ops.job")
    heard.addHandler(stopping := Stopping())
    monkeypatch.setattr(LocalSpark, "session", lambda self, small=False: spark)
    try:
        result = CliRunner().invoke(app, ["run", *(["--json"] if as_json else [])])
    finally:
        heard.removeHandler(stopping)
    assert stopped, result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 6, result.output
    if not as_json:
        assert "Run of shop" in result.stdout
        assert "cdc-ops cannot reach the database server" in result.stderr, "said once for all tables that it stopped"
        assert result.stdout.count("failed") >= 2
        return
    report = json.loads(result.stdout)["shop"]
    assert len(report["tables"]) == 3
    failed = [item["table"] for item in report["tables"] if item["status"] == "failed"]
    assert len(failed) >= 2, report
    assert {item["error"] for item in report["failures"]} <= {"SourceUnreachableError", "UnforeseenJobError"}
    assert all(item["retryable"] for item in report["failures"])


def test_a_server_that_stops_between_discovery_and_plan_ends_plan_with_code_6(
    own_server: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_server.execute(*(f"DROP TABLE IF EXISTS t{number}" for number in range(3)), database="lost")
    shop(own_server, tmp_path, monkeypatch, 2)
    discover = discovery.discover_all

    def then_stop(*arguments: Any) -> Any:
        found = discover(*arguments)
        own_server.stop()
        return found

    monkeypatch.setattr(discovery, "discover_all", then_stop)
    result = CliRunner().invoke(app, ["plan", "--json"])
    assert isinstance(result.exception, SystemExit), result.exception
    [document] = json.loads(result.stdout)
    assert [item["error"]["error"] for item in document["tables"]] == ["SourceUnreachableError"] * 2
    assert result.exit_code == 6


def test_a_ledger_that_goes_away_during_a_run_leaves_the_report_of_what_was_done(
    mariadb: MariaDBServer, server_folder: Path, tmp_path: Path, spark: SparkSession
) -> None:
    world = World(mariadb, tmp_path, spark)
    world.sql(
        *(f"CREATE TABLE t{number} (id BIGINT PRIMARY KEY, updated_at DATETIME(6) NOT NULL, KEY (updated_at))" for number in range(3))
    )
    world.sql(*(f"INSERT INTO t{number} VALUES (1, '2024-01-01')" for number in range(3)))
    world.configure(cursor=("updated_at",))
    world.pipeline = _one_table_a_group(world)
    server = PostgresServer(server_folder / "own-ledger")
    with server:
        server.create_database("ledger")
        world.ledger = server.url("ledger")
        jobs: list[JobSpec] = []

        def execute(job: JobSpec) -> StepResult:
            jobs.append(job)
            if len(jobs) == 1:
                return world.execute(job)
            server.stop()
            return StepResult(step=job.step, run_id=job.run_id, tables=(), started_at=datetime.now(UTC), finished_at=datetime.now(UTC))

        report = world.run(execute_with=execute)
    assert len(jobs) == 2
    assert [(run.table.name, run.status) for run in report.runs] == [("t0", TableRunStatus.COMMITTED)]
    assert [failure.config.table.name for failure in report.failures] == ["t1", "t2"]
    assert {type(failure.error) for failure in report.failures} == {LedgerUnavailableError}
    assert report.retryable


def _one_table_a_group(world: World) -> Pipeline:
    return world.pipeline.changed(tables_per_job=1)
