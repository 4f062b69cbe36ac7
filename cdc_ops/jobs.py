"""Spark applications: what spark_jobs/*.py and the CLI call. Reads a JobSpec, runs steps for a group of tables, writes a StepResult.

One table's failure ends that table only. Tables of a group run side by side, each in a Spark session of its own; operations of one table
run in the order of their numbers, and the first that fails ends its table.
"""

import logging
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from pyspark.sql import SparkSession

from cdc_ops import __version__
from cdc_ops.core import json_codec
from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.operation.catalog_entry import CatalogEntry, CatalogResult
from cdc_ops.core.operation.job import PARALLEL_TABLES, JobSpec, MaintenanceTask, Step, StepResult, TableResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import OperationResult
from cdc_ops.core.phases import RunPhase, added, phases_text
from cdc_ops.core.pipeline.connections import variable_name
from cdc_ops.core.processes import executor_words
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, EnvironmentSetupError, UnforeseenJobError
from cdc_ops.lake.file_io import read_text, write_text
from cdc_ops.lake.spark.error_text import unknown_store
from cdc_ops.lake.spark.session import close_session, interrupting, lost_jvm, lost_server, open_session, table_session
from cdc_ops.lake.spark.work_meter import Work, metered
from cdc_ops.lake.staging.manifests import read_manifest
from cdc_ops.lake.staging.shared_folder import check_shared, roots_of
from cdc_ops.lake.table.catalog import follow_catalog, lost_metastore
from cdc_ops.lake.table.maintenance import maintain
from cdc_ops.sources.base import Source, open_source
from cdc_ops.steps.extract import damage_of, extract
from cdc_ops.steps.history.retention import maintain_history
from cdc_ops.steps.log.shared_scan import SharedScans
from cdc_ops.steps.merge import merge
from cdc_ops.steps.query.connection_limit import ConnectionLimit, connections_of
from cdc_ops.steps.query.load_guard import LoadGuard
from cdc_ops.steps.query.pulse import pulses
from cdc_ops.steps.query.reader_choice import chosen_reader, over_jdbc
from cdc_ops.steps.query.replica_reads import ReplicaReads
from cdc_ops.steps.reporting.log_output import shown_by
from cdc_ops.steps.reporting.progress_lines import Meter, Pace, chunk_line, end_line, merge_line
from cdc_ops.steps.reporting.stopwatch import Stopwatch, import_phases, measured, stopwatch

logger = logging.getLogger("cdc_ops.job")

_TRACEBACK: Final = "Traceback (most recent call last)"
_NOT_COMMITTED: Final = "The operation is not committed, or the next try finds its commit; the watermark stays."
_PLANNED: Final = "; 'cdc-ops state rebuild' then discards the operation, which was planned with the old place"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The context of one application: session, sources, and limits on reads.

    `connect_replica` is None if whole tables are read from the source too; else `guard` asks the replica.
    """

    spark: SparkSession
    connect: Callable[[], Source]
    connect_replica: Callable[[], Source] | None
    guard: LoadGuard
    readers: ConnectionLimit
    readings: SharedScans

    @contextmanager
    def held(self, table: TableName, connections: int) -> Iterator[None]:
        """Holds connections of the source; the wait for them is a phase if there is one (`max_connections`)."""
        with ExitStack() as stack:
            with measured(RunPhase.WAITING) if self.readers.limited and connections else nullcontext():
                stack.enter_context(self.readers.held(table, connections))
            yield


def main(step: Step, argv: Sequence[str] | None = None) -> int:
    """Entry point of the spark_jobs files: one argument, the path of the JobSpec.

    Returns:
        0 if the result was written, whatever it says; the caller reads it. Anything else means that there is no result.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) != 1:
        print(f"usage: {step}.py JOB_SPEC.json", file=sys.stderr)
        return 2
    imports = import_phases()
    spec = json_codec.loads(JobSpec, read_text(arguments[0]))
    if spec.package_version != __version__:
        raise EnvironmentSetupError(
            f"The job was planned by cdc-ops {spec.package_version}, this Spark environment has {__version__}.",
            data="Nothing was read or written.",
            next="Install the same version on both sides.",
        )
    try:
        with stopwatch() as watch, measured(RunPhase.SPARK_START):
            spark = open_session(f"cdc-ops {spec.pipeline} {step}", spec.spark)
            application = spark.conf.get("spark.app.id", "") or ""
    except CdcError as error:
        write_text(spec.result_path, json_codec.dumps(_not_begun(spec, error)))
        return 0
    try:
        with _ended_by_signal() if spec.spark else nullcontext(), shown_by(logging.StreamHandler(sys.stdout)):
            replica = spec.source.snapshot_connection
            result = execute(spark, spec, connection_url(spec.source.connection), connection_url(replica) if replica else "")
    finally:
        close_session(spark)
    write_text(spec.result_path, json_codec.dumps(replace(result, phases=added(imports, watch.phases), spark_application=application)))
    return 0


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Lets SIGTERM end the process like Ctrl-C, so that a server does not go on with what nobody waits for."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _not_begun(spec: JobSpec, error: CdcError) -> StepResult:
    """Returns the result of a job whose Spark or folders cannot be used: all tables fail for that reason, retried if it may heal."""
    print(error, file=sys.stderr)
    tables = dict.fromkeys([*(one.table for one in spec.operations), *(task.table for task in spec.maintenance)])
    failed = tuple(TableResult(table=table, error=error.to_payload(), retryable=error.retryable) for table in tables)
    now = datetime.now(UTC)
    return StepResult(step=spec.step, run_id=spec.run_id, tables=failed, started_at=now, finished_at=now)


