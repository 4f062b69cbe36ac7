"""OpenLineage events of whole runs, as Airflow's own provider writes them to a file, against OpenLineage's JSON schema."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.listeners import listener
from airflow.providers.openlineage.plugins.listener import OpenLineageListener
from airflow.sdk.listener import get_listener_manager
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from cdc_ops.airflow.lineage.events import planned_lineage
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.operation.job import Step
from cdc_ops.dev.servers import MariaDBServer
from tests.airflow.stage import ANALYZE, LINES, SALES, Run, Stage

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {found["$id"]: found for path in (ROOT / "tests" / "openlineage").glob("*.json") for found in [json.loads(path.read_text())]}
REGISTRY: Registry[Any] = Registry().with_resources((name, Resource.from_contents(found)) for name, found in SCHEMAS.items())
COMMITS = "cdcOps_commits"


@dataclass
class Told:
    """The events of all runs of a test."""

    path: Path

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def of(self, run: Run, task: str) -> dict[str, dict[str, Any]]:
        """The events of a task in a run, by their types."""
        mine = [event for event in self.events() if event["run"]["facets"]["airflow"]["dagRun"]["run_id"] == run.id]
        found = [event for event in mine if event["job"]["name"] == f"cdc_shop.tables.{task}"]
        assert len({event["eventType"] for event in found}) == len(found) > 0
        return {event["eventType"]: event for event in found}


@pytest.fixture
def stage(mariadb: MariaDBServer, tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = Stage(server=mariadb, folder=tmp_path, patch=monkeypatch)
    stage.set_up()
    stage.use_stub()
    stage.sql("ALTER TABLE sales ADD api_token VARCHAR(20)", ANALYZE)
    file = tmp_path / "pipelines" / "shop.yaml"
    file.write_text(file.read_text().replace("target: {", "target: {catalog: '{schema}.{table}', "))
    monkeypatch.setenv("CDC_OPS_JARS", "")
    return stage


@pytest.fixture
def told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """The provider's listener, as in an installation with a transport that writes to a file."""
    managers = listener.get_listener_manager(), get_listener_manager()  # they have the plugins' listeners now, without OpenLineage's
    told = Told(stage.folder / "events.jsonl")
    transport = {"type": "file", "log_file_path": str(told.path), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__DISABLED", "False")
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    ours = OpenLineageListener()
    managers[-1].add_listener(ours)
    yield told
    managers[-1].pm.unregister(ours)


def check(event: dict[str, Any]) -> set[str]:
    """Checks an event and each facet of its datasets against the schema that it names; returns the names of the facets."""
    Draft202012Validator(SCHEMAS["https://openlineage.io/spec/2-0-2/OpenLineage.json"], registry=REGISTRY).validate(event)
    assert event["schemaURL"].partition("#")[0] in SCHEMAS
    facets = [
        pair
        for dataset in (*event.get("inputs", ()), *event.get("outputs", ()))
        for kind in ("facets", "inputFacets", "outputFacets")
        for pair in dataset.get(kind, {}).items()
    ]
    for _, facet in facets:
        Draft202012Validator({"$ref": facet["_schemaURL"]}, registry=REGISTRY).validate(facet)
    return {name for name, _ in facets}


def tables(event: dict[str, Any], side: str) -> dict[str, dict[str, Any]]:
    """The datasets of an event by the names of their tables."""
    return {".".join(one["name"].replace("/", ".").split(".")[-2:]): one for one in event[side]}


def test_a_run_tells_its_tables_columns_windows_versions_and_counts(stage: Stage, told: Told) -> None:
    first = stage.run()
    assert first.state == "success"
    begun, ended = (told.of(first, "merge")[kind] for kind in ("START", "COMPLETE"))
    plain = {"schema", "columnLineage", "storage", "symlinks", COMMITS}
    assert check(begun) == plain
    assert check(ended) == plain | {"version", "inputStatistics", "outputStatistics"}

    server = f"mysql://{stage.server.host}:{stage.server.port}"
    assert {(one["namespace"], one["name"]) for one in ended["inputs"]} == {(server, SALES), (server, LINES)}
    lake = str(stage.folder / "lake" / "shop")
    assert {(one["namespace"], one["name"]) for one in ended["outputs"]} == {("file", f"{lake}/sales"), ("file", f"{lake}/order_lines")}
    for event in (begun, ended):
        sales = tables(event, "outputs")[SALES]["facets"]
        fields = sales["columnLineage"]["fields"]
        assert [field["name"] for field in sales["schema"]["fields"]] == ["id", "name", "amount", "updated_at", "api_token"]
        assert {
            name: [(one["namespace"], one["name"], one["field"]) for one in known["inputFields"]] for name, known in fields.items()
        } == {name: [(server, SALES, name)] for name in ("id", "name", "amount", "updated_at", "api_token")}
        assert [one["name"] for one in sales["symlinks"]["identifiers"]] == [SALES]
    written = tables(ended, "outputs")[SALES]
    [commit] = written["outputFacets"][COMMITS]["commits"]
    assert (commit["kind"], commit["outcome"], commit["rows"]["read"]) == ("snapshot-chunk", "applied", 100)
    assert written["facets"]["version"]["datasetVersion"] == str(commit["deltaVersion"])
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 100
    assert tables(ended, "inputs")[SALES]["inputFacets"]["inputStatistics"]["rowCount"] == 100
    assert [one["name"] for one in told.of(first, "commit")["COMPLETE"]["outputs"]] == [one["name"] for one in ended["outputs"]]

    assert [told.of(first, "extract")[kind]["inputs"] for kind in ("START", "COMPLETE")] == [[], []], "the merge reads a first load"

    stage.change()
    stage.plan({"merge": {SALES: "fatal"}})
    second = stage.run()
    assert second.state == "failed"
    landed = told.of(second, "extract")["COMPLETE"]
    check(landed)
    assert (set(tables(landed, "inputs")), landed["outputs"]) == ({SALES, LINES}, [])
    assert tables(landed, "inputs")[SALES]["inputFacets"]["inputStatistics"]["rowCount"] == 1
    failed = told.of(second, "merge")["FAIL"]
    check(failed)
    outputs = tables(failed, "outputs")
    assert {name: "version" in one["facets"] for name, one in outputs.items()} == {SALES: False, LINES: True}
    [commit] = outputs[LINES]["outputFacets"][COMMITS]["commits"]
    assert commit["window"]["columns"] == ["updated_at"]
    assert commit["window"]["high"] == stage.watermarks()[LINES]
    ways = {
        (one["field"], way["subtype"]) for one in outputs[LINES]["facets"]["columnLineage"]["dataset"] for way in one["transformations"]
    }
    assert ways == {("id", "JOIN"), ("updated_at", "FILTER")}
    assert stage.server.password not in told.path.read_text()


def test_lineage_that_fails_is_logged_and_fails_nothing(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = load_pipeline(stage.folder / "pipelines" / "shop.yaml")
    (stage.folder / "ledger.db").write_text("no database")
    with caplog.at_level(logging.WARNING):
        assert planned_lineage(pipeline, Step.SYNC, [SALES]) is None
    assert [record.message for record in caplog.records if record.name.startswith("cdc_ops")] == [
        "What the task 'sync' reads and writes was not told to OpenLineage; the rows are not concerned."
    ]


BLOCKED = """
import importlib.metadata
import sys
import importlib_metadata
from pathlib import Path

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "openlineage" or name.startswith("airflow.providers.openlineage"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
for metadata in (importlib.metadata, importlib_metadata):
    def installed(found=metadata.distributions, **where):
        return (one for one in found(**where) if "openlineage" not in one.metadata["Name"])
    metadata.distributions = installed
import cdc_ops.airflow.plugin
from cdc_ops.airflow.dags import build_dags
[dag] = [dag for name, dag in build_dags(Path(sys.argv[1])).items() if name == "cdc_shop"]
task = dag.get_task("tables.extract")
assert callable(task.get_openlineage_facets_on_start)
ours = [name for name in sys.modules if name.startswith(("openlineage", "cdc_ops.airflow.lineage", "cdc_ops.core.lineage", "attr."))]
print("built", sorted(name for name in ours if not name.startswith("attr.")))
"""


def test_without_openlineage_all_works_and_nothing_of_lineage_is_loaded(stage: Stage) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, str(stage.folder / "pipelines")], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "built []"
