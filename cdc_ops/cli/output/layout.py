"""How text is fitted to a terminal: no name is broken in the middle, and no line is longer than the terminal is wide.

What does not fit beside each other stands below each other. Where the output is no terminal, sentences are one line each, for `grep`.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

NUMBERS: Final = frozenset(
    {"rows", "read", "inserted", "updated", "deleted", "files", "version", "at source", "in lake", "missing", "extra", "different"}
    | {"written", "time", "connections", "committed", "idle", "failed", "at work"}
)
"""Columns whose cells stand on the right."""

_PLAIN: Final = frozenset({"what", "reads", "window", "method", "status", "verdict", "phase", "last run", "result"})
"""Columns whose cells say themselves what they are."""

_COMMAND: Final = re.compile(
    r"""cdc-ops\ [a-z-]+ (?:\ (?:list|accept|show|replay|rebuild)\b)?
        (?:\ (?:--?[a-z][\w-]* (?:[=\ ](?:'[^']*'|"[^"]*"|[^\s,;'"(\#-][^\s,;']*))? | [^\s,;'"(\#]*[./:_0-9][^\s,;']*))*
      | export\ \w+=(?:'[^']*'|"[^"]*"|\S+)
      | pip\ install(?:\ [^\s\#(]+)+
      | python\ -m\ [\w.]+(?:\ [^\s\#(]+)?
      | \#\ (?=\S)""",
    re.VERBOSE,
)
"""A command as it stands in a sentence, or the sign of a remark behind one; what follows is a sentence again."""

_KEPT: Final = "\ue000"
"""Stands for a blank at which a line is not to be broken."""

_INDENT: Final = "  "
_BEHIND_LABEL: Final = " " * len("  why:  ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows that have something in common, e.g. the schema, which the title then names once.

    Args:
        label: What they have in common, as the title names it; "" for nothing.
        prefix: What completes the name in the first cell of a row where the title is far away, e.g. `shop.`.
        rows: Cells are rich markup; a row whose first cell is empty belongs to the row above.
    """

    label: str
    prefix: str = ""
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What is shown as a table, or as blocks of lines where a table would be too wide.

    Args:
        title: What the rows are.
        columns: Their names; the first is what a row is about.
        groups: The rows.
        spare: Columns that are left out where the table would be too wide.
        below: Columns that then stand below the table, a line for each row.
    """

    title: str
    columns: tuple[str, ...]
    groups: Sequence[Group]
    spare: frozenset[str] = frozenset()
    below: frozenset[str] = frozenset()

    def without(self, names: frozenset[str]) -> "Grid":
        """Returns the grid without some columns."""
        kept = [index for index, name in enumerate(self.columns) if name not in names]
        groups = [replace(group, rows=[[row[index] for index in kept] for row in group.rows]) for group in self.groups]
        return replace(self, columns=tuple(self.columns[index] for index in kept), groups=groups)

    def without_empty(self) -> "Grid":
        """Returns the grid without the columns in which no row has anything."""
        rows = [row for group in self.groups for row in group.rows]
        return self.without(frozenset(name for at, name in enumerate(self.columns) if not any(row[at] for row in rows)))


def show_grid(console: Console, grid: Grid) -> bool:
    """Prints a grid.

    Returns:
        Whether all of its columns were shown.
    """
    for left_out in (frozenset[str](), grid.spare - grid.below, grid.below, grid.spare | grid.below):
        tables = _tables(grid.without(left_out))
        if all(Measurement.get(console, console.options.update(width=10_000), table).maximum <= console.width for table in tables):
            for table in tables:
                console.print(table)
            _print_below(console, grid, left_out & grid.below)
            return not left_out - grid.below
    for group in grid.groups:
        console.print(f"[bold]{escape(_titled(grid.title, group.label))}[/]", soft_wrap=True, highlight=False)
        for row in group.rows:
            _print_block(console, grid.columns, row)
    return True


def print_sentence(console: Console, text: str, *, name: str = "", colour: str = "yellow") -> None:
    """Prints a sentence behind the name of what it is about, as in `shop.orders: no row`, wrapped between words on a terminal.

    A command in it stays on one line, so that it can be copied; only such a line may be longer than the terminal is wide.
    """
    for number, line in enumerate(text.splitlines() or [""]):
        start = f"{name}: " if name and not number else ""
        for part in _wrapped(console, f"{start}{line}"):
            shown = Text(part)
            if not number and name and part.startswith(name):
                shown.stylize(colour, 0, len(name))
            console.print(shown, soft_wrap=True, highlight=False)
            name = ""


def _wrapped(console: Console, line: str) -> list[str]:
    if not console.is_terminal:
        return [line]
    line = _COMMAND.sub(lambda found: found[0].replace(" ", _KEPT), line)
    inner = _BEHIND_LABEL if line.startswith(" ") else ""
    width = max(console.width - (cell_len(line) - len(line)), 1)  # signs that are two cells wide
    parts = textwrap.wrap(line, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False) or [""]
    return [part.replace(_KEPT, " ") for part in parts]


def _titled(title: str, label: str) -> str:
    return f"{title}, {label}" if label else title


def _tables(grid: Grid) -> list[Table]:
    """Returns a table for each group, their columns below each other's."""
    rows = [row for group in grid.groups for row in group.rows]
    widths = [max(map(_width, (name, *(row[at] for row in rows)))) for at, name in enumerate(grid.columns)]
    tables = []
    for group in grid.groups:
        title = escape(_titled(grid.title, group.label))
        table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=box.SIMPLE_HEAD, pad_edge=False)
        for name, width in zip(grid.columns, widths, strict=True):
            table.add_column(name, no_wrap=True, min_width=width, justify="right" if name in NUMBERS else "left")
        for row in group.rows:
            table.add_row(*row)
        tables.append(table)
    return tables


def _width(markup: str) -> int:
    return cell_len(Text.from_markup(markup).plain)


def _print_below(console: Console, grid: Grid, names: frozenset[str]) -> None:
    for group in grid.groups:
        name = ""
        for row in group.rows:
            name = row[0] or name
            details = ", ".join(_said(column, cell) for column, cell in zip(grid.columns, row, strict=True) if column in names and cell)
            if details:
                _print_wrapped(console, f"[dim]{escape(group.prefix)}{name}:[/] {details}", "")


def _print_block(console: Console, columns: Sequence[str], row: Sequence[str]) -> None:
    if row[0]:
        console.print(row[0], highlight=False, soft_wrap=True)
    line = ""
    for column, cell in list(zip(columns, row, strict=True))[1:]:
        if not cell:
            continue
        said = _said(column, cell)
        if line and _width(f"{_INDENT}{line}, {said}") >= console.width:
            _print_wrapped(console, f"{line},", _INDENT)
            line = ""
        line = f"{line}, {said}" if line else said
    if line:
        _print_wrapped(console, line, _INDENT)


def _print_wrapped(console: Console, markup: str, indent: str) -> None:
    """Prints a line, on a terminal broken between words."""
    text = Text.from_markup(markup)
    for part in text.wrap(console, max(console.width - len(indent), 1)) if console.is_terminal else (text,):
        part.rstrip()
        console.print(Text(indent) + part, highlight=False, soft_wrap=True)


def _said(column: str, cell: str) -> str:
    """Returns a cell with the name of its column: `7 deleted`, `version 7`, or just `increment`."""
    if column in _PLAIN:
        return cell
    if column in NUMBERS - {"version"}:
        return f"{cell} [dim]{column.removesuffix('s') if cell == '1' else column}[/]"
    return f"[dim]{column}[/] {cell}"
