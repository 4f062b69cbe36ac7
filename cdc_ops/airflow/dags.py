"""DAGs from pipeline files: one per file, the verbs as tasks, mapped over groups of tables. Nothing is connected to while parsing.

discover -> [ plan -> sync -> commit -> maintain ] x groups -> outcome             where execution is fused
discover -> [ plan -> extract -> merge -> commit -> maintain ] x groups -> outcome   where it is separate

Where the pipeline copies binlogs, `archive` comes before `discover`.
"""

import logging
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, CronDataIntervalTimetable, TriggerRule, get_parsing_context, task, task_group

from cdc_ops.airflow import tasks
from cdc_ops.airflow.assets import pipeline_alias
from cdc_ops.airflow.dag_ids import dag_id, reconcile_dag_id
from cdc_ops.airflow.exceptions import to_airflow
from cdc_ops.airflow.params import doc_md, params, reconcile_params
from cdc_ops.airflow.spark.submit import CdcMaintainOperator, CdcSparkSubmitOperator
from cdc_ops.config.fields.values import parse_cron
from cdc_ops.config.loading import FolderContents, load_pipeline, pipeline_files, read_folder
from cdc_ops.core.operation.job import Step
from cdc_ops.core.pipeline.pipeline import Execution, Pipeline
from cdc_ops.errors import ConfigError

log = logging.getLogger(__name__)

MAX_ACTIVE_RUNS: Final = 2
"""A run by hand can go beside a scheduled one; that they do not work on the same table at once is the leases' matter."""

SPARK_TIMEOUT: Final = timedelta(hours=24)
QUICK_TIMEOUT: Final = timedelta(minutes=15)
PRICE_TIMEOUT: Final = timedelta(hours=2)
"""For `discover` of a pipeline with `max_cost`: it plans all tables, to know what they cost together."""
_RETRY_DELAY: Final = timedelta(seconds=30)
_MAX_RETRY_DELAY: Final = timedelta(minutes=10)


def build_dags(folder: str | Path) -> dict[str, DAG]:
    """Builds the DAGs of a folder of pipeline files, sorted by name.

    A file that is wrong does not take the others down: Airflow marks every DAG of a Python file as broken if that file reports an error,
    so the wrong file's DAG stays, tagged `broken`, and its runs fail at once with the error.

    Raises:
        ConfigError: there is no such folder.
    """
    wanted = get_parsing_context().dag_id
    contents = read_folder(folder)
    dags: dict[str, DAG] = {}
    for pipeline in contents.pipelines:
        if wanted in (None, dag_id(pipeline.name)):
            dags[dag_id(pipeline.name)] = build_dag(pipeline)
        if pipeline.reconcile_schedule and wanted in (None, reconcile_dag_id(pipeline.name)):
            dags[reconcile_dag_id(pipeline.name)] = build_reconcile_dag(pipeline)
    for name, (schedule, error) in _broken(folder, contents).items():
        log.error("%s", error)
        dags[dag_id(name)] = _broken_dag(dag_id(name), schedule, error)
    return dict(sorted(dags.items()))


def build_dag(pipeline: Pipeline) -> DAG:
    """Builds the DAG of one pipeline; its size does not depend on the number of tables."""
    return _verbs(
        pipeline,
        _timetable(pipeline.schedule),
        archives=pipeline.archive.copy.is_set,
        dag_id=dag_id(pipeline.name),
        max_active_runs=MAX_ACTIVE_RUNS,
        tags=sorted({"cdc", "declared" if pipeline.source.is_declared else pipeline.source.kind.value, *pipeline.info.tags}),
        description=pipeline.info.description or f"Keeps tables of {_origin(pipeline)} equal in {pipeline.target.root}",
        doc_md=doc_md(pipeline),
        params=params(pipeline),
    )


def _origin(pipeline: Pipeline) -> str:
    return pipeline.source.connection or pipeline.archive.url


def build_reconcile_dag(pipeline: Pipeline) -> DAG:
    """Builds the DAG that compares all tables of a pipeline with their source, on a schedule of its own, by the same verbs."""
    return _verbs(
        pipeline,
        _timetable(pipeline.reconcile_schedule),
        dag_id=reconcile_dag_id(pipeline.name),
        max_active_runs=1,
        tags=sorted({"cdc", "reconcile", pipeline.source.kind.value, *pipeline.info.tags}),
        description=f"Finds changes in {pipeline.source.connection} without a cursor change: deletes, changed keys, lost rows",
        doc_md=doc_md(pipeline),
        params=reconcile_params(pipeline),
    )


