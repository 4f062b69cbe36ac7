"""Runs that a real Airflow starts - its scheduler, its backfills, its triggers over REST - with real Spark behind them.

The other modules run DAGs by `dag.test()`. Here nothing but users' own means is used. Each test has a pipeline and a database of its own.
"""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from cdc_ops.airflow.alerts.dag import ALERTS_DAG
from cdc_ops.airflow.dag_ids import reconcile_dag_id
from cdc_ops.core.pipeline.pipeline import SparkConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.connect_server import ConnectServer
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.lake.spark.session import close_session, open_session
from cdc_ops.state.sql import open_reader
from tests.airflow.conftest import ROOT
from tests.airflow.live_airflow import COLLEAGUE, ENDED, OPERATOR, LiveAirflow, LiveRun, otel_settings
from tests.browser import Tab, pressed, typed, until
from tests.conftest import SMALL_SPARK
from tests.receivers import Collector, Hook, metrics_collector, webhook

FILE = """
pipeline: {name}
source: {{kind: mariadb, connection: live_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
spark: {{connect: "{spark}"}}
airflow: {{tasks: {{retries: 1, retry_delay: 100ms}}{airflow}}}
defaults: {{{defaults}}}
tables: {{{name}.orders: {{}}}}
{more}
"""
CLOCK, HAND, KILLED, STALE, ASKING, HURRIED, CLICKED, LANDED = (
    *("clock", "hand", "killed", "stale"),
    *("asking", "hurried", "clicked", "landed"),
)
RECONCILE = reconcile_dag_id(HAND)
QUERY = "cursor: updated_at, lookback: 0s"
PIPELINES = {
    CLOCK: (QUERY, "", 'schedule: "* * * * *"'),
    HAND: (QUERY, "", 'schedule: "0 3 1 1 *"\nreconcile_schedule: "0 3 1 1 *"'),
    KILLED: (QUERY, "", ""),
    STALE: (f"{QUERY}, max_lag: 1h", "", "notify: {{on_call: {{webhook: on_call_hook, events: [lag]}}}}"),
    ASKING: (QUERY, f", approve: {{decisions: [deletes], users: [{OPERATOR}], timeout: 1h}}", ""),
    HURRIED: (QUERY, f", approve: {{decisions: [deletes], users: [{OPERATOR}], timeout: 1m}}", ""),
    CLICKED: (QUERY, f", approve: {{decisions: [deletes], users: [{OPERATOR}], timeout: 1h}}", ""),
    LANDED: (
        "method: log",
        ", watch_interval: 1s",
        "schedule: archive\n"
        "archive: {{url: {folder}/binlogs, layout: binlog, format: mysql-binlog, min_file_age: 0s, initial_load: snapshot}}",
    ),
}
"""What each adds to the defaults, to the block `airflow`, and to the file."""
ORDERS = (
    "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20), n INT, updated_at DATETIME(6) NOT NULL, KEY (updated_at))",
    "INSERT INTO orders SELECT seq, CONCAT('n', seq), seq * 7, NOW(6) - INTERVAL seq MINUTE FROM seq_1_to_100",
)