def connection_url(connection: str) -> str:
    """Returns the source's URL from the environment, the one way in which credentials enter a Spark application; "" without connection.

    Raises:
        EnvironmentSetupError: the variable is not set.
    """
    if not connection:
        return ""
    name = variable_name(connection)
    if not os.environ.get(name):
        raise EnvironmentSetupError(
            f"The Spark application lacks the environment variable {name}.",
            why="Credentials of a source reach Spark only by this variable.",
            data="Nothing was read or written.",
            next=f"Start it through Airflow or cdc-ops, or set {name}=mysql://user:password@host:port/database.",
        )
    return os.environ[name]


def execute(spark: SparkSession, spec: JobSpec, url: str, replica_url: str = "") -> StepResult:
    """Runs one step for all tables of a job and returns what happened to each.

    Args:
        spark: The application's session.
        spec: What to do.
        url: Connection URL of the source, with credentials.
        replica_url: The same of the replica that whole tables are read from; "" = the source reads them itself.
    """
    started, began = datetime.now(UTC), time.monotonic()
    replica = spec.source.replica if replica_url else None
    try:
        check_shared(spark, _folders(spec))
        spec = replace(spec, source=replace(spec.source, reader=chosen_reader(spark, spec, url)))
        guarded = open_source(replica, replica_url) if replica else open_source(spec.source, url)
    except Exception as error:  # as in _run_operations: the JVM may have died since the job before
        return _not_begun(spec, _known(spark, f"The {spec.step} job of pipeline {spec.pipeline}", error))
    context = JobContext(
        spark=spark,
        connect=lambda: open_source(spec.source, url),
        connect_replica=(lambda: open_source(replica, replica_url)) if replica else None,
        guard=LoadGuard(guarded),
        readers=ConnectionLimit(spec.source.max_connections),
        readings=SharedScans(spark, spec.operations, uuid.uuid4().hex[:12], spec.known),
    )
    with _closed_behind(guarded.close, context.readings.close), _tables_side_by_side() as pool, interrupting(spark):
        tables = tuple(pool.map(lambda task: task(), _tasks(context, spec)))
    seconds = round(time.monotonic() - began, 3)
    return StepResult(step=spec.step, run_id=spec.run_id, tables=tables, started_at=started, finished_at=datetime.now(UTC), seconds=seconds)


@contextmanager
def _tables_side_by_side() -> Iterator[ThreadPoolExecutor]:
    """Yields the threads in which tables are worked on; a process that is told to end waits for none of them."""
    pool, waits = ThreadPoolExecutor(max_workers=PARALLEL_TABLES), True
    try:
        yield pool
    except KeyboardInterrupt:
        waits = False
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=not waits)


