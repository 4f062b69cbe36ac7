"""Bounded runs of the machine that looks for silent errors (tests/torture): random tables, policies and workloads, at fixed seeds."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from tests.integration.test_postgres_bounds import wait_until
from tests.torture.beside import beside
from tests.torture.generate import generate
from tests.torture.inside import inside
from tests.torture.outcome import Outcome
from tests.torture.play import Player
from tests.torture.script import script_of
from tests.torture.source import Session

NEVER = ("kill", "archiver kill", "binlog reset")
"""What the other tests of the process would not survive."""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


def play(server: DatabaseServer, method: str, seed: int, spark: SparkSession, folder: Path) -> Outcome:
    case = generate(seed, server.name.lower(), method, never=NEVER)
    with inside(spark) as driver:
        outcome = Player(server, driver, folder).play(case)
    assert not outcome.failed, f"{outcome.differences} {outcome.broken}\n{script_of(case)}"
    return outcome


@pytest.mark.local_store
@pytest.mark.parametrize(
    ("server", "method", "seed"), [("postgres", "query", 26), ("mariadb", "log", 133), ("mysql", "query", 278)], indirect=["server"]
)
def test_random_tables_come_out_equal_and_what_is_read_again_is_equal_at_once(
    server: DatabaseServer, method: str, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    outcome = play(server, method, seed, spark, tmp_path)
    assert not outcome.refusals  # these seeds are ones of which nothing is refused, so that all of it is compared
    assert outcome.rereads
    assert all(text.endswith("read") for text in outcome.rereads)


@pytest.mark.long
@pytest.mark.local_store
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize(
    ("server", "method"),
    [("postgres", "query"), ("mariadb", "query"), ("mysql", "query"), ("mariadb", "log"), ("mysql", "log")],
    indirect=["server"],
)
def test_more_random_tables_come_out_equal_or_are_refused_by_name(
    server: DatabaseServer, method: str, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    play(server, method, seed, spark, tmp_path)


def test_a_type_changes_under_a_reader_of_rows_and_under_nobody_else(postgres: PostgresServer) -> None:
    postgres.create_database("trapped")
    postgres.execute("CREATE TABLE t (turned double precision)", "INSERT INTO t VALUES (2)", database="trapped")
    trap = [f"ALTER TABLE t ALTER turned TYPE {kind}" for kind in ("bigint", "double precision")]

    held = "SELECT 1 FROM pg_locks WHERE relation = 't'::regclass AND mode = 'AccessExclusiveLock' AND granted"

    def opened() -> Session:
        return Session("postgres", postgres, "trapped")

    def kind(session: Session) -> str:
        return str(session.rows("SELECT pg_typeof(turned) FROM t")[0][0])

    with opened() as session, beside(opened, (), trap, 0.1):
        for _ in range(20):  # a plan, which counts and looks at the catalog
            assert kind(session) == "double precision"
        wait_until(lambda: bool(session.rows(held)))  # as it is long before a reader comes
        session.rows("SELECT turned FROM t LIMIT 0")
        assert kind(session) == "bigint"
    with opened() as session:
        assert kind(session) == "double precision"
