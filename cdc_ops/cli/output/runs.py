"""Runs as the ledger keeps them, for people: those of pipelines, and those of one table."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.markup import escape

from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import Grid, Group, print_sentence, show_grid
from cdc_ops.core.text import some_of, span_text
from cdc_ops.state.table_run import RunSummary, TableRun, TableRunStatus

_NAMED: Final = 3
"""So many tables of a run that failed are named."""


def print_runs(found: Sequence[RunSummary]) -> None:
    """Shows runs, a row each, and the tables that failed."""
    columns = ("begun", "what", "took", "committed", "idle", "failed", "at work", "read", "written", "trigger", "run")
    groups = [
        Group(label=f"pipeline {pipeline}", rows=[_run_row(run) for run in found if run.pipeline == pipeline])
        for pipeline in dict.fromkeys(run.pipeline for run in found)
    ]
    _show(Grid(title="Runs", columns=columns, groups=groups, spare=frozenset({"read"}), below=frozenset({"trigger", "run"})))
    failed = [(run, tables) for run in found if (tables := run.tables(TableRunStatus.FAILED))]
    for run, tables in failed:
        names = f"failed: {some_of([*map(str, tables)], _NAMED)}"
        print_sentence(render.out, names, name=f"{run.pipeline} {_time(run.started_at)}", colour="red")
    if failed:
        run, tables = failed[0]
        print_sentence(render.out, f"Why: cdc-ops runs --pipeline {run.pipeline} --table {tables[0]}")


def _run_row(run: RunSummary) -> tuple[str, ...]:
    at_work = [status for status in TableRunStatus if not status.has_ended]
    counts = run.counts
    return (
        _time(run.started_at),
        ", ".join(dict.fromkeys(kind.words for kind in run.kinds)),
        _span(run.started_at, run.finished_at),
        _number(len(run.tables(TableRunStatus.COMMITTED)), "green"),
        _number(len(run.tables(TableRunStatus.IDLE)), "dim"),
        _number(len(run.tables(TableRunStatus.FAILED)), "red"),
        _number(len(run.tables(*at_work)), "yellow"),
        _number(counts.read),
        _number(counts.inserted + counts.updated + counts.deleted),
        escape(run.trigger),
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
