"""Changed keys with a column that holds the key from before: the old row goes with the statement that brings the new one."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.steps.runs.run import RunReport
from tests.world import World

MARIADB = (
    "CREATE TABLE items (id INT PRIMARY KEY, old_id INT, name VARCHAR(20),"
    " updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at))",
)
POSTGRES = (
    "CREATE TABLE items (id int PRIMARY KEY, old_id int, name text, updated_at timestamp(6) NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'))",
    "CREATE INDEX ON items (updated_at)",
)


def done(report: RunReport) -> tuple[int, int, int]:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    [run] = report.runs
    return run.result.counts.inserted, run.result.counts.updated, run.result.counts.deleted


@pytest.mark.parametrize("kind", ["mariadb", pytest.param("postgres", marks=pytest.mark.long)])
def test_an_old_key_goes_unless_another_row_has_it_now(
    kind: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    server: MariaDBServer | PostgresServer = request.getfixturevalue(kind)
    world = World(server, tmp_path, spark)
    world.configure(cursor=("updated_at",), previous_key=("old_id",))
    postgres = isinstance(server, PostgresServer)
    world.sql(*(POSTGRES if postgres else MARIADB))
    world.sql("INSERT INTO items (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    assert done(world.run()) == (4, 0, 0)
    touch = ", updated_at = now() AT TIME ZONE 'UTC'" if postgres else ""
    world.sql(
        f"UPDATE items SET id = 11, old_id = 1{touch} WHERE id = 1",
        f"UPDATE items SET id = 12, old_id = 2{touch} WHERE id = 2",
        "INSERT INTO items (id, name, updated_at) VALUES (2, 'new', '2020-01-01')",  # used again, by a row that no window brings
    )
    assert done(world.run()) == (2, 0, 1)
    assert world.lake("items", "id, name") == [(2, "b"), (3, "c"), (4, "d"), (11, "a"), (12, "b")]
    # The column keeps its value for ever: the key it names is used again, in the same window as another change of the row.
    world.sql("INSERT INTO items (id, name) VALUES (1, 'again')", f"UPDATE items SET name = 'A'{touch} WHERE id = 11")
    assert done(world.run()) == (1, 1, 0)
    # Two rows exchange their keys.
    world.sql(
        f"UPDATE items SET id = 99{touch} WHERE id = 3",
        f"UPDATE items SET id = 3, old_id = 4{touch} WHERE id = 4",
        f"UPDATE items SET id = 4, old_id = 3{touch} WHERE id = 99",
    )
    assert done(world.run()) == (0, 2, 0)
    assert world.lake("items", "id, name") == [(1, "again"), (2, "b"), (3, "d"), (4, "c"), (11, "A"), (12, "b")]
    # With soft deletes the row under the old key stays, marked.
    world.configure(deletes=Deletes.SOFT)
    world.sql(f"UPDATE items SET id = 5, old_id = 4{touch} WHERE id = 4")
    assert done(world.run()) == (1, 0, 1)
    assert [row for row in world.lake("items", "id, name, _deleted") if row[0] in (4, 5)] == [(4, "c", True), (5, "c", False)]
