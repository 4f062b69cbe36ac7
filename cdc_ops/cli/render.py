"""How the commands show things: rich tables for people, plain JSON for machines."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cdc_ops.core import wire
from cdc_ops.core.operations import OperationKind
from cdc_ops.core.runs import TableState
from cdc_ops.errors import CdcError
from cdc_ops.state.base import TableOverview, TableRun, TableRunStatus
from cdc_ops.steps.plan import TablePlan
from cdc_ops.steps.run import RunReport

out = Console()
err = Console(stderr=True)

WIDE = 140
"""Columns of a terminal from which on the whole status fits."""

MANY = 5
"""Chunks of a snapshot from which on a plan shows them in one line."""

BROAD = 120
"""Columns of a terminal from which on windows fit into their table; in a narrower one they stand below, a line each."""

_DETAILS = {"reads", "window"}
_FOR_WIDE = {"pipeline", "phase", "files", "held by"}
_COLOURS = {TableRunStatus.COMMITTED: "green", TableRunStatus.IDLE: "dim", TableRunStatus.FAILED: "red"}


def print_json(data: Any) -> None:
    """Prints one JSON document on standard output."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_error(error: CdcError, as_json: bool) -> None:
    """Prints an error: on standard error for people, as a document for machines."""
    if as_json:
        print_json({"error": error.to_payload(), "retryable": error.retryable})
    else:
        err.print(f"[bold red]{type(error).__name__}[/] {escape(str(error))}", highlight=False, soft_wrap=True)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left", header_style="bold", expand=False)
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in {"rows", "read", "files", "version"} else "left")
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _table_and_details(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Shows a table whose windows, which a narrow terminal would break over many lines, then stand below it."""
    detail = next(index for index, name in enumerate(columns) if name in _DETAILS)
    if out.width >= BROAD:
        _table(title, columns, rows)
        return
    _table(title, [*columns[:detail], *columns[detail + 1 :]], [[*row[:detail], *row[detail + 1 :]] for row in rows])
    for row in rows:
        if row[detail]:
            out.print(f"[dim]{row[0]}[/] {row[detail]}", highlight=False, soft_wrap=True)


def print_plans(pipeline: str, plans: Sequence[tuple[str, TablePlan | CdcError]]) -> None:
    """Shows what a run would do; what there is to say about a table stands below, on lines of their own."""
    rows: list[tuple[str, ...]] = []
    notes: list[tuple[str, str]] = []
    for name, plan in plans:
        if isinstance(plan, CdcError):
            rows.append((name, "[red]refused[/]", "", ""))
            notes.append((name, str(plan)))
            continue
        rows += _plan_rows(name, plan)
        notes += [(name, text) for text in (plan.alert, plan.how, *plan.warnings) if text]
    _table_and_details(f"Plan of {pipeline}", ("table", "what", "reads", "rows"), rows)
    methods = [(name, escape(plan.method)) for name, plan in plans if not isinstance(plan, CdcError) and plan.method]
    if methods:
        _table("Methods", ("table", "how it is kept equal"), methods)
    for name, text in notes:
        out.print(f"[yellow]{escape(name)}[/] {escape(text)}", soft_wrap=True, highlight=False)


def _plan_rows(name: str, plan: TablePlan) -> list[tuple[str, ...]]:
    if not plan.operations:
        return [(name, "[dim]idle[/]", escape(plan.idle), "")]
    rows: list[tuple[str, ...]] = []
    if len(plan.planned) > MANY and all(spec.kind is OperationKind.SNAPSHOT_CHUNK for spec in plan.planned) and not plan.unfinished:
        slices, whole = sum(len(spec.slices) for spec in plan.planned), sum(spec.expected_rows for spec in plan.planned)
        return [(name, f"{len(plan.planned):,} snapshot chunks", f"{slices:,} slices", f"{whole:,}")]
    for spec in plan.operations:
        interrupted = ", interrupted" if spec in plan.unfinished else ""
        cut = f"{len(spec.slices)} slice{'s' if len(spec.slices) != 1 else ''}"
        window = str(spec.window) if spec.window else spec.extent if spec.log is not None else cut
        rows.append((name, f"{spec.kind}{interrupted}", escape(window), f"{spec.expected_rows:,}" if spec.log is None else ""))
    return rows


def print_report(pipeline: str, report: RunReport) -> None:
    """Shows what a run did."""
    columns = ("table", "kind", "status", "read", "+ / ~ / -", "version", "window")
    _table_and_details(f"Run of {pipeline}", columns, [_run_row(run) for run in report.runs])
    for run in report.runs:
        if run.status is TableRunStatus.IDLE:
            out.print(f"[dim]{run.table}: {escape(run.message.split('; ')[0])}[/]", highlight=False, soft_wrap=True)
    for warning in report.warnings:
        err.print(f"[yellow]warning[/] {escape(warning)}", soft_wrap=True)
    shown = {run.table for run in report.runs}
    for failure in report.failures:
        if failure.config.table not in shown:  # it has no line above
            err.print(f"[red]failed[/] {escape(str(failure.config.table))}", soft_wrap=True)
        print_error(failure.error, as_json=False)


def _run_row(run: TableRun) -> tuple[str, ...]:
    colour = _COLOURS.get(run.status, "yellow")
    done = run.status is TableRunStatus.COMMITTED
    counts = f"{run.counts.inserted:,} / {run.counts.updated:,} / {run.counts.deleted:,}" if done else ""
    read = f"{run.counts.read:,}" if done else ""
    version = str(run.delta_version) if run.delta_version is not None else ""
    window = escape(str(run.window)) if run.window else ""
    return (str(run.table), str(run.kind), f"[{colour}]{run.status}[/]", read, counts, version, window)


def report_data(report: RunReport) -> dict[str, Any]:
    """Returns a report as JSON data."""
    return {
        "tables": [wire.to_data(run) for run in report.runs],
        "failures": [{"table": str(f.config.table), "retryable": f.error.retryable, **f.error.to_payload()} for f in report.failures],
        "warnings": list(report.warnings),
    }


def print_verification(documents: Sequence[dict[str, Any]]) -> None:
    """Shows what a comparison of source and lake found."""
    rows = []
    for found in documents:
        verdict = "[green]equal[/]" if found["equal"] else "[red]differs[/]"
        differing = (found["only_in_source"], found["only_in_lake"], found["different"])
        rows.append(
            (found["table"], verdict, f"{found['rows_source']:,}", f"{found['rows_lake']:,}", " / ".join(f"{n:,}" for n in differing))
        )
    _table("Source and lake", ("table", "verdict", "rows at source", "rows in lake", "missing / extra / different"), rows)
    for found in documents:
        if found.get("not_compared"):
            text = f"not compared, because the lake does not have them (yet): {', '.join(found['not_compared'])}"
            out.print(f"[yellow]{escape(found['table'])}[/] {escape(text)}", soft_wrap=True, highlight=False)
        if found.get("kept"):
            text = f"{found['kept']:,} rows are in the lake only, and stay ('deletes: ignore')"
            out.print(f"{escape(found['table'])} {escape(text)}", soft_wrap=True, highlight=False)


def print_status(rows: Sequence[TableOverview]) -> None:
    """Shows every table that the ledger knows."""
    if not rows:
        out.print("The ledger knows no table yet. Next: cdc-ops run")
        return
    columns = ("pipeline", "table", "phase", "watermark", "fresh", "version", "files", "last run", "held by")
    shown = [name for name in columns if out.width >= WIDE or name not in _FOR_WIDE]
    _table("Tables", shown, [[cell for name, cell in zip(columns, _status_row(row), strict=True) if name in shown] for row in rows])
    for row in rows:
        for text in (*row.last_run.notices, *row.last_run.schema_changes) if row.last_run else ():
            out.print(f"[yellow]{escape(str(row.state.table))}[/] {escape(text)}", soft_wrap=True, highlight=False)
    if len(shown) < len(columns):
        out.print("[dim]A wider terminal shows more; --json shows all.[/]")


def _status_row(row: TableOverview) -> tuple[str, ...]:
    state, run = row.state, row.last_run
    colour = _COLOURS.get(run.status, "yellow") if run else "dim"
    last = f"[{colour}]{run.kind} {run.status}[/] {run.started_at:%m-%d %H:%M:%S}" if run else ""
    return (
        state.pipeline,
        str(state.table),
        f"{state.phase} {state.snapshot.done}/{state.snapshot.total}" if state.snapshot else str(state.phase),
        str(state.watermark or ""),
        age(state),
        str(state.delta_version if state.delta_version is not None else ""),
        f"{row.stats.files:,}" if row.stats else "",
        last,
        row.lease.holder if row.lease else "",
    )


def age(state: TableState, now: datetime | None = None) -> str:
    """Returns how long ago a table was last known to be complete, e.g. `42 s`; `` if never."""
    if state.fresh_at is None:
        return ""
    seconds = max(int(((now or datetime.now(UTC)) - state.fresh_at).total_seconds()), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
