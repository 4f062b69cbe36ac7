"""Questions of refused tables: which a run asks, how an answer reaches the second try, and where people see them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus, Asked, Decision, asked_by, asks, is_same_question
from cdc_ops.core.archive.completeness import gap_error
from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.core.operation.run_request import Accepts, AskedComparison, ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.airflow_settings import AirflowSettings, ApproveSettings
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.core.run_cost import UNKNOWN, CostBasis, MaxCost, PlannedCost, RunCost, figure
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, CostRefusedError, DeletesRefusedError, NullKeyError, SchemaChangedError, from_payload
from cdc_ops.state.sql import SqlStateStore, open_reader, open_store
from cdc_ops.steps.approvals import answer, approved_request, ask, not_refused_before, question_of, refusal_of, refused_text, withdraw
from cdc_ops.steps.context import Context
from cdc_ops.steps.cost import check_table_cost
from cdc_ops.steps.runs.table_groups import record_failure
from cdc_ops.web.app import create_app
from tests.alert_case import write_file

ORDERS, ITEMS, QUIET = (TableName(schema="shop", name=name) for name in ("orders", "items", "quiet"))
ASKED = Asked(decision=Decision.DELETES, deletes=70, rows=100)
REFUSED = DeletesRefusedError("The comparison would delete 70 of 100 rows.", next="--accept-deletes 77%").asking(asks(ASKED))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStateStore]:
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


@pytest.fixture
def context(store: SqlStateStore, tmp_path: Path) -> Context:
    from cdc_ops.config.loading import load_pipeline

    pipeline: Pipeline = load_pipeline(write_file(tmp_path, "  {}") / "shop.yaml")
    settings = ApproveSettings(decisions=(Decision.DELETES,), users=("ann", "ben"), timeout=timedelta(hours=2))
    return Context(pipeline=replace(pipeline, airflow=AirflowSettings(approve=settings)), store=store, connect=None)  # type: ignore[arg-type]


def config(table: TableName) -> TableConfig:
    return TableConfig(pipeline="shop", table=table, settings=TableSettings(), path="/lake/none")


def request(run_id: str) -> RunRequest:
    return RunRequest(run_id=run_id, trigger="manual", holder=run_id, kind=RunKind.RECONCILE)


def refuse(context: Context, run_id: str, *tables: TableName) -> tuple[ApprovalRecord, ...]:
    """The questions of a run whose tables were refused."""
    for table in tables:
        record_failure(context, request(run_id), config(table), REFUSED)
    return ask(context, request(run_id), tuple(map(config, tables)))


def test_what_is_asked_travels_with_the_error_from_spark() -> None:
    assert asked_by(from_payload(REFUSED.to_payload())) == ASKED
    assert asked_by(from_payload(NullKeyError("no key").to_payload())) is None
    assert asked_by(None) is None


def test_each_refused_table_has_a_question_of_its_own_and_others_have_none(context: Context, store: SqlStateStore) -> None:
    record_failure(context, request("r1"), config(QUIET), NullKeyError("no key"))
    questions = refuse(context, "r1", ORDERS, ITEMS)
    assert [str(one.table) for one in questions] == ["shop.orders", "shop.items"]
    assert {(one.asked, one.users, one.expires_at - one.asked_at) for one in questions} == {(ASKED, ("ann", "ben"), timedelta(hours=2))}
    assert "--accept-deletes 77%" in questions[0].text
    assert ask(context, request("r1"), (config(ORDERS), config(ITEMS), config(QUIET))) == questions, "a task that is tried again asks once"
    assert len(store.approvals("shop")) == 2


def test_nothing_is_asked_that_the_pipeline_does_not_name(context: Context, store: SqlStateStore) -> None:
    silent = replace(context, pipeline=replace(context.pipeline, airflow=AirflowSettings()))
    assert refuse(silent, "r1", ORDERS) == ()
    assert store.approvals() == ()


def test_later_runs_ask_again_only_when_the_question_is_answered_or_too_old(context: Context, store: SqlStateStore) -> None:
    [first] = refuse(context, "r1", ORDERS)
    assert refuse(context, "r2", ORDERS) == ()
    assert len(refuse(context, "r2", ITEMS)) == 1
    answer(store, first, ApprovalStatus.REFUSED, "ann")
    [again] = refuse(context, "r3", ORDERS)
    assert again.run_id == "r3"
    short = replace(context.pipeline.airflow.approve, timeout=timedelta(0))
    assert refuse(replace(context, pipeline=replace(context.pipeline, airflow=AirflowSettings(approve=short))), "r4", QUIET)
    assert refuse(context, "r5", QUIET), "nobody answers a question whose time is over"


def test_what_a_run_that_has_ended_still_asks_is_withdrawn_and_its_tables_are_asked_about_again(
    context: Context, store: SqlStateStore
) -> None:
    refuse(context, "lost", ORDERS, ITEMS)
    refuse(context, "waits", QUIET)
    record_failure(context, request("r2"), config(ORDERS), REFUSED)
    record_failure(context, request("r2"), config(QUIET), REFUSED)
    looked: list[str] = []

    def has_ended(run_id: str) -> bool:
        looked.append(run_id)
        return run_id == "lost"

    [again] = ask(context, request("r2"), (config(ORDERS), config(QUIET)), has_ended=has_ended)
    assert (again.subject, again.run_id) == ("shop.orders", "r2")
    assert sorted(looked) == ["lost", "waits"], "each run is looked up once, and this one is at work"
    assert {(one.run_id, one.subject): one.status for one in store.approvals("shop")} == {
        ("lost", "shop.orders"): ApprovalStatus.WITHDRAWN,
        ("lost", "shop.items"): ApprovalStatus.WITHDRAWN,
        ("waits", "shop.quiet"): ApprovalStatus.ASKED,
        ("r2", "shop.orders"): ApprovalStatus.ASKED,
    }


def test_however_many_tables_an_ended_run_has_asked_about_all_its_questions_are_withdrawn(context: Context, store: SqlStateStore) -> None:
    [first] = refuse(context, "lost", ORDERS)
    for number in range(205):
        place = {"approval_id": f"q{number}", "table": TableName(schema="shop", name=f"t{number}")}
        store.ask_approval(replace(first, asked_at=first.asked_at + timedelta(seconds=1), **place))  # type: ignore[arg-type]
    assert refuse(context, "r2", QUIET), "without a look at Airflow, all runs count as at work"
    assert len(store.approvals("shop", status=ApprovalStatus.ASKED, limit=999)) == 207
    assert ask(context, request("r2"), (config(QUIET),), has_ended=lambda run_id: run_id == "lost")
    assert [one.run_id for one in store.approvals("shop", status=ApprovalStatus.ASKED, limit=999)] == ["r2"]


def test_a_question_of_an_earlier_try_is_replaced_when_the_table_is_refused_otherwise(context: Context, store: SqlStateStore) -> None:
    old, quiet = refuse(context, "r1", ORDERS, QUIET)
    more = replace(ASKED, deletes=80)
    record_failure(context, request("r1"), config(ORDERS), DeletesRefusedError("It would delete 80 of 100 rows.").asking(asks(more)))
    record_failure(context, request("r1"), config(QUIET), NullKeyError("no key"))
    [new] = ask(context, request("r1"), (config(ORDERS), config(QUIET)))
    assert (new.asked, "80 of 100" in new.text) == (more, True)
    assert question_of(store, "shop", ORDERS, "r1") == new, "the newest of them is what the run asks"
    for gone in (old, quiet):
        assert answer(store, gone, ApprovalStatus.GRANTED, "ann").status is ApprovalStatus.WITHDRAWN
    assert ask(context, request("r1"), (config(ORDERS), config(QUIET))) == (new,)


def test_only_a_grant_of_its_own_run_reaches_the_second_try_of_a_table(context: Context, store: SqlStateStore) -> None:
    orders, items, quiet = refuse(context, "r1", ORDERS, ITEMS, QUIET)
    answer(store, orders, ApprovalStatus.GRANTED, "ann")
    answer(store, items, ApprovalStatus.REFUSED, "ben")
    answer(store, quiet, ApprovalStatus.TIMED_OUT, "")
    granted = approved_request(store, request("r1"), config(ORDERS))
    assert granted.accepts.approval is not None
    assert (granted.accepts.approval.who, granted.accepts.approved_deletes, granted.accepts.deletes) == ("ann", 70, 0)
    for run_id, table in (("r2", ORDERS), ("r1", ITEMS), ("r1", QUIET)):
        assert approved_request(store, request(run_id), config(table)).accepts.approval is None


def test_a_change_of_columns_that_nobody_has_granted_starts_no_full_resync(context: Context, store: SqlStateStore) -> None:
    settings = replace(context.pipeline.airflow.approve, decisions=(Decision.COLUMNS,))
    here = replace(context, pipeline=replace(context.pipeline, airflow=AirflowSettings(approve=settings)))
    tables, first = (ORDERS, ITEMS, QUIET), request("r1")
    for table in tables:
        record_failure(here, first, config(table), SchemaChangedError("It stops.").asking(asks(Asked(decision=Decision.COLUMNS))))
    refused, late, waits = ask(here, first, tuple(map(config, tables)))
    answer(store, refused, ApprovalStatus.REFUSED, "ben")
    answer(store, late, ApprovalStatus.TIMED_OUT, "")
    assert [approved_request(store, first, config(table)) for table in tables] == [first] * 3
    answer(store, waits, ApprovalStatus.GRANTED, "ann")
    assert [approved_request(store, first, config(table)).mode for table in tables] == [None, None, ResyncMode.FULL]


def test_a_run_that_ends_withdraws_what_nobody_has_answered(context: Context, store: SqlStateStore) -> None:
    orders, _ = refuse(context, "r1", ORDERS, ITEMS)
    answer(store, orders, ApprovalStatus.GRANTED, "ann")
    assert {one.subject: one.status for one in withdraw(store, "shop", "r1")} == {
        "shop.orders": ApprovalStatus.GRANTED,
        "shop.items": ApprovalStatus.WITHDRAWN,
    }
    late = question_of(store, "shop", ITEMS, "r1")
    assert late is not None
    assert answer(store, late, ApprovalStatus.GRANTED, "ann").status is ApprovalStatus.WITHDRAWN
    assert refuse(context, "r2", ITEMS)


def test_status_and_the_page_of_a_table_show_questions_and_answers(
    context: Context, store: SqlStateStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, _ = refuse(context, "r1", ORDERS, ITEMS)
    answer(store, orders, ApprovalStatus.REFUSED, "<ann>")
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path}/ledger.db")
    shown = " ".join(CliRunner().invoke(app, ["status"]).output.split())
    assert "shop.items: run r1 waits for an answer of ann, ben in Airflow, until" in shown
    assert "delete 70 of 100 rows?" in shown
    assert "shop.orders: run r1" not in shown, "it is answered"
    told = {item["state"]["table"]["name"]: item["approvals"] for item in json.loads(CliRunner().invoke(app, ["status", "--json"]).output)}
    assert [(one["status"], one["who"]) for one in told["orders"]] == [("refused", "<ann>")]
    assert [(one["status"], one["asked"]["deletes"], one["users"]) for one in told["items"]] == [("asked", 70, ["ann", "ben"])]
    client = TestClient(create_app(lambda: open_reader(f"sqlite:///{tmp_path}/ledger.db")))
    page = client.get("/table?pipeline=shop&name=shop.orders").text
    assert "delete 70 of 100 rows: refused by &lt;ann&gt; at " in page
    assert "waits for an answer of ann, ben" in client.get("/table?pipeline=shop&name=shop.items").text


def test_a_granted_cost_lets_through_a_tenth_more_and_nothing_beyond(store: SqlStateStore, context: Context) -> None:
    table = TableConfig(pipeline="shop", table=ORDERS, settings=TableSettings.of(max_cost=MaxCost(rows=100)), path="/lake/none")
    with pytest.raises(CostRefusedError) as caught:
        check_table_cost(context, request("r1"), table, cost_of(1_000))
    record_failure(context, request("r1"), table, caught.value)
    settings = replace(context.pipeline.airflow.approve, decisions=(Decision.COST,))
    here = replace(context, pipeline=replace(context.pipeline, airflow=AirflowSettings(approve=settings)))
    [question] = ask(here, request("r1"), (table,))
    assert question.asked.words.startswith("begin what costs 1,000 rows")
    assert question.asked.words.endswith("with no upper bound on written bytes and time")
    answer(store, question, ApprovalStatus.GRANTED, "ann")
    granted = approved_request(store, request("r1"), table)
    check_table_cost(context, granted, table, cost_of(1_100))
    with pytest.raises(CostRefusedError, match="above its limit"):
        check_table_cost(context, granted, table, cost_of(1_101))


@pytest.mark.parametrize(
    ("known", "at_least", "unbounded"),
    [
        (3, (), ""),
        (3, (2,), ", with no upper bound on time"),
        (3, (0, 2), ", with no upper bound on rows and time"),
        (1, (0,), ", with no upper bound on rows, written bytes and time"),
    ],
)
def test_a_question_about_a_cost_says_which_of_its_figures_bound_nothing(known: int, at_least: tuple[int, ...], unbounded: str) -> None:
    figures = [figure(180, CostBasis.RUNS, at_least=number in at_least) if number < known else UNKNOWN for number in range(3)]
    words = Asked(decision=Decision.COST, cost=RunCost(rows=figures[0], written_bytes=figures[1], seconds=figures[2])).words
    assert words.endswith(f"connections to the source{unbounded}")


def cost_of(rows: int) -> PlannedCost:
    cost = RunCost(rows=figure(rows, CostBasis.COUNTED))
    return PlannedCost(all=cost, new=cost)


def test_a_granted_change_of_columns_is_a_full_resync_of_that_table_and_a_granted_gap_is_accepted_for_that_table_only(
    store: SqlStateStore, context: Context
) -> None:
    gap = Gap(stream="t/0", low=(10,), high=(20,))
    for table in (ORDERS, ITEMS):
        store.report_gaps(store.acquire("shop", table, "a", ttl=timedelta(minutes=1), live=True), [gap])
    settings = replace(context.pipeline.airflow.approve, decisions=(Decision.GAP, Decision.COLUMNS))
    here = replace(context, pipeline=replace(context.pipeline, airflow=AirflowSettings(approve=settings)))
    record_failure(context, request("r1"), config(ORDERS), gap_error("shop.orders", (gap,), ()))
    changed = SchemaChangedError("Table shop.quiet changed.").asking(asks(Asked(decision=Decision.COLUMNS)))
    record_failure(context, request("r1"), config(QUIET), changed)
    for question in ask(here, request("r1"), (config(ORDERS), config(QUIET))):
        for _ in range(2):  # a task that is tried again
            answer(store, question, ApprovalStatus.GRANTED, "ann")
    assert {str(one.table): (one.status.value, one.decision and one.decision.who) for one in store.archive_gaps("shop")} == {
        "shop.orders": ("accepted", "ann"),
        "shop.items": ("open", None),
    }
    assert approved_request(store, request("r1"), config(ORDERS)).kind is RunKind.RECONCILE
    again = approved_request(store, request("r1"), config(QUIET))
    assert (again.kind, again.mode, again.tables, again.run_id) == (RunKind.RESYNC, ResyncMode.FULL, ("shop.quiet",), "r1")


def test_the_second_try_has_the_options_of_the_first_also_where_all_rows_are_read_again(context: Context, store: SqlStateStore) -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    first = replace(
        request("r1"),
        kind=RunKind.BACKFILL,
        since=noon,
        until=noon + timedelta(hours=1),
        columns=("n",),
        tables=("shop.orders", "shop.quiet"),
        accepts=Accepts(cost=True),
        silent=True,
        dry_run=True,
    ).checked()
    settings = replace(context.pipeline.airflow.approve, decisions=(Decision.GAP, Decision.COLUMNS))
    here = replace(context, pipeline=replace(context.pipeline, airflow=AirflowSettings(approve=settings)))
    for table, decision in ((ORDERS, Decision.GAP), (QUIET, Decision.COLUMNS)):
        record_failure(here, first, config(table), SchemaChangedError("It stops.").asking(asks(Asked(decision=decision))))
    for question in ask(here, first, (config(ORDERS), config(QUIET))):
        answer(store, question, ApprovalStatus.GRANTED, "ann")
    second = approved_request(store, first, config(ORDERS))
    assert replace(second, accepts=replace(second.accepts, approval=None)) == first
    full = approved_request(store, first, config(QUIET))
    assert (full.kind, full.mode, full.since, full.until, full.columns) == (RunKind.RESYNC, ResyncMode.FULL, None, None, ())
    kept = ("run_id", "trigger", "holder", "silent", "dry_run")
    assert [getattr(full, name) for name in kept] == [getattr(first, name) for name in kept]
    assert full.accepts == replace(second.accepts, approval=full.accepts.approval)
    accepting = replace(request("r1"), kind=RunKind.INCREMENT, accepts=Accepts(server=True)).checked()
    assert approved_request(store, accepting, config(ORDERS)).accepts.server
    assert not approved_request(store, accepting, config(QUIET)).accepts.server, "a full resync settles which server it is"
    reconcile = replace(
        request("r1"), compare=AskedComparison(strength=CompareLevel.ROWS), tables=("shop.quiet",), accepts=Accepts(deletes=5)
    ).checked()
    assert approved_request(store, reconcile, config(QUIET)).mode is ResyncMode.FULL


def scheduled(run_id: str) -> RunRequest:
    return RunRequest(run_id=run_id, trigger="scheduled", holder=run_id, kind=RunKind.RECONCILE)


def refused_in(context: Context, run: RunRequest, error: CdcError, table: TableName = ORDERS) -> tuple[ApprovalRecord, ...]:
    """The questions of a run whose table was refused."""
    record_failure(context, run, config(table), error)
    return ask(context, run, (config(table),))


def deleting(keys: str, deletes: int = 70, rows: int = 100) -> CdcError:
    asked = Asked(decision=Decision.DELETES, deletes=deletes, rows=rows, keys=keys)
    return DeletesRefusedError(f"The comparison would delete {deletes} of {rows} rows.", next="cdc-ops reconcile").asking(asks(asked))


def test_what_somebody_has_refused_is_not_asked_again_until_other_rows_would_go_or_somebody_asks(
    context: Context, store: SqlStateStore, caplog: pytest.LogCaptureFixture
) -> None:
    [first] = refused_in(context, scheduled("r1"), deleting("a"))
    answer(store, first, ApprovalStatus.REFUSED, "ann")
    [line] = store.table_runs("shop", run_id="r1")
    assert refusal_of(context, scheduled("r1"), line) is None, "the run that was refused ends with the error"
    assert refused_in(context, scheduled("r2"), deleting("a", rows=105)) == (), "the table has grown; the same rows would go"
    [line] = store.table_runs("shop", run_id="r2")
    refusal = refusal_of(context, scheduled("r2"), line)
    assert refusal == store.approvals("shop", ORDERS)[0]
    assert "refused by ann" in refused_text(refusal)
    assert not_refused_before(context, scheduled("r2"), {"shop.orders": deleting("a")}) == {}
    [told] = caplog.messages
    assert "refused by ann" in told
    others = {"shop.orders": deleting("b"), "shop.items": deleting("a"), "shop.quiet": NullKeyError("no key")}
    assert not_refused_before(context, scheduled("r2"), others) == others
    assert caplog.messages == [told]
    assert refusal_of(context, request("r2"), line) is None, "somebody has asked for the run"
    assert len(refused_in(context, scheduled("r3"), deleting("b"))) == 1
    assert len(refused_in(context, scheduled("r4"), deleting("a"), ITEMS)) == 1
    assert len(refused_in(context, request("r5"), deleting("a"), QUIET)) == 1


def test_nothing_is_remembered_of_what_the_pipeline_does_not_ask_about(
    context: Context, store: SqlStateStore, caplog: pytest.LogCaptureFixture
) -> None:
    [first] = refused_in(context, scheduled("r1"), deleting("a"))
    answer(store, first, ApprovalStatus.REFUSED, "ann")
    asks_nothing = replace(context, pipeline=replace(context.pipeline, airflow=AirflowSettings()))
    errors = {"shop.orders": deleting("a")}
    assert not_refused_before(asks_nothing, scheduled("r2"), errors) == errors
    assert caplog.messages == []


def test_the_last_answer_counts_and_silence_is_none(context: Context, store: SqlStateStore) -> None:
    for number, (status, asked_again) in enumerate(
        (
            (ApprovalStatus.REFUSED, False),
            (ApprovalStatus.TIMED_OUT, False),
            (ApprovalStatus.WITHDRAWN, False),
            (ApprovalStatus.GRANTED, True),
        )
    ):
        [question] = refused_in(context, request(f"by hand {number}"), deleting("a"))
        store.answer_approval(question.approval_id, status, "ann")
        record_failure(context, scheduled(f"s{number}"), config(ORDERS), deleting("a"))
        found = ask(context, scheduled(f"s{number}"), (config(ORDERS),), has_ended=lambda _: True)
        assert bool(found) == asked_again, status


def test_a_refusal_without_a_digest_of_its_rows_covers_no_other_run(context: Context, store: SqlStateStore) -> None:
    [first] = refused_in(context, scheduled("r1"), deleting(""))
    answer(store, first, ApprovalStatus.REFUSED, "ann")
    assert len(refused_in(context, scheduled("r2"), deleting(""))) == 1, "nobody can tell whether these are the same rows"


@pytest.mark.parametrize(
    ("before", "now", "texts", "same"),
    [
        (Asked(decision=Decision.GAP, gaps=("a", "b")), Asked(decision=Decision.GAP, gaps=("a", "b")), ("x", "y"), True),
        (Asked(decision=Decision.GAP, gaps=("a",)), Asked(decision=Decision.GAP, gaps=("a", "b")), ("x", "x"), False),
        (Asked(decision=Decision.COLUMNS), Asked(decision=Decision.COLUMNS), ("column a is gone", "column a is gone"), True),
        (Asked(decision=Decision.COLUMNS), Asked(decision=Decision.COLUMNS), ("column a is gone", "column b is gone"), False),
        (Asked(decision=Decision.COLUMNS), Asked(decision=Decision.GAP), ("x", "x"), False),
        (ASKED, ASKED, ("x", "x"), False),
        (replace(ASKED, keys="1"), replace(ASKED, keys="1"), ("x", "y"), True),
        (replace(ASKED, keys="1"), replace(ASKED, keys="2"), ("x", "x"), False),
        (replace(ASKED, keys="1"), replace(ASKED, keys="1", deletes=71), ("x", "x"), False),
    ],
)
def test_a_question_is_the_same_if_it_is_about_the_same_rows_gaps_or_columns(
    store: SqlStateStore, before: Asked, now: Asked, texts: tuple[str, str], same: bool
) -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    place = {"approval_id": "q", "pipeline": "shop", "table": ORDERS, "run_id": "r1", "asked_at": noon, "expires_at": noon}
    record = ApprovalRecord(asked=before, text=texts[0], **place)  # type: ignore[arg-type]
    assert is_same_question(record, now, texts[1]) == same


def test_a_grant_that_an_earlier_run_is_about_to_use_is_not_asked_for_again(context: Context, store: SqlStateStore) -> None:
    [first] = refused_in(context, scheduled("r1"), deleting("a"))
    answer(store, first, ApprovalStatus.GRANTED, "ann")
    assert refused_in(context, scheduled("r2"), deleting("a")) == ()
    record_failure(context, scheduled("r3"), config(ORDERS), deleting("a"))
    assert len(ask(context, scheduled("r3"), (config(ORDERS),), has_ended=lambda run_id: run_id == "r1")) == 1, "that run is over"
