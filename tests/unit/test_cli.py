"""The command line: help, reference, exit codes and errors; nothing here starts Spark or a server."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cdc_ops import errors
from cdc_ops.cli import app
from cdc_ops.cli.commands import pipelines
from cdc_ops.cli.commands.pipelines import exit_code
from cdc_ops.cli.reference import reference_markdown
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError
from cdc_ops.steps.recover import Rebuilt
from cdc_ops.steps.runs.run import RunReport
from cdc_ops.steps.runs.table_groups import TableFailure
from tests.declared_world import MAXWELL

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = """
pipeline: shop
source: {kind: mysql, connection: shop_db}
target: {root: /lake, staging: /staging}
tables:
  shop.orders: {cursor: updated_at}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(tmp_path))
    monkeypatch.delenv("CDC_OPS_CONN_SHOP_DB", raising=False)
    (tmp_path / "shop.yaml").write_text(PIPELINE)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_the_committed_reference_is_what_the_commands_say() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    assert text == reference_markdown(), "run: python -m cdc_ops.cli.reference > docs/cli.md"


def test_the_list_of_commands_has_every_command_of_the_application_and_its_section() -> None:
    def names(group: Any, above: str) -> Iterator[str]:
        for name, command in group.commands.items():
            yield from names(command, f"{above} {name}") if hasattr(command, "commands") else (f"{above} {name}",)

    text = reference_markdown()
    expected = list(names(typer.main.get_command(app), "cdc-ops"))
    assert {"cdc-ops reconcile", "cdc-ops view", "cdc-ops quarantine replay", "cdc-ops state rebuild"} <= set(expected)
    assert re.findall(r"^\| \[`(cdc-ops [^`]*)`\]\(#", text, re.MULTILINE) == expected
    assert re.findall(r"^## (cdc-ops .*)$", text, re.MULTILINE) == expected


def test_help_names_what_an_option_takes_in_words_and_nothing_for_a_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = {command: run(*command.split(), "--help")[1] for command in ("", "run", "resync", "reconcile", "verify", "gap list", "as-of")}
    for command, text in shown.items():
        assert re.search(r"--help", text), command
        assert re.findall(r"<[a-z]+(?:\[|>)", text) == [], command
    assert re.search(r"--table +-t +SCHEMA\.TABLE ", shown["run"])
    assert re.search(r"--json +Print", shown["run"])


@pytest.mark.parametrize("command", ["reconcile", "resync", "backfill", "verify", "replay", "quarantine replay"])
def test_commands_that_repair_lead_to_the_page_that_compares_them(command: str) -> None:
    assert "docs/which-command.md" in run(*command.split(), "--help")[1]
    page = (ROOT / "docs" / "which-command.md").read_text("utf-8")
    assert f"`cdc-ops {command}" in page


def test_every_command_and_option_has_help() -> None:
    rows = [line for line in reference_markdown().splitlines() if line.startswith("| `")]
    assert len(rows) > 20
    assert not [row for row in rows if row.endswith("|  |")]


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CdcError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_a_documented_exit_code(kind: type[CdcError]) -> None:
    code = exit_code(kind("x"))
    assert code in {2, 3, 4, 5, 6}
    assert (code == 6) == kind.retryable


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        ((errors.LedgerBehindError,), 4),
        ((errors.LakeBehindError, errors.TargetForeignError), 4),
        ((errors.SchemaChangedError, errors.SourceTableError), 3),
        ((errors.SourceUnreachableError, errors.LeaseHeldError), 6),
        ((errors.LedgerBehindError, errors.LeaseHeldError), 5),
        ((errors.LedgerBehindError, errors.SchemaChangedError), 5),
        ((errors.NullKeyError,), 5),
    ],
)
def test_tables_that_failed_alike_end_with_their_documented_exit_code(failed: tuple[type[CdcError], ...], code: int) -> None:
    table = TableConfig(pipeline="shop", table=TableName(schema="s", name="t"), settings=TableSettings(), path="/p")
    failures = tuple(TableFailure(config=table, error=kind("x")) for kind in failed)
    with pytest.raises(typer.Exit) as ended:
        pipelines._exit_after({"shop": RunReport(runs=(), failures=failures[:1]), "crm": RunReport(runs=(), failures=failures[1:])})
    assert ended.value.exit_code == code
    pipelines._exit_after({"shop": RunReport(runs=(), failures=())})


