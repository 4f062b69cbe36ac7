"""docs/cli.md, from the commands themselves: `python -m cdc_ops.cli.reference > docs/cli.md`."""

from collections.abc import Iterator

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from cdc_ops.cli import __doc__ as overview
from cdc_ops.cli import app


def reference_markdown() -> str:
    """Returns the reference of all commands with their options, as Markdown."""
    group = typer.main.get_command(app)
    lines = ["# Command line", "", *(line.strip() for line in (overview or "").strip().splitlines())]
    lines += ["", "This page is made from the commands themselves. [Which command for what](which-command.md) compares those that repair."]
    lines += ["", "| command | what it does |", "|---|---|"]
    lines += [f"| [`{name}`](#{name.replace(' ', '-')}) | {_first_paragraph(command)} |" for name, command in _commands(group, "cdc-ops")]
    for name, command in _commands(group, "cdc-ops"):
        lines += ["", f"## {name}", "", (command.help or "").strip(), "", "| option | meaning |", "|---|---|"]
        lines += [
            f"| {_names(option)} | {_meaning(option)} |" for option in command.params if isinstance(option, TyperOption | TyperArgument)
        ]
    return "\n".join(lines) + "\n"


def _commands(group: object, name: str) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(group, TyperGroup):
        for child, command in group.commands.items():
            yield from _commands(command, f"{name} {child}")
    elif isinstance(group, TyperCommand):
        yield name, group


def _first_paragraph(command: TyperCommand) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split()).replace("|", "\\|")


def _names(option: TyperOption | TyperArgument) -> str:
    if isinstance(option, TyperArgument):
        return f"`{option.metavar or option.name}`"
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _meaning(option: TyperOption | TyperArgument) -> str:
    return f"{'Required. ' if option.required else ''}{option.help or ''}".replace("|", "\\|")


if __name__ == "__main__":
    print(reference_markdown(), end="")
