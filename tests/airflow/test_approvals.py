"""Questions to a person, by real runs on real tables: granted, refused, answered by nobody, and outgrown by what has changed since."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy.exc import OperationalError

from cdc_ops.airflow.task_context import run_facts
from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus, Asked, Decision
from cdc_ops.core.pipeline.pipeline import SparkConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.connect_server import ConnectServer
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.lake.log.head import read_head
from cdc_ops.lake.spark.session import close_session, open_session
from cdc_ops.state.sql import open_store
from tests.airflow.stage import LINES, SALES, Run, Stage
from tests.airflow.test_spark_connect import SPARK
from tests.alert_case import HOOK
from tests.conftest import SMALL_SERVER
from tests.receivers import webhook

RECONCILE = {"mode": "reconcile"}


@dataclass
class Person:
    """Somebody who answers the questions of a run, or lets their time pass, as the API server and the scheduler do it.

    Args:
        answers: By the title of a question what is answered: `Approve`, `Reject`, or "" for nothing in time.
        first: Is done before each answer.
    """

    NAME: ClassVar[str] = "ann"
    answers: Callable[[str], str]
    first: Callable[[], Any] = lambda: None
    asked: list[tuple[str, str]] = field(default_factory=list)
    seen: set[Any] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self.over.set()
            thread.join()

    def _work(self) -> None:
        while not self.over.wait(0.3):
            with suppress(OperationalError):  # SQLite is locked while the run writes: the run would wait for ever for who gives up then
                self._answer()

    def _answer(self) -> None:
        from airflow.models.hitl import HITLDetail
        from airflow.models.trigger import handle_event_submit
        from airflow.triggers.base import TriggerEvent
        from airflow.utils.session import create_session
        from airflow.utils.state import TaskInstanceState
        from sqlalchemy import select

        with create_session() as session:
            found = session.scalars(select(HITLDetail).where(HITLDetail.responded_at.is_(None))).unique().all()
            for detail in (one for one in found if one.task_instance.state == TaskInstanceState.AWAITING_INPUT):
                if (question := (detail.ti_id, detail.created_at)) not in self.seen:
                    self.seen.add(question)
                    self.asked.append((detail.subject, detail.body or ""))
                    self.first()
                answer = self.answers(detail.subject)
                if not answer:
                    let_pass(detail, session)
                    continue
                detail.chosen_options, detail.responded_at = [answer], datetime.now(UTC)
                detail.responded_by = {"id": self.NAME, "name": self.NAME}
                event = TriggerEvent(detail.as_resume_event_payload())  # type: ignore[no-untyped-call]
                handle_event_submit(event, task_instance=detail.task_instance, session=session)


def let_pass(detail: Any, session: Any) -> None:
    """Puts the end of the time to the past, and lets the scheduler's own sweep see it."""
    from types import SimpleNamespace

    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner

    detail.task_instance.trigger_timeout = datetime.now(UTC) - timedelta(seconds=1)
    session.flush()
    log = SimpleNamespace(info=print)
    SchedulerJobRunner.check_awaiting_input_timeouts(SimpleNamespace(log=log), session=session)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server(jar_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("spark"), jars=jar_folder, conf=SMALL_SERVER) as server:
        yield server


@pytest.fixture
def stage(mariadb: MariaDBServer, tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch, server: ConnectServer) -> Stage:
    stage = Stage(server=mariadb, folder=tmp_path, patch=monkeypatch)
    stage.set_up(execution="fused")
    file = tmp_path / "pipelines" / "shop.yaml"
    text = file.read_text().replace(SPARK, f"spark: {{connect: '{server.url}'}}\n")
    approve = "airflow: {approve: {decisions: [deletes], users: [ann, ben], timeout: 1h}, "
    file.write_text(text.replace("airflow: {", approve))
    return stage


def run_with(stage: Stage, person: Person, conf: dict[str, Any]) -> Run:
    with person.at_work():
        return stage.run(conf)


