"""The command on the last runs, of pipelines or of one table: runs. It reads the ledger and connects to no source."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape

from cdc_ops.cli.commands.pipelines import Json, app, guarded
from cdc_ops.cli.completion import complete_tables
from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import Grid, Group, print_sentence, show_grid
from cdc_ops.cli.pipeline_names import Names, check_known, pipeline_argument
from cdc_ops.cli.session import ledger_reader
from cdc_ops.core import json_codec
from cdc_ops.core.text import did_you_mean, span_text
from cdc_ops.errors import RequestError
from cdc_ops.state.table_run import RunSummary, TableRun, TableRunStatus

if TYPE_CHECKING:
    from cdc_ops.state.base import StateReader

_NAMED: Final = 3
"""So many tables of a run that failed are named."""


@app.command()
@pipeline_argument
def runs(
    pipeline: Names = None,
    table: Annotated[
        str, typer.Option("--table", "-t", metavar="SCHEMA.TABLE", help="The runs of this table alone.", autocompletion=complete_tables)
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many runs; of each pipeline that has the table.", min=1)] = 20,
    as_json: Json = False,
) -> None:
    """Show the last runs, newest first: when, how long, how many tables and rows; or those of one table. Connects to no source."""
    with guarded(as_json), ledger_reader() as reader:
        check_known(reader, pipeline or ())
        found = [RunSummary(lines=lines) for lines in reader.newest_runs(pipeline or (), limit=limit)] if not table else []
        lines = _history(reader, pipeline or (), table, limit) if table else []
    if as_json:
        render.print_json([json_codec.to_data(line) for line in lines] if table else [_data(run) for run in found])
    elif not (found or lines):
        render.out.print("The ledger has no runs yet. Next: cdc-ops run")
    elif table:
        print_history(lines)
    else:
        print_runs(found)


def _history(reader: "StateReader", pipelines: Sequence[str], table: str, limit: int) -> list[TableRun]:
    """Returns the lines of a table.

    Raises:
        RequestError: the ledger does not know it.
    """
    known = [row.state for row in reader.overview() if not pipelines or row.state.pipeline in pipelines]
    states = [state for state in known if str(state.table) == table]
    if not states:
        of = f" of pipeline {', '.join(pipelines)}" if pipelines else ""
        raise RequestError(
            f"The ledger does not know the table {table}{of}.",
            why=did_you_mean(table, (str(state.table) for state in known)),
            data="Nothing was changed.",
            next="'cdc-ops status' shows the tables.",
        )
    return [line for state in states for line in reader.history(state.pipeline, state.table, limit=limit)]


def print_runs(found: Sequence[RunSummary]) -> None:
    """Shows runs, a row each, and the tables that failed."""
    columns = ("begun", "trigger", "took", "committed", "idle", "failed", "at work", "read", "written", "run")
    groups = [
        Group(label=f"pipeline {pipeline}", rows=[_run_row(run) for run in found if run.pipeline == pipeline])
        for pipeline in dict.fromkeys(run.pipeline for run in found)
    ]
    _show(Grid(title="Runs", columns=columns, groups=groups, spare=frozenset({"read"}), below=frozenset({"run"})))
    failed = [(run, tables) for run in found if (tables := run.tables(TableRunStatus.FAILED))]
    for run, tables in failed:
        more = f" and {len(tables) - _NAMED} more" if len(tables) > _NAMED else ""
        names = f"failed: {', '.join(map(str, tables[:_NAMED]))}{more}"
        print_sentence(render.out, names, name=f"{run.pipeline} {_time(run.started_at)}", colour="red")
    if failed:
        run, tables = failed[0]
        print_sentence(render.out, f"Why: cdc-ops runs --pipeline {run.pipeline} --table {tables[0]}")


def _run_row(run: RunSummary) -> tuple[str, ...]:
    at_work = [status for status in TableRunStatus if not status.has_ended]
    counts = run.counts
    return (
        _time(run.started_at),
        escape(run.trigger),
        _span(run.started_at, run.finished_at),
        _number(len(run.tables(TableRunStatus.COMMITTED)), "green"),
        _number(len(run.tables(TableRunStatus.IDLE)), "dim"),
        _number(len(run.tables(TableRunStatus.FAILED)), "red"),
        _number(len(run.tables(*at_work)), "yellow"),
        _number(counts.read),
        _number(counts.inserted + counts.updated + counts.deleted),
        escape(run.run_id),
    )


def print_history(lines: Sequence[TableRun]) -> None:
    """Shows the runs of a table, a row each, and what they had to say."""
    columns = ("begun", "what", "status", "took", "read", "inserted", "updated", "deleted", "version", "window", "run")
    groups = [
        Group(label=f"{lines[0].table} of pipeline {pipeline}", rows=[_line_row(line) for line in lines if line.pipeline == pipeline])
        for pipeline in dict.fromkeys(line.pipeline for line in lines)
    ]
    _show(Grid(title="Runs", columns=columns, groups=groups, spare=frozenset({"version"}), below=frozenset({"took", "window", "run"})))
    for line in lines:
        failed = line.status is TableRunStatus.FAILED
        for text in filter(None, (line.messages.message if failed else "", *line.notices)):
            print_sentence(render.out, text, name=_time(line.timing.started_at), colour="red" if failed else "yellow")


def _line_row(line: TableRun) -> tuple[str, ...]:
    what, status, *rest = render.run_row(line)
    timing = line.timing
    return (_time(timing.started_at), what, status, _span(timing.started_at, timing.finished_at), *rest, escape(line.run_id))


def _show(grid: Grid) -> None:
    if not show_grid(render.out, grid.without_empty()):
        render.out.print("[dim]A wider terminal shows more; --json shows all.[/]")


def _number(count: int, colour: str = "") -> str:
    text = f"{count:,}" if count else ""
    return f"[{colour}]{text}[/]" if colour and text else text


def _time(instant: datetime) -> str:
    return f"{instant:%m-%d %H:%M:%S}"


def _span(start: datetime, end: datetime | None) -> str:
    return span_text((end - start).total_seconds()) if end else ""


def _data(run: RunSummary) -> dict[str, Any]:
    counts = run.counts
    return {
        "pipeline": run.pipeline,
        "run": run.run_id,
        "trigger": run.trigger,
        "started_at": json_codec.to_data(run.started_at),
        "finished_at": json_codec.to_data(run.finished_at),
        "tables": {status.value: list(map(str, run.tables(status))) for status in TableRunStatus},
        "rows": {name: getattr(counts, name) for name in ("read", "inserted", "updated", "deleted")},
    }
