"""`cdc-ops docs` shows the pages that the package brings, by the names that messages give them."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app

DOCS = Path(__file__).resolve().parents[2] / "docs"


def docs(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["docs", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_the_list_has_every_page_with_its_title() -> None:
    code, text = docs()
    assert code == 0
    names = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert {line.split()[0] for line in text.splitlines()[:-2]} == {name for name in names if not name.startswith("adr/0")}
    assert re.search(r"^recover +Recover$", text, re.MULTILINE)
    assert str(DOCS) in text


@pytest.mark.parametrize("name", ["recover", "docs/recover.md", "formats/debezium", "adr/0001-spine"])
def test_a_page_is_found_by_the_name_that_a_message_has(name: str) -> None:
    path = DOCS / f"{name.removeprefix('docs/').removesuffix('.md')}.md"
    assert docs(name) == (0, path.read_text("utf-8") + "\n")


def test_a_heading_is_shown_with_its_section_and_no_more() -> None:
    code, text = docs("docs/run.md#two-readers")
    assert code == 0
    assert text.startswith("## Two readers\n")
    assert re.findall(r"^## .*$", text, re.MULTILINE) == ["## Two readers"]
    assert text.strip() in (DOCS / "run.md").read_text("utf-8")


@pytest.mark.parametrize(("name", "why"), [("recovr", "Did you mean 'recover'?"), ("run#two-reader", "Did you mean 'two-readers'?")])
def test_what_is_not_there_gets_the_nearest_name(name: str, why: str) -> None:
    code, text = docs(name)
    assert (code, why in text) == (2, True)
