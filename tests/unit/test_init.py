"""`cdc-ops init`: a new project that cdc-ops takes as it is, whose printed steps exist, and that never writes over a file."""

import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cdc_ops.cli import app
from cdc_ops.core.pipeline.connections import ConnectionUrl
from tests.unit.test_docs import unknown_parts

ROOT = Path(__file__).resolve().parents[2]


def init(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["init", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize(("kind", "table"), [("mysql", "shop.orders"), ("mariadb", "shop.orders"), ("postgres", "public.orders")])
def test_a_new_project_is_taken_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, table: str) -> None:
    made = init(str(tmp_path / "new"), "--kind", kind)
    assert made.exit_code == 0, made.output
    monkeypatch.chdir(tmp_path / "new")
    lines = subprocess.run(["bash", "-c", "set -a; . ./.env.example; env"], capture_output=True, text=True, check=True).stdout.splitlines()
    variables = dict(line.split("=", 1) for line in lines if line.startswith("CDC_OPS_"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert variables["CDC_OPS_LAKE"] == f"{tmp_path}/new/data/lake"
    url = ConnectionUrl.parse(variables["CDC_OPS_CONN_SHOP_DB"])
    assert (url.scheme, url.database) == ("postgresql" if kind == "postgres" else kind, "shop")
    checked = CliRunner().invoke(app, ["validate"])
    assert checked.exit_code == 0, checked.output
    assert "1 table entries" in checked.output
    assert f"\n  {table}: " in (tmp_path / "new/dags/pipelines/shop.yaml").read_text()


def test_entries_that_stand_there_as_comments_load_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert init(str(tmp_path)).exit_code == 0
    monkeypatch.setenv("CDC_OPS_LAKE", "/lake")
    monkeypatch.setenv("CDC_OPS_STAGING", "/staging")
    file = tmp_path / "dags/pipelines/shop.yaml"
    text, number = re.subn(r"^( *)# (?=schedule|reconcile|shop\.)", r"\1", file.read_text(), flags=re.MULTILINE)
    assert number == 5
    file.write_text(text)
    checked = CliRunner().invoke(app, ["validate", "--pipelines", str(file.parent)])
    assert checked.exit_code == 0, checked.output
    assert "4 table entries" in checked.output


def test_the_dag_file_is_that_of_the_repository(tmp_path: Path) -> None:
    assert init(str(tmp_path)).exit_code == 0
    assert (tmp_path / "dags/cdc_pipelines.py").read_text() == (ROOT / "dags/cdc_pipelines.py").read_text()


def test_the_steps_that_are_printed_exist(tmp_path: Path) -> None:
    said = init(str(tmp_path / "with space")).output
    commands = [line.split("#")[0].strip() for line in said.splitlines() if line.startswith("  cdc-ops ")]
    assert len(commands) == 4
    assert [unknown_parts(command) for command in commands] == [[]] * 4
    assert f"cd '{tmp_path / 'with space'}'" in said


def test_no_file_is_written_over_and_none_is_written_then(tmp_path: Path) -> None:
    (tmp_path / ".env.example").write_text("mine")
    refused = init(str(tmp_path))
    assert refused.exit_code == 2
    assert ".env.example already exists" in refused.output.replace("\n", "")
    assert [path.name for path in tmp_path.rglob("*")] == [".env.example"]
    assert (tmp_path / ".env.example").read_text() == "mine"


def test_a_repository_keeps_its_gitignore_and_is_told_what_belongs_in_it(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.pyc\ndata/\n")
    made = init(str(tmp_path))
    assert made.exit_code == 0, made.output
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\ndata/\n"
    assert (tmp_path / "dags/pipelines/shop.yaml").exists()
    assert f"kept  {tmp_path / '.gitignore'}: add .env and .venv/ to it, .env has the password" in made.output
    assert "wrote " + str(tmp_path / ".gitignore") not in made.output


def test_a_name_that_no_pipeline_can_have_is_refused_by_the_place_of_its_file(tmp_path: Path) -> None:
    refused = init(str(tmp_path), "--name", "2024").output.replace("\n", "")
    assert str(tmp_path / "dags/pipelines/2024.yaml") in refused


@pytest.mark.parametrize("options", [("--kind", "oracle"), ("--name", "My Shop"), ("--name", "a/b")])
def test_a_name_or_kind_that_no_pipeline_can_have_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert init(str(tmp_path), *options).exit_code == 2
    assert list(tmp_path.iterdir()) == []
