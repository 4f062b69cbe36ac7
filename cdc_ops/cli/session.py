"""What the commands share: which pipelines, which ledger, a source, and a Spark session that starts only when something has to be done."""

import logging
import os
import shlex
import socket
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from cdc_ops.cli import stopping
from cdc_ops.cli.output.render import show_line
from cdc_ops.cli.output.verbosity import is_verbose
from cdc_ops.config.connections import connection_url
from cdc_ops.config.secret_files import take_secret
from cdc_ops.config.settings import Settings, load_settings
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.phases import Phases, RunPhase, added
from cdc_ops.core.pipeline.connect_address import TOKEN_VARIABLE
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.processes import LOCAL
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError, Stopped
from cdc_ops.state.processes import this_process
from cdc_ops.steps.reporting.stopwatch import measured, noted_imports, stopwatch, take_noted_imports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_ops.core.operation.job import JobSpec, StepResult
    from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig
    from cdc_ops.lake.spark.jvm.class_archive import ArchiveUse
    from cdc_ops.lake.spark.jvm.jvm_log import JvmLog
    from cdc_ops.sources.base import Source
    from cdc_ops.state.sql import SqlStateReader
    from cdc_ops.steps.context import Context

logger = logging.getLogger("cdc_ops.spark")

_OFTEN = {"spark.executor.heartbeatInterval": "2s"}
"""How often running tasks say how many rows they have read: somebody looks at the bar."""

JVM_PATIENCE = 60.0
"""Seconds that a JVM has for its end, in which it may write its classes."""


def chosen_pipelines(folder: Path | None, names: list[str]) -> "tuple[Pipeline, ...]":
    """Loads the pipelines of a folder and picks those that are named, all if none is.

    Raises:
        ConfigError: a file is wrong, the folder has none, or a name is not one of them.
    """
    with noted_imports():
        from cdc_ops.config.loading import OTHER_FOLDER, load_pipelines

    where = folder or load_settings(os.environ).pipelines
    pipelines = load_pipelines(where)
    known = {pipeline.name: pipeline for pipeline in pipelines}
    for name in names:
        if name not in known:
            there = f" --pipelines {shlex.quote(str(folder))}" if folder else ""
            raise ConfigError(
                f"Pipeline {name!r} does not exist in {where}.",
                why=did_you_mean(name, known),
                data="Nothing was read or written.",
                next=f"Correct the name: 'cdc-ops validate{there}' shows the pipelines.",
            )
    if not pipelines:
        raise ConfigError(
            f"No pipeline file exists in {where}.",
            why="A pipeline file ends in .yaml or .yml.",
            data="Nothing was read or written.",
            next=f"Put one there, or {OTHER_FOLDER[0].lower()}{OTHER_FOLDER[1:]}",
        )
    return tuple(known[name] for name in names) if names else pipelines


@contextmanager
def ledger_reader() -> "Iterator[SqlStateReader]":
    """Opens the ledger that `CDC_OPS_LEDGER` names, for reading.

    Raises:
        ConfigError: there is none, or the URL cannot be meant.
        LedgerUnavailableError: its database does not answer, or it waits to be upgraded.
        StateError: it is newer than this code.
    """
    from cdc_ops.state.sql import open_reader

    with open_reader(load_settings(os.environ).ledger) as reader:
        yield reader.required()


def new_request(**parts: object) -> RunRequest:
    """Returns a request of this process with a run id of its own."""
    identity = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    name, process = f"{LOCAL}{identity}", this_process()
    return RunRequest(run_id=name, trigger="cli", holder=process.sign(name) if process else name, **parts).checked()  # type: ignore[arg-type]


def connect(config: "SourceConfig") -> "Source":
    """Opens a source by the URL in its environment variable."""
    from cdc_ops.sources.base import open_source

    return open_source(config, connection_url(config.connection), tuple(connection_url(name) for name in config.writers))


@contextmanager
def opened(pipeline: "Pipeline") -> "Iterator[tuple[Context, Source]]":
    """Yields the surroundings of a run and an open source, and closes both."""
    with noted_imports():
        from cdc_ops.state.sql import open_store
        from cdc_ops.steps.context import Context

    settings: Settings = load_settings(os.environ)
    store = open_store(settings.ledger)
    try:
        source = connect(pipeline.source)
        try:
            yield Context(pipeline=pipeline, store=store, connect=connect), source
        finally:
            source.close()
    finally:
        store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Jvm:
    """The JVM that this process has started, for all of its sessions: whether for small jobs only, and what it does with the classes."""

    small: bool
    archive: "ArchiveUse"


