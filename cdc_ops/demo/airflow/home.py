"""Airflow in a separate folder: settings, processes, login; outside the data path, controlled by processes and REST only.

`airflow.cfg` explains each setting that saves time on a small machine. Runs work as in production: the scheduler schedules, the DAG
processor parses, LocalExecutor runs the tasks, tasks start spark-submit.
"""

import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from cdc_ops.demo import jvm
from cdc_ops.demo.layout import CONNECTION, Layout
from cdc_ops.demo.services import Service
from cdc_ops.dev.processes import free_port
from cdc_ops.errors import EnvironmentSetupError

USER: Final = "demo"
PROCESSES: Final = ("api-server", "scheduler", "dag-processor")
PASSWORDS_FILE: Final = "passwords.json"
_FOREIGN: Final = ("AIRFLOW", "_AIRFLOW", "CDC_OPS_", "SPARK_", "PYSPARK_", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")

CONFIG: Final = """\
# Settings of the demo's Airflow; everything else is Airflow's default. Only this machine can connect.
[core]
dags_folder = {dags}
load_examples = False
executor = LocalExecutor
parallelism = 4
simple_auth_manager_users = {user}:admin
simple_auth_manager_passwords_file = {passwords}
execution_api_server_url = http://127.0.0.1:{port}/execution/
fernet_key = {fernet_key}

[api]
host = 127.0.0.1
port = {port}
base_url = http://127.0.0.1:{port}
workers = 1
secret_key = {secret_key}

[api_auth]
jwt_secret = {jwt_secret}

[scheduler]
# The defaults suit hundreds of DAGs; here a second of waiting between two tasks would be most of the time.
scheduler_idle_sleep_time = 0.2
enable_health_check = False

[workers]
# A finished task keeps its slot until the next heartbeat.
min_heartbeat_interval = 1

[dag_processor]
parsing_processes = 1
# The demo's DAG file does not change under way.
min_file_process_interval = 300

[logging]
colored_console_log = False
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The address and the login of Airflow.

    Args:
        port: The port on the loopback address.
        password: The generated password of the user `demo`.
    """

    port: int
    password: str

    @property
    def address(self) -> str:
        """Returns the URL of UI and API."""
        return f"http://127.0.0.1:{self.port}"


class AirflowHome:
    """The demo's Airflow: its folder and its processes.

    Args:
        layout: The demo's folders and files.
        outlive: True if the processes keep running after the one that started them.
        dags: A DAG folder in place of the demo's own.
    """

    def __init__(self, layout: Layout, *, outlive: bool = False, dags: Path | None = None) -> None:
        self._layout = layout
        self._dags = dags or layout.dags
        self.services = tuple(Service(name, layout.services, layout.logs, outlive=outlive) for name in PROCESSES)

    def prepare(self) -> Login:
        """Writes the settings, and creates an empty database as a copy of the first demo's.

        Raises:
            EnvironmentSetupError: Airflow cannot create the database.
        """
        home = self._layout.airflow
        home.mkdir(parents=True, mode=0o700)
        login = Login(port=free_port(), password=secrets.token_urlsafe(9))
        (home / PASSWORDS_FILE).write_text(json.dumps({USER: login.password}), "ascii")
        settings = CONFIG.format(
            dags=self._dags,
            user=USER,
            passwords=home / PASSWORDS_FILE,
            port=login.port,
            fernet_key=urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            secret_key=secrets.token_hex(16),
            jwt_secret=secrets.token_hex(32),
        )
        (home / "airflow.cfg").write_text(settings, "utf-8")
        self._provide_database()
        return login

    def start(self, *names: str, connection: str = "") -> None:
        """Starts some of the processes, without waiting for them.

        Args:
            names: Names from `PROCESSES`.
            connection: The source's connection as Airflow's JSON, with the password. It is only in the environment of these processes.
                Only the scheduler needs it, and passes it to its tasks.
        """
        secret = {f"AIRFLOW_CONN_{CONNECTION.upper()}": connection} if connection else {}
        for service in self.services:
            if service.name in names:
                options = ["--skip-serve-logs"] if service.name == "scheduler" else []  # the UI reads them from the folder
                command = [sys.executable, "-m", "airflow", service.name, *options]
                service.start(command, {**self.environment(), **secret}, self._layout.airflow)

    def check(self) -> None:
        """Raises an error if one of the processes has ended.

        Raises:
            EnvironmentSetupError: a process has ended; the error has the end of its log.
        """
        for service in self.services:
            if service.exit_code() is not None:
                raise EnvironmentSetupError(
                    f"Airflow's {service.name} ended with exit code {service.exit_code()}",
                    why=service.log_tail(),
                    data="the shop database and the lake stay as they are until the next demo",
                    next=f"read {service.log}",
                )

    def environment(self) -> dict[str, str]:
        """Returns the environment variables of the processes, without the source's connection."""
        return {
            **own_environment(os.environ),
            **self._layout.settings(),
            "AIRFLOW_HOME": str(self._layout.airflow),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "SPARK_LOCAL_IP": "127.0.0.1",  # otherwise the driver would listen on the machine's first address
            "SPARK_SUBMIT_OPTS": jvm.options(self._layout),
            "PYTHONUNBUFFERED": "1",
        }

    def _provide_database(self) -> None:
        template = self._layout.cache / f"airflow-{version('apache-airflow-core')}.db"
        database = self._layout.airflow / "airflow.db"
        if template.exists():
            shutil.copyfile(template, database)
            return
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        log = self._layout.logs / "db-migrate.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            done = subprocess.run(command, env=self.environment(), stdout=output, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise EnvironmentSetupError(
                "Airflow cannot create its database",
                why="\n".join(log.read_text(errors="replace").splitlines()[-15:]),
                data="nothing was read or written",
                next=f"read {log}",
            )
        template.parent.mkdir(parents=True, exist_ok=True)
        partial = template.with_suffix(f".{os.getpid()}")
        with sqlite3.connect(database) as source, sqlite3.connect(partial) as target:
            source.backup(target)
        partial.replace(template)


def own_environment(outer: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment without variables of another Airflow, Spark or Python set-up."""
    return {name: value for name, value in outer.items() if not name.startswith(_FOREIGN)}
