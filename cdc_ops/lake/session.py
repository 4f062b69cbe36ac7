"""The Spark session: the one place where jobs, the command line and tests get theirs from."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from cdc_ops.lake import jars as jar_sets
from cdc_ops.lake.conf import delta_conf, machine_conf


def build_session(app_name: str, *, jars: str | Sequence[str] = (), extra_conf: Mapping[str, str] = {}) -> SparkSession:
    """Opens the Spark session with Delta, or returns the running one with these settings laid over it.

    Jars come from `jars`; failing that from the folder in `CDC_OPS_JARS`; failing that by coordinates, which costs seconds and a network
    at every start. Under spark-submit the jars, the master and all settings of the command line are already there, and stay.

    Args:
        app_name: Shown in Spark's own pages and logs.
        jars: Paths of jars, as a sequence or comma separated.
        extra_conf: Settings over the package's own.
    """
    builder = SparkSession.builder.appName(app_name)
    for name, value in {**delta_conf(), **machine_conf(), **_jar_conf(jars), **extra_conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextmanager
def private_session(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Opens a session of its own for one statement, with settings that no other statement can see.

    Delta takes transaction id and user metadata of a MERGE from the session's settings, where they stay: a later statement with a stale
    pair is skipped in silence. In a session of its own they cannot leak, whatever happens, and tables can be worked on in threads.

    Args:
        spark: The session to be next to; its views are not seen (global ones are), nor what was set on it after it was built.
        conf: Settings of the new session.
    """
    on_connect = not hasattr(spark, "newSession")
    private: SparkSession = getattr(spark, "cloneSession" if on_connect else "newSession")()
    try:
        for name, value in conf.items():
            private.conf.set(name, value)
        yield private
    finally:
        for name in conf:
            private.conf.unset(name)


def _jar_conf(jars: str | Sequence[str]) -> dict[str, str]:
    given = jars if isinstance(jars, str) else ",".join(jars)
    if given:
        return {"spark.jars": given}
    if folder := os.environ.get("CDC_OPS_JARS"):
        return {"spark.jars": jar_sets.jar_list(Path(folder))}
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit, which has loaded the jars
        return {}
    coordinates = ",".join(str(one) for one in jar_sets.DEFAULT)
    return {"spark.jars.packages": coordinates, "spark.jars.excludes": ",".join(jar_sets.NOT_TRANSITIVE)}
