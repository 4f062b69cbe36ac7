"""A whole Airflow on loopback - scheduler, DAG processor, triggerer, API server - told what to do over its REST API, as a user does."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from cdc_ops.dev.processes import PID_FILE, ServerProcess, free_port

PATIENCE = 400.0
AIRFLOW = str(Path(sys.executable).with_name("airflow"))
ENDED = ("success", "failed")
OPERATOR, COLLEAGUE = "operator", "colleague"
"""Who logs in; both may do everything."""


@dataclass(frozen=True)
class LiveRun:
    """One run, as the API tells of it."""

    dag_id: str
    run_id: str
    kind: str
    state: str
    interval: tuple[str, str]


class LiveAirflow:
    """Airflow with a folder and a metadata database of its own.

    Args:
        folder: Becomes AIRFLOW_HOME.
        dags: The folder of DAG files.
        database: URL of its empty metadata database on Postgres, with psycopg 3 as the driver. (On SQLite a backfill may not be created
            while the scheduler writes.)
        settings: Variables of its environment, over this process's.
    """

    def __init__(self, folder: Path, dags: Path, database: str, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.passwords: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._commands: dict[str, list[str]] = {}
        self._settings = {
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{OPERATOR}:admin,{COLLEAGUE}:admin",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
            **settings,
        }
        names = ("api-server", "dag-processor", "scheduler", "triggerer")
        self._processes = {name: ServerProcess(f"Airflow's {name}", folder / name) for name in names}
        self._orphans: list[int] = []

    def __enter__(self) -> Self:
        for name in self._processes:
            (self.folder / name).mkdir(parents=True)
        environment = {**os.environ, **self._settings}
        _done([AIRFLOW, "db", "migrate"], environment)
        arguments = {
            "api-server": ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"],
            "scheduler": ["--skip-serve-logs"],
            "triggerer": ["--skip-serve-logs"],
        }
        told = ["env", *(f"{name}={value}" for name, value in self._settings.items()), AIRFLOW]
        self._commands = {name: [*told, name, *arguments.get(name, [])] for name in self._processes}
        try:
            for name, process in self._processes.items():
                process.start(self._commands[name])
            self.wait_until(lambda: self.log_in() and self.call("GET", "/monitor/health"), "the API server answers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes.values()):
            process.stop()
        for orphan in self._orphans:
            with suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)

    def killed(self, name: str) -> None:
        """Kills one of Airflow's processes, as the memory killer does, and starts it again; its children live until the end of the test."""
        pid = int((self.folder / name / PID_FILE).read_text())
        self._orphans += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        os.kill(pid, signal.SIGKILL)
        self._processes[name].stop()
        self._processes[name].start(self._commands[name])

    def log_in(self) -> bool:
        """True once somebody could log in: Airflow makes the file of passwords first, and then writes it and opens its port."""
        passwords = self.folder / "simple_auth_manager_passwords.json.generated"
        if not passwords.exists():
            return False
        try:
            self.passwords = json.loads(passwords.read_text())
        except json.JSONDecodeError:
            return False
        try:
            for name, password in self.passwords.items():
                self._tokens[name] = self._sent("POST", "/auth/token", {"username": name, "password": password})["access_token"]
        except urllib.error.URLError:
            return False
        return True

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, user: str = OPERATOR) -> Any:
        """Calls the public API below `/api/v2` as a user, and returns the document.

        Raises:
            AssertionError: it refuses, with its words.
        """
        try:
            return self._sent(method, f"/api/v2{path}", body, user)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:2000]}") from error

    def _sent(self, method: str, path: str, body: Mapping[str, Any] | None, user: str = "") -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= {"Authorization": f"Bearer {self._tokens[user]}"} if user else {}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.address}{path}", data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        return json.loads(text) if text else None

    def wait_until(self, condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """Asks until the answer is true, and returns it."""
        end = time.monotonic() + patience
        while not (answer := condition()):
            ended = [name for name, process in self._processes.items() if process.exit_code() is not None]
            assert not ended, f"{ended} ended: {self.logs()}"
            assert time.monotonic() < end, f"not within {patience:.0f} s: {what}. {self.logs()}"
            time.sleep(1)
        return answer

    def logs(self) -> str:
        """Returns the ends of the processes' logs."""
        tails = {name: [line[:300] for line in process.log_tail(8).splitlines()] for name, process in self._processes.items()}
        return "\n".join("\n".join([f"--- {name}", *lines]) for name, lines in tails.items())

    def pause(self, dag_id: str, paused: bool) -> None:
        """Pauses a DAG, whose runs at work then stand still, or lets it go on."""
        self.call("PATCH", f"/dags/{dag_id}", {"is_paused": paused})

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Triggers a run as the form does, and returns its id."""
        return str(self.call("POST", f"/dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"])

    def runs(self, dag_id: str) -> list[LiveRun]:
        """Returns the runs of a DAG, the oldest first."""
        found = self.call("GET", f"/dags/{dag_id}/dagRuns?limit=100&order_by=run_after")["dag_runs"]
        return [
            LiveRun(
                dag_id=dag_id,
                run_id=run["dag_run_id"],
                kind=run["run_type"],
                state=run["state"],
                interval=(run["data_interval_start"] or "", run["data_interval_end"] or ""),
            )
            for run in found
        ]

    def ended(self, dag_id: str, run_id: str) -> LiveRun:
        """Waits until a run has ended, and returns it."""

        def found() -> LiveRun | None:
            return next((run for run in self.runs(dag_id) if run.run_id == run_id and run.state in ENDED), None)

        run = self.wait_until(found, f"the end of {run_id}")
        assert isinstance(run, LiveRun)
        return run

    def question(self, dag_id: str, run_id: str) -> tuple[str, str]:
        """Waits until a run asks a person, and returns the path of the question in the API, and its title."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}"

        def found() -> Any:
            open_ones = self.call("GET", f"{path}/hitlDetails?response_received=false")["hitl_details"]
            return [one for one in open_ones if one["task_instance"]["state"] == "awaiting_input"]

        self.wait_until(found, f"a question of {run_id}")
        time.sleep(3)  # a person reads it; Airflow 3.3 tries a task again whose answer comes before its process has ended
        [asked] = self.wait_until(found, f"a question of {run_id}")
        task = asked["task_instance"]
        return f"{path}/taskInstances/{task['task_id']}/{task['map_index']}/hitlDetails", str(asked["subject"])

    def answered(self, dag_id: str, run_id: str, answer: str) -> LiveRun:
        """Waits for the question of a run, answers it, and waits for the run's end."""
        self.call("PATCH", self.question(dag_id, run_id)[0], {"chosen_options": [answer]})
        return self.ended(dag_id, run_id)

    def tries(self, run: LiveRun) -> dict[str, tuple[str, int]]:
        """Returns state and number of tries of each task of a run."""
        found = self.call("GET", f"/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances?limit=100")["task_instances"]
        return {task["task_id"].removeprefix("tables."): (task["state"], task["try_number"]) for task in found}

    def task_log(self, run: LiveRun, task_id: str, number: int = 1, map_index: int = -1) -> str:
        """Returns what one try of a task has logged."""
        path = f"/dags/{run.dag_id}/dagRuns/{run.run_id}/taskInstances/{task_id}/logs/{number}?map_index={map_index}&full_content=true"
        return json.dumps(self.call("GET", path))


def otel_settings(url: str) -> dict[str, str]:
    """Variables with which Airflow sends its metrics to a collector, and only when a process ends."""
    return {
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_METRIC_EXPORT_INTERVAL": "3600000",
    }


def _done(command: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
