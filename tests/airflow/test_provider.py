"""What Airflow knows of the package: it takes the description, and each thing that stands there exists and works."""

import json
import logging
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import BaseTrigger
from jsonschema import Draft7Validator

from cdc_ops.airflow.connections import OPTIONS, SECTION, check_spark, ledger_url, source_url, with_airflow_settings
from cdc_ops.airflow.hooks import MySqlHook, PostgresHook
from cdc_ops.airflow.spark.hook import CdcSparkHook
from cdc_ops.airflow.spark.submit import CdcSparkSubmitOperator
from cdc_ops.core.operation.job import Step
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TargetConfig
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import ConfigError
from cdc_ops.provider_info import get_provider_info
from cdc_ops.sources.base import open_source

INFO = get_provider_info()
FORMS = {form["connection-type"]: form for form in INFO["connection-types"]}
PIPELINE = Pipeline(
    name="shop",
    source=SourceConfig(kind=SourceKind.MYSQL, connection="shop_db"),
    target=TargetConfig(root="/lake", staging="/staging"),
    tables=(),
)


def define(patch: pytest.MonkeyPatch, name: str, **parts: object) -> None:
    patch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(parts))


def named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def test_airflow_takes_the_description() -> None:
    import airflow

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    assert list(Draft7Validator(schema).iter_errors(INFO)) == []
    known = set(schema["properties"])
    assert set(INFO) <= known, "Airflow has no such entry"
    [entry] = entry_points(group="apache_airflow_provider", name="provider_info", module="cdc_ops.provider_info")
    assert entry.load()() == INFO


def test_airflow_itself_finds_all_of_it_without_a_complaint(caplog: pytest.LogCaptureFixture) -> None:
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    manager, at_run_time = ProvidersManager(), ProvidersManagerTaskRuntime()
    manager._cleanup()
    at_run_time._cleanup()
    with caplog.at_level(logging.WARNING):
        assert "cdc-ops" in manager.providers
        hooks = {kind: at_run_time.hooks[kind] for kind in FORMS}
        assert set(INFO["extra-links"]) <= set(manager.extra_links_class_names)
        assert "cdc_ops.airflow.archive_trigger" in {one.trigger_class_name for one in manager.trigger}
        assert dict(manager.provider_configs)["cdc-ops"] == INFO["config"]
    assert [record for record in caplog.records if "cdc" in record.getMessage()] == []
    assert {kind: hook.connection_testable for kind, hook in hooks.items() if hook} == dict.fromkeys(FORMS, True)
    assert len(FORMS) == 3


def test_the_page_of_connections_is_given_the_forms() -> None:
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    HookMetaService.hook_meta_data.cache_clear()
    shown = {one.connection_type: one for one in HookMetaService.hook_meta_data() if one.connection_type in FORMS}
    assert set(shown) == set(FORMS)
    for kind, form in FORMS.items():
        assert set(shown[kind].extra_fields or {}) == set(form["conn-fields"])
    spark = shown["cdc_ops_spark"].standard_fields
    assert spark is not None
    assert spark.host is not None
    assert (spark.host.title, spark.host.placeholder) == ("Master", FORMS["cdc_ops_spark"]["ui-field-behaviour"]["placeholders"]["host"])
    assert spark.password is not None
    assert spark.password.hidden


def test_every_name_in_the_description_exists() -> None:
    modules = [name for kind in ("operators", "hooks", "triggers") for one in INFO[kind] for name in one["python-modules"]]
    assert len(modules) == 4
    for name in modules:
        import_module(name)
    trigger = import_module("cdc_ops.airflow.archive_trigger")
    assert [
        one
        for one in vars(trigger).values()
        if isinstance(one, type) and issubclass(one, BaseTrigger) and one.__module__ == trigger.__name__
    ]
    for link in INFO["extra-links"]:
        assert named(link)().name
    for kind, form in FORMS.items():
        hook = named(form["hook-class-name"])
        assert (hook.conn_type, hook.hook_name) == (kind, form["hook-name"])


@pytest.mark.parametrize(
    ("kind", "source", "scheme"),
    [
        ("cdc_ops_mysql", SourceKind.MYSQL, "mysql"),
        ("cdc_ops_mysql", SourceKind.MARIADB, "mariadb"),
        ("cdc_ops_postgres", SourceKind.POSTGRES, "postgresql"),
    ],
)
def test_what_the_form_of_a_database_asks_for_reaches_the_source(
    monkeypatch: pytest.MonkeyPatch, kind: str, source: SourceKind, scheme: str
) -> None:
    fields = FORMS[kind]["conn-fields"]
    chosen = {name: (field["schema"]["enum"][-1] if "enum" in field["schema"] else "/etc/ca.pem") for name, field in fields.items()}
    assert len(chosen) == 2
    parts = {"host": "db", "port": 3307, "login": "u", "password": "p", "schema": "shop"}
    define(monkeypatch, "SHOP_DB", conn_type=kind, **parts, extra=chosen)
    config = SourceConfig(kind=source, connection="shop_db")
    url = ConnectionUrl.parse(source_url(config))
    assert (url.scheme, dict(url.options)) == (scheme, chosen)
    for name, field in fields.items():
        for value in field["schema"].get("enum", ()):
            define(monkeypatch, "SHOP_DB", conn_type=kind, **parts, extra={name: value})
            open_source(config, source_url(config)).close()  # a value that it does not know is refused here
    define(monkeypatch, "SHOP_DB", conn_type=kind, **parts, extra=dict.fromkeys(fields, "") | {"other": None})
    assert ConnectionUrl.parse(source_url(config)).options == ()


