"""Runs that a real Airflow starts - its scheduler, its backfills, its triggers over REST - with real Spark behind them.

The other modules run DAGs by `dag.test()`. Here nothing but users' own means is used. Each test has a pipeline and a database of its own.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from cdc_ops.airflow.alerts.dag import ALERTS_DAG
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.state.sql import open_store
from tests.airflow.forms import backfilled, logged_in, offers_backfills, triggered
from tests.airflow.live_airflow import COLLEAGUE, ENDED, OPERATOR, LiveAirflow, LiveRun
from tests.airflow.live_stage import ASKING, CLICKED, CLOCK, DECLARED, HAND, HURRIED, KILLED, LANDED, RECONCILE, STALE, Stage, live_stage
from tests.browser import Tab, pressed, until


@pytest.fixture(scope="module")
def stage(mariadb: MariaDBServer, postgres: PostgresServer, jar_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with live_stage(tmp_path_factory.mktemp("live"), mariadb, postgres, jar_folder) as stage:
        yield stage


@pytest.mark.long
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


@pytest.mark.timeout(1500)  # six runs, one after the other
def test_a_dry_run_an_increment_typed_keys_and_three_days_of_backfill_run_when_their_buttons_are_pressed_in_the_browser(
    stage: Stage, tab: Tab
) -> None:
    airflow, dag_id, tables = stage.airflow, f"cdc_{HAND}", [f"{HAND}.orders"]
    logged_in(tab, airflow, OPERATOR)
    planned = airflow.ended(dag_id, triggered(tab, airflow, dag_id, switches=["dry_run"]))
    assert (planned.state, stage.statuses(planned)) == ("success", []), "a dry run writes nothing"
    assert "Dry run" in airflow.task_log(planned, "discover")
    first = airflow.ended(dag_id, triggered(tab, airflow, dag_id, switches=["accept_server"]))
    assert (first.kind, first.state, stage.is_equal(HAND)) == ("manual", "success", True)
    inserted = ("airflow.cdc_ops.rows_total", "operation=insert", f"pipeline={HAND}", f"table={HAND}.orders")
    figures = airflow.wait_until(
        lambda: (found := stage.collector.gauges()) and inserted in found and found, "the run's figures, sent when its task's process ended"
    )
    assert figures[inserted] == 100, "also where the scheduled run, which the dialog has begun by ending the pause, has brought them"
    before = stage.watermark(HAND)

    stage.sql(HAND, "UPDATE orders SET n = 5 WHERE id IN (5, 6)")
    keys = airflow.ended(dag_id, triggered(tab, airflow, dag_id, mode="keys", tables=tables, texts={"keys": "5\n6"}))
    assert (keys.state, stage.is_equal(HAND)) == ("success", True)

    days = [datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=number) for number in (4, 3, 2)]
    stage.sql(HAND, *(f"UPDATE orders SET n = 12, updated_at = '{day:%F} 12:00:00' WHERE id = {day.day}" for day in days))
    backfilled(tab, airflow, dag_id, days[0], days[-1])
    runs = airflow.wait_until(
        lambda: [run for run in found if run.state in ENDED] if len(found := backfills(airflow, dag_id)) == 3 else [],
        "three backfills",
    )
    assert ([run.state for run in runs], stage.is_equal(HAND)) == (["success"] * 3, True)
    assert sorted(run.interval[0][:10] for run in runs) == [f"{day:%F}" for day in days]
    assert stage.watermark(HAND) == before, "what is read again moves no watermark"


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_every_other_mode_of_the_trigger_form_runs_when_its_button_is_pressed_in_the_browser(stage: Stage, tab: Tab) -> None:
    airflow, dag_id, tables = stage.airflow, f"cdc_{HAND}", [f"{HAND}.orders"]
    logged_in(tab, airflow, OPERATOR)
    first = airflow.ended(dag_id, triggered(tab, airflow, dag_id))
    assert (first.kind, first.state, stage.is_equal(HAND)) == ("manual", "success", True)
    stage.sql(HAND, "UPDATE orders SET n = 7 WHERE id = 7")
    [(at,)] = stage.sql(HAND, "SELECT updated_at FROM orders WHERE id = 7")
    since = at.replace(second=0, microsecond=0, tzinfo=UTC)
    read = airflow.ended(dag_id, triggered(tab, airflow, dag_id, mode="range", instants=[since, since + timedelta(minutes=1)]))
    assert (read.state, stage.is_equal(HAND)) == ("success", True)
    stage.sql(HAND, "UPDATE orders SET n = 11 WHERE id > 50")
    full = airflow.ended(dag_id, triggered(tab, airflow, dag_id, mode="full", choices={"downstream": "silent"}))
    assert (full.state, stage.is_equal(HAND)) == ("success", True)
    stage.sql(HAND, "DELETE FROM orders WHERE id > 80")
    compared = airflow.ended(dag_id, triggered(tab, airflow, dag_id, mode="reconcile", tables=tables, texts={"accept_deletes": "30%"}))
    assert (compared.state, stage.is_equal(HAND)) == ("success", True)
    stage.sql(HAND, "DELETE FROM orders WHERE id = 9", "UPDATE orders SET n = 10 WHERE id = 10")
    by_its_dag = airflow.ended(RECONCILE, triggered(tab, airflow, RECONCILE))
    assert (by_its_dag.state, stage.is_equal(HAND)) == ("success", True)
    assert not offers_backfills(tab, airflow, RECONCILE)


def backfills(airflow: LiveAirflow, dag_id: str) -> list[LiveRun]:
    """The backfills' runs of a DAG, once all have ended."""
    runs = [run for run in airflow.runs(dag_id) if run.kind == "backfill"]
    return runs if all(run.state in ENDED for run in runs) else []


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_the_form_of_a_pipeline_without_a_database_runs_in_each_of_its_modes_and_offers_no_backfill(stage: Stage, tab: Tab) -> None:
    airflow, dag_id = stage.airflow, f"cdc_{DECLARED}"
    logged_in(tab, airflow, OPERATOR)
    assert not offers_backfills(tab, airflow, dag_id)
    for mode, switches in (("increment", ["dry_run"]), ("increment", []), ("quarantine", []), ("replay", [])):
        run = airflow.ended(dag_id, triggered(tab, airflow, dag_id, mode=mode, switches=switches))
        assert run.state == "success", stage.errors(run)
    assert stage.lake(DECLARED, "id", "name") == [(1, "one"), (2, "two")]


