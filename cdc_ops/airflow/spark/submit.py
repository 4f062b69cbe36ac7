"""The Spark steps as Airflow tasks: spark-submit of one application for a group of tables, and its result file read back.

Credentials reach the application in its environment only. They are set on the hook right before it starts the process: not on the command
line, not in Spark's configuration, not in a template field, and so not in logs, the database of Airflow or the UI.
"""

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

import cdc_ops
from cdc_ops.airflow.connections import check_spark, deploy_mode, extras, find_connection, source_url, with_airflow_settings
from cdc_ops.airflow.exceptions import tables_failed, translated
from cdc_ops.airflow.spark.client_process import ClientProcess
from cdc_ops.airflow.spark.hook import CdcSparkHook
from cdc_ops.airflow.spark.links import SparkHistoryLink, TablesLink
from cdc_ops.airflow.spark.pending_work import count_attempts, named, open_work, record_progress, take_leases
from cdc_ops.airflow.task_context import TaskContext, label, opened, planned_tables
from cdc_ops.config.secret_files import take_secret
from cdc_ops.config.settings import load_settings
from cdc_ops.core.operation.job import JobSpec, Step, StepResult
from cdc_ops.core.pipeline.connect_address import TOKEN_VARIABLE
from cdc_ops.core.pipeline.connections import variable_name
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig
from cdc_ops.core.processes import end_words, executor_words
from cdc_ops.errors import ConfigError, EnvironmentSetupError, JobLostError, StaleStateError
from cdc_ops.lake.spark import jars
from cdc_ops.lake.spark.conf import store_conf
from cdc_ops.lake.spark.jvm.class_archive import NOTHING, ArchiveUse, archive_use
from cdc_ops.lake.spark.jvm.jvm_options import driver_conf
from cdc_ops.state.lease import Lease
from cdc_ops.state.lease_renewal import LeaseKeeper
from cdc_ops.steps.approvals import not_refused_before
from cdc_ops.steps.maintain import due_maintenance, lease_maintenance
from cdc_ops.steps.plan import build_job
from cdc_ops.steps.runs.run import maintenance_job, settle_maintenance

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

_MERGING = (Step.MERGE, Step.SYNC)
_EXIT_CODE = re.compile(r"(?:Error code is: |ended with exit code )(-?\d+)")
_CODE_ON_CLUSTER = re.compile(r"(?:Kubernetes spark exit code is|[eE]xit ?[cC]ode): ([1-9]\d*)")
LAST_LINES = 12
"""Lines of Spark's output that an error shows when there is no result to show."""