@contextmanager
def _closed_behind(*close: Callable[[], None]) -> Iterator[None]:
    """Closes what the work has used. If the process is told to end, threads may still use it: what cannot be closed then stays."""
    told_to_end = False
    try:
        yield
    except KeyboardInterrupt:
        told_to_end = True
        raise
    finally:
        for one in close:
            with suppress(Exception) if told_to_end else nullcontext():
                one()


def _folders(spec: JobSpec) -> tuple[str, ...]:
    """Returns the folders that executors and this process have to share: one of the lake, one of the staging area."""
    lake = roots_of((*(one.target.path for one in spec.operations), *(task.path for task in spec.maintenance)))
    return (*roots_of(one.target.staging for one in spec.operations), *lake)


def _tasks(context: JobContext, spec: JobSpec) -> list[Callable[[], TableResult]]:
    if spec.step is Step.MAINTAIN:
        return [_bound(_maintain_table, context, task) for task in spec.maintenance]
    ordered = sorted(spec.operations, key=lambda item: (item.table, item.op_seq))
    groups = [(table, tuple(items)) for table, items in groupby(ordered, key=lambda item: item.table)]
    names = {} if spec.step is Step.EXTRACT else {entry.table: entry for entry in spec.catalog}
    return [_bound(_run_table, context, spec.step, items, names.get(table)) for table, items in groups]


def _bound(function: Callable[..., TableResult], *arguments: object) -> Callable[[], TableResult]:
    return lambda: function(*arguments)


def _run_table(context: JobContext, step: Step, operations: tuple[Operation, ...], entry: CatalogEntry | None) -> TableResult:
    with stopwatch() as watch:
        result = _run_operations(context, step, operations, entry)
    return replace(result, phases=watch.phases)


def _run_operations(context: JobContext, step: Step, operations: tuple[Operation, ...], entry: CatalogEntry | None) -> TableResult:
    done: list[OperationResult] = []
    pace, table = Pace(), operations[0].table
    try:
        # A source is one connection, which two threads must not ask at the same time.
        with (
            closing(context.connect()) as source,
            closing(ReplicaReads(source, context.connect_replica)) as replica,
            table_session(context.spark) as spark,
        ):
            for operation in operations:
                with stopwatch() as watch:
                    reads = _reads(step, operation)
                    if reads and operation.kind.is_snapshot and context.guard.limited:
                        with measured(RunPhase.WAITING):
                            context.guard.wait(table)
                    result = _run_operation(context, spark, replica.source_of(operation) if reads else source, step, operation)
                done.append(_log_end(operation, result, watch))
                pace.add(done[-1].counts, done[-1].seconds)
                if line := chunk_line(operation, pace):
                    logger.info(line)
        registered = _registered(context, entry, done)  # with no connection to a source open: a metastore may take its time
    except Exception as error:  # the border of the application: every failure becomes its table's result
        return _failed(context, table, tuple(done), error)
    return TableResult(table=table, operations=tuple(done), catalog=registered)


def _registered(context: JobContext, entry: CatalogEntry | None, done: list[OperationResult]) -> CatalogResult | None:
    """Tells Spark's catalog of a table that has been written, as far as it does not know; that may fail, and undoes nothing."""
    if entry is None:
        return None
    with measured(RunPhase.CATALOG):
        result = follow_catalog(context.spark, entry, done)
    if result is not None:
        name = ".".join(entry.name)
        level, told = (logging.WARNING, result.error["what"]) if result.error else (logging.INFO, f"registered as {name}")
        logger.log(level, f"{entry.table}: {told}")
    return result


def _reads(step: Step, operation: Operation) -> bool:
    """True if a step reads the rows of an operation at the source; a merge does so too if what was landed is damaged."""
    return step is Step.SYNC or (step is Step.EXTRACT) == (operation.apply.landing is Landing.STAGED) or bool(damage_of(operation))