@pytest.mark.parametrize("text", ["", '{"operator": "geh'])
def test_passwords_that_airflow_is_still_writing_are_waited_for(text: str, tmp_path: Path) -> None:
    (tmp_path / "simple_auth_manager_passwords.json.generated").write_text(text)
    assert not LiveAirflow(tmp_path, tmp_path, "", {}).log_in()


def test_a_wrong_conf_fails_one_task_which_names_the_field(stage: Stage) -> None:
    stage.airflow.pause(f"cdc_{HAND}", False)
    run = stage.done(HAND, {"mode": "range", "since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"})
    assert run.state == "failed"
    tries = stage.airflow.tries(run)
    assert tries.pop("discover") == ("success", 1)
    assert tries.pop("outcome") == ("failed", 1), "another try would say the same"
    assert {state for state, _ in tries.values()} == {"skipped"}, "Spark is not started"
    log = stage.airflow.task_log(run, "outcome")
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


@pytest.mark.long
def test_a_plan_that_waits_for_a_table_of_another_run_holds_no_slot_and_goes_on_when_it_is_free(stage: Stage) -> None:
    dag_id, table = f"cdc_{KILLED}", TableName(schema=KILLED, name="orders")
    stage.airflow.pause(dag_id, False)

    def waiting() -> list[str]:
        found = stage.airflow.call("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances?limit=100")["task_instances"]
        return [task["rendered_map_index"] for task in found if (task["task_id"], task["state"]) == ("tables.plan", "up_for_reschedule")]

    with open_store(f"sqlite:///{stage.folder}/ledger.db") as store:
        lease = store.acquire(KILLED, table, "other", ttl=timedelta(minutes=10), live=True)
        run_id = stage.airflow.trigger(dag_id, {})
        assert stage.airflow.wait_until(waiting, "a plan that waits") == [f"waits: {table}"]
        store.release(lease)
    run = stage.airflow.ended(dag_id, run_id)
    assert (run.state, stage.airflow.tries(run)["plan"]) == ("success", ("success", 1))
    assert stage.is_equal(KILLED)


