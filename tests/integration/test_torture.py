"""Bounded runs of the machine that looks for silent errors (tests/torture): random tables, policies and workloads, at fixed seeds."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from tests.integration.test_postgres_bounds import wait_until
from tests.torture.beside import beside
from tests.torture.generate import generate
from tests.torture.inside import inside
from tests.torture.model import Case, Column, Delete, End, Finish, Insert, Raw, Table, Transaction, Update
from tests.torture.outcome import Outcome
from tests.torture.play import Player, _Game
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


@pytest.mark.parametrize("server", ["mysql", "mariadb"], indirect=True)
def test_keys_that_come_and_go_between_two_looks_are_known_because_the_log_has_them(server: DatabaseServer, tmp_path: Path) -> None:
    table = Table(name="t", columns=(Column(name="id", kind="int", null=False),), keys=("id",))

    def row(key: int) -> Insert:
        return Insert(table="t", values=(("id", str(key)),))

    def gone(key: int) -> Delete:
        return Delete(table="t", key=(("id", str(key)),))

    kept = (
        row(2),
        Raw(sql="SAVEPOINT sp"),
        row(3),
        Raw(sql="ROLLBACK TO SAVEPOINT sp"),
        Update(table="t", key=(("id", "2"),), values=(("id", "4"),)),
    )
    steps = (
        Transaction(changes=(row(1), gone(1))),
        Transaction(changes=(*kept, gone(4)), end=End.COMMIT),
        Transaction(changes=(row(5), gone(5)), end=End.ROLLBACK),
        Transaction(changes=(row(6), gone(6)), end=End.PREPARED),
        Transaction(changes=(row(7),), end=End.PREPARED_ROLLBACK),
        Transaction(changes=(row(8),), end=End.OPEN, name="open"),
        Transaction(changes=(row(9), gone(9))),
        Finish(name="open", end=End.ROLLBACK),
    )
    case = Case(seed=0, server=server.name.lower(), method="log", tables=(table,), steps=steps)
    database = "torture_looks"
    server.create_database(database)
    game = _Game(Player(server, None, tmp_path), case, database, tmp_path)  # type: ignore[arg-type]  # nothing runs
    server.execute("CREATE TABLE t (id int PRIMARY KEY)", database=database)
    for step in steps:
        game._step(step)
    assert not game.outcome.refused_statements
    game._look()
    assert sorted(game.seen["t"]) == [(1,), (2,), (4,), (6,), (9,)]


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
