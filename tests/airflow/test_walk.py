"""A day of an operator, by clicks on Airflow's own pages: each message that each receiver got, in order, and nothing besides.

A new Airflow, its first run, a question refused and asked again and granted, a scheduler that is killed, a typo in a pipeline file, a DAG
that follows a table. The module is one walk: its steps build on one another.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cdc_ops.airflow.alerts.dag import ALERTS_DAG
from cdc_ops.dev.connect_server import ConnectServer
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from tests.airflow.conftest import ROOT
from tests.airflow.forms import logged_in, triggered
from tests.airflow.live_airflow import OPERATOR, LiveAirflow
from tests.airflow.live_stage import ORDERS
from tests.browser import Tab, pressed, until
from tests.conftest import SMALL_SERVER
from tests.receivers import Hook, Mailbox, mail_server, webhook

DAG = "cdc_shop"
TABLE = ["shop.orders"]
FILE = """
pipeline: shop
source: {{kind: mariadb, connection: shop_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
spark: {{connect: "{spark}"}}
airflow: {{approve: {{decisions: [deletes], users: [{user}], timeout: 1h}}}}
notify:
  on_call: {{webhook: on_call_hook}}
  data_team: {{mail: mails, to: [data@example.com], sender: cdc@example.com}}
defaults: {{cursor: updated_at, lookback: 0s}}
tables: {{shop.orders: {{}}}}
"""
CONSUMER = "report_on_orders"
FRAME = "document.querySelector('iframe').contentDocument"
QUESTION = "shop: somebody has to decide about shop.orders"
NO_QUESTION = "shop: over: no question any more about shop.orders"


@dataclass
class Walk:
    """An Airflow with one pipeline, its database, and its receivers."""

    airflow: LiveAirflow
    server: MariaDBServer
    file: Path
    hook: Hook
    box: Mailbox
    texts: list[str] = field(default_factory=list)

    def received(self) -> list[str]:
        """The subjects that have come since the last call, which both receivers have, in order; `texts` has the messages."""
        documents, mails = self.hook.take(), list(self.box.mails)
        self.box.mails.clear()
        self.texts = [document["text"] for document in documents]
        assert [mail["Subject"] for mail in mails] == [f"[cdc-ops] {document['subject']}" for document in documents]
        assert all(mail["Date"] and mail["Message-ID"] for mail in mails)
        return [document["subject"] for document in documents]

    def looked(self) -> str:
        """Lets the DAG that looks at the ledger run, and returns how it ended."""
        return self.airflow.ended(ALERTS_DAG, self.airflow.trigger(ALERTS_DAG, {})).state

    def rows(self, *statements: str) -> None:
        self.server.execute(*statements, database="shop")


@pytest.fixture(scope="module")
def walk(mariadb: MariaDBServer, postgres: PostgresServer, jar_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("walk")
    for name in ("dags", "pipelines", "home"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "dags" / "cdc_pipelines.py", folder / "dags")
    example = (ROOT / "docs" / "examples" / f"{CONSUMER}.py").read_text()
    assert "file:///data/lake/" in example
    (folder / "dags" / f"{CONSUMER}.py").write_text(example.replace("file:///data/lake/", f"file://{folder}/lake/"))
    mariadb.create_database("shop")
    mariadb.execute("DROP TABLE IF EXISTS orders", *ORDERS, database="shop")
    postgres.create_database("walk")
    with ConnectServer(folder / "spark", jars=jar_folder, conf=SMALL_SERVER) as spark, webhook() as hook, mail_server() as box:
        file = folder / "pipelines" / "shop.yaml"
        file.write_text(FILE.format(folder=folder, spark=spark.url, user=OPERATOR))
        login = {"host": mariadb.host, "port": mariadb.port, "login": mariadb.user, "password": mariadb.password}
        mails = {"conn_type": "smtp", "host": "127.0.0.1", "port": box.port, "extra": {"disable_ssl": True}}
        settings = {
            "CDC_OPS_PIPELINES": str(file.parent),
            "CDC_OPS_LEDGER": f"sqlite:///{folder}/ledger.db",
            "CDC_OPS_JARS": str(jar_folder),
            "AIRFLOW_CONN_SHOP_DB": json.dumps({"conn_type": "cdc_ops_mysql", **login}),
            "AIRFLOW_CONN_ON_CALL_HOOK": hook.url,
            "AIRFLOW_CONN_MAILS": json.dumps(mails),
            "AIRFLOW__API__BASE_URL": "http://airflow.example",
            "AIRFLOW__CORE__COMPRESS_SERIALIZED_DAGS": "True",  # else Airflow cannot draw its graphs with psycopg 3
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
        }
        database = postgres.url("walk").replace("postgresql://", "postgresql+psycopg://")
        with LiveAirflow(folder / "home", folder / "dags", database, settings) as airflow:
            wanted = {ALERTS_DAG, CONSUMER, DAG}
            airflow.wait_until(lambda: wanted <= {dag["dag_id"] for dag in airflow.call("GET", "/dags")["dags"]}, f"the DAGs {wanted}")
            yield Walk(airflow, mariadb, file, hook, box)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_what_receivers_hear_in_a_day_of_an_operator(walk: Walk, tab: Tab) -> None:
    airflow = walk.airflow
    assert (walk.looked(), walk.received()) == ("success", []), "nothing has run yet: a new Airflow is not red"
    airflow.pause(ALERTS_DAG, False)

    logged_in(tab, airflow, OPERATOR)
    airflow.pause(CONSUMER, False)
    first = airflow.ended(DAG, triggered(tab, airflow, DAG))
    assert (first.state, walk.looked(), walk.received()) == ("success", "success", [])

    _has_buttons(walk, tab, first.run_id)
    _is_followed(walk)

    walk.rows("DELETE FROM orders WHERE id > 30")
    refused = triggered(tab, airflow, DAG, mode="reconcile", tables=TABLE)
    airflow.question(DAG, refused)
    assert walk.received() == [QUESTION]
    assert f"http://airflow.example/dags/{DAG}/runs/{quote(refused, safe='')}/required_actions. May answer: {OPERATOR}." in walk.texts[0]
    assert (walk.looked(), walk.received()) == ("success", []), "it waits, and that has been told"
    _pressed_there(walk, tab, refused, "Reject")
    assert airflow.ended(DAG, refused).state == "failed"
    assert walk.received() == ["shop: deletes over the guard in shop.orders", NO_QUESTION]
    assert f"shop.orders: It was refused by {OPERATOR} at " in walk.texts[1]
    assert (walk.looked(), walk.received()) == ("success", [])

    granted = triggered(tab, airflow, DAG, mode="reconcile", tables=TABLE)
    airflow.question(DAG, granted)
    assert walk.received() == [QUESTION], "who triggers a run wants to be asked again"
    _pressed_there(walk, tab, granted, "Approve")
    assert airflow.ended(DAG, granted).state == "success"
    assert walk.received() == [NO_QUESTION, "shop: over: no deletes over the guard any more in shop.orders"]
    assert f"shop.orders: It was granted by {OPERATOR} at " in walk.texts[0]

    _a_killed_scheduler_is_nobodys_matter(walk, tab)
    _a_typo_is_told_and_that_it_is_mended(walk, tab)
    last = airflow.ended(DAG, triggered(tab, airflow, DAG))
    assert (last.state, walk.received()) == ("success", [])


def _a_killed_scheduler_is_nobodys_matter(walk: Walk, tab: Tab) -> None:
    airflow = walk.airflow
    walk.rows("INSERT INTO orders VALUES (900, 'new', 1, NOW(6))")
    run_id = triggered(tab, airflow, DAG)
    airflow.wait_until(lambda: _states(airflow, run_id).get("discover") in ("running", "success"), "a task at work")
    airflow.killed("scheduler")
    assert airflow.ended(DAG, run_id).state == "success"
    assert (walk.looked(), walk.received()) == ("success", []), "nobody need know of what went on by itself"


def _a_typo_is_told_and_that_it_is_mended(walk: Walk, tab: Tab) -> None:
    airflow, text = walk.airflow, walk.file.read_text()
    walk.file.write_text(text.replace("cursor: updated_at", "cursr: updated_at"))
    airflow.wait_until(lambda: "broken" in _tags(airflow), "the DAG's tag")
    assert airflow.call("GET", "/importErrors")["import_errors"] == [], "it takes no other DAG down"
    tab.open(f"{airflow.address}/dags/{DAG}")
    until(tab, "document.body.innerText.includes('broken')")
    tab.open("about:blank")
    assert [walk.looked(), walk.looked()] == ["failed", "failed"]
    assert walk.received() == ["shop: the pipeline file has errors"]
    assert "shop.yaml:10:12: Unknown field 'cursr' in 'defaults'. Did you mean 'cursor'?" in walk.texts[0]
    broken = airflow.ended(DAG, airflow.trigger(DAG, {}))
    assert broken.state == "failed"
    assert "Did you mean 'cursor'?" in airflow.task_log(broken, "discover")
    walk.file.write_text(text)
    airflow.wait_until(lambda: "broken" not in _tags(airflow), "the DAG as it was")
    assert (walk.looked(), walk.received()) == ("success", ["shop: over: the pipeline file is right again"])


def _has_buttons(walk: Walk, tab: Tab, run_id: str) -> None:
    """Each task has the button, also one that was skipped; its tab shows the page of the run."""
    airflow, names = walk.airflow, set()
    path = f"/dags/{DAG}/dagRuns/{run_id}/taskInstances"
    for task in airflow.call("GET", f"{path}?limit=100")["task_instances"]:
        links = airflow.call("GET", f"{path}/{task['task_id']}/links?map_index={task['map_index']}")["extra_links"]
        assert links["CDC run"] == f"/cdc/run?dag_id={DAG}&run_id={quote(run_id, safe='')}", task["task_id"]
        names.add(task["task_id"])
    assert {"discover", "tables.sync", "tables.commit", "ask", "approved.approve", "outcome"} <= names
    for task in ("outcome", "tables.commit/mapped/0"):
        tab.open(f"{airflow.address}/dags/{DAG}/runs/{run_id}/tasks/{task}")
        until(tab, "[...document.querySelectorAll('a')].some(one => one.innerText.trim() === 'CDC run')")
        tab.value("[...document.querySelectorAll('a')].find(one => one.innerText.trim() === 'CDC run').click()")
        until(tab, f"{FRAME}.querySelector('h1').innerText.includes('{run_id}') && {FRAME}.body.innerText.includes('shop.orders')")
    tab.open("about:blank")


def _is_followed(walk: Walk) -> None:
    """The DAG of the example has run by the table's event, and Airflow's graph leads from the pipeline's DAG to it."""
    airflow = walk.airflow
    [run] = airflow.wait_until(lambda: [one for one in airflow.runs(CONSUMER) if one.state == "success"], "the DAG that follows")
    assert run.kind == "asset_triggered"
    path = f"/dags/{CONSUMER}/dagRuns/{run.run_id}/taskInstances/read_orders/xcomEntries/return_value"
    told = airflow.call("GET", path)["value"]
    assert (json.loads(told) if isinstance(told, str) else told)["rows"] == 100, "each event once"
    [asset] = airflow.call("GET", "/assets?name_pattern=cdc/shop/shop.orders")["assets"]
    graph = airflow._sent("GET", f"/ui/dependencies?node_id=asset:{asset['id']}", None, OPERATOR)
    edges = {(edge["source_id"], edge["target_id"]) for edge in graph["edges"]}
    wanted = [f"dag:{DAG}", "asset-alias:cdc/shop", f"asset:{asset['id']}", f"dag:{CONSUMER}"]
    assert set(pairwise(wanted)) <= edges


def _pressed_there(walk: Walk, tab: Tab, run_id: str, answer: str) -> None:
    """Opens the page that the message names, and presses an answer."""
    tab.open(f"{walk.airflow.address}/dags/{DAG}/runs/{quote(run_id, safe='')}/required_actions")
    pressed(tab, answer)
    until(tab, "document.body.innerText.includes('Pending required actions (0)')")
    tab.open("about:blank")


def _states(airflow: LiveAirflow, run_id: str) -> dict[str, Any]:
    found = airflow.call("GET", f"/dags/{DAG}/dagRuns/{run_id}/taskInstances?limit=100")["task_instances"]
    return {task["task_id"]: task["state"] for task in found}


def _tags(airflow: LiveAirflow) -> list[str]:
    return [tag["name"] for tag in airflow.call("GET", f"/dags/{DAG}")["tags"]]
