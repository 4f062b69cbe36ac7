"""Rows that `cdc-ops show` prints: side by side where they fit, else a block for each, and never wider than the terminal."""

from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from cdc_ops.cli.output.rows import print_rows

LONG = "a text of many words " * 20


def shown(width: int, columns: list[str], rows: list[tuple[str | None, ...]]) -> list[str]:
    text = StringIO()
    print_rows(Console(file=text, width=width, force_terminal=True, color_system=None), columns, rows)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def test_rows_that_fit_are_a_table_with_null_told_from_text() -> None:
    lines = shown(80, ["id", "name"], [("1", None), ("2", "[bold]"), ("3", "")])
    assert [line.split() for line in lines[1:] if line.strip(" ─")] == [["id", "name"], ["1", "NULL"], ["2", "[bold]"], ["3"]]


@pytest.mark.parametrize("width", [80, 120])
def test_rows_that_do_not_fit_are_blocks_that_name_each_column(width: int) -> None:
    columns = ["id", "größe", *(f"column_{number}" for number in range(20))]
    lines = shown(width, columns, [("1", LONG, *["注文" * 60] * 20), ("2", None, *["x"] * 20)])
    assert [line for line in lines if cell_len(line) > width] == []
    assert [lines[0], lines[23]] == ["row 1", "row 2"]
    assert [line.split()[0] for line in lines[1:23]] == columns
    assert lines[2].endswith("…")
    assert lines[25].split() == ["größe", "NULL"]


def test_a_value_stays_on_its_line_whatever_signs_it_has() -> None:
    lines = shown(80, ["id", "text"], [("1", "two\nlines\x1b[31m")])
    assert any(line.split() == ["1", '"two\\nlines\\u001b[31m"'] for line in lines)
