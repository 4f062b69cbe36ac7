"""The tasks that ask and wait, alone, against a real ledger: which question they show, until when, and what comes of an answer."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput
from markdown_it import MarkdownIt

from cdc_ops.airflow.approvals import CdcApprovalOperator, body_of, ended_runs
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus, Asked, Decision
from cdc_ops.core.pipeline.airflow_settings import AirflowSettings, ApproveSettings
from cdc_ops.core.pipeline.pipeline import Pipeline, TableRule
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.sql import SqlStateStore, open_store
from tests.alert_case import write_file

ORDERS = TableName(schema="shop", name="orders")
ANN = {"responded_by_user": {"id": "ann", "name": "ann"}}
YES, NO = ({"chosen_options": [word], **ANN} for word in ("Approve", "Reject"))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStateStore]:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path}/ledger.db")
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    settings = ApproveSettings(decisions=(Decision.DELETES,), timeout=timedelta(hours=9))
    return replace(load_pipeline(write_file(tmp_path, "  {}") / "shop.yaml"), airflow=AirflowSettings(approve=settings))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Titles of the questions that Airflow was given."""
    titles: list[str] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **told: titles.append(told["subject"]))
    return titles


def task(pipeline: Pipeline) -> CdcApprovalOperator:
    return CdcApprovalOperator(task_id="approve", pipeline=pipeline, tables=["shop.orders"])


def surroundings() -> Any:
    instance = SimpleNamespace(task_id="approved.approve", map_index=0, try_number=1, id="some")
    run = SimpleNamespace(dag_id="cdc_shop", run_id="r1", run_type="manual", conf={})
    return {"ti": instance, "task_instance": instance, "dag_run": run}


def question(store: SqlStateStore, name: str, *, left: timedelta = timedelta(minutes=10), deletes: int = 70) -> ApprovalRecord:
    now, asked = store.now(), Asked(decision=Decision.DELETES, deletes=deletes, rows=100)
    later = now + timedelta(microseconds=len(store.approvals()))
    place = {"pipeline": "shop", "table": ORDERS, "run_id": "r1"}
    record = ApprovalRecord(approval_id=name, asked=asked, text="70 rows", asked_at=later, expires_at=now + left, **place)  # type: ignore[arg-type]
    store.ask_approval(record)
    return record


def status_of(store: SqlStateStore, name: str) -> tuple[ApprovalStatus, str]:
    [found] = [(record.status, record.who) for record in store.approvals() if record.approval_id == name]
    return found


def test_a_question_is_open_in_airflow_only_as_long_as_in_the_ledger(store: SqlStateStore, pipeline: Pipeline, shown: list[str]) -> None:
    question(store, "q1")
    with pytest.raises(TaskAwaitingInput) as parked:
        task(pipeline).execute(surroundings())
    assert timedelta(0) < parked.value.timeout <= timedelta(minutes=10), "and not the nine hours of the pipeline from now on"
    assert shown == ["shop.orders: delete 70 of 100 rows?"]


def test_a_question_whose_time_is_over_is_not_shown_any_more(store: SqlStateStore, pipeline: Pipeline, shown: list[str]) -> None:
    question(store, "q1", left=timedelta(0))
    with pytest.raises(AirflowSkipException, match="Timed out"):
        task(pipeline).execute(surroundings())
    assert (shown, status_of(store, "q1")) == ([], (ApprovalStatus.TIMED_OUT, ""))


