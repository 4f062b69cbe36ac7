"""Airflow connections: the source's as a URL, Spark's checked before use, the ledger's. Read in the worker, right before use."""

import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from airflow.sdk import BaseHook, Connection
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from cdc_ops.config.secret_files import secret_file
from cdc_ops.config.settings import load_settings
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind
from cdc_ops.errors import ConfigError

LEDGER_CONNECTION: Final = "cdc_ops_ledger"
SPARK_TYPE: Final = "cdc_ops_spark"
"""The connection type with our form, whose host is the master as it is."""

SECTION: Final = "cdc_ops"
OPTIONS: Final = ("ledger", "jars")
"""Settings that Airflow's configuration may hold; `provider_info` describes them."""

_NOTHING: Final = "Nothing was read or written; the watermark stays."
_TYPES: Final = {
    SourceKind.MYSQL: ("mysql", "mariadb", "cdc_ops_mysql", "generic"),
    SourceKind.MARIADB: ("mariadb", "mysql", "cdc_ops_mysql", "generic"),
    SourceKind.POSTGRES: ("postgres", "postgresql", "cdc_ops_postgres", "generic"),
}
_SCHEMES: Final = {SourceKind.MYSQL: "mysql", SourceKind.MARIADB: "mariadb", SourceKind.POSTGRES: "postgresql"}
_MASTER: Final = re.compile(r"^(local(-cluster)?(\[[\d*, ]+\])?|yarn(://.*)?|(spark|k8s)://.+)$")
_SPARK_EXAMPLE: Final = "airflow connections add {name} --conn-type spark --conn-host 'local[*]'"


def source_url(source: SourceConfig) -> str:
    """Returns the URL of a pipeline's source, with its password, which is masked in all logs from here on; "" for one that is declared.

    Raises:
        ConfigError: Airflow has no such connection, or it cannot be a source of that kind.
    """
    if source.is_declared:
        return ""
    connection = find_connection(source.connection, f"airflow connections add {source.connection} --conn-uri '{_example(source.kind)}'")
    expected = _TYPES[source.kind]
    if (connection.conn_type or "").lower() not in expected:
        raise ConfigError(
            f"The Airflow connection {source.connection!r} has type {connection.conn_type!r}; the pipeline's source is {source.kind}.",
            why=f"Valid types are: {', '.join(expected)}.",
            data=_NOTHING,
            next="Correct the connection's type, or the pipeline's 'source'.",
        )
    return _rendered(connection, _SCHEMES[source.kind])


def check_spark(pipeline: Pipeline) -> str:
    """Makes sure that a pipeline's Spark connection means the master that somebody chose, and returns that master.

    Spark's own hook goes to YARN without a word when the connection is missing or its URI cannot be read.

    Raises:
        ConfigError: the connection is missing, or names no master.
    """
    return named_master(pipeline.spark.connection)[1]


def named_master(name: str) -> tuple[Connection, str]:
    """Returns a Spark connection and the master that it names.

    Raises:
        ConfigError: the connection is missing, or names no master.
    """
    connection = find_connection(name, _SPARK_EXAMPLE.format(name=name))
    master = _master(connection.conn_type or "", (connection.host or "").strip(), connection.port)
    if not master:
        raise ConfigError(
            f"The Airflow connection {name!r} (type {connection.conn_type!r}, host {connection.host!r}) does not name a Spark master.",
            why="Spark's hook would then choose a master itself.",
            data=_NOTHING,
            next=f"For this machine: {_SPARK_EXAMPLE.format(name=name)}; for a cluster: host 'spark://master:7077' or 'yarn'.",
        )
    return connection, master


def deploy_mode(pipeline: Pipeline) -> str:
    """Returns where the Spark driver runs: `client` or `cluster`."""
    connection = find_connection(pipeline.spark.connection, _SPARK_EXAMPLE.format(name=pipeline.spark.connection))
    return str(extras(connection).get("deploy-mode") or "client")


def ledger_url(environ: Mapping[str, str] = os.environ) -> str:
    """Returns the ledger's URL.

    That is the variable `CDC_OPS_LEDGER`, or what is in the file that `CDC_OPS_LEDGER_FILE` names, else `ledger` in Airflow's section
    `[cdc_ops]`, else the Airflow connection `cdc_ops_ledger`, else the file of this machine.

    Raises:
        ConfigError: the variable or the connection cannot be meant.
    """
    environ = with_airflow_settings(environ)
    settings = load_settings(environ)
    if environ.get("CDC_OPS_LEDGER", "").strip() or secret_file("CDC_OPS_LEDGER", environ):
        return settings.ledger
    try:
        connection = BaseHook.get_connection(LEDGER_CONNECTION)
    except AirflowNotFoundException:
        return settings.ledger
    kind = (connection.conn_type or "").lower()
    if kind == "sqlite":
        return f"sqlite:///{connection.host or connection.schema}"
    return _rendered(connection, kind.removeprefix("cdc_ops_"))


def with_airflow_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns environment variables, those that are not set filled in from the section `[cdc_ops]` of Airflow's configuration."""
    given = {f"CDC_OPS_{option.upper()}": str(conf.get(SECTION, option, fallback="") or "") for option in OPTIONS}
    if given["CDC_OPS_LEDGER"]:
        mask_secret(given["CDC_OPS_LEDGER"])
    if secret_file("CDC_OPS_LEDGER", environ):
        del given["CDC_OPS_LEDGER"]  # the environment wins
    return {**given, **{name: value for name, value in environ.items() if value.strip() or name not in given}}


def find_connection(name: str, remedy: str) -> Connection:
    """Returns an Airflow connection.

    Raises:
        ConfigError: there is none of that name, or its text cannot be read.
    """
    try:
        connection: Connection = BaseHook.get_connection(name)
        connection.get_uri()
    except AirflowNotFoundException as error:
        raise ConfigError(
            f"Airflow has no connection {name!r}, or cannot parse it.",
            why=str(error),
            data=_NOTHING,
            next=remedy,
        ) from None
    return connection


def extras(connection: Connection) -> dict[str, Any]:
    """Returns a connection's extra fields."""
    return dict(connection.extra_dejson)


def _rendered(connection: Connection, scheme: str) -> str:
    if connection.password:
        mask_secret(connection.password)
        mask_secret(urllib.parse.quote(connection.password, safe=""))  # as it stands in URLs, also in other ones than ours
    try:
        parts = ConnectionUrl.from_parts(scheme, connection.host, connection.port, connection.login, connection.password, connection.schema)
    except ConfigError as error:
        raise ConfigError(
            f"The Airflow connection {connection.conn_id!r} cannot be used.",
            why=error.why or error.what,
            data=_NOTHING,
            next="Correct its host and port. In a connection that is written as a URL, percent-encode the password, or write it as JSON.",
        ) from None
    options = {name: value for name, value in extras(connection).items() if name.startswith("ssl") and isinstance(value, str) and value}
    text = replace(parts, options=tuple(sorted(options.items()))).render()
    mask_secret(text)
    return text


def _master(kind: str, host: str, port: int | None) -> str:
    """The master as Spark's hook puts it together, "" if that is none."""
    whole = kind == SPARK_TYPE or (kind == "spark" and ("://" in host or not port))
    text = host if whole else f"{kind}://{host}" if host or kind == "yarn" else ""
    return (f"{text}:{port}" if port else text) if _MASTER.match(text) else ""


def _example(kind: SourceKind) -> str:
    return f"{_SCHEMES[kind]}://user:password@host:port/database"