class CdcSparkSubmitOperator(SparkSubmitOperator):
    """One Spark step (extract, merge or sync) for a group of tables.

    What is left to do is taken from the ledger at each try, so a retry re-does only what failed. If some tables fail, the others'
    work stands and the task fails with one error that names them.

    Args:
        pipeline: The pipeline, as parsed; it is not serialized.
        step: Which step.
        tables: `schema.table` names of the group (templated).
        **kwargs: As for every operator.
    """

    template_fields: Sequence[str] = ("tables",)
    operator_extra_links = (TablesLink(), SparkHistoryLink())

    def __init__(self, *, pipeline: Pipeline, step: Step, tables: Any, **kwargs: Any) -> None:
        super().__init__(
            conn_id=pipeline.spark.connection,
            conf=dict(pipeline.spark.conf),
            driver_memory=pipeline.spark.driver_memory,
            name=f"cdc-ops {pipeline.name} {step}",
            durable=False,
            **kwargs,
        )
        self.pipeline = pipeline
        self.step = step
        self.tables = tables
        self.spark_application = ""
        self._client: ClientProcess | None = None

    def execute(self, context: Context) -> None:
        """Does what is left of the step for the tables that the plan has operations for."""
        with translated(), opened(self.pipeline, context, self.tables) as task:
            group = task.only(planned_tables(context))
            _show(context, label(self.tables) if group.configs else label(self.tables, "idle"))
            if not group.configs:
                raise AirflowSkipException("Idle: the plan has no operation for these tables, so Spark does not start.")
            self._work(context, group)

    def on_kill(self) -> None:
        """Kills the application, if one was started."""
        if self._client is not None:
            self._client.stop()
        if self._hook is not None:
            super().on_kill()

    def get_openlineage_facets_on_start(self) -> "OperatorLineage[Any, Any] | None":
        """Tells Airflow's OpenLineage provider what the task is going to read and write."""
        from cdc_ops.airflow.lineage.events import planned_lineage

        return planned_lineage(self.pipeline, self.step, self.tables)

    def get_openlineage_facets_on_complete(self, task_instance: "RuntimeTaskInstanceProtocol") -> "OperatorLineage[Any, Any] | None":
        """Tells it what the task has read and written, and how far it came if it failed."""
        from cdc_ops.airflow.lineage.events import done_lineage

        return done_lineage(self.pipeline, self.step, task_instance)

    def _work(self, context: Context, task: TaskContext) -> None:
        work = open_work(task, self.step)
        if work.not_landed and not work.operations:
            raise AirflowFailException(f"Nothing to merge: {', '.join(work.not_landed)} failed in the task 'extract'; see its log.")
        if work.not_landed:
            self.log.warning("Not merged, because they failed in the task 'extract': %s", ", ".join(work.not_landed))
        leases, errors = take_leases(task, work.operations)
        held = {lease.table for lease in leases}
        operations = tuple(operation for operation in work.operations if operation.table in held)
        if operations:
            count_attempts(task, leases, operations)
            path = task.journal.result_path(self.step, task.attempt)
            result = self._submit(context, task, build_job(task.context, task.request, self.step, operations, path), leases)
            record_progress(task, self.step, result)
            errors |= not_refused_before(task.context, task.request, result.errors)
        elif not errors:
            self.log.info("Nothing to do for %s, so Spark does not start.", ", ".join(named(task.configs)))
        if errors:
            raise tables_failed(self.step, errors)

    def _submit(self, context: Context, task: TaskContext, job: JobSpec, leases: Sequence[Lease]) -> StepResult:
        """Runs one application and returns its result; meanwhile the leases are kept alive."""
        path = task.journal.write(job, task.attempt)
        archive = NOTHING if self.pipeline.spark.connect else self._prepare(path, job)
        lost: list[Lease] = []

        def stop(lease: Lease) -> None:
            lost.append(lease)
            self.on_kill()

        failure, began = "", time.monotonic()
        with LeaseKeeper(task.context.store, leases, task.context.lease_ttl, stop):
            try:
                if self.pipeline.spark.connect:
                    self._run_client(path, job.step)
                else:
                    super().execute(context)
            except AirflowException as error:
                failure = str(error)
            finally:
                _close_output(self._hook)
        result = task.journal.result(job.step, task.attempt)
        archive.keep(ended_well=result is not None)
        if result is not None:
            self.spark_application = result.spark_application
            return task.journal.with_start_seconds(result, task.attempt, time.monotonic() - began)
        if lost:
            raise _lease_lost(lost[0])
        if self.pipeline.spark.connect:
            raise _job_lost(self.step, failure, "", on_cluster=False)
        raise _job_lost(self.step, failure, self.pipeline.spark.driver_memory, on_cluster=deploy_mode(self.pipeline) == "cluster")

    def _run_client(self, spec_path: str, step: Step) -> None:
        """Runs the application as a process of its own, which works on the Spark server."""
        self._client = ClientProcess(self.log.info)
        environment = os.environ | source_environment(self.pipeline)
        take_secret(TOKEN_VARIABLE, environment)
        self._client.run([sys.executable, str(application(step)), spec_path], environment)

    def _prepare(self, spec_path: str, job: JobSpec) -> ArchiveUse:
        """Sets what spark-submit is started with; returns what its JVM does with the archive of classes."""
        check_spark(self.pipeline)
        self.application = str(application(job.step))
        self.application_args = [spec_path]
        self.conf = {**store_conf(os.environ), **(self.conf or {})}
        extra = extras(find_connection(self.pipeline.spark.connection, ""))
        own = Path(sys.executable).parent / "spark-submit"
        if own.exists() and not extra.get("spark-binary"):
            self._spark_binary = str(own)
        folder = self.pipeline.spark.jars or load_settings(with_airflow_settings(os.environ)).jars
        if folder:
            self.jars = jars.jar_list(Path(folder))
        elif "spark.jars" not in (self.conf or {}):
            self.packages = ",".join(str(one) for one in jars.RESOLVED)
            self.exclude_packages = ",".join(jars.NOT_TRANSITIVE)
        return self._size_jvm(job, own_spark=not extra.get("spark-binary"))

    def _size_jvm(self, job: JobSpec, *, own_spark: bool) -> ArchiveUse:
        """Gives the driver of a small job the JVM for it, if the driver is a process of this machine."""
        if not job.small or deploy_mode(self.pipeline) == "cluster":
            return NOTHING
        folder = (
            load_settings(with_airflow_settings(os.environ)).classes if own_spark else None
        )  # of another Spark it is not known where its classes are
        archive = archive_use(folder, (self.jars or "").split(","), os.environ, writes=job.step in _MERGING)
        chosen = dict(self.pipeline.spark.conf)
        self.conf = {**(self.conf or {}), **driver_conf(chosen, os.environ, small=True, archive=archive.options)}
        return archive

    def _get_hook(self) -> SparkSubmitHook:
        """Returns the hook with what the pipeline sets: other arguments of Airflow's own operator are not handed on."""
        hook = CdcSparkHook(
            self._conn_id,
            conf=self.conf,
            jars=self.jars,
            packages=self.packages,
            exclude_packages=self.exclude_packages,
            driver_memory=self._driver_memory,
            name=self.name,
            application_args=self.application_args,
            spark_binary=self._spark_binary,
        )
        hook._env = application_environment(self.pipeline)
        return hook


