"""What all commands of `cdc-ops` are made with: help that names what an option takes, in words, and nothing for a switch."""

from collections.abc import Callable
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

WHICH_COMMAND: Final = "Which command for what: docs/which-command.md"
"""The last line in the help of commands that compare, repair or read again."""

_WORDS: Final = {"<str>": "TEXT", "<list[str]>": "TEXT", "<int>": "NUMBER", "<int range>": "NUMBER", "<path>": "PATH", "<file>": "FILE"}


class Command(TyperCommand):
    """A command whose help says what its options take."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters, `--help` among them."""
        return [_named(parameter, ctx) for parameter in super().get_params(ctx)]


class Group(TyperGroup):
    """The same for a command that has others below it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Returns the parameters, `--help` among them."""
        return [_named(parameter, ctx) for parameter in super().get_params(ctx)]


class Application(typer.Typer):
    """A group of commands with such help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, **settings)

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