def test_a_database_of_the_other_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    define(monkeypatch, "SHOP_DB", conn_type="cdc_ops_postgres", host="db")
    with pytest.raises(ConfigError, match="has type 'cdc_ops_postgres'; the pipeline's source is mysql"):
        source_url(PIPELINE.source)


@pytest.mark.integration
def test_the_test_of_a_database_logs_in_and_says_who_it_is(monkeypatch: pytest.MonkeyPatch, mariadb: MariaDBServer) -> None:
    parts = {"host": mariadb.host, "port": mariadb.port, "login": mariadb.user, "password": mariadb.password}
    define(monkeypatch, "SHOP_DB", conn_type="cdc_ops_mysql", **parts)
    good, text = MySqlHook("shop_db").test_connection()
    assert good, text
    assert "MariaDB" in text
    assert mariadb.user in text
    define(monkeypatch, "SHOP_DB", conn_type="cdc_ops_mysql", **parts | {"password": "wrong-4711"})
    good, text = MySqlHook("shop_db").test_connection()
    assert not good
    assert "4711" not in text
    define(monkeypatch, "SHOP_DB", conn_type="cdc_ops_mysql", host="")
    assert "host is empty" in PostgresHook("shop_db").test_connection()[1] or "has type" in PostgresHook("shop_db").test_connection()[1]


@pytest.mark.parametrize("master", ["local[*]", "spark://m:7077", "yarn", "k8s://https://h:6443"])
def test_the_form_of_spark_means_the_master_that_stands_there(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    define(monkeypatch, "SHOP_DB", conn_type="mysql", host="db", login="u", password="p")
    extra = {"deploy-mode": "client", "queue": "etl", "namespace": "lake"}
    assert set(extra) == set(FORMS["cdc_ops_spark"]["conn-fields"])
    define(monkeypatch, "SPARK_DEFAULT", conn_type="cdc_ops_spark", host=master, extra=extra)
    assert check_spark(PIPELINE) == master
    if master.startswith("k8s"):
        return  # Airflow's hook wants its provider of Kubernetes, which `preflight` asks for
    assert CdcSparkHook("spark_default").test_connection() == (True, f"Spark applications go to {master}. Nothing was started there.")
    operator = CdcSparkSubmitOperator(task_id="sync", pipeline=PIPELINE, step=Step.SYNC, tables=[])
    command = operator._get_hook()._build_spark_submit_command("job.py")
    assert command[command.index("--master") + 1] == master
    assert command[command.index("--deploy-mode") + 1] == "client"
    assert command[command.index("--queue") + 1] == "etl"


@pytest.mark.parametrize("host", ["", "lcal[2]", "master:7077"])
def test_a_form_of_spark_without_a_master_is_refused_instead_of_going_to_yarn(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    define(monkeypatch, "SPARK_DEFAULT", conn_type="cdc_ops_spark", host=host)
    for refused in (lambda: check_spark(PIPELINE), lambda: CdcSparkHook("spark_default")):
        with pytest.raises(ConfigError, match="does not name a Spark master"):
            refused()


def test_spark_s_hook_chooses_no_master_itself_when_there_is_no_connection(metadata: Path) -> None:
    with pytest.raises(ConfigError, match="Airflow has no connection 'nowhere'"):
        CdcSparkHook("nowhere")


def test_the_ledger_may_be_a_connection_of_our_forms_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, scheme in (("cdc_ops_mysql", "mysql"), ("cdc_ops_postgres", "postgresql")):
        define(monkeypatch, "CDC_OPS_LEDGER", conn_type=kind, host="db", login="u", password="p", schema="ledger")
        assert ledger_url({}) == f"{scheme}://u:p@db/ledger"


def test_airflows_configuration_may_name_the_ledger_and_the_jars(monkeypatch: pytest.MonkeyPatch, metadata: Path) -> None:
    assert set(INFO["config"]) == {SECTION}
    assert set(INFO["config"][SECTION]["options"]) == set(OPTIONS)
    assert ledger_url({"CDC_OPS_HOME": "/x"}) == "sqlite:////x/ledger.db"
    monkeypatch.setenv("AIRFLOW__CDC_OPS__LEDGER_CMD", "echo postgresql://u:secret@db/ledger")
    monkeypatch.setenv("AIRFLOW__CDC_OPS__JARS", "/opt/jars")
    assert ledger_url({}) == "postgresql://u:secret@db/ledger"
    assert with_airflow_settings({"CDC_OPS_LEDGER": " "})["CDC_OPS_JARS"] == "/opt/jars"
    assert ledger_url({"CDC_OPS_LEDGER": "sqlite:////y.db"}) == "sqlite:////y.db"
    assert with_airflow_settings({"CDC_OPS_JARS": "/mine"})["CDC_OPS_JARS"] == "/mine"