class CdcMaintainOperator(CdcSparkSubmitOperator):
    """OPTIMIZE and VACUUM for the tables of a group that are due; starts no Spark when none is.

    Args:
        pipeline: The pipeline, as parsed; it is not serialized.
        tables: `schema.table` names of the group (templated).
        **kwargs: As for every operator.
    """

    def __init__(self, *, pipeline: Pipeline, tables: Any, **kwargs: Any) -> None:
        super().__init__(pipeline=pipeline, step=Step.MAINTAIN, tables=tables, **kwargs)

    def execute(self, context: Context) -> None:
        """Does the maintenance that is due and that nobody else's work stands in the way of."""
        with translated(), opened(self.pipeline, context, self.tables) as task:
            _show(context, label(self.tables))
            due = due_maintenance(task.context, task.configs)
            leased = lease_maintenance(task.context, task.request, due)
            if not leased:
                busy = ", ".join(str(item.table) for item in due)
                raise AirflowSkipException(
                    f"Maintenance waits for the next run, because another run works on {busy}." if due else "No maintenance is due."
                )
            try:
                self._maintain(context, task, leased)
            finally:
                for _, lease in leased:
                    task.context.store.release(lease)

    def get_openlineage_facets_on_start(self) -> None:
        """Tells nothing: maintenance writes the same rows again."""

    def get_openlineage_facets_on_complete(self, task_instance: "RuntimeTaskInstanceProtocol") -> None:
        """Tells nothing."""

    def _maintain(self, context: Context, task: TaskContext, leased: tuple[Any, ...]) -> None:
        path = task.journal.result_path(self.step, task.attempt)
        job = maintenance_job(task.context, task.request, tuple(item for item, _ in leased), path)
        result = self._submit(context, task, job, [lease for _, lease in leased])
        settle_maintenance(task.context, leased, result)
        if errors := result.errors:
            raise tables_failed(self.step, errors)


def application(step: Step) -> Path:
    """Returns the file that spark-submit starts for a step: from the installed package, or from the clone that it was installed from.

    Raises:
        EnvironmentSetupError: it is in neither place.
    """
    package = Path(cdc_ops.__file__).resolve().parent
    for folder in (package / "spark_jobs", package.parent / "spark_jobs"):
        if (folder / f"{step}.py").is_file():
            return folder / f"{step}.py"
    raise EnvironmentSetupError(
        f"The Spark application is missing for the step '{step}' in {package / 'spark_jobs'}.",
        why="The installation of cdc-ops is incomplete.",
        data="Nothing was read or written.",
        next="pip install --force-reinstall --no-deps cdc-ops",
    )


