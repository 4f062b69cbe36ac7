"""Another table under the same name, on real servers: refused where the catalog knows it for sure, told where it can only suspect it.

No Spark: a table counts as copied up to what its plan would have committed.
"""

import time
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.protocol.table_state import TableState, committed
from cdc_ops.core.operation.run_request import AskedComparison, ResyncMode, RunKind
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, PostgresServer
from cdc_ops.errors import TableReplacedError
from cdc_ops.state.sql import open_store
from cdc_ops.steps.discovery import discover_all
from cdc_ops.steps.plan import TablePlan, plan_table
from tests.world import World, request

WATERMARK = CursorValue(parts=("2020-06-01 00:00:00.000000",))
OF_POSTGRES = "CREATE TABLE t (id bigint PRIMARY KEY, v int, updated_at timestamp(6) NOT NULL DEFAULT localtimestamp)"
OF_MARIADB = "CREATE TABLE t (id BIGINT PRIMARY KEY, v INT, updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6))"
STAYS_THE_SAME = (
    "ALTER TABLE t ADD COLUMN w int",
    "ALTER TABLE t ALTER COLUMN v TYPE bigint",
    "TRUNCATE t",
    "VACUUM FULL t",
    "CLUSTER t USING t_pkey",
)


def copied(server: DatabaseServer, folder: Path, create: str) -> World:
    """A table of which an increment has just been committed."""
    world = World(server, folder, cast(Any, None))
    world.configure(cursor=("updated_at",), lookback=timedelta(seconds=30))
    world.sql(create, "INSERT INTO t VALUES (1, 1, '2020-01-01'), (2, 2, '2020-07-01')")
    state = TableState(pipeline="shop", table=world.name("t"), generation=1, progress=TableProgress(watermark=WATERMARK))
    keep(world, state)
    commit(world, planned(world))
    return world


def keep(world: World, state: TableState) -> None:
    with closing(open_store(world.ledger)) as store:
        lease = store.acquire("shop", world.name("t"), "test", ttl=timedelta(minutes=1), live=True)
        store.replace_state(lease, state)
        store.release(lease)


def commit(world: World, plan: TablePlan) -> None:
    """Counts a plan as committed; the lake has no table, and so the numbers stay as they were."""
    [operation] = plan.operations
    after = committed(plan.state, operation, 1)
    numbers = {"op_seq": 0, "committed_op_seq": 0, "operation_id": "", "delta_version": None}
    keep(world, replace(after, **cast(Any, numbers)))


def planned(world: World, kind: RunKind = RunKind.INCREMENT, **asked: Any) -> TablePlan:
    context, source = world.context(), world._connect(world.pipeline.source)
    try:
        wanted = replace(request(), kind=kind, **asked)
        [config] = [one for one in discover_all(context, source, wanted).tables if one.table.name == "t"]
        return plan_table(context, source, wanted, config)
    finally:
        source.close()
        context.store.close()


def told(plan: TablePlan) -> list[str]:
    return [text for text in plan.warnings if "made anew or rebuilt" in text]


def test_another_table_under_the_name_is_refused_until_a_full_resync_or_a_comparison_of_all_rows(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    world = copied(postgres, tmp_path, OF_POSTGRES)
    for statement in STAYS_THE_SAME:
        world.sql(statement)
    planned(world)
    world.sql("ALTER TABLE t RENAME TO away", OF_POSTGRES, "INSERT INTO t VALUES (7, 7, '2020-01-01')")
    with pytest.raises(TableReplacedError, match=r"public\.t is another table than the one that was copied"):
        planned(world)
    for kind, asked, settles in (
        (RunKind.RECONCILE, {}, False),  # by keys alone, which another table may share
        (RunKind.RECONCILE, {"compare": AskedComparison(strength=CompareLevel.ROWS)}, True),
        (RunKind.RESYNC, {"mode": ResyncMode.FULL}, True),
    ):
        before = planned(world, RunKind.RECONCILE).state
        commit(world, planned(world, kind, **asked))
        if settles:
            assert planned(world).method
        else:
            with pytest.raises(TableReplacedError, match="another table"):
                planned(world)
        keep(world, before)


def test_a_table_that_was_made_anew_or_rebuilt_is_told_until_all_of_its_rows_were_read(mariadb: MariaDBServer, tmp_path: Path) -> None:
    world = copied(mariadb, tmp_path, OF_MARIADB)
    assert told(planned(world)) == []
    time.sleep(1.1)  # the catalog's times are of whole seconds
    world.sql("INSERT INTO t (id, v) VALUES (3, 3)", "ALTER TABLE t ADD COLUMN w INT", "ALTER TABLE t ADD INDEX (updated_at)")
    assert told(planned(world)) == [], "what is altered in place is the same table"
    world.sql("RENAME TABLE t TO away", OF_MARIADB, "INSERT INTO t (id, v) VALUES (8, 8)")
    [text] = told(planned(world))
    assert "rows below the watermark" in text
    commit(world, planned(world))
    assert told(planned(world)) == [text], "an increment settles nothing"
    commit(world, planned(world, RunKind.RECONCILE, compare=AskedComparison(strength=CompareLevel.ROWS)))
    assert told(planned(world)) == []
