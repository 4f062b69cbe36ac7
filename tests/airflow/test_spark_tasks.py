"""Tasks that start Spark: what ends them, and where their buttons lead."""

import importlib.util
import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from airflow.serialization.serialized_objects import DagSerialization
from jsonschema import Draft7Validator

from cdc_ops.airflow.dags import build_dag
from cdc_ops.airflow.spark.hook import CdcSparkHook
from cdc_ops.airflow.spark.links import SparkHistoryLink, TablesLink
from cdc_ops.airflow.spark.submit import CdcSparkSubmitOperator, _close_output, _job_lost
from cdc_ops.airflow.tasks import preflight
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.operation.job import Step
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.provider_info import get_provider_info
from cdc_ops.testing.source_harness import wait_until

FILE = """
pipeline: shop
source: {kind: mariadb, connection: shop_db}
target: {root: s3://lake/tables, staging: s3://lake/staging}
airflow: {spark_history_url: "https://spark.example.com:18080/"}
tables: {shop.orders: {cursor: updated_at}, "shop.odd t": {cursor: updated_at}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "shop.yaml").write_text(FILE)
    return load_pipeline(tmp_path / "shop.yaml", {})


def operator(pipeline: Pipeline, tables: list[str]) -> CdcSparkSubmitOperator:
    return CdcSparkSubmitOperator(task_id="sync", pipeline=pipeline, step=Step.SYNC, tables=tables)


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077", "yarn"])
def test_a_kill_ends_the_application_whose_driver_is_on_the_worker_whatever_the_master(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    program, began, ended = tmp_path / "bin" / "spark2-submit", tmp_path / "began", tmp_path / "ended"
    program.parent.mkdir()
    code = f"import pathlib, time; pathlib.Path({str(began)!r}).touch(); time.sleep(120); pathlib.Path({str(ended)!r}).touch()"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    spark = {"conn_type": "spark", "host": master, "extra": {"spark-binary": "spark2-submit", "deploy-mode": "client"}}
    source = {"conn_type": "mysql", "host": "127.0.0.1", "login": "u", "password": "p"}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps(source))
    task = operator(pipeline, ["shop.orders"])
    task._hook = task._get_hook()
    failures: list[str] = []

    def submit() -> None:
        try:
            task._hook.submit("job.py")  # type: ignore[union-attr]
        except AirflowException as error:
            failures.append(str(error))

    thread = threading.Thread(target=submit)
    thread.start()
    wait_until(began.exists, "the start of the application")
    task.on_kill()
    thread.join(30)
    process = task._hook._submit_sp
    assert process.stdout is not None
    process.stdout.close()
    assert not thread.is_alive()
    assert (process.returncode, ended.exists(), len(failures)) == (-9, False, 1)


KILLED = "was killed by signal 9 (SIGKILL), mostly by the memory killer of the system or the container. The driver had 2g of heap"


@pytest.mark.parametrize(
    ("master", "mode", "end", "words"),
    [
        ("local[2]", "client", "kill -9 $$", f"It {KILLED}"),
        ("spark://127.0.0.1:7077", "client", "exit 137", f"It {KILLED}"),
        ("yarn", "client", "kill -15 $$", "It was killed by signal 15 (SIGTERM), by a person, a time limit"),
        (
            "local[2]",
            "client",
            "exit 52",
            "It ended with exit code 52 (Spark's code for OutOfMemoryError: its heap was too small). The driver had 2g",
        ),
        ("yarn", "cluster", "echo Application failed 2 times, exitCode: 137 due to; exit 1", f"The driver on the cluster {KILLED}"),
        ("local[2]", "client", "exit 3", "It ended with exit code 3"),
    ],
)
def test_an_application_that_ends_says_by_what_signal_or_code_and_its_last_lines(
    pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str, mode: str, end: str, words: str
) -> None:
    program = tmp_path / "bin" / "spark2-submit"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho begun\necho its last words\n{end}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    spark = {"conn_type": "spark", "host": master, "extra": {"spark-binary": "spark2-submit", "deploy-mode": mode}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    hook = CdcSparkHook("spark_default")
    with pytest.raises(AirflowException) as caught:
        hook.submit("job.py")
    _close_output(hook)
    error = _job_lost(Step.SYNC, str(caught.value), "2g", on_cluster=mode == "cluster")
    first, *last = error.why.splitlines()
    assert first.startswith(words), first
    assert "        its last words" in last


@pytest.mark.skipif(importlib.util.find_spec("kubernetes") is not None, reason="Airflow has its provider of Kubernetes here")
def test_a_master_on_kubernetes_without_its_client_is_refused_before_anything_is_planned(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "k8s://https://127.0.0.1:6443"}))
    with pytest.raises(EnvironmentSetupError, match="cannot talk to Kubernetes"):
        preflight(pipeline)


@pytest.mark.parametrize(
    ("tables", "address"),
    [
        (["shop.orders"], "/sub/cdc/table?pipeline=shop&name=shop.orders"),
        (["shop.odd t"], "/sub/cdc/table?pipeline=shop&name=shop.odd+t"),
        (["shop.odd t", "shop.orders"], "/sub/cdc/ui"),
    ],
)
def test_a_button_leads_to_the_page_of_the_table_also_below_another_path(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, tables: list[str], address: str
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/sub/")
    assert TablesLink().get_link(operator(pipeline, tables), ti_key=None) == address
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com")
    assert TablesLink().get_link(operator(pipeline, tables), ti_key=None) == address.removeprefix("/sub")


def test_a_button_leads_to_the_application_in_the_history_server_if_there_are_both(pipeline: Pipeline) -> None:
    task = operator(pipeline, ["shop.orders"])
    assert SparkHistoryLink().get_link(task, ti_key=None) == ""
    task.spark_application = "app-20260101-0001"
    assert SparkHistoryLink().get_link(task, ti_key=None) == "https://spark.example.com:18080/history/app-20260101-0001/"
    task.pipeline = replace(pipeline, airflow=replace(pipeline.airflow, spark_history_url=""))
    assert SparkHistoryLink().get_link(task, ti_key=None) == ""


def test_airflow_knows_the_buttons_of_a_dag_and_of_the_provider(pipeline: Pipeline) -> None:
    import airflow

    def classes(node: Any) -> set[str]:
        if isinstance(node, dict):
            found = set().union(*map(classes, node.values()))
            return found | (set(node["_operator_extra_links"].values()) if "_operator_extra_links" in node else set())
        return set().union(*map(classes, node)) if isinstance(node, list) else set()

    assert classes(DagSerialization.to_dict(build_dag(pipeline))) == {"_link_TablesLink", "_link_SparkHistoryLink"}
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    info = get_provider_info()
    assert list(Draft7Validator(schema).iter_errors(info)) == []
    assert info["extra-links"] == [f"{link.__module__}.{link.__name__}" for link in (TablesLink, SparkHistoryLink)]
