"""The status page in a real browser, inside Airflow's own page below a sub-path: Debian's Chromium, real login, real DAGs."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine, delete

from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.db.schema import runs
from cdc_ops.state.sql import open_reader, open_store
from cdc_ops.state.table_run import TableRunStatus
from tests.airflow.stage import FILE
from tests.browser import Tab, followed, pressed, typed, until
from tests.status_case import fill_ledger, fill_many

SERVER = Path(__file__).with_name("api_server.py")
PICTURES = (("overview", "ui?pipeline=shop", "table.tables tbody"), ("table", "table?pipeline=shop&name=shop.orders", "figure svg"))
"""The pictures in docs/pictures: name, address, and what has to be there before one is taken."""

FRAME = "document.querySelector('iframe').contentDocument"
"""The page's own document, inside Airflow's."""


@dataclass(frozen=True)
class Site:
    """An API server, somebody who may read its DAGs, and somebody who may add connections."""

    address: str
    token: str
    admin: str
    ledger: str


@pytest.fixture(scope="module")
def site(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "pipelines").mkdir()
    for name in ("shop", "big"):
        text = FILE.format(folder=folder, execution="fused", retries=0).replace("pipeline: shop", f"pipeline: {name}")
        (folder / "pipelines" / f"{name}.yaml").write_text(text)
    ledger = fill_ledger(folder / "ledger.db")
    fill_many(ledger, "big", 1000)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/airflow"
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}",
        "AIRFLOW__API__BASE_URL": address,
        "CDC_OPS_LEDGER": ledger,
        "CDC_OPS_PIPELINES": str(folder / "pipelines"),
    }
    log = folder / "server.log"
    with log.open("w") as output:
        command = [sys.executable, str(SERVER), str(port), str(folder / "token")]
        server = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | settings)
    try:
        _wait_for(port, server, log)
        yield Site(address, (folder / "token").read_text(), (folder / "token.admin").read_text(), ledger)
    finally:
        server.terminate()
        server.wait(30)


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"the API server does not listen: {log.read_text()[-4000:]}")


@pytest.fixture
def visitor(site: Site, tab: Tab) -> Tab:
    """The browser of somebody who has logged in."""
    tab.call("Network.setCookie", name="_token", value=site.token, url=f"{site.address}/", httpOnly=True)
    tab.console.clear()
    tab.look()
    return tab


def complaints(tab: Tab) -> list[str]:
    """What the browser refused because of the page's own rules."""
    return [text for text in tab.console if "Content Security Policy" in text or "Refused" in text or "Blocked" in text]


def test_without_a_login_no_table_is_shown(site: Site, tab: Tab) -> None:
    tab.call("Network.clearBrowserCookies")
    tab.look()
    for path in ("cdc/ui", "cdc/table?pipeline=shop&name=shop.orders", "cdc/dag?dag_id=cdc_shop", "cdc/metrics"):
        tab.open(f"{site.address}/{path}")
        text = tab.value("document.body.innerText")
        assert "shop" not in text
        assert "401" in text or "authenticated" in text.lower()


def test_airflows_page_shows_ours_in_its_frame_and_search_and_links_work_there(site: Site, visitor: Tab) -> None:
    tab = visitor
    tab.open(f"{site.address}/plugin/cdc")
    until(tab, f"{FRAME}.querySelectorAll('table.tables tbody').length == 100 && {FRAME}.readyState == 'complete'")
    assert tab.value(f"getComputedStyle({FRAME}.querySelector('.tile')).borderLeftWidth") == "4px", "the style sheet is not there"
    tab.value(f"{FRAME}.querySelector('input[name=q]').value = 'shop order'; {FRAME}.querySelector('form.filters button').click()")
    until(tab, f"{FRAME}.querySelectorAll('table.tables tbody').length == 2")
    assert "q=shop+order" in tab.value(f"{FRAME}.location.search")
    tab.value(f"{FRAME}.querySelector('a[href*=\"name=shop.orders\"]').click()")
    until(tab, f"{FRAME}.querySelectorAll('figure svg[role=img]').length == 6")
    assert tab.value(f"{FRAME}.querySelector('h1').innerText").startswith("shop.orders")
    assert complaints(tab) == []


