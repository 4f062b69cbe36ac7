"""An increment of a few changed rows as a run of Airflow: on a warm Spark server, beside one application of its own, and beside two.

Airflow's API server, scheduler and DAG processor run as in production. What is timed is a run's own start and end, as Airflow tells them;
the processor seconds are those of the whole machine meanwhile, so nothing else should run.
"""

import json
import os
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks import _rows
from benchmarks._harness import BENCH, DATABASE, LOCAL, Measured, Series, arguments, ensure_rows, report, running_server
from benchmarks.increment import change
from cdc_ops.demo.airflow.api import AirflowApi
from cdc_ops.demo.airflow.home import PROCESSES, AirflowHome
from cdc_ops.demo.layout import CONNECTION, Layout
from cdc_ops.demo.services import stop_all
from cdc_ops.dev.connect_server import ConnectServer
from cdc_ops.dev.servers import DatabaseServer

SPARK: Final = {
    "separate": "{driver_memory: 2g}",
    "fused": "{driver_memory: 2g}",
    "warm": "{connect: '%s'}",
}
NAMES: Final = {"separate": "two applications (extract, merge)", "fused": "one application", "warm": "a warm Spark server"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Airflow with one pipeline for each way."""

    layout: Layout
    api: AirflowApi

    def run(self, way: str) -> Measured:
        """Triggers a run, waits for its end and returns what it took."""
        dag, used = dag_id(way), machine_seconds()
        started = time.monotonic()
        run = self.api.trigger(dag, {}, "benchmark")
        self.api.wait_for_run(dag, run, lambda tasks: None)
        return Measured(seconds=time.monotonic() - started, cpu_seconds=machine_seconds() - used, peak_bytes=0, output="")


def dag_id(way: str) -> str:
    """Returns the id of a way's DAG."""
    return f"cdc_bench_{way}"


def machine_seconds() -> float:
    """Returns the processor seconds that the whole machine has used, in user and kernel."""
    user, nice, system = Path("/proc/stat").read_text("ascii").splitlines()[0].split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def prepare(server: DatabaseServer, table: str, spark: str) -> tuple[Layout, AirflowHome, AirflowApi]:
    """Writes the pipelines, and starts Airflow."""
    layout = replace(Layout.default(), root=BENCH / "work" / "bench_airflow")
    stop_all(layout.services)
    shutil.rmtree(layout.root, ignore_errors=True)
    for folder in (layout.logs, layout.pipelines, layout.ledger.parent):
        folder.mkdir(parents=True)
    for way, settings in SPARK.items():
        execution = "" if way == "warm" else f"execution: {way}\n"
        (layout.pipelines / f"bench_{way}.yaml").write_text(
            f"pipeline: bench_{way}\n{execution}"
            f"source: {{kind: mariadb, connection: {CONNECTION}, time_zone: UTC}}\n"
            f"spark: {settings % spark if '%' in settings else settings}\n"
            f"target: {{root: {layout.lake / way}, staging: {layout.staging / way}}}\n"
            f"defaults: {{cursor: [updated_at, id], lookback: 0s}}\n"
            f"tables:\n  {DATABASE}.{table}: {{}}\n",
            "utf-8",
        )
    home = AirflowHome(layout)
    login = home.prepare()
    parts = {"login": server.user, "password": server.password, "host": server.host, "port": server.port, "schema": DATABASE}
    home.start(*PROCESSES, connection=json.dumps({"conn_type": "mysql", **parts}))
    api = AirflowApi(login, home.check)
    api.wait_until_healthy()
    for way in SPARK:
        api.wait_for_dag(dag_id(way))
        api.unpause(dag_id(way))
    return layout, home, api


def main() -> None:
    options = arguments(__doc__, rows=3_000_000, changed=1_000, runs=3)
    table = f"changing_{options.rows}"
    series = {way: Series(name) for way, name in NAMES.items()}
    with running_server() as server:
        ensure_rows(server, table, options.rows, _rows.create(table), *_rows.fill(table, options.rows))
        with ConnectServer(BENCH / "work" / "bench_airflow_spark", jars=LOCAL / "jars") as spark:
            layout, _, api = prepare(server, table, spark.url)
            try:
                stage = Stage(layout=layout, api=api)
                for way in SPARK:
                    print(f"  snapshot, {NAMES[way]}: {stage.run(way).seconds:.1f} s", flush=True)
                for seed in range(options.runs + 1):  # the first makes the server warm
                    change(server, table, options.rows, options.changed, seed)
                    for way, measured in series.items():
                        found = stage.run(way)
                        if seed:
                            measured.add(found)
            finally:
                api.close()
                stop_all(layout.services)
    warm = series["warm"]
    report(
        f"A run of Airflow: {options.changed:,} changed rows in {options.rows:,}",
        (
            *(measured.line() for measured in series.values()),
            f"warm, beside two applications: {warm.median / series['separate'].median:.2f}x,"
            f" beside one: {warm.median / series['fused'].median:.2f}x",
        ),
    )


if __name__ == "__main__":
    main()
