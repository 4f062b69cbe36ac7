"""DAGs from pipeline files: one per file, the verbs as tasks, mapped over groups of tables. Nothing is connected to while parsing.

discover -> [ plan -> sync -> commit -> maintain ] x groups -> outcome             where execution is fused
discover -> [ plan -> extract -> merge -> commit -> maintain ] x groups -> outcome   where it is separate

Where the pipeline copies binlogs, `archive` comes before `discover`. Where it asks for approvals, refused tables get a second try before
`outcome`: ask -> [ approve -> plan -> sync -> commit ] x questions (`airflow.approvals`).
"""

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, CronDataIntervalTimetable, TriggerRule, get_parsing_context, task, task_group

from cdc_ops.airflow import tasks
from cdc_ops.airflow.alerts.dag import ALERTS_DAG, build_alerts_dag, wants_alerts
from cdc_ops.airflow.approvals import CdcApprovalOperator, ask_task
from cdc_ops.airflow.assets import pipeline_alias
from cdc_ops.airflow.dag_ids import DECLARED, TAG, dag_id, reconcile_dag_id
from cdc_ops.airflow.exceptions import to_airflow
from cdc_ops.airflow.options.dag_options import check_executors, dag_options, new_dag, task_options
from cdc_ops.airflow.params import doc_md, params, reconcile_params
from cdc_ops.airflow.schedules import schedule_of, timetable
from cdc_ops.airflow.spark.submit import CdcMaintainOperator, CdcSparkSubmitOperator
from cdc_ops.airflow.task_context import APPROVED, LABEL
from cdc_ops.config.broken_files import broken_files
from cdc_ops.config.fields.values import parse_cron
from cdc_ops.config.loading import FolderContents, load_pipeline, pipeline_files, read_folder
from cdc_ops.core.operation.job import Step
from cdc_ops.core.pipeline.pipeline import Execution, Pipeline
from cdc_ops.errors import ConfigError

__all__ = ["build_dag", "build_dags"]

log = logging.getLogger("cdc_ops.airflow")

ALL_BUT_BACKFILLS: Final = ("scheduled", "manual", "operator_triggered", "asset_triggered", "asset_materialization")
"""Of DAGs that reconcile: a reconcile compares whole tables, so one run for each interval would do the same again and again. And of
pipelines without a database, which a backfill reads. Airflow then offers no backfill, instead of runs that fail one by one.

The status page tells a DAG that reconciles by this setting and by the lack of the tag `declared`: no other DAG has both.
"""

BROKEN_TIMEOUT: Final = timedelta(minutes=15)
PRICE_TIMEOUT: Final = timedelta(hours=2)
"""For `discover` of a pipeline with `max_cost`: it plans all tables, to know what they cost together."""


def build_dags(folder: str | Path, *, alerts_dag_id: str = ALERTS_DAG) -> dict[str, DAG]:
    """Builds the DAGs of a folder of pipeline files, sorted by name; and the one that tells what is wrong, if a file says whom or when.

    A file that is wrong does not take the others down: Airflow marks every DAG of a Python file as broken if that file reports an error,
    so the wrong file's DAG stays, tagged `broken`, and its runs fail at once with the error.

    Args:
        folder: With the pipeline files.
        alerts_dag_id: Of the DAG that tells what is wrong. A second folder needs another: of two DAGs with one id Airflow runs one.

    Raises:
        ConfigError: there is no such folder.
    """
    wanted = get_parsing_context().dag_id
    contents = read_folder(folder)
    dags: dict[str, DAG] = {}
    for pipeline in contents.pipelines:
        builders = {dag_id(pipeline.name): build_dag}
        if pipeline.reconcile_schedule:
            builders[reconcile_dag_id(pipeline.name)] = build_reconcile_dag
        for identity, build in builders.items():
            if wanted in (None, identity):
                dags[identity] = _built_or_broken(identity, build, pipeline)
    if wanted in (None, alerts_dag_id) and _wants_alerts(folder, contents):
        dags[alerts_dag_id] = build_alerts_dag(folder, alerts_dag_id, execution_timeout=BROKEN_TIMEOUT)
    for name, (schedule, error) in _broken(folder, contents).items():
        if wanted in (None, dag_id(name)):  # a task of another pipeline has nothing to do with it, nor has its log
            dags[dag_id(name)] = _broken_dag(dag_id(name), _timetable_if_valid(schedule), error)
    return dict(sorted(dags.items()))


