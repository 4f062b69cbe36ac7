"""The part of Airflow's REST API that the demo needs; outside the data path."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import httpx

from cdc_ops.demo.airflow.home import USER, Login
from cdc_ops.dev.processes import wait_until
from cdc_ops.errors import EnvironmentSetupError, JobError

ENDED: Final = frozenset({"success", "failed"})
POLL_SECONDS: Final = 0.5
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """The state of one task of a run; `map_index` is -1 for tasks that are not mapped."""

    task: str
    map_index: int
    attempt: int
    state: str


class AirflowApi:
    """A client with a valid login.

    Args:
        login: Address and password.
        alive: Called while waiting; raises an error if a process of Airflow has ended.
    """

    def __init__(self, login: Login, alive: Callable[[], None]) -> None:
        self._login = login
        self._alive = alive
        self._http = httpx.Client(base_url=login.address, timeout=30.0, trust_env=False)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def wait_until_healthy(self, timeout: float = 180.0) -> None:
        """Waits until API server, scheduler and DAG processor work.

        Raises:
            EnvironmentSetupError: one of them has ended, or the wait took too long.
        """
        self._until(self._healthy, timeout, "Airflow does not start")
        answer = self._http.post("/auth/token", json={"username": USER, "password": self._login.password})
        answer.raise_for_status()
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def wait_for_dag(self, dag_id: str, timeout: float = 90.0) -> dict[str, Any]:
        """Waits until Airflow has parsed a DAG, and returns the DAG's details.

        Raises:
            EnvironmentSetupError: Airflow does not find the DAG; the error has Airflow's import errors.
        """

        def find() -> dict[str, Any] | None:
            answer = self._http.get(f"/api/v2/dags/{dag_id}/details")
            if answer.status_code == httpx.codes.OK:
                found: dict[str, Any] = answer.json()
                return found
            errors = self.import_errors()
            if errors:
                raise EnvironmentSetupError(
                    "Airflow cannot import the DAG file", why=errors[-1500:], data="nothing ran", next="correct the file"
                )
            return None

        return self._until(find, timeout, f"Airflow does not see the DAG {dag_id}")

    def import_errors(self) -> str:
        """Returns Airflow's import errors as text, "" if there are none."""
        return "\n".join(str(one["stack_trace"]) for one in self._get("/api/v2/importErrors")["import_errors"])

    def unpause(self, dag_id: str) -> None:
        """Enables the DAG."""
        self._http.patch(f"/api/v2/dags/{dag_id}", json={"is_paused": False}).raise_for_status()

    def trigger(self, dag_id: str, params: Mapping[str, Any], note: str) -> str:
        """Starts a manual run without a logical date and returns its id."""
        body = {"logical_date": None, "conf": dict(params), "note": note}
        return str(self._post(f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def backfill(self, dag_id: str, since: datetime, until: datetime) -> int:
        """Starts a backfill of the intervals that begin in [since, until], one at a time, and returns its id."""
        body = self._backfill_body(dag_id, since, until)

        def create() -> int | None:
            answer = self._http.post("/api/v2/backfills", json=body)
            # On SQLite, Airflow gives up at once when the scheduler writes at the same moment, and rolls its part back.
            return None if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else int(self._read(answer)["id"])

        return self._until(create, 60.0, "Airflow does not create the backfill")

    def runs(self, dag_id: str, run_type: str) -> list[str]:
        """Returns the ids of the DAG's runs of a type (manual, scheduled, backfill), oldest first."""
        answer = self._get(f"/api/v2/dags/{dag_id}/dagRuns", run_type=run_type, order_by="id")
        return [str(run["dag_run_id"]) for run in answer["dag_runs"]]

    def unfinished(self, dag_id: str) -> list[str]:
        """Returns the ids of runs that are queued or running."""
        answer = self._get(f"/api/v2/dags/{dag_id}/dagRuns", state=["queued", "running"])
        return [str(run["dag_run_id"]) for run in answer["dag_runs"]]

    def wait_for_new_run(self, dag_id: str, run_type: str, known: Sequence[str], timeout: float = 60.0) -> str:
        """Waits for a new run, and returns the id of the first run of a type that is not among the known ones.

        Raises:
            EnvironmentSetupError: no such run starts.
        """
        what = f"Airflow starts no {run_type} run of {dag_id}"
        return self._until(lambda: next((run for run in self.runs(dag_id, run_type) if run not in known), None), timeout, what)

    def intervals(self, dag_id: str, since: datetime, until: datetime) -> list[datetime]:
        """Returns the starts of the schedule's intervals in [since, until], which a backfill would run."""
        body = self._backfill_body(dag_id, since, until)
        return [datetime.fromisoformat(one["logical_date"]) for one in self._post("/api/v2/backfills/dry_run", body)["backfills"]]

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Returns queued, running, success or failed."""
        return str(self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tasks(self, dag_id: str, run_id: str) -> tuple[TaskState, ...]:
        """Returns the tasks of a run, in the order in which they started."""
        answer = self._get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances", order_by="start_date")
        return tuple(
            TaskState(task=one["task_id"], map_index=one["map_index"], attempt=one["try_number"], state=one["state"] or "waiting")
            for one in answer["task_instances"]
        )

    def task_log(self, dag_id: str, run_id: str, task: TaskState, lines: int = 25) -> str:
        """Returns the last lines of a task's log."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task.task}/logs/{task.attempt}"
        content = self._get(path, map_index=task.map_index)["content"]
        return "\n".join("\n".join(_log_text(one) for one in content).splitlines()[-lines:])

    def wait_for_run(self, dag_id: str, run_id: str, show: Callable[[tuple[TaskState, ...]], None], timeout: float = 600.0) -> None:
        """Waits until a run has succeeded, and shows its tasks meanwhile.

        Raises:
            JobError: the run failed or takes too long; the error has the failed task's log.
        """

        def ended() -> str | None:
            show(self.tasks(dag_id, run_id))
            state = self.run_state(dag_id, run_id)
            return state if state in ENDED else None

        if self._until(ended, timeout, f"run {run_id} does not end") == "failed":
            raise self._failure(dag_id, run_id)

    def _backfill_body(self, dag_id: str, since: datetime, until: datetime) -> dict[str, Any]:
        dates = {"from_date": since.isoformat(), "to_date": until.isoformat()}
        return {"dag_id": dag_id, **dates, "max_active_runs": 1, "reprocess_behavior": "none"}

    def _failure(self, dag_id: str, run_id: str) -> JobError:
        failed = [task for task in self.tasks(dag_id, run_id) if task.state == "failed"]
        text = "\n".join(f"log of {task.task}:\n{self.task_log(dag_id, run_id, task)}" for task in failed[:1])
        return JobError(
            f"run {run_id} failed", why=text, data="committed rows stay; the watermark shows how far the run got", next="read the log above"
        )

    def _healthy(self) -> bool | None:
        answer = self._http.get("/api/v2/monitor/health")
        if answer.status_code != httpx.codes.OK:
            return None
        health = answer.json()
        return True if all(health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "dag_processor")) else None

    def _until(self, look: Callable[[], T | None], timeout: float, what: str) -> T:
        def answer() -> T | None:
            self._alive()
            try:
                return look()
            except httpx.TransportError:
                return None  # Airflow is too busy to answer in time, or has just ended: then the next call of `alive` raises an error

        if found := wait_until(answer, timeout, every=POLL_SECONDS):
            return found
        raise EnvironmentSetupError(what, why=f"not within {timeout:.0f} seconds", data="see the ledger", next="read the logs")

    def _get(self, path: str, **parameters: Any) -> Any:
        return self._read(self._http.get(path, params=parameters))

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._read(self._http.post(path, json=body))

    def _read(self, answer: httpx.Response) -> Any:
        if answer.is_error:
            why = answer.text[:800]
            raise JobError(f"Airflow refuses {answer.request.method} {answer.request.url.path}: {answer.status_code}", why=why)
        return answer.json()


def _log_text(entry: dict[str, Any] | str) -> str:
    """Returns the message of a log entry with its errors, without their stack traces."""
    if isinstance(entry, str):
        return entry
    errors = (f"{one['exc_type']}: {one['exc_value']}" for one in entry.get("error_detail") or ())
    return "\n".join([str(entry.get("event", "")), *errors])