@dataclass(slots=True)
class LocalSpark:
    """Spark in this process, started with the first job and stopped at the end of the `with` block.

    Args:
        pipeline: Whose tables it works on.
    """

    pipeline: "Pipeline"
    _spark: "SparkSession | None" = None
    _phases: Phases = ()
    _log: "JvmLog | None" = None
    _jvm: ClassVar[_Jvm | None] = None

    @property
    def log(self) -> str:
        """The JVM's log file, "" if no JVM was started here."""
        return str(self._log.path) if self._log is not None and self._log.path.exists() else ""

    def session(self, *, small: bool = False) -> "SparkSession":
        """Returns the session, starting it if need be.

        Args:
            small: Whether it is for a small job: a JVM that is started for one is not kept for others.
        """
        stopping.check()
        if self.pipeline.spark.connect:
            return self._connected()
        from cdc_ops.lake.spark.jars import fetch, is_unfilled, jar_list
        from cdc_ops.lake.spark.jvm.class_archive import archive_use
        from cdc_ops.lake.spark.jvm.jvm_log import JvmLog
        from cdc_ops.lake.spark.jvm.jvm_options import driver_conf
        from cdc_ops.lake.spark.session import build_session

        if JvmLog.jvm_died():
            logger.warning("the JVM of Spark has died; its jobs fail, the next ones get another JVM")
            self._end_jvm(patience=0)
        if LocalSpark._jvm is not None and LocalSpark._jvm.small and not small:
            self._end_jvm()
        if self._spark is None:
            settings, chosen = load_settings(os.environ), dict(self.pipeline.spark.conf)
            echo = show_line if is_verbose() else None
            self._log = JvmLog.of_process(settings.logs, secrets=_secrets(self.pipeline.source), echo=echo)
            logger.info(f"starting Spark; its log: {self._log.path}")
            folder = self.pipeline.spark.jars or settings.jars
            if folder and is_unfilled(Path(folder)):
                logger.info(f"fetching the jars of Delta and of the databases' drivers into {folder}: 31 MB; this happens once")
                fetch(Path(folder))
            jars = jar_list(Path(folder)).split(",") if folder else ()
            if not JvmLog.jvm_runs():
                LocalSpark._jvm = _Jvm(small=small, archive=archive_use(settings.classes, jars, os.environ, writes=small))
            jvm = driver_conf(chosen, os.environ, small=small, archive=LocalSpark._jvm.archive.options if LocalSpark._jvm else "")
            conf = {"spark.driver.memory": self.pipeline.spark.driver_memory, **_OFTEN, **jvm, **chosen}
            stopping.ends_with(JvmLog.signal_jvm)
            with stopwatch() as watch, measured(RunPhase.SPARK_START), stopping.kept_handlers():
                self._spark = build_session(f"cdc-ops {self.pipeline.name}", jars=jars, extra_conf=conf, log=self._log)
            self._phases = watch.phases
        return self._spark

    def _connected(self) -> "SparkSession":
        from cdc_ops.lake.spark.session import open_session

        if self._spark is None:
            take_secret(TOKEN_VARIABLE, os.environ)
            logger.info(f"working on the Spark server at {self.pipeline.spark.connect}")
            with stopwatch() as watch, measured(RunPhase.SPARK_START):
                self._spark = open_session(f"cdc-ops {self.pipeline.name}", self.pipeline.spark)
            self._phases = watch.phases
        return self._spark

    def execute(self, job: "JobSpec") -> "StepResult":
        """Runs a job in this process.

        Raises:
            Stopped: the process was told to end. The JVM has ended by then, or the error says that it may still commit.
        """
        with noted_imports():
            from cdc_ops.jobs import execute

        replica = job.source.snapshot_connection
        replica_url = connection_url(replica) if replica else ""
        spark = self.session(small=job.small)
        try:
            result = execute(spark, job, connection_url(job.source.connection), replica_url)
            stopping.check()  # the JVM was ended, which its tables have reported as failures
        except (Exception, KeyboardInterrupt) as error:
            if not isinstance(error, KeyboardInterrupt) and not stopping.requested():
                raise
            raise Stopped(stopping.by(error), may_commit=not self._has_ended()) from None
        if not self._phases:
            return result
        started, self._phases = self._phases, ()  # told with the first job, which it was started for
        return replace(result, phases=added(take_noted_imports(), started))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._has_ended()  # it would not stop before its jobs have ended
        self._stop()
        if LocalSpark._jvm is not None and LocalSpark._jvm.archive.writes is not None:
            if kind is None:
                logger.info(
                    "keeping Spark's classes, so that later runs on this machine start faster; this happens once, and takes some seconds"
                )
            self._end_jvm(patience=JVM_PATIENCE if kind is None else 0)

    def _has_ended(self) -> bool:
        """Ends the JVM, and returns whether it certainly has; a Spark server lives on, and may finish the statement that runs."""
        from cdc_ops.lake.spark.jvm.jvm_log import JvmLog

        return not self.pipeline.spark.connect and JvmLog.quit_jvm(stopping.JVM_SECONDS)

    def _stop(self) -> None:
        if self._spark is not None:
            from cdc_ops.lake.spark.session import close_session

            with suppress(Exception):  # a JVM that was killed cannot be stopped; its work is judged by what it left in the lake
                close_session(self._spark)
            self._spark = None

    def _end_jvm(self, patience: float = JVM_PATIENCE) -> None:
        from cdc_ops.lake.spark.jvm.jvm_log import JvmLog

        self._stop()
        jvm, LocalSpark._jvm = LocalSpark._jvm, None
        ended_well = JvmLog.end_jvm(patience)
        if jvm is not None:
            jvm.archive.keep(ended_well=ended_well)


def _secrets(source: "SourceConfig") -> set[str]:
    """Returns the passwords of a source and its replica, as they are and as they stand in a URL."""
    urls = (connection_url(name) for name in (source.connection, source.snapshot_connection, *source.writers) if name)
    passwords = {ConnectionUrl.parse(url).password for url in urls}
    return passwords | {urllib.parse.quote(password, safe="") for password in passwords}
