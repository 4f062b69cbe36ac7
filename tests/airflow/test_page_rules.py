"""Each page of the status page by the rules of axe, for those who do not see it or use no mouse; it is served here without Airflow.

At the root it is what `cdc-ops ui` serves, below a sub-path it has links and forms of Airflow. Each page is looked at twice: as it is
loaded, and after its script has brought it up to date in place, or has said what became of its forms.
"""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from urllib.parse import quote

import pytest
import uvicorn
from fastapi import FastAPI

from cdc_ops.core.approvals import ApprovalRecord, Asked, Decision
from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.sql import open_reader, open_store
from cdc_ops.web.app import create_app
from cdc_ops.web.local import local_app
from cdc_ops.web.view import PipelineInfo
from tests.browser import Tab, until
from tests.status_case import fill_ledger, fill_many

ORDERS = "pipeline=shop&name=shop.orders"
PAGES = {
    "list": "ui",
    "pipeline": "ui?pipeline=shop&sort=behind",
    "long list": "ui?pipeline=big",
    "table": f"table?{ORDERS}",
    "run": "run?pipeline=shop&run_id={run}",
    "file": "pipeline?name=shop",
    "forms": f"ask?{ORDERS}",
    "nothing found": "ui?q=none",
    "no file": "pipeline?name=clickstream",
    "no table": "table?pipeline=shop&name=shop.none",
    "no dag": "dag?dag_id=none",
    "no run": "run?pipeline=shop&run_id=none",
}
MAIN = ("list", "table", "file", "forms")
"""Pages that are looked at in a second way in any run of the tests."""

LOOKS = (("/airflow/cdc", "dark", 420), ("", "light", 1300), ("", "dark", 1300), ("/airflow/cdc", "light", 420))
CASES = tuple(
    pytest.param(name, *look, id=f"{name}-{look[1]}-{look[2]}", marks=pytest.mark.long if number > (name in MAIN) else ())
    for number, look in enumerate(LOOKS)
    for name in PAGES
)
QUICK = """
const later = window.setTimeout;
window.setTimeout = (what, wait) => later(what, Math.min(wait, 200));
"""
CLOCK = "document.querySelector('footer').innerText"
AXE = (files("axe_core_python") / "axe.min.js").read_text("utf-8")
IN_AIRFLOW = {
    "shop": PipelineInfo(every=timedelta(minutes=10), dag_ids=("cdc_shop", "cdc_shop_reconcile"), paused=True),
    "clickstream": PipelineInfo(),
    "big": PipelineInfo(dag_ids=("cdc_big",)),
}


@dataclass(frozen=True)
class Server:
    """Where the page is, and a run that it can show."""

    address: str
    run: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    ledger = fill_ledger(tmp_path_factory.mktemp("page") / "ledger.db")
    fill_many(ledger, "big", 250)
    orders = TableName.parse("shop.orders")
    with open_store(ledger) as store:
        for number, text in enumerate(("pipeline: shop\ntables:\n  shop.*: {}\n", "pipeline: shop\ntables:\n  shop.*: {cursor: id}\n")):
            store.note_pipeline_file("shop", text, f"manual__{number}")
        lease = store.acquire("shop", orders, "test", ttl=timedelta(minutes=5), live=True)
        store.report_gaps(lease, [Gap(stream="orders-0", low=(5,), high=(9,))])
        store.release(lease)
        now, asked = store.now(), Asked(decision=Decision.DELETES, deletes=500, rows=1000)
        question = ApprovalRecord(
            approval_id="1",
            pipeline="shop",
            table=orders,
            run_id="manual__1",
            asked=asked,
            text="Too many deletes.\nOf 1,000 rows.",
            asked_at=now,
            expires_at=now + timedelta(hours=1),
        )
        store.ask_approval(question)
        run = store.history("shop", TableName.parse("shop.payments"))[-1].run_id
    root = FastAPI()
    root.mount("/airflow/cdc", create_app(lambda: open_reader(ledger), visible_pipelines=lambda: IN_AIRFLOW))
    root.mount("/", local_app(lambda: open_reader(ledger)))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        served = uvicorn.Server(uvicorn.Config(root, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=lambda: served.run(sockets=[listener]))
        thread.start()
        yield Server(f"http://127.0.0.1:{listener.getsockname()[1]}", run)
        served.should_exit = True
        thread.join(30)


def broken_rules(tab: Tab) -> list[tuple[str, list[str]]]:
    """What axe complains of in the page as it is now."""
    tab.value(AXE)
    found = tab.call("Runtime.evaluate", expression="axe.run()", awaitPromise=True, returnByValue=True)["result"]["value"]
    assert len(found["passes"]) > 10
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found["violations"]]


def moved_on(tab: Tab, name: str) -> bool:
    """Lets the page change as it does by itself; False for one that stays as it is."""
    if tab.value("document.querySelector('form.run') !== null"):
        for form in range(tab.value("document.querySelectorAll('form.run').length")):
            this = f"document.querySelectorAll('form.run')[{form}]"
            tab.value(f"{this}.querySelectorAll('[required]').forEach(one => {{ one.checked = true; one.value = 'lost' }})")
            tab.value(f"{this}.querySelector('button').click()")
            until(tab, f"{this}.querySelector('.answer.bad')")
        tab.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
        return True
    if tab.value("document.getElementById('updates').hidden") or name in ("no table", "no dag"):
        return False
    before = tab.value(CLOCK)
    until(tab, f"{CLOCK} !== {before!r}")
    tab.value("document.querySelector('#updates button').click()")  # or it would change while it is looked at
    return True


def test_axe_finds_what_is_wrong(server: Server, tab: Tab) -> None:
    tab.open(f"{server.address}/ui?q=none")
    tab.value("document.querySelector('main').append(document.createElement('input'))")
    assert [rule for rule, _ in broken_rules(tab)] == ["label"]


@pytest.mark.parametrize(("name", "path", "scheme", "width"), CASES)
def test_a_page_breaks_no_rule_of_axe_as_it_is_loaded_and_when_it_has_changed_by_itself(
    server: Server, tab: Tab, name: str, path: str, scheme: str, width: int
) -> None:
    script = tab.call("Page.addScriptToEvaluateOnNewDocument", source=QUICK)["identifier"]
    try:
        tab.console.clear()
        tab.look(scheme=scheme, width=width)
        tab.open(f"{server.address}{path}/{PAGES[name].format(run=quote(server.run))}")
        assert tab.value("document.documentElement.scrollWidth <= innerWidth"), "wider than the window"
        assert broken_rules(tab) == []
        changes = moved_on(tab, name)
        assert changes is not (name in ("no table", "no dag") or (name == "forms" and not path))
        if changes:
            assert broken_rules(tab) == []
        assert not [text for text in tab.console if "Content Security Policy" in text or "Refused" in text]
    finally:
        tab.value("sessionStorage.clear()")
        tab.open("about:blank")
        tab.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
