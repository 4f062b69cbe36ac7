"""A task's surroundings: the run's request from Airflow's context, the ledger opened, the pipeline's tables by name."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, cast

from cdc_ops.airflow.connections import ledger_url, source_url
from cdc_ops.airflow.dag_ids import reconcile_dag_id
from cdc_ops.airflow.job_files import JobFiles, open_journal
from cdc_ops.airflow.run_conf import DagRunFacts, run_request
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, TableConfig
from cdc_ops.core.pipeline.tables.table_matching import chosen_entries, resolve_tables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.sources.base import Source, open_source
from cdc_ops.state.sql import open_store
from cdc_ops.steps.approvals import approved_request
from cdc_ops.steps.context import Context

APPROVED = "approved"
"""The group of tasks that tries refused tables once more, after somebody has let them through."""

ASK = "ask"
"""The task that finds out which refused tables a person may let through."""

PLANNED = "planned"
"""XCom key of the plan task: names of the tables that have operations."""

LABEL = (
    "{% set names = task.op_kwargs.tables if task.op_kwargs is defined else task.tables %}"
    "{{ label or (names[0] if names | length == 1 else names[0] ~ ' … ' ~ names[-1] ~ ' (' ~ names | length ~ ')') }}"
)
"""Template of what the grid shows for a group instead of its number: its tables from the start, then what the task says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """One task of one run.

    Args:
        context: Pipeline, ledger, source.
        request: What the run is for.
        configs: Tables of the task's group; empty in tasks that have none.
        journal: Files of the group's Spark applications.
        attempt: Number of this try.
    """

    context: Context
    request: RunRequest
    configs: tuple[TableConfig, ...]
    journal: JobFiles
    attempt: int

    def only(self, names: Iterable[str]) -> "TaskContext":
        """Returns the task for those of its tables that are named."""
        wanted = set(names)
        return replace(self, configs=tuple(config for config in self.configs if str(config.table) in wanted))


@contextmanager
def opened(pipeline: Pipeline, airflow: Mapping[str, Any], tables: Iterable[str] = ()) -> Iterator[TaskContext]:
    """Opens the ledger for a task and closes it again.

    Args:
        pipeline: The pipeline.
        airflow: Airflow's context of the task.
        tables: `schema.table` names of the task's group.

    Raises:
        RequestError: the run's conf cannot be meant, or the file no longer has the table that the run has asked about.
        ConfigError, LedgerUnavailableError: there is no ledger.
    """
    dag_run = run_facts(airflow)
    reconcile = dag_run.dag_id == reconcile_dag_id(pipeline.name)
    request = run_request(replace(dag_run, reconcile=reconcile, downstream=pipeline.airflow.downstream))
    instance = airflow["ti"]
    names = tuple(tables)
    approved, configs = is_approved(instance.task_id), table_configs(pipeline, names)
    if approved and not configs:
        raise _table_removed(pipeline, names)
    store = open_store(ledger_url())
    try:
        yield TaskContext(
            context=Context(pipeline=pipeline, store=store, connect=connect),
            request=approved_request(store, request, configs[0]) if approved else request,
            configs=configs,
            journal=open_journal(pipeline, request.run_id, instance.map_index, approved=approved),
            attempt=instance.try_number,
        )
    finally:
        store.close()


def _table_removed(pipeline: Pipeline, names: Iterable[str]) -> RequestError:
    return RequestError(
        f"The file of pipeline {pipeline.name} no longer has the table {', '.join(names)}, which this run has asked about.",
        why="It, or the pattern that it matched, was removed from 'tables' after the question was asked.",
        data="Nothing was written in the second try; the watermark stays.",
        next="Nothing to do if that was meant. Otherwise put the table back; the next run asks again.",
    )


def is_approved(task_id: str) -> bool:
    """True for the tasks of the second try."""
    return task_id.startswith(f"{APPROVED}.")


def connect(config: SourceConfig) -> Source:
    """Opens the source behind an Airflow connection."""
    return open_source(config, source_url(config), tuple(source_url(replace(config, connection=name)) for name in config.writers))


def run_facts(airflow: Mapping[str, Any]) -> DagRunFacts:
    """Returns what the context says of the run; a manual run without a logical date has no interval, and the keys are absent."""
    run = airflow["dag_run"]
    start, end = airflow.get("data_interval_start"), airflow.get("data_interval_end")
    interval = cast("tuple[datetime, datetime]", (start, end)) if start is not None and end is not None else None
    return DagRunFacts(
        dag_id=run.dag_id,
        run_id=run.run_id,
        run_type=str(getattr(run.run_type, "value", run.run_type)),
        conf=run.conf or {},
        interval=interval,
    )


def triggered_by(airflow: Mapping[str, Any]) -> str:
    """Returns the name of the user who has triggered the run, "" if nobody has."""
    return getattr(airflow["dag_run"], "triggering_user_name", None) or ""


def table_configs(pipeline: Pipeline, names: Iterable[str]) -> tuple[TableConfig, ...]:
    """Returns the configs of tables that `discover` has found, as far as the file has them still, without asking the source again."""
    wanted = {name: TableName.parse(name) for name in names}
    rules = tuple(rule for rule in pipeline.tables if any(fnmatchcase(name, rule.pattern) for name in wanted))
    return resolve_tables(replace(pipeline, tables=rules), wanted.values()) if chosen_entries(rules, wanted) else ()


def planned_tables(airflow: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names that the plan task of the same group has pushed, also if it failed for other tables."""
    instance = airflow["ti"]
    group = instance.task_id.rpartition(".")[0]
    names = instance.xcom_pull(task_ids=f"{group}.plan" if group else "plan", key=PLANNED, map_indexes=instance.map_index)
    return tuple(names or ())


def label(names: Iterable[str], note: str = "") -> str:
    """Returns what the grid shows for a group instead of its number."""
    known = list(names)
    text = known[0] if len(known) == 1 else f"{known[0]} … {known[-1]} ({len(known)})" if known else "nothing"
    return f"{note}: {text}" if note else text
