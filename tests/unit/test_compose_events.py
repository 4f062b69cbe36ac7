"""The profile `events` of docker-compose.yaml: what its connectors write is what its pipeline reads. No connector runs here."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc_ops.config.loading import load_pipelines
from cdc_ops.core.archive.file_names import KafkaName, parse_name
from cdc_ops.core.events.format_spec import Where
from cdc_ops.core.formats.demanded_settings import archive_settings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.events.registry import configuration, format_spec

ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text("utf-8"))["services"]
CONNECTORS = ROOT / "docker/connectors"
SOURCE: dict[str, str] = json.loads((CONNECTORS / "shop-events.json").read_text("utf-8"))
SINK: dict[str, str] = json.loads((CONNECTORS / "shop-archive.json").read_text("utf-8"))
[PIPELINE] = [one for one in load_pipelines(ROOT / "docker/pipelines") if one.name == "shop_events"]
assert PIPELINE.archive is not None
ARCHIVE = PIPELINE.archive
SPEC = format_spec(ARCHIVE.events.format)
TABLES = ["shop.customers", "shop.orders"]


def key_of_the_sink(topic: str, offset: int) -> str:
    """The key that Confluent's sink writes with these settings, by its documentation."""
    assert SINK["partitioner.class"].endswith(".DefaultPartitioner")
    assert not {"file.delim", "filename.offset.zero.pad.width"} & SINK.keys()  # the defaults: + and 10
    assert re.fullmatch(SINK["topics.regex"], topic), "the sink does not read this topic"
    return f"{SINK['topics.dir']}/{topic}/partition=0/{topic}+0+{offset:010}{SINK['format.bytearray.extension']}"


def test_the_profile_has_these_services_and_nothing_outside_waits_for_them() -> None:
    inside = {name for name, service in SERVICES.items() if service.get("profiles") == ["events"]}
    assert inside == {"kafka", "connect", "connectors"}
    assert not [name for name, service in SERVICES.items() if name not in inside and inside & set(service.get("depends_on", {}))]


def test_the_connector_has_each_setting_that_the_format_demands() -> None:
    wanted = configuration(SPEC).tool
    assert {name: SOURCE.get(name) for name in wanted} == wanted
    assert "skipped.operations" in wanted


def test_the_sink_has_each_setting_that_the_format_demands_but_for_its_region() -> None:
    wanted = {name: value for name, value in configuration(SPEC).sink.items() if name != "s3.region"}
    assert {name: SINK.get(name) for name in wanted} == wanted
    assert "format.class" in wanted


def test_the_pipeline_states_the_settings_that_the_connector_really_has() -> None:
    stated = dict(ARCHIVE.events.settings)
    assert stated == archive_settings(SPEC) | {"snapshot.mode": "no_data"}
    written = {item.name: item.written or item.name for item in SPEC.lossy if item.where is not Where.SINK}
    assert {name: SOURCE[written[name]] for name in stated} == stated


@pytest.mark.parametrize("table", TABLES)
def test_what_the_sink_writes_is_what_the_pipeline_reads(table: str) -> None:
    topic = f"{SOURCE['topic.prefix']}.{table}"
    folder = ARCHIVE.location(TableName.parse(table)) + "/"
    key = f"s3://{SINK['s3.bucket.name']}/{key_of_the_sink(topic, 41)}"
    assert key.startswith(folder)
    found = parse_name(ARCHIVE.files.layout, key.removeprefix(folder))
    assert isinstance(found, KafkaName)
    assert (found.topic, found.partition, found.start_offset, found.extension) == (topic, 0, 41, "json")


def test_the_connector_captures_the_tables_of_the_pipeline_and_they_are_there() -> None:
    assert SOURCE["table.include.list"].split(",") == TABLES == [str(entry.pattern) for entry in PIPELINE.tables]
    script = (ROOT / "docker/mysql/01-shop.sql").read_text("utf-8")
    assert [f"shop.{name}" for name in re.findall(r"^CREATE TABLE (\w+)", script, re.MULTILINE)] == TABLES


