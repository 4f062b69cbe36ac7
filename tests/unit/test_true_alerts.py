"""Alerts that are true: nothing is over that still fails, nothing is new that is not decided, and figures are right."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_ops.alerts.conditions import read_conditions
from cdc_ops.alerts.host import Host, Place
from cdc_ops.alerts.messages import Message
from cdc_ops.alerts.notify import notify_receivers
from cdc_ops.alerts.space import Room, places_of, rooms_of
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.approvals import ApprovalStatus
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec, DeleteGuard
from cdc_ops.core.reconcile.key_buckets import WHOLE
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, CostRefusedError, RequestError, SourceUnreachableError, Stopped
from cdc_ops.state.notices.alerts import Finding, Subject
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.context import Context
from cdc_ops.steps.reporting.findings import note_equal, note_failed_run, note_verification
from cdc_ops.steps.runs.stopped_run import _unfinished
from cdc_ops.steps.runs.table_groups import record_failure
from tests.alert_case import ALL, HOOK, Wrong, write_file
from tests.operations import with_fields
from tests.state_values import make_operation

ORDERS, ITEMS = (TableName(schema="shop", name=name) for name in ("orders", "items"))
GIB = 2**30
EVERY = HOOK.replace("repeat: 4h", f"repeat: 4h, events: {ALL}")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStateStore]:
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return load_pipeline(write_file(tmp_path, EVERY) / "shop.yaml")


@pytest.fixture
def wrong(store: SqlStateStore) -> Wrong:
    return Wrong(store)


def told(store: SqlStateStore, pipeline: Pipeline, host: Host | None = None) -> list[tuple[str, str]]:
    """What a receiver is told now: change and subject of each message."""
    return [(message.change.value, message.subject) for message in messages(store, pipeline, host)]


def messages(store: SqlStateStore, pipeline: Pipeline, host: Host | None = None) -> list[Message]:
    taken: list[Message] = []
    done = notify_receivers(pipeline, store, lambda _: taken.append, host or Host())
    assert not done.errors
    return taken


def working(*runs: str) -> Host:
    """Airflow, which has these runs at work and no others."""
    return Host(is_at_work=lambda run_id: run_id in runs)


def kinds(store: SqlStateStore, pipeline: Pipeline) -> list[AlertKind]:
    return [one.subject.kind for one in read_conditions(store, pipeline)]


# Runs at work


def test_a_failure_of_a_run_that_is_still_at_work_is_neither_new_nor_over(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    wrong.run(ORDERS, run_id="r1")
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r2", message="away")
    assert told(store, pipeline, working("r2")) == [], "a retry may heal it"
    assert told(store, pipeline, working()) == [("new", "shop: shop.orders failed")]
    wrong.run(ORDERS, TableRunStatus.PLANNED, run_id="r2", finished_at=None)
    assert told(store, pipeline, working("r2")) == [], "somebody cleared the task: it is tried again"
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r3", message="away")
    assert told(store, pipeline, working("r3")) == [], "it has failed again, and may heal"
    wrong.run(ORDERS, run_id="r3")
    assert told(store, pipeline, working("r3")) == [("over", "shop: over: shop.orders no longer failing")], "its rows are committed"


def test_a_retry_that_works_ends_no_failure_also_where_nobody_knows_of_runs(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    wrong.run(ORDERS, run_id="r1")
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r2", message="away")
    assert told(store, pipeline) == [("new", "shop: shop.orders failed")]
    wrong.run(ORDERS, TableRunStatus.PLANNED, run_id="r2", finished_at=None, started_at=store.now())
    assert told(store, pipeline) == []
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r2", message="away")
    assert told(store, pipeline) == []


def test_a_task_that_waits_for_a_slot_for_hours_is_no_failure_as_long_as_airflow_has_the_run(
    store: SqlStateStore, pipeline: Pipeline, wrong: Wrong
) -> None:
    wrong.run(ORDERS, TableRunStatus.PLANNED, run_id="r1", finished_at=None, started_at=store.now() - timedelta(hours=5))
    assert told(store, pipeline, working("r1")) == []
    assert told(store, pipeline, working()) == [("new", "shop: shop.orders failed")]
    wrong.run(ITEMS, TableRunStatus.PLANNED, run_id="r2", finished_at=None, started_at=store.now() - timedelta(minutes=2))
    wrong.run(ITEMS, TableRunStatus.PLANNED, run_id="r3", finished_at=None, started_at=store.now() - timedelta(minutes=1))
    assert told(store, pipeline, working("r1", "r2", "r3")) == []
    assert told(store, pipeline, working("r1", "r3")) == [("new", "shop: shop.items failed")]


def test_a_run_that_fails_before_it_knows_of_a_gap_or_an_alert_ends_neither(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    gap, alert = wrong.make(AlertKind.GAP), wrong.make(AlertKind.RUN_ALERT)
    assert sorted(change for change, _ in told(store, pipeline)) == ["new", "new"]
    for table in (gap, alert):
        wrong.run(table, TableRunStatus.FAILED, message="The source is away.")
    assert told(store, pipeline) == [("new", "shop: 2 tables failed")]
    for table in (gap, alert):
        wrong.run(table)
    assert sorted(change for change, _ in told(store, pipeline)) == ["over", "over", "over"]


def test_deletes_that_are_refused_are_no_end_of_a_failure_and_no_second_one(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    deletes = wrong.make(AlertKind.FAILURE)
    wrong.run(deletes, TableRunStatus.FAILED, run_id="r2", message="900 deletes")
    subject = Subject(pipeline="shop", table=deletes, kind=AlertKind.DELETES)
    told(store, pipeline)
    store.put_finding(Finding(subject=subject, text="900 deletes", found_at=store.now(), run_id="r2"))
    assert told(store, pipeline) == [("new", "shop: deletes over the guard in shop.failure")]
    wrong.run(deletes)
    assert told(store, pipeline) == [("over", "shop: over: shop.failure no longer failing")]


def test_deletes_that_a_run_at_work_has_refused_are_told_when_it_has_ended(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    wrong.make(AlertKind.DELETES)
    [run_id] = [one.run_id for one in store.findings("shop")]
    assert told(store, pipeline, working(run_id)) == []
    assert told(store, pipeline, working()) == [("new", "shop: deletes over the guard in shop.deletes")]
    assert told(store, pipeline, working(run_id)) == []


def test_a_table_that_left_the_file_or_the_ledger_is_forgotten_and_not_told_to_be_well(
    store: SqlStateStore, pipeline: Pipeline, wrong: Wrong
) -> None:
    wrong.make(AlertKind.FAILURE)
    told(store, pipeline)
    [rule] = pipeline.tables
    assert told(store, replace(pipeline, tables=(replace(rule, pattern="shop.orders"),))) == []
    assert store.notified_alerts("shop") == ()


# Wrong requests


def asked_for(trigger: str, **parts: object) -> RunRequest:
    return RunRequest(run_id="r9", trigger=trigger, holder="r9", **parts)  # type: ignore[arg-type]


def fail(store: SqlStateStore, pipeline: Pipeline, request: RunRequest, error: CdcError, table: TableName = ORDERS) -> None:
    config = TableConfig(pipeline="shop", table=table, settings=TableSettings(), path="/lake/none")
    record_failure(Context(pipeline=pipeline, store=store, connect=None), request, config, error)  # type: ignore[arg-type]


def test_what_somebody_asked_for_in_vain_is_no_failure_of_the_table_and_ends_none(
    store: SqlStateStore, pipeline: Pipeline, wrong: Wrong
) -> None:
    wrong.run(ORDERS, run_id="r1")
    resync = asked_for("manual", kind=RunKind.RESYNC, mode=ResyncMode.REPLAY)
    fail(store, pipeline, resync, RequestError("Table shop.orders has no event history to replay."))
    assert kinds(store, pipeline) == []
    assert store.history("shop", ORDERS)[0].status is TableRunStatus.FAILED, "the page shows it"
    wrong.run(ITEMS, TableRunStatus.FAILED, run_id="r1", message="away")
    told(store, pipeline)
    fail(store, pipeline, resync, RequestError("Table shop.items has no event history to replay."), ITEMS)
    assert told(store, pipeline) == []


@pytest.mark.parametrize(
    ("trigger", "error"),
    [
        ("scheduled", RequestError("Table shop.orders cannot be compared with its source.")),
        ("asset_triggered", RequestError("Table shop.orders cannot be compared with its source.")),
        ("operator_triggered", RequestError("Table shop.orders cannot be compared with its source.")),
        ("manual", CostRefusedError("table shop.orders would cost more than its limits.")),
        ("manual", SourceUnreachableError("The source is away.")),
    ],
)
def test_what_nobody_asked_for_in_vain_is_told(
    store: SqlStateStore, pipeline: Pipeline, wrong: Wrong, trigger: str, error: CdcError
) -> None:
    wrong.run(ORDERS, run_id="r1", started_at=store.now() - timedelta(minutes=30))
    fail(store, pipeline, asked_for(trigger), error)
    assert kinds(store, pipeline) == [AlertKind.FAILURE]


# What a run as a whole was told of


def whole(store: SqlStateStore) -> list[str]:
    return [one.text for one in store.findings("shop") if one.subject.table is None]


def test_a_failed_task_of_one_dag_is_not_over_because_the_other_dag_or_a_run_of_one_table_did_well(store: SqlStateStore) -> None:
    run, compare = asked_for("scheduled"), replace(asked_for("scheduled"), run_id="reconcile__r9", kind=RunKind.RECONCILE)
    note_failed_run(store, "shop", run, "Tasks of a run failed: archive.", began=True)
    for other in (compare, asked_for("manual", tables=("shop.orders",)), asked_for("cli")):
        note_failed_run(store, "shop", other, began=True)
        assert whole(store) == ["Tasks of a run failed: archive."]
    note_failed_run(store, "shop", compare, "Tasks of a run failed: tables.maintain_0.", began=True)
    note_failed_run(store, "shop", run, began=True)
    assert whole(store) == ["Tasks of a run failed: tables.maintain_0."]


def test_a_run_that_came_to_no_table_is_over_when_any_run_comes_to_one_and_says_nothing_of_failed_tasks(store: SqlStateStore) -> None:
    run = asked_for("scheduled")
    note_failed_run(store, "shop", run, "Tasks of a run failed: archive.", began=True)
    note_failed_run(store, "shop", run, "No table was read.")
    assert sorted(whole(store)) == ["No table was read.", "Tasks of a run failed: archive."]
    note_failed_run(store, "shop", asked_for("manual", tables=("shop.orders",)), began=True)
    assert whole(store) == ["Tasks of a run failed: archive."]


# Figures


def test_messages_count_tables_and_runs_each_once(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    for number in range(3):
        wrong.run(TableName(schema="shop", name=f"t{number}"), TableRunStatus.FAILED, message="away")
    note_failed_run(store, "shop", asked_for("scheduled"), "Tasks of a run failed: archive.", began=True)
    [failed] = messages(store, pipeline)
    assert failed.subject == "shop: 3 tables and a run failed"
    for number in range(3):
        wrong.run(TableName(schema="shop", name=f"t{number}"), alert="look")
    note_failed_run(store, "shop", asked_for("scheduled"), began=True)
    subjects = [one.subject for one in messages(store, pipeline)]
    assert subjects == ["shop: alerts about 3 tables", "shop: over: 3 tables and a run no longer failing"]
    for number in range(3):
        wrong.run(TableName(schema="shop", name=f"t{number}"))
    assert told(store, pipeline) == [("over", "shop: over: alerts about 3 tables")]


def test_a_table_with_several_changes_of_columns_is_one_table(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    for number in range(7):
        wrong.run(ORDERS, schema_changes=(f"column c{number} added",))
    [message] = messages(store, pipeline)
    assert message.subject == "shop: columns changed in shop.orders"
    assert message.text.endswith("The same with shop.orders.")
    assert len(message.conditions) == 7


# Verifications


def compared(strength: CompareLevel, *, part: bool = False) -> Operation:
    spec = CompareSpec(strength=strength, buckets=None, readers=1, guard=DeleteGuard(), scope=WHOLE if part else None)
    return with_fields(replace(make_operation(1), kind=OperationKind.RECONCILE), compare=spec)


FULL = replace(make_operation(1), kind=OperationKind.RESYNC, apply=replace(make_operation(1).apply, mode=ApplyMode.OVERWRITE))


@pytest.mark.parametrize(
    ("made", "settles"),
    [
        (compared(CompareLevel.ROWS), ("values", "keys")),
        (compared(CompareLevel.WHOLE), ("values", "keys")),
        (FULL, ("values", "keys", "duplicates")),
        (compared(CompareLevel.KEYS), ("keys",)),
        (compared(CompareLevel.ROWS, part=True), ()),
        (make_operation(1), ()),
    ],
    ids=["reconcile by rows", "reconcile by whole rows", "full resync", "reconcile by keys", "reconcile of a part", "increment"],
)
def test_a_difference_is_over_when_a_later_run_has_made_the_table_equal(
    store: SqlStateStore, pipeline: Pipeline, wrong: Wrong, made: Operation, settles: tuple[str, ...]
) -> None:
    for differ in ("values", "keys", "duplicates"):
        kinds_of = {"values": differ != "keys", "duplicates": differ == "duplicates"}
        note_verification(store, "shop", ORDERS, "Source and lake differ in shop.orders.", **kinds_of)
        for number, begun in enumerate((timedelta(hours=-1), timedelta(seconds=1))):
            run = wrong.run(ORDERS, started_at=store.now() + begun)
            note_equal(store, [with_fields(made, pipeline="shop", table=ORDERS, run_id=run.run_id)])
            over = bool(number) and differ in settles
            assert kinds(store, pipeline) == ([] if over else [AlertKind.VERIFICATION]), (
                "it began before the verification" if not number else ""
            )
    note_equal(store, [with_fields(made, pipeline="shop", table=ORDERS, run_id="a run without a line")])


# Questions


LINK = "http://airflow/dags/cdc_shop/runs/r1/required_actions"


def test_a_question_is_told_once_in_place_of_what_it_asks_about_and_its_answer_ends_it(
    store: SqlStateStore, pipeline: Pipeline, wrong: Wrong
) -> None:
    asking = Host(is_at_work=lambda run_id: run_id == "r1", answer_link=lambda _: LINK)
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r1", message="The comparison would delete 900 of 1,000 rows.")
    refusal = Subject(pipeline="shop", table=ORDERS, kind=AlertKind.DELETES)
    store.put_finding(Finding(subject=refusal, text="900 deletes", found_at=store.now(), run_id="r1"))
    asked = wrong.ask(ORDERS, "r1", users=("ann", "ben"))
    [message] = messages(store, pipeline, asking)
    assert (message.change.value, message.subject) == ("new", "shop: somebody has to decide about shop.orders")
    for part in ("delete 900 of 1,000 rows?", LINK, "ann and ben", f"{asked.expires_at:%Y-%m-%d %H:%M} UTC", "More than the guard allows."):
        assert part in message.text, message.text
    assert "cdc-ops " not in message.text, "who is asked has an answer to give, and no command"
    for host in (asking, Host()):
        assert messages(store, pipeline, host) == []
    store.answer_approval(asked.approval_id, ApprovalStatus.REFUSED, "ann")
    assert told(store, pipeline, asking) == [("over", "shop: over: no question any more about shop.orders")]
    ended = told(store, pipeline, working())
    assert ended == [("new", "shop: deletes over the guard in shop.orders")], "the run has ended, and nobody let it through"


def test_a_question_ends_no_alert_of_what_it_asks_about(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    deletes = wrong.make(AlertKind.DELETES)
    told(store, pipeline)
    [before] = store.findings("shop")
    wrong.run(deletes, TableRunStatus.FAILED, run_id="r2", message="900 deletes")
    store.put_finding(replace(before, run_id="r2"))
    asked = wrong.ask(deletes, "r2")
    assert told(store, pipeline) == [("new", "shop: somebody has to decide about shop.deletes")]
    store.answer_approval(asked.approval_id, ApprovalStatus.REFUSED, "ann")
    assert told(store, pipeline) == [("over", "shop: over: no question any more about shop.deletes")], "the refusal was told before"


def test_a_question_that_nobody_can_answer_any_more_is_none(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r1", message="900 deletes")
    wrong.ask(ORDERS, "r1")
    assert kinds(store, pipeline) == [AlertKind.APPROVAL], "the command line cannot know whether Airflow still has the run"
    assert [one.subject.kind for one in read_conditions(store, pipeline, working())] == [AlertKind.FAILURE]
    wrong.ask(ITEMS, "r1", expires_at=store.now())
    assert kinds(store, pipeline) == [AlertKind.APPROVAL]


@pytest.mark.parametrize(
    ("status", "who", "says"),
    [
        (ApprovalStatus.GRANTED, "ann", "shop.orders: It was granted by ann at 20"),
        (ApprovalStatus.REFUSED, "ben", "shop.orders: It was refused by ben at 20"),
        (ApprovalStatus.TIMED_OUT, "", "shop.orders: Nobody answered in time, which counts as refused. Told first at"),
        (ApprovalStatus.WITHDRAWN, "", "shop.orders: Its run or its time was over before somebody answered, which counts as refused."),
    ],
)
def test_that_a_question_is_over_says_how_it_was_answered_and_by_whom(
    store: SqlStateStore, pipeline: Pipeline, wrong: Wrong, status: ApprovalStatus, who: str, says: str
) -> None:
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r1", message="900 deletes")
    question = wrong.ask(ORDERS, "r1")
    assert [change for change, _ in told(store, pipeline)] == ["new"]
    store.answer_approval(question.approval_id, status, who)
    over = [message for message in messages(store, pipeline) if message.change.value == "over"]
    assert [message.subject for message in over] == ["shop: over: no question any more about shop.orders"]
    assert says in over[0].text
    assert "It was: A run asks about shop.orders: delete 900 of 1,000 rows?" in over[0].text


def test_what_fails_besides_is_told_while_a_run_waits_for_an_answer(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    """The task that asks looks when all tries are over, and says so by `None`; the DAG that looks later has the run at work."""
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r1", message="900 deletes")
    wrong.run(ITEMS, TableRunStatus.FAILED, run_id="r1", message="The source is away.")
    wrong.ask(ORDERS, "r1")
    assert [change for change, _ in told(store, pipeline, Host())] == ["new", "new"]
    assert told(store, pipeline, working("r1")) == []
    wrong.run(ITEMS, run_id="r2")
    assert told(store, pipeline, working("r1")) == [("over", "shop: over: shop.items no longer failing")]


def test_a_later_run_that_fails_otherwise_is_told_although_a_question_waits(store: SqlStateStore, pipeline: Pipeline, wrong: Wrong) -> None:
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r1", message="900 deletes")
    wrong.ask(ORDERS, "r1")
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r2", message="The source is away.")
    assert [one.subject.kind for one in read_conditions(store, pipeline, working("r1"))] == [AlertKind.FAILURE, AlertKind.APPROVAL]


# Pipelines that never ran


@pytest.mark.parametrize(
    ("schedule", "max_lag", "quiet", "due"),
    [
        ("*/15 * * * *", "0s", timedelta(minutes=59), timedelta(minutes=76)),
        ("", "3h", timedelta(minutes=179), timedelta(minutes=181)),
        ("", "5m", timedelta(minutes=59), timedelta(minutes=61)),
        ("0 0 1 1 *", "3h", timedelta(minutes=179), timedelta(minutes=181)),
        ("", "0s", timedelta(days=900), None),
    ],
)
def test_a_pipeline_that_has_never_run_is_told_when_its_schedule_or_a_limit_has_passed(
    store: SqlStateStore, tmp_path: Path, wrong: Wrong, schedule: str, max_lag: str, quiet: timedelta, due: timedelta | None
) -> None:
    file = write_file(tmp_path, EVERY, max_lag=max_lag) / "shop.yaml"
    file.write_text(f"{file.read_text()}schedule: '{schedule}'\n" if schedule else file.read_text())
    pipeline = load_pipeline(file)
    assert told(store, pipeline) == []
    known = store.findings("shop")
    assert bool(known) == (due is not None)
    for finding in known:
        store.put_finding(replace(finding, found_at=store.now() - quiet))
    assert told(store, pipeline) == []
    for finding in known:
        store.put_finding(replace(finding, found_at=store.now() - (due or quiet)))
    if due is None:
        return
    [message] = messages(store, pipeline)
    assert (message.change.value, message.subject) == ("new", "shop: no run yet")
    assert "The pipeline shop has never run." in message.text
    assert "cdc_shop" in message.text
    assert told(store, pipeline) == []
    wrong.make(AlertKind.CATALOG)
    assert ("over", "shop: over: the first run has come") in told(store, pipeline)
    assert AlertKind.NO_RUN not in {one.subject.kind for one in store.findings("shop")}


def test_a_pipeline_whose_runs_come_to_no_table_has_run(store: SqlStateStore, pipeline: Pipeline) -> None:
    notify_receivers(pipeline, store, lambda _: None)
    [first] = store.findings("shop")
    store.put_finding(replace(first, found_at=store.now() - timedelta(days=9)))
    assert kinds(store, pipeline) == [AlertKind.NO_RUN]
    note_failed_run(store, "shop", asked_for("scheduled"), "No table was read.")
    assert kinds(store, pipeline) == [AlertKind.FAILURE]


# Disks


def room(free: int, *names: str, files: float = 1.0) -> Room:
    return Room(names=names, path="/data", free=free * GIB, size=200 * GIB, free_files=int(files * 1_000_000), files=1_000_000)


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> list[Room]:
    found: list[Room] = []
    monkeypatch.setattr("cdc_ops.alerts.conditions.rooms_of", lambda _: found)
    return found


def test_a_disk_that_is_nearly_full_is_told_until_there_is_room_enough_to_stay(
    store: SqlStateStore, pipeline: Pipeline, wrong: Wrong, rooms: list[Room], real_disks: None
) -> None:
    wrong.make(AlertKind.CATALOG)
    told(store, pipeline)
    looks = Host(places=(Place(name="lake", path="/data"),))
    said = []
    for free, files in ((11, 1), (9, 1), (9, 1), (11, 1), (13, 1), (100, 0.04)):
        rooms[:] = [room(free, "lake", "staging", files=files)]
        said += told(store, pipeline, looks) or [("", "")]
        assert told(store, pipeline) == [], "who does not look at disks says nothing of them"
    full, over = ("new", "shop: a disk nearly full"), ("over", "shop: over: enough room again on a disk")
    assert said == [("", ""), full, ("", ""), ("", ""), over, full]
    rooms[:] = []
    assert told(store, pipeline, looks) == [], "a disk that is not there was not looked at"


@pytest.mark.parametrize(
    ("size", "wanted"),
    [(100 / 1024, 25 / 1024), (2, 0.5), (10, 1), (100, 5), (10_000, 20)],
    ids=["100 MiB", "2", "10", "100", "10,000 GiB"],
)
def test_what_is_little_depends_on_the_size_of_the_disk(size: float, wanted: float, real_disks: None) -> None:
    disk = Room(names=("lake",), path="/data", free=round(wanted * GIB), size=round(size * GIB))
    assert not disk.is_little()
    assert replace(disk, free=disk.free - 1000).is_little()


def test_places_are_those_of_the_local_file_system_each_disk_once(tmp_path: Path) -> None:
    file = write_file(tmp_path, "  {}") / "shop.yaml"
    file.write_text(file.read_text().replace("/data/lake", "s3a://lake/x").replace("/data/staging", f"file://{tmp_path}/staging"))
    pipeline = load_pipeline(file)
    (tmp_path / "staging").mkdir()
    places = places_of(pipeline, f"sqlite:///{tmp_path}/ledger.db")
    assert {place.name: place.path for place in places} == {"staging": f"{tmp_path}/staging", "ledger": f"{tmp_path}/ledger.db"}
    assert [found.names for found in rooms_of(places)] == [("staging",)], "there is no ledger"
    (tmp_path / "ledger.db").touch()
    [found] = rooms_of(places)
    assert (found.names, 0 < found.free < found.size) == (("staging", "ledger"), True)
    assert places_of(pipeline, "postgresql+psycopg://db/ledger")[0].name == "staging"


@pytest.mark.parametrize(("by", "kinds_told"), [("Ctrl-C", []), ("SIGTERM", [AlertKind.FAILURE])])
def test_a_run_that_a_person_has_stopped_is_no_failure_and_ends_none(
    store: SqlStateStore, pipeline: Pipeline, wrong: Wrong, by: str, kinds_told: list[AlertKind]
) -> None:
    config = TableConfig(pipeline="shop", table=ORDERS, settings=TableSettings(), path="/lake/none")
    context = Context(pipeline=pipeline, store=store, connect=None)  # type: ignore[arg-type]
    first, second = (str(_unfinished(context, config, Stopped(one))) for one in (by, "Ctrl-C"))
    wrong.run(ORDERS, run_id="r1")
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r2", message=first)
    assert kinds(store, pipeline) == kinds_told
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r3", message="The source does not answer.")
    wrong.run(ORDERS, TableRunStatus.FAILED, run_id="r4", message=second)
    assert kinds(store, pipeline) == [AlertKind.FAILURE], "what had failed before is not mended by it"
