"""The verbs that need no Spark, as Airflow tasks: discover, plan, commit and outcome. Each is a thin shell around cdc_ops.steps.

XCom carries names only: `discover` returns groups of tables, `plan` pushes which of them have operations. What those operations are is
in the ledger, where a retry finds it unchanged.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from airflow.sdk import AssetAlias, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, AirflowSkipException

from cdc_ops.airflow.alerts.run_end import airflow_host, notify_after_run
from cdc_ops.airflow.assets import emit, notified_batches
from cdc_ops.airflow.connections import check_spark, source_url, with_airflow_settings
from cdc_ops.airflow.exceptions import RetryableRunError, tables_failed, translated
from cdc_ops.airflow.job_files import expire_journals, summary
from cdc_ops.airflow.metrics import publish_metrics
from cdc_ops.airflow.run_note import NOTE, note_of, text_of, title_of, watermarks_of
from cdc_ops.airflow.run_verdict import asked_again, line_of, refused_before, still_broken, verdict_of
from cdc_ops.airflow.spark.submit import application_environment, source_environment
from cdc_ops.airflow.task_context import (
    APPROVED,
    LABEL,
    PLANNED,
    TaskContext,
    connect,
    label,
    opened,
    planned_tables,
    run_facts,
    triggered_by,
)
from cdc_ops.airflow.turns import Turn, this_turn
from cdc_ops.config.settings import load_settings
from cdc_ops.core.approvals import answer_text
from cdc_ops.core.operation.run_request import is_wrong_request
from cdc_ops.core.phases import phases_text
from cdc_ops.core.pipeline.extras import install_command
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.run_cost import cost_text
from cdc_ops.errors import CdcError, EnvironmentSetupError, LeaseHeldError
from cdc_ops.lake.spark import jars
from cdc_ops.sources.base import Source
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.approvals import accept_gaps, not_refused_before, withdraw
from cdc_ops.steps.archive.copy_binlogs import archive_binlogs
from cdc_ops.steps.discovery import discover_all
from cdc_ops.steps.plan import plan_table
from cdc_ops.steps.reporting.findings import note_failed_run
from cdc_ops.steps.reporting.pipeline_file import note_pipeline_file
from cdc_ops.steps.reporting.warned_before import unchanged_text, warned_before
from cdc_ops.steps.runs.ending import end_unfinished, take_back_events, unexplained_tasks, unexplained_text
from cdc_ops.steps.runs.idle_search import plan_tables
from cdc_ops.steps.runs.run_price import check_run_cost
from cdc_ops.steps.runs.table_groups import GroupPlan, IfHeld, commit_group, first_held
from cdc_ops.steps.runs.work_groups import groups_of_run

log = logging.getLogger("cdc_ops.airflow")

WRONG_REQUEST = "wrong_request"
"""XCom key of the discover task: why what somebody asked for cannot be done."""

CAUSE = "cause"
"""XCom key of the discover task: why it failed, for the receivers of alerts."""

RESULTS = "results"
"""XCom key of the commit task: how each table of the group fared."""

_FAILED_STATES = ("failed", "upstream_failed")


def archive_task(pipeline: Pipeline, **options: Any) -> Any:
    """Adds the task that copies the source's closed binlogs into the pipeline's archive.

    The tasks behind it run also if it fails: what is archived already can be read, and the run's outcome names the failed task.
    """

    @task(task_id="archive", **options)
    def archive() -> None:
        """Copies the server's closed binlogs into the archive."""
        with translated():
            dry_run = bool(run_facts(get_current_context()).conf.get("dry_run"))
            url = source_url(replace(pipeline.source, connection=pipeline.archive.copy.connection))
            report = archive_binlogs(pipeline, url, dry_run=dry_run)
            log.info("%d binlogs copied to %s/%s, which has %d", len(report.copied), report.url, report.folder, report.archived)
            for text in report.warnings:
                log.warning(text)
            if report.gap:
                raise report.gap

    return archive()


