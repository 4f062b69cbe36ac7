"""README and docs/ say only what is so: links lead somewhere, examples load, commands and tests exist."""

import doctest
import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

from cdc_ops import errors
from cdc_ops.config.loading import load_pipeline
from cdc_ops.events.registry import FORMAT_SPECS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
CODE = sorted(
    file
    for folder in ("cdc_ops", "dags", "plugins", "spark_jobs", "tests")
    for file in (ROOT / folder).rglob("*.*")
    if file.suffix in {".py", ".yaml", ".html"}
)
DECISIONS = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMED_TEST = re.compile(r"`((?:tests|cdc_ops/testing)/[\w/]+\.py)::(\w+)`")
NAMED_MODULE = re.compile(r"`(?:cdc_ops[./])?((?:archives|config|core|decode|events|lake|sources|state|steps)[./][a-z_./]+?)(?:\.py)?/?`")
GONE = {"core/archive/gtids"}  # the page says so
PLACEHOLDERS = {"<ID>", "...", "…"}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def anchors(page: Path) -> set[str]:
    """Returns the anchors that headings get, the way the usual renderers make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(page)), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def pipelines(page: Path) -> Iterator[str]:
    """Yields the YAML examples that are whole pipelines: they begin with the pipeline's name."""
    yield from (body for language, body in FENCE.findall(text_of(page)) if language == "yaml" and body.startswith("pipeline:"))


def commands(page: Path) -> Iterator[str]:
    """Yields every mention of a command: lines of code blocks without comments, and inline code."""
    text = text_of(page)
    lines = [line for _, body in FENCE.findall(text) for line in body.splitlines()]
    inline = re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    for line in (*lines, *inline):
        found = re.match(r"\s*(?:\$ )?(cdc-ops .*)$", line)
        if found:
            yield re.sub(r"\s#.*$", "", found[1]).strip()


@functools.cache
def command_line() -> click.Command:
    from cdc_ops.cli import app

    return typer.main.get_command(app)


def unknown_parts(command: str) -> list[str]:
    """Returns the parts of a command that the command line does not have."""
    words = shlex.split(command)[1:]
    words = words[: words.index("--")] if "--" in words else words  # what is behind it is another program's
    at: click.Command = command_line()
    while words and hasattr(at, "commands") and not words[0].startswith("-"):
        if words[0] not in at.commands:
            return [words[0]]
        at = at.commands[words.pop(0)]
    known = {option for parameter in at.params for option in parameter.opts} | {"--help", "-h", "--install-completion", "--show-completion"}
    return [word for word in words if word.startswith("-") and word not in PLACEHOLDERS and word.partition("=")[0] not in known]


@functools.cache
def functions_of(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE))


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", text_of(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} leads nowhere"
        assert not anchor or anchor in anchors(file), f"{target}: no such heading"


@pytest.mark.parametrize("page", [page for page in PAGES if any(pipelines(page))], ids=name_of)
def test_pipelines_on_a_page_load(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OPS_LAKE", str(tmp_path / "lake"))
    for number, body in enumerate(pipelines(page)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(body, "utf-8")
        assert load_pipeline(file).tables


def test_the_two_commands_stand_at_the_top_of_the_readme_and_continuous_integration_calls_the_same() -> None:
    readme, makefile = text_of(ROOT / "README.md"), text_of(ROOT / "Makefile")
    first = FENCE.search(readme)
    assert first is not None
    assert re.findall(r"^(make \w+)", first[2], re.MULTILINE) == ["make demo", "make test"]
    assert len(readme[: first.start()].splitlines()) <= 15
    called = re.findall(r"^(make .+)$", text_of(ROOT / ".ci/run"), re.MULTILINE)
    assert called == ["make check", "make test"]
    targets = re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)
    assert {"demo", "test", "check"} <= set(targets)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/run.md", "docs/cli.md"])
def test_the_page_that_compares_the_commands_is_linked(page: str) -> None:
    assert "which-command.md)" in text_of(ROOT / page)


def test_the_readme_shows_a_pipeline() -> None:
    assert len(list(pipelines(ROOT / "README.md"))) == 1


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands(page))], ids=name_of)
def test_commands_on_a_page_exist_with_their_options(page: Path) -> None:
    wrong = {command: unknown for command in commands(page) if (unknown := unknown_parts(command))}
    assert wrong == {}


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert unknown_parts("cdc-ops rum --pipeline shop") == ["rum"]
    assert unknown_parts("cdc-ops run --pipelin shop") == ["--pipelin"]
    assert unknown_parts("cdc-ops state rebuild --pipeline shop") == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_no_folder_of_somebody_s_machine(page: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:work|home|root|Users)/\w+", text_of(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tests_named_on_a_page_exist(page: Path) -> None:
    missing = [f"{file}::{name}" for file, name in NAMED_TEST.findall(text_of(page)) if name not in functions_of(ROOT / file)]
    assert missing == []


