"""What a command asks before it does what cannot be taken back: it says what is about to happen, and a person says yes."""

import sys
from collections.abc import Sequence

import typer
from rich.markup import escape

from cdc_ops.cli.output import render
from cdc_ops.errors import RequestError


def is_confirmed(lines: Sequence[str], question: str, *, without: str, yes: bool, quiet: bool) -> bool:
    """Says what is about to happen, and asks whether it shall.

    Args:
        lines: What is about to happen, and what it risks.
        question: The question.
        without: What is said where there is nobody to ask, e.g. `The lease was not removed`.
        yes: Whether the command line has answered it: `--yes`.
        quiet: Whether the command shows JSON, so that nothing is said beside it and nobody is asked.

    Raises:
        RequestError: there is nobody to ask.
    """
    if not yes and (quiet or not has_terminal()):
        what = f"{without}: no terminal for the confirmation."
        raise RequestError(what, why=" ".join(lines), data="Nothing was changed.", next="Add --yes.")
    if not quiet:
        render.err.print(escape("\n".join(lines)), highlight=False, soft_wrap=True)
    return yes or typer.confirm(question, err=True)


def has_terminal() -> bool:
    """True if there is somebody to ask."""
    return sys.stdin.isatty()