@dataclass(frozen=True)
class Stage:
    """An Airflow, the servers that its pipelines use, and the folder that has their lake."""

    airflow: LiveAirflow
    server: MariaDBServer
    spark: str
    folder: Path
    hook: Hook
    collector: Collector

    def sql(self, name: str, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(*statements, database=name)

    def is_equal(self, name: str) -> bool:
        """True if the lake has the rows of the source, and there are some."""
        source = self.sql(name, "SELECT id, name, n, updated_at FROM orders ORDER BY id")
        session = open_session("test", SparkConfig(connect=self.spark))
        try:
            rows = session.read.format("delta").load(f"{self.folder}/lake/{name}/orders")
            lake = [tuple(row) for row in rows.select("id", "name", "n", "updated_at").orderBy("id").collect()]
        finally:
            close_session(session)
        return bool(source) and lake == [(number, text, n, at.replace(tzinfo=None)) for number, text, n, at in source]

    def statuses(self, run: LiveRun) -> list[str]:
        """How the ledger says that the table fared in a run."""
        with closing(open_reader(f"sqlite:///{self.folder}/ledger.db")) as ledger:
            return [line.status.value for line in ledger.table_runs(run.dag_id.removeprefix("cdc_").partition(".")[0], run_id=run.run_id)]

    def errors(self, run: LiveRun) -> str:
        """What the ledger and Airflow say of the failures of a run, for messages of tests."""
        with closing(open_reader(f"sqlite:///{self.folder}/ledger.db")) as ledger:
            lines = ledger.table_runs(run.dag_id.removeprefix("cdc_").partition(".")[0], run_id=run.run_id)
        tasks = [f"{task}: {state}" for task, (state, _) in self.airflow.tries(run).items()]
        return "\n".join([*tasks, *(f"{line.status} {line.messages.message} {line.messages.alert}" for line in lines)])

    def watermark(self, name: str) -> str:
        with closing(open_reader(f"sqlite:///{self.folder}/ledger.db")) as ledger:
            return str(ledger.table_state(name, TableName(schema=name, name="orders")).progress.watermark)

    def answers(self, name: str) -> list[tuple[str, str]]:
        """How the questions of a pipeline were answered, by the ledger, the oldest first, and by whom."""
        with closing(open_reader(f"sqlite:///{self.folder}/ledger.db")) as ledger:
            return [(one.status.value, one.who) for one in reversed(ledger.approvals(name))]

    def done(self, name: str, conf: dict[str, Any], dag_id: str = "") -> LiveRun:
        """Triggers a run and waits for its end."""
        dag_id = dag_id or f"cdc_{name}"
        return self.airflow.ended(dag_id, self.airflow.trigger(dag_id, conf))


@pytest.fixture(scope="module")
def stage(mariadb: MariaDBServer, postgres: PostgresServer, jar_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("live")
    for name in ("dags", "pipelines", "home"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "dags" / "cdc_pipelines.py", folder / "dags")
    conf = {name: value for name, value in SMALL_SPARK.items() if name not in ("spark.driver.memory", "spark.driver.extraJavaOptions")}
    with ConnectServer(folder / "spark", jars=jar_folder, conf=conf) as spark, webhook() as hook, metrics_collector() as collector:
        (folder / "binlogs").mkdir()
        for name, (defaults, block, more) in PIPELINES.items():
            mariadb.create_database(name)
            mariadb.execute("DROP TABLE IF EXISTS orders", *ORDERS, database=name)
            text = FILE.format(name=name, folder=folder, spark=spark.url, defaults=defaults, airflow=block, more=more.format(folder=folder))
            (folder / "pipelines" / f"{name}.yaml").write_text(text)
        settings = {
            "CDC_OPS_PIPELINES": str(folder / "pipelines"),
            "CDC_OPS_LEDGER": f"sqlite:///{folder}/ledger.db",
            "CDC_OPS_JARS": str(jar_folder),
            "AIRFLOW_CONN_LIVE_DB": json.dumps(
                {"conn_type": "mysql", "host": mariadb.host, "port": mariadb.port, "login": mariadb.user, "password": mariadb.password}
            ),
            "AIRFLOW_CONN_ON_CALL_HOOK": hook.url,
            **otel_settings(collector.url),
        }
        postgres.create_database("airflow")
        database = postgres.url("airflow").replace("postgresql://", "postgresql+psycopg://")
        with LiveAirflow(folder / "home", folder / "dags", database, settings) as airflow:
            wanted = {ALERTS_DAG, RECONCILE, *(f"cdc_{name}" for name in PIPELINES)}
            airflow.wait_until(lambda: wanted <= {dag["dag_id"] for dag in airflow.call("GET", "/dags")["dags"]}, f"the DAGs {wanted}")
            airflow.pause(ALERTS_DAG, True)  # its runs are triggered here
            yield Stage(airflow=airflow, server=mariadb, spark=spark.url, folder=folder, hook=hook, collector=collector)


def test_a_backfill_of_three_intervals_beside_scheduled_runs_leaves_the_table_equal_and_never_moves_the_watermark_back(
    stage: Stage,
) -> None:
    airflow, dag_id = stage.airflow, f"cdc_{CLOCK}"
    airflow.pause(dag_id, False)
    first = airflow.wait_until(lambda: [run for run in airflow.runs(dag_id) if run.state in ENDED], "a scheduled run")[0]
    assert (first.kind, first.state, stage.statuses(first)) == ("scheduled", "success", ["committed"])
    assert first.interval[0] < first.interval[1]
    before = stage.watermark(CLOCK)
    stage.sql(CLOCK, "UPDATE orders SET n = 1 WHERE id = 7", "UPDATE orders SET n = 2, updated_at = NOW(6) WHERE id = 8")
    assert not stage.is_equal(CLOCK), "the row 7 has changed without its cursor: only a backfill finds it"
    [(changed,)] = stage.sql(CLOCK, "SELECT updated_at FROM orders WHERE id = 7")
    start = changed.replace(second=0, microsecond=0, tzinfo=UTC) - timedelta(minutes=1)
    interval = {"from_date": start.isoformat(), "to_date": (start + timedelta(minutes=2)).isoformat()}
    airflow.call("POST", "/backfills", {"dag_id": dag_id, **interval, "max_active_runs": 2, "reprocess_behavior": "completed"})

    def ended() -> list[LiveRun]:
        runs = [run for run in airflow.runs(dag_id) if run.state in ENDED]
        kinds = [run.kind for run in runs]
        done = kinds.count("backfill") == 3 and kinds.count("scheduled") > 1
        # The second scheduled run may have been planned before the rows changed, and a backfill may have brought row 8 before it.
        return runs if done and stage.is_equal(CLOCK) and stage.watermark(CLOCK) > before else []

    runs = airflow.wait_until(ended, "three backfills, another scheduled run that moved the watermark, and tables that are equal")
    airflow.pause(dag_id, True)
    assert {run.state for run in runs} == {"success"}
    assert [run.interval[0][:16] for run in sorted(runs, key=lambda run: run.interval) if run.kind == "backfill"] == [
        f"{start + timedelta(minutes=number):%Y-%m-%dT%H:%M}" for number in range(3)
    ]


def test_runs_by_hand_resyncs_and_the_reconcile_dag_make_the_table_equal(stage: Stage) -> None:
    for dag_id in (f"cdc_{HAND}", RECONCILE):
        stage.airflow.pause(dag_id, False)
    first = stage.done(HAND, {})
    assert (first.kind, first.state, stage.is_equal(HAND)) == ("manual", "success", True)
    inserted = ("airflow.cdc_ops.last_run_rows", "operation=inserted", f"pipeline={HAND}", f"table={HAND}.orders")
    arrived = stage.airflow.wait_until(
        lambda: stage.collector.gauges().get(inserted), "the run's figures, sent when its task's process ended"
    )
    assert arrived == 100
    before = stage.watermark(HAND)
    stage.sql(HAND, "UPDATE orders SET n = 5 WHERE id IN (5, 6)")
    keys = stage.done(HAND, {"tables": [f"{HAND}.orders"], "mode": "keys", "keys": ["5", "6"]})
    assert (keys.state, stage.is_equal(HAND)) == ("success", True)
    stage.sql(HAND, "DELETE FROM orders WHERE id = 9", "UPDATE orders SET n = 10 WHERE id = 10")
    compared = stage.done(HAND, {}, dag_id=RECONCILE)
    assert (compared.state, stage.is_equal(HAND)) == ("success", True)
    stage.sql(HAND, "UPDATE orders SET n = 11 WHERE id > 50")
    full = stage.done(HAND, {"mode": "full"})
    assert (full.state, stage.is_equal(HAND)) == ("success", True)
    assert stage.watermark(HAND) == before, "what is read again moves no watermark"


def test_a_wrong_conf_fails_in_the_first_task_which_names_the_field(stage: Stage) -> None:
    stage.airflow.pause(f"cdc_{HAND}", False)
    run = stage.done(HAND, {"mode": "range", "since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"})
    assert run.state == "failed"
    tries = stage.airflow.tries(run)
    assert tries.pop("discover") == ("failed", 1), "another try would say the same"
    assert tries.pop("outcome")[0] == "failed"
    assert {state for state, _ in tries.values()} == {"upstream_failed"}, "Spark is not started"
    log = stage.airflow.task_log(run, "discover")
    assert "since" in log
    assert stage.server.password not in log


def test_a_killed_task_is_tried_again_and_no_row_is_lost(stage: Stage) -> None:
    dag_id = f"cdc_{KILLED}"
    stage.airflow.pause(dag_id, False)
    run_id = stage.airflow.trigger(dag_id, {})
    job = stage.airflow.wait_until(lambda: _job_of(stage.folder / "staging", KILLED), "the Spark job")
    task = int(Path(f"/proc/{job}/stat").read_text().rsplit(")", 1)[1].split()[1])
    for pid in (task, job):
        os.kill(pid, signal.SIGKILL)
    run = stage.airflow.ended(dag_id, run_id)
    assert (run.state, stage.statuses(run)) == ("success", ["committed"])
    assert stage.airflow.tries(run)["sync"] == ("success", 2)
    assert stage.is_equal(KILLED)


def _job_of(staging: Path, pipeline: str) -> int:
    """The pid of the job's process of a pipeline, 0 if none runs."""
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
        except OSError:
            continue
        if any(word.startswith(str(staging).encode()) and f"/{pipeline}/".encode() in word for word in words):
            return int(folder.name)
    return 0


def test_a_paused_dag_is_told_of_by_the_dag_that_looks(stage: Stage) -> None:
    dag_id = f"cdc_{STALE}"
    stage.airflow.pause(dag_id, False)
    assert stage.done(STALE, {}).state == "success"
    stage.airflow.pause(dag_id, True)
    assert not stage.hook.documents
    file = stage.folder / "pipelines" / f"{STALE}.yaml"
    file.write_text(file.read_text().replace("max_lag: 1h", "max_lag: 1s"))
    stage.airflow.pause(ALERTS_DAG, False)
    looked = stage.done("", {}, dag_id=ALERTS_DAG)
    stage.airflow.pause(ALERTS_DAG, True)
    assert looked.state == "success"
    [document] = stage.hook.take()
    assert (document["change"], document["kind"]) == ("new", "lag")
    assert f"see whether the DAG {dag_id} is paused" in document["text"]


def test_deletes_above_the_limit_wait_for_the_person_who_is_asked_and_for_no_other(stage: Stage) -> None:
    """Refused, answered by nobody in time, and granted: by the means of Airflow's own page."""
    airflow = stage.airflow
    for name in (ASKING, HURRIED):
        airflow.pause(f"cdc_{name}", False)
    first = [airflow.trigger(f"cdc_{name}", {}) for name in (ASKING, HURRIED)]
    assert [airflow.ended(f"cdc_{name}", run).state for name, run in zip((ASKING, HURRIED), first, strict=True)] == ["success"] * 2
    for name in (ASKING, HURRIED):
        stage.sql(name, "DELETE FROM orders WHERE id > 30")
    refused, expired = (airflow.trigger(f"cdc_{name}", {"mode": "reconcile"}) for name in (ASKING, HURRIED))
    path, title = airflow.question(f"cdc_{ASKING}", refused)
    assert title == f"{ASKING}.orders: delete 70 of 100 rows?"
    with pytest.raises(AssertionError, match="403"):
        airflow.call("PATCH", path, {"chosen_options": ["Approve"]}, user=COLLEAGUE)
    assert airflow.answered(f"cdc_{ASKING}", refused, "Reject").state == "failed"
    assert airflow.ended(f"cdc_{HURRIED}", expired).state == "failed"
    assert not stage.is_equal(ASKING)
    assert not stage.is_equal(HURRIED)
    granted = airflow.trigger(f"cdc_{ASKING}", {"mode": "reconcile"})
    assert airflow.answered(f"cdc_{ASKING}", granted, "Approve").state == "success"
    assert stage.is_equal(ASKING)
    assert stage.answers(ASKING) == [("refused", OPERATOR), ("granted", OPERATOR)]
    assert stage.answers(HURRIED) == [("timed_out", "")]


DIALOG = "document.querySelector('[role=dialog]')"


def asked_in_the_browser(tab: Tab, airflow: LiveAirflow, user: str, title: str) -> list[str]:
    """Logs somebody in by the form, opens what Airflow's first page has under *Required Actions*, and returns its lines."""
    tab.call("Network.clearBrowserCookies")
    tab.look()
    tab.open(f"{airflow.address}/auth/login")
    typed(tab, "input[name=username]", user)
    typed(tab, "input[name=password]", airflow.passwords[user])
    pressed(tab, "Sign in")
    link = "[...document.querySelectorAll('button')].find(one => one.innerText.includes('Required Actions'))"
    until(tab, f"{link}.innerText.includes('1')")
    tab.value(f"{link}.click()")
    until(tab, f"{DIALOG}.innerText.includes('{title}')")
    return str(tab.value(f"{DIALOG}.innerText")).splitlines()


def answered_there(tab: Tab, answer: str, words: str) -> None:
    """Presses an answer's button, waits for the words of the page, and leaves it: an open page asks the server on and on."""
    pressed(tab, answer)
    until(tab, f"document.body.innerText.includes('{words}')")
    tab.open("about:blank")


def test_a_person_answers_in_the_browser_what_a_run_asks_and_nobody_else_can(stage: Stage, tab: Tab) -> None:
    airflow, dag_id, title = stage.airflow, f"cdc_{CLICKED}", f"{CLICKED}.orders: delete 70 of 100 rows?"
    airflow.pause(dag_id, False)
    assert stage.done(CLICKED, {}).state == "success"
    stage.sql(CLICKED, "DELETE FROM orders WHERE id > 30")

    refused = airflow.trigger(dag_id, {"mode": "reconcile"})
    airflow.question(dag_id, refused)
    shown = asked_in_the_browser(tab, airflow, COLLEAGUE, title)
    assert "why: The source no longer has them; max_delete_ratio is 0.1." in shown
    assert f"cdc-ops reconcile --pipeline {CLICKED} --table {CLICKED}.orders --accept-deletes 77%" in shown, "a line to copy"
    answered_there(tab, "Approve", "Access Denied")
    assert stage.answers(CLICKED) == [("asked", "")]

    assert asked_in_the_browser(tab, airflow, OPERATOR, title) == shown
    answered_there(tab, "Reject", "Pending required actions (0)")
    assert airflow.ended(dag_id, refused).state == "failed"
    assert not stage.is_equal(CLICKED)

    granted = airflow.trigger(dag_id, {"mode": "reconcile"})
    airflow.question(dag_id, granted)
    asked_in_the_browser(tab, airflow, OPERATOR, title)
    answered_there(tab, "Approve", "Pending required actions (0)")
    assert airflow.ended(dag_id, granted).state == "success"
    assert stage.is_equal(CLICKED)
    assert stage.answers(CLICKED) == [("refused", OPERATOR), ("granted", OPERATOR)]
    tab.open(f"{airflow.address}/required_actions")
    until(tab, "['Rejection Received', 'Approval Received'].every(words => document.body.innerText.includes(words))")


def test_a_file_that_lands_starts_a_run_which_reads_it_and_leaves_it_where_it_is(stage: Stage) -> None:
    """The files are binlogs, as an archiver copies them when the server has closed them."""
    archive, airflow, dag_id = stage.folder / "binlogs", stage.airflow, f"cdc_{LANDED}"
    airflow.pause(dag_id, False)

    def run_after(*changes: str) -> LiveRun:
        """Changes rows, lands the binlog that has them, and waits for the run that this starts."""
        before = len(airflow.runs(dag_id))
        stage.sql(LANDED, *changes)
        *_, (name, *_) = stage.sql(LANDED, "SHOW BINARY LOGS")
        stage.sql(LANDED, "FLUSH BINARY LOGS")
        shutil.copyfile(stage.server.data / name, archive / f".{name}")
        (archive / f".{name}").rename(archive / name)
        return airflow.ended(dag_id, airflow.wait_until(lambda: airflow.runs(dag_id)[before:], f"a run for {name}")[0].run_id)

    stage.sql(LANDED, "FLUSH BINARY LOGS")
    first = run_after("UPDATE orders SET n = 1 WHERE id = 1")
    assert (first.kind, first.state) == ("asset_triggered", "success"), stage.errors(first)
    assert stage.is_equal(LANDED)
    second = run_after(
        "UPDATE orders SET n = 2 WHERE id = 2", "DELETE FROM orders WHERE id = 3", "INSERT INTO orders VALUES (300, 'x', 3, NOW(6))"
    )
    assert (second.kind, second.state) == ("asset_triggered", "success"), stage.errors(second)
    assert stage.is_equal(LANDED)
    assert len(list(archive.iterdir())) == 2
    assert len(airflow.runs(dag_id)) == 2, "each file starts one run"
