"""What all commands of `cdc-ops` are made with: help in groups, that names what an option takes, in words, and nothing for a switch."""

from collections.abc import Callable
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

WHICH_COMMAND: Final = "Which command for what: docs/which-command.md"
"""The last line in the help of commands that compare, repair or read again."""

TOOLS: Final = "Tools"
PANELS: Final = {
    "Set up": ("init", "import-sqoop", "validate", "check"),
    "Run": ("plan", "run", "backfill"),
    "Look": ("status", "runs", "alerts", "show", "changes", "as-of", "advise", "metrics", "ui"),
    "Repair": ("verify", "reconcile", "resync", "replay", "state", "unlock", "adopt", "forget"),
    "Archives": ("archive", "gap", "quarantine", "formats"),
    TOOLS: ("view", "register", "schema", "docs", "spark-connect"),
}
"""The commands as the help shows them: by what somebody is about to do, and in the order in which they are met."""

_WORDS: Final = {"<str>": "TEXT", "<list[str]>": "TEXT", "<int>": "NUMBER", "<int range>": "NUMBER", "<path>": "PATH", "<file>": "FILE"}


class Command(TyperCommand):
    """A command whose help says what its options take, and which reads the file `.env` before it runs."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command with the variables of the file."""
        from cdc_ops.cli.commands.pipelines import guarded
        from cdc_ops.cli.environment import use_env_file
        from cdc_ops.cli.output.render import show_line

        with guarded(bool(ctx.params.get("as_json"))):
            found = use_env_file()
        if found and ctx.params.get("verbose"):
            show_line(f"variables from {found.words}")
        return super().invoke(ctx)

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters, `--help` among them."""
        return [_named(parameter, ctx) for parameter in super().get_params(ctx)]


class Group(TyperGroup):
    """The same for a command that has others below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters, `--help` among them."""
        return [_named(parameter, ctx) for parameter in super().get_params(ctx)]


class Program(Group):
    """The whole, whose commands stand in panels; one that has no place in `PANELS` is a tool."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        panels = {name: panel for panel, names in PANELS.items() for name in names}
        places = {name: place for place, name in enumerate(panels)}
        commands = dict[str, Any](self.commands)
        for name, command in commands.items():
            command.rich_help_panel = panels.get(name, TOOLS)
        self.commands = dict(sorted(commands.items(), key=lambda item: places.get(item[0], len(places))))


class Application(typer.Typer):
    """A group of commands with such help."""

    def __init__(self, *, cls: type[Group] = Group, **settings: Any) -> None:
        super().__init__(cls=cls, no_args_is_help=True, context_settings={"help_option_names": ["--help", "-h"]}, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Adds a command."""
        return super().command(name, **{"cls": Command, **settings})


def _named(parameter: Any, ctx: Any) -> Any:
    if isinstance(parameter, TyperOption) and parameter.metavar is None:
        kind = parameter.display_type(ctx)
        parameter.metavar = "" if parameter.is_flag or kind == "<bool>" else _WORDS.get(kind, kind.strip("<>"))
    elif isinstance(parameter, TyperArgument):
        parameter.display_type_rich = _untold  # type: ignore[method-assign]
    return parameter


def _untold(ctx: Any) -> str:
    return ""
