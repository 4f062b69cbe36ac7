"""What the block `airflow` sets on a DAG and its tasks.

The rule for tasks: `airflow.tasks` is for every task; `airflow.spark_tasks` goes over it, field by field, for the tasks that start Spark.
"""

import json
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from airflow.sdk import DAG
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import RemovedInAirflow4Warning

from cdc_ops.airflow.options.executor_config import executor_config
from cdc_ops.airflow.options.import_paths import resolve_callback
from cdc_ops.core.pipeline.airflow_settings import AirflowSettings, TaskOptions
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.errors import ConfigError

DEFAULT_POOL: Final = "default_pool"
"""Airflow's own pool, which cannot be removed."""

TaskKind = Literal["tasks", "spark_tasks"]


def dag_options(pipeline: Pipeline) -> dict[str, Any]:
    """Returns the arguments of a pipeline's DAGs, without those that differ between its two DAGs.

    Raises:
        ConfigError: a callback cannot be imported.
    """
    settings = pipeline.airflow
    options: dict[str, Any] = {
        "dagrun_timeout": settings.limits.run_timeout or None,
        "owner_links": dict(settings.owner_links),
        "access_control": json.loads(settings.access_control) or None,
        **_callbacks(pipeline, settings, "airflow", ("success", "failure")),
    }
    return options | ({"max_active_tasks": settings.limits.max_active_tasks} if settings.limits.max_active_tasks else {})


def task_options(pipeline: Pipeline, kind: TaskKind) -> dict[str, Any]:
    """Returns the arguments of a pipeline's tasks. All of them are given, so that those of Spark tasks can go back to Airflow's defaults.

    Raises:
        ConfigError: a callback or a pod cannot be used.
    """
    options: TaskOptions = getattr(pipeline.airflow, kind)
    return {
        "pool": options.pool or DEFAULT_POOL,
        "pool_slots": options.pool_slots,
        "queue": options.queue or conf.get("operators", "default_queue"),
        "executor": options.executor or None,
        "executor_config": executor_config(options.executor_config, origin=pipeline.origin, field=f"airflow.{kind}.executor_config"),
        "priority_weight": options.priority_weight,
        "retries": options.retries,
        "retry_delay": options.retry_delay,
        "retry_exponential_backoff": True,
        "max_retry_delay": options.max_retry_delay,
        **_callbacks(pipeline, options, f"airflow.{kind}", ("execute", "success", "failure", "retry", "skipped")),
    }


def new_dag(**options: Any) -> DAG:
    """Returns a DAG. Of `access_control` Airflow 3.3 and 3.4 warn, each in its own words; nobody can act on that here."""
    with warnings.catch_warnings():
        for words in ("The airflow.security.permissions module is deprecated", r"DAG\.access_control is deprecated"):
            warnings.filterwarnings("ignore", words, RemovedInAirflow4Warning)
        return DAG(**options)  # noqa: AIR002  the schedule is among them


def check_executors(pipeline: Pipeline, dag: DAG) -> None:
    """Makes sure that Airflow knows the executors of a DAG's tasks; Airflow itself would take all DAGs of the file down.

    Those of all teams count: only Airflow knows the team of a DAG, by its bundle, and checks that afterwards.

    Raises:
        ConfigError: it does not.
    """
    wanted = sorted({task.executor for task in dag.tasks if task.executor})
    known = _executors() if wanted else {}
    for name in wanted:
        if name not in known:
            raise ConfigError(
                f"{pipeline.origin}: 'executor' names {name!r}, which Airflow does not have.",
                why=f"It has {', '.join(sorted(set(known.values())))}.",
                data="Nothing was read or written; the pipeline's tables are not updated.",
                next="Add it to [core] executor of Airflow's configuration, or name one that is there.",
            )


def _executors() -> dict[str, str]:
    """Returns the names by which Airflow finds its executors, each with the shortest: alias, class, module path."""
    from airflow.executors.executor_loader import ExecutorLoader

    known: dict[str, str] = {}
    for one in ExecutorLoader.get_executor_names(validate_teams=False):  # teams are in the database, which no parser may ask
        class_name = one.module_path.rpartition(".")[2]
        known |= dict.fromkeys(filter(None, (one.alias, class_name, one.module_path)), one.alias or class_name)
    return known


def _callbacks(pipeline: Pipeline, given: AirflowSettings | TaskOptions, where: str, events: tuple[str, ...]) -> dict[str, Any]:
    options: dict[str, list[Callable[..., Any]] | None] = {}
    for name in (f"on_{event}_callback" for event in events):
        resolve = partial(resolve_callback, origin=pipeline.origin, field=f"{where}.{name}")
        options[name] = [resolve(path) for path in getattr(given, name)] or None
    return options
