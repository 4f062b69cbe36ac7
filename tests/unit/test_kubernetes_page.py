"""docs/kubernetes.md, held against everything that can be known without a cluster."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from cdc_ops import __version__
from cdc_ops.config.loading import load_pipeline
from cdc_ops.config.settings import VARIABLES
from cdc_ops.core.pipeline.connect_address import ConnectAddress
from cdc_ops.provider_info import get_provider_info

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/kubernetes.md").read_text("utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
VALUES: dict[str, Any] = {}
for block in BLOCKS:
    for name, value in ({} if block.startswith("pipeline:") else yaml.safe_load(block)).items():
        VALUES[name] = VALUES[name] | value if name in VALUES else value
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yaml").read_text("utf-8"))


def test_the_page_says_that_it_was_checked_statically_only() -> None:
    assert "checked statically only" in PAGE.split("\n## ", maxsplit=1)[0]


def test_the_image_is_the_one_of_this_version_everywhere() -> None:
    image = f"registry.example.com/cdc-ops-airflow:{__version__}"
    assert ":".join(VALUES["images"]["airflow"].values()) == image
    assert set(re.findall(r"registry\.example\.com/cdc-ops-airflow:\S+", PAGE)) == {image}
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split() if "==" in line)
    assert VALUES["airflowVersion"] == pins["apache-airflow"]


def test_each_variable_is_one_that_somebody_reads() -> None:
    read = {variable.name for variable in VARIABLES}
    given = [one["name"] for one in VALUES["env"]] + [one["envName"] for one in VALUES["secret"]]
    ours = {name for name in given if name.startswith("CDC_OPS_")}
    assert ours == {"CDC_OPS_PIPELINES", "CDC_OPS_JARS", "CDC_OPS_CLASSES", "CDC_OPS_LEDGER"}
    assert ours <= read
    assert {name for name in given if name not in ours} == {"AWS_REGION", "AIRFLOW_CONN_SHOP_DB", "AIRFLOW_CONN_SPARK_DEFAULT"}
    assert all(isinstance(one["value"], str) for one in VALUES["env"]), "Kubernetes takes texts only"


def test_secrets_and_config_maps_are_those_that_the_page_makes_and_no_secret_is_a_value() -> None:
    made = set(re.findall(r"--from-file=([\w-]+)=", PAGE))
    keys = {"fernet-key", "api-secret-key", "jwt-secret"}  # by which the chart looks for them
    assert {VALUES[name] for name in ("fernetKeySecretName", "apiSecretKeySecretName", "jwtSecretName")} == {"airflow-keys"}
    rows = re.findall(r"^\| (`[\w-]+`(?:, `[\w-]+`)*) \|", PAGE, re.MULTILINE)
    assert {one["secretKey"] for one in VALUES["secret"]} | keys == made == {name for row in rows for name in re.findall(r"[\w-]+", row)}
    assert set(re.findall(r"kubectl create secret generic (\S+)", PAGE)) == {"cdc-ops", "airflow-keys"}
    maps = set(re.findall(r"kubectl create configmap (\S+)", PAGE))
    assert {one["configMap"]["name"] for one in VALUES["volumes"]} == maps == {one["name"] for one in VALUES["volumeMounts"]}
    assert not [one for one in VALUES["env"] if re.search("PASSWORD|SECRET|KEY|LEDGER", one["name"])]


def test_what_the_commands_put_into_config_maps_is_where_the_repository_and_a_new_project_have_it() -> None:
    given = re.findall(r"--from-file=([^\s=]+)(?:\s|$)", PAGE)
    assert given == ["dags/cdc_pipelines.py", "dags/pipelines/"]
    assert all((ROOT / one).exists() for one in given)


def test_commands_by_hand_go_to_a_deployment_that_the_chart_makes_with_any_executor() -> None:
    """With a local executor its scheduler is a StatefulSet, unless `workers.persistence` is off."""
    assert re.findall(r"kubectl exec (\S+)", PAGE) == ["deploy/airflow-api-server"]


def test_the_mounts_are_where_dag_file_and_pipelines_are_looked_for() -> None:
    mounts = {one["name"]: one for one in VALUES["volumeMounts"]}
    folder = next(one["value"] for one in VALUES["env"] if one["name"] == "CDC_OPS_PIPELINES")
    assert mounts["cdc-ops-pipelines"]["mountPath"] == folder == COMPOSE["x-cdc-ops"]["CDC_OPS_PIPELINES"]
    assert "subPath" not in mounts["cdc-ops-pipelines"]
    dag_file = mounts["cdc-ops-dags"]
    assert (ROOT / "dags" / dag_file["subPath"]).is_file()
    dags = COMPOSE["services"]["airflow-scheduler"]["volumes"][0].split(":")[1]
    assert dag_file["mountPath"] == f"{dags}/{dag_file['subPath']}"
    jars = next(one["value"] for one in VALUES["env"] if one["name"] == "CDC_OPS_JARS")
    assert f"CDC_OPS_JARS={jars}" in (ROOT / "docker/airflow.Dockerfile").read_text("utf-8")


def test_what_runs_tasks_or_spark_has_a_limit_of_memory_and_time_to_end() -> None:
    scheduler = VALUES["scheduler"]
    assert scheduler["terminationGracePeriodSeconds"] >= 60
    for one in (scheduler, *scheduler["extraContainers"]):
        assert one["resources"]["limits"]["memory"] == one["resources"]["requests"]["memory"]


def test_watchers_have_a_triggerer() -> None:
    assert VALUES["triggerer"] == {"enabled": True}


def test_the_server_beside_the_scheduler_is_the_one_that_the_pipeline_names(tmp_path: Path) -> None:
    [server] = VALUES["scheduler"]["extraContainers"]
    ours = COMPOSE["services"]["spark-connect"]["command"]
    assert server["command"] == ours[: len(server["command"])]
    pipelines = []
    for block in BLOCKS:
        if block.startswith("pipeline:"):
            (tmp_path / "shop.yaml").write_text(block)
            pipelines.append(load_pipeline(tmp_path / "shop.yaml"))
    assert len(pipelines) == 3
    [address] = [ConnectAddress.parse(one.spark.connect) for one in pipelines if one.spark.connect]
    assert address.is_local
    assert str(address.port) == server["command"][-1]
    elsewhere = ConnectAddress.parse(re.findall(r'connect: "(sc://spark\.example[^"]+)"', PAGE)[0])
    assert not elsewhere.is_local


def test_the_connections_are_of_the_types_that_the_package_brings() -> None:
    texts = re.findall(r'(\{"conn_type".*\})`?', PAGE)
    connections = [json.loads(text) for text in texts]
    types = {one["connection-type"] for one in get_provider_info()["connection-types"]}
    assert [one["conn_type"] for one in connections] == ["cdc_ops_mysql", "cdc_ops_spark"]
    assert {one["conn_type"] for one in connections} <= types
    assert connections[1]["extra"]["deploy-mode"] == "client"


def test_the_setting_by_which_a_driver_on_the_cluster_gets_its_login_is_the_one_that_the_run_asks_for() -> None:
    [setting] = re.findall(r"`(spark\.kubernetes\.driver\.secretKeyRef\.)CDC_OPS_CONN_SHOP_DB: ", PAGE)
    assert f'"{setting}{{variable}}"' in (ROOT / "cdc_ops/airflow/spark/submit.py").read_text("utf-8")