def discover_task(pipeline: Pipeline, **options: Any) -> Any:
    """Adds the task that checks the run's conf and all connections, and returns groups of `schema.table` names."""

    @task(task_id="discover", map_index_template="{{ label }}", **options)
    def discover_tables() -> list[list[str]]:
        """Checks all connections and lists the tables of this run, in groups that share one Spark job.

        Where somebody has asked for what cannot be done, there are none, and `outcome` says why: one task fails, and nobody is called.
        """
        context = get_current_context()
        with translated():
            try:
                return _discover(pipeline, context)
            except CdcError as error:
                if not is_wrong_request(run_facts(context).run_type, error):
                    context["ti"].xcom_push(key=CAUSE, value=str(error))
                    raise
                log.error("%s\nThis task ends well; the task 'outcome' fails with this.", error)
                _show(context, "refused")
                context["ti"].xcom_push(key=WRONG_REQUEST, value=str(error))
                return []

    return discover_tables()


def _discover(pipeline: Pipeline, context: Any) -> list[list[str]]:
    with opened(pipeline, context) as here, closing(connect(pipeline.source)) as source:
        here.context.store.confirm_notified(pipeline.name, notified_batches(context))
        found, request = discover_all(here.context, source, here.request), here.request
        names = [str(config.table) for config in found.tables]
        note = note_of(request, names, watermarks_of(here.context.store, pipeline.name, request))
        log.info(text_of(note))
        _show(context, title_of(note))
        context["ti"].xcom_push(key=NOTE, value=note)
        for text in found.warnings:
            log.warning(text)
        if not request.dry_run:
            note_pipeline_file(here.context.store, here.context.pipeline, request.run_id)
            for gap in accept_gaps(here.context.store, pipeline.name, request, triggered_by(context)):
                log.info("%s: the events of %s are given up: %s", gap.table, gap.gap, request.accepts.why)
        preflight(pipeline)
        if request.dry_run:
            _log_dry_run(here, source, found.tables)
            return []
        check_run_cost(here.context, source, request, found.tables)
        configs = found.tables
        return [[str(config.table) for config in group] for group in groups_of_run(here.context, request, configs)]


def plan_task(pipeline: Pipeline, tables: Any, **options: Any) -> Any:
    """Adds the task that freezes the operations of a group in the ledger."""

    @task(task_id="plan", map_index_template=LABEL, **options)
    def plan(tables: Sequence[str]) -> None:
        """Freezes what each table of the group reads, in the ledger; tables without news stay idle."""
        context = get_current_context()
        _show(context, label(tables))
        with translated(), opened(pipeline, context, tables) as here:
            turn = this_turn(context, pipeline.runs.lease_wait)
            if turn.is_later and turn.if_held is IfHeld.HAND_BACK:  # the source is asked when the tables are free
                _hand_back(context, tables, turn, first_held(here.context, here.request, here.configs))
            source = connect(pipeline.source)
            try:
                planned = plan_tables(here.context, source, here.request, here.configs, turn.if_held)
            finally:
                source.close()
            _hand_back(context, tables, turn, planned.held)
            busy = [str(item.table) for item in planned.plans if item.operations]
            context["ti"].xcom_push(key=PLANNED, value=busy)
            _log_plans(here, planned)
            failures = {str(failure.config.table): failure.error for failure in planned.failures}
            if failures := not_refused_before(here.context, here.request, failures):
                raise tables_failed("plan", failures)
            if not busy:
                _show(context, label(tables, "idle"))

    return plan(tables)


def _hand_back(context: Any, tables: Sequence[str], turn: Turn, held: LeaseHeldError | None) -> None:
    """Ends the task until its next turn if a table of its group is held: a slot is not for waiting, least of all for who waits for one."""
    if held is not None:
        _show(context, label(tables, "waits"))
        log.info("Waits, without a slot, until %s UTC at the most for another run's table. %s", f"{turn.until:%Y-%m-%d %H:%M:%S}", held)
        raise AirflowRescheduleException(turn.next_at)  # type: ignore[no-untyped-call]


