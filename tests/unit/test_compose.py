"""docker-compose.yaml, held against everything that can be known without a container engine."""

import configparser
import importlib.resources
import json
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from cryptography.fernet import Fernet
from sqlalchemy import make_url

from cdc_ops.config.connections import connection_url
from cdc_ops.config.loading import load_pipelines
from cdc_ops.config.settings import VARIABLES, load_settings
from cdc_ops.core.pipeline.connect_address import ConnectAddress
from cdc_ops.core.pipeline.connections import ConnectionUrl

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
NAMES = sorted(SERVICES)
PIPELINES = {pipeline.name: pipeline for pipeline in load_pipelines(ROOT / "docker/pipelines")}
REFERENCE = re.compile(r"\$(\$)?\{?([A-Z_][A-Z0-9_]*)")


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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of secrets, as somebody makes it who has nothing but Python."""
    folder = tmp_path_factory.mktemp("made") / "secrets"
    subprocess.run([sys.executable, "-I", ROOT / "docker/make_secrets.py", folder], check=True, capture_output=True)
    return folder


def secret(made: Path, name: str) -> str:
    return (made / name).read_text("utf-8").strip()


def test_every_secret_is_a_file_that_is_made_and_no_value_comes_from_a_variable_of_the_host(made: Path) -> None:
    assert COMPOSE["secrets"] == {name: {"file": f"./secrets/{name}"} for name in COMPOSE["secrets"]}
    assert set(COMPOSE["secrets"]) == {path.name for path in made.iterdir()} - {"spark_secret"}, "that one is in spark.conf"
    assert references(re.sub(r"#.*", "", TEXT)) == set()
    assert "/secrets/" in (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert "!secrets" not in (ROOT / ".dockerignore").read_text("utf-8"), "the engine is sent only what is named there"


def test_only_their_owner_may_enter_the_folder_of_secrets_and_the_users_of_containers_can_read_the_files(made: Path) -> None:
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()} == {0o644}


def test_secrets_that_are_made_again_stay_and_what_is_made_of_them_follows(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "docker/make_secrets.py", tmp_path / "secrets"]
    subprocess.run(command, check=True, capture_output=True)
    before = {path.name: path.read_text("utf-8") for path in (tmp_path / "secrets").iterdir()}
    assert len(set(before.values())) == len(before)
    (tmp_path / "secrets" / "spark_connect_token").unlink()
    (tmp_path / "secrets" / "mysql_cdc_password").write_text("changed")
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = {path.name: path.read_text("utf-8") for path in (tmp_path / "secrets").iterdir()}
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"spark_connect_token", "mysql_cdc_password", "shop_db", "airflow_connections.json"}
    assert after["shop_db"] == "mysql://cdc:changed@mysql:3306/shop"
    assert told.strip().endswith(": spark_connect_token")


SECRET = re.compile(r"PASSWORD|SECRET_KEY|JWT|FERNET|TOKEN|_CONN_|SQL_ALCHEMY_CONN|LEDGER|CREDENTIAL|ROOT_USER")


@pytest.mark.parametrize("name", NAMES)
def test_no_variable_of_a_service_holds_a_secret(name: str, made: Path) -> None:
    values = {path.read_text("utf-8").strip() for path in made.iterdir()} - {secret(made, "object_store_user")}
    for variable, value in SERVICES[name].get("environment", {}).items():
        assert value not in values
        assert "://" not in value or "@" not in value, f"{variable} is a URL with a login"
        if SECRET.search(variable) and not variable.endswith("REMOTE_LOG_CONN_ID"):
            assert re.fullmatch(r"(cat )?/run/secrets/[\w.]+", value), f"{variable} should name a file"


def test_variables_that_would_hold_a_secret_are_known_by_their_names() -> None:
    named = {variable for service in SERVICES.values() for variable in service.get("environment", {}) if SECRET.search(variable)}
    assert len(named) > 12, named


@pytest.mark.parametrize("name", NAMES)
def test_a_service_has_the_secrets_that_its_variables_commands_and_scripts_name_and_no_other(name: str) -> None:
    service = SERVICES[name]
    text = json.dumps([service.get("environment", {}), service.get("command"), service.get("entrypoint")])
    named = set(re.findall(r"/run/secrets/([\w.]+\w)", text))
    scripts = {"mysql": "docker/mysql", "postgres": "docker/postgres", "connect": "docker/connectors"}
    for path in sorted((ROOT / scripts[name]).iterdir()) if name in scripts else ():
        found = path.read_text("utf-8")
        named |= {one for user in ("airflow", "cdc_ops") for one in re.findall(r"/run/secrets[/:](\w+)", found.replace("${name}", user))}
    assert set(service.get("secrets", ())) == named


def test_the_secrets_that_are_made_are_what_their_readers_take(made: Path) -> None:
    Fernet(secret(made, "airflow_fernet_key"))
    assert re.fullmatch(r"[0-9a-f]{48}", secret(made, "airflow_jwt_secret"))
    ledger = load_settings({"CDC_OPS_LEDGER_FILE": str(made / "cdc_ops_ledger")}).ledger
    assert make_url(ledger).password == secret(made, "postgres_cdc_ops_password")
    assert make_url(secret(made, "airflow_database")).password == secret(made, "postgres_airflow_password")
    source = connection_url("shop_db", {"CDC_OPS_CONN_SHOP_DB_FILE": str(made / "shop_db")})
    assert ConnectionUrl.parse(source).password == secret(made, "mysql_cdc_password")
    store = configparser.ConfigParser()
    store.read(made / "aws_credentials")
    assert dict(store["default"]) == {
        "aws_access_key_id": secret(made, "object_store_user"),
        "aws_secret_access_key": secret(made, "object_store_password"),
    }
    spark = dict(line.split(" ") for line in (made / "spark.conf").read_text().splitlines())
    assert spark["spark.authenticate"] == "true"
    assert spark["spark.authenticate.secret"] == secret(made, "spark_secret")


def test_every_process_of_spark_asks_for_the_secret_and_its_clients_show_the_token() -> None:
    for name in ("spark-master", "spark-worker", "spark-connect"):
        assert "/run/secrets/spark.conf" in SERVICES[name]["command"]
        assert not [word for word in SERVICES[name]["command"] if "authenticate" in word], "what is on a command line, everybody sees"
    token = {"SPARK_CONNECT_AUTHENTICATE_TOKEN_FILE": "/run/secrets/spark_connect_token"}
    for name in ("spark-connect", "airflow-scheduler", "cdc-ops"):
        assert SERVICES[name]["environment"].items() >= token.items()


def test_nothing_that_is_for_tests_runs_in_production() -> None:
    texts = [TEXT, (ROOT / "docs/kubernetes.md").read_text("utf-8"), (ROOT / "docs/install.md").read_text("utf-8")]
    assert not [text for text in texts if "cdc_ops.dev" in text or "cdc_ops/dev" in text]


@pytest.mark.parametrize("name", NAMES)
def test_a_service_sets_only_variables_of_cdc_ops_that_the_code_reads(name: str) -> None:
    read = {variable.name for variable in VARIABLES}
    read |= {f"{name}_FILE" for name in read if name == "CDC_OPS_LEDGER" or name.startswith("CDC_OPS_CONN_")}
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


def test_a_script_that_uses_functions_of_the_entry_point_is_sourced_and_so_not_executable() -> None:
    sourced = sorted((ROOT / "docker/mysql").glob("*.sh"))
    assert [path.name for path in sourced] == ["02-cdc-user.sh", "03-debezium-user.sh"]
    assert not [path for path in sourced if path.stat().st_mode & 0o111]
    assert (ROOT / "docker/postgres/01-databases.sh").stat().st_mode & 0o111


def test_all_services_of_airflow_share_their_keys_and_the_ledger() -> None:
    keys = ("CORE__FERNET_KEY_CMD", "API__SECRET_KEY_CMD", "API_AUTH__JWT_SECRET_CMD", "DATABASE__SQL_ALCHEMY_CONN_CMD")
    shared = (*(f"AIRFLOW__{key}" for key in keys), "CDC_OPS_LEDGER_FILE")
    airflow = [service["environment"] for name, service in SERVICES.items() if name.startswith("airflow-")]
    assert len(airflow) == 5
    assert all(len({environment[name] for environment in airflow}) == 1 for name in shared)


def test_the_ledger_is_not_in_the_database_of_airflow(made: Path) -> None:
    assert make_url(secret(made, "cdc_ops_ledger")).database == "cdc_ops"
    assert make_url(secret(made, "airflow_database")).database == "airflow"


@pytest.mark.parametrize("name", ["shop", "shop_events"])
def test_the_pipelines_of_the_example_are_valid_and_their_connections_are_set(name: str, made: Path) -> None:
    pipeline = PIPELINES[name]
    environment = SERVICES["airflow-scheduler"]["environment"]
    connections = json.loads(secret(made, "airflow_connections.json"))
    assert pipeline.source.connection in connections
    assert pipeline.spark.connection in connections  # for pipelines without a server
    assert environment["AIRFLOW__LOGGING__REMOTE_LOG_CONN_ID"] in connections
    assert f"CDC_OPS_CONN_{pipeline.source.connection.upper()}_FILE" in SERVICES["cdc-ops"]["environment"]
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