def test_every_promise_says_how_where_it_ends_and_what_proves_it() -> None:
    _, *promises = re.split(r"^## (?=\d)", text_of(ROOT / "docs/guarantees.md"), flags=re.MULTILINE)
    assert [promise.split(".")[0] for promise in promises] == [str(number) for number in range(1, 10)]
    for promise in promises:
        assert all(part in promise for part in ("**How.**", "**Limits today.**", "**Tests.**")), promise.splitlines()[0]
        assert NAMED_TEST.findall(promise.split("**Tests.**")[1]), promise.splitlines()[0]


def rows(page: str) -> list[list[str]]:
    """Returns the cells of every row of the page's tables, without heads."""
    lines = [line for line in text_of(ROOT / page).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_page_of_errors_explains_every_public_error_and_no_other() -> None:
    table = rows("docs/errors.md")
    assert table
    assert all(len(cells) == 4 and all(cells) for cells in table), (
        "each error has: what it means, what happens to the data, what to do next"
    )
    shown = {name: "(retryable)" in part for cells in table for part in cells[0].split(", ") for name in re.findall(r"`(\w+)`", part)}
    public = {cls.__name__: cls.retryable for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.CdcError)}
    del public["CdcError"]
    assert shown == public


def test_the_page_of_formats_names_every_format_once_and_links_the_page_of_its_tool() -> None:
    table = rows("docs/formats.md")
    assert sorted(name for cells in table for name in re.findall(r"`([\w-]+)`", cells[0])) == sorted(FORMAT_SPECS)
    linked = {target for cells in table for target in LINK.findall(cells[1])}
    assert linked == {f"formats/{page.name}" for page in (ROOT / "docs/formats").glob("*.md")}


def test_the_readme_counts_the_formats() -> None:
    assert re.findall(r"\[(\d+) formats\]\(docs/formats.md\)", text_of(ROOT / "README.md")) == [str(len(FORMAT_SPECS))]


@pytest.mark.parametrize("script", sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py")))
def test_the_page_of_benchmarks_says_what_each_script_measures(script: str) -> None:
    assert f"| `{script}` |" in text_of(ROOT / "docs/benchmarks.md")


ORDERED = (
    "core/cursor/cursors.py", "core/cursor/windows.py", "core/cursor/late_rows.py", "core/cursor/auto_increment.py", "core/instants.py",
    "core/archive/watermarks.py", "core/archive/completeness.py", "core/reconcile/key_buckets.py", "core/apply/sequence_by.py",
    "core/schema/type_widening.py",
)  # fmt: skip


@pytest.mark.parametrize("module", ORDERED)
def test_values_with_an_order_show_it_in_an_example(module: str) -> None:
    assert doctest.DocTestParser().get_examples(text_of(ROOT / "cdc_ops" / module))


def test_modules_that_pages_and_code_name_exist() -> None:
    named = {
        (name_of(file), found[1])
        for file in (*PAGES, *CODE)
        for found in NAMED_MODULE.finditer(text_of(file))
        if found[1] not in GONE and not is_module(found[1])
    }
    assert named == set()


def is_module(name: str) -> bool:
    """True for a folder or module of `cdc_ops`, also with what it has behind it."""
    here, parts = ROOT / "cdc_ops", re.split("[./]", name)
    for number, part in enumerate(parts):
        if (here / part).is_dir():
            here /= part
            continue
        file = here / f"{part}.py"
        behind = parts[number + 1 :] if file.exists() else parts[number:]
        return not behind or behind[0] in text_of(file if file.exists() else here / "__init__.py")
    return True


def test_make_check_runs_the_examples() -> None:
    modules = "cdc_ops/core cdc_ops/events cdc_ops/config/expressions"
    assert f"-m pytest --quiet --durations 0 --doctest-modules {modules}\n" in text_of(ROOT / "Makefile")


def paragraphs(text: str) -> Iterator[str]:
    """Yields paragraphs and items of lists; tables, headings, code and comments are none."""
    text = re.sub(r"<!--.*?-->", "", FENCE.sub("\n", text), flags=re.DOTALL)
    text = re.sub(r"^(?:#|\|).*$", "", text, flags=re.MULTILINE)
    yield from (part for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text) if part.strip())


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of)
def test_no_paragraph_is_longer_than_80_words(page: Path) -> None:
    assert [part for part in paragraphs(text_of(page)) if len(part.split()) > 80] == []