def commit_task(pipeline: Pipeline, tables: Any, alias: AssetAlias, **options: Any) -> Any:
    """Adds the task that brings the ledger up to the lake for a group, gives the leases back and emits the tables' asset events.

    Asset events go out with green tasks only, and the tables that came through must not lose theirs. So it is green also if another table
    of the group failed and is not tried again: that table's line says why, and the run's outcome is red.
    """

    @task(task_id="commit", map_index_template=LABEL, outlets=[alias], **options)
    def commit(tables: Sequence[str]) -> None:
        """Brings the ledger up to the lake, gives the leases back and emits the asset events."""
        context = get_current_context()
        _show(context, label(tables))
        with translated(), opened(pipeline, context, tables) as here:
            group = here.only(planned_tables(context))
            if not group.configs:
                raise AirflowSkipException("Idle: there is nothing to commit.")
            runs, failures = commit_group(group.context, group.request, group.configs, summary(group.journal.tries()))
            done = [run for run in runs if run.status is TableRunStatus.COMMITTED]
            _show(context, label(tables, f"{len(done)} of {len(group.configs)} committed" if failures else ""))
            for run in runs:
                log.info(line_of(run))
                if run.timing.phases:
                    log.info("%s: %s", run.table, phases_text(run.timing.phases))
            announced = [run for run in done if not run.events.silent]
            if len(announced) < len(done):
                log.info("No asset events of %s: the run is silent", ", ".join(str(run.table) for run in done if run.events.silent))
            emit(context, alias, group.configs, announced)
            context["ti"].xcom_push(key=RESULTS, value=[result_of(run) for run in runs])
            settled = {run.table for run in runs}
            own = {str(failure.config.table): failure.error for failure in failures if failure.config.table not in settled}
            if own:
                _fail_or_go_on(context, own, announced)

    return commit(tables)


def outcome_task(pipeline: Pipeline, **options: Any) -> Any:
    """Adds the task that says how each table of the run fared, and fails if one of them failed.

    So it does if one waits at a gap in its archive that somebody has to look at, although what comes before the gap is merged.
    """

    @task(task_id="outcome", trigger_rule="all_done", **options)
    def outcome() -> None:
        """Logs one line for each table, and fails if one of them failed or waits at a gap."""
        context = get_current_context()
        if wrong_request := context["ti"].xcom_pull(task_ids="discover", key=WRONG_REQUEST):
            raise AirflowFailException(wrong_request)
        groups = context["ti"].xcom_pull(task_ids="discover")
        if groups is None:
            raise _nothing_read(pipeline, context)
        names = [name for group in groups for name in group]
        with translated(), opened(pipeline, context, names) as here:
            if here.request.dry_run:
                raise AirflowSkipException("Dry run: the log of the task 'discover' says what a run would do.")
            runs, broken = _lines_of_run(here, len(names)), _failed_tasks(context)
            runs = end_unfinished(here.context, here.request, here.configs, runs, broken)
            again = asked_again(context)
            mapped = {"tables": groups, APPROVED: again}
            lost = [name for one, parts in mapped.items() for n, part in enumerate(parts) if f"{one}.commit_{n}" in broken for name in part]
            take_back_events(here.context.store, [runs[name] for name in lost if name in runs])
            refused = refused_before(here, runs)
            broken = still_broken(broken, mapped, runs, refused)
            if pipeline.airflow.approve.decisions:
                for record in withdraw(here.context.store, pipeline.name, here.request.run_id):
                    log.info("Asked for approval of %s for %s: %s", record.asked.decision, record.subject, answer_text(record))
            unexplained = unexplained_text(unexplained_tasks(mapped, runs, broken))
            note_failed_run(here.context.store, pipeline.name, here.request, unexplained, began=True)
            publish_metrics(here.context.store, pipeline.name, names, here.request.run_id)
            _notify_receivers(here, context)
            expire_journals(pipeline, here.context.store.now())
        _log_lines(names, runs, refused)
        if verdict := verdict_of([name for name in names if name not in refused], runs, broken):
            raise AirflowFailException(verdict)

    return outcome()


def _log_lines(names: Sequence[str], runs: Mapping[str, TableRun], refused: Mapping[str, str]) -> None:
    for name in names:
        log.info(line_of(runs[name]) if name in runs else f"{name}: not looked at")
        for text in runs[name].notices if name in runs else ():
            log.error("%s: %s", name, text)
        if name in refused:
            log.warning("%s: %s", name, refused[name])


def _nothing_read(pipeline: Pipeline, context: Any) -> AirflowFailException:
    """Notes that a run came to no table, tells the receivers why, and returns what the run fails with."""
    nothing, cause = "No table was read: the task 'discover' failed", context["ti"].xcom_pull(task_ids="discover", key=CAUSE)
    with suppress(CdcError), opened(pipeline, context) as here:  # without a ledger, the run still says why it failed
        if not here.request.dry_run:
            note_failed_run(here.context.store, pipeline.name, here.request, f"{nothing}: {cause}" if cause else f"{nothing}; see its log.")
            _notify_receivers(here, context)
    return AirflowFailException(f"{nothing}; see its log.")