def application_environment(pipeline: Pipeline) -> dict[str, str]:
    """Returns what the application needs in its environment: the URLs of source and replica, with their passwords, above all.

    Raises:
        ConfigError: the driver runs on the cluster, where an environment can only be given on the command line.
    """
    if deploy_mode(pipeline) == "cluster":
        for variable in _sources(pipeline):
            _check_cluster_secret(pipeline, variable)
        return {}
    environment = source_environment(pipeline) | {"PYSPARK_DRIVER_PYTHON": sys.executable}
    if check_spark(pipeline).startswith("local"):
        environment["PYSPARK_PYTHON"] = sys.executable
    return environment


def source_environment(pipeline: Pipeline) -> dict[str, str]:
    """Returns the URLs of source and replica by the variables in which an application looks for them."""
    return {variable: source_url(source) for variable, source in _sources(pipeline).items()}


def _sources(pipeline: Pipeline) -> dict[str, SourceConfig]:
    sources = (pipeline.source, pipeline.source.replica)
    return {variable_name(source.connection): source for source in sources if source is not None and source.connection}


def _check_cluster_secret(pipeline: Pipeline, variable: str) -> None:
    wanted = f"spark.kubernetes.driver.secretKeyRef.{variable}"
    if wanted not in dict(pipeline.spark.conf):
        raise ConfigError(
            f"The Airflow connection {pipeline.spark.connection!r} has deploy-mode 'cluster', and the driver would lack {variable}.",
            why="spark-submit can pass it only on its command line, which every user of the machine can read.",
            data="Nothing was read or written; the watermark stays.",
            next=f"Use deploy-mode 'client', or on Kubernetes set '{wanted}: <secret>:<key>' in the pipeline's spark.conf.",
        )


def _close_output(hook: SparkSubmitHook | None) -> None:
    """Closes the pipe that the hook leaves open."""
    process = hook._submit_sp if hook is not None else None
    if process is not None and process.stdout is not None:
        process.stdout.close()


def _lease_lost(lease: Lease) -> StaleStateError:
    return StaleStateError(
        f"The lease of {lease.table} was lost while Spark worked on it; the application was stopped.",
        why="cdc-ops could not renew it in time, and another run took the table.",
        data="Committed rows stay; the other run continues from there.",
        next="Nothing to do: the retry waits for the table or finds it done.",
    )


def _job_lost(step: Step, failure: str, memory: str, *, on_cluster: bool) -> JobLostError:
    """Returns the error of an application that left no result.

    Args:
        step: Which step it was for.
        failure: What is known of its end: an exit code, and its last lines.
        memory: Heap of its driver, "" = not known.
        on_cluster: Whether its driver ran on the cluster.
    """
    head, marker, tail = failure.partition("Last spark-submit output:")
    lines = [line for line in (tail if marker else failure).splitlines() if line.strip()]
    ends = _ends(head if marker else failure, tail, memory, on_cluster=on_cluster)
    return JobLostError(
        f"The Spark application of the step '{step}' ended without a result.",
        why="\n        ".join((*ends, *lines[-LAST_LINES:]))
        or "It wrote no result file: it was killed, or it could not write next to the staging area.",
        data="Its operations are frozen in the ledger; the next try finds its commits. The watermark stays.",
        next="Airflow retries; if the error stays, read the whole log of this task above.",
    )


def _ends(head: str, tail: str, memory: str, *, on_cluster: bool) -> Iterator[str]:
    """Yields how the application ended, as far as it is known, in words.

    Args:
        head: What is said of the process that the task has started.
        tail: The end of its output: if the driver runs on the cluster, that names the code of its container.
        memory, on_cluster: As for `_job_lost`.
    """
    ended = _EXIT_CODE.search(head)
    elsewhere = _CODE_ON_CLUSTER.findall(f"{head}\n{tail}") if on_cluster else []
    if elsewhere:
        yield f"The driver on the cluster {end_words(int(elsewhere[-1]), memory)}."
    elif ended and int(ended[1]):
        yield f"It {end_words(int(ended[1]), memory)}."
    if executor := executor_words(tail):
        yield executor


def _show(context: Context, text: str) -> None:
    """Sets what the grid shows for this task instead of its map index."""
    context["label"] = text  # type: ignore[typeddict-unknown-key]