def lake(stage: Stage, server: ConnectServer, table: str, columns: str = "id") -> list[tuple[Any, ...]]:
    session = open_session("test", SparkConfig(connect=server.url))
    try:
        rows = session.read.format("delta").load(f"{stage.folder}/lake/{table.replace('.', '/')}")
        return [tuple(row) for row in rows.select(*columns.split(", ")).orderBy("id").collect()]
    finally:
        close_session(session)


@pytest.mark.long
def test_deletes_above_the_limit_wait_for_a_person_one_question_for_each_table(stage: Stage, server: ConnectServer) -> None:
    assert stage.run().tasks["approved.approve"] == "skipped"
    before, rows = stage.watermarks(), {name: lake(stage, server, name) for name in (SALES, LINES)}
    stage.sql("DELETE FROM sales WHERE id > 30", "DELETE FROM order_lines WHERE id > 20")

    never = left_open(stage, LINES, "a run that Airflow does not have")
    nobody = Person(answers=lambda title: "" if "sales" in title else "Reject")
    refused = run_with(stage, nobody, RECONCILE)
    assert (refused.state, stage.statuses(refused)) == ("failed", {SALES: "failed", LINES: "failed"})
    assert sorted(title for title, _ in nobody.asked) == [f"{LINES}: delete 30 of 50 rows?", f"{SALES}: delete 70 of 100 rows?"]
    assert all("max_delete_ratio is" in body and "cdc-ops " not in body for _, body in nobody.asked), "the cause, and no command"
    assert {name: lake(stage, server, name) for name in (SALES, LINES)} == rows
    [line] = [line for line in stage.ledger.table_runs("shop", run_id=refused.id) if str(line.table) == SALES]
    assert line.messages.message.startswith(f"The comparison would delete 70 of 100 rows of {SALES}")
    assert answers(stage, refused) == {SALES: (ApprovalStatus.TIMED_OUT, "", None), LINES: (ApprovalStatus.REFUSED, "ann", None)}

    ended = left_open(stage, SALES, refused.id)  # as by `run_timeout`: its last task, which withdraws questions, did not run
    both = Person(answers=lambda title: "Approve" if "sales" in title else "Reject")
    granted = run_with(stage, both, RECONCILE)
    assert (granted.state, stage.statuses(granted)) == ("failed", {SALES: "committed", LINES: "failed"})
    assert lake(stage, server, SALES) == stage.sql("SELECT id FROM sales ORDER BY id")
    assert lake(stage, server, LINES) == rows[LINES]
    head = read_head(str(stage.folder / "lake" / "shop" / "sales"), "shop", TableName.parse(SALES))
    assert head is not None
    assert head.record is not None
    assert head.record.approval is not None
    assert (head.record.approval.who, head.record.approval.asked.deletes) == ("ann", 70)
    assert answers(stage, granted)[SALES] == (ApprovalStatus.GRANTED, "ann", head.record.op_seq)

    lost = {one.approval_id: one.status for one in stage.ledger.approvals("shop") if one.approval_id in (never, ended)}
    assert lost == dict.fromkeys((never, ended), ApprovalStatus.WITHDRAWN), "and their tables were asked about all the same"

    alone = run_with(stage, Person(answers=lambda _: "Approve"), RECONCILE)
    assert (alone.state, stage.statuses(alone)) == ("success", {SALES: "idle", LINES: "committed"})
    assert lake(stage, server, LINES) == stage.sql("SELECT id FROM order_lines ORDER BY id")
    assert stage.watermarks() == before
    stage.sql("INSERT INTO sales (id, name) VALUES (900, 'new')")
    assert stage.run().state == "success"
    assert lake(stage, server, SALES) == stage.sql("SELECT id FROM sales ORDER BY id")


def test_an_approval_lets_through_what_was_asked_and_not_one_row_more(stage: Stage, server: ConnectServer) -> None:
    stage.run()
    rows = lake(stage, server, SALES)
    stage.sql("DELETE FROM sales WHERE id > 30")
    person = Person(answers=lambda _: "Approve", first=lambda: stage.sql("DELETE FROM sales WHERE id = 30"))
    run = run_with(stage, person, RECONCILE)
    assert (run.state, stage.statuses(run)[SALES]) == ("failed", "failed")
    [line] = [line for line in stage.ledger.table_runs("shop", run_id=run.id) if str(line.table) == SALES]
    assert "would delete 71 of 100 rows" in line.messages.message
    assert "70 deletes of 100 rows were approved" in line.messages.message
    assert lake(stage, server, SALES) == rows
    assert len(person.asked) == 1


