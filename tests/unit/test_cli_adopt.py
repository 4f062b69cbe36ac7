"""`cdc-ops adopt` at the terminal: what it refuses, what it asks, what it says. Rows: tests/integration/test_adopt.py."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cdc_ops.cli import app
from cdc_ops.state.sql import open_store
from tests.state_values import ORDERS, PIPELINE, TTL, fresh, make_operation, run, take
from tests.unit.test_cli_forget import pipelines

FILE = """
pipeline: {name}
source: {{kind: mariadb, connection: shop_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
tables: {{{table}: {{cursor: id}}}}
"""
NEW = "webshop"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pipeline files in which `shop` is `webshop` now; the ledger still has it under its old name, with a first load that was planned."""
    folder = tmp_path / "pipelines"
    folder.mkdir()
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(folder))
    write(folder, NEW)
    with open_store(f"sqlite:///{tmp_path / 'ledger.db'}") as store:
        lease = take(store)
        store.freeze(lease, fresh(), (make_operation(1),))
        store.release(lease)
        store.record(run("run-1"))
    return folder


def write(folder: Path, name: str, table: str = str(ORDERS)) -> None:
    (folder / f"{name}.yaml").write_text(FILE.format(name=name, folder=folder.parent, table=table))


def adopt(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["adopt", *arguments], input=answer)


def test_tables_go_to_the_new_name_and_what_was_planned_is_named(folder: Path) -> None:
    done = adopt(NEW, "--from", PIPELINE, "--yes")
    assert done.exit_code == 0, done.output
    assert f"{NEW} has taken over 1 table of {PIPELINE}. Given up, because it was planned and not committed: 1 operation." in done.stdout
    assert pipelines(folder) == (NEW,)
    with open_store(f"sqlite:///{folder.parent / 'ledger.db'}") as store:
        assert store.table_state(NEW, ORDERS).op_seq == 1  # the number that was drawn is not drawn again


def test_its_json_is_one_document(folder: Path) -> None:
    told = json.loads(adopt(NEW, "--from", PIPELINE, "--yes", "--json").stdout)
    assert told == {"pipeline": NEW, "from": PIPELINE, "tables": [{"table": str(ORDERS), "op_seq": 1, "given_up": 1}]}
    assert pipelines(folder) == (NEW,)


def test_a_pipeline_that_a_file_has_keeps_its_tables(folder: Path) -> None:
    write(folder, PIPELINE)
    refused = adopt(NEW, "--from", PIPELINE, "--yes")
    assert (refused.exit_code, f"{PIPELINE}.yaml" in refused.output, f"pipeline: {NEW}" in refused.output) == (2, True, True)
    assert pipelines(folder) == (PIPELINE,)


def test_a_name_that_nobody_knows_is_an_error(folder: Path) -> None:
    assert adopt(NEW, "--from", "shpo", "--yes").exit_code == 2
    unknown = adopt("webshp", "--from", PIPELINE, "--yes")
    assert (unknown.exit_code, NEW in unknown.output) == (2, True)
    assert pipelines(folder) == (PIPELINE,)


def test_tables_that_the_new_file_lacks_stay_the_old_ones(folder: Path) -> None:
    write(folder, NEW, "shop.customers")
    refused = adopt(NEW, "--from", PIPELINE, "--yes")
    assert (refused.exit_code, str(ORDERS) in refused.output, f"cdc-ops forget {PIPELINE}" in refused.output) == (2, True, True)
    assert pipelines(folder) == (PIPELINE,)


def test_a_table_that_a_run_holds_is_not_taken(folder: Path) -> None:
    with open_store(f"sqlite:///{folder.parent / 'ledger.db'}") as store:
        store.acquire(PIPELINE, ORDERS, "a run", ttl=TTL, live=True)
    held = adopt(NEW, "--from", PIPELINE, "--yes")
    assert (held.exit_code, "held by a run" in held.output) == (6, True)
    assert pipelines(folder) == (PIPELINE,)


def test_somebody_is_asked_or_says_yes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = adopt(NEW, "--from", PIPELINE)
    assert (refused.exit_code, "--yes" in refused.output) == (2, True)
    monkeypatch.setattr("cdc_ops.cli.confirmation.has_terminal", lambda: True)
    assert adopt(NEW, "--from", PIPELINE, answer="n\n").exit_code == 0
    assert pipelines(folder) == (PIPELINE,)
    assert adopt(NEW, "--from", PIPELINE, answer="y\n").exit_code == 0
    assert pipelines(folder) == (NEW,)
