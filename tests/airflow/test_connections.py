"""Airflow connections: what is taken, what is refused before anything starts."""

import json
import urllib.parse
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk.log import redact

from cdc_ops.airflow.connections import check_spark, ledger_url, source_url
from cdc_ops.airflow.spark.submit import CdcSparkSubmitOperator, application, application_environment
from cdc_ops.core.operation.job import JobSpec, Step
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, SparkConfig, TargetConfig
from cdc_ops.errors import ConfigError
from cdc_ops.lake.spark.jvm.class_archive import NOTHING

PASSWORD = "p@ss:w/o#r%d ?&"
SOURCE = SourceConfig(kind=SourceKind.MYSQL, connection="shop_db")


def pipeline(**conf: str) -> Pipeline:
    spark = SparkConfig(conf=tuple(conf.items()))
    return Pipeline(name="shop", source=SOURCE, target=TargetConfig(root="/lake", staging="/staging"), tables=(), spark=spark)


def define(patch: pytest.MonkeyPatch, name: str, value: str | None = None, **parts: object) -> None:
    patch.setenv(f"AIRFLOW_CONN_{name}", value or json.dumps(parts))


def test_a_source_that_is_declared_needs_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, "SPARK_DEFAULT", "spark://local")
    declared = SourceConfig(kind=SourceKind.NONE)
    assert source_url(declared) == ""
    assert not [name for name in application_environment(replace(pipeline(), source=declared)) if name.startswith("CDC_OPS_CONN")]


@pytest.mark.parametrize(
    ("value", "master"),
    [
        ('{"conn_type":"spark","host":"local[2]"}', "local[2]"),
        ('{"conn_type":"spark","host":"local"}', "local"),
        ("spark://local%5B2%5D", "local[2]"),
        ('{"conn_type":"spark","host":"master","port":7077}', "spark://master:7077"),
        ("spark://m:7077", "spark://m:7077"),
        ('{"conn_type":"spark","host":"spark://a:7077,b:7077"}', "spark://a:7077,b:7077"),
        ('{"conn_type":"spark","host":"k8s://https://h:6443"}', "k8s://https://h:6443"),
        ('{"conn_type":"spark","host":"yarn"}', "yarn"),
        ("yarn://", "yarn://"),
    ],
)
def test_a_spark_connection_that_names_its_master_is_taken(monkeypatch: pytest.MonkeyPatch, value: str, master: str) -> None:
    define(monkeypatch, "SPARK_DEFAULT", value)
    assert check_spark(pipeline()) == master


@pytest.mark.parametrize(
    "value", [None, "spark://local[2]", "spark:///?host=local", "nonsense", '{"conn_type":"spark","host":"lcal[2]"}', "mysql://h:1/d"]
)
def test_a_missing_or_mistyped_spark_connection_is_refused_instead_of_going_to_yarn(
    monkeypatch: pytest.MonkeyPatch, metadata: Path, value: str | None
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    if value is not None:
        define(monkeypatch, "SPARK_DEFAULT", value)
    with pytest.raises(ConfigError) as caught:
        check_spark(pipeline())
    text = str(caught.value)
    assert "'spark_default'" in text
    assert "airflow connections add spark_default --conn-type spark --conn-host 'local[*]'" in text


def test_the_sources_url_is_percent_encoded_and_keeps_its_tls_options(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"ssl_mode": "required", "charset": "utf8"}
    define(monkeypatch, "SHOP_DB", conn_type="mysql", host="db", port=3307, login="a@b", password=PASSWORD, schema="shop", extra=extra)
    url = source_url(SOURCE)
    assert url == "mysql://a%40b:p%40ss%3Aw%2Fo%23r%25d%20%3F%26@db:3307/shop?ssl_mode=required"


def test_a_source_s_password_is_masked_in_logs_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = uuid.uuid4().hex
    password = f"p@ss/{secret}?"
    define(monkeypatch, "SHOP_DB", conn_type="mysql", host="db", port=3307, login="app", password=password, schema="shop")
    url = source_url(SOURCE)
    assert secret in url
    encoded = urllib.parse.quote(password, safe="")
    for text in (url, f"the login with {password} failed", f"jdbc:mysql://db/?password={encoded}"):
        assert secret not in str(redact(text)), text.replace(secret, "SECRET")
    assert redact("app at db") == "app at db"


@pytest.mark.parametrize("kind", ["mysql", "mariadb", "generic"])
def test_connection_types_that_fit_the_source_are_taken(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    define(monkeypatch, "SHOP_DB", conn_type=kind, host="db", login="u", password="p")
    assert source_url(SOURCE) == "mysql://u:p@db/"


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"conn_type": "postgres", "host": "db"}, "has type 'postgres'"),
        (
            {"conn_type": "mysql", "host": "", "password": PASSWORD},
            "'shop_db' cannot be used.\n  why:  Its host is empty",
        ),
        (None, "Airflow has no connection 'shop_db'"),
    ],
)
def test_a_source_connection_that_does_not_fit_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, metadata: Path, parts: dict[str, object] | None, says: str
) -> None:
    if parts is not None:
        define(monkeypatch, "SHOP_DB", **parts)
    with pytest.raises(ConfigError) as caught:
        source_url(SOURCE)
    assert says in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_the_ledger_is_the_variable_then_the_connection_then_the_file(monkeypatch: pytest.MonkeyPatch, metadata: Path) -> None:
    home = {"CDC_OPS_HOME": "/home/x"}
    assert ledger_url(home) == "sqlite:////home/x/ledger.db"
    define(monkeypatch, "CDC_OPS_LEDGER", conn_type="postgres", host="db", login="u", password="p@", schema="ledger")
    assert ledger_url(home) == "postgresql://u:p%40@db/ledger"
    assert ledger_url(home | {"CDC_OPS_LEDGER": "sqlite:////y.db"}) == "sqlite:////y.db"