@pytest.mark.long
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


@pytest.mark.long
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


DIALOG = "[...document.querySelectorAll('[role=dialog]')].find(one => one.innerText.includes('Required Actions'))"


def asked_in_the_browser(tab: Tab, airflow: LiveAirflow, user: str, title: str) -> list[str]:
    """Logs somebody in by the form, opens what Airflow's first page has under *Required Actions*, and returns its lines."""
    logged_in(tab, airflow, user)
    link = "[...document.querySelectorAll('button')].find(one => one.innerText.includes('Required Actions'))"
    until(tab, f"{link}.innerText.includes('1')")
    tab.value(f"{link}.click()")
    until(tab, f"{DIALOG}.innerText.includes('{title}')")
    return str(tab.value(f"{DIALOG}.innerText")).splitlines()


def led_out(tab: Tab, airflow: LiveAirflow, link: str, address: str = "") -> None:
    """Follows a link of our page in Airflow's frame, which must lead the window elsewhere, and not the frame."""
    frame = "document.querySelector('iframe').contentDocument"
    tab.open(f"{airflow.address}/plugin/cdc")
    until(tab, f"{frame}.readyState == 'complete' && {frame}.querySelector('table.tables')")
    if address:
        tab.value(f"{frame}.location.href = '{airflow.address}/{address}'")
    until(tab, f'{frame}.readyState == "complete" && {frame}.querySelector("{link}")')
    before = tab.loaded
    tab.value(f'{frame}.querySelector("{link}").click()')
    tab.wait(before)


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
    assert not [line for line in shown if "cdc-ops reconcile" in line], "who answers here has no need of a terminal"
    answered_there(tab, "Approve", "Access Denied")
    assert stage.answers(CLICKED) == [("asked", "")]

    assert asked_in_the_browser(tab, airflow, OPERATOR, title) == shown
    answered_there(tab, "Reject", "Pending required actions (0)")
    assert airflow.ended(dag_id, refused).state == "failed"
    assert not stage.is_equal(CLICKED)

    granted = airflow.trigger(dag_id, {"mode": "reconcile"})
    airflow.question(dag_id, granted)
    asked_in_the_browser(tab, airflow, OPERATOR, title)
    led_out(tab, airflow, f"a[href*='{quote(granted, safe='')}/required_actions']")
    until(tab, f"location.pathname.endsWith('/required_actions') && document.body.innerText.includes('{title}')")
    asked_in_the_browser(tab, airflow, OPERATOR, title)
    answered_there(tab, "Approve", "Pending required actions (0)")
    assert airflow.ended(dag_id, granted).state == "success"
    assert stage.is_equal(CLICKED)
    led_out(tab, airflow, f"a[href*='task?'][href*='{quote(granted, safe='')}']", f"cdc/table?pipeline={CLICKED}&name={CLICKED}.orders")
    until(tab, "location.pathname.endsWith('/tasks/approved.sync/mapped/0') && !document.querySelector('iframe')")
    assert stage.answers(CLICKED) == [("refused", OPERATOR), ("granted", OPERATOR)]
    tab.open(f"{airflow.address}/required_actions")
    until(tab, "['Rejection Received', 'Approval Received'].every(words => document.body.innerText.includes(words))")


@pytest.mark.long
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
