"""Ctrl-C and SIGTERM for real processes whose main thread does not hear them, and what is said of a run that was ended."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_ops.cli.output.stopped import print_stopped_run
from cdc_ops.cli.session import LocalSpark
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, NullKeyError, RunStoppedError, Stopped
from cdc_ops.lake.spark.jvm.jvm_log import JvmLog
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.runs import run
from cdc_ops.steps.runs.run import RunReport
from cdc_ops.steps.runs.table_groups import TableFailure
from tests.alert_case import write_file
from tests.operations import made

PATIENCE = 60
NOW = datetime(2026, 1, 31, tzinfo=UTC)
BUSY = """
import sqlite3, sys, threading, time
from datetime import timedelta
from cdc_ops.cli import stopping
from cdc_ops.cli.output import render

stopping.LIMIT = {limit}
held, other = sqlite3.connect("ledger.db"), sqlite3.connect("ledger.db", timeout=600)
held.execute("BEGIN IMMEDIATE")
with stopping.handled(render.print_error):
    stopping.shows(as_json={as_json})
    stopping.takes_leases(timedelta(minutes=5))
    threading.Timer(0.3, print, ["begun"], {{"file": sys.stderr, "flush": True}}).start()
    {work}
"""
DEAF = 'other.execute("BEGIN IMMEDIATE")  # SQLite waits for the lock and does not come back for a signal'


def begun(folder: Path, work: str = DEAF, *, limit: float, as_json: bool = False) -> "subprocess.Popen[str]":
    """A process that is at work, in a session of its own."""
    script = BUSY.format(limit=limit, as_json=as_json, work=work)
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    return process


@pytest.fixture(autouse=True)
def ctrl_c_is_heard() -> None:
    """A shell starts what works in the background without Ctrl-C, and so would be what is started here."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_main_thread_that_hears_no_signal_does_not_keep_the_process_and_the_document_says_when_its_leases_end(tmp_path: Path) -> None:
    process = begun(tmp_path, limit=0.5, as_json=True)
    os.killpg(process.pid, signal.SIGTERM)
    out, told = process.communicate(timeout=PATIENCE)
    assert (process.returncode, told) == (143, ""), told
    error = json.loads(out)["error"]
    assert error["error"] == "RunStoppedError"
    assert error["what"].startswith("SIGTERM stopped the command before it was through. What it waited for did not end within")
    assert "they run out by 20" in error["data"]


def test_a_second_ctrl_c_ends_the_process_at_once_and_one_that_comes_with_the_first_does_not(tmp_path: Path) -> None:
    process = begun(tmp_path, limit=600)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as `timeout` and other wrappers do
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    os.killpg(process.pid, signal.SIGINT)
    out, told = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, ""), told
    assert "Ctrl-C stopped the command before it was through. A second Ctrl-C ended it at once." in told


