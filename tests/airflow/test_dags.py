"""The DAGs as Airflow sees them: what they promise before anything runs."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import ParamValidationError

from cdc_ops.airflow.dags import build_dags
from cdc_ops.airflow.tasks import verdict_of
from cdc_ops.core.archive.completeness import MissingEvents
from cdc_ops.core.archive.watermarks import Gap
from tests.operations import changed
from tests.state_values import ORDERS
from tests.state_values import run as table_run

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
pipeline: {name}
schedule: "*/10 * * * *"
description: The shop
owner: data
tags: [sales]
source: {{kind: mariadb, connection: shop_db}}
target: {{root: s3://lake/tables, staging: s3://lake/staging}}
defaults: {{cursor: [updated_at, id]}}
tables:
"""


def write(folder: Path, name: str, tables: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(HEAD.format(name=name) + "".join(f"  {table}: {{}}\n" for table in tables))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pipelines"
    write(folder, "shop", ["shop.orders", "shop.line_*"])
    write(folder, "crm", ["crm.leads", "crm.accounts"])
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(folder))
    return folder


def bag() -> DagBag:
    return DagBag(dag_folder=str(ROOT / "dags" / "cdc_pipelines.py"))


def test_the_dag_file_is_short_and_says_what_airflow_looks_for() -> None:
    text = (ROOT / "dags" / "cdc_pipelines.py").read_text()
    assert len(text.splitlines()) <= 15
    assert "dag" in text.lower()
    assert "airflow" in text.lower()


def test_every_pipeline_file_is_a_dag_with_all_that_an_operator_looks_for(folder: Path) -> None:
    dags = bag()
    assert dags.import_errors == {}
    assert sorted(dags.dags) == ["cdc_crm", "cdc_shop"]
    for dag in dags.dags.values():
        assert dag.tags >= {"cdc", "mariadb", "sales"}
        assert dag.owner == "data"
        assert dag.doc_md is not None
        assert "`shop_db`" in dag.doc_md
        assert (dag.catchup, dag.max_active_runs) == (False, 2)
        for task in dag.tasks:
            assert task.retries == 2
            assert task.execution_timeout is not None
        assert dag.validate() is None


def test_scheduled_runs_have_real_intervals(folder: Path) -> None:
    timetable = bag().dags["cdc_shop"].timetable
    assert type(timetable).__name__ == "CronDataIntervalTimetable"


@pytest.mark.parametrize(("chosen", "steps"), [("", ("sync",)), ("separate", ("extract", "merge"))])
def test_the_verbs_are_tasks_mapped_over_groups_of_tables_and_one_application_extracts_and_merges(
    folder: Path, chosen: str, steps: tuple[str, ...]
) -> None:
    file = folder / "shop.yaml"
    file.write_text(file.read_text() + (f"execution: {chosen}\n" if chosen else ""))
    dag = bag().dags["cdc_shop"]
    verbs = ["discover", *(f"tables.{verb}" for verb in ("plan", *steps, "commit", "maintain")), "outcome"]
    assert [task.task_id for task in dag.topological_sort()] == verbs
    assert type(dag.task_group.children["tables"]).__name__ == "MappedTaskGroup"


def test_binlogs_are_copied_first_and_a_failure_of_that_does_not_hold_up_the_tables(folder: Path) -> None:
    file = folder / "shop.yaml"
    file.write_text(
        file.read_text() + "archive: {url: /archive, layout: binlog, copy: {connection: shop_db}}\nreconcile_schedule: '@daily'\n"
    )
    dags = bag().dags
    tasks = [task.task_id for task in dags["cdc_shop"].topological_sort()]
    assert tasks[:3] == ["archive", "discover", "tables.plan"]
    assert dags["cdc_shop"].get_task("discover").trigger_rule == "all_done"
    assert len(dags) == 3
    assert [name for name, dag in dags.items() if dag.has_task("archive")] == ["cdc_shop"]


def test_of_the_shipped_pipelines_of_archives_the_one_of_binlogs_copies_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(ROOT / "dags" / "pipelines" / "examples" / "archive"))
    dags = bag().dags
    assert {name: dag.has_task("archive") for name, dag in dags.items()} == {"cdc_shop_binlogs": True, "cdc_shop_events": False}