def _verbs(pipeline: Pipeline, timetable: CronDataIntervalTimetable | None, *, archives: bool = False, **options: Any) -> DAG:
    with DAG(
        schedule=timetable,
        start_date=pipeline.start_date,
        catchup=False,
        default_args=_default_args(pipeline),
        render_template_as_native_obj=False,
        **options,
    ) as dag:
        patience = PRICE_TIMEOUT if pipeline.runs.max_cost.is_set else QUICK_TIMEOUT
        rule = TriggerRule.ALL_DONE if archives else TriggerRule.ALL_SUCCESS
        groups = tasks.discover_task(pipeline, execution_timeout=patience, trigger_rule=rule)
        if archives:
            tasks.archive_task(pipeline, execution_timeout=SPARK_TIMEOUT) >> groups
        _table_group(pipeline).expand(tables=groups) >> tasks.outcome_task(pipeline, execution_timeout=QUICK_TIMEOUT)
    return dag


def _table_group(pipeline: Pipeline) -> Any:
    steps = (Step.SYNC,) if pipeline.runs.execution is Execution.FUSED else (Step.EXTRACT, Step.MERGE)

    @task_group(group_id="tables")
    def tables_of_a_job(tables: Any) -> None:
        """Tables that share one Spark application in each step."""
        previous = tasks.plan_task(pipeline, tables, execution_timeout=pipeline.runs.lease_wait + QUICK_TIMEOUT)
        for step in steps:
            submit = CdcSparkSubmitOperator(
                task_id=step.value,
                pipeline=pipeline,
                step=step,
                tables=tables,
                map_index_template="{{ label }}",
                trigger_rule=TriggerRule.NONE_SKIPPED,
                execution_timeout=SPARK_TIMEOUT,
            )
            previous >> submit
            previous = submit
        alias = pipeline_alias(pipeline.name)
        commit = tasks.commit_task(pipeline, tables, alias, trigger_rule=TriggerRule.NONE_SKIPPED, execution_timeout=QUICK_TIMEOUT)
        maintain = CdcMaintainOperator(
            task_id=Step.MAINTAIN.value,
            pipeline=pipeline,
            tables=tables,
            map_index_template="{{ label }}",
            trigger_rule=TriggerRule.ALL_DONE,
            execution_timeout=SPARK_TIMEOUT,
        )
        previous >> commit >> maintain

    return tables_of_a_job


def _default_args(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "owner": pipeline.info.owner,
        "retries": pipeline.runs.retries,
        "retry_delay": _RETRY_DELAY,
        "retry_exponential_backoff": True,
        "max_retry_delay": _MAX_RETRY_DELAY,
    }


def _timetable(schedule: str) -> CronDataIntervalTimetable | None:
    """A timetable with real intervals: a plain cron text has empty ones in Airflow 3, and a backfill would read nothing."""
    return CronDataIntervalTimetable(schedule, timezone="UTC") if schedule else None


def _broken(folder: str | Path, contents: FolderContents) -> dict[str, tuple[str, ConfigError]]:
    """Pipelines that cannot be used: name, schedule as far as it can be made out, error."""
    broken: dict[str, tuple[str, ConfigError]] = {}
    for path in pipeline_files(folder):
        try:
            pipeline = load_pipeline(path)
        except ConfigError as error:
            name, schedule = _glimpse(path)
            broken.setdefault(name, (schedule, error))
            continue
        if pipeline.name in contents.taken:
            broken.setdefault(pipeline.name, (pipeline.schedule, contents.taken[pipeline.name]))
    return broken


def _glimpse(path: Path) -> tuple[str, str]:
    """What a file that cannot be read would be called, and when it would run."""
    text = path.read_text("utf-8", errors="replace") if path.is_file() else ""
    found = {
        name: value.strip("'\" ") for name, value in re.findall(r"^(pipeline|schedule):[ \t]*([^#\n]+?)[ \t]*(?:#.*)?$", text, re.MULTILINE)
    }
    name = found.get("pipeline", "")
    return name if re.fullmatch(r"[a-z][a-z0-9_]*", name) else re.sub(r"\W+", "_", path.stem), found.get("schedule", "")


def _broken_dag(identity: str, schedule: str, error: ConfigError) -> DAG:
    try:
        timetable = _timetable(parse_cron(schedule))
    except ValueError:  # the schedule may be what is wrong; then the DAG has none
        timetable = None
    with DAG(
        dag_id=identity,
        schedule=timetable,
        catchup=False,
        max_active_runs=1,
        tags=["broken", "cdc"],
        description=error.what.splitlines()[0],
        doc_md=f"**The pipeline file has errors; its tables are not updated.**\n\n```\n{error}\n```",
        default_args={"owner": "cdc-ops", "retries": 0, "execution_timeout": QUICK_TIMEOUT},
    ) as dag:

        @task(task_id="discover")
        def discover() -> None:
            """Fails with the error of the pipeline's file."""
            raise to_airflow(error)

        discover()
    return dag
