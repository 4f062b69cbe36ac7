"""The status page on its own: every state of a table, empty, without a ledger, under a prefix."""

import base64
import hashlib
import html
import re
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import Engine, event

from cdc_ops.core import json_codec
from cdc_ops.core.approvals import ApprovalRecord, Asked, Decision
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import LedgerUnavailableError
from cdc_ops.state.base import StateReader, TableGlance, TableOverview
from cdc_ops.state.sql import open_reader, open_store
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.web import view, words
from cdc_ops.web.app import create_app
from cdc_ops.web.summary import DayOfRows
from cdc_ops.web.view import Health, PipelineInfo
from tests.status_case import ADVICE, ALERT, CHANGE, ERROR, HOLDER, fill_ledger, fill_many

INFOS = {"shop": PipelineInfo(every=timedelta(minutes=10)), "clickstream": PipelineInfo(every=timedelta(hours=1), paused=True)}
ORDERS = "/table?pipeline=shop&name=shop.orders"
SHOWN = [health for health in Health if health is not Health.MISSING]
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> StateReader:
    return open_reader(fill_ledger(tmp_path_factory.mktemp("ledger") / "ledger.db"))


@pytest.fixture
def client(reader: StateReader) -> TestClient:
    return TestClient(create_app(lambda: reader, visible_pipelines=lambda: INFOS))


def tables_of(page: str) -> int:
    """How many tables the overview lists."""
    return page.partition('<table class="tables">')[2].count("<tbody")


