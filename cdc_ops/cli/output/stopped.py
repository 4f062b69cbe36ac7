"""What is said of a run that was ended by Ctrl-C or SIGTERM: what it has committed, what it has not, and what comes next."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import print_sentence
from cdc_ops.core.text import joined, some_of
from cdc_ops.errors import RunStoppedError

if TYPE_CHECKING:
    from cdc_ops.steps.runs.run import RunReport

_NAMED: Final = 6
"""So many tables are named in one sentence, of more their number is said."""


def print_stopped_run(pipeline: str, report: "RunReport", left: Sequence[str], follow_up: str) -> None:
    """Shows what became of a run that was ended.

    Args:
        pipeline: Its name.
        report: What it had done by then.
        left: Pipelines of the same command that were not begun.
        follow_up: The command that comes next.
    """
    others = tuple(failure for failure in report.failures if not isinstance(failure.error, RunStoppedError))
    if report.runs or others:
        render.print_report(pipeline, replace(report, failures=others))
    print_sentence(
        render.err, "; ".join((*_parts(pipeline, report), *_not_begun("pipeline", left))) + ".", name=f"Stopped by {report.stopped_by}"
    )
    print_sentence(render.err, f"Next: {follow_up}")


def _parts(pipeline: str, report: "RunReport") -> Iterator[str]:
    """Yields what is to be said, each part without its full stop."""
    from cdc_ops.state.table_run import TableRunStatus

    committed = [str(run.table) for run in report.runs if run.status is TableRunStatus.COMMITTED]
    if committed:
        yield f"{_named(committed)} {_was(committed)} committed"
    ended = [(str(one.config.table), one.error) for one in report.failures if isinstance(one.error, RunStoppedError)]
    for data in sorted({error.data for _, error in ended}):
        names = [name for name, error in ended if error.data == data]
        known = all(error.held_until is None for _, error in ended if error.data == data)
        fate = f"{_named(names)} {_was(names)} not{'' if committed else ' committed'}"
        unknown = f"it is not known whether {_named(names)} {_was(names)} committed"
        yield f"{fate if known else unknown}: {data[:1].lower()}{data[1:].rstrip('.')}"
    yield from _not_begun("table", [str(name) for name in report.not_begun])
    if not (report.runs or report.failures or report.not_begun):
        yield f"no table of pipeline {pipeline} was begun"


def _not_begun(kind: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        noun = "" if kind == "table" else "pipeline " if len(names) == 1 else "pipelines "
        yield f"{noun}{_named(names)} {_was(names)} not begun"


def _named(names: Sequence[str]) -> str:
    return joined(names) if len(names) <= _NAMED else some_of(names, _NAMED)


def _was(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"