def _built_or_broken(identity: str, build: Callable[[Pipeline], DAG], pipeline: Pipeline) -> DAG:
    """Builds a DAG; what only Airflow can tell of a pipeline file, such as a callback that is missing, breaks this DAG alone."""
    try:
        return build(pipeline)
    except ConfigError as error:
        schedule = pipeline.cron if identity == dag_id(pipeline.name) else pipeline.reconcile_schedule
        return _broken_dag(identity, timetable(schedule, pipeline.airflow.time_zone), error)


def build_dag(pipeline: Pipeline) -> DAG:
    """Builds the DAG of one pipeline; its size does not depend on the number of tables."""
    return _verbs(
        pipeline,
        schedule_of(pipeline),
        archives=pipeline.archive.copy.is_set,
        dag_id=dag_id(pipeline.name),
        dag_display_name=pipeline.airflow.display_name or dag_id(pipeline.name),
        max_active_runs=pipeline.airflow.limits.max_active_runs,
        allowed_run_types=ALL_BUT_BACKFILLS if pipeline.source.is_declared else None,
        tags=sorted({TAG, DECLARED if pipeline.source.is_declared else pipeline.source.kind.value, *pipeline.info.tags}),
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
        timetable(pipeline.reconcile_schedule, pipeline.airflow.time_zone),
        dag_id=reconcile_dag_id(pipeline.name),
        dag_display_name=f"{name} (reconcile)" if (name := pipeline.airflow.display_name) else reconcile_dag_id(pipeline.name),
        max_active_runs=1,
        allowed_run_types=ALL_BUT_BACKFILLS,
        tags=sorted({TAG, "reconcile", pipeline.source.kind.value, *pipeline.info.tags} - {DECLARED}),
        description=f"Finds changes in {pipeline.source.connection} without a cursor change: deletes, changed keys, lost rows",
        doc_md=doc_md(pipeline),
        params=reconcile_params(pipeline),
    )


def _verbs(pipeline: Pipeline, schedule: Any, *, archives: bool = False, **options: Any) -> DAG:
    quick = pipeline.airflow.limits.task_timeout
    dag = new_dag(
        schedule=schedule,
        start_date=pipeline.start_date,
        catchup=False,
        default_args={"owner": pipeline.info.owner, **task_options(pipeline, "tasks")},
        render_template_as_native_obj=False,
        **dag_options(pipeline),
        **options,
    )
    with dag:
        patience = max(PRICE_TIMEOUT, quick) if pipeline.runs.max_cost.is_set else quick
        rule = TriggerRule.ALL_DONE if archives else TriggerRule.ALL_SUCCESS
        groups = tasks.discover_task(pipeline, execution_timeout=patience, trigger_rule=rule)
        if archives:
            tasks.archive_task(pipeline, execution_timeout=pipeline.airflow.limits.spark_timeout) >> groups
        first = _table_group(pipeline).expand(tables=groups)
        outcome = tasks.outcome_task(pipeline, execution_timeout=quick)
        first >> outcome
        if pipeline.airflow.approve.decisions:
            asked = ask_task(pipeline, execution_timeout=quick)
            first >> asked
            _approved_group(pipeline).expand(tables=asked) >> outcome
    check_executors(pipeline, dag)
    return dag