def test_the_trigger_form_has_defaults_and_offers_the_tables_where_they_are_known(folder: Path) -> None:
    dags = bag().dags
    defaults = {
        "tables": None,
        "mode": "increment",
        "since": None,
        "until": None,
        "keys": None,
        "columns": None,
        "accept_deletes": None,
        "accept_server": False,
        "downstream": None,
        "dry_run": False,
        "accept_cost": False,
    }
    assert dags["cdc_shop"].params.dump() == defaults
    assert dags["cdc_crm"].params.get_param("tables").schema["examples"] == ["crm.accounts", "crm.leads"]
    assert "examples" not in dags["cdc_shop"].params.get_param("tables").schema


def is_required(schema: dict[str, Any]) -> bool:
    """As Airflow's form tells it: `!!schema.type && (!Array.isArray(schema.type) || !schema.type.includes("null"))`."""
    kinds = schema.get("type")
    return bool(kinds) and (isinstance(kinds, str) or "null" not in kinds)


def test_no_form_of_any_dag_has_a_field_that_makes_airflows_buttons_grey(folder: Path) -> None:
    """A required field without a value disables Trigger and Run Backfill; so does one that somebody has filled in and emptied again."""
    write_declared(folder)
    shop = folder / "shop.yaml"
    shop.write_text(f"{shop.read_text()}reconcile_schedule: '@daily'\nnotify: {{on_call: {{webhook: hook}}}}\n")
    (folder / "torn.yaml").write_text("pipeline: torn\n")
    shipped = {file.parent for file in (ROOT / "dags" / "pipelines").rglob("*.yaml")}
    dags = [dag for one in (folder, *shipped) for dag in build_dags(one).values()]
    kinds = {"cdc_shop", "cdc_crm", "cdc_erp", "cdc_shop_reconcile", "cdc-ops-alerts", "cdc_torn"}
    assert kinds < {dag.dag_id for dag in dags}
    fields = [(dag.dag_id, name, dag.params.get_param(name)) for dag in dags for name in dag.params]
    assert len(fields) > 40
    grey = [(dag, name) for dag, name, field in fields if is_required(field.schema) and field.value in (None, "")]
    assert grey == []
    choices = {"mode", "dry_run", "accept_cost", "accept_server"}
    assert {name for _, name, field in fields if is_required(field.schema)} == choices


@pytest.mark.parametrize(("field", "value"), [("accept_deletes", ""), ("accept_deletes", 7), ("accept_deletes", "30%"), ("keys", [])])
def test_a_conf_of_the_rest_api_may_say_what_the_form_does_not(folder: Path, field: str, value: Any) -> None:
    bag().dags["cdc_shop"].params.get_param(field).resolve(value)


def test_an_empty_choice_is_refused_by_name_in_a_conf_of_the_rest_api(folder: Path) -> None:
    with pytest.raises(ParamValidationError, match=r"'' is not one of \[None, 'events', 'silent'\]"):
        bag().dags["cdc_shop"].params.get_param("downstream").resolve("")


def test_the_trigger_form_asks_for_instants_as_such(folder: Path) -> None:
    """Airflow's form offers a calendar for these, with a time and its zone, and checks what is typed in."""
    params = bag().dags["cdc_shop"].params
    for name in ("since", "until"):
        assert params.get_param(name).schema["format"] == "date-time"
        with pytest.raises(ParamValidationError):
            params.get_param(name).resolve("yesterday")
        assert params.get_param(name).resolve("2026-01-31T00:00:00+00:00")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (HEAD.replace("source:", "sauce:").format(name="torn") + "  shop.orders: {}\n", "torn"),
        ("pipeline: torn\nschedule: 'x'\n  - [", "torn"),
        ("", "file"),
    ],
)
def test_a_wrong_pipeline_file_takes_no_other_dag_down_and_fails_its_own_runs(folder: Path, text: str, name: str) -> None:
    (folder / "file.yaml").write_text(text)
    dags = bag()
    assert dags.import_errors == {}
    assert sorted(dags.dags) == sorted(["cdc_crm", "cdc_shop", f"cdc_{name}"])
    broken = dags.dags[f"cdc_{name}"]
    assert "broken" in broken.tags
    assert broken.doc_md is not None
    assert "file.yaml" in broken.doc_md
    with pytest.raises(Exception, match=r"file\.yaml"):
        broken.get_task("discover").python_callable()


