"""What one of a thing costs on this machine, measured with the real code: what `benchmarks.scale` multiplies."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks import _rows, group, listing
from benchmarks._harness import BENCH, CONNECTION, DATABASE, ROOT, Bench, Measured, ensure_rows, run
from cdc_ops.cli.session import chosen_pipelines, new_request
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.run_request import RunKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from cdc_ops.sources.base import open_source
from cdc_ops.state.base import StateStore
from cdc_ops.state.sql import open_store
from cdc_ops.state.table_run import RunTiming, TableRun, TableRunStatus
from cdc_ops.steps.context import Context
from cdc_ops.steps.discovery import discover_all
from cdc_ops.steps.runs.table_groups import plan_group

GROUP = 20
ROWS = 20_000
FEW, MANY = 100, 10_000
LARGE = 1_000_000
LINES = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCosts:
    """A ledger that holds many tables: seconds of the statements around one table, seconds of the overview, bytes of a line."""

    table: float
    overview: float
    line_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCosts:
    """Seconds of reading a pipeline file and of discovering, per table; and of planning one."""

    load: float
    discover: float
    first: float
    idle: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCosts:
    """Processor seconds of an application, of a table in it, of a changed row, and of a million rows of the table it enters.

    Beside them the seconds by the wall of an application with one table.
    """

    application: float
    table: float
    row: float
    million: float
    wall: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingCosts:
    """Seconds of a survey of an archive: of what is new only, and of all of 100,000 files."""

    new: float
    full: float


def ledger_costs(url: str, tables: int, size: Callable[[], int]) -> LedgerCosts:
    """Fills a ledger with a line for each of many tables, as planning them does; the last ones are those that count."""
    with open_store(url) as store:
        counted, began = min(tables, 500), 0.0
        for number in range(tables):
            if number == tables - counted:
                began = time.perf_counter()
            name = TableName(schema="shop", name=f"table_{number:06}")
            lease = store.acquire("scale", name, "bench", ttl=timedelta(minutes=5), live=True)
            store.table_state("scale", name)
            store.open_operations("scale", name)
            store.record(_line(store, name, "first"))
            store.release(lease)
            store.prune("scale", name, store.now() - timedelta(days=90))
        each = (time.perf_counter() - began) / counted
        began = time.perf_counter()
        assert len(store.overview("scale")) == tables
        overview, before = time.perf_counter() - began, size()
        for number in range(LINES):
            name = TableName(schema="shop", name=f"table_{number % tables:06}")
            store.record(_line(store, name, f"scheduled__2026-01-31T12:00:00+00:00 {number // tables}"))
        return LedgerCosts(table=each, overview=overview, line_bytes=(size() - before) / LINES)


def _line(store: StateStore, name: TableName, run_id: str) -> TableRun:
    now = store.now()
    return TableRun(
        pipeline="scale", table=name, run_id=run_id, trigger="scheduled", kind=OperationKind.INCREMENT, status=TableRunStatus.IDLE,
        timing=RunTiming(started_at=now, finished_at=now),
    )  # fmt: skip


@contextmanager
def sqlite_ledger() -> Iterator[tuple[str, Callable[[], int]]]:
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        yield f"sqlite:///{folder}/ledger.db", lambda: sum(path.stat().st_size for path in files.iterdir())


@contextmanager
def postgres_ledger() -> Iterator[tuple[str, Callable[[], int]]]:
    with PostgresServer(BENCH / "postgres") as server:
        server.execute("DROP DATABASE IF EXISTS scale_ledger")
        server.create_database("scale_ledger")
        yield server.url("scale_ledger"), lambda: int(server.execute("SELECT pg_database_size('scale_ledger')")[0][0])


def plan_costs(server: DatabaseServer, tables: int, busy: Bench) -> PlanCosts:
    """Plans many tables for the first time, and those of a bench that has run once more."""
    wide = Bench(name="bench_wide", server=server, tables=tuple(f"wide_{number:05}" for number in range(tables)))
    wide.reset()
    known = {row[0] for row in server.execute("SHOW TABLES LIKE 'wide%'", database=DATABASE)}
    server.execute("SELECT 1", *(_rows.create(name) for name in wide.tables if name not in known), database=DATABASE)
    began = time.perf_counter()
    chosen_pipelines(wide.folder / "pipelines", [])
    load = (time.perf_counter() - began) / tables
    discover, first = _planned(wide)
    return PlanCosts(load=load, discover=discover, first=first, idle=_planned(busy)[1])


def _planned(bench: Bench) -> tuple[float, float]:
    """Returns the seconds per table of discovering and of planning a pipeline's tables."""
    variables = bench.environment()
    [pipeline] = chosen_pipelines(bench.folder / "pipelines", [])
    url = variables[f"CDC_OPS_CONN_{CONNECTION.upper()}"]
    with open_store(variables["CDC_OPS_LEDGER"]) as store, closing(open_source(pipeline.source, url)) as source:
        context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, url))
        request = new_request(kind=RunKind.INCREMENT)
        began = time.perf_counter()
        found = discover_all(context, source, request)
        discovered = time.perf_counter()
        plan = plan_group(context, source, request, found.tables)
        ended = time.perf_counter()
        assert len(plan.plans) == len(bench.tables), plan.failures
        return (discovered - began) / len(bench.tables), (ended - discovered) / len(bench.tables)


