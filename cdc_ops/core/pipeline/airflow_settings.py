"""How Airflow runs a pipeline: the block `airflow` of a pipeline file. The command line reads it and does nothing with it."""

import enum
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NewType

from cdc_ops.core.approvals import Decision
from cdc_ops.core.pipeline.grouped import Grouped

JsonMapping = NewType("JsonMapping", str)
"""A nested mapping of a pipeline file as JSON text with sorted keys, so that equal files give equal values."""

EMPTY_MAPPING = JsonMapping("{}")


class Downstream(enum.StrEnum):
    """Whether the DAGs behind a table are told of a run that reads rows again."""

    EVENTS = "events"
    """An asset event for each table that committed, as of other runs."""
    SILENT = "silent"
    """No asset event. The Delta versions of the run are in the range of the table's next event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Options of the DAG's tasks.

    Args:
        pool: Pool in which the tasks take their slots; Airflow must have it, otherwise they never start. "" = Airflow's default pool.
        pool_slots: Slots of the pool that one task takes.
        queue: Queue of Airflow's workers. "" = Airflow's default queue.
        executor: Name of one of the executors in Airflow's configuration. "" = the first one.
        executor_config: What Airflow's executor takes for a task, as YAML. On Kubernetes `pod_template_file` names a file, and
            `pod_override` is a pod as Kubernetes writes it; the container of the task is called `base`.
        priority_weight: Tasks with larger numbers take free slots first.
        retries: Number of Airflow retries of a step after a retryable error.
        retry_delay: How long the first retry waits; each further one waits twice as long.
        max_retry_delay: Longest wait of a retry.
        on_execute_callback, on_success_callback, on_failure_callback, on_retry_callback, on_skipped_callback: Functions that Airflow
            calls with the task's context, by import path.
    """

    pool: str = ""
    pool_slots: int = 1
    queue: str = ""
    executor: str = ""
    executor_config: JsonMapping = EMPTY_MAPPING
    priority_weight: int = 1
    retries: int = 2
    retry_delay: timedelta = timedelta(seconds=30)
    max_retry_delay: timedelta = timedelta(minutes=10)
    on_execute_callback: tuple[str, ...] = ()
    on_success_callback: tuple[str, ...] = ()
    on_failure_callback: tuple[str, ...] = ()
    on_retry_callback: tuple[str, ...] = ()
    on_skipped_callback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveSettings:
    """When a run asks a person in Airflow instead of failing (docs/approvals.md).

    Args:
        decisions: What it asks about; everything else fails as without this setting.
        users: Who may answer, by their ids in Airflow. Unless set, everybody who may act on the DAG's tasks.
        timeout: How long an answer is waited for; then it counts as refused. Less than `run_retention`, and than `run_timeout` if that
            is set.
    """

    decisions: tuple[Decision, ...] = ()
    users: tuple[str, ...] = ()
    timeout: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DagLimits:
    """How much of the DAG works at the same time, and how long.

    Args:
        max_active_runs: Runs of the DAG at the same time. They never work on the same table at once.
        max_active_tasks: Tasks of one run at the same time. 0 = Airflow's `max_active_tasks_per_dag`.
        run_timeout: A run that takes longer is ended and fails. 0s = no limit.
        task_timeout: How long a task without Spark may take: `discover`, `plan`, `commit` and `outcome`. With
            `max_cost`, `discover` has at least 2h.
        spark_timeout: How long a task may take that starts Spark or copies binlogs.
    """

    max_active_runs: int = 2
    max_active_tasks: int = 0
    run_timeout: timedelta = timedelta(0)
    task_timeout: timedelta = timedelta(minutes=15)
    spark_timeout: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class AirflowSettings(Grouped):
    """How Airflow runs the pipeline. `cdc-ops` checks these fields and does not use them.

    A pipeline file writes the fields of `limits` beside the others.

    Args:
        display_name: What Airflow's pages call the DAG; `pipeline` stays the name of its tables. "" = `cdc_<pipeline>`.
        time_zone: IANA time zone of `schedule` and `reconcile_schedule`. Where clocks change, the intervals of runs stay contiguous: a
            daily one has 23 or 25 hours.
        limits: How much of the DAG works at the same time, and how long.
        on_success_callback, on_failure_callback: Functions that Airflow calls with the context of a run, by import path. Airflow's DAG
            processor calls them.
        owner_links: Links of the pipeline's `owner` in Airflow's list of DAGs.
        access_control: Actions on the DAG that Airflow's roles may take, for the auth managers that know roles of DAGs.
        downstream: Whether backfills emit asset events. The trigger form can choose otherwise for a run that reads rows again.
        watch_interval: With `schedule: archive`: how often Airflow's triggerer lists the archive. New files start a run when two listings
            in a row agree.
        spark_history_url: Address of Spark's history server, for a button on the tasks that start Spark. "" = no button.
        approve: When a run asks a person instead of failing.
        tasks: Options of all tasks.
        spark_tasks: Options of the tasks that start Spark (`extract`, `merge`, `sync`, `maintain`), over those of `tasks`, field by field.
    """

    JSON_INLINE = ("limits",)
    display_name: str = ""
    time_zone: str = "UTC"
    limits: DagLimits = DagLimits()
    on_success_callback: tuple[str, ...] = ()
    on_failure_callback: tuple[str, ...] = ()
    owner_links: tuple[tuple[str, str], ...] = ()
    access_control: JsonMapping = EMPTY_MAPPING
    downstream: Downstream = Downstream.EVENTS
    watch_interval: timedelta = timedelta(seconds=30)
    spark_history_url: str = ""
    approve: ApproveSettings = ApproveSettings()
    tasks: TaskOptions = field(default_factory=TaskOptions)
    spark_tasks: TaskOptions = field(default_factory=TaskOptions)
