"""A ledger with a table in every state that the status page knows."""

from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import create_engine

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.json_codec import dumps
from cdc_ops.core.maintenance import TableStats, Upkeep
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.phases import PhaseSeconds, RunPhase
from cdc_ops.core.run_cost import CostBasis, RunCost, figure
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import SourceAccessError
from cdc_ops.state.db import runs as run_lines
from cdc_ops.state.db import table_rows
from cdc_ops.state.db.schema import runs, tables
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import TableRun, TableRunStatus
from tests.operations import made

TTL = timedelta(minutes=5)
ERROR = SourceAccessError(
    "The source refuses the login of 'cdc' at db.shop.example:3306.",
    why="Access denied for user 'cdc'@'10.0.0.7' (using password: YES) <b>1045</b>",
    data="Nothing was read; the watermark stays.",
    next="Correct the connection 'shop_db' in Airflow.",
)


def position(moment: datetime) -> CursorValue:
    return CursorValue(parts=(moment.strftime("%Y-%m-%d %H:%M:%S.%f"),))


PHASES = tuple(
    PhaseSeconds(phase=phase, seconds=seconds)
    for phase, seconds in (
        (RunPhase.PLAN, 0.4),
        (RunPhase.SPARK_START, 9),
        (RunPhase.LANDING, 7.25),
        (RunPhase.MERGE, 24),
        (RunPhase.COMMIT, 0.2),
    )
)

COST = RunCost(
    rows=figure(900, CostBasis.COUNTED), written_bytes=figure(2048, CostBasis.STATISTICS), seconds=figure(30, CostBasis.RUNS), connections=4
)


