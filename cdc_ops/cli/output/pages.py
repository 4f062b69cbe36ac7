"""Pages of the documentation for people: Markdown, fitted to the terminal."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table


def print_page(console: Console, text: str) -> None:
    """Prints a page; behind a link stands where it leads, which `cdc-ops docs` takes."""
    console.print(_Page(text, hyperlinks=False))


class _Cells(TableElement):
    """A table whose cells show all of their text, in a narrow terminal too."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, Table) else ():
                column.overflow = "fold"
            yield part


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": _Cells}
