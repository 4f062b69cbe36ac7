"""`cdc-ops unlock`: who holds a table is said, somebody is asked, and the lease is gone."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cdc_ops.cli import app
from cdc_ops.cli import confirmation as module
from cdc_ops.state.lease import Lease
from cdc_ops.state.sql import open_store
from tests.state_values import ORDERS, PIPELINE, run

HOLDER = "airflow:cdc_shop:run-1"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    monkeypatch.setenv("CDC_OPS_LEDGER", url)
    with open_store(url) as store:
        store.acquire(PIPELINE, ORDERS, HOLDER, ttl=timedelta(minutes=5), live=True, purpose="increment")
        store.record(run("run-1"))
    return url


def lease(url: str) -> Lease | None:
    with open_store(url) as store:
        return store.lease(PIPELINE, ORDERS)


def unlock(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["unlock", str(ORDERS), *arguments], input=answer)


def test_it_says_who_holds_the_table_since_when_and_what_it_risks_and_takes_the_lease(url: str) -> None:
    done = unlock("--yes")
    assert done.exit_code == 0, done.output
    with open_store(url) as store:
        [line] = store.history(PIPELINE, ORDERS)
    said = done.stderr
    assert f"held by {HOLDER} for increment since {line.timing.started_at:%Y-%m-%d %H:%M:%S} UTC, until " in said
    assert "No row is lost or duplicated" in said
    assert "is free" in done.stdout
    assert lease(url) is None
    again = unlock("--yes")
    assert (again.exit_code, "is not locked" in again.stdout) == (0, True)


def test_without_a_terminal_and_without_yes_nothing_is_taken(url: str) -> None:
    for arguments in ((), ("--json",)):
        refused = unlock(*arguments)
        assert refused.exit_code == 2
        assert "--yes" in refused.output
        assert refused.output.count(HOLDER) == 1
        assert refused.output.count("No row is lost or duplicated") == 1
        assert lease(url) is not None


def test_on_a_terminal_somebody_is_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_terminal", lambda: True)
    kept = unlock(answer="n\n")
    assert "Remove the lease?" in kept.output
    assert (kept.exit_code, lease(url) is not None) == (0, True)
    assert unlock(answer="y\n").exit_code == 0
    assert lease(url) is None


def test_its_json_is_one_document(url: str) -> None:
    told = json.loads(unlock("--yes", "--json").stdout)
    assert (told["unlocked"], told["lease"]["holder"], told["pipeline"]) == (True, HOLDER, PIPELINE)
    assert lease(url) is None


def test_an_unknown_table_and_one_of_two_pipelines_are_refused(url: str) -> None:
    unknown = CliRunner().invoke(app, ["unlock", "shop.order", "--yes"])
    assert (unknown.exit_code, str(ORDERS) in unknown.output) == (2, True)
    with open_store(url) as store:
        store.acquire("other", ORDERS, "x", ttl=timedelta(minutes=5), live=True)
    both = unlock("--yes")
    assert (both.exit_code, "--pipeline" in both.output) == (2, True)
    assert unlock("--yes", "--pipeline", PIPELINE).exit_code == 0
    assert lease(url) is None