@pytest.mark.long
def test_a_refusal_is_remembered_by_scheduled_runs_until_other_rows_would_go_and_receivers_hear_of_each_question_once(
    stage: Stage, server: ConnectServer
) -> None:
    with webhook() as hook:
        stage.patch.setenv("AIRFLOW_CONN_ON_CALL_HOOK", hook.url)
        file = stage.folder / "pipelines" / "shop.yaml"
        file.write_text(f"{file.read_text()}notify:\n{HOOK}\n")
        stage.run()
        rows = lake(stage, server, SALES)
        stage.sql("DELETE FROM sales WHERE id > 30")
        refused = run_with(stage, Person(answers=lambda _: "Reject"), RECONCILE)
        assert (refused.state, stage.statuses(refused)[SALES]) == ("failed", "failed")
        question, deletes, over = hook.take()
        assert [(one["kind"], one["change"]) for one in (question, deletes, over)] == [
            ("approval", "new"), ("deletes", "new"), ("approval", "over"),
        ]  # fmt: skip
        assert "delete 70 of 100 rows?" in question["text"]
        assert "ann and ben" in question["text"]

        with scheduled(stage):
            nobody = Person(answers=lambda _: "Reject")
            again = run_with(stage, nobody, RECONCILE)
            assert (again.state, nobody.asked, stage.statuses(again)[SALES]) == ("success", [], "failed")
            assert "failed" not in again.tasks.values(), "nobody is called by a red task, either"
            assert hook.take() == []
            stage.sql("DELETE FROM sales WHERE id = 30", "INSERT INTO sales (id, name) VALUES (31, 'back')")
            other = Person(answers=lambda _: "Approve")
            granted = run_with(stage, other, RECONCILE)
            assert [title for title, _ in other.asked] == [f"{SALES}: delete 70 of 100 rows?"], "as many rows, but others"
            assert (granted.state, stage.statuses(granted)[SALES]) == ("success", "committed")
        assert [(one["kind"], one["change"]) for one in hook.take()] == [("approval", "new"), ("approval", "over"), ("deletes", "over")]
        assert lake(stage, server, SALES) == stage.sql("SELECT id FROM sales ORDER BY id") != rows


@contextmanager
def scheduled(stage: Stage) -> Iterator[None]:
    """Lets the tasks of a run see one of the schedule, which `dag.test()` does not make."""
    with stage.patch.context() as patch:
        patch.setattr("cdc_ops.airflow.task_context.run_facts", lambda context: replace(run_facts(context), run_type="scheduled"))
        yield


ARCHIVE = """
archive:
  url: {folder}/archive/{{schema}}.{{table}}
  format: debezium-mysql
  min_file_age: 0s
  accept_losses: [schemas.enable=false]
  settings:
    decimal.handling.mode: string
    skipped.operations: none
    event.converting.failure.handling.mode: fail
    enable.time.adjuster: "false"
    converter.replace.null.with.default: "false"
    schemas.enable: "false"
    time.precision.mode: adaptive_time_microseconds
    binary.handling.mode: bytes
"""
TABLES = """tables:
  shop.sales: {max_cost: {rows: 120}}
  shop.order_lines: {}
  shop.items: {method: log, cursor: []}
  shop.others: {method: log, cursor: []}
"""


def write_events(folder: Path, table: str, *numbers: int) -> None:
    """A file for each number, whose only event creates the row of that number, as Kafka Connect's sink names it."""
    place = folder / "archive" / f"shop.{table}" / "partition=0"
    place.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        source = {"db": "shop", "table": table, "file": "bin.000003", "pos": number, "row": 0, "ts_ms": 1700000000000, "snapshot": "false"}
        event = {"op": "c", "before": None, "after": {"id": number, "name": "a"}, "source": source, "ts_ms": 1700000000000}
        (place / f"shop.{table}+0+{number:010}.json").write_text(json.dumps(event) + "\n")