def test_validate_names_the_files(folder: Path) -> None:
    code, output = run("validate", "--json")
    assert code == 0
    assert [item["pipeline"] for item in json.loads(output)] == ["shop"]


def test_a_wrong_file_is_an_error_with_its_line_and_code_2(folder: Path) -> None:
    (folder / "shop.yaml").write_text(PIPELINE.replace("cursor:", "cursr:"))
    code, output = run("validate")
    assert code == 2
    assert "shop.yaml:6" in output
    assert "cursor" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ('apply_as_deletes: "gone = "', "Entry 'shop.orders' of"),
        ('sequence_by: [version], apply_as_truncates: "at < now()"', "'now' returns another value each time"),
    ],
)
def test_validate_finds_conditions_that_no_table_can_have(folder: Path, setting: str, why: str) -> None:
    (folder / "shop.yaml").write_text(PIPELINE.replace("updated_at}", f"updated_at, {setting}}}"))
    code, output = run("validate")
    assert code == 2
    assert why in " ".join(output.split())
    assert "Traceback" not in output


@pytest.mark.parametrize("column", ["a(b", ":(", "now()", "x)", "CAST(version AS bigint) > ("])
def test_validate_leaves_names_of_columns_to_the_plan_whatever_signs_they_have(folder: Path, column: str) -> None:
    (folder / "shop.yaml").write_text(PIPELINE.replace("updated_at}", f'updated_at, sequence_by: ["{column}"]}}'))
    code, output = run("validate")
    assert code == 0, output


def test_an_unknown_pipeline_gets_the_nearest_name(folder: Path) -> None:
    code, output = run("run", "--pipeline", "shopp")
    assert code == 2
    assert "Did you mean 'shop'?" in output


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_pipeline_can_be_named_without_its_option(folder: Path, command: str) -> None:
    assert "Did you mean 'shop'?" in run(command, "shopp")[1]
    assert "CDC_OPS_CONN_SHOP_DB" in run(command, "shop")[1]


def test_a_missing_connection_names_its_variable(folder: Path) -> None:
    code, output = run("run")
    assert code == 2
    assert "CDC_OPS_CONN_SHOP_DB" in output