def test_paragraphs_are_seen_on_most_pages() -> None:
    assert sum(any(paragraphs(text_of(page))) for page in PAGES) > 30


def test_the_map_of_the_tree_names_every_folder_and_no_other() -> None:
    kept = {file.parent for suffix in ("py", "html") for file in (ROOT / "cdc_ops").rglob(f"*.{suffix}")}
    mapped = text_of(ROOT / "CONTRIBUTING.md").split("\n## The tree\n")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `(cdc_ops[\w/]*)` \| ", mapped, re.MULTILINE)) == sorted(name_of(folder) for folder in kept)


def test_the_places_to_change_exist_and_hold_the_names_that_are_said() -> None:
    table = text_of(ROOT / "CONTRIBUTING.md").split("\n## Where do I change …\n")[1].split("\n## ")[0]
    places = re.findall(r"`((?:cdc_ops|docs|tests)/[\w/.-]+)`(?: \(((?:`\w+`(?:, )?)+)\))?", table)
    assert places
    for path, said in places:
        assert (ROOT / path).exists(), f"{path} does not exist"
        for word in re.findall(r"\w+", said):
            assert re.search(rf"^(?:class|def) {word}\b", text_of(ROOT / path), re.MULTILINE), f"{path} defines no {word}"


def test_every_decision_is_in_the_index_and_every_number_without_a_page_is_named() -> None:
    index = text_of(ROOT / "docs/adr/README.md")
    assert re.findall(r"^- \[(\d{4})\]\((.+)\): ", index, re.MULTILINE) == [(page.name[:4], page.name) for page in DECISIONS]
    numbers = {int(page.name[:4]) for page in DECISIONS}
    without = re.search(r"^Numbers without a page: ([\d, ]+)\.", index, re.MULTILINE)
    assert without is not None
    assert [int(number) for number in without[1].split(", ")] == sorted(set(range(1, max(numbers))) - numbers)


def mentions() -> Iterator[tuple[Path, str]]:
    """Yields each page under docs/ that code, settings or messages name, with its anchor, and the file that names it."""
    for file in (*CODE, ROOT / "docker-compose.yaml"):
        for target in re.findall(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?", text_of(file)):
            yield file, target


def test_pages_that_code_and_messages_name_exist_with_their_headings() -> None:
    found = list(mentions())
    assert found
    for file, target in found:
        path, _, anchor = target.partition("#")
        assert (ROOT / path).exists(), f"{name_of(file)}: {target} leads nowhere"
        assert not anchor or anchor in anchors(ROOT / path), f"{name_of(file)}: {target}: no such heading"


@pytest.mark.parametrize("page", DECISIONS, ids=name_of)
def test_a_decision_ends_with_what_would_violate_it(page: Path) -> None:
    _, found, rest = text_of(page).rpartition("A change violates this decision when")
    assert found, "the page does not say what would violate the decision"
    points = [line for line in rest.splitlines()[1:] if line.strip()]
    assert points
    assert all(line.startswith(("- ", "  ")) for line in points), "something stands behind the list"


def test_there_are_decisions() -> None:
    assert DECISIONS


def test_every_picture_is_shown_small_and_described() -> None:
    shown: dict[Path, str] = {}
    for page in PAGES:
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", FENCE.sub("", text_of(page))):
            shown[(page.parent / target).resolve()] = words
    assert set(shown) == set((ROOT / "docs/pictures").iterdir())
    assert len(shown) == 2
    for picture, words in shown.items():
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < 150_000
        assert len(words.split()) > 5, "what is to be seen, for those who cannot see it"