@pytest.mark.long
def test_a_gap_a_cost_and_a_change_of_columns_go_on_by_the_decision_of_a_person(stage: Stage, server: ConnectServer) -> None:
    file = stage.folder / "pipelines" / "shop.yaml"
    text = file.read_text().replace("decisions: [deletes]", "decisions: [cost, gap, columns]")
    file.write_text(text[: text.index("tables:\n")] + TABLES + ARCHIVE.format(folder=stage.folder))
    for table in ("items", "others"):
        stage.sql(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} (id INT PRIMARY KEY, name VARCHAR(20))")
        write_events(stage.folder, table, 0, 2)

    first = Person(answers=lambda title: "Approve" if "items" in title else "Reject")
    run = run_with(stage, first, {})
    words = "go on without the events of 1 gap in the archive?"
    assert sorted(title for title, _ in first.asked) == [f"shop.items: {words}", f"shop.others: {words}"]
    assert all("1 up to, not including, 2" in body for _, body in first.asked)
    assert run.state == "failed", "others waits at its gap, as without the question"
    assert (lake(stage, server, "shop.items"), lake(stage, server, "shop.others")) == ([(0,), (2,)], [(0,)])
    [decision] = stage.ledger.table_state("shop", TableName.parse("shop.items")).progress.archive.accepted  # type: ignore[union-attr]
    assert (decision.who, decision.why) == ("ann", f"approved in run {run.id}")

    before = stage.watermarks()
    stage.sql(
        "INSERT INTO sales (id, name) SELECT seq, 'new' FROM seq_1001_to_1150",
        "ALTER TABLE order_lines MODIFY n VARCHAR(20)",
        "UPDATE order_lines SET n = CONCAT('x', id)",
    )
    every = Person(answers=lambda title: "Reject" if "sales" in title else "Approve")
    run = run_with(stage, every, {})
    assert sorted(title.partition(":")[0] for title, _ in every.asked) == [LINES, "shop.others", SALES]
    assert stage.statuses(run) == {SALES: "failed", LINES: "committed", "shop.items": "idle", "shop.others": "committed"}
    assert lake(stage, server, "shop.others") == [(0,), (2,)]
    assert lake(stage, server, LINES, "id, n") == stage.sql("SELECT id, n FROM order_lines ORDER BY id")
    assert stage.watermarks() == before, "a full resync moves no watermark"
    last = Person(answers=lambda _: "Approve")
    run = run_with(stage, last, {})
    assert (run.state, stage.statuses(run)[SALES]) == ("success", "committed")
    assert [title for title, _ in last.asked] == [title for title, _ in every.asked if "sales" in title]
    assert lake(stage, server, SALES) == stage.sql("SELECT id FROM sales ORDER BY id")
    assert all(stage.watermarks()[name] > before[name] for name in (SALES, LINES))


def left_open(stage: Stage, table: str, run_id: str) -> str:
    """Writes a question into the ledger that a run has asked and nobody answers; returns its id."""
    with open_store(f"sqlite:///{stage.folder}/ledger.db") as store:
        now, name = store.now(), f"left in {table}"
        asked = Asked(decision=Decision.DELETES, deletes=1, rows=2)
        place = {"pipeline": "shop", "table": TableName.parse(table), "run_id": run_id, "users": ("ann", "ben")}
        times = {"asked_at": now, "expires_at": now + timedelta(hours=1)}
        store.ask_approval(ApprovalRecord(approval_id=name, asked=asked, text="", **place, **times))  # type: ignore[arg-type]
    return name


def answers(stage: Stage, run: Run) -> dict[str, tuple[ApprovalStatus, str, int | None]]:
    """How the questions of a run were answered, by table: status, who, and the number of the operation that the answer let through."""
    found = stage.ledger.approvals("shop", run_id=run.id)
    assert all(record.users == ("ann", "ben") for record in found)
    return {record.subject: (record.status, record.who, record.op_seq) for record in found}