def test_a_driver_on_the_cluster_gets_no_password_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, "SHOP_DB", conn_type="mysql", host="db", login="u", password="p")
    define(monkeypatch, "SPARK_DEFAULT", conn_type="spark", host="k8s://https://h:6443", extra={"deploy-mode": "cluster"})
    with pytest.raises(ConfigError, match="secretKeyRef"):
        application_environment(pipeline())
    with_secret = pipeline(**{"spark.kubernetes.driver.secretKeyRef.CDC_OPS_CONN_SHOP_DB": "shop:url"})
    assert application_environment(with_secret) == {}
    and_replica = replace(with_secret, source=replace(with_secret.source, snapshot_connection="shop_replica"))
    with pytest.raises(ConfigError, match="CDC_OPS_CONN_SHOP_REPLICA"):
        application_environment(and_replica)


@pytest.mark.parametrize(
    ("mode", "small", "options"),
    [
        ("client", True, ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"]),
        ("client", False, []),
        ("cluster", True, []),
    ],
)
def test_the_driver_of_a_small_job_gets_its_jvm_unless_it_runs_on_a_cluster(
    monkeypatch: pytest.MonkeyPatch, mode: str, small: bool, options: list[str]
) -> None:
    for name in ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    define(monkeypatch, "SPARK_DEFAULT", conn_type="spark", host="yarn", extra={"deploy-mode": mode})
    operator = CdcSparkSubmitOperator(task_id="sync", pipeline=pipeline(**{"spark.executor.memory": "1g"}), step=Step.SYNC, tables=[])
    job = JobSpec(step=Step.SYNC, pipeline="p", run_id="r", source=SOURCE, operations=(), result_path="", package_version="1", small=small)
    for _ in range(2):  # a retry
        assert operator._size_jvm(job, own_spark=True) == NOTHING
    conf = dict(operator.conf or {})
    assert conf.pop("spark.driver.defaultJavaOptions", "").split() == options
    assert conf == {"spark.executor.memory": "1g"}


def test_the_replica_reaches_the_application_as_the_source_does(monkeypatch: pytest.MonkeyPatch, metadata: Path) -> None:
    define(monkeypatch, "SHOP_DB", conn_type="mysql", host="db", login="u", password="p")
    define(monkeypatch, "SPARK_DEFAULT", conn_type="spark", host="local[*]")
    with_replica = replace(pipeline(), source=replace(pipeline().source, snapshot_connection="shop_replica"))
    with pytest.raises(ConfigError, match="Airflow has no connection 'shop_replica'"):
        application_environment(with_replica)
    define(monkeypatch, "SHOP_REPLICA", conn_type="mysql", host="replica", login="u", password="q")
    environment = application_environment(with_replica)
    assert environment["CDC_OPS_CONN_SHOP_DB"] == "mysql://u:p@db/"
    assert environment["CDC_OPS_CONN_SHOP_REPLICA"] == "mysql://u:q@replica/"


@pytest.mark.parametrize("step", [Step.EXTRACT, Step.MERGE, Step.SYNC, Step.MAINTAIN])
def test_each_spark_step_has_a_file_to_start(step: Step) -> None:
    assert application(step).name == f"{step}.py"
    assert "spark_jobs" in str(application(step))