def test_rows_that_are_there_are_read_by_the_pipeline_and_not_by_the_connector() -> None:
    assert (SOURCE["snapshot.mode"], str(ARCHIVE.initial_load)) == ("no_data", "snapshot")


def test_the_sinks_bucket_is_made_in_the_store_that_all_use() -> None:
    assert SINK["s3.bucket.name"] in SERVICES["object-store-bucket"]["command"]
    endpoint = SERVICES["connect"]["environment"]["AWS_ENDPOINT_URL"]
    assert SINK["store.url"] == endpoint == SERVICES["airflow-triggerer"]["environment"]["AWS_ENDPOINT_URL"]


def test_the_connectors_name_services_and_topics_of_this_file() -> None:
    environment = SERVICES["connect"]["environment"]
    host = environment["BOOTSTRAP_SERVERS"]
    assert host == SOURCE["schema.history.internal.kafka.bootstrap.servers"] == "kafka:9092"
    assert SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{host}"
    assert SOURCE["database.hostname"] in SERVICES
    of_connect = [value for name, value in environment.items() if name.endswith("STORAGE_TOPIC")]
    assert len(of_connect) == 3
    own = [SOURCE["schema.history.internal.kafka.topic"], *of_connect]
    assert not [topic for topic in own if re.fullmatch(SINK["topics.regex"], topic)], "not changes of tables"
    assert SOURCE["database.server.id"] not in " ".join(SERVICES["mysql"]["command"])


def test_the_login_of_the_connector_is_made_with_the_grants_that_it_needs_and_is_in_no_file() -> None:
    script = (ROOT / "docker/mysql/03-debezium-user.sh").read_text("utf-8")
    assert f"CREATE USER '{SOURCE['database.user']}'@'%'" in script
    [granted] = re.findall(r"^GRANT (.+) ON \*\.\* TO", script, re.MULTILINE)
    page = (ROOT / "docs/debezium-quickstart.md").read_text("utf-8")
    assert f"`{granted}`" in page
    connect = SERVICES["connect"]
    assert connect["environment"]["CONNECT_CONFIG_PROVIDERS"] == "dir"
    assert connect["environment"]["CONNECT_CONFIG_PROVIDERS_DIR_CLASS"] == "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
    [name] = re.findall(r"^\$\{dir:/run/secrets:(\w+)\}$", SOURCE["database.password"])
    assert name in connect["secrets"]
    assert "aws_credentials" in connect["secrets"]
    assert not [key for key in SINK if "key" in key.lower() and "converter" not in key], "its login is in the file of credentials"


def test_the_script_gives_every_connector_to_connect_under_its_name(tmp_path: Path) -> None:
    [mount] = SERVICES["connectors"]["volumes"]
    assert mount == "./docker/connectors:/opt/connectors:ro"
    assert SERVICES["connectors"]["entrypoint"] == ["/opt/connectors/register.sh"]
    curl = tmp_path / "curl"
    curl.write_text('#!/bin/sh\nfor last; do :; done\necho "$last $*" >> "$CALLS"\n')
    curl.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(tmp_path / "calls")}
    subprocess.run([CONNECTORS / "register.sh"], env=environment, check=True, capture_output=True, timeout=60)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == [
        f"http://connect:8083/connectors/{name}/config" for name in ("shop-archive", "shop-events")
    ]
    assert all("--request PUT" in call and f"@{CONNECTORS}/" in call for call in calls)
    curl.write_text("#!/bin/sh\nexit 22\n")
    refused = subprocess.run([CONNECTORS / "register.sh"], env=environment, check=False, capture_output=True, timeout=60)
    assert refused.returncode == 22


def test_the_events_are_those_of_the_release_whose_settings_were_looked_at() -> None:
    dockerfile = (ROOT / "docker/connect.Dockerfile").read_text("utf-8")
    [release] = re.findall(r"debezium/connect:(\d+\.\d+\.\d+)\.Final", dockerfile)
    assert f"Debezium {release}" in (ROOT / "docs/format-settings.md").read_text("utf-8")
