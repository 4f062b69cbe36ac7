"""The Spark session: the one place where jobs, the command line and tests get theirs from."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.pipeline.pipeline import SparkConfig
from cdc_ops.errors import JobLostError, SparkServerLostError
from cdc_ops.lake.spark import connect
from cdc_ops.lake.spark import jars as jar_sets
from cdc_ops.lake.spark.conf import EXTENSIONS, cluster_cores, machine_conf, needed_conf, store_conf, usual_conf
from cdc_ops.lake.spark.jvm.jvm_log import JvmLog
from cdc_ops.lake.spark.jvm.jvm_options import default_settings, driver_conf


def build_session(
    app_name: str, *, jars: str | Sequence[str] = (), extra_conf: Mapping[str, str] = {}, log: JvmLog | None = None
) -> SparkSession:
    """Opens the Spark session with Delta, or returns the running one with these settings laid over it.

    Jars come from `jars`; failing that from the folder in `CDC_OPS_JARS`; failing that by coordinates, which costs seconds and a network
    at every start. Under spark-submit the jars, the master and all settings of its command line and of `spark-defaults.conf` are already
    there, and stay; but for those of `needed_conf`, which hold whatever was chosen.

    Args:
        app_name: Shown in Spark's own pages and logs.
        jars: Paths of jars, as a sequence or comma separated.
        extra_conf: Settings over the package's usual ones.
        log: Where the JVM writes if this process starts one; None = to this process's standard output and error.
    """
    conf = {**_jar_conf(jars), **_chosen_conf(extra_conf)}
    if log is not None and not _is_submitted():
        log.start_jvm(conf)
    if not _is_submitted() and conf.get("spark.master", "local").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of tasks that decode binlogs: with the packages that this process has
    builder = SparkSession.builder.appName(app_name)
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def open_session(app_name: str, spark: SparkConfig | None) -> SparkSession:
    """Opens the session of a job: on the server that its pipeline names, or where spark-submit has started Spark.

    Args:
        app_name: As for `build_session`.
        spark: With the server's address; None = there is no server.
    """
    return connect.open_connected(spark.connect, dict(spark.conf)) if spark and spark.connect else build_session(app_name)


def close_session(spark: SparkSession) -> None:
    """Ends an application: its JVM, or its sessions on a server, which lives on."""
    application = connect.application_of(spark)
    application.close() if application else spark.stop()


def _chosen_conf(extra_conf: Mapping[str, str]) -> dict[str, str]:
    """Returns all settings but those of jars: what is needed, over what somebody has chosen, over what is usual."""
    setting_of = _chosen_settings(extra_conf)
    usual, stores = {**usual_conf(), **machine_conf(cluster_cores(setting_of))}, dict[str, str]()
    if _is_submitted():  # what is set here goes over what spark-submit was given
        given = {name: value for name in (*usual, EXTENSIONS) if (value := setting_of(name))}
    else:
        given, stores = {}, store_conf(os.environ)
    chosen = {**usual, **stores, **collector_conf(extra_conf), **given, **extra_conf}
    return {**chosen, **needed_conf(chosen.get(EXTENSIONS, ""))}


def _chosen_settings(extra_conf: Mapping[str, str]) -> Callable[[str], str | None]:
    """Returns what gives the value of a setting that somebody has chosen: spark-submit, the pipeline file, or `spark-defaults.conf`."""
    if _is_submitted():
        from pyspark import SparkContext

        return lambda name: SparkContext.getSystemProperty(name) or extra_conf.get(name)
    defaults = default_settings(os.environ)
    return lambda name: extra_conf.get(name) or defaults.get(name)


def _is_submitted() -> bool:
    """True in a process that spark-submit has started: its JVM runs, with jars and settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def collector_conf(extra_conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the setting that gives a JVM of this process's own the parallel collector, unless somebody has chosen one.

    A batch wants throughput, not short pauses: a snapshot takes a fifth less processor time than with Java's default. Under spark-submit
    the JVM runs already.
    """
    return {} if _is_submitted() else driver_conf(extra_conf, os.environ, small=False)


@contextmanager
def private_session(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Opens a session of its own for one statement, with settings that no other statement can see.

    Delta takes transaction id and user metadata of a MERGE from the session's settings, where they stay: a later statement with a stale
    pair is skipped in silence. In a session of its own they cannot leak, whatever happens, and tables can be worked on in threads.

    Args:
        spark: The session to be next to; its views are not seen (global ones are), nor what was set on it after it was built.
        conf: Settings of the new session.
    """
    private = sibling_session(spark)
    try:
        for name, value in conf.items():
            private.conf.set(name, value)
        yield private
    finally:
        end_session(private, conf)


@contextmanager
def table_session(spark: SparkSession) -> Iterator[SparkSession]:
    """Opens a session for the work on one table, and ends it on a server, where it would stay for an hour."""
    own = sibling_session(spark)
    try:
        yield own
    finally:
        if application := connect.application_of(own):
            application.end_session(own)


def sibling_session(spark: SparkSession) -> SparkSession:
    """Returns another session of the same application, with settings and views of its own; on a server it ends with the application."""
    if application := connect.application_of(spark):
        return application.new_session()
    beside: SparkSession = getattr(spark, "newSession" if hasattr(spark, "newSession") else "cloneSession")()
    return beside


def end_session(private: SparkSession, conf: Iterable[str]) -> None:
    """Ends a session on a server; elsewhere it takes back the settings that would make Delta skip a later statement."""
    if application := connect.application_of(private):
        application.end_session(private)
        return
    for name in conf:
        private.conf.unset(name)


def lost_server(spark: SparkSession, error: BaseException) -> SparkServerLostError | None:
    """Returns the error for a server that is gone, None if an error says something else."""
    application = connect.application_of(spark)
    return connect.server_lost(application.address.url(), error) if application and connect.is_loss(error) else None


def lost_jvm(what: str, error: BaseException, *, data: str) -> JobLostError | None:
    """Returns the error for a JVM of this process that is gone, None if it works, or an error came from within it.

    Args:
        what: What failed, such as "Table shop.orders".
        error: What Spark raised.
        data: What that means for the data.
    """
    within = hasattr(error, "java_exception") or not (type(error).__module__.startswith("py4j") or isinstance(error, ConnectionError))
    return None if within else JvmLog.death(what, data=data)


@contextmanager
def interrupting(spark: SparkSession) -> Iterator[None]:
    """Makes a server give up the application's statements when its process is told to end: their threads would wait for them."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and (application := connect.application_of(spark)):
            application.close()
        raise


def pinned(frame: DataFrame) -> DataFrame:
    """Returns a DataFrame that reads the files that are there now, or fails.

    A session of this process finds the files once, when the DataFrame is made. A server finds them again at each use, once it has dropped
    the plan from its cache: what vanished meanwhile would be left out in silence.
    """
    if not connect.is_connected(frame.sparkSession):
        return frame
    view = connect.view_name()
    frame.createTempView(view)  # it holds the analysed plan, as long as the session
    return frame.sparkSession.table(view)


@contextmanager
def shared_view(frame: DataFrame) -> Iterator[str]:
    """Yields the name under which every session of the application sees a DataFrame.

    A DataFrame that is written itself is written with the settings of the session that made it, transaction id included: one of a private
    session holds only for what is read in it.
    """
    view = connect.view_name()
    frame.createGlobalTempView(view)
    try:
        yield f"global_temp.{view}"
    finally:
        frame.sparkSession.catalog.dropGlobalTempView(view)


@contextmanager
def materialized(frame: DataFrame) -> Iterator[tuple[DataFrame, int]]:
    """Yields a DataFrame that is computed now, and once, and how many rows it has.

    Delta would compute it once as well (`materializeSource`), but of what it keeps then Spark knows the size that it guessed before. After
    joins and unions that is a huge one, and each of a MERGE's three joins sorts all keys of the table instead of looking them up.
    """
    kept = frame.persist()
    try:
        yield kept, kept.count()
    finally:
        kept.unpersist()


def idempotent_write(application: str, number: int) -> dict[str, str]:
    """Returns the settings under which Delta skips a write if the table has that number of the application already, or a larger one."""
    return {"spark.databricks.delta.write.txnAppId": application, "spark.databricks.delta.write.txnVersion": str(number)}


def _jar_conf(jars: str | Sequence[str]) -> dict[str, str]:
    given = jars if isinstance(jars, str) else ",".join(jars)
    if given:
        return {"spark.jars": given}
    if folder := os.environ.get("CDC_OPS_JARS"):
        return {"spark.jars": jar_sets.jar_list(Path(folder))}
    if _is_submitted():
        return {}
    coordinates = ",".join(str(one) for one in jar_sets.RESOLVED)
    return {"spark.jars.packages": coordinates, "spark.jars.excludes": ",".join(jar_sets.NOT_TRANSITIVE)}
