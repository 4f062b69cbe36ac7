"""The command on the documentation that is installed with the package: docs. It needs no network."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer

import cdc_ops
from cdc_ops.cli.commands.pipelines import app, guarded
from cdc_ops.cli.output import render
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import EnvironmentSetupError, RequestError

_HEADING: Final = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_FIRST: Final = ("quickstart", "install", "run", "which-command", "recover", "errors", "configuration", "cli")
"""Pages in front of the list, which is otherwise by name."""


def complete_pages(incomplete: str) -> list[str]:
    """Returns the pages whose names begin so."""
    return [name for name in _pages(docs_folder()) if name.startswith(incomplete)]


@app.command()
def docs(
    page: Annotated[
        str,
        typer.Argument(metavar="PAGE", help="A page, as messages name it: recover, or docs/run.md#layout.", autocompletion=complete_pages),
    ] = "",
) -> None:
    """Show a page of the documentation of this version, or the list of pages."""
    with guarded(as_json=False):
        folder = docs_folder()
        pages = _pages(folder)
        text = _section(pages, page) if page else ""
    if not page:
        for name, path in pages.items():
            if name.startswith("adr/") and name != "adr/README":
                continue  # it has the list of them
            render.out.print(f"{name:<24} {_title(path.read_text('utf-8'))}", highlight=False, soft_wrap=True, markup=False)
        render.out.print(f"\nAs files: {folder}", highlight=False, soft_wrap=True, markup=False)
    elif render.out.is_terminal:
        from cdc_ops.cli.output.pages import print_page

        print_page(render.out, text)
    else:
        print(text)


def docs_folder() -> Path:
    """Returns the folder of the documentation: of the installed package, or of the clone that it was installed from.

    Raises:
        EnvironmentSetupError: it is in neither place.
    """
    package = Path(cdc_ops.__file__).resolve().parent
    for folder in (package / "docs", package.parent / "docs"):
        if (folder / "index.md").is_file():
            return folder
    raise EnvironmentSetupError(
        f"The documentation is missing in {package / 'docs'}.",
        why="The installation of cdc-ops is incomplete.",
        data="Nothing was read or written.",
        next="pip install --force-reinstall --no-deps cdc-ops",
    )


def _pages(folder: Path) -> dict[str, Path]:
    found = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.md")}
    first = {name: place for place, name in enumerate(_FIRST)}
    return {name: found[name] for name in sorted(found, key=lambda name: ("/" in name, first.get(name, len(first)), name))}


def _title(text: str) -> str:
    heading = _HEADING.search(text)
    return heading[2] if heading else ""


def _section(pages: dict[str, Path], wanted: str) -> str:
    """Returns a page, from a heading on and as far as its section goes if one is named.

    Raises:
        RequestError: there is no such page or heading.
    """
    name, _, anchor = wanted.removeprefix("docs/").partition("#")
    name = name.removesuffix(".md")
    if name not in pages:
        raise RequestError(
            f"The documentation has no page {name!r}.", why=did_you_mean(name, pages), data="Nothing was changed.", next="cdc-ops docs"
        )
    text = pages[name].read_text("utf-8")
    if not anchor:
        return text
    headings = {_anchor(heading[2]): heading for heading in _HEADING.finditer(re.sub(r"^```.*?^```", _blank, text, flags=re.M | re.S))}
    if anchor not in headings:
        raise RequestError(
            f"The page {name!r} has no heading {anchor!r}.",
            why=did_you_mean(anchor, headings),
            data="Nothing was changed.",
            next=f"cdc-ops docs {name}",
        )
    start = headings[anchor]
    ends = (one.start() for one in headings.values() if one.start() > start.start() and len(one[1]) <= len(start[1]))
    return text[start.start() : min(ends, default=len(text))]


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _blank(code: re.Match[str]) -> str:
    """Returns as much space as a block of code has: a comment in it is no heading."""
    return " " * len(code[0])