def _notify_receivers(here: TaskContext, context: Any) -> None:
    """Tells the receivers how the run has ended, which Airflow has at work until this task is over."""
    host = airflow_host(here.context.pipeline, context["ti"], ending=here.request.run_id)
    notify_after_run(here.context.pipeline, here.context.store, host)


def _fail_or_go_on(context: Any, errors: Mapping[str, CdcError], announced: Sequence[TableRun]) -> None:
    """Fails a commit task if it is tried again, or if no table has an event to lose; otherwise it logs the errors.

    Args:
        context: Airflow's context of the task.
        errors: Of tables that could not be settled.
        announced: Lines of tables that have events.
    """
    instance, error = context["ti"], tables_failed("commit", errors)
    is_tried_again = isinstance(error, RetryableRunError) and instance.try_number <= instance.max_tries
    if is_tried_again or not announced:
        raise error
    log.error("%s\nThis task ends well, so that the other tables have their asset events; the task 'outcome' fails.", error)


def preflight(pipeline: Pipeline) -> None:
    """Checks, in seconds and before anything is planned, what a Spark step will need.

    Raises:
        ConfigError: a connection is missing or cannot be meant.
        EnvironmentSetupError: the folder of jars is empty, or the client of Kubernetes is missing.
    """
    if pipeline.spark.connect:
        log.info("Spark server: %s", pipeline.spark.connect)
        source_environment(pipeline)
        return
    master = check_spark(pipeline)
    log.info("Spark master: %s", master)
    if master.startswith("k8s://") and find_spec("kubernetes") is None:
        raise EnvironmentSetupError(
            f"The Airflow connection {pipeline.spark.connection!r} names {master}, and this worker cannot talk to Kubernetes.",
            why="Airflow's Spark hook asks Kubernetes for the driver, with a client that is not installed.",
            data="Nothing was read or written; the watermark stays.",
            next=install_command("kubernetes"),
        )
    application_environment(pipeline)
    folder = pipeline.spark.jars or load_settings(with_airflow_settings(os.environ)).jars
    if folder:
        jars.jar_list(Path(folder))


def result_of(run: TableRun) -> dict[str, Any]:
    """Returns how a table fared, for other tasks and the REST API."""
    counts = run.result.counts
    rows = {"read": counts.read, "inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}
    names = {"table": str(run.table), "status": run.status.value, "kind": run.kind.value}
    return {**names, "rows": rows, "delta_version": run.result.delta_version, "late_rows": run.result.late_rows}


def _log_plans(here: TaskContext, planned: GroupPlan) -> None:
    for item in planned.plans:
        rows = sum(operation.expected_rows for operation in item.operations)
        log.info(
            "%s: %s", item.table, f"{len(item.operations)} operations, about {rows:,} rows" if item.operations else f"idle, {item.new.idle}"
        )
        if item.cost is not None:
            log.info("%s: estimated: %s", item.table, cost_text(item.cost.all))
        if item.alert:
            log.error("%s: %s", item.table, item.alert)
        before = warned_before(here.context.store, item.config.pipeline, item.table, here.request.run_id) if item.warnings else ()
        for text in item.warnings:
            if text not in before:
                log.warning("%s: %s", item.table, text)
        if text := unchanged_text(sum(text in before for text in item.warnings), "an earlier run's log of this task has them"):
            log.info("%s: %s", item.table, text)


def _log_dry_run(here: TaskContext, source: Source, configs: Sequence[TableConfig]) -> None:
    """Says what each table's plan would be; one that cannot be planned says why, and the others go on."""
    failures: dict[str, CdcError] = {}
    for config in configs:
        try:
            plan = plan_table(here.context, source, here.request, config)
        except CdcError as error:
            failures[str(config.table)] = error
            continue
        _log_plans(here, GroupPlan(plans=(plan,)))
    if failures:
        raise tables_failed("dry run", failures)
    log.info("Dry run: nothing was written.")


def _lines_of_run(here: TaskContext, tables: int) -> dict[str, TableRun]:
    pipeline, run_id = here.context.pipeline.name, here.request.run_id
    return {str(run.table): run for run in here.context.store.table_runs(pipeline, run_id=run_id, limit=max(tables, 1))}


def _failed_tasks(context: Any) -> list[str]:
    run = context["dag_run"]
    states = context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id]).get(run.run_id, {})
    return sorted(name for name, state in states.items() if state in _FAILED_STATES)


def _show(context: Any, text: str) -> None:
    context["label"] = text