class Links(HTMLParser):
    """Collects what a page refers to; forms need their fields."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def test_each_table_shows_the_state_that_it_is_in(reader: StateReader) -> None:
    assert {row.table: row.health for row in view.table_rows(reader.overview(), INFOS, reader.now())} == {
        "shop.carts": Health.LATE,
        "shop.events": Health.SNAPSHOT,
        "shop.sessions": Health.NEW,
        "shop.payments": Health.FAILED,
        "shop.order_items": Health.LATE,
        "shop.stock_movements": Health.WORKING,
        "shop.orders": Health.FRESH,
        "shop.customers": Health.IDLE,
    }


def test_late_depends_on_the_schedule(reader: StateReader) -> None:
    tables = {str(item.state.table): item for item in reader.overview("shop")}
    half_an_hour_behind = tables["shop.order_items"]
    for every, health in ((timedelta(minutes=10), Health.LATE), (timedelta(hours=1), Health.FRESH), (None, Health.FRESH)):
        assert view.table_row(half_an_hour_behind, PipelineInfo(every=every), reader.now()).health is health


def test_a_table_that_the_source_does_not_show_is_missing_and_says_since_when(reader: StateReader) -> None:
    [orders] = [item for item in reader.overview("shop") if item.state.table.name == "orders"]
    missing = replace(orders, state=replace(orders.state, missing_since=reader.now()))
    row = view.table_row(missing, PipelineInfo(), reader.now())
    assert row.health is Health.MISSING
    assert "No longer at the source" in row.notices[0]
    assert view.table_row(orders, PipelineInfo(), reader.now()).notices == ()


def test_the_overview_has_a_line_per_table_and_says_who_holds_one(client: TestClient) -> None:
    page = client.get("/ui").text
    assert tables_of(page) == 8
    assert "backfill__2026-11-01" in page
    assert "part 3 of 12" in page
    assert "paused" in page


class Overtaken:
    """A ledger in which a run of a table fails while the overview is read, so many times.

    Args:
        reader: The ledger.
        failures: How many of its next readings are overtaken.
    """

    def __init__(self, reader: StateReader, failures: int) -> None:
        self._reader, self._failures, self.readings = reader, failures, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def glances(self) -> tuple[TableGlance, ...]:
        self.readings += 1
        return self._reader.glances()

    def overviews(self, wanted: list[tuple[str, TableName]]) -> tuple[TableOverview, ...]:
        found = self._reader.overviews(wanted)
        if self.readings > self._failures:
            return found
        [failed] = [one.last_run for one in found if str(one.state.table) == "shop.payments"]
        assert failed
        assert failed.status is TableRunStatus.FAILED
        return tuple(replace(one, last_run=failed) if str(one.state.table) == "shop.customers" else one for one in found)


@pytest.mark.parametrize(("failures", "readings"), [(0, 1), (1, 2), (9, 3)])
def test_order_and_lines_of_the_overview_are_of_one_moment_though_a_run_ends_while_it_is_read(
    reader: StateReader, failures: int, readings: int
) -> None:
    overtaken = Overtaken(reader, failures)
    with TestClient(create_app(lambda: overtaken, visible_pipelines=lambda: INFOS)) as client:  # type: ignore[arg-type,return-value]
        page = client.get("/ui").text
    assert overtaken.readings == readings
    found = re.findall(r'<tbody class="(\w+)" data-key="shop/(shop\.\w+)"', page)
    assert len(found) > 3
    assert (("failed", "shop.customers") in found) is (failures > 3)


def test_no_page_loads_itself_again_and_each_says_how_often_its_script_brings_it_up_to_date(client: TestClient) -> None:
    for address in ("/ui", ORDERS, "/run?pipeline=shop&run_id=x", "/dag?dag_id=none", "/table?pipeline=shop&name=none"):
        page = client.get(address).text
        assert "http-equiv" not in page
        assert '<body data-every="60">' in page


def test_a_summary_says_how_each_pipeline_stands(client: TestClient) -> None:
    page = client.get("/ui").text
    found = re.findall(r'<tbody data-key="(\w+)".*?</tbody>', page, re.DOTALL)
    assert found == ["clickstream", "shop"]
    shop = re.findall(r"<td.*?</td>", page.partition('<tbody data-key="shop"')[2].partition("</tbody>")[0], re.DOTALL)
    assert [re.sub(r"<.*?>", "", cell).strip() for cell in shop] == ["5", "1", "1", "31 min", "227,039"]
    assert 'data-key="clickstream"' not in client.get("/ui?pipeline=shop").text


def test_the_tiles_pick_tables_of_one_state(client: TestClient) -> None:
    page = client.get("/ui?health=failed").text
    assert tables_of(page) == 1
    assert "shop.payments" in page
    assert tables_of(client.get("/ui?health=nonsense&page=abc&sort=x").text) == 8


def test_an_error_is_shown_whole_and_escaped(client: TestClient) -> None:
    for page in (client.get("/ui").text, client.get("/table?pipeline=shop&name=shop.payments").text):
        assert "<b>1045</b>" not in page
        assert "&lt;b&gt;1045&lt;/b&gt;" in page
        assert ERROR.next.replace("'", "&#39;") in page


def test_alerts_and_late_rows_are_shown_on_both_pages(client: TestClient) -> None:
    for page in (client.get("/ui").text, client.get("/table?pipeline=shop&name=shop.order_items").text):
        assert ALERT.replace("<", "&lt;").replace(">", "&gt;") in page
        assert ADVICE in page


def test_a_tables_page_lists_fifty_runs_and_the_others_on_the_next_page(client: TestClient) -> None:
    page = client.get("/table?pipeline=shop&name=shop.orders").text
    older = client.get("/table?pipeline=shop&name=shop.orders&page=2").text
    assert (page.count('<tbody class="'), older.count('<tbody class="')) == (50, 12)
    assert "plan 0.4 s, start of Spark 9.0 s, landing 7.2 s, merge 24.0 s, commit 0.2 s" in page
    assert page.count("estimated 900 rows, 2.0 KiB written, 30 s of work; actual ") == page.count(">committed</span>") > 10
    assert "refresh" not in page


def test_a_tables_page_draws_its_history_and_says_the_same_in_words(client: TestClient) -> None:
    page = client.get("/table?pipeline=shop&name=shop.orders").text
    assert page.count("<figure") == 6
    assert page.count('role="img" aria-labelledby="chart-') == 6
    for number in range(1, 7):
        assert page.count(f'id="chart-{number}"') == 1
    assert "62 runs since" in page
    assert CHANGE.replace("'", "&#39;") in page
    assert "reconcile found no difference" in page


def test_a_table_without_runs_and_with_one_has_a_page_too(client: TestClient) -> None:
    never = client.get("/table?pipeline=clickstream&name=shop.sessions").text
    assert "No run has looked at the table yet." in never
    assert "<polyline" not in never
    once = client.get("/table?pipeline=shop&name=shop.order_items").text
    assert (once.count("<figure"), once.count("<polyline")) == (6, 2)


def test_a_tables_page_says_what_holds_its_watermark(client: TestClient) -> None:
    holds = {
        "shop.order_items": f"At the source, {HOLDER} has been open".replace("<", "&lt;").replace(">", "&gt;"),
        "shop.payments": "The last run failed: The source refuses the login",
        "shop.stock_movements": "cdc_shop:backfill__2026-11-01T00:00:00+00:00 holds the table (backfill)",
        "shop.orders": "Nothing: the next run carries the table on.",
    }
    for name, text in holds.items():
        assert text in client.get(f"/table?pipeline=shop&name={name}").text.replace("&#39;", "'")
    assert "The DAG is paused" in client.get("/table?pipeline=clickstream&name=shop.carts").text


def test_a_dag_and_a_run_of_it_have_a_view_and_other_dags_have_none(reader: StateReader, tmp_path: Path) -> None:
    infos = {"shop": replace(INFOS["shop"], dag_ids=("cdc_shop", "cdc_shop_reconcile"))}
    client = TestClient(create_app(lambda: reader, visible_pipelines=lambda: infos))
    assert tables_of(client.get("/dag?dag_id=cdc_shop").text) == 5
    run_id = reader.history("shop", TableName.parse("shop.payments"))[0].run_id
    page = client.get("/run", params={"dag_id": "cdc_shop", "run_id": run_id}).text
    assert "2 tables: 1 committed, 1 failed. Rows: " in page
    assert page.index("shop.payments") < page.index("shop.orders")
    assert "Nothing yet" in client.get("/run", params={"dag_id": "cdc_shop_reconcile", "run_id": run_id}).text
    url = fill_ledger(tmp_path / "ledger.db")
    with closing(open_store(url)) as store:
        store.record(replace(store.history("shop", TableName.parse("shop.payments"))[0], run_id="reconcile__r"))
    of_both = TestClient(create_app(lambda: open_reader(url), visible_pipelines=lambda: infos))
    page = of_both.get("/run", params={"dag_id": "cdc_shop_reconcile", "run_id": "r"}).text
    assert "1 table: " in page, "Airflow gives runs of both DAGs the same id if they are due at the same instant"
    assert "Nothing yet" in client.get("/run?dag_id=cdc_shop&run_id=none").text
    for address in ("/dag?dag_id=other", "/run?dag_id=other&run_id=x", "/dag?dag_id=cdc_clickstream"):
        answer = client.get(address)
        assert (answer.status_code, "No pipeline of cdc-ops" in answer.text) == (404, True)
    hidden = client.get("/run", params={"pipeline": "clickstream", "run_id": reader.table_runs("clickstream")[0].run_id})
    assert "Nothing yet" in hidden.text


@pytest.mark.parametrize(
    "query", ["pipeline=shop&name=shop.none", "pipeline=none&name=shop.orders", "pipeline=shop&name=nonsense", "pipeline=shop&name=a."]
)
def test_a_table_that_is_not_there_is_a_page_that_says_so(client: TestClient, query: str) -> None:
    answer = client.get(f"/table?{query}")
    assert answer.status_code == 404
    assert "No such table" in answer.text


def test_without_any_table_the_page_says_what_to_do_next(tmp_path: Path) -> None:
    empty = open_reader(f"sqlite:///{tmp_path}/none.db")
    page = TestClient(create_app(lambda: empty)).get("/ui")
    assert (page.status_code, "cdc-ops validate" in page.text) == (200, True)


def test_a_ledger_that_is_away_is_a_page_too() -> None:
    def away() -> StateReader:
        raise LedgerUnavailableError("The ledger at db:5432 does not answer.", next="Start it.")

    client = TestClient(create_app(away))
    for route in ("/ui", "/table?pipeline=a&name=b.c"):
        answer = client.get(route)
        assert (answer.status_code, "does not answer" in answer.text) == (503, True)


@pytest.mark.parametrize("prefix", ["/cdc", "/airflow/cdc"])
def test_all_links_lead_to_the_page_under_any_prefix(reader: StateReader, prefix: str) -> None:
    outer = FastAPI()
    outer.mount(prefix, create_app(lambda: reader, visible_pipelines=lambda: INFOS))
    client = TestClient(outer, base_url="http://h")
    seen, queue = set(), [f"{prefix}/ui"]
    while queue:
        address = queue.pop()
        if address in seen:
            continue
        seen.add(address)
        answer = client.get(address)
        assert answer.status_code == 200, address
        links = Links()
        links.feed(answer.text if "html" in answer.headers["content-type"] else "")
        assert not any(link.startswith(("/", "http")) for link in links.found)
        queue += [str(answer.url.join(link)).removeprefix("http://h") for link in links.found if not re.match(r"ui\?.*&", link)]
    assert f"{prefix}/style.css" in seen
    assert len([address for address in seen if "/table?" in address and not re.search("page=|#", address)]) == 8
    assert f"{prefix}/table?pipeline=shop&name=shop.orders&page=2#runs" in seen
    assert any(address.startswith(f"{prefix}/run?pipeline=shop&run_id=") for address in seen)
    assert {address for address in seen if re.search(r"/ui\?health=\w+$", address)} == {f"{prefix}/ui?health={one}" for one in SHOWN}


@pytest.mark.parametrize("address", ["/ui", ORDERS, ORDERS.replace("table", "ask"), "/table?pipeline=shop&name=none"])
def test_nothing_is_loaded_from_elsewhere_and_scripts_are_files_that_the_page_knows_by_their_hashes(
    client: TestClient, address: str
) -> None:
    answer = client.get(address)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "connect-src", "style-src", "form-action", "frame-ancestors")} == {"'self'"}
    scripts = re.findall(r'<script src="(\w+\.js)" integrity="sha384-(.*?)"( defer)?></script>', answer.text)
    assert len(scripts) == answer.text.count("<script") >= 1
    for name, integrity, _ in scripts:
        served = client.get(f"/{name}")
        assert integrity == base64.b64encode(hashlib.sha384(served.content).digest()).decode()
        assert served.headers["content-type"].startswith("text/javascript")
        assert not re.search(r"https?:\/|\beval|innerHTML|insertAdjacentHTML|document\.write", served.text)
    assert not re.search(r"\son\w+=|javascript:|style=", answer.text)
    assert not re.search(r"url\(|@import", client.get("/style.css").text)
    assert client.get("/other.js").status_code == 404


IN_AIRFLOW = {"shop": replace(INFOS["shop"], dag_ids=("cdc_shop", "cdc_shop_reconcile"))}


def links_out(page: str) -> list[str]:
    """The links to Airflow, which must leave the frame that the page is shown in."""
    return [html.unescape(link) for link in re.findall(r'<a class="out" href="(.*?)" target="_top">', page)]


def test_links_lead_to_the_dag_the_run_and_the_task_in_airflow_and_out_of_its_frame(reader: StateReader) -> None:
    found: list[tuple[str, str, str]] = []

    def find_task(*about: str) -> str:
        found.append(about)  # type: ignore[arg-type]
        return "/tasks/tables.sync/mapped/3"

    client = TestClient(create_app(lambda: reader, visible_pipelines=lambda: IN_AIRFLOW, find_task=find_task))
    assert links_out(client.get("/ui").text) == ["../dags/cdc_shop"]
    page = client.get("/table?pipeline=shop&name=shop.payments").text
    run_id = reader.history("shop", TableName.parse("shop.payments"))[0].run_id
    run, dag, task = f"../dags/cdc_shop/runs/{quote(run_id, safe='')}", "../dags/cdc_shop", links_out(page)[-1]
    assert links_out(page) == [dag, run, task]
    assert set(re.findall(r'href="(\.\./[^"]*)"', page)) == {dag, run}, "a link to Airflow without a target would show it in its own frame"
    answer = client.get(f"/{task}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{run}/tasks/tables.sync/mapped/3")
    assert found == [("cdc_shop", run_id, "shop.payments")]
    page = client.get("/run", params={"dag_id": "cdc_shop", "run_id": run_id}).text
    assert links_out(page) == [run, *(link for link in links_out(page) if link.startswith("task?"))]
    assert len(links_out(page)) == 3


def test_a_run_of_the_command_line_and_one_of_a_dag_that_is_hidden_have_no_link_to_airflow(reader: StateReader, client: TestClient) -> None:
    info = PipelineInfo(dag_ids=("cdc_shop",))
    assert info.run_address("cli:host:1:abc") == info.run_address("reconcile__scheduled__1") == ""
    assert IN_AIRFLOW["shop"].run_address("reconcile__scheduled__1") == "../dags/cdc_shop_reconcile/runs/scheduled__1"
    for address in ("/ui", ORDERS):
        assert links_out(client.get(address).text) == []
    answer = client.get("/task?pipeline=shop&name=shop.orders&run_id=cli:host:1:abc", follow_redirects=False)
    assert (answer.status_code, "Not a run of Airflow" in answer.text) == (404, True)
    hidden = TestClient(create_app(lambda: reader, visible_pipelines=lambda: IN_AIRFLOW))
    assert hidden.get("/task?pipeline=clickstream&name=shop.carts&run_id=manual__1", follow_redirects=False).status_code == 404


def test_an_open_question_is_on_the_overview_with_the_way_to_its_answer(tmp_path: Path) -> None:
    url, table = fill_ledger(tmp_path / "ledger.db"), TableName.parse("shop.payments")
    with closing(open_store(url)) as store:
        now, asked = store.now(), Asked(decision=Decision.DELETES, deletes=500, rows=1000)
        for number, (name, left) in enumerate(((table, 60), (TableName.parse("shop.orders"), -1))):
            store.ask_approval(
                ApprovalRecord(
                    approval_id=str(number),
                    pipeline="shop",
                    table=name,
                    run_id="scheduled__1",
                    asked=asked,
                    text="Too many deletes.",
                    asked_at=now,
                    expires_at=now + timedelta(minutes=left),
                )
            )
    client = TestClient(create_app(lambda: open_reader(url), visible_pipelines=lambda: IN_AIRFLOW))
    page = client.get("/ui").text
    assert page.count("delete 500 of 1,000 rows?") == 1, "the other question is no longer open"
    assert "1 question open" in page
    actions = [link for link in links_out(page) if "required_actions" in link]
    assert actions == ["../dags/cdc_shop/required_actions?response_received=false", "../dags/cdc_shop/runs/scheduled__1/required_actions"]
    assert "../dags/cdc_shop/runs/scheduled__1/required_actions" in links_out(client.get("/table?pipeline=shop&name=shop.payments").text)


def test_a_long_run_has_pages_that_links_and_a_form_lead_to(tmp_path: Path) -> None:
    url = fill_ledger(tmp_path / "ledger.db")
    fill_many(url, "big", 250)
    client = TestClient(create_app(lambda: open_reader(url)))
    for address, first in (("/run?pipeline=big&run_id=scheduled__1", "big.table_0000"), ("/ui?pipeline=big&sort=table", "big.table_0000")):
        page = client.get(address).text
        assert first in page
        pages = page.partition('<nav class="pager"')[2].partition("</nav>")[0]
        assert re.findall(r'rel="(\w+)"', pages) == ["next", "last"]
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(.*?)">', pages))
        assert re.findall(r'<input type="number" name="page" min="1" max="(\d+)" value="1"', pages) == ["3"]
        [action] = re.findall(r'<form action="(\w+)" method="get">', pages)
        jumped = client.get(f"/{action}", params={**fields, "page": "3"}).text
        assert (jumped.count('data-key="big'), "big.table_0249" in jumped) == (50 + (action == "ui"), True)
        assert re.findall(r'rel="(\w+)"', jumped.partition('<nav class="pager"')[2]) == ["first", "prev"]


def test_the_rows_of_the_last_day_are_counted_once_in_ten_minutes(reader: StateReader, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = [0.0], []
    monkeypatch.setattr(type(reader), "rows_written", lambda self, since: asked.append(since) or {"shop": len(asked)})
    rows = DayOfRows(lambda: clock[0])
    found = []
    for second in (0, 599, 600, 2000):
        clock[0] = second
        found.append(rows.of(reader, NOW)["shop"])
    assert found == [1, 1, 2, 3]
    assert set(asked) == {NOW - timedelta(days=1)}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "5 s"), (60, "1 min"), (3600, "1 h"), (7512, "2 h 5 min"), (86400, "1 d"), (273600, "3 d 4 h"), (5_000_000, "57 d")],
)
def test_spans_are_written_in_two_units(seconds: int, text: str) -> None:
    assert words.duration(timedelta(seconds=seconds)) == text


def test_sizes_and_instants_are_written_for_people() -> None:
    assert [words.size(n) for n in (None, 12, 2048, 5_000_000, 112_812_334_123)] == ["\u2013", "12 bytes", "2.0 KiB", "4.8 MiB", "105 GiB"]
    assert words.ago(NOW - timedelta(minutes=3), NOW) == "3 min ago"
    assert words.instant(NOW) == "2026-01-02 00:00:00 UTC"


def test_the_statements_of_the_ledger_do_not_grow_with_the_tables(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    ledger = fill_ledger(tmp_path / "ledger.db")
    reader = open_reader(ledger)
    client = TestClient(create_app(lambda: reader))
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    def asked(address: str) -> int:
        statements.clear()
        assert client.get(address).status_code == 200
        return len([text for text in statements if text.startswith("SELECT")])

    event.listen(Engine, "before_cursor_execute", note)
    request.addfinalizer(lambda: event.remove(Engine, "before_cursor_execute", note))
    asked("/ui")
    addresses = ("/ui", "/ui?sort=behind&q=a", ORDERS, "/run?pipeline=shop&run_id=x")
    few = [asked(address) for address in addresses]
    fill_many(ledger, "big", 300)
    assert [asked(address) for address in addresses] == few
    assert 0 < max(few) <= 7
    assert tables_of(client.get("/ui").text) == 100


def test_of_many_tables_only_those_of_the_page_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill_many(ledger, "big", 250)
    parsed: list[type] = []
    loads = json_codec.loads
    monkeypatch.setattr(json_codec, "loads", lambda cls, text: parsed.append(cls) or loads(cls, text))
    with open_reader(ledger) as reader:
        client = TestClient(create_app(lambda: reader))
        for address, shown in (("/ui", 100), ("/ui?page=3", 50), ("/ui?q=table_007", 10)):
            parsed.clear()
            assert tables_of(client.get(address).text) == shown
            assert Counter(one for one in parsed if one in (TableState, TableStats, TableRun)) == {
                TableState: shown,
                TableStats: shown,
                TableRun: shown,
            }
