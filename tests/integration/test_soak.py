"""Eight writers and increments beside each other for some seconds; `python -m tests.soak` does the same for minutes."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.dev.servers import MariaDBServer
from tests.soak import SoakWorld, increments_until_a_loss, soak


@pytest.mark.parametrize(("server", "seconds"), [pytest.param("mariadb", 14, marks=pytest.mark.long), ("mysql", 10)])
def test_after_a_soak_increments_have_lost_nothing_and_reconcile_makes_the_lake_equal(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, server: str, seconds: float
) -> None:
    result = soak(SoakWorld(request.getfixturevalue(server), tmp_path, spark), seconds=seconds, longest=4.0)
    assert result.failures == ()
    assert {table: (one.lost, one.doubled, one.unexplained) for table, one in result.increments.items()} == dict.fromkeys(
        result.increments, (0, 0, 0)
    )
    assert all(one.is_equal for one in result.reconciled.values()), "\n".join(result.lines())
    assert result.held > 0
    for kind in ("short commit", "long commit", "change_key", "delete", "replace"):
        assert result.writers[kind] > 0, kind


@pytest.mark.long
@pytest.mark.timeout(300)
def test_with_the_clock_as_the_bound_the_same_writers_lose_rows(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    assert increments_until_a_loss(SoakWorld(mariadb, tmp_path, spark, unsafe=True), seconds=120, longest=4.0) > 0
