"""The documentation as a site: links beside docs/ become pages, broken ones fail the build, and nothing is loaded from elsewhere."""

import importlib.util
import logging
import re
from pathlib import Path
from types import ModuleType

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/site/hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_site(folder: Path, pages: dict[str, str]) -> Path:
    """Builds a site of these pages with the project's own settings of what fails."""
    (folder / "docs").mkdir()
    for name, text in pages.items():
        (folder / "docs" / name).write_text(text)
    settings = re.search(r"^markdown_extensions:.*?(?=^nav:)", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE | re.DOTALL)
    assert settings is not None
    nav = "\n".join(f"  - {name}" for name in pages if name != "forgotten.md")
    (folder / "mkdocs.yml").write_text(f"site_name: x\ntheme: {{name: material, font: false}}\nplugins: []\n{settings[0]}nav:\n{nav}\n")
    config = load_config(str(folder / "mkdocs.yml"), strict=True)
    try:
        build(config)
    finally:
        logging.getLogger("mkdocs").handlers.clear()
    return Path(config.site_dir)


def test_links_and_anchors_that_lead_somewhere_are_taken(tmp_path: Path) -> None:
    pages = {"index.md": "[b](b.md#two-words--and-more)", "b.md": "# B\n\n## Two words — and more\n"}
    site = build_site(tmp_path, pages)
    assert 'href="b/#two-words--and-more"' in (site / "index.html").read_text()


@pytest.mark.parametrize(
    "pages",
    [
        {"index.md": "[b](c.md)"},
        {"index.md": "[b](b.md#three)", "b.md": "# B\n\n## Two\n"},
        {"index.md": "[b](#three)\n\n## Two\n"},
        {"index.md": "# A", "forgotten.md": "# B"},
    ],
    ids=["a page that is not there", "a heading that is not there", "a heading of the same page", "a page that no menu has"],
)
def test_a_broken_link_or_a_forgotten_page_fails_the_build(tmp_path: Path, pages: dict[str, str]) -> None:
    with pytest.raises(Abort):
        build_site(tmp_path, pages)


def test_files_beside_docs_are_pages_of_the_site(hooks: ModuleType) -> None:
    assert {"README.md", "CHANGELOG.md", "dags/pipelines/shop.yaml"} <= set(hooks._linked_files())
    page = "[a](../dags/pipelines/shop.yaml) [b](run.md#first-load) [c](https://example.com) `[d](e)`\n\n```\n[f](../README.md)\n```\n"
    assert (
        hooks.with_links(page, "docs/index.md")
        .splitlines()[0]
        .startswith("[a](repository/dags/pipelines/shop.yaml.md) [b](run.md#first-load) [c](https://example.com)")
    )
    assert "[f](../README.md)" in hooks.with_links(page, "docs/index.md")
    assert hooks.with_links("[a](docs/run.md#first-load) [b](docs/adr)", "README.md") == "[a](../run.md#first-load) [b](../adr/README.md)"


def test_pictures_become_tables_and_lists_what_python_markdown_takes_for_lists(hooks: ModuleType) -> None:
    picture = "```mermaid\nflowchart TD\n    a & b --> c & d\n    b --> e\n    f\n```\n"
    assert hooks.without_pictures(picture) == "| part | uses |\n|---|---|\n| **a** | c, d |\n| **b** | c, d, e |\n"
    assert hooks.as_python_markdown("Text\n- one\n  more\n- two\n\n  part of two\n\n  ```\n  code\n    deeper\n  ```\n") == (
        "Text\n\n- one\n  more\n- two\n\n    part of two\n\n    ```\n    code\n      deeper\n    ```\n"
    )
    assert hooks.as_python_markdown("```\n- a\ntext\n- b\n```\n") == "```\n- a\ntext\n- b\n```\n"


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example.com/x.js">',
        '<link href="//cdn.example.com/x.css" rel="stylesheet">',
        "<link rel=preconnect href=https://fonts.example.com>",
        "<img alt=x src=http://example.com/x.png>",
        '<pre class="mermaid">',
    ],
)
def test_what_a_browser_would_load_from_elsewhere_is_found(hooks: ModuleType, html: str) -> None:
    assert hooks.loads_from_elsewhere(f"<p>{html}</p>")
    assert not hooks.loads_from_elsewhere(
        '<a href="https://example.com">x</a> <script src="../assets/x.js"> <link rel="icon" href="x.png">'
    )


def test_make_check_builds_the_site_strictly_and_outside_of_what_is_committed() -> None:
    makefile, settings = (ROOT / "Makefile").read_text(), (ROOT / "mkdocs.yml").read_text()
    check = makefile.split("\ncheck: setup")[1].split("\n\n")[0]
    assert "$(MAKE) docs" in check
    assert "mkdocs build --strict" in makefile
    assert "site_dir: .local/site\n" in settings
    assert "  font: false" in settings