def test_a_dag_has_a_tab_with_its_pipelines_tables(site: Site, visitor: Tab) -> None:
    visitor.open(f"{site.address}/dags/cdc_shop/plugin/cdc-dag")
    until(visitor, f"{FRAME}.querySelectorAll('table.tables tbody').length == 5")
    assert "CDC tables" in visitor.value("document.body.innerText")
    assert visitor.value(f"{FRAME}.querySelector('h1').innerText").split() == ["Pipeline", "shop", "paused"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["cdc/ui", "cdc/table?pipeline=shop&name=shop.orders", "cdc/table?pipeline=big&name=big.table_0007"])
def test_text_can_be_read_and_nothing_is_wider_than_a_phone_in_light_and_dark(site: Site, visitor: Tab, scheme: str, path: str) -> None:
    visitor.look(width=400, scheme=scheme)
    visitor.open(f"{site.address}/{path}")
    assert visitor.value("document.documentElement.scrollWidth <= innerWidth")
    pairs = visitor.value(CONTRASTS)
    assert len(pairs) > 20
    assert [pair for pair in pairs if pair["contrast"] < 4.5] == []
    dark = visitor.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, dark.removeprefix("rgb(").removesuffix(")").split(","))) < 384) is (scheme == "dark")
    assert complaints(visitor) == []


def test_a_thousand_tables_are_paged_sorted_and_filtered_by_links_alone(site: Site, visitor: Tab) -> None:
    visitor.open(f"{site.address}/cdc/ui?pipeline=big")
    assert visitor.value("document.querySelector('.tile').innerText").split() == ["1000", "of", "1005", "tables"]
    for link, first in (("th[aria-sort] a[href*='sort=rows']", "big.table_0999"), ("nav.pager a[rel=next]", "big.table_0899")):
        followed(visitor, link)
        assert visitor.value("document.querySelector('table.tables tbody th a').innerText") == first
    followed(visitor, "a.tile.failed")
    assert visitor.value("document.querySelectorAll('table.tables tbody').length") == 11
    assert visitor.value("document.querySelectorAll('svg.bar[role=img][aria-label]').length") == 11
    visitor.open(f"{site.address}/cdc/ui?pipeline=big&sort=table")
    for step, first in (("a[rel=last]", "0900"), ("a[rel=first]", "0000"), ("form button", "0300")):
        followed(visitor, f"nav.pager {step}", first="document.querySelector('nav.pager input[name=page]').value = '4'")
        assert visitor.value("document.querySelector('table.tables tbody th a').innerText") == f"big.table_{first}"


def test_links_to_airflow_lead_out_of_its_frame_and_never_show_airflow_in_itself(site: Site, visitor: Tab) -> None:
    tab = visitor
    for page, link, there in (
        ("cdc/ui", "a.out[href*=cdc_shop]", "/dags/cdc_shop"),
        ("cdc/table?pipeline=shop&name=shop.orders", "table a.out[href*=runs]", "/dags/cdc_shop/runs/"),
        ("cdc/table?pipeline=shop&name=shop.orders", "table a.out[href*=task]", "/dags/cdc_shop/runs/"),
    ):
        tab.open(f"{site.address}/plugin/cdc")
        until(tab, f"{FRAME}.querySelector('table.tables') && {FRAME}.readyState == 'complete'")
        tab.value(f"{FRAME}.location.href = '{site.address}/{page}'")
        until(tab, f"{FRAME}.location.href.endsWith('{page}') && {FRAME}.readyState == 'complete' && {FRAME}.querySelector('{link}')")
        before = tab.loaded
        tab.value(f"{FRAME}.querySelector('{link}').click()")
        tab.wait(before)
        until(tab, f"location.pathname.startsWith('/airflow{there}') && !document.querySelector('iframe')")
        assert complaints(tab) == []
    tab.open(f"{site.address}/cdc/ui")
    followed(tab, "a.out[href*=cdc_shop]")
    assert tab.value("location.pathname") == "/airflow/dags/cdc_shop", "the page without its frame leads there too"


