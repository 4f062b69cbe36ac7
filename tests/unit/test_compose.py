"""docker-compose.yaml, held against everything that can be known without a container engine."""

import importlib.resources
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from cdc_ops.config.loading import load_pipelines
from cdc_ops.config.settings import VARIABLES
from cdc_ops.core.pipeline.connect_address import ConnectAddress

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NAMES = sorted(SERVICES)
PIPELINES = {pipeline.name: pipeline for pipeline in load_pipelines(ROOT / "docker/pipelines")}
REFERENCE = re.compile(r"\$(\$)?\{?([A-Z_][A-Z0-9_]*)")


def variables_of_the_example_file() -> dict[str, str]:
    lines = (ROOT / ".env.example").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def references(text: str) -> set[str]:
    return {found[2] for found in REFERENCE.finditer(text) if not found[1]}


def mounted_paths() -> set[str]:
    volumes = [volume for service in SERVICES.values() for volume in service.get("volumes", ())]
    return {volume.split(":")[0] for volume in volumes if volume.startswith(".")}


def test_the_file_fits_the_compose_schema() -> None:
    schema_file = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(schema_file.read_text("utf-8"))
    errors = jsonschema.validators.validator_for(schema)(schema).iter_errors(COMPOSE)
    assert [f"{'/'.join(map(str, error.path))}: {error.message}" for error in errors] == []


def test_the_file_says_that_it_was_validated_statically_only() -> None:
    assert "VALIDATED STATICALLY ONLY" in TEXT.split("services:")[0]


def test_every_image_tag_is_pinned() -> None:
    dockerfiles = "".join(path.read_text("utf-8") for path in sorted((ROOT / "docker").glob("*.Dockerfile")))
    bases = set(re.findall(r"^FROM (\S+)", dockerfiles, re.MULTILINE))
    assert {base.partition(":")[0] for base in bases} == {"apache/airflow", "confluentinc/cp-kafka-connect", "quay.io/debezium/connect"}
    images = {service["image"] for service in SERVICES.values()} | bases | set(re.findall(r"install --no-prompt (\S+)", dockerfiles))
    loose = [image for image in images if not re.search(r":[A-Za-z]*[.-]?\d+\.?[\w.\-]*\d", image) or "latest" in image]
    assert loose == []


def test_the_image_that_is_built_carries_the_versions_of_this_repository() -> None:
    from cdc_ops import __version__

    dockerfile = (ROOT / "docker/airflow.Dockerfile").read_text("utf-8")
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split() if "==" in line)
    assert f"FROM apache/airflow:{pins['apache-airflow']}-python3.11" in dockerfile
    assert f'"apache-airflow=={pins["apache-airflow"]}"' in dockerfile
    assert f'"s3fs=={pins["fsspec"]}"' in dockerfile
    assert COMPOSE["x-image"]["image"].endswith(f":{__version__}")


def test_the_example_environment_file_has_exactly_the_variables_that_are_referred_to() -> None:
    asked = {secret["environment"] for secret in COMPOSE["secrets"].values()} | references(re.sub(r"#.*", "", TEXT))
    assert set(variables_of_the_example_file()) == asked


def test_the_example_environment_file_holds_no_secret() -> None:
    given = {name: value for name, value in variables_of_the_example_file().items() if value}
    assert all(name.endswith("_USER") for name in given), given


def test_every_reference_to_a_variable_stops_compose_when_the_variable_is_missing() -> None:
    loose = [text for text in re.findall(r"(?<!\$)\$\{[^}]*\}", TEXT) if ":?" not in text]
    assert loose == []


@pytest.mark.parametrize("name", NAMES)
def test_a_service_sets_only_variables_of_cdc_ops_that_the_code_reads(name: str) -> None:
    read = {variable.name for variable in VARIABLES}
    patterns = [re.escape(variable).replace("<ID>", "[A-Z0-9_]+") for variable in read]
    for variable in SERVICES[name].get("environment", {}):
        assert not variable.startswith("CDC_OPS_") or any(re.fullmatch(one, variable) for one in patterns), variable