def spark_costs(server: DatabaseServer, runs: int) -> tuple[SparkCosts, Bench]:
    """Merges few and many changed rows into twenty tables, few into one, and few into a large one; what is asked follows from the four."""
    names = tuple(f"many_{number:02}" for number in range(1, GROUP + 1))
    sizes = {**dict.fromkeys((*names, "single"), ROWS), "large": LARGE}
    for table, rows in sizes.items():
        ensure_rows(server, table, rows, _rows.create(table), *_rows.fill(table, rows))
    many = Bench(name="bench_many", server=server, tables=names)
    one = Bench(name="bench_one", server=server, tables=("single",))
    large = Bench(name="bench_large", server=server, tables=("large",))
    for bench in (many, one, large):
        bench.reset()
        bench.run()

    def measured(bench: Bench, rows: int, changes: int) -> Measured:
        found = []
        for _ in range(runs):
            group.change(bench, rows, changes)
            done, lines = bench.run()
            assert [line["counts"]["read"] for line in lines] == [changes] * len(bench.tables)
            found.append(done)
            print(f"  {bench.name}, {changes:,} changes a table: {done.seconds:.1f} s, processor {done.cpu_seconds:.1f} s", flush=True)
        return min(found, key=lambda done: done.cpu_seconds)

    alone, together, more = measured(one, ROWS, FEW), measured(many, ROWS, FEW), measured(many, ROWS, MANY)
    into_large = measured(large, LARGE, FEW)
    row = max((more.cpu_seconds - together.cpu_seconds) / (GROUP * (MANY - FEW)), 0.0)
    table = (together.cpu_seconds - alone.cpu_seconds) / (GROUP - 1) - FEW * row
    million = max((into_large.cpu_seconds - alone.cpu_seconds) / ((LARGE - ROWS) / 1e6), 0.0)
    costs = SparkCosts(
        application=alone.cpu_seconds - table - FEW * row, table=table, row=row, million=million, wall=alone.seconds
    )  # fmt: skip
    return costs, many


def listing_costs(files: int, runs: int) -> ListingCosts:
    """Surveys an archive on an S3 endpoint on loopback."""
    with listing.endpoint() as (archive, add):
        _, _, new, full = listing.measure(archive, add, files, 10, runs)
        archive.close()
    return ListingCosts(new=new, full=full * 100_000 / files)


def task_seconds() -> float:
    """Returns the processor seconds of a process that imports what an Airflow task of cdc-ops imports: less than a task takes."""
    folder = BENCH / "work" / "airflow"
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    command = [str(ROOT / ".local/venv/bin/python"), "-c", "import cdc_ops.airflow.dags"]
    return min(run(command, environment, folder, to_nowhere=True).cpu_seconds for _ in range(2))