def test_a_task_of_another_pipeline_does_not_log_the_error_of_a_wrong_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "torn.yaml").write_text("pipeline: torn\n")
    found = dict[str, bool]()
    for wanted in ("cdc_shop", "cdc_torn"):
        monkeypatch.setattr(
            "cdc_ops.airflow.dags.get_parsing_context", lambda wanted=wanted: SimpleNamespace(dag_id=wanted, task_id="discover")
        )
        caplog.clear()
        assert list(build_dags(folder)) == [wanted]
        found[wanted] = "torn.yaml" in caplog.text
    assert found == {"cdc_shop": False, "cdc_torn": True}


def test_two_files_with_one_name_break_only_that_name(folder: Path) -> None:
    write(folder, "shop", ["shop.orders"])
    (folder / "again.yaml").write_text((folder / "shop.yaml").read_text())
    dags = bag().dags
    assert sorted(dags) == ["cdc_crm", "cdc_shop"]
    assert "broken" in dags["cdc_shop"].tags
    assert "broken" not in dags["cdc_crm"].tags


SERIALIZE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
dags = DagBag(dag_folder=sys.argv[1]).dags
print("RESULT" + json.dumps({name: DagSerialization.to_dict(dag) for name, dag in dags.items()}, sort_keys=True))
"""


def in_process(code: str, *arguments: str, **environ: str) -> str:
    environment = {**os.environ, **environ}
    done = subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True, env=environment)
    return done.stdout.partition("RESULT")[2].splitlines()[0]  # Airflow logs to the same place


def test_two_processes_with_different_hash_seeds_serialize_the_same(folder: Path) -> None:
    archive = "archive: {url: /archive, format: mysql-binlog, layout: binlog}\nstart_on: [b, archive, a]\n"
    file = folder / "shop.yaml"
    file.write_text(file.read_text().replace("defaults: {cursor: [updated_at, id]}", archive + "defaults: {method: log}"))
    texts = {in_process(SERIALIZE, str(ROOT / "dags" / "cdc_pipelines.py"), PYTHONHASHSEED=seed) for seed in ("1", "2")}
    [text] = texts
    assert set(json.loads(text)) == {"cdc_crm", "cdc_shop"}
    assert "ArchiveTrigger" in text


PARSE = """
import json, os, subprocess, sys
import airflow.sdk
from airflow.dag_processing.dagbag import DagBag

STARTS = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty", "os.system")
opened, started = [], []

def look(event, arguments):
    if event == "open" and os.path.dirname(str(arguments[0])) == os.environ["CDC_OPS_PIPELINES"]:
        opened.append(os.path.basename(arguments[0]))
    elif event in STARTS:
        started.append(event)