def _table_group(pipeline: Pipeline) -> Any:
    @task_group(group_id="tables")
    def tables_of_a_job(tables: Any) -> None:
        """Tables that share one Spark application in each step."""
        _, commit = _plan_to_commit(pipeline, tables)
        maintain = CdcMaintainOperator(
            task_id=Step.MAINTAIN.value,
            pipeline=pipeline,
            tables=tables,
            trigger_rule=TriggerRule.ALL_DONE,
            **_spark_options(pipeline),
        )
        commit >> maintain

    return tables_of_a_job


def _approved_group(pipeline: Pipeline) -> Any:
    @task_group(group_id=APPROVED)
    def refused_table(tables: Any) -> None:
        """A table that was refused: the question, and one more try with what was granted."""
        approve = CdcApprovalOperator(task_id="approve", pipeline=pipeline, tables=tables, map_index_template=LABEL)
        plan, _ = _plan_to_commit(pipeline, tables)
        approve >> plan

    return refused_table


def _plan_to_commit(pipeline: Pipeline, tables: Any) -> tuple[Any, Any]:
    """Adds the tasks that move rows; returns the first and the last."""
    steps = (Step.SYNC,) if pipeline.runs.execution is Execution.FUSED else (Step.EXTRACT, Step.MERGE)
    quick = pipeline.airflow.limits.task_timeout
    plan = previous = tasks.plan_task(pipeline, tables, execution_timeout=quick)
    for step in steps:
        submit = CdcSparkSubmitOperator(
            task_id=step.value,
            pipeline=pipeline,
            step=step,
            tables=tables,
            trigger_rule=TriggerRule.NONE_SKIPPED,
            **_spark_options(pipeline),
        )
        previous >> submit
        previous = submit
    alias = pipeline_alias(pipeline.name)
    commit = tasks.commit_task(pipeline, tables, alias, trigger_rule=TriggerRule.NONE_SKIPPED, execution_timeout=quick)
    previous >> commit
    return plan, commit


def _spark_options(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "map_index_template": LABEL,
        "execution_timeout": pipeline.airflow.limits.spark_timeout,
        **task_options(pipeline, "spark_tasks"),
    }


def _timetable_if_valid(schedule: str) -> CronDataIntervalTimetable | None:
    try:
        return timetable(parse_cron(schedule))
    except ValueError:  # the schedule may be what is wrong; then the DAG has none
        return None


def _broken(folder: str | Path, contents: FolderContents) -> dict[str, tuple[str, ConfigError]]:
    """Pipelines that cannot be used: name, schedule as far as it can be made out, error."""
    broken = {one.name: (one.schedule, one.error) for one in reversed(broken_files(folder))}
    taken = (path for path in pipeline_files(folder) if contents.taken)
    for path in taken:
        with suppress(ConfigError):
            pipeline = load_pipeline(path)
            if pipeline.name in contents.taken:
                broken.setdefault(pipeline.name, (pipeline.cron, contents.taken[pipeline.name]))
    return broken


def _wants_alerts(folder: str | Path, contents: FolderContents) -> bool:
    """True if somebody is to be told, or a table has a limit; in a file that cannot be used, as far as its text shows."""
    if any(map(wants_alerts, contents.pipelines)):
        return True
    broken = (path for path in pipeline_files(folder) if path.is_file()) if contents.errors else ()
    return any(re.search(r"^notify:|\bmax_lag:", path.read_text("utf-8", errors="replace"), re.MULTILINE) for path in broken)


def _broken_dag(identity: str, schedule: CronDataIntervalTimetable | None, error: ConfigError) -> DAG:
    log.error("%s", error)
    with DAG(
        dag_id=identity,
        schedule=schedule,
        catchup=False,
        max_active_runs=1,
        tags=["broken", TAG],
        description=error.what.splitlines()[0],
        doc_md=f"**The pipeline file has errors; its tables are not updated.**\n\n```\n{error}\n```",
        default_args={"owner": "cdc-ops", "retries": 0, "execution_timeout": BROKEN_TIMEOUT},
    ) as dag:

        @task(task_id="discover")
        def discover() -> None:
            """Fails with the error of the pipeline's file."""
            raise to_airflow(error)

        discover()
    return dag