DARK = "(document => getComputedStyle(document.body).backgroundColor === 'rgb(20, 24, 31)')"


def test_the_page_has_the_colours_that_airflow_has_and_changes_them_with_it(site: Site, visitor: Tab) -> None:
    tab = visitor
    followed = (("dark", "light", True), ("light", "dark", False), ("system", "dark", True), ("system", "light", False))
    choose = "localStorage.setItem('theme', '{0}'); dispatchEvent(new StorageEvent('storage', {{key: 'theme', newValue: '{0}'}}))"
    try:
        tab.look(scheme="light")
        tab.open(f"{site.address}/plugin/cdc")
        until(tab, f"{FRAME}.querySelector('table.tables') && {FRAME}.readyState == 'complete'")
        tab.value(f"window.first = {FRAME}")
        for theme, scheme, dark in (
            ("dark", "light", True),
            ("light", "dark", False),
            ("system", "dark", True),
            ("system", "light", False),
        ):
            tab.look(scheme=scheme)
            tab.value(choose.format(theme))
            until(tab, f"{DARK}({FRAME}) === {json.dumps(dark)}")
            until(tab, f"document.documentElement.classList.contains('dark') === {json.dumps(dark)}")
        assert tab.value(f"window.first === {FRAME}"), "nothing was loaded again"
        for theme, scheme, dark in followed[:3]:
            tab.look(scheme=scheme)
            tab.value(f"localStorage.setItem('theme', '{theme}')")
            tab.open(f"{site.address}/cdc/ui")
            assert tab.value(f"{DARK}(document)") is dark, "the page without the frame has them too"
        assert complaints(tab) == []
    finally:
        tab.value("localStorage.removeItem('theme')")


QUICK = """
window.asked = 0;
const [later, ask] = [window.setTimeout, window.fetch];
window.setTimeout = (what, wait) => later(what, Math.min(wait, 200));
window.fetch = (...what) => { window.asked += 1; return ask(...what); };
"""
"""Lets the page be updated all the time, and counts how often it asks."""


@pytest.fixture
def quick(site: Site, visitor: Tab) -> Iterator[Tab]:
    """A browser in which an open page is updated five times a second; failures that a test adds to the ledger are gone after it."""
    script = visitor.call("Page.addScriptToEvaluateOnNewDocument", source=QUICK)["identifier"]
    yield visitor
    visitor.value("sessionStorage.clear()")
    visitor.open("about:blank")
    visitor.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    engine = create_engine(site.ledger)
    with engine.begin() as connection:
        connection.execute(delete(runs).where(runs.c.run_id.startswith("later__", autoescape=True)))
    engine.dispose()


def note_failure(site: Site, name: str, message: str) -> None:
    """Lets a run of a table fail now, as the ledger has it."""
    with open_store(site.ledger) as store:
        [line] = store.history("shop", TableName.parse(name), limit=1)
        timing = replace(line.timing, started_at=store.now(), finished_at=store.now())
        messages = replace(line.messages, message=message)
        store.record(replace(line, run_id=f"later__{message}", status=TableRunStatus.FAILED, timing=timing, messages=messages))


NAMES = "[...document.querySelectorAll('table.tables tbody')].map(one => one.dataset.key + ' ' + one.className)"
ANEW = f"""
(() => {{
  const ask = new XMLHttpRequest();
  ask.open('GET', location.href, false);
  ask.send();
  const document = new DOMParser().parseFromString(ask.responseText, 'text/html');
  return {NAMES};
}})()
"""
"""The tables of a page that was loaded anew."""


