"""`-v` of the commands that start Spark or repeat warnings: how much they say."""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, Final

import typer

_OPTION: Final = typer.Option("--verbose", "-v", help="Show Spark's log while it is written, and every warning, repeated ones too.")
_VERBOSE: Final = ContextVar("verbose", default=False)


def is_verbose() -> bool:
    """Returns whether the command that runs was called with `-v`."""
    return _VERBOSE.get()


def verbose_option(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the option `-v`; `is_verbose` tells, for as long as the command runs, whether it was given."""

    @functools.wraps(command)
    def called(*, verbose: bool, **options: Any) -> None:
        token = _VERBOSE.set(verbose)
        try:
            command(**options)
        finally:
            _VERBOSE.reset(token)

    kind = Annotated[bool, _OPTION]
    option = inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
    own = inspect.signature(command)
    called.__signature__ = own.replace(parameters=[*own.parameters.values(), option])  # type: ignore[attr-defined]
    called.__annotations__ = {**command.__annotations__, "verbose": kind}
    return called
