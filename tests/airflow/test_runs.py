"""Whole runs against a real database, with a stand-in for Spark: what fails, what goes on, what is retried, what is told."""

import re
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pendulum
import pytest
from airflow.exceptions import DagRunTypeNotAllowed
from airflow.models.backfill import _create_backfill
from airflow.sdk.exceptions import ParamValidationError
from airflow.utils.types import DagRunType
from jsonschema import FormatChecker

from cdc_ops.airflow.run_conf import DagRunFacts, run_request
from cdc_ops.airflow.run_note import NOTE
from cdc_ops.airflow.task_page import task_page
from cdc_ops.airflow.tasks import RESULTS
from cdc_ops.core.archive.completeness import GapStatus
from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.core.operation.run_request import RunKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import LeaseHeldError, RequestError
from cdc_ops.state.lease import Lease
from cdc_ops.state.sql import open_store
from cdc_ops.steps.context import Context
from cdc_ops.testing.source_harness import wait_until
from tests.airflow.stage import LINES, SALES, Run, Stage, asset_events, handed_on

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
GREEN = {"discover": "success", "plan": "success", "extract": "success", "merge": "success", "commit": "success", "outcome": "success"}
IDLE = {"discover": "success", "plan": "success", "extract": "skipped", "merge": "skipped", "commit": "skipped", "outcome": "success"}


