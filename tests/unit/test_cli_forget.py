"""`cdc-ops forget`: a pipeline that no file has any more leaves the ledger; one that a file has does not."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cdc_ops.cli import app
from cdc_ops.state.sql import open_store
from tests.state_values import ORDERS, PIPELINE, run, take

FILE = """
pipeline: {name}
source: {{kind: mariadb, connection: shop_db}}
target: {{root: /lake, staging: /staging}}
tables: {{shop.orders: {{cursor: id}}}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(folder))
    with open_store(f"sqlite:///{tmp_path / 'ledger.db'}") as store:
        store.record(run("run-1"))
        store.record(run("run-1", pipeline="kept"))
    return folder


def pipelines(folder: Path) -> tuple[str, ...]:
    with open_store(f"sqlite:///{folder.parent / 'ledger.db'}") as store:
        return store.pipelines()


def forget(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["forget", *arguments], input=answer)


def test_a_pipeline_whose_file_is_gone_is_forgotten_and_its_delta_tables_stay(folder: Path) -> None:
    done = forget(PIPELINE, "--yes")
    assert done.exit_code == 0, done.output
    assert f"has forgotten {PIPELINE}: 1 table. Its Delta tables stay as they are" in done.stdout
    assert pipelines(folder) == ("kept",)


def test_a_pipeline_that_a_file_has_is_not_forgotten(folder: Path) -> None:
    (folder / "other name.yaml").write_text(FILE.format(name=PIPELINE))
    refused = forget(PIPELINE, "--yes")
    assert refused.exit_code == 2
    assert "other name.yaml" in refused.output
    assert PIPELINE in pipelines(folder)


def test_while_a_file_is_wrong_nobody_knows_whose_it_is(folder: Path) -> None:
    (folder / "torn.yaml").write_text("pipeline: [")
    assert forget(PIPELINE, "--yes").exit_code == 2
    assert PIPELINE in pipelines(folder)


def test_somebody_is_asked_or_says_yes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ((), ("--json",)):
        refused = forget(PIPELINE, *arguments)
        assert (refused.exit_code, "--yes" in refused.output) == (2, True)
    monkeypatch.setattr("cdc_ops.cli.confirmation.has_terminal", lambda: True)
    assert forget(PIPELINE, answer="n\n").exit_code == 0
    assert PIPELINE in pipelines(folder)
    assert forget(PIPELINE, answer="y\n").exit_code == 0
    assert pipelines(folder) == ("kept",)


def test_a_name_that_the_ledger_does_not_know_is_an_error_with_the_nearest_one(folder: Path) -> None:
    refused = forget("kpet", "--yes")
    assert (refused.exit_code, "kept" in refused.output) == (2, True)


def test_a_pipeline_whose_table_a_run_holds_is_not_forgotten(folder: Path) -> None:
    with open_store(f"sqlite:///{folder.parent / 'ledger.db'}") as store:
        take(store, "a run")
    refused = forget(PIPELINE, "--yes")
    assert (refused.exit_code, f"{ORDERS} of pipeline" in refused.output) == (6, True)
    assert PIPELINE in pipelines(folder)


def test_its_json_is_one_document(folder: Path) -> None:
    told = json.loads(forget(PIPELINE, "--yes", "--json").stdout)
    assert told == {"pipeline": PIPELINE, "forgotten": True, "tables": [str(ORDERS)]}
