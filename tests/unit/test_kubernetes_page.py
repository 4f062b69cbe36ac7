"""docs/kubernetes.md, held against everything that can be known without a cluster."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from cdc_ops import __version__
from cdc_ops.config.loading import load_pipeline
from cdc_ops.config.settings import VARIABLES
from cdc_ops.core.pipeline.connect_address import TOKEN_VARIABLE, ConnectAddress
from cdc_ops.provider_info import get_provider_info

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/kubernetes.md").read_text("utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
VALUES: dict[str, Any] = {}
for block in BLOCKS:
    for name, value in ({} if block.startswith(("pipeline:", "apiVersion:")) else yaml.safe_load(block)).items():
        VALUES[name] = VALUES[name] | value if name in VALUES else value
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yaml").read_text("utf-8"))
AIRFLOW: dict[str, str] = COMPOSE["services"]["airflow-scheduler"]["environment"]
CONNECTIONS: dict[str, Any] = next(
    found for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "shop_db" in (found := json.loads(text))
)


def test_the_page_says_that_it_was_checked_statically_only() -> None:
    assert "checked statically only" in PAGE.split("\n## ", maxsplit=1)[0]


def test_the_image_is_the_one_of_this_version_everywhere() -> None:
    image = f"registry.example.com/cdc-ops-airflow:{__version__}"
    assert ":".join(VALUES["images"]["airflow"].values()) == image
    assert set(re.findall(r"registry\.example\.com/cdc-ops-airflow:\S+", PAGE)) == {image}
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split() if "==" in line)
    assert VALUES["airflowVersion"] == pins["apache-airflow"]


def files() -> dict[str, set[str]]:
    """The keys of each secret, as the page makes it."""
    commands = re.findall(r"kubectl create secret generic (\S+) (.*)", PAGE)
    return {name: set(re.findall(r"--from-file=([\w.-]+)=", rest)) for name, rest in commands}


def mounted() -> set[str]:
    """Where the files of the secrets are in a pod."""
    places = {one["name"]: one["mountPath"] for one in VALUES["volumeMounts"]}
    volumes = {one["name"]: one["secret"]["secretName"] for one in VALUES["volumes"] if "secret" in one}
    return {f"{places[volume]}/{key}" for volume, name in volumes.items() for key in files()[name]}


def test_each_variable_is_one_that_somebody_reads() -> None:
    read = {variable.name for variable in VARIABLES} | {"CDC_OPS_LEDGER_FILE"}
    given = {one["name"] for one in VALUES["env"]}
    ours = {name for name in given if name.startswith("CDC_OPS_")}
    assert ours == {"CDC_OPS_PIPELINES", "CDC_OPS_JARS", "CDC_OPS_CLASSES", "CDC_OPS_LEDGER_FILE"}
    assert ours <= read
    keys = {name.removesuffix("_CMD") for name in given if name.startswith("AIRFLOW__")}
    assert given - ours - {f"{key}_CMD" for key in keys} == {"AWS_REGION", f"{TOKEN_VARIABLE}_FILE"}
    assert {f"{key}_CMD" for key in keys} == {name for name in AIRFLOW if name.startswith("AIRFLOW__") and name.endswith("_CMD")}
    assert all(isinstance(one["value"], str) for one in VALUES["env"]), "Kubernetes takes texts only"
    off = {name for name, is_on in VALUES["enableBuiltInSecretEnvVars"].items() if not is_on}
    assert keys <= off, "else the chart puts the key into a variable, and that one wins"


def test_secrets_and_config_maps_are_those_that_the_page_makes_and_no_secret_is_a_value() -> None:
    assert {VALUES[name] for name in ("fernetKeySecretName", "apiSecretKeySecretName", "jwtSecretName")} == {"airflow-keys"}
    rows = re.findall(r"^\| (`[\w.-]+`(?:, `[\w.-]+`)*) \|", PAGE, re.MULTILINE)
    made = files()
    assert set(made) == {"cdc-ops", "airflow-keys"}
    assert {name for keys in made.values() for name in keys} == {name for row in rows for name in re.findall(r"[\w.-]+", row)}
    maps = set(re.findall(r"kubectl create configmap (\S+)", PAGE))
    assert {one["configMap"]["name"] for one in VALUES["volumes"] if "configMap" in one} == maps
    assert {one["name"] for one in VALUES["volumes"]} == {one["name"] for one in VALUES["volumeMounts"]}
    assert "secret" not in VALUES, "what stands there becomes a variable"


def test_every_file_that_is_named_is_mounted_and_every_file_that_is_mounted_is_named() -> None:
    named = set(re.findall(r"/run/secrets/[\w./-]*\w", json.dumps(VALUES))) - {one["mountPath"] for one in VALUES["volumeMounts"]}
    assert mounted() - named == {"/run/secrets/cdc-ops/shop-db"}, "which is for commands by hand and drivers in pods of their own"
    assert named <= mounted()
    [server] = VALUES["scheduler"]["extraContainers"]
    assert server["volumeMounts"] == [one for one in VALUES["volumeMounts"] if one["name"] == "cdc-ops"]


def test_connections_come_from_the_file_for_services_and_for_tasks_as_in_compose() -> None:
    for section, prefix in (("secrets", ""), ("workers", "secrets_")):
        backend, arguments = (VALUES["config"][section][f"{prefix}{name}"] for name in ("backend", "backend_kwargs"))
        assert backend == AIRFLOW[f"AIRFLOW__{section.upper()}__{prefix.upper()}BACKEND"]
        assert json.loads(arguments) == {"connections_file_path": "/run/secrets/cdc-ops/connections.json"}
    assert VALUES["config"]["logging"]["remote_log_conn_id"] in CONNECTIONS


def test_the_rights_of_tasks_are_bound_to_the_accounts_that_pods_have() -> None:
    [block] = [one for one in BLOCKS if one.startswith("apiVersion:")]
    documents = list(yaml.safe_load_all(block))
    kinds = [one["kind"] for one in documents]
    assert kinds == ["ServiceAccount", "ServiceAccount", "Role", "RoleBinding"]
    accounts = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in documents[:2]}
    role, binding = documents[2:]
    assert {(one["namespace"], one["name"]) for one in binding["subjects"]} == accounts
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert VALUES["scheduler"]["serviceAccount"]["name"] in {name for _, name in accounts}
    [driver] = re.findall(r"spark\.kubernetes\.authenticate\.driver\.serviceAccountName: (\S+)", PAGE)
    [namespace] = re.findall(r'"namespace": "(\w+)"', PAGE)
    assert (namespace, driver) in accounts
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == namespace
    rights = {resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}
    assert rights["pods"] >= {"create", "get", "list", "watch", "delete", "deletecollection"}
    assert set(rights) >= {"pods", "configmaps", "services", "persistentvolumeclaims"}, "what Spark's driver makes and removes"
    assert "*" not in str(role["rules"])


def test_the_server_is_probed_on_the_address_where_it_listens() -> None:
    [server] = VALUES["scheduler"]["extraContainers"]
    probes = [server[name]["exec"]["command"] for name in ("startupProbe", "livenessProbe")]
    assert probes == [COMPOSE["services"]["spark-connect"]["healthcheck"]["test"][1:]] * 2


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
    shared = server["command"].index("--memory")
    assert server["command"][:shared] == ours[:shared]
    pipelines = []
    for block in BLOCKS:
        if block.startswith("pipeline:"):
            (tmp_path / "shop.yaml").write_text(block)
            pipelines.append(load_pipeline(tmp_path / "shop.yaml"))
    assert len(pipelines) == 3
    [address] = [ConnectAddress.parse(one.spark.connect) for one in pipelines if one.spark.connect]
    assert address.is_local
    assert str(address.port) == server["command"][server["command"].index("--port") + 1]
    elsewhere = ConnectAddress.parse(re.findall(r'connect: "(sc://spark\.example[^"]+)"', PAGE)[0])
    assert not elsewhere.is_local


def test_the_connections_are_of_the_types_that_the_package_brings_or_the_image_has() -> None:
    [spark] = [json.loads(text) for text in re.findall(r'^\{"conn_type".*\}$', PAGE, re.MULTILINE)]
    types = {one["connection-type"] for one in get_provider_info()["connection-types"]}
    assert {name: one["conn_type"] for name, one in CONNECTIONS.items()} == {"shop_db": "cdc_ops_mysql", "object_store": "aws"}
    assert {CONNECTIONS["shop_db"]["conn_type"], spark["conn_type"]} <= types
    assert spark["extra"]["deploy-mode"] == "client"


def test_the_setting_by_which_a_driver_on_the_cluster_gets_its_login_is_the_one_that_the_run_asks_for() -> None:
    [setting] = re.findall(r"`(spark\.kubernetes\.driver\.secretKeyRef\.)CDC_OPS_CONN_SHOP_DB: ", PAGE)
    assert f'"{setting}{{variable}}"' in (ROOT / "cdc_ops/airflow/spark/submit.py").read_text("utf-8")
