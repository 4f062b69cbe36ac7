"""Rows of a table for people: beside each other where they fit, else a block of lines for each."""

import json
from collections.abc import Sequence
from typing import Final

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_LONGEST: Final = 40
"""Cells of a value that stands beside others."""


def print_rows(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
    """Prints rows; values that are too long are cut, None is shown as NULL."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(escape(_plain(name)), no_wrap=True)
    for row in rows:
        table.add_row(*(_shown(value, _LONGEST) for value in row))
    if Measurement.get(console, console.options.update(width=100_000), table).maximum <= console.width:
        console.print(table)
        return
    names = [_plain(name) for name in columns]
    wide = max(map(cell_len, names))
    for number, row in enumerate(rows, start=1):
        console.print(f"[bold]row {number}[/]", highlight=False)
        for name, value in zip(names, row, strict=True):
            head = Text(f"  {name}{' ' * (wide - cell_len(name))}  ", style="dim")
            console.print(head + _shown(value, max(console.width - wide - 4, _LONGEST)), highlight=False, soft_wrap=True)


def _plain(text: str) -> str:
    """Returns a text on one line: one with signs that move the cursor as JSON has it."""
    return text if text.isprintable() else json.dumps(text, ensure_ascii=False)


def _shown(value: str | None, width: int) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    text = _plain(value[: 4 * width])
    return Text(text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…")
