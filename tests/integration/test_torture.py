"""Bounded runs of the machine that looks for silent errors (tests/torture): random tables, policies and workloads, at fixed seeds."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.dev.servers import DatabaseServer
from tests.torture.generate import generate
from tests.torture.inside import inside
from tests.torture.play import Player
from tests.torture.script import script_of

NEVER = ("kill", "binlog reset")
"""What the other tests of the process would not survive."""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


def play(server: DatabaseServer, method: str, seed: int, spark: SparkSession, folder: Path) -> None:
    case = generate(seed, server.name.lower(), method, never=NEVER)
    with inside(spark) as driver:
        outcome = Player(server, driver, folder).play(case)
    assert not outcome.failed, f"{outcome.differences} {outcome.broken}\n{script_of(case)}"


@pytest.mark.local_store
@pytest.mark.parametrize(
    ("server", "method", "seed"), [("postgres", "query", 6), ("mariadb", "log", 7), ("mysql", "query", 1)], indirect=["server"]
)
def test_random_tables_come_out_equal_or_are_refused_by_name(
    server: DatabaseServer, method: str, seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    play(server, method, seed, spark, tmp_path)


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