def test_a_thread_that_works_on_does_not_keep_the_process(tmp_path: Path) -> None:
    process = begun(tmp_path, "threading.Thread(target=time.sleep, args=(600,)).start(); time.sleep(600)", limit=600)
    os.killpg(process.pid, signal.SIGINT)
    out, told = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, ""), told
    assert told.startswith("RunStoppedError: Ctrl-C stopped the command before it was through.\n  data: What is committed stays.\n"), told
    assert "Traceback" not in told


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def test_ctrl_c_ends_a_plan_that_waits_for_its_source(tmp_path: Path, silent: int) -> None:
    places = {"CDC_OPS_PIPELINES": str(write_file(tmp_path, "  {}")), "CDC_OPS_LEDGER": f"sqlite:///{tmp_path}/ledger.db"}
    process = subprocess.Popen(
        [sys.executable, "-m", "cdc_ops.cli", "plan", "--json"],
        env={**os.environ, **places, "CDC_OPS_CONN_SHOP_DB": f"mysql://u:p@127.0.0.1:{silent}/shop"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "ledger.db").exists():
        assert time.monotonic() < deadline, "it never began"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, told = process.communicate(timeout=PATIENCE)
    assert (process.returncode, told) == (130, "")
    error = json.loads(out)["error"]
    assert (error["error"], error["data"], error["next"]) == ("RunStoppedError", "Nothing was written.", "cdc-ops plan --json")


def config(name: str) -> TableConfig:
    return TableConfig(pipeline="shop", table=TableName(schema="shop", name=name), settings=TableSettings(), path=f"/lake/{name}")


def line(name: str, status: TableRunStatus) -> TableRun:
    parts = {"run_id": "r", "trigger": "cli", "kind": OperationKind.INCREMENT, "started_at": NOW}
    return made(TableRun, pipeline="shop", table=config(name).table, status=status, **parts)


def failed(name: str, error: CdcError) -> TableFailure:
    return TableFailure(config=config(name), error=error)


def test_a_run_that_was_ended_says_what_it_has_committed_what_not_and_what_comes_next(capsys: pytest.CaptureFixture[str]) -> None:
    planned = RunStoppedError("x", data="What is left is planned, and the next run finishes it.")
    report = RunReport(
        runs=(line("orders", TableRunStatus.COMMITTED), line("items", TableRunStatus.FAILED), line("wrong", TableRunStatus.FAILED)),
        failures=(failed("items", planned), failed("wrong", NullKeyError("shop.wrong has NULL in its key."))),
        stopped_by="Ctrl-C",
        not_begun=(config("a").table, config("b").table),
    )
    print_stopped_run("shop", report, ["crm"], "cdc-ops run")
    told = capsys.readouterr().err.splitlines()
    assert told[-2:] == [
        "Stopped by Ctrl-C: shop.orders was committed; shop.items was not: what is left is planned, and the next run finishes it;"
        " shop.a and shop.b were not begun; pipeline crm was not begun.",
        "Next: cdc-ops run",
    ]
    assert "NullKeyError: shop.wrong has NULL in its key." in told
    assert not [text for text in told if text.startswith("RunStoppedError")]


def test_a_table_whose_lease_is_not_given_back_is_not_said_to_be_uncommitted(capsys: pytest.CaptureFixture[str]) -> None:
    kept = RunStoppedError("x", held_until=NOW, data="Its lease runs out at 2026-01-31 00:00:00 UTC.")
    report = RunReport(runs=(), failures=(failed("items", kept),), stopped_by="SIGTERM")
    print_stopped_run("shop", report, [], "cdc-ops run")
    assert capsys.readouterr().err.splitlines() == [
        "Stopped by SIGTERM: it is not known whether shop.items was committed: its lease runs out at 2026-01-31 00:00:00 UTC.",
        "Next: cdc-ops run",
    ]


def test_a_run_that_was_ended_before_its_first_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_stopped_run("shop", RunReport(runs=(), failures=(), stopped_by="SIGTERM"), [], "cdc-ops run")
    assert capsys.readouterr().err == "Stopped by SIGTERM: no table of pipeline shop was begun.\nNext: cdc-ops run\n"


@pytest.mark.parametrize(
    ("connect", "has_ended", "may_commit"),
    [("", True, False), ("", False, True), ("sc://127.0.0.1:15002", True, True)],
    ids=["the JVM has ended", "the JVM may live", "a Spark server lives on"],
)
def test_only_the_certain_end_of_the_jvm_lets_leases_be_given_back(
    monkeypatch: pytest.MonkeyPatch, connect: str, has_ended: bool, may_commit: bool
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalSpark, "session", lambda self, *, small: None)
    monkeypatch.setattr("cdc_ops.cli.session.connection_url", lambda name: "")
    monkeypatch.setattr("cdc_ops.jobs.execute", interrupted)
    monkeypatch.setattr(JvmLog, "quit_jvm", lambda patience: has_ended)
    spark = LocalSpark(cast(Any, SimpleNamespace(spark=SimpleNamespace(connect=connect))))
    job = SimpleNamespace(small=True, source=SimpleNamespace(connection="shop_db", snapshot_connection=""))
    with pytest.raises(Stopped) as caught:
        spark.execute(cast(Any, job))
    assert caught.value.may_commit is may_commit


@pytest.mark.parametrize("may_commit", [False, True])
def test_upkeep_that_was_ended_gives_its_leases_back_unless_it_may_still_commit(
    monkeypatch: pytest.MonkeyPatch, *, may_commit: bool
) -> None:
    def stopped(_: Any) -> Any:
        raise Stopped("SIGTERM", may_commit=may_commit)

    released = list[str]()
    monkeypatch.setattr(run, "due_maintenance", lambda *_: ())
    monkeypatch.setattr(run, "lease_maintenance", lambda *_: [("a task", "its lease")])
    monkeypatch.setattr(run, "maintenance_job", lambda *_: None)
    monkeypatch.setattr(run, "LeaseKeeper", lambda *_: nullcontext())
    context = SimpleNamespace(store=SimpleNamespace(release=released.append), lease_ttl=None)
    with pytest.raises(Stopped):
        run._maintain(cast(Any, context), cast(Any, None), (), stopped)
    assert released == ([] if may_commit else ["its lease"])