@pytest.mark.parametrize(("event", "words"), [(YES, "granted"), (NO, "refused")])
def test_an_answer_that_comes_too_late_counts_as_none_and_the_log_says_so(
    store: SqlStateStore, pipeline: Pipeline, event: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    question(store, "q1", left=timedelta(0))
    with caplog.at_level(logging.WARNING), pytest.raises(AirflowSkipException, match="Timed out"):
        task(pipeline).execute_complete(surroundings(), event, approval_id="q1")
    assert status_of(store, "q1") == (ApprovalStatus.TIMED_OUT, "")
    assert f"the answer of ann ({words}) came after" in caplog.text


def test_an_answer_is_of_the_question_that_was_shown_and_of_no_newer_one(
    store: SqlStateStore, pipeline: Pipeline, shown: list[str]
) -> None:
    question(store, "q1")
    with pytest.raises(TaskAwaitingInput) as parked:
        task(pipeline).execute(surroundings())
    store.answer_approval("q1", ApprovalStatus.WITHDRAWN)
    question(store, "q2", deletes=99)
    with pytest.raises(AirflowSkipException, match="Withdrawn"):
        task(pipeline).execute_complete(surroundings(), YES, **(parked.value.kwargs or {}))
    assert status_of(store, "q2") == (ApprovalStatus.ASKED, ""), "nobody has granted 99 rows"
    assert len(shown) == 1
    task(pipeline).execute_complete(surroundings(), YES, approval_id="q2")
    assert status_of(store, "q2") == (ApprovalStatus.GRANTED, "ann")


@pytest.mark.parametrize("left", [(), (TableRule(pattern="shop.orders", settings=TableSettings(), exclude=True),)])
def test_a_table_that_was_removed_after_the_question_ends_the_second_try_with_its_name(
    store: SqlStateStore, pipeline: Pipeline, left: tuple[TableRule, ...]
) -> None:
    question(store, "q1")
    smaller = replace(pipeline, tables=left)
    with pytest.raises(AirflowFailException, match=r"no longer has the table shop\.orders"):
        task(smaller).execute(surroundings())
    with pytest.raises(AirflowFailException, match=r"no longer has the table shop\.orders"):
        task(smaller).execute_complete(surroundings(), YES, approval_id="q1")
    assert status_of(store, "q1") == (ApprovalStatus.ASKED, "")


@pytest.mark.parametrize(
    "text",
    [
        "70 rows",
        "70 rows\n  why:  gone\n  next: Look. If so:\n        cdc-ops reconcile",
        *("keys `a`", "`a`", "keys ``` **x**", "`````", "# a\r\n\r\n- b", "~~~\n<b>c</b>\n***", "a\\", "a | b\n---|---\n``` | d"),
    ],
)
def test_a_question_shows_its_text_line_by_line_whatever_values_of_rows_are_in_it(text: str) -> None:
    place = {"approval_id": "q", "pipeline": "shop", "table": ORDERS, "run_id": "r1", "asked": Asked(decision=Decision.COLUMNS)}
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    record = ApprovalRecord(text=text, asked_at=noon, expires_at=noon, **place)  # type: ignore[arg-type]
    first, *others = [token for token in MarkdownIt("gfm-like", {"linkify": False}).parse(body_of(record)) if token.type == "inline"]
    assert [part.content for part in first.children or () if part.type != "hardbreak"] == [
        line.strip() for line in text.partition("\n  next:")[0].split("\n") if line.strip()
    ]
    assert {part.type for part in first.children or ()} <= {"code_inline", "hardbreak"}
    assert [token.content.partition(":")[0].partition(",")[0] for token in others] == ["**Approve**", "**Reject**"]


def test_a_run_has_ended_that_neither_dag_of_the_pipeline_has_at_work(pipeline: Pipeline) -> None:
    runs = {("cdc_shop", "a"): "running", ("cdc_shop_reconcile", "b"): "queued", ("cdc_shop", "c"): "failed", ("cdc_shop", "b"): "success"}

    def get_dr_count(*, dag_id: str, run_ids: list[str], states: list[str]) -> int:
        return sum(dag == dag_id and run in run_ids and state in states for (dag, run), state in runs.items())

    has_ended = ended_runs(pipeline, SimpleNamespace(get_dr_count=get_dr_count))
    ids = ("a", "b", "c", "d", "reconcile__b", "reconcile__a")
    assert [name for name in ids if has_ended(name)] == ["b", "c", "d", "reconcile__a"], "ids are unique within a DAG only"
