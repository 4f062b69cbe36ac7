"""`cdc-ops gap list | accept`, on a ledger in which a survey found a gap."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.sql import open_store
from tests.state_values import PIPELINE, take


@pytest.fixture
def gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    monkeypatch.setenv("CDC_OPS_LEDGER", url)
    found = Gap(stream="orders/0", low=(10,), high=(20,), after_file="a.json", before_file="b.json")
    with open_store(url) as store:
        (record,) = store.report_gaps(take(store), [found])
    return record.gap_id


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["gap", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_a_gap_is_shown_with_its_range_and_the_files_beside_it(gap: str) -> None:
    code, text = run("list")
    assert code == 0
    for part in (gap, "open", "shop.orders", "orders/0: 10 up to, not including, 20 (after a.json, before b.json)"):
        assert part in text
    assert run("list", PIPELINE) == (0, text)
    assert run("list", "-p", "another")[0] == 2


def test_accepting_a_gap_is_remembered_with_who_and_why(gap: str) -> None:
    code, _ = run("accept", gap, "-p", PIPELINE, "--why", "the topic had expired", "--who", "ops")
    assert code == 0
    (shown,) = json.loads(run("list", "--json")[1])
    assert (shown["name"], shown["status"], shown["decision"]["who"], shown["decision"]["why"]) == (
        gap, "accepted", "ops", "the topic had expired",
    )  # fmt: skip


def test_a_gap_that_is_not_there_or_a_missing_reason_is_refused(gap: str) -> None:
    assert run("accept", "other", "-p", PIPELINE, "--why", "x")[0] == 2
    code, text = run("accept", gap, "-p", PIPELINE, "--why", " ", "--json")
    assert code == 2
    assert "needs a reason" in json.loads(text)["error"]["what"]


def test_tables_that_share_a_stream_are_accepted_together_or_one_by_one(gap: str, tmp_path: Path) -> None:
    other = TableName(schema="shop", name="other")
    with open_store(f"sqlite:///{tmp_path / 'ledger.db'}") as store:
        store.report_gaps(take(store, table=other), [Gap(stream="orders/0", low=(10,), high=(20,))])
    code, text = run("accept", gap, "-p", PIPELINE, "--why", "expired", "--table", "shop.other", "--json")
    assert (code, [one["table"]["name"] for one in json.loads(text)]) == (0, ["other"])
    code, text = run("accept", gap, "-p", PIPELINE, "--why", "expired")
    assert (code, text.count("accepted")) == (0, 2)
    assert run("accept", gap, "-p", PIPELINE, "--why", "expired", "--table", "nothing")[0] == 2
