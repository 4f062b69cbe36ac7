"""A pipeline is named in one way in all commands: as an argument or by --pipeline; and where one is needed, never guessed."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.cli.help_format import PANELS
from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.state.sql import open_store
from tests.state_values import ORDERS, PIPELINE, run, take

ON_SEVERAL = (
    *("validate", "check", "plan", "run", "verify", "reconcile", "register", "alerts"),
    *("state rebuild", "quarantine list"),
)
ON_ONE = (
    "backfill --since 2026-01-01T00:00:00Z --until 2026-01-02T00:00:00Z",
    "resync --mode full",
    "replay",
    "quarantine replay",
    "archive",
    "quarantine show a.json",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(tmp_path))
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", "mysql://cdc:x@127.0.0.1:1/shop")
    for name in ("shop", "crm"):
        pipeline(tmp_path, name)
    return tmp_path


def pipeline(folder: Path, name: str) -> None:
    text = "pipeline: {}\nsource: {{kind: mysql, connection: shop_db}}\ntarget: {{root: /lake, staging: /staging}}\n"
    text += "tables: {{shop.{}: {{cursor: updated_at}}}}\n"
    (folder / f"{name}.yaml").write_text(text.format(name, f"of_{name}"))


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(re.sub("[│╭╮╰╯]", " ", result.output).split())


def commands(group: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        yield from commands(command, f"{above}{name} ") if hasattr(command, "commands") else [(above + name, command)]


def test_whatever_has_the_option_has_the_argument_unless_it_has_another() -> None:
    others = {"changes", "as-of", "advise", "show", "view", "unlock", "gap accept", "quarantine show"}
    arguments = {
        name: [one.metavar for one in command.params if one.param_type_name == "argument"]
        for name, command in commands(typer.main.get_command(app))
        if any("--pipeline" in one.opts and "-p" in one.opts for one in command.params)
    }
    assert len(arguments) > 20
    assert {name for name, found in arguments.items() if found != ["PIPELINE"]} == others
    assert all(len(arguments[name]) == 1 for name in others)


@pytest.mark.parametrize(
    "command", ["validate", "check", "plan", "run", "verify", "reconcile", "register", "alerts", "state rebuild", "quarantine list"]
)
def test_commands_on_several_take_them_both_ways(folder: Path, command: str) -> None:
    code, text = call(*command.split(), "shop", "-p", "crmm")
    assert code == 2
    assert "Pipeline 'crmm' does not exist" in text
    assert "Did you mean 'crm'?" in text
    assert "Pipeline 'shopp' does not exist" in call(*command.split(), "shopp", "-p", "crm")[1]


def test_only_those_that_are_named_are_worked_on(folder: Path) -> None:
    assert [one["pipeline"] for one in json.loads(CliRunner().invoke(app, ["validate", "shop", "--json"]).stdout)] == ["shop"]
    both = CliRunner().invoke(app, ["validate", "shop", "-p", "crm", "-p", "shop", "--json"]).stdout
    assert [one["pipeline"] for one in json.loads(both)] == ["shop", "crm"]


@pytest.mark.parametrize("command", ON_ONE)
def test_a_command_on_one_pipeline_guesses_none_of_several_and_takes_the_only_one(folder: Path, command: str) -> None:
    words = command.split()
    code, text = call(*words)
    assert code == 2
    assert "No pipeline is named, and there are several. why: Pipelines are crm, shop." in text
    assert "next: Name one with --pipeline." in text
    assert not (folder / "ledger.db").exists()
    (folder / "crm.yaml").unlink()
    code, text = call(*words)
    assert "several" not in text
    assert code in (2, 3, 6)
    if words[0] != "quarantine" or words[1] == "replay":
        assert "Pipeline 'shopp' does not exist" in call(*words, "shopp")[1]
        code, text = call(*words, "shop", "-p", "crm")
        assert (code, "two are named: shop and crm" in text) == (2, True)
        assert "two are named" not in call(*words, "shop", "-p", "shop")[1]


@pytest.mark.parametrize("command", ["status", "metrics", "runs", "gap list"])
def test_a_pipeline_that_the_ledger_does_not_know_is_no_empty_answer(folder: Path, command: str) -> None:
    with open_store(f"sqlite:///{folder / 'ledger.db'}") as store:
        store.record(run("run-1"))
    for words in (("shopp",), ("-p", "shopp")):
        code, text = call(*command.split(), *words)
        assert code == 2
        assert "The ledger has no table of a pipeline 'shopp'. why: Did you mean 'shop'?" in text
    assert call(*command.split(), PIPELINE)[0] == 0


def test_a_gap_is_accepted_for_the_only_pipeline_that_has_it(folder: Path) -> None:
    found = Gap(stream="orders/0", low=(10,), high=(20,))
    with open_store(f"sqlite:///{folder / 'ledger.db'}") as store:
        [record] = store.report_gaps(take(store), [found])
    code, text = call("gap", "accept", "other", "--why", "x")
    assert (code, f"No pipeline has an open gap 'other'. why: Open gaps are: {record.gap_id}." in text) == (2, True)
    with open_store(f"sqlite:///{folder / 'ledger.db'}") as store:
        store.report_gaps(store.acquire("crm", ORDERS, "a", ttl=timedelta(minutes=1), live=True), [found])
    code, text = call("gap", "accept", record.gap_id, "--why", "x")
    assert (code, "Several pipelines have the gap" in text and "crm, shop" in text) == (2, True)
    assert call("gap", "accept", record.gap_id, "--why", "x", "-p", "crm")[0] == 0
    code, text = call("gap", "accept", record.gap_id, "--why", "x", "-p", PIPELINE)
    assert (code, text.count("accepted")) == (0, 1)


@pytest.mark.parametrize("words", [(), ("run",), ("gap",), ("gap", "accept"), ("formats", "show"), ("import-sqoop",)])
def test_h_is_help(words: tuple[str, ...]) -> None:
    short, long = call(*words, "-h"), call(*words, "--help")
    assert short == long
    assert short[0] == 0
    assert "-h Show this message and exit." in short[1]


def test_the_help_has_every_command_in_a_panel() -> None:
    known = [name for names in PANELS.values() for name in names]
    assert list(typer.main.get_command(app).commands) == known  # type: ignore[attr-defined]
    text = call("-h")[1]
    places = [text.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)


def completed(words: str) -> list[str]:
    result = CliRunner().invoke(
        app,
        env={"_CDC_OPS_COMPLETE": "complete_bash", "COMP_WORDS": f"cdc-ops {words}", "COMP_CWORD": str(len(words.split(" ")))},
        prog_name="cdc-ops",
    )
    assert result.stderr == ""
    return result.stdout.split()


def test_a_shell_completes_pipelines_and_tables_and_is_not_disturbed_by_files_that_are_wrong(folder: Path) -> None:
    assert completed("plan ") == ["crm", "shop"]
    assert completed("resync --mode full -p s") == ["shop"]
    assert completed("show shop.") == ["shop.of_crm", "shop.of_shop"]
    assert completed("run shop --table ") == ["shop.of_shop"]
    assert completed("docs rec") == ["recover"]
    (folder / "crm.yaml").write_text("pipeline: {")
    assert completed("plan ") == ["shop"]
    assert completed("plan --pipelines /nowhere ") == []
