"""What 10,000 tables, 10 TB and 1 B changed rows a day would cost, computed from what one of each costs here; where the first wall stands.

Nothing of that size is built: each part is measured at a size that this machine has, and multiplied. A part that does not grow evenly is
wrong by as much; docs/scale.md says which.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks._harness import report, running_server
from benchmarks._scale import (
    LARGE,
    LedgerCosts,
    ListingCosts,
    PlanCosts,
    SparkCosts,
    ledger_costs,
    listing_costs,
    plan_costs,
    postgres_ledger,
    spark_costs,
    sqlite_ledger,
    task_seconds,
)

PARALLEL_TABLES = 4
QUICK = 15 * 60
"""Seconds that `discover` and `plan` have (`cdc_ops.airflow.dags`)."""

TASKS = 4
"""Tasks of a group: plan, sync, commit, maintain."""

ROW_BYTES = 100
RETENTION_DAYS = 90
REQUESTS = 6
"""Writing requests of a small merge: data, deletion vectors, the commit, the landed file, its manifest, and a part of a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What is to be kept equal, and with which settings: those of Airflow are its defaults."""

    tables: int
    bytes: float
    changes: float
    minutes: int
    per_job: int
    at_once: int = 16
    map_length: int = 1024
    import_seconds: int = 30

    @property
    def runs(self) -> float:
        return 24 * 60 / self.minutes

    @property
    def groups(self) -> int:
        return math.ceil(self.tables / self.per_job)

    @property
    def interval(self) -> int:
        return self.minutes * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What one of each costs."""

    plan: PlanCosts
    spark: SparkCosts
    sqlite: LedgerCosts
    postgres: LedgerCosts
    listing: ListingCosts
    task: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a run: what it takes at this size, what it may take, and which setting moves that.

    Args:
        name: What it is.
        takes, limit: In `unit`. No limit: it costs, and stops nothing.
        unit: `s` by the wall for a run unless said otherwise.
        setting: What moves the wall.
        stops: Whether a run fails beyond the limit; else it takes longer than the time to the next one.
    """

    name: str
    takes: float
    setting: str
    unit: str = "s"
    limit: float = 0.0
    stops: bool = False

    def wall(self, tables: int) -> float:
        """Returns the number of tables at which the limit is reached, all else growing with them."""
        return tables * self.limit / self.takes if self.limit and self.takes else math.inf


def parts(size: Size, cost: Costs) -> Iterator[Part]:
    """Yields the parts of a run of which every table has changes."""
    n, plan, spark = size.tables, cost.plan, cost.spark
    planned = plan.idle + cost.postgres.table
    group_seconds = spark.wall + (size.per_job - 1) / PARALLEL_TABLES * spark.table
    late = "schedule, several pipelines, max_active_tasks_per_dag"
    yield Part(name="pipeline file with an entry a table", takes=n * plan.load, limit=size.import_seconds, stops=True,
               setting="patterns in place of entries, several pipelines")  # fmt: skip
    yield Part(name="discover", takes=n * plan.discover, limit=QUICK, stops=True, setting="several pipelines")
    yield Part(name="mapped groups of tables", takes=size.groups, unit="groups", limit=size.map_length, stops=True,
               setting="tables_per_job, max_map_length")  # fmt: skip
    yield Part(name="plan, one group", takes=size.per_job * planned, unit="s a group", setting="tables_per_job (15 minutes a group)")
    yield Part(name="plan, all groups", takes=n * planned / size.at_once, limit=size.interval, setting=late)
    yield Part(name="starting Airflow's tasks", takes=size.groups * TASKS * cost.task / size.at_once, limit=size.interval,
               setting=f"tables_per_job, {late}")  # fmt: skip
    yield Part(name="Spark applications, 16 at once", takes=size.groups / size.at_once * group_seconds, limit=size.interval,
               setting=f"tables_per_job, {late}")  # fmt: skip
    yield Part(name="ledger, SQLite (one writer)", takes=n * cost.sqlite.table, limit=size.interval, setting="Postgres")
    yield Part(name="ledger, Postgres", takes=n * cost.postgres.table / size.at_once, limit=size.interval, setting=late)
    yield Part(name="archive, what is new (log method)", takes=n * cost.listing.new / size.at_once, limit=size.interval, setting=late)


def totals(size: Size, cost: Costs) -> Iterator[str]:
    """Yields what a day costs in all."""
    n, spark = size.tables, cost.spark
    rows = size.bytes / n / ROW_BYTES / 1e6
    shares = {
        "applications": size.groups * spark.application * size.runs,
        "tables in them": n * spark.table * size.runs,
        "changed rows": size.changes * spark.row,
        "keys of the tables": n * rows * spark.million * size.runs,
    }
    seconds = sum(shares.values())
    told = ", ".join(f"{name} {share / seconds:.0%}" for name, share in shares.items())
    yield f"Spark: {seconds / 3600:,.0f} core hours a day, {seconds / 86400:,.0f} cores all day ({told})"
    lines = n * size.runs * RETENTION_DAYS
    yield (
        f"ledger: {n * size.runs:,.0f} lines a day, {lines / 1e6:,.0f} M in {RETENTION_DAYS} days,"
        f" {lines * cost.postgres.line_bytes / 1e9:,.0f} GB on Postgres (run_retention)"
    )
    yield f"ledger: the overview of all tables takes {cost.postgres.overview:.2f} s on Postgres, {cost.sqlite.overview:.2f} s on SQLite"
    yield f"Airflow: {(size.groups * TASKS + 2) * size.runs:,.0f} task instances a day; names in XCom {n * 24 / 1e3:,.0f} kB a run"
    commits = n * size.runs
    yield f"commits: {commits:,.0f} a day, about {commits * REQUESTS / 1e6:,.1f} M writing requests to the object store"
    yield f"archive: a survey of all of 100,000 files takes {cost.listing.full:.2f} s, of what is new {cost.listing.new:.3f} s"
    yield f"first plan of all tables: {n * cost.plan.first / 60:,.0f} minutes of one process"


def table(size: Size, found: list[Part]) -> Iterator[str]:
    """Yields the parts as lines, and where the first walls stand."""
    yield f"{'part of a run':<38}{'takes':>10} {'':<10}{'limit':>8}{'wall at tables':>16}   moved by"
    for part in found:
        wall = part.wall(size.tables)
        limit, stands = (f"{part.limit:,.0f}", f"{wall:,.0f}") if wall < math.inf else ("-", "-")
        yield f"{part.name:<38}{part.takes:>10,.1f} {part.unit:<10}{limit:>8}{stands:>16}   {part.setting}"
    for stops, words in ((True, "a run fails"), (False, "a run takes longer than its interval")):
        first = min((part for part in found if part.stops is stops and part.limit), key=lambda part: part.wall(size.tables))
        yield f"first wall at which {words}: {first.name}, at {first.wall(size.tables):,.0f} tables; moved by {first.setting}"


def units(cost: Costs) -> Iterator[str]:
    plan, spark = cost.plan, cost.spark
    yield (
        f"plan: {plan.idle * 1e3:.1f} ms an idle table, {plan.first * 1e3:.1f} ms the first time; discover {plan.discover * 1e3:.2f} ms,"
        f" pipeline file {plan.load * 1e3:.2f} ms a table"
    )
    yield (
        f"Spark, processor seconds: {spark.application:.1f} an application, {spark.table:.2f} a table, {spark.row * 1e6:.1f} a million"
        f" changed rows, {spark.million:.2f} a million rows of the table (at {LARGE:,}); {spark.wall:.1f} s by the wall for one table"
    )
    for name, ledger in (("SQLite", cost.sqlite), ("Postgres", cost.postgres)):
        yield f"ledger on {name}: {ledger.table * 1e3:.1f} ms for the statements of an idle table"
    yield f"ledger: {cost.postgres.line_bytes:,.0f} bytes a line on Postgres"
    yield f"Airflow: {cost.task:.1f} s of processor time to import what a task imports"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000, help="of the pipeline; the ledger is measured with that many lines")
    parser.add_argument("--terabytes", type=float, default=10, help="in all tables")
    parser.add_argument("--changes", type=float, default=1e9, help="changed rows a day")
    parser.add_argument("--minutes", type=int, nargs="+", default=[15, 60], help="between two runs")
    parser.add_argument("--per-job", type=int, nargs="+", default=[20, 100], help="tables_per_job")
    parser.add_argument("--planned", type=int, default=1_000, help="tables that are planned to learn what one costs")
    parser.add_argument("--files", type=int, default=100_000, help="files of the archive that is listed")
    parser.add_argument("--runs", type=int, default=2, help="of each measurement")
    options = parser.parse_args()
    with sqlite_ledger() as (url, grown):
        sqlite = ledger_costs(url, options.tables, grown)
    with postgres_ledger() as (url, grown):
        postgres = ledger_costs(url, options.tables, grown)
    surveyed = listing_costs(options.files, options.runs)
    with running_server() as server:
        spark, busy = spark_costs(server, options.runs)
        planned = plan_costs(server, options.planned, busy)
    cost = Costs(plan=planned, spark=spark, sqlite=sqlite, postgres=postgres, listing=surveyed, task=task_seconds())
    report("What one of each costs", units(cost))
    for minutes in options.minutes:
        for per_job in options.per_job:
            size = Size(
                tables=options.tables, bytes=options.terabytes * 1e12, changes=options.changes, minutes=minutes, per_job=per_job
            )  # fmt: skip
            title = f"{size.tables:,} tables, {options.terabytes:g} TB, {size.changes / 1e6:,.0f} M changes a day"
            report(
                f"{title}, every {minutes} minutes, tables_per_job {per_job}",
                (*table(size, list(parts(size, cost))), *totals(size, cost)),
            )


if __name__ == "__main__":
    main()