def test_every_mounted_path_is_in_the_repository() -> None:
    assert [path for path in sorted(mounted_paths()) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_service_waits_only_for_what_can_be_waited_for(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        match wait["condition"]:
            case "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} waits for {other}, which has no healthcheck"
            case "service_completed_successfully":
                assert SERVICES[other]["restart"].startswith("on-failure"), f"{other} never ends"
            case _:
                pytest.fail(f"{name} does not wait for {other} to work")


@pytest.mark.parametrize("name", NAMES)
def test_a_long_lived_service_has_a_healthcheck_and_comes_back(name: str) -> None:
    service = SERVICES[name]
    if service.get("restart") == "unless-stopped":
        assert "healthcheck" in service
    else:
        assert service.get("profiles") == ["tools"] or service["restart"].startswith("on-failure")


@pytest.mark.parametrize("name", NAMES)
def test_a_service_has_a_limit_of_memory(name: str) -> None:
    assert re.fullmatch(r"[1-9]\d*[mg]", SERVICES[name]["mem_limit"])


def test_what_executors_may_have_fits_into_the_service_that_runs_them() -> None:
    command = SERVICES["spark-worker"]["command"]
    given = int(command[command.index("--memory") + 1].removesuffix("g"))
    assert given < int(SERVICES["spark-worker"]["mem_limit"].removesuffix("g")), "Python's workers need memory beside the JVM's"


def test_folders_are_mounted_and_no_single_files_which_stay_as_they_were_when_an_editor_replaces_them() -> None:
    assert [path for path in sorted(mounted_paths()) if not (ROOT / path).is_dir()] == []


@pytest.mark.parametrize("name", NAMES)
def test_ports_are_published_on_the_loopback_address_only(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", ()))


def test_every_volume_and_secret_that_a_service_names_is_declared_and_used() -> None:
    volumes = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())} - mounted_paths()
    assert volumes == set(COMPOSE["volumes"])
    assert {secret for service in SERVICES.values() for secret in service.get("secrets", ())} == set(COMPOSE["secrets"])


def test_secrets_of_the_scripts_are_given_to_the_services_that_run_them() -> None:
    for service, folder in (("mysql", "docker/mysql"), ("postgres", "docker/postgres")):
        scripts = "".join(path.read_text("utf-8") for path in sorted((ROOT / folder).glob("*.sh")))
        wanted = set(re.findall(r"/run/secrets/(\w+)", scripts.replace("${name}", "airflow")))
        assert wanted
        assert wanted <= set(SERVICES[service]["secrets"])


def test_a_script_that_uses_functions_of_the_entry_point_is_sourced_and_so_not_executable() -> None:
    sourced = sorted((ROOT / "docker/mysql").glob("*.sh"))
    assert [path.name for path in sourced] == ["02-cdc-user.sh", "03-debezium-user.sh"]
    assert not [path for path in sourced if path.stat().st_mode & 0o111]
    assert (ROOT / "docker/postgres/01-databases.sh").stat().st_mode & 0o111


def test_all_services_of_airflow_share_their_keys_and_the_ledger() -> None:
    shared = ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__API_AUTH__JWT_SECRET", "CDC_OPS_LEDGER")
    airflow = [service["environment"] for name, service in SERVICES.items() if name.startswith("airflow-")]
    assert len(airflow) == 5
    assert all(len({environment[name] for environment in airflow}) == 1 for name in shared)


def test_the_ledger_is_not_in_the_database_of_airflow() -> None:
    environment = SERVICES["airflow-scheduler"]["environment"]
    assert environment["CDC_OPS_LEDGER"].endswith("/cdc_ops")
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].endswith("/airflow")


@pytest.mark.parametrize("name", ["shop", "shop_events"])
def test_the_pipelines_of_the_example_are_valid_and_their_connections_are_set(name: str) -> None:
    pipeline = PIPELINES[name]
    environment = SERVICES["airflow-scheduler"]["environment"]
    assert f"AIRFLOW_CONN_{pipeline.source.connection.upper()}" in environment
    assert f"AIRFLOW_CONN_{pipeline.spark.connection.upper()}" in environment  # for pipelines without a server
    assert f"CDC_OPS_CONN_{pipeline.source.connection.upper()}" in SERVICES["cdc-ops"]["environment"]
    assert dict(pipeline.spark.conf)["spark.hadoop.fs.s3a.endpoint"] == environment["AWS_ENDPOINT_URL"]


def test_the_two_pipelines_of_the_example_share_no_table_of_the_lake() -> None:
    assert set(PIPELINES) == {"shop", "shop_events"}
    assert len({pipeline.target.root for pipeline in PIPELINES.values()}) == len(PIPELINES)


@pytest.mark.parametrize("name", ["shop", "shop_events"])
def test_the_spark_server_is_reached_on_a_loopback_address_that_it_shares(name: str) -> None:
    pipeline = PIPELINES[name]
    address = ConnectAddress.parse(pipeline.spark.connect)
    server = SERVICES["spark-connect"]
    assert address.is_local
    assert server["command"][server["command"].index("--port") + 1] == str(address.port)
    assert f"/{address.host}/{address.port}" in server["healthcheck"]["test"][-1]
    assert {SERVICES[name]["network_mode"] for name in ("airflow-scheduler", "spark-connect", "cdc-ops")} == {"service:loopback"}
    assert "spark.driver.host=loopback" in server["command"]
