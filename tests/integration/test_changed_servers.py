"""Another server behind the address of the source, on real servers: increments are refused until a comparison or a person settles it.

No Spark: a table counts as copied up to what its plan would have committed.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from cdc_ops.core.operation.reads import CompareRead
from cdc_ops.core.operation.run_request import Accepts, AskedComparison, RunKind
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, PostgresServer
from cdc_ops.errors import SourceServerChangedError
from cdc_ops.sources.base import open_source
from cdc_ops.steps.plan import TablePlan
from tests.integration.test_table_identity import OF_MARIADB, WATERMARK, commit, copied, keep, planned
from tests.world import World


@pytest.fixture(scope="module")
def promoted(server_folder: Path) -> Iterator[MariaDBServer]:
    """The server that answers after a failover."""
    with MariaDBServer(server_folder / "promoted", options=("--server-id=2", "--innodb-buffer-pool-size=32M")) as server:
        yield server


def fail_over(world: World, to: DatabaseServer) -> None:
    """Lets another server answer, with the same table and rows."""
    to.create_database(world.database)
    to.execute(
        "DROP TABLE IF EXISTS t", OF_MARIADB, "INSERT INTO t VALUES (1, 1, '2020-01-01'), (2, 2, '2020-07-01')", database=world.database
    )
    world.server = to
    world.url = ConnectionUrl.from_parts("mysql", to.host, to.port, to.user, to.password, world.database).render()


def told(plan: TablePlan) -> bool:
    return any("another server answers" in text for text in plan.warnings)


def test_after_a_failover_increments_are_refused_until_all_rows_are_compared_or_somebody_accepts_the_server(
    mariadb: MariaDBServer, promoted: MariaDBServer, tmp_path: Path
) -> None:
    world = copied(mariadb, tmp_path, OF_MARIADB)
    assert planned(world).operations == (), "an increment that was committed on the same server is followed by others"
    fail_over(world, promoted)
    world.sql("INSERT INTO t VALUES (3, 3, '2020-05-01'), (4, 4, NOW(6))")  # 3 was stamped by a clock that was behind
    with pytest.raises(SourceServerChangedError, match=r"it is server_id 2; it was server_id 1\."):
        planned(world)
    before = planned(world, RunKind.RECONCILE).state
    keys = planned(world, RunKind.RECONCILE, compare=AskedComparison(strength=CompareLevel.KEYS))
    assert told(keys)
    commit(world, keys)
    with pytest.raises(SourceServerChangedError):
        planned(world)
    compared = planned(world, RunKind.RECONCILE)
    [operation] = compared.operations
    assert cast(CompareRead, operation.read).compare.strength is CompareLevel.ROWS, "nobody has to ask for it"
    commit(world, compared)
    assert planned(world).operations, "increments go on from the new server"
    keep(world, before)
    commit(world, planned(world, accepts=Accepts(server=True)))
    planned(world)


def test_what_is_compared_before_the_new_servers_clock_has_reached_the_watermark_settles_nothing(
    mariadb: MariaDBServer, promoted: MariaDBServer, tmp_path: Path
) -> None:
    world = copied(mariadb, tmp_path, OF_MARIADB)
    fail_over(world, promoted)
    state = planned(world, RunKind.RECONCILE).state
    ahead = replace(WATERMARK, parts=("2999-01-01 00:00:00.000000",))
    keep(world, replace(state, progress=replace(state.progress, watermark=ahead)))
    compared = planned(world, RunKind.RECONCILE)
    assert told(compared), "rows can still be stamped below the watermark after they were compared"
    commit(world, compared)
    for accepted in (False, True):
        with pytest.raises(SourceServerChangedError):
            planned(world, accepts=Accepts(server=accepted))


def origin(server: PostgresServer, login: str = "") -> str:
    url = ConnectionUrl.from_parts("postgresql", server.host, server.port, login or server.user, server.password, "postgres").render()
    with closing(open_source(SourceConfig(kind=SourceKind.POSTGRES, connection="c"), url)) as source:
        return source.origin()


def test_a_standby_of_postgres_is_its_primary_until_it_is_promoted(server_folder: Path) -> None:
    server = PostgresServer(server_folder / "standby", options=("-c", "shared_buffers=16MB"))
    with server:
        primary = origin(server)
        server.execute(f"CREATE ROLE reader LOGIN PASSWORD '{server.password}'")
        assert origin(server, "reader") == primary, "it takes no grant"
        server.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        assert origin(server, "reader") == "", "it is not known where it may not be seen"
        server.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")
    (server.data / "standby.signal").touch()
    with server:
        assert origin(server) == primary
        server.execute("SELECT pg_promote()")
        number, _, timeline = origin(server).partition("/")
        assert (number, int(timeline)) == (primary.partition("/")[0], int(primary.partition("/")[2]) + 1)
    with server:
        assert origin(server) == f"{number}/{timeline}", "a restart is no change"