@pytest.fixture
def stage(mariadb: MariaDBServer, tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = Stage(server=mariadb, folder=tmp_path, patch=monkeypatch)
    stage.set_up()
    stage.use_stub()
    monkeypatch.setenv("CDC_OPS_JARS", "")
    return stage


def test_a_snapshot_then_nothing_new_then_one_table_fails_and_heals(stage: Stage) -> None:
    first = stage.run()
    assert (first.state, first.tasks) == ("success", GREEN | {"maintain": "skipped"})
    assert [(call["step"], sorted(call["tables"])) for call in stage.calls()] == [("merge", [LINES, SALES])]
    assert set(asset_events(first)) == {f"cdc/shop/{SALES}", f"cdc/shop/{LINES}"}

    idle = stage.run()
    assert (idle.state, idle.tasks) == ("success", IDLE | {"maintain": "skipped"})
    assert stage.calls() == []
    assert asset_events(idle) == {}

    before = stage.watermarks()
    stage.change()
    stage.plan({"merge": {SALES: "fatal"}})
    broken = stage.run()
    assert broken.state == "failed"
    assert broken.tasks == GREEN | {"merge": "failed", "outcome": "failed", "maintain": "skipped"}
    assert stage.statuses(broken) == {SALES: "failed", LINES: "committed"}
    assert stage.watermarks()[SALES] == before[SALES]
    assert stage.watermarks()[LINES] > before[LINES]
    [results] = [value for task, key, value in handed_on(broken) if (task, key) == ("commit", RESULTS)]
    assert [(one["table"], one["status"], one["rows"]["read"]) for one in results] == [(LINES, "committed", 1), (SALES, "failed", 0)]
    [(name, extra)] = asset_events(broken).items()
    assert name == f"cdc/shop/{LINES}"
    assert (extra["table"], extra["kind"], extra["run_type"], extra["counts"]["read"]) == (LINES, "increment", "manual", 1)
    assert set(extra["counts"]) == {"read", "inserted", "updated", "deleted"}, "what a consumer has use for"
    assert extra["run_id"] == broken.id
    assert datetime.fromisoformat(extra["complete_until"]).tzinfo is not None
    assert results[0]["delta_version"] == extra["delta_version"]
    assert extra["window"]["low"] == before[LINES]
    assert extra["delta_versions"] == {"begin": asset_events(first)[name]["delta_version"], "end": extra["delta_version"]}

    stage.plan({})
    stage.calls()
    healed = stage.run()
    assert (healed.state, stage.statuses(healed)) == ("success", {SALES: "committed", LINES: "idle"})
    assert [(call["step"], call["tables"]) for call in stage.calls()] == [("merge", [SALES])], "what was landed is not read again"

    pages = [task_page("cdc_shop", run.id, SALES) for run in (first, idle, broken, healed)]
    assert pages == [f"/tasks/tables.{task}/mapped/0" for task in ("merge", "plan", "merge", "merge")], (
        "the page leads to such a task's log"
    )
    assert task_page("cdc_shop", first.id, "shop.none") == task_page("cdc_shop", "none", SALES) == ""


@pytest.mark.parametrize("ledger_is_lost", [False, True])
def test_another_uri_of_its_asset_never_loads_a_table_again_without_a_word(stage: Stage, ledger_is_lost: bool) -> None:
    stage.run()
    before, file = stage.watermarks(), stage.folder / "pipelines" / "shop.yaml"
    (stage.folder / "lake").rename(stage.folder / "moved")
    file.write_text(file.read_text().replace(f"{stage.folder}/lake", f"{stage.folder}/moved"))
    for path in stage.folder.glob("ledger.db*") if ledger_is_lost else ():
        path.unlink()
    stage.calls()
    stage.change()
    run = stage.run()
    if ledger_is_lost:  # the error of the plan names `state rebuild`, which takes the watermark from the table
        assert (run.state, run.tasks["plan"], stage.calls()) == ("failed", "failed", [])
        return
    told = asset_events(run)
    assert {name: (extra["kind"], extra["counts"]["read"]) for name, extra in told.items()} == dict.fromkeys(
        (f"cdc/shop/{SALES}", f"cdc/shop/{LINES}"), ("increment", 1)
    )
    assert {extra["table"]: extra["window"]["low"] for extra in told.values()} == before


def test_what_tasks_hand_on_is_names_and_never_operations(stage: Stage) -> None:
    first = stage.run()
    stage.change()
    second = stage.run()
    assert (first.state, second.state) == ("success", "success")
    for run in (first, second):
        handed = [(task, key, value) for task, key, value in handed_on(run) if key not in (NOTE, RESULTS) and not key.startswith("_link_")]
        assert ("discover", "return_value") in {(task, key) for task, key, _ in handed}
        named = {name for _, _, value in handed for name in flat(value)}
        assert {SALES, LINES} <= named
        assert named <= {SALES, LINES}, "nothing but names of tables: what is to be done is in the ledger"


def flat(value: object) -> list[object]:
    """What lists within lists, and values of mappings, come to."""
    if isinstance(value, dict):
        return [one for part in value.values() for one in flat(part)]
    return [one for part in value for one in flat(part)] if isinstance(value, list | tuple) else [value]


def test_a_table_that_cannot_be_extracted_does_not_stop_the_others(stage: Stage) -> None:
    stage.run()
    stage.change()
    stage.plan({"extract": {SALES: "retryable"}})
    run = stage.run()
    assert run.tasks == GREEN | {"extract": "failed", "outcome": "failed", "maintain": "skipped"}
    assert stage.statuses(run) == {SALES: "failed", LINES: "committed"}
    line = stage.ledger.table_runs("shop", run_id=run.id)
    assert any("stub conflict" in item.messages.message for item in line)


def test_an_application_that_dies_leaves_its_windows_to_the_next_run(stage: Stage) -> None:
    stage.run()
    before = stage.watermarks()
    stage.change()
    stage.plan({"extract": {"*": "die"}})
    run = stage.run()
    assert run.state == "failed"
    assert (run.tasks["extract"], run.tasks["merge"], run.tasks["outcome"]) == ("failed", "failed", "failed")
    assert stage.statuses(run) == {SALES: "failed", LINES: "failed"}
    assert stage.watermarks() == before
    stage.plan({})
    assert stage.run().state == "success"


def test_a_retry_does_only_what_failed(stage: Stage) -> None:
    stage.set_up(retries=1)
    stage.use_stub()
    stage.run()
    stage.change()
    stage.calls()
    stage.plan({"extract": {SALES: "retryable", "once": True}})
    run = stage.run()
    assert (run.state, run.tasks["extract"], stage.statuses(run)) == ("success", "success", {SALES: "committed", LINES: "committed"})
    calls = [(call["step"], sorted(call["tables"])) for call in stage.calls()]
    assert calls == [("extract", [LINES, SALES]), ("extract", [SALES]), ("merge", [LINES, SALES])]


@pytest.mark.parametrize(
    ("execution", "step", "how", "starts"),
    [
        ("separate", "extract", "die", 2),
        pytest.param("separate", "extract", "die late", 1, marks=pytest.mark.long),
        ("separate", "merge", "die", 2),
        ("fused", "sync", "die", 2),
    ],
)
def test_an_application_that_is_killed_is_tried_again_and_each_table_has_one_commit_of_it(
    stage: Stage, execution: str, step: str, how: str, starts: int
) -> None:
    stage.set_up(execution=execution, retries=1)
    stage.use_stub()
    assert stage.run().state == "success"
    before = stage.watermarks()
    stage.change()
    stage.calls()
    stage.plan({step: {"*": how, "once": True}})
    run = stage.run()
    assert (run.state, run.tries[step], stage.statuses(run)) == ("success", 2, {SALES: "committed", LINES: "committed"})
    assert [name for name, watermark in stage.watermarks().items() if watermark > before[name]] == [SALES, LINES]
    logs = {name: len(list((stage.folder / "lake" / name.replace(".", "/") / "_delta_log").glob("*.json"))) for name in (SALES, LINES)}
    assert logs == {SALES: 2, LINES: 2}, "the snapshot and the increment"
    assert [call["step"] for call in stage.calls()].count(step) == starts, "what is landed whole is not read again"


def test_upkeep_whose_application_dies_is_tried_again_then_left_to_the_next_run_and_costs_no_table_anything(stage: Stage) -> None:
    stage.set_up(execution="fused", retries=1)
    stage.use_stub()
    file = stage.folder / "pipelines" / "shop.yaml"
    file.write_text(file.read_text().replace("lookback: 0s", "lookback: 0s, maintenance: {vacuum_every: 0s}"))
    stage.plan({"maintain": {"*": "die", "once": True}})
    run = stage.run()
    assert (run.state, run.tasks["maintain"], run.tries["maintain"]) == ("success", "success", 2)
    assert [call["step"] for call in stage.calls()] == ["sync", "maintain", "maintain"]
    assert {name: upkept(stage, name) for name in (SALES, LINES)} == dict.fromkeys((SALES, LINES), True)

    stage.change()
    stage.plan({"maintain": {"*": "die"}})
    dead = stage.run()
    assert (dead.state, dead.tasks["commit"], dead.tasks["maintain"], dead.tries["maintain"]) == ("failed", "success", "failed", 2)
    assert stage.statuses(dead) == {SALES: "committed", LINES: "committed"}
    assert {name: upkept(stage, name) for name in (SALES, LINES)} == dict.fromkeys((SALES, LINES), False)
    stage.plan({})
    healed = stage.run()
    assert (healed.state, healed.tasks["maintain"], stage.statuses(healed)) == ("success", "success", {SALES: "idle", LINES: "idle"})
    assert {name: upkept(stage, name) for name in (SALES, LINES)} == dict.fromkeys((SALES, LINES), True)


def upkept(stage: Stage, name: str) -> bool:
    """True if the ledger has the numbers that the stand-in gives after maintenance."""
    stats = stage.ledger.stats("shop", TableName.parse(name))
    assert stats is not None
    return stats.delta_version == 9 and stats.upkeep.commits_since_vacuum == 0


def test_a_plan_waits_without_a_slot_for_a_table_that_another_run_holds_and_goes_on_when_it_is_free(stage: Stage) -> None:
    path = stage.folder / "pipelines" / "shop.yaml"
    path.write_text(path.read_text().replace("lease_wait: 0s", "lease_wait: 10m"))
    table = TableName.parse(SALES)
    with open_store(f"sqlite:///{stage.folder}/ledger.db") as store:
        other = store.acquire("shop", table, "other", ttl=timedelta(minutes=10), live=True)
        free = threading.Thread(target=release_when_waited_for, args=(stage, other))
        free.start()
        run = stage.run()
        free.join()
    assert (run.state, run.tasks["plan"], run.tries["plan"]) == ("success", "success", 1)
    assert stage.statuses(run) == {SALES: "committed", LINES: "committed"}
    assert reschedules(run) == {"tables.plan": 1}


def release_when_waited_for(stage: Stage, lease: Lease) -> None:
    """Gives a lease back as soon as the plan that waits for it has left its slot."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    def is_waited_for() -> bool:
        with create_session() as session:
            states = session.scalars(select(TaskInstance.state).where(TaskInstance.task_id == "tables.plan")).all()
        return "up_for_reschedule" in map(str, states)

    try:
        wait_until(is_waited_for, "a plan that has left its slot")
    finally:
        with open_store(f"sqlite:///{stage.folder}/ledger.db") as store:
            store.release(lease)


def reschedules(run: Run) -> dict[str, int]:
    """How often each task of a run has left its slot to come again."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.taskreschedule import TaskReschedule
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    query = select(TaskInstance.task_id, func.count()).join(TaskReschedule, TaskReschedule.ti_id == TaskInstance.id)
    with create_session() as session:
        return dict(session.execute(query.where(TaskInstance.run_id == run.id).group_by(TaskInstance.task_id)).all())


def test_an_application_is_stopped_when_another_run_has_taken_its_table(stage: Stage) -> None:
    stage.patch.setattr("cdc_ops.airflow.task_context.Context", partial(Context, lease_ttl=timedelta(seconds=3)))
    stage.plan({"merge": {"sleep": 120}})
    thief = threading.Thread(target=steal, args=(stage, TableName.parse(SALES)))
    thief.start()
    run = stage.run()
    thief.join()
    assert len(stage.calls()) == 1
    assert not (stage.folder / "calls.awake").exists(), "the application ran to its end"
    assert (run.state, run.tasks["merge"], run.tasks["commit"]) == ("failed", "failed", "failed")
    with open_store(f"sqlite:///{stage.folder}/ledger.db") as store:
        assert store.lease("shop", TableName.parse(SALES)).holder == "thief"


def steal(stage: Stage, table: TableName) -> None:
    """Lets a table's lease run out while Spark works, as if the worker had been asleep, and takes it."""
    wait_until((stage.folder / "calls.jsonl").exists, "the start of Spark")
    expire = "UPDATE cdc_tables SET expires_at = '2000-01-01 00:00:00.000000' WHERE table_name = ?"
    with (
        closing(sqlite3.connect(stage.folder / "ledger.db", timeout=30)) as database,
        open_store(f"sqlite:///{stage.folder}/ledger.db") as store,
    ):

        def is_taken() -> bool:
            with database:
                database.execute(expire, (table.name,))
            try:
                store.acquire("shop", table, "thief", ttl=timedelta(minutes=5), live=True)
            except LeaseHeldError:  # it was renewed in between
                return False
            return True

        wait_until(is_taken, "the lease of the thief")


def test_a_table_that_came_through_has_its_event_although_another_one_of_its_group_cannot_be_settled(stage: Stage) -> None:
    first = asset_events(stage.run())[f"cdc/shop/{LINES}"]
    stage.change()
    stage.plan({"merge": {SALES: "drop"}})
    run = stage.run()
    assert (run.state, run.tasks["commit"], stage.statuses(run)) == ("failed", "success", {SALES: "failed", LINES: "committed"})
    [(name, extra)] = asset_events(run).items()
    assert (name, extra["delta_versions"]["begin"]) == (f"cdc/shop/{LINES}", first["delta_version"])


def test_an_event_that_airflow_has_dropped_with_a_failed_task_is_in_the_range_of_the_next_one(stage: Stage) -> None:
    name = f"cdc/shop/{LINES}"
    first = asset_events(stage.run({"tables": [LINES]}))[name]
    stage.change()
    with stage.patch.context() as patch:
        patch.setattr("cdc_ops.airflow.tasks.result_of", lambda run: run.no_such_attribute)
        lost = stage.run({"tables": [LINES]})
    assert (lost.state, lost.tasks["commit"], stage.statuses(lost)) == ("failed", "failed", {LINES: "committed"})
    assert asset_events(lost) == {}
    stage.change()
    told = asset_events(stage.run({"tables": [LINES]}))[name]
    assert told["delta_versions"] == {"begin": first["delta_version"], "end": first["delta_version"] + 2}


def test_a_resync_of_keys_moves_no_watermark_and_says_so(stage: Stage) -> None:
    stage.run()
    stage.calls()
    before = stage.watermarks()
    run = stage.run({"mode": "keys", "tables": [SALES], "keys": ["1", "2"]})
    assert (run.state, stage.statuses(run)) == ("success", {SALES: "committed"})
    assert stage.watermarks() == before
    assert asset_events(run)[f"cdc/shop/{SALES}"]["kind"] == "resync"
    assert [call["tables"] for call in stage.calls()] == [[SALES], [SALES]]


def test_a_run_by_hand_needs_no_logical_date_and_its_first_task_says_what_it_will_do(stage: Stage) -> None:
    stage.run()
    before = stage.watermarks()
    stage.change()
    run = stage.run(logical_date=None)
    assert (run.state, stage.statuses(run)) == ("success", {SALES: "committed", LINES: "committed"})
    [note] = [value for task, key, value in handed_on(run) if (task, key) == ("discover", NOTE)]
    assert (note["action"], note["reason"], note["tables"]) == ("bring new changes", "manual", [LINES, SALES])
    assert run.labels["discover"] == "Bring new changes: 2 tables, manual run"
    assert note["windows"] == {name: f"from {before[name]} to a safe bound of now" for name in (LINES, SALES)}


def test_a_dry_run_says_what_would_be_done_and_does_nothing_and_airflow_refuses_backfills_of_the_dag_that_reconciles(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    file = stage.folder / "pipelines" / "shop.yaml"
    file.write_text(file.read_text() + "reconcile_schedule: '@daily'\n")
    dry = stage.run({"dry_run": True})
    assert (dry.state, dry.tasks["discover"], dry.tasks["outcome"]) == ("success", "success", "skipped")
    assert (stage.calls(), stage.statuses(dry), list((stage.folder / "lake").glob("*"))) == ([], {}, [])
    assert f"{SALES}: 1 operations, about 100 rows" in caplog.text
    assert f"{SALES}: first load: all rows" in caplog.text
    with pytest.raises(DagRunTypeNotAllowed, match="cdc_shop_reconcile"):
        _create_backfill(
            dag_id="cdc_shop_reconcile",
            from_date=pendulum.datetime(2026, 2, 1),
            to_date=pendulum.datetime(2026, 2, 3),
            max_active_runs=1,
            reverse=False,
            triggering_user_name="ada",
            dag_run_conf=None,
        )


def test_a_gap_that_a_run_accepts_is_accepted_for_its_table_in_the_name_of_who_asked_and_a_dry_run_accepts_none(stage: Stage) -> None:
    with open_store(f"sqlite:///{stage.folder}/ledger.db") as store:
        for name in (SALES, LINES):
            lease = store.acquire("shop", TableName.parse(name), "test", ttl=timedelta(minutes=5), live=True)
            [gap] = store.report_gaps(lease, [Gap(stream="shop-0", low=(5,), high=(9,))])
            store.release(lease)
        conf = {"tables": [SALES], "accept_gaps": [gap.gap_id], "why": "the topic had expired"}
        stage.run(conf | {"dry_run": True})
        assert {one.status for one in store.archive_gaps("shop")} == {GapStatus.OPEN}
        assert store.pipeline_versions("shop") == ()
        run = stage.run(conf)
        assert run.state == "success"
        [version] = store.pipeline_versions("shop")
        assert (version.run_id, "pipeline: shop" in version.text) == (run.id, True)
        found = {str(one.table): one for one in store.archive_gaps("shop")}
        assert {name: one.status for name, one in found.items()} == {SALES: GapStatus.ACCEPTED, LINES: GapStatus.OPEN}
        decision = found[SALES].decision
        assert decision is not None
        assert (decision.who, decision.why) == ("dag_test", "the topic had expired")


def test_a_silent_backfill_emits_no_event_and_the_next_event_has_its_commits(stage: Stage) -> None:
    file = stage.folder / "pipelines" / "shop.yaml"
    file.write_text(file.read_text().replace("airflow: {", "airflow: {downstream: silent, "))
    name = f"cdc/shop/{SALES}"
    first = asset_events(stage.run())[name]
    silent = stage.run({"tables": [SALES], "columns": ["name"]})
    assert (silent.state, stage.statuses(silent), asset_events(silent)) == ("success", {SALES: "committed"}, {})
    told = asset_events(stage.run({"tables": [SALES], "columns": ["name"], "downstream": "events"}))[name]
    assert told["kind"] == "backfill"
    assert told["delta_versions"] == {"begin": first["delta_version"], "end": first["delta_version"] + 2}


DAY = {"mode": "range", "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}


@pytest.mark.parametrize(
    ("conf", "names"),
    [
        ({"tabels": [SALES]}, ("unknown key 'tabels'", "Did you mean 'tables'")),
        (DAY | {"since": "2026-01-01T00:00:00"}, ("since='2026-01-01T00:00:00' has no time zone",)),
        (DAY | {"until": "2026-01-02 00:00"}, ("until='2026-01-02 00:00' has no time zone",)),
        (DAY | {"since": "2026-01-03T00:00:00Z"}, ("since (2026-01-03", "is not before until (2026-01-02")),
        ({"tables": ["shop.salse"]}, ("no table 'shop.salse'", f"Did you mean '{SALES}'")),
    ],
    ids=["unknown key", "since is naive", "until is naive", "since after until", "unknown table"],
)
def test_a_conf_that_cannot_be_meant_fails_one_task_at_once_names_the_field_and_starts_no_spark(
    stage: Stage, capsys: pytest.CaptureFixture[str], conf: dict[str, object], names: tuple[str, ...]
) -> None:
    stage.set_up(retries=2)
    stage.use_stub()
    stage.patch.delitem(FormatChecker.checkers, "date-time")  # Airflow then takes any text as an instant; see the next test
    run = stage.run(conf)
    assert run.state == "failed"
    assert (run.tasks.pop("discover"), run.tasks.pop("outcome")) == ("success", "failed")
    assert set(run.tasks.values()) == {"skipped"}
    assert (run.tries["discover"], run.tries["outcome"]) == (1, 1), "another try would say the same"
    assert [one.text for one in stage.ledger.findings("shop")] == [], "nobody is called for a wrong request"
    said = re.split(r"\n\d{4}-", capsys.readouterr().out.partition("AirflowFailException: ")[2])[0]  # up to the next line of the log
    assert [name for name in names if name not in said] == [], said
    assert (stage.calls(), stage.statuses(run), list((stage.folder / "lake").glob("*"))) == ([], {}, [])


@pytest.mark.parametrize("name", ["since", "until"])
def test_airflow_itself_refuses_an_instant_without_a_zone_before_there_is_a_run(stage: Stage, name: str) -> None:
    with pytest.raises(ParamValidationError, match=f"param {name}: '2026-01-01T12:00:00' is not a 'date-time'"):
        stage.run(DAY | {name: "2026-01-01T12:00:00"})
    assert stage.calls() == []


def test_a_run_above_the_limit_of_its_cost_is_refused_until_the_trigger_form_accepts_it(stage: Stage) -> None:
    stage.sql("ANALYZE TABLE sales, order_lines")
    file = stage.folder / "pipelines" / "shop.yaml"
    file.write_text(file.read_text() + "max_cost: {rows: 120}\n")
    refused = stage.run()
    assert refused.state == "failed"
    assert refused.tasks["discover"] == "failed"
    assert (stage.statuses(refused), stage.calls()) == ({}, [])
    accepted = stage.run({"accept_cost": True})
    assert (accepted.state, stage.statuses(accepted)) == ("success", {SALES: "committed", LINES: "committed"})
    lines = {str(line.table): line.cost for line in stage.ledger.table_runs("shop", run_id=accepted.id)}
    assert {name: cost and cost.rows.value for name, cost in lines.items()} == {SALES: 100, LINES: 50}


def test_one_spark_application_does_both_where_the_pipeline_says_fused(stage: Stage) -> None:
    stage.set_up(execution="fused")
    stage.use_stub()
    run = stage.run()
    assert run.state == "success"
    assert set(run.tasks) == {"discover", "plan", "sync", "commit", "maintain", "outcome"}
    assert [call["step"] for call in stage.calls()] == ["sync"]


def test_the_password_is_in_the_environment_of_the_application_and_nowhere_else(
    stage: Stage, metadata: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.run()
    stage.change()
    stage.run()
    calls = stage.calls()
    spellings = {stage.server.password, quote(stage.server.password, safe="")}
    assert [call["step"] for call in calls] == ["merge", "extract", "merge"]
    for call in calls:
        assert quote(stage.server.password, safe="") in call["environ"]["CDC_OPS_CONN_SHOP_DB"]
        assert not any(spelling in argument for argument in call["argv"] for spelling in spellings)
    written = [path for path in stage.folder.rglob("*") if path.is_file()]
    assert any("_jobs" in str(path) for path in written)
    for path in written:
        assert not any(spelling.encode() in path.read_bytes() for spelling in spellings), path
    with closing(sqlite3.connect(metadata)) as database:
        dump = "\n".join(database.iterdump())
    assert "rendered_task_instance_fields" in dump
    assert not any(spelling in dump for spelling in spellings)
    out = capsys.readouterr()
    assert "Spark-Submit cmd" in out.out + out.err
    assert not any(spelling in out.out + out.err for spelling in spellings)


def test_what_spark_will_need_is_checked_before_anything_is_planned(stage: Stage) -> None:
    stage.patch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    run = stage.run()
    assert (run.state, run.tasks["discover"]) == ("failed", "failed")
    assert stage.calls() == []


@pytest.mark.parametrize("run_type", list(DagRunType))
@pytest.mark.parametrize("interval", [None, (NOON - timedelta(hours=1), NOON)])
def test_every_kind_of_run_that_airflow_has_is_understood_with_and_without_an_interval(
    run_type: DagRunType, interval: tuple[datetime, datetime] | None
) -> None:
    facts = DagRunFacts(dag_id="cdc_shop", run_id="scheduled__2026-01-01T12:00:00+00:00", run_type=run_type.value, interval=interval)
    if run_type is not DagRunType.BACKFILL_JOB:
        assert run_request(facts).kind is RunKind.INCREMENT
    elif interval:
        assert (run_request(facts).kind, run_request(facts).since, run_request(facts).until) == (RunKind.BACKFILL, *interval)
    else:
        with pytest.raises(RequestError, match="has no data interval"):
            run_request(facts)
