"""An auto-increment cursor under inserts that overlap for ever: plans go on from readings that earlier ones left in the ledger."""

from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pymysql
import pytest

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.sources.base import open_source
from cdc_ops.sources.bounds.counter import METHOD_COUNTER_KEPT
from cdc_ops.state.sql import open_store
from cdc_ops.steps.discovery import discover
from cdc_ops.steps.plan import TablePlan, freeze_table
from tests.operations import changed
from tests.world import World, request

START = CursorValue(parts=("4",))
MOST_TURNS = 30


@pytest.fixture
def world(mariadb: MariaDBServer, tmp_path: Path) -> World:
    settings = TableSettings.of(cursor=("id",), lookback=timedelta(0))
    made = World(server=mariadb, folder=tmp_path, spark=cast(Any, None), settings=settings)
    made.sql("CREATE TABLE counted (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT)", "INSERT INTO counted (v) VALUES (1), (2), (3)")
    with closing(open_store(made.ledger)) as store:
        fresh = TableState(pipeline="shop", table=made.name("counted"))
        lease = store.acquire("shop", fresh.table, "before", ttl=timedelta(minutes=1), live=True)
        store.replace_state(lease, changed(fresh, generation=1, watermark=START, scanned_to=START))
        store.release(lease)
    return made


def plan(world: World) -> TablePlan:
    """One plan, by a process of its own."""
    asked = request()
    context = world.context()
    with closing(context.store), closing(open_source(world.pipeline.source, world.url)) as source:
        [config] = discover(world.pipeline, source, asked)
        return freeze_table(context, source, asked, config)


@pytest.mark.local_store
def test_plans_follow_inserts_that_overlap_for_ever_by_what_the_ledger_keeps(world: World) -> None:
    server, numbers, idle = world.server, list[int](), 0
    with ExitStack() as stack:

        def begin() -> Any:
            one = pymysql.connect(host=server.host, port=server.port, user=server.user, password=server.password, database=world.database)
            stack.enter_context(closing(one))
            with one.cursor() as cursor:
                cursor.execute("INSERT INTO counted (v) VALUES (0)")
                numbers.append(cursor.lastrowid)
            return one

        writer, planned = begin(), None
        while planned is None or not planned.operations:
            assert idle < MOST_TURNS, "the bound does not follow"
            following = begin()  # from before the other ends: one is always open
            writer.commit()
            writer, planned = following, plan(world)
            idle += not planned.operations
            if not planned.operations:
                kept = world.state("counted").readings
                assert kept is not None
                assert kept.kept[-1].counter == numbers[-2] + 1
    [operation] = planned.operations
    assert idle  # nothing but a reading of an earlier plan can have proven the bound
    assert operation.read.bound_method == METHOD_COUNTER_KEPT
    assert operation.after.watermark is not None
    assert operation.window == Window(low=START, high=operation.after.watermark)
    assert int(START.parts[0]) < int(operation.after.watermark.parts[0]) <= numbers[-1]