def test_an_open_page_is_updated_in_place_and_keeps_what_its_reader_has_opened_focused_and_scrolled(site: Site, quick: Tab) -> None:
    tab = quick
    tab.look(height=300)
    tab.open(f"{site.address}/cdc/ui?pipeline=shop")
    error = "document.querySelector('tbody[data-key=\"shop/shop.payments\"] details')"
    tab.value(f"window.same = true; {error}.open = true; document.querySelector('.summary').open = false")
    focused = "document.querySelector('a[href*=\"name=shop.order_items\"]')"  # its row moves
    tab.value(f"window.focused = {focused}; {focused}.focus({{preventScroll: true}}); scrollTo(0, 150)")
    assert "order_items failed" not in " ".join(tab.value(NAMES))
    note_failure(site, "shop.order_items", "first")
    until(tab, "document.querySelector('tbody[data-key=\"shop/shop.order_items\"]').className == 'failed'")
    assert tab.value("window.same"), "the page was loaded again"
    assert tab.value(f"{error}.open && !document.querySelector('.summary').open && scrollY") == 150
    assert tab.value("document.activeElement === window.focused")
    assert tab.value(NAMES) == tab.value(ANEW)
    assert tab.value("[...document.querySelectorAll('table.tables tbody')].length") == 5
    assert tab.value("document.querySelector('.tile.failed b').innerText") == "2"
    assert complaints(tab) == []


@pytest.mark.parametrize("query", ["sort=run", "sort=table&order=turned", "health=failed", "q=order&sort=rows"])
def test_a_page_that_was_updated_is_the_page_that_one_would_load(site: Site, quick: Tab, query: str) -> None:
    quick.open(f"{site.address}/cdc/ui?pipeline=shop&{query}")
    quick.value("window.same = true")
    for number, name in enumerate(("shop.orders", "shop.customers", "shop.stock_movements")):
        note_failure(site, name, f"{query} {number}")
    until(quick, f"JSON.stringify({NAMES}) === JSON.stringify({ANEW}) && document.body.innerText.includes('{query} 0')")
    assert quick.value("window.same")


def test_nothing_changes_under_a_reader_who_selects_types_or_has_paused(site: Site, quick: Tab) -> None:
    tab, waits = quick, "document.querySelector('#updates span').innerText"
    tab.open(f"{site.address}/cdc/table?pipeline=shop&name=shop.customers")
    page = "document.querySelector('main').innerText"
    begin = {
        "selected": "getSelection().selectAllChildren(document.querySelector('h1'))",
        "focused": "document.querySelector('[name=q]').focus(), document.querySelector('[name=q]').value = 'half a'",
    }
    for number, (how, ends) in enumerate((("selected", "getSelection().removeAllRanges()"), ("focused", "document.activeElement.blur()"))):
        if how == "focused":
            tab.open(f"{site.address}/cdc/ui?pipeline=shop")
        tab.value(begin[how])
        until(tab, f"{waits}.includes('wait')")
        note_failure(site, "shop.customers", f"Held back {number}.")
        asked = tab.value("window.asked")
        tab.call("Runtime.evaluate", expression="new Promise(done => later(done, 600))", awaitPromise=True)
        assert (tab.value("window.asked"), f"Held back {number}." in tab.value(page)) == (asked, False)
        tab.value(ends)
        until(tab, f"{page}.includes('Held back {number}.') && !{waits}.includes('wait')")
    assert tab.value("document.querySelector('input[name=q]').value") == "half a"
    tab.value("document.querySelector('#updates button').click()")
    note_failure(site, "shop.customers", "Paused.")
    for again in range(2):  # the next page is paused as well
        assert tab.value("document.querySelector('#updates button').getAttribute('aria-pressed')") == "true"
        asked = tab.value("window.asked")
        tab.call("Runtime.evaluate", expression="new Promise(done => later(done, 600))", awaitPromise=True)
        assert tab.value("window.asked") == asked
        if not again:
            assert "Paused." not in tab.value(page)
            tab.open(f"{site.address}/cdc/ui?pipeline=shop")
    note_failure(site, "shop.customers", "Gone on.")
    tab.value("document.querySelector('#updates button').click()")
    until(tab, f"{page}.includes('Gone on.')")


def test_a_page_that_cannot_be_updated_stays_and_says_so(site: Site, quick: Tab) -> None:
    quick.open(f"{site.address}/cdc/ui?pipeline=shop")
    quick.call("Network.clearBrowserCookies")
    until(quick, "document.getElementById('trouble').innerText.includes('401')")
    assert quick.value("document.querySelectorAll('table.tables tbody').length") == 5
    quick.call("Network.setCookie", name="_token", value=site.token, url=f"{site.address}/", httpOnly=True)
    until(quick, "document.getElementById('trouble').innerText === ''")


