"""docs/cli.md, from the commands themselves: `python -m cdc_ops.cli.reference > docs/cli.md`."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from cdc_ops.cli import __doc__ as overview
from cdc_ops.cli import app

MANY: Final = 6
"""An option that at least so many commands have, with the same meaning, is explained once for all of them."""


def reference_markdown() -> str:
    """Returns the reference of all commands with their options, as Markdown."""
    group = typer.main.get_command(app)
    lines = ["# Command line", "", *(line.strip() for line in (overview or "").strip().splitlines())]
    lines += ["", "This page is made from the commands themselves. [Which command for what](which-command.md) compares those that repair."]
    lines += ["", "| command | what it does |", "|---|---|"]
    lines += [f"| [`{name}`](#{name.replace(' ', '-')}) | {_first_paragraph(command)} |" for name, command in _commands(group, "cdc-ops")]
    commands = [(name, command, [*_rows(command)]) for name, command in _commands(group, "cdc-ops")]
    counted = Counter(row for *_, rows in commands for row in rows)
    commonest = {names: (names, meaning) for (names, meaning), _ in reversed(counted.most_common())}
    shared = [row for row, count in counted.most_common() if count >= MANY and row in commonest.values()]
    lines += ["", "## Options of many commands", "", "Each command names those that it has.", "", "| option | meaning |", "|---|---|"]
    lines += [f"| {names} | {meaning} |" for names, meaning in shared]
    for name, command, rows in commands:
        lines += ["", f"## {name}", "", (command.help or "").strip()]
        own = [f"| {names} | {meaning} |" for names, meaning in rows if (names, meaning) not in shared]
        lines += ["", "| option | meaning |", "|---|---|", *own] if own else []
        also = [names.partition(",")[0] for names, meaning in rows if (names, meaning) in shared]
        lines += ["", f"{'Also' if own else 'Options:'} {', '.join(also)}."] if also else []
    return "\n".join(lines) + "\n"


def _commands(group: object, name: str) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(group, TyperGroup):
        for child, command in group.commands.items():
            yield from _commands(command, f"{name} {child}")
    elif isinstance(group, TyperCommand):
        yield name, group


def _first_paragraph(command: TyperCommand) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split()).replace("|", "\\|")


def _rows(command: TyperCommand) -> Iterator[tuple[str, str]]:
    for option in command.params:
        if isinstance(option, TyperOption | TyperArgument):
            yield _names(option), _meaning(option)


def _names(option: TyperOption | TyperArgument) -> str:
    if isinstance(option, TyperArgument):
        return f"`{option.metavar or option.name}`"
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _meaning(option: TyperOption | TyperArgument) -> str:
    return f"{'Required. ' if option.required else ''}{option.help or ''}".replace("|", "\\|")


if __name__ == "__main__":
    print(reference_markdown(), end="")
