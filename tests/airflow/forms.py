"""Airflow's own dialogs *Trigger* and *Run Backfill* in the browser, filled in and sent as a person does it: by mouse and keyboard."""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime

from tests.airflow.live_airflow import LiveAirflow
from tests.browser import Tab, pressed, typed, until

SECTION = "Read again (the watermark stays)"
DIALOG = "[...document.querySelectorAll('[role=dialog]')].find(one => one.querySelector('[name=element_dry_run]'))"
SENT = "!document.querySelector('[name=element_dry_run]')"
TIME = "document.querySelector('input[placeholder=\"HH:mm\"]')"
UNTOUCHED = "[...document.querySelectorAll('[data-testid=datetime-input]')].find(one => one.innerText === 'Select date and time')"


def logged_in(tab: Tab, airflow: LiveAirflow, user: str) -> None:
    """Logs somebody in by the form, from a page that asks the server nothing: one that does leads back to itself without its cookie."""
    tab.open("about:blank")
    tab.call("Network.clearBrowserCookies")
    tab.look(height=1500)
    tab.open(f"{airflow.address}/auth/login")
    typed(tab, "input[name=username]", user)
    typed(tab, "input[name=password]", airflow.passwords[user])
    pressed(tab, "Sign in")
    until(tab, "!document.querySelector('input[name=password]')")


def clicked(tab: Tab, element: str) -> None:
    """Clicks into the middle of an element, by the mouse, once it no longer moves: parts of a form slide open."""
    until(tab, element)
    before: list[float] = []
    while (place := _middle(tab, element)) != before:
        before = place
        time.sleep(0.2)
    for kind in ("mousePressed", "mouseReleased"):
        tab.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)


def _middle(tab: Tab, element: str) -> list[float]:
    tab.value(f"{element}.scrollIntoView({{block: 'center'}})")
    box = f"{element}.getBoundingClientRect()"
    return list(tab.value(f"(box => [box.x + box.width / 2, box.y + box.height / 2])({box})"))


def chosen(tab: Tab, instant: datetime) -> None:
    """Fills in the first field for date and time that is empty."""
    clicked(tab, UNTOUCHED)
    typed(tab, 'input[placeholder="YYYY/MM/DD"]', f"{instant:%Y/%m/%d}")
    until(tab, f"{TIME}.value")  # the form fills it in
    tab.value(f"{TIME}.select()")
    typed(tab, 'input[placeholder="HH:mm"]', f"{instant:%H:%M}")
    until(tab, f"document.body.innerText.includes('{instant:%b} {instant.day:02}, {instant.year} {instant:%H:%M}')")
    clicked(tab, f"{DIALOG}.querySelector('h2, [data-part=title], header')")
    until(tab, f"!{TIME}")


def opened(tab: Tab, airflow: LiveAirflow, dag_id: str) -> None:
    """Opens the dialog of a DAG, by the button on its page."""
    tab.open(f"{airflow.address}/dags/{dag_id}")
    pressed(tab, "Trigger")
    until(tab, f"{DIALOG}.innerText.includes('Run Parameters')")


def triggered(
    tab: Tab,
    airflow: LiveAirflow,
    dag_id: str,
    *,
    mode: str = "",
    tables: Iterable[str] = (),
    switches: Iterable[str] = (),
    instants: Iterable[datetime] = (),
    texts: Mapping[str, str] | None = None,
    choices: Mapping[str, str] | None = None,
) -> str:
    """Fills in the form of a DAG, presses *Trigger*, and returns the id of the run that this makes."""
    before = {run.run_id for run in airflow.runs(dag_id)}
    opened(tab, airflow, dag_id)
    if mode:
        typed(tab, "#element_mode input", f"{mode}:", choose=True)
        until(tab, f"document.querySelector('[name=element_mode]').value === '{mode}'")
    for table in tables:
        typed(tab, "#element_tables input", table, choose=True)
    for name in switches:
        clicked(tab, f"document.querySelector('[name=element_{name}]').parentElement")
        until(tab, f"document.querySelector('[name=element_{name}]').checked")
    if instants or texts or choices:
        clicked(tab, f"[...document.querySelectorAll('button')].find(one => one.innerText.trim() === '{SECTION}')")
    for instant in instants:
        chosen(tab, instant)
    for name, text in (texts or {}).items():
        typed(tab, f"#element_{name}", text)
    for name, value in (choices or {}).items():
        typed(tab, f"#element_{name} input", f"{value}:", choose=True)
    _sent(tab, "Trigger")
    [made] = airflow.wait_until(
        lambda: [run for run in airflow.runs(dag_id) if run.run_id not in before and run.kind == "manual"], f"a run of {dag_id}"
    )
    return str(made.run_id)


def backfilled(tab: Tab, airflow: LiveAirflow, dag_id: str, first: datetime, last: datetime) -> None:
    """Chooses a range of dates in the dialog of a DAG, and presses *Run Backfill*."""
    opened(tab, airflow, dag_id)
    clicked(tab, f"{DIALOG}.querySelector('input[value=backfill]').parentElement")
    for instant in (first, last):
        chosen(tab, instant)
    _sent(tab, "Run Backfill")


def offers_backfills(tab: Tab, airflow: LiveAirflow, dag_id: str) -> bool:
    """True if the dialog of a DAG lets a person choose a backfill."""
    opened(tab, airflow, dag_id)
    return not tab.value(f"{DIALOG}.querySelector('input[value=backfill]').disabled")


def _sent(tab: Tab, button: str) -> None:
    """Presses the dialog's own button, the last one of its name, waits until the dialog is gone, and leaves the page."""
    last = f"[...document.querySelectorAll('button')].findLast(one => one.innerText.trim() === '{button}')"
    until(tab, f"{last} && !{last}.disabled")
    clicked(tab, last)
    until(tab, SENT)
    tab.open("about:blank")
