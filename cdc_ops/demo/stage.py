"""Starts and stops everything that the demo runs: database, writer, Airflow and the process that compares."""

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from cdc_ops.demo.airflow.api import AirflowApi
from cdc_ops.demo.airflow.home import AirflowHome, Login
from cdc_ops.demo.check import Checker
from cdc_ops.demo.layout import CONNECTION, DATABASE, PIPELINE, Layout
from cdc_ops.demo.report import Screen
from cdc_ops.demo.secrecy import PasswordWatch
from cdc_ops.demo.services import stop_all
from cdc_ops.demo.shop import fill, fill_for_archives, source_url
from cdc_ops.demo.spark_server import copy_pipelines, use_server
from cdc_ops.demo.writer import WITH_DELETES, WITHOUT_DELETES, WriterProcess
from cdc_ops.dev.databases.mariadb import MariaDBServer
from cdc_ops.dev.processes import stop_from_pidfile
from cdc_ops.lake.spark import jars


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everything that runs during the demo.

    Args:
        server: The source.
        writer: Changes `orders`; paused at first.
        api: A client of Airflow's REST API.
        login: Airflow's address and login.
        dag: Airflow's details of the pipeline's DAG.
        checker: Compares source and lake.
        watch: Searches for the source's password.
        outlive: True if the processes keep running after this one.
    """

    server: MariaDBServer
    writer: WriterProcess
    api: AirflowApi
    login: Login
    dag: dict[str, Any]
    checker: Checker
    watch: PasswordWatch
    outlive: bool


def open_stage(layout: Layout, screen: Screen, *, outlive: bool) -> Stage:
    """Removes processes and files of an earlier demo, and starts everything from nothing.

    Args:
        layout: The demo's folders and files.
        screen: Shows the progress.
        outlive: True if database, writer and Airflow keep running after this process.

    Raises:
        CdcError: a process does not start.
    """
    stopped = strike_stage(layout)
    if stopped:
        screen.line(f"  stopped processes of an earlier demo: {', '.join(stopped)}")
    shutil.rmtree(layout.root, ignore_errors=True)
    for folder in (layout.logs, layout.lake, layout.staging, layout.ledger.parent):
        folder.mkdir(parents=True)
    copy_pipelines(layout)
    with screen.step("making sure that the jars are there"):
        jars.fetch(layout.jars)
    airflow = AirflowHome(layout, outlive=outlive)
    with screen.step("preparing Airflow's folder"):
        login = airflow.prepare()
        airflow.start("api-server", "dag-processor")
    server = _open_shop(layout, screen, airflow, outlive=outlive)
    checker = Checker(layout)
    checker.start(airflow.environment())
    with screen.step("filling the shop database"):
        fills, pace = (fill, WITHOUT_DELETES) if layout.pipeline == PIPELINE else (fill_for_archives, WITH_DELETES)
        fills(server, screen.detail)
        writer = WriterProcess(layout.writer, pace, outlive=outlive)
        writer.start()
        (layout.logs / "writer.log").symlink_to(layout.writer / "server.log")
    if layout.pipeline != PIPELINE:
        with screen.step("starting a Spark server, and naming it in the pipeline files"):
            use_server(layout, outlive=outlive)
    api = AirflowApi(login, airflow.check)
    with screen.step("waiting for Airflow"):
        api.wait_until_healthy()
        dag = api.wait_for_dag(layout.dag_id)
    watch = PasswordWatch(server.password)
    return Stage(server=server, writer=writer, api=api, login=login, dag=dag, checker=checker, watch=watch, outlive=outlive)


def strike_stage(layout: Layout) -> tuple[str, ...]:
    """Stops all processes of a demo in this folder, and returns their names."""
    with ThreadPoolExecutor() as pool:  # stopping waits for each process
        services = pool.submit(stop_all, layout.services)
        folders = {"writer": layout.writer, "Spark": layout.spark_server, "MariaDB": layout.mariadb}
        servers = {name: pool.submit(stop_from_pidfile, folder) for name, folder in folders.items()}
    return (*services.result(), *(name for name, stopped in servers.items() if stopped.result()))


def _open_shop(layout: Layout, screen: Screen, airflow: AirflowHome, *, outlive: bool) -> MariaDBServer:
    with screen.step("starting the shop's MariaDB"):
        server = MariaDBServer(layout.mariadb, outlive=outlive)
        server.start()
        (layout.logs / "mariadb.log").symlink_to(layout.mariadb / "server.log")
        airflow.start("scheduler", connection=connection_json(server))
        _write_environment(layout, server)
    return server


def connection_json(server: MariaDBServer) -> str:
    """Returns the source's connection in Airflow's environment format, with the password."""
    parts = {"login": server.user, "password": server.password, "host": server.host, "port": server.port, "schema": DATABASE}
    return json.dumps({"conn_type": "mysql", **parts})


def _write_environment(layout: Layout, server: MariaDBServer) -> None:
    """Writes a shell file with the environment for `cdc-ops` commands. Only its owner can read it, because it has the password."""
    path = f"{quote(str(Path(sys.executable).parent))}:$PATH"
    lines = [f"export {name}={quote(value)}" for name, value in layout.settings().items()]
    lines += [f"export CDC_OPS_CONN_{CONNECTION.upper()}={quote(source_url(server))}", f"export PATH={path}"]
    layout.environment.touch(mode=0o600)
    layout.environment.write_text("\n".join(lines) + "\n", "utf-8")
