"""`cdc-ops runs`: the last runs by the ledger, and those of one table, in a narrow terminal too."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.cli.output import render
from cdc_ops.cli.output.runs import print_history, print_runs
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.sql import open_store
from cdc_ops.state.table_run import RunSummary, TableRun, TableRunStatus
from tests.operations import changed
from tests.state_values import NOON, ORDERS, PIPELINE, run

NAMES = ("items", "a_name_of_sixty_four_characters_which_is_what_mysql_allows_them_", "注文")
TABLES = tuple(TableName(schema="shop", name=name) for name in NAMES)
AIRFLOWS = "scheduled__2026-11-26T10:00:00.123456+00:00"


def line(run_id: str, minute: int, table: TableName = ORDERS, **parts: object) -> TableRun:
    begun = NOON + timedelta(minutes=minute)
    return changed(run(run_id, begun, table=table), **{"finished_at": begun + timedelta(seconds=90), **parts})


LINES = (
    line("first", 0),
    line("first", 1, TABLES[0], counts=Counts(read=1_234_567, inserted=1_000_000, updated=234_560, deleted=7)),
    *(line(AIRFLOWS, 10, table, status=TableRunStatus.FAILED, message="The JVM died.", counts=Counts()) for table in (ORDERS, *TABLES)),
    line("third", 20, status=TableRunStatus.IDLE, message="no row in [a, b)", counts=Counts()),
    line("third", 21, TABLES[0], status=TableRunStatus.MERGED, finished_at=None),
)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    monkeypatch.setenv("CDC_OPS_LEDGER", url)
    with open_store(url) as store:
        for one in LINES:
            store.record(one)
        store.record(changed(run("of crm", NOON - timedelta(days=1), pipeline="crm"), finished_at=NOON))
    return url


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["runs", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_each_run_has_its_time_its_tables_by_how_they_fared_and_its_rows(ledger: str) -> None:
    code, text = call("--json")
    assert code == 0
    third, failed, first, other = json.loads(text)
    assert [one["run"] for one in (third, failed, first, other)] == ["third", AIRFLOWS, "first", "of crm"]
    assert (first["trigger"], first["started_at"], first["finished_at"]) == (
        *("scheduled", NOON.isoformat()),
        (NOON + timedelta(minutes=2, seconds=30)).isoformat(),
    )
    assert first["rows"] == {"read": 1_234_569, "inserted": 1_000_001, "updated": 234_560, "deleted": 7}
    assert {status: tables for status, tables in third["tables"].items() if tables} == {"idle": ["shop.orders"], "merged": ["shop.items"]}
    assert third["kinds"] == ["increment"]
    assert third["finished_at"] is None, "a table is at work"
    assert len(failed["tables"]["failed"]) == 4
    assert other["pipeline"] == "crm"


def test_limit_and_pipeline_narrow_them(ledger: str) -> None:
    assert [one["run"] for one in json.loads(call("--limit", "2", "--json")[1])] == ["third", AIRFLOWS]
    assert [one["run"] for one in json.loads(call("crm", "--json")[1])] == ["of crm"]
    assert call("--limit", "0")[0] == 2


def test_one_table_has_its_own_lines_and_what_they_said(ledger: str) -> None:
    found = json.loads(call(PIPELINE, "--table", "shop.orders", "--json")[1])
    assert [(one["run_id"], one["status"]) for one in found] == [("third", "idle"), (AIRFLOWS, "failed"), ("first", "committed")]
    code, text = call("-t", "shop.orders")
    assert code == 0
    assert "The JVM died." in text
    assert text.count("Runs, shop.orders of pipeline") == 2, "two pipelines have it"
    code, text = call(PIPELINE, "--table", "shop.order")
    assert (code, "Did you mean 'shop.orders'?" in text) == (2, True)


def test_the_command_that_is_shown_for_failures_says_why(ledger: str) -> None:
    [shown] = [one for one in call()[1].splitlines() if one.startswith("Why: cdc-ops runs ")]
    assert "The JVM died." in call(*shown.removeprefix("Why: cdc-ops runs ").split())[1]


def test_a_ledger_without_runs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path / 'new.db'}")
    assert call()[0] == 2
    open_store(f"sqlite:///{tmp_path / 'new.db'}").close()
    assert call() == (0, "The ledger has no runs yet. Next: cdc-ops run\n")


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_longer_than_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    text = StringIO()
    monkeypatch.setattr(render, "out", Console(file=text, width=width, force_terminal=True, color_system=None))
    by_run = {one.run_id: tuple(other for other in LINES if other.run_id == one.run_id) for one in reversed(LINES)}
    print_runs([RunSummary(lines=lines) for lines in by_run.values()])
    print_history([one for one in LINES if one.table == ORDERS])
    lines = text.getvalue().splitlines()
    assert [one for one in lines if cell_len(one) > width] == []
    for word in ("first", AIRFLOWS, "1,234,569", "committed", "failed: shop.orders, shop.items,", "and 1 more"):
        assert any(word in one for one in lines), f"{word}:\n{text.getvalue()}"
