"""How a command is told which pipeline and which table: one way for all of them.

`PIPELINE` is an argument of every command that has no other, and `--pipeline` an option of all. A command on one pipeline takes the only
one of the folder if none is named; of several it takes none.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cdc_ops.cli.completion import complete_pipelines, complete_tables
from cdc_ops.cli.session import chosen_pipelines
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from cdc_ops.state.base import StateReader


def _option(text: str) -> Any:
    return typer.Option("--pipeline", "-p", metavar="NAME", help=text, autocompletion=complete_pipelines)


def tables_option(default: str) -> Any:
    """Returns the option `--table`.

    Args:
        default: Which tables it means if it is not given, as the help says it.
    """
    text = f"Only this table; may be repeated. Default: {default}."
    return typer.Option("--table", "-t", metavar="SCHEMA.TABLE", help=text, autocompletion=complete_tables)


Names = Annotated[list[str] | None, _option("Only this pipeline; may be repeated. Default: all.")]
One = Annotated[str, _option("The pipeline. Default: the only one of the folder.")]
OfTable = Annotated[str, _option("Pipeline, if several pipelines have a table of that name.")]
OfGap = Annotated[str, _option("Pipeline, if several pipelines have the gap.")]
Table = Annotated[str, typer.Argument(help="schema.table", metavar="TABLE", autocompletion=complete_tables)]
Tables = Annotated[list[str] | None, tables_option("all of the pipeline")]

_NAMES: Final = Annotated[
    list[str] | None, typer.Argument(metavar="PIPELINE", help="Pipelines; the same as --pipeline.", autocompletion=complete_pipelines)
]
_NAME: Final = Annotated[
    str, typer.Argument(metavar="PIPELINE", help="The pipeline; the same as --pipeline.", autocompletion=complete_pipelines)
]


def pipeline_argument(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command with the option `--pipeline` the argument PIPELINE, which says the same; both reach it as `pipeline`."""
    own = inspect.signature(command)
    merged, kind, default = (_all, _NAMES, None) if own.parameters["pipeline"].annotation == Names else (_one, _NAME, "")

    @functools.wraps(command)
    def called(*, given: Any, pipeline: Any, **options: Any) -> None:
        command(pipeline=merged(given, pipeline), **options)

    argument = inspect.Parameter("given", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    others = (parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own.parameters.values())
    called.__signature__ = own.replace(parameters=[argument, *others])  # type: ignore[attr-defined]
    called.__annotations__ = {**command.__annotations__, "given": kind}
    return called


def _all(given: list[str] | None, options: list[str] | None) -> list[str]:
    return list(dict.fromkeys((given or []) + (options or [])))


def _one(given: str, option: str) -> str:
    if given and option and given != option:
        raise typer.BadParameter(f"This command works on one pipeline, and two are named: {given} and {option}.", param_hint="PIPELINE")
    return given or option


def one_name(folder: Path | None, name: str) -> str:
    """Returns the name of the pipeline that a command works on: the one that is named, else the only one of the folder.

    Raises:
        ConfigError: none is named, and the folder has none, or a file is wrong.
        RequestError: none is named, and the folder has several.
    """
    if name:
        return name
    known = [pipeline.name for pipeline in chosen_pipelines(folder, [])]
    if len(known) > 1:
        raise RequestError(
            "No pipeline is named, and there are several.",
            why=f"Pipelines are {', '.join(known)}.",
            data="Nothing was read or written.",
            next="Name one with --pipeline.",
        )
    return known[0]


def check_known(reader: "StateReader", names: Iterable[str]) -> None:
    """Makes sure that the ledger has tables of the pipelines that are named.

    Raises:
        RequestError: it has none of one of them.
    """
    for name in names:
        if not reader.overview(name):
            known = {row.state.pipeline for row in reader.overview()}
            raise RequestError(
                f"The ledger has no table of a pipeline {name!r}.",
                why=did_you_mean(name, known) if known else "No run has written to the ledger yet.",
                data="Nothing was changed.",
                next=f"Name a pipeline that has run, or run this one: cdc-ops run --pipeline {name}",
            )