def test_an_unreachable_source_is_worth_another_try(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", "mysql://cdc:se%40cret@127.0.0.1:1/shop")
    code, output = run("run", "--json")
    assert code == 6
    document = json.loads(output)
    assert document["error"]["error"] == "SourceUnreachableError"
    assert "127.0.0.1:1" in document["error"]["what"]
    assert "cret" not in output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("backfill", "-p", "shop", "--since", "2026-01-01", "--until", "2026-01-02T00:00:00Z"), "time zone"),
        (("backfill", "-p", "shop", "--since", "2026-01-03T00:00:00Z", "--until", "2026-01-02T00:00:00Z"), "is not before"),
        (("backfill", "-p", "shop", "--since", "monday", "--until", "2026-01-02T00:00:00Z"), "is not a date and time"),
        (("resync", "-p", "shop", "--mode", "keys"), "needs keys"),
        (("resync", "-p", "shop", "--mode", "keys", "--key", "1"), "one table"),
        (("resync", "-p", "shop", "--mode", "full", "--key", "1"), "neither range nor keys"),
        (("state", "rebuild", "--watermark", "2026-01-01 00:00:00"), "--table"),
        (("state", "rebuild", "--watermark", "7", "--table", "shop.a", "--table", "shop.b"), "exactly one table"),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused_before_anything_is_touched(folder: Path, arguments: tuple[str, ...], named: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert named in output
    assert not (folder / "ledger.db").exists()


@pytest.mark.parametrize(
    "command", [("status",), ("alerts",), ("alerts", "--notify"), ("metrics",), ("gap", "list"), ("ui", "--port", "0")], ids=" ".join
)
def test_a_ledger_that_is_not_there_is_an_error_of_whoever_reads_it(folder: Path, command: tuple[str, ...]) -> None:
    code, output = run(*command)
    assert code == 2
    told = " ".join(output.split())
    assert "There is no ledger at sqlite:///" in told
    assert "CDC_OPS_LEDGER" in told
    assert "cdc-ops run" in told
    assert not (folder / "ledger.db").exists()


def test_the_schema_is_a_json_schema(folder: Path) -> None:
    code, output = run("schema")
    assert code == 0
    assert json.loads(output)["$schema"].endswith("2020-12/schema")


IDLE = """\
pipeline: still
source: {kind: none, dialect: mysql, tables: {shop.orders: {id: bigint primary key}}}
target: {root: "@/lake", staging: "@/staging"}
archive: {url: "@/archive", MAXWELL, min_file_age: 0s}
defaults: {method: log}
tables: {shop.orders: }
""".replace("MAXWELL", MAXWELL)


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_source_that_does_not_answer_stops_its_own_pipeline_and_the_others_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", "mysql://cdc:Secret-1@127.0.0.1:1/shop")
    (folder / "archive").mkdir()
    (folder / "still.yaml").write_text(IDLE.replace("@", str(folder)))
    code, output = run(command, "--json")
    assert code == 6, output
    document = json.loads(output)
    parts = document if isinstance(document, dict) else {item["pipeline"]: item for item in document}
    assert parts["shop"]["error"]["error"] == "SourceUnreachableError"
    assert parts["shop"]["retryable"]
    assert len(parts["still"]["tables"]) == 1
    code, output = run(command)
    assert code == 6, output
    assert "failed: pipeline shop" in " ".join(output.split())
    assert "of still" in output


def test_a_run_that_ends_before_any_table_is_an_alert_until_one_comes_to_a_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", "mysql://cdc:Secret-1@127.0.0.1:1/shop")
    assert run("run")[0] == 6
    code, output = run("alerts")
    assert code == 5
    assert "shop failure: cdc-ops cannot reach the database server at 127.0.0.1:1." in output
    assert "Secret-1" not in output
    (folder / "archive").mkdir()
    (folder / "shop.yaml").write_text(IDLE.replace("@", str(folder)).replace("still", "shop", 1))
    assert run("run", "--quiet")[0] == 0
    code, output = run("alerts")
    assert (code, output.strip()) == (0, "shop: nothing is wrong")


def test_a_run_that_is_asked_for_what_there_is_not_is_no_alert(folder: Path) -> None:
    (folder / "archive").mkdir()
    (folder / "shop.yaml").write_text(IDLE.replace("@", str(folder)).replace("still", "shop", 1))
    assert run("run", "--table", "shop.nothing")[0] == 2
    assert run("alerts")[0] == 0


def rebuilt(monkeypatch: pytest.MonkeyPatch, folder: Path, *, by_hand: bool) -> str:
    """What `cdc-ops state rebuild --watermark` prints of a table whose newest commit tells its watermark, or does not."""
    known = TableProgress(watermark=CursorValue(parts=("2026-01-31 00:00:00",)))
    state = TableState(pipeline="still", table=TableName(schema="shop", name="orders"), committed_op_seq=3, delta_version=4, progress=known)
    done = Rebuilt(state=state, has_table=True, discarded=(), by_hand=by_hand)
    monkeypatch.setattr("cdc_ops.steps.recover.rebuild_table", lambda *_, **__: done)
    (folder / "shop.yaml").unlink()
    (folder / "still.yaml").write_text(IDLE.replace("@", str(folder)))
    code, output = run("state", "rebuild", "--table", "shop.orders", "--watermark", "2026-01-01 00:00:00")
    assert code == 0, output
    return output


def test_a_rebuilt_ledger_says_its_watermark_and_that_the_log_knows_it_better(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = rebuilt(monkeypatch, folder, by_hand=False)
    assert "rebuilt shop.orders: operation 3, Delta version 4, watermark 2026-01-31 00:00:00\n" in output
    assert "--watermark is not used" in output


def test_a_watermark_that_is_used_is_only_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not used" not in rebuilt(monkeypatch, folder, by_hand=True)