def test_without_javascript_the_page_is_whole_and_is_not_updated(site: Site, visitor: Tab) -> None:
    visitor.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        visitor.open(f"{site.address}/cdc/ui?pipeline=shop")
        assert visitor.value("document.querySelectorAll('table.tables tbody').length") == 5
        assert visitor.value("document.getElementById('updates').checkVisibility()") is False
    finally:
        visitor.call("Emulation.setScriptExecutionDisabled", value=False)


CONTRASTS = """
(() => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const part = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = numbers(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || ["TITLE", "OPTION"].includes(element.tagName.toUpperCase())) continue;
    const style = getComputedStyle(element);
    const text = light(numbers(element instanceof SVGElement ? style.fill : style.color)), ground = light(behind(element));
    const contrast = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    found.push({ text: element.textContent.trim().slice(0, 40), contrast });
  }
  return found;
})()
"""
"""The contrast of each visible text with the colour behind it, by the formula of WCAG."""


@pytest.mark.parametrize("path", ["ui", "table?pipeline=shop&name=shop.orders", "run?dag_id=cdc_shop&run_id={run}"])
def test_who_does_not_see_the_page_can_use_it_by_the_rules_of_axe_in_airflow_too(site: Site, visitor: Tab, path: str) -> None:
    """All pages, in all their looks, are in test_page_rules.py."""
    with open_reader(site.ledger) as reader:
        run = reader.history("shop", TableName.parse("shop.payments"))[-1].run_id
    visitor.look(scheme="dark", width=420)
    visitor.open(f"{site.address}/cdc/{path.format(run=quote(run))}")
    visitor.value((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
    result = visitor.call("Runtime.evaluate", expression="axe.run()", awaitPromise=True, returnByValue=True)["result"]["value"]
    assert len(result["passes"]) > 10
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in result["violations"]] == []


@pytest.fixture
def colleague(site: Site, tab: Tab) -> Tab:
    """The browser of somebody who may start runs."""
    tab.call("Network.setCookie", name="_token", value=site.admin, url=f"{site.address}/", httpOnly=True)
    tab.console.clear()
    tab.look()
    return tab


def runs_of(site: Site, dag_id: str) -> dict[str, dict[str, Any]]:
    """The runs that Airflow has of a DAG, by their ids."""
    asked = urllib.request.Request(f"{site.address}/api/v2/dags/{dag_id}/dagRuns", headers={"Authorization": f"Bearer {site.admin}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return {run["dag_run_id"]: run for run in json.load(answer)["dag_runs"]}


def form(title: str, document: str = "document") -> str:
    """The form of the run that is called so, as an expression."""
    return f"[...{document}.querySelectorAll('form.run')].find(one => one.querySelector('button').innerText === '{title}')"


def sent(tab: Tab, title: str, document: str = "document") -> None:
    """Ticks what the form asks to be confirmed, and presses its button."""
    until(tab, f"!{form(title, document)}.querySelector('button').disabled")
    tab.value(f"{form(title, document)}.querySelector('input[type=checkbox][required]').checked = true")
    tab.value(f"{form(title, document)}.querySelector('button').click()")


def test_a_run_is_made_by_clicks_from_the_list_with_table_and_mode_filled_in_and_airflow_knows_who_it_was(
    site: Site, colleague: Tab
) -> None:
    tab, before = colleague, set(runs_of(site, "cdc_shop"))
    tab.open(f"{site.address}/plugin/cdc")
    link = f'{FRAME}.querySelector(\'a[href*="ask?"][href*="name=shop.payments"]\')'
    until(tab, f"{link} && {FRAME}.readyState == 'complete'")
    tab.value(f"{link}.click()")
    until(tab, f"{FRAME}.readyState == 'complete' && {form('Resync', FRAME)} && !{form('Resync', FRAME)}.querySelector('button').disabled")
    tab.value(f"{form('Resync', FRAME)}.querySelector('button').click()")
    tab.call("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 300))", awaitPromise=True)
    assert set(runs_of(site, "cdc_shop")) == before, "nothing is sent that was not confirmed"
    tab.value(f"{form('Resync', FRAME)}.querySelector('[name=accept_cost]').checked = true")
    sent(tab, "Resync", FRAME)
    answer = f"{form('Resync', FRAME)}.querySelector('.answer')"
    until(tab, f"{answer}.innerText.includes('The run is made')")
    assert "paused" in tab.value(f"{answer}.innerText")
    [(run_id, run)] = [(name, one) for name, one in runs_of(site, "cdc_shop").items() if name not in before]
    assert (run["conf"], run["run_type"], run["triggering_user_name"]) == (
        {"mode": "full", "tables": ["shop.payments"], "accept_cost": True},
        "manual",
        "reader",
    )
    assert not tab.value(f"{form('Resync', FRAME)}.querySelector('[name=accept_cost]').checked"), "the form is empty again"
    tab.value(f"{answer}.querySelector('a.out').click()")
    until(tab, f"location.pathname === '/airflow/dags/cdc_shop/runs/{quote(run_id, safe='')}' && !document.querySelector('iframe')")
    assert complaints(tab) == []


def test_a_gap_is_accepted_by_a_form_that_wants_a_reason(site: Site, colleague: Tab) -> None:
    tab, before = colleague, set(runs_of(site, "cdc_shop"))
    with open_store(site.ledger) as store:
        lease = store.acquire("shop", TableName.parse("shop.customers"), "test", ttl=timedelta(minutes=5), live=True)
        [gap] = store.report_gaps(lease, [Gap(stream="customers-0", low=(5,), high=(9,))])
        store.release(lease)
    tab.open(f"{site.address}/cdc/table?pipeline=shop&name=shop.customers")
    followed(tab, f"a[href$='#gap-{gap.gap_id}']")
    sent(tab, "Accept the gap")
    tab.call("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 300))", awaitPromise=True)
    assert set(runs_of(site, "cdc_shop")) == before, "without a reason nothing is sent"
    tab.value(f"{form('Accept the gap')}.querySelector('[name=why]').value = ' the topic had expired '")
    sent(tab, "Accept the gap")
    until(tab, f"{form('Accept the gap')}.innerText.includes('The run is made')")
    [run] = [one for name, one in runs_of(site, "cdc_shop").items() if name not in before]
    assert run["conf"] == {"tables": ["shop.customers"], "accept_gaps": [gap.gap_id], "why": "the topic had expired"}
    assert complaints(tab) == []


REFUSALS = (
    ("viewer", "", "You may not start runs of cdc_shop.", "Ask for the right"),
    ("nobody", "", "Your login has ended.", "Log in to Airflow"),
    ("admin", "form.dataset.conf = JSON.stringify({mode: 'fulll'})", "Airflow refuses the run.", "'fulll' is not one of"),
    ("admin", "form.dataset.runId = 'manual__no/good'", "Airflow refuses the run.", "Nothing was started."),
    ("admin", "form.dataset.runs = form.dataset.runs.replace('cdc_shop', 'cdc_gone')", "Airflow has no DAG", "was removed"),
    ("admin", "window.fetch = () => Promise.reject(new TypeError('away'))", "Airflow did not answer.", "not made twice"),
    ("admin", "window.fetch = async () => new Response('{}', {status: 503})", "Airflow failed with 503.", "not made twice"),
)


@pytest.mark.parametrize(("who", "change", "what", "then"), REFUSALS)
def test_what_airflow_refuses_is_said_in_words_with_what_to_do(site: Site, tab: Tab, who: str, change: str, what: str, then: str) -> None:
    before = set(runs_of(site, "cdc_shop"))
    tab.call("Network.setCookie", name="_token", value=site.admin if who == "admin" else site.token, url=f"{site.address}/", httpOnly=True)
    tab.look()
    tab.open(f"{site.address}/cdc/ask?pipeline=shop&name=shop.orders")
    if who == "nobody":
        tab.call("Network.clearBrowserCookies")
    tab.value(f"(form => {{ {change} }})({form('Resync')})")
    sent(tab, "Resync")
    until(tab, f"{form('Resync')}.querySelector('.answer.bad')")
    text = tab.value(f"{form('Resync')}.querySelector('.answer').innerText")
    assert what in text
    assert then in text
    assert not tab.value(f"{form('Resync')}.querySelector('button').disabled"), "it can be sent again"
    assert set(runs_of(site, "cdc_shop")) == before


def test_a_form_that_is_sent_again_after_no_answer_makes_one_run(site: Site, colleague: Tab) -> None:
    tab, before = colleague, set(runs_of(site, "cdc_shop"))
    tab.open(f"{site.address}/cdc/ask?pipeline=shop&name=shop.orders")
    tab.value("window.ask = window.fetch; window.fetch = async (...what) => { await window.ask(...what); throw new TypeError('lost'); }")
    sent(tab, "Verify and repair")
    until(tab, f"{form('Verify and repair')}.innerText.includes('It is not known')")
    tab.value("window.fetch = window.ask")
    sent(tab, "Verify and repair")
    until(tab, f"{form('Verify and repair')}.innerText.includes('made before')")
    [run] = [one for name, one in runs_of(site, "cdc_shop").items() if name not in before]
    assert run["conf"] == {"mode": "reconcile", "tables": ["shop.orders"]}


def opened(tab: Tab, text: str) -> None:
    """Opens the part of a dialog with this heading, where Airflow folds it: 3.3 does, 3.4 shows it."""
    until(tab, f"document.querySelector('[role=dialog]').innerText.includes('{text}')")
    if tab.value(f"[...document.querySelectorAll('button')].some(one => one.innerText.trim() === '{text}')"):
        pressed(tab, text)


def test_the_form_of_a_spark_connection_asks_for_the_master_and_stores_what_is_chosen(site: Site, tab: Tab) -> None:
    tab.call("Network.setCookie", name="_token", value=site.admin, url=f"{site.address}/", httpOnly=True)
    tab.look()
    tab.open(f"{site.address}/connections")
    pressed(tab, "Add Connection")
    typed(tab, "input[name=connection_id]", "spark_cluster")
    typed(tab, "[role=dialog] input[role=combobox]", "CDC: Spark", choose=True)
    typed(tab, "input[name=host]", "spark://master:7077")
    shown = tab.value("document.querySelector('[role=dialog]').innerText")
    assert "Master" in shown
    assert "Port" not in shown
    assert "there is no default" in tab.value("document.querySelector('input[name=host]').placeholder")
    opened(tab, "Extra Fields")
    typed(tab, "#element_deploy-mode input", "client", choose=True)
    typed(tab, "#element_queue", "etl")
    pressed(tab, "Save")
    until(tab, "!document.querySelector('[role=dialog]') && document.body.innerText.includes('spark_cluster')")
    asked = urllib.request.Request(f"{site.address}/api/v2/connections/spark_cluster", headers={"Authorization": f"Bearer {site.admin}"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        stored = json.load(answer)
    extra = {name: value for name, value in json.loads(stored["extra"]).items() if value}
    assert (stored["conn_type"], stored["host"], extra) == (
        "cdc_ops_spark",
        "spark://master:7077",
        {"deploy-mode": "client", "queue": "etl"},
    )


def test_the_pictures_of_the_docs_are_small_and_can_be_made_anew(site: Site, visitor: Tab, tmp_path: Path) -> None:
    folder, tab = Path(os.environ.get("CDC_OPS_PICTURES") or tmp_path), visitor
    tab.look(width=1280, height=800)
    tab.open(f"{site.address}/plugin/cdc")
    until(tab, f"{FRAME}.querySelectorAll('table.tables tbody').length == 100 && {FRAME}.readyState == 'complete'")
    for name, address, there in PICTURES:
        tab.value(f"{FRAME}.location.href = '{site.address}/cdc/{address}'")
        until(tab, f"{FRAME}.location.href.endsWith('{address}') && {FRAME}.readyState == 'complete'")
        until(tab, f"{FRAME}.querySelectorAll('{there}').length")
        tab.picture(folder / f"{name}.png")
        picture = (folder / f"{name}.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 150_000