sys.addaudithook(look)
tasks = [{name: len(dag.tasks) for name, dag in DagBag(dag_folder=sys.argv[1]).dags.items()} for _ in range(2)]
heavy = {"pyspark", "py4j", "delta", "pandas", "deltalake", "pyarrow", "sqlglot", "numba"}
loaded = {name.partition(".")[0] for name in sys.modules} & heavy
before = list(started)
subprocess.run(["true"], check=True)
print("RESULT" + json.dumps({"tasks": tasks, "opened": opened, "loaded": sorted(loaded), "started": before, "control": started}))
"""


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket that source and ledger would be connected to; it answers nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        at = f"cdc:x@127.0.0.1:{server.getsockname()[1]}/shop"
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", f"cdc-ops-mysql://{at}")
        monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", f"mysql://{at}")
        monkeypatch.setenv("CDC_OPS_LEDGER", f"postgresql://{at}")
        yield server


def test_parsing_twenty_pipelines_of_many_tables_reads_each_file_once_connects_to_nothing_and_starts_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listener: socket.socket
) -> None:
    for tables in (1, 25):
        folder = tmp_path / str(tables)
        for number in range(20):
            write(folder, f"many_{number:02}", [f"shop{number:02}.table_{table:03}" for table in range(tables)])
        monkeypatch.setenv("CDC_OPS_PIPELINES", str(folder))
        seen = json.loads(in_process(PARSE, str(ROOT / "dags" / "cdc_pipelines.py")))
        assert seen["tasks"] == [{f"cdc_many_{number:02}": 6 for number in range(20)}] * 2, "as many tasks for a table as for 25"
        assert sorted(seen["opened"]) == sorted(file.name for file in folder.iterdir()), "also the second parse reads none again"
        assert (seen["loaded"], seen["started"]) == ([], [])
        assert "subprocess.Popen" in seen["control"]
    with pytest.raises(BlockingIOError):
        listener.accept()
    with socket.create_connection(listener.getsockname()), listener.accept()[0]:
        """Whoever connects is seen."""


def test_the_examples_that_ship_are_dags() -> None:
    shipped = list((ROOT / "dags" / "pipelines").rglob("*.yaml"))
    assert len(shipped) > 2
    for folder in {file.parent for file in shipped}:
        dags = build_dags(folder)
        assert len(dags) >= sum(file.parent == folder for file in shipped)
        for dag in dags.values():
            assert isinstance(dag, DAG)
            assert "broken" not in dag.tags, dag.doc_md


def write_declared(folder: Path) -> None:
    """Writes the file of a pipeline without a database."""
    source = "kind: none, tables: {erp.orders: {id: bigint primary key}}"
    head = HEAD.replace("kind: mariadb, connection: shop_db", source.replace("{", "{{").replace("}", "}}")).format(name="erp")
    settings = 'settings: {GETTRUNCATES: "true", GETUPDATEBEFORES: "true"}'
    archive = f"archive: {{url: /archive, format: goldengate-json, {settings}}}\n"
    (folder / "erp.yaml").write_text(archive + head.replace("cursor: [updated_at, id]", "method: log") + "  erp.orders:\n")


def test_a_pipeline_without_a_database_is_a_dag_whose_form_offers_what_needs_none(folder: Path) -> None:
    write_declared(folder)
    dag = build_dags(folder)["cdc_erp"]
    assert "declared" in dag.tags, dag.doc_md
    assert sorted(dag.params) == ["accept_cost", "accept_gaps", "downstream", "dry_run", "mode", "since", "tables", "why"]
    assert dag.params.get_param("mode").schema["enum"] == ["increment", "quarantine", "replay"]
    assert dag.doc_md is not None
    assert "`/archive` alone" in dag.doc_md
    assert dag.allowed_run_types is not None
    assert "backfill" not in dag.allowed_run_types, "a backfill reads a database"


def test_a_schedule_for_reconciling_makes_a_dag_of_its_own(folder: Path) -> None:
    file = folder / "shop.yaml"
    file.write_text(file.read_text().replace("description:", 'reconcile_schedule: "0 3 * * *"\ndescription:'))
    dags = build_dags(folder)
    assert sorted(dags) == ["cdc_crm", "cdc_shop", "cdc_shop_reconcile"]
    own = dags["cdc_shop_reconcile"]
    assert own.task_ids == dags["cdc_shop"].task_ids
    assert sorted(own.params) == ["accept_cost", "accept_deletes", "dry_run", "tables"]
    assert "reconcile" in own.tags


def test_a_run_whose_table_waits_at_a_gap_is_red_unless_the_next_run_heals_it() -> None:
    """The tasks are green, because what comes before the gap is merged; the outcome is not, because somebody has to act."""
    name, gap = str(ORDERS), Gap(stream="orders/0", low=(10,), high=(20,))
    missing = MissingEvents(gaps=(gap,))
    line = changed(table_run("r"), missing=missing, alert=missing.alert(name))
    verdict = verdict_of([name], {name: line}, ())
    assert "Waiting at a gap in the archive" in verdict
    assert "orders/0: 10 up to, not including, 20" in verdict
    assert verdict_of([name], {name: changed(line, missing=replace(missing, healing=True))}, ()) == ""
    assert verdict_of([name], {name: table_run("r")}, ()) == ""
    assert "1 table failed" in verdict_of([name], {}, ())
