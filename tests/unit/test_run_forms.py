"""The runs that somebody can ask for of a table: what each form says, what it sends, and that the DAG understands it."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from cdc_ops.airflow.run_conf import DagRunFacts, run_request
from cdc_ops.core.archive.completeness import GapRecord, GapStatus
from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.state.base import TableOverview
from cdc_ops.state.sql import SqlStateStore, open_reader, open_store
from cdc_ops.state.table_run import RunTiming, TableRun, TableRunStatus
from cdc_ops.steps.approvals import accept_gaps
from cdc_ops.web.app import create_app
from cdc_ops.web.run_forms import RunForm, run_forms
from cdc_ops.web.view import PipelineInfo
from tests.status_case import fill_ledger

ORDERS = TableName(schema="shop", name="orders")
NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
STATS = TableStats(delta_version=3, files=4, size_bytes=5 << 20, rows=1_234_567, deleted_rows=567)
TABLE = TableOverview(state=TableState(pipeline="shop", table=ORDERS), stats=STATS, last_run=None, lease=None)
GAP = GapRecord(
    pipeline="shop", table=ORDERS, gap=Gap(stream="orders-0", low=(5,), high=(9,)), status=GapStatus.OPEN, found_at=NOW
)  # fmt: skip
IN_AIRFLOW = {"shop": PipelineInfo(dag_ids=("cdc_shop", "cdc_shop_reconcile"), paused=True)}
ASK = "/ask?pipeline=shop&name=shop.orders"


def line(kind: OperationKind, status: TableRunStatus, minutes: int) -> TableRun:
    timing = RunTiming(started_at=NOW, finished_at=NOW + timedelta(minutes=minutes))
    return TableRun(pipeline="shop", table=ORDERS, run_id="r", trigger="manual", kind=kind, status=status, timing=timing)


def forms(*gaps: GapRecord) -> dict[str, RunForm]:
    runs = (
        line(OperationKind.RESYNC, TableRunStatus.FAILED, 1),
        line(OperationKind.RESYNC, TableRunStatus.COMMITTED, 7),
        line(OperationKind.RECONCILE, TableRunStatus.IDLE, 3),
    )
    return {form.title: form for form in run_forms(TABLE, runs, gaps)}


def facts(form: RunForm, **added: object) -> DagRunFacts:
    """A run with what the form sends."""
    return DagRunFacts(dag_id="cdc_shop", run_id="manual__1", run_type="manual", conf=json.loads(form.conf_text) | added)


def test_what_a_form_sends_is_a_run_that_does_what_the_form_says() -> None:
    found = forms(GAP)
    asked = {title: run_request(facts(form, **({"why": "expired"} if form.asks_why else {}))) for title, form in found.items() if form.conf}
    assert {title: (run.kind, run.mode, run.tables) for title, run in asked.items()} == {
        "Accept the gap": (RunKind.INCREMENT, None, ("shop.orders",)),
        "Resync": (RunKind.RESYNC, ResyncMode.FULL, ("shop.orders",)),
        "Verify and repair": (RunKind.RECONCILE, None, ("shop.orders",)),
    }
    assert (asked["Accept the gap"].accepts.gaps, asked["Accept the gap"].accepts.why) == ((GAP.gap_id,), "expired")
    for title in ("Resync", "Verify and repair"):
        switches = {switch.name: True for switch in found[title].switches}
        run = run_request(facts(found[title], **switches))
        assert (set(switches), run.dry_run, run.accepts.cost) == ({"dry_run", "accept_cost"}, True, True)
    assert found["Verify only"].conf_text == ""


def test_a_form_says_how_large_the_table_is_and_how_long_the_last_such_run_took() -> None:
    found = forms()
    size = "The Delta table has 1,234,000 rows, 5.0 MiB in 4 files."
    assert found["Resync"].cost == f"The source sends the whole table. {size} The last such run, 2026-01-02 12:00:00 UTC, took 7 min."
    assert found["Verify and repair"].cost.endswith("took 3 min.")
    unknown = run_forms(replace(TABLE, stats=None), ())[0]
    assert unknown.cost == "The source sends the whole table."


def test_only_open_gaps_can_be_accepted_and_each_by_its_name() -> None:
    other = replace(GAP, gap=replace(GAP.gap, low=(20,), high=(21,)))
    found = run_forms(TABLE, (), (GAP, replace(GAP, status=GapStatus.ACCEPTED), other))
    assert [form.title for form in found] == ["Accept the gap", "Accept the gap", "Resync", "Verify and repair", "Verify only"]
    assert [form.conf["accept_gaps"] for form in found[:2]] == [[GAP.gap_id], [other.gap_id]]
    assert f"cdc-ops gap accept {GAP.gap_id} --pipeline shop --table shop.orders --why" in found[0].command


def test_rows_of_a_table_without_a_database_can_neither_be_read_again_nor_compared() -> None:
    assert [form.title for form in run_forms(TABLE, (), (GAP,), has_database=False)] == ["Accept the gap"]
    assert run_forms(TABLE, (), has_database=False) == ()


def test_names_are_quoted_in_commands() -> None:
    odd = replace(TABLE, state=replace(TABLE.state, table=TableName(schema="shop", name="my orders; rm")))
    assert all("'shop.my orders; rm'" in form.command for form in run_forms(odd, ()))


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ({"accept_gaps": ["g1"], "tables": ["shop.orders"]}, "by its name and with a reason"),
        ({"accept_gaps": ["g1"], "tables": ["shop.orders"], "why": "  "}, "by its name and with a reason"),
        ({"why": "expired"}, "by its name and with a reason"),
        ({"accept_gaps": ["g1"], "why": "expired"}, "Only an increment of tables that are named"),
        ({"accept_gaps": ["g1"], "tables": ["shop.orders"], "why": "expired", "mode": "full"}, "Only an increment"),
        ({"accept_gaps": ["g1"], "tables": ["shop.orders"], "why": "expired", "mode": "reconcile"}, "Only an increment"),
        ({"accept_gaps": "g1", "tables": ["shop.orders"], "why": "expired"}, "not a list"),
        ({"accept_gaps": ["g1"], "tables": ["shop.orders"], "why": 7}, "why=7 is not text"),
    ],
)
def test_a_gap_is_accepted_only_for_tables_with_a_reason_by_an_increment(conf: dict[str, object], text: str) -> None:
    with pytest.raises(RequestError, match=text):
        run_request(DagRunFacts(dag_id="cdc_shop", run_id="manual__1", run_type="manual", conf=conf))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStateStore]:
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


def note_gap(store: SqlStateStore, *tables: TableName) -> None:
    for table in tables:
        lease = store.acquire("shop", table, "test", ttl=timedelta(minutes=1), live=True)
        store.report_gaps(lease, (GAP.gap,))
        store.release(lease)


def test_a_run_accepts_the_gap_of_its_tables_alone_and_the_ledger_knows_who_has_asked(store: SqlStateStore) -> None:
    items = TableName(schema="shop", name="items")
    note_gap(store, ORDERS, items)
    request = run_request(facts(forms(GAP)["Accept the gap"], why="the topic had expired"))
    for _ in range(2):  # a second try of the task
        [record] = accept_gaps(store, "shop", request, "ann")
        assert (record.table, record.status) == (ORDERS, GapStatus.ACCEPTED)
        assert record.decision is not None
        assert (record.decision.who, record.decision.why) == ("ann", "the topic had expired")
    [other] = store.archive_gaps("shop", items)
    assert other.status is GapStatus.OPEN
    with pytest.raises(RequestError, match="no open gap"):
        accept_gaps(store, "shop", replace(request, accepts=replace(request.accepts, gaps=("other",))), "ann")
    assert accept_gaps(store, "shop", replace(request, accepts=replace(request.accepts, gaps=())), "ann") == ()


def test_the_page_shows_each_form_filled_in_and_changes_nothing_by_itself(tmp_path: Path) -> None:
    url = fill_ledger(tmp_path / "ledger.db")
    with open_store(url) as store:
        note_gap(store, ORDERS)
    client = TestClient(create_app(lambda: open_reader(url), visible_pipelines=lambda: IN_AIRFLOW))
    page = client.get(ASK).text
    sent = [json.loads(html.unescape(text)) for text in re.findall(r'data-conf="(.*?)"', page)]
    assert sent == [
        {"tables": ["shop.orders"], "accept_gaps": [GAP.gap_id]},
        {"mode": "full", "tables": ["shop.orders"]},
        {"mode": "reconcile", "tables": ["shop.orders"]},
    ]
    assert set(re.findall(r'data-runs="(.*?)"', page)) == {"../api/v2/dags/cdc_shop/dagRuns"}
    assert page.count("<button disabled>") == page.count('<input type="checkbox" required>') == 3
    assert "The DAG is paused" in page
    assert '<body data-every="0">' in page, "a form is not changed under the hands of who fills it in"
    assert "method=" not in page
    assert f'href="ask?pipeline=shop&amp;name=shop.orders#gap-{GAP.gap_id}"' in client.get("/table?pipeline=shop&name=shop.orders").text
    assert 'href="ask?pipeline=shop&amp;name=shop.orders"' in client.get("/ui").text
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert client.request(method, ASK).status_code == 405
    for hidden in ("/ask?pipeline=clickstream&name=shop.carts", "/ask?pipeline=shop&name=shop.none", "/ask?pipeline=shop&name=none"):
        assert client.get(hidden).status_code == 404


def test_without_airflow_the_page_shows_commands_in_place_of_forms(tmp_path: Path) -> None:
    url = fill_ledger(tmp_path / "ledger.db")
    client = TestClient(create_app(lambda: open_reader(url)))
    page = client.get(ASK).text
    assert "<form" not in page
    commands = [html.unescape(text) for text in re.findall(r'data-copy="(.*?)"', page)]
    assert commands == [
        "cdc-ops resync --pipeline shop --table shop.orders --mode full",
        "cdc-ops reconcile --pipeline shop --table shop.orders",
        "cdc-ops verify --pipeline shop --table shop.orders",
    ]
    assert all(f"<code>{html.escape(command)}</code>" in page for command in commands)