class Filler:
    """Writes tables as the steps would leave them."""

    def __init__(self, store: SqlStateStore) -> None:
        self.store, self.now = store, store.now()

    def table(
        self, pipeline: str, name: str, *, behind: timedelta | None = None, version: int = 0, bytes: int = 0, snapshot: bool = False
    ) -> TableName:
        table = TableName(schema="shop", name=name)
        lease = self.store.acquire(pipeline, table, "test", ttl=TTL, live=True)
        if behind is not None or snapshot:
            fresh = self.now - behind if behind is not None else None
            state = made(
                TableState,
                pipeline=pipeline,
                table=table,
                generation=1,
                op_seq=version,
                committed_op_seq=version,
                operation_id=f"op-{version}",
                watermark=position(fresh) if fresh else None,
                scanned_to=position(fresh) if fresh else None,
                snapshot=SnapshotProgress(bound=position(self.now), done=3, total=12, chunks=("",) * 12) if snapshot else None,
                delta_version=version,
                fresh_at=fresh,
            )
            self.store.replace_state(lease, state)
            stats = TableStats(
                delta_version=version, files=4 + version % 30, size_bytes=bytes, upkeep=Upkeep(commits_since_vacuum=version % 40)
            )
            self.store.put_stats(lease, pipeline, table, stats)
        self.store.release(lease)
        return table

    def run(
        self,
        pipeline: str,
        table: TableName,
        status: TableRunStatus,
        minutes: float,
        *,
        kind: OperationKind = OperationKind.INCREMENT,
        rows: int = 0,
        message: str = "",
        trigger: str = "scheduled",
        alert: str = "",
        advice: str = "",
        held_by: str = "",
        schema_changes: tuple[str, ...] = (),
        read: float = 10,
    ) -> None:
        started = self.now - timedelta(minutes=minutes)
        done = status in (TableRunStatus.COMMITTED, TableRunStatus.IDLE, TableRunStatus.FAILED)
        self.store.record(
            made(
                TableRun,
                pipeline=pipeline,
                table=table,
                run_id=f"{trigger}__{started.isoformat()}",
                trigger=trigger,
                kind=kind,
                status=status,
                started_at=started,
                finished_at=started + timedelta(seconds=41) if done else None,
                window=Window(low=position(started - timedelta(minutes=read)), high=position(started)) if rows else None,
                delta_version=int(1000 - minutes) if status is TableRunStatus.COMMITTED else None,
                counts=Counts(read=rows, inserted=rows // 3, updated=rows - rows // 3 - rows // 20, deleted=rows // 20),
                fresh_at=started if status in (TableRunStatus.COMMITTED, TableRunStatus.IDLE) else None,
                files=20 + int(minutes) // 10 % 12 if status is TableRunStatus.COMMITTED else None,
                held_by=held_by,
                schema_changes=schema_changes,
                message=message,
                alert=alert,
                advice=advice,
                phases=PHASES if rows else (),
                cost=COST if rows else None,
            )
        )


ALERT = "The watermark has been held back for 2:05:00 by transaction 7 of app@10.0.0.1 <idle>"
HOLDER = "transaction 7 of app@10.0.0.1 <idle>"
CHANGE = "column 'note' was added at the source; the Delta table has it from this run on"
ADVICE = "3 late rows were found below the watermark and merged"


def fill_ledger(path: Path) -> str:
    """Fills a SQLite ledger and returns its URL."""
    url = f"sqlite:///{path}"
    with open_store(url) as store:
        filler = Filler(store)
        orders = filler.table("shop", "orders", behind=timedelta(minutes=4), version=1284, bytes=9_812_334_001)
        for index in range(60):
            if index % 4 == 3:
                filler.run("shop", orders, TableRunStatus.IDLE, 10 * index + 4, message="no row in the window")
            else:
                changed = (CHANGE,) if index == 20 else ()
                rows = (index * 7919) % 4000 + 12
                filler.run(
                    "shop",
                    orders,
                    TableRunStatus.COMMITTED,
                    10 * index + 4,
                    rows=rows,
                    schema_changes=changed,
                    read=20 if index % 4 == 2 else 10,
                )
        filler.run("shop", orders, TableRunStatus.FAILED, 47, message=str(ERROR))
        filler.run("shop", orders, TableRunStatus.IDLE, 95, kind=OperationKind.RECONCILE, trigger="manual", message="equal")
        customers = filler.table("shop", "customers", behind=timedelta(minutes=3), version=311, bytes=48_201_114)
        filler.run("shop", customers, TableRunStatus.IDLE, 3, message="no row in the window")
        items = filler.table("shop", "order_items", behind=timedelta(minutes=31), version=1290, bytes=31_812_334_001)
        filler.run("shop", items, TableRunStatus.COMMITTED, 31, rows=128_204, alert=ALERT, advice=ADVICE, held_by=HOLDER)
        payments = filler.table("shop", "payments", behind=timedelta(minutes=24), version=902, bytes=2_812_334)
        filler.run("shop", payments, TableRunStatus.FAILED, 4, message=str(ERROR))
        stock = filler.table("shop", "stock_movements", behind=timedelta(minutes=14), version=77, bytes=812_334_123)
        filler.run("shop", stock, TableRunStatus.LANDED, 1, kind=OperationKind.BACKFILL, rows=90_441, trigger="backfill")
        store.acquire("shop", stock, "airflow:cdc_shop:backfill__2026-11-01T00:00:00+00:00", ttl=TTL, live=False, purpose="backfill")
        events = filler.table("clickstream", "events", version=3, bytes=112_812_334_123, snapshot=True)
        filler.run("clickstream", events, TableRunStatus.MERGED, 18, kind=OperationKind.SNAPSHOT_CHUNK, rows=20_000_000, trigger="manual")
        filler.table("clickstream", "sessions")
        carts = filler.table("clickstream", "carts", behind=timedelta(hours=7, minutes=12), version=91, bytes=12_812_334)
        filler.run("clickstream", carts, TableRunStatus.COMMITTED, 432, kind=OperationKind.RESYNC, rows=12, trigger="manual")
    return url


def fill_many(url: str, pipeline: str, count: int) -> None:
    """Adds tables with one run each to a ledger, in two statements: a run every 15 minutes, some failed, some late."""
    with open_store(url) as store:
        now = store.now()
    states, lines = [], []
    for number in range(count):
        table, behind = TableName(schema="big", name=f"table_{number:04}"), timedelta(minutes=number * 37 % 50)
        key = table_rows.key(pipeline, table)
        fresh = now - behind
        state = made(
            TableState, pipeline=pipeline, table=table, generation=1, op_seq=3, watermark=position(fresh), delta_version=3, fresh_at=fresh
        )
        stats = TableStats(delta_version=3, files=number % 40, size_bytes=number * 7919)
        states.append({**key, "state": dumps(state), "stats": dumps(stats), "token": 1, "holder": "", "purpose": "", "expires_at": None})
        run = made(
            TableRun,
            pipeline=pipeline,
            table=table,
            run_id="scheduled__1",
            trigger="scheduled",
            kind=OperationKind.INCREMENT,
            status=TableRunStatus.FAILED if number % 97 == 0 else TableRunStatus.COMMITTED,
            started_at=fresh,
            finished_at=fresh + timedelta(seconds=41),
            counts=Counts(read=number, inserted=number),
            message="The source does not answer." if number % 97 == 0 else "",
            phases=PHASES,
            cost=COST,
        )
        lines.append(run_lines.line(run))
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(tables.insert(), states)
        connection.execute(runs.insert(), lines)
    engine.dispose()
