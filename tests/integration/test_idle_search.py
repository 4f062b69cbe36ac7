"""One look at many tables on real servers: few statements, the ledger as plans of single tables leave it, and nothing settled wrongly.

No Spark: the tables count as copied up to a watermark, and none has a Delta table yet.
"""

import re
import shutil
import threading
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from cdc_ops.errors import JobLostError, TableReplacedError
from cdc_ops.sources.sql.idle_probe import WaitingSession
from cdc_ops.sources.sql.session import SqlSession
from cdc_ops.state.db import schema
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.discovery import discover_all
from cdc_ops.steps.runs import idle_search
from tests.world import World, request

WATERMARK = CursorValue(parts=("2020-06-01 00:00:00.000000",))
ON_UPDATE = "DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6)"


@pytest.fixture(params=["mariadb", "mysql", "postgres"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def world(server: DatabaseServer, tmp_path: Path) -> World:
    here = World(server, tmp_path, cast(Any, None))
    here.configure(lookback=timedelta(seconds=30))
    return here


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Everything that is run at the source."""
    run, seen = SqlSession._run, list[str]()

    def noted(session: SqlSession, sql: str) -> Any:
        seen.append(sql)
        return run(session, sql)

    monkeypatch.setattr(SqlSession, "_run", noted)
    return seen


def create(world: World, count: int) -> tuple[str, ...]:
    """Creates tables with old rows, which count as copied."""
    names = tuple(f"t{number:02}" for number in range(count))
    stamp = "timestamp(6) NOT NULL DEFAULT localtimestamp" if isinstance(world.server, PostgresServer) else ON_UPDATE
    for name in names:
        world.sql(
            f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v INT, updated_at {stamp})",
            f"CREATE INDEX {name}_at ON {name} (updated_at, id)",
            f"INSERT INTO {name} VALUES (1, 1, '2020-01-01'), (2, 2, '2020-05-31')",
        )
    with closing(open_store(world.ledger)) as store:
        for name in names:
            lease = store.acquire("shop", world.name(name), "test", ttl=timedelta(minutes=1), live=True)
            progress = TableProgress(watermark=WATERMARK)
            state = TableState(pipeline="shop", table=world.name(name), generation=1, progress=progress, scanned_to=WATERMARK)
            store.replace_state(lease, state)
            store.release(lease)
    return names


def no_spark(job: JobSpec) -> StepResult:
    raise JobLostError(f"no Spark here for {job.operations}")


def ledger_rows(world: World) -> list[dict[str, str]]:
    """The rows of the ledger, without what differs from run to run: ids, instants, seconds."""
    found = []
    with closing(open_store(world.ledger)) as store, store._database.read() as connection:
        for table in (schema.tables, schema.runs):
            for row in connection.execute(sa.select(table).order_by(*(table.c[name] for name in schema.KEY))).mappings():
                texts = {
                    key: re.sub(r"20(2[1-9]|[3-9]\d)-\d\d-\d\d[ T][\d:.]+(\+00:00|Z)?", "NOW", str(value)) for key, value in row.items()
                }
                texts = {key: re.sub(r"test:\w+", "RUN", value) for key, value in texts.items()}
                found.append({key: re.sub(r'"seconds":[\d.e-]+', "SECONDS", value) for key, value in texts.items()})
    return found


def test_many_idle_tables_cost_few_statements_and_leave_the_ledger_that_plans_of_each_leave(
    world: World, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = create(world, 30)
    shutil.copytree(world.folder, copied := world.folder.parent / f"{world.folder.name}-alone")
    looked_at, alone = world, replace(world, folder=copied)
    assert alone.ledger != looked_at.ledger
    for here, most in ((looked_at, 45), (alone, None)):
        monkeypatch.setattr(idle_search, "FEWEST", 8 if most else 1000)
        for _ in range(2):  # the second run finds the line, and the warnings, of the first
            statements.clear()
            report = here.run(execute_with=no_spark)
            assert not report.failures
            assert [run.status for run in report.runs] == [TableRunStatus.IDLE] * len(names)
            assert len(statements) < most if most else len(statements) > 4 * len(names), statements
            told = report.warnings, report.unchanged
        here_told = [[text for text in part if "clock" not in text] for part in told]
        if most:
            expected = here_told
        else:
            assert here_told == expected
    rows = ledger_rows(looked_at)
    assert len(rows) == 3 * len(names)
    assert rows == ledger_rows(alone)
    with closing(open_store(looked_at.ledger)) as store:
        assert all(store.table_state("shop", world.name(name)).progress.fresh_at is not None for name in names)


def test_a_row_that_is_committed_between_bound_and_count_is_not_claimed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    create(world, 10)
    ask, url = WaitingSession.ask, world.server.url(world.database)
    engine = sa.create_engine(url, poolclass=NullPool)
    with engine.connect() as writer:
        writer.exec_driver_sql("INSERT INTO t03 (id, v) VALUES (3, 3)")
        committed = threading.Event()

        def commit_first(session: WaitingSession) -> None:
            if not committed.is_set():
                writer.commit()
                committed.set()
            ask(session)

        monkeypatch.setattr(WaitingSession, "ask", commit_first)
        report = world.run(execute_with=no_spark)
        assert committed.is_set()
    assert not report.failures
    [(stamp,)] = world.sql("SELECT updated_at FROM t03 WHERE id = 3")
    fresh = world.state("t03").progress.fresh_at
    assert fresh is not None
    assert fresh <= stamp.replace(tzinfo=UTC), "the bound was taken while the row was not yet committed, and lies below it"
    jobs: list[JobSpec] = []

    def noted(job: JobSpec) -> StepResult:
        jobs.append(job)
        return no_spark(job)

    world.run(execute_with=noted)
    assert [str(operation.table) for job in jobs for operation in job.operations] == [str(world.name("t03"))], "the next run reads it"


def test_only_tables_with_news_are_planned_alone_and_one_that_fails_holds_no_other(world: World) -> None:
    names = create(world, 12)
    world.sql("INSERT INTO t01 (id, v, updated_at) VALUES (3, 3, '2020-06-02')", "ALTER TABLE t02 RENAME COLUMN updated_at TO changed_at")
    with closing(open_store(world.ledger)) as store:
        store.acquire("shop", world.name("t04"), "somebody", ttl=timedelta(minutes=5), live=True)
    jobs: list[JobSpec] = []

    def noted(job: JobSpec) -> StepResult:
        jobs.append(job)
        return no_spark(job)

    report = world.run(execute_with=noted)
    assert [[operation.table.name for operation in job.operations] for job in jobs] == [["t01"]], "in one job"
    failed = {failure.config.table.name: failure.error.what for failure in report.failures}
    assert sorted(failed) == ["t01", "t02", "t04"]
    assert "updated_at" in failed["t02"]
    assert "is held by" in failed["t04"]
    assert "no Spark here" in failed["t01"]
    idle = [run.table.name for run in report.runs if run.status is TableRunStatus.IDLE]
    assert idle == [name for name in names if name not in failed]


def test_another_table_under_the_name_of_an_idle_one_is_noticed_by_the_look(world: World) -> None:
    create(world, 10)
    source = world._connect(world.pipeline.source)
    identity = source.traits(world.name("t03")).identity
    source.close()
    with closing(open_store(world.ledger)) as store:
        lease = store.acquire("shop", world.name("t03"), "test", ttl=timedelta(minutes=1), live=True)
        before = replace(identity, made="1" if identity.exact else "2020-01-01 00:00:00", number="")
        store.replace_state(lease, replace(store.table_state("shop", world.name("t03")), identity=before))
        store.release(lease)
    report = world.run(execute_with=no_spark)
    refused = [(failure.config.table.name, type(failure.error)) for failure in report.failures]
    warned = [text for text in report.warnings if "made anew or rebuilt" in text]
    if isinstance(world.server, PostgresServer):
        assert (refused, warned) == ([("t03", TableReplacedError)], [])
    else:
        assert (refused, [text.partition(": ")[0] for text in warned]) == ([], [str(world.name("t03"))])


def test_a_table_that_somebody_had_during_the_look_is_planned_again_under_its_lease(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    create(world, 9)
    settle = SqlStateStore.settle_idle

    def after_another_run(store: SqlStateStore, pipeline: str, idle: Any) -> Any:
        store.release(store.acquire("shop", world.name("t05"), "another", ttl=timedelta(minutes=1), live=True))
        settled = settle(store, pipeline, idle)
        assert len(settled) == 8
        return settled

    monkeypatch.setattr(SqlStateStore, "settle_idle", after_another_run)
    before = datetime.now(UTC) - timedelta(minutes=5)
    report = world.run(execute_with=no_spark)
    assert not report.failures
    assert len(report.runs) == 9
    with closing(open_store(world.ledger)) as store:
        tokens = {table.state.table.name: table.token for table in store.free_tables("shop", [run.table for run in report.runs])}
        assert tokens.pop("t05") == 3, "of the test, of the other run, and of the plan alone"
        assert set(tokens.values()) == {2}
        fresh = [store.table_state("shop", run.table).progress.fresh_at for run in report.runs]
        assert all(instant is not None and instant > before for instant in fresh)


def test_a_group_of_airflow_is_planned_by_one_look_and_what_has_news_is_frozen(world: World, statements: list[str]) -> None:
    names = create(world, 10)
    world.sql("INSERT INTO t07 (id, v, updated_at) VALUES (3, 3, '2020-06-02')")
    context, source = world.context(), world._connect(world.pipeline.source)
    with closing(source), closing(cast("SqlStateStore", context.store)):
        asked = request()
        configs = tuple(reversed(discover_all(context, source, asked).tables))
        statements.clear()
        group = idle_search.plan_tables(context, source, asked, configs)
        assert len(statements) < 7 * len(names)
        assert [plan.table for plan in group.plans] == [config.table for config in configs], "in the order of the group"
        assert [operation.table.name for operation in group.operations] == ["t07"]
        assert [operation.table.name for operation in context.store.open_operations("shop", world.name("t07"))] == ["t07"]
        lines = {run.table.name: run for run in context.store.table_runs("shop", run_id=asked.run_id)}
        assert {name: lines[name].status for name in names} == dict.fromkeys(names, TableRunStatus.IDLE) | {"t07": TableRunStatus.PLANNED}
        statements.clear()
        again = idle_search.plan_tables(context, source, asked, configs)  # another try of the same task
        assert [operation.operation_id for operation in again.operations] == [operation.operation_id for operation in group.operations]