def _run_operation(context: JobContext, spark: SparkSession, source: Source, step: Step, operation: Operation) -> OperationResult:
    started = time.monotonic()
    logger.info(f"{operation.table}: {step} operation {operation.op_seq} ({operation.words}), {operation.extent}")
    attempt = uuid.uuid4().hex[:12]
    staged, direct = (
        connections_of(operation) if operation.apply.landing is landing else 0 for landing in (Landing.STAGED, Landing.DIRECT)
    )
    if damage := damage_of(operation):
        logger.warning(
            f"{operation.table}: the landed rows of operation {operation.op_seq} are damaged ({damage}); cdc-ops reads the same"
            " window again"
        )
    if why := over_jdbc(source, operation):
        logger.info(f"{operation.table}: rows are read over JDBC: {why}")
    if step is not Step.MERGE or damage:
        with context.held(operation.table, staged), _metered(context, operation, "reads", operation.expected_rows):
            result = extract(spark, source, operation, attempt, context.readings)
    if step is not Step.EXTRACT:
        landed = 0
        if operation.apply.landing is Landing.STAGED and (manifest := read_manifest(operation.target.staging)) is not None:
            landed = manifest.landed.rows
            logger.info(merge_line(operation, landed))
        verb, rows = ("reads", operation.expected_rows) if operation.apply.landing is Landing.DIRECT else ("merges", landed)
        with context.held(operation.table, direct), _metered(context, operation, verb, rows):
            result = merge(spark, source, operation)
    return replace(result, seconds=round(time.monotonic() - started, 3))


@contextmanager
def _metered(context: JobContext, operation: Operation, verb: str, rows: int) -> Iterator[None]:
    """Logs every second how far an operation is."""
    meter = Meter(operation=operation, verb=verb, expected=rows)
    with pulses() as read:

        def show(work: Work) -> None:
            meter.log_progress(rows=read() or work.rows, tasks_done=work.tasks_done, tasks=work.tasks, stages_done=work.stages_done)

        with metered(context.spark, show):
            yield


def _log_end(operation: Operation, result: OperationResult, watch: Stopwatch) -> OperationResult:
    """Logs how an operation ended, and returns its result with the phases that were measured."""
    ended = end_line(operation, result, result.seconds)
    logger.info(f"{ended} ({phases_text(watch.phases)})" if watch.phases else ended)
    return replace(result, phases=watch.phases)


def _maintain_table(context: JobContext, task: MaintenanceTask) -> TableResult:
    try:
        logger.info(f"{task.table}: maintenance ({'; '.join(task.plan.reasons)})")
        now = datetime.now(UTC)
        with table_session(context.spark) as spark:
            if task.plan.vacuum and task.history is not None:
                maintain_history(spark, task.history, task.table, now)
            stats = maintain(spark, task, now)
        if stats.upkeep.last_upkeep is not None:
            logger.info(f"{task.table}: {stats.upkeep.last_upkeep.words}")
        return TableResult(table=task.table, maintenance=stats)
    except Exception as error:  # as in _run_table
        return _failed(context, task.table, (), error)


def _failed(context: JobContext, table: TableName, done: tuple[OperationResult, ...], error: Exception) -> TableResult:
    known = _known(context.spark, f"Table {table}", error)
    logger.error(f"{table}: failed with {type(known).__name__}: {known.what}")  # the whole error is in the result, which is reported
    return TableResult(table=table, operations=done, error=known.to_payload(), retryable=known.retryable)


def _known(spark: SparkSession, what: str, error: Exception) -> CdcError:
    """Returns an error as one of ours; `what` failed, such as "Table shop.orders"."""
    if isinstance(error, CdcError):
        return error
    return (
        lost_server(spark, error)
        or lost_jvm(what, error, data=_NOT_COMMITTED)
        or lost_metastore(spark, what, error)
        or unknown_store(what, error, data=_NOT_COMMITTED, then=_PLANNED)
        or _unexpected(what, error)
    )


def _unexpected(what: str, error: Exception) -> CdcError:
    return UnforeseenJobError(
        f"{what} failed in Spark with {type(error).__name__}.",
        why="\n        ".join(filter(None, (executor_words(str(error)), *_reason(error)))),
        data=_NOT_COMMITTED,
        next="The Spark log has the whole text. Run again to continue with the same window.",
    )


def _reason(error: Exception) -> list[str]:
    """Returns the first lines of an error; of a traceback that a Python worker of Spark sent, what it ends with, too."""
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    start = next((number for number, line in enumerate(lines) if line.startswith(_TRACEBACK)), None)
    if start is None:
        return lines[:12]
    end = next((line for line in lines[start + 1 :] if not line[0].isspace()), "")
    return [*lines[: min(start, 11)], end]
