"""How the commands show things: rich tables for people, plain JSON for machines."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import repeat
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from cdc_ops.cli.output.layout import Grid, Group, print_sentence, show_grid
from cdc_ops.cli.output.verbosity import is_verbose
from cdc_ops.core import json_codec
from cdc_ops.core.approvals import question_text
from cdc_ops.core.text import minute_text, some_of, span_text
from cdc_ops.errors import CdcError

if TYPE_CHECKING:
    from cdc_ops.core.approvals import ApprovalRecord
    from cdc_ops.core.operation.protocol.table_state import TableState
    from cdc_ops.core.schema.tables import TableName
    from cdc_ops.state.base import TableOverview
    from cdc_ops.state.table_run import TableRun
    from cdc_ops.steps.plan import TablePlan
    from cdc_ops.steps.runs.run import RunReport
    from cdc_ops.steps.runs.table_groups import TableFailure

out = Console()
err = Console(stderr=True)

MANY = 5
"""Parts of a snapshot from which on a plan shows them in one line."""

_COLOURS = {"committed": "green", "idle": "dim", "failed": "red"}


def print_json(data: Any) -> None:
    """Prints one JSON document on standard output."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def show_line(line: str) -> None:
    """Shows a line of a log as it is, on standard error."""
    err.print(line, highlight=False, soft_wrap=True, markup=False)


def print_error(error: CdcError, as_json: bool) -> None:
    """Prints an error: on standard error for people, as a document for machines."""
    if as_json:
        print_json({"error": error.to_payload(), "retryable": error.retryable})
    else:
        print_sentence(err, str(error), name=type(error).__name__, colour="bold red")


def print_stopped(pipeline: str, error: CdcError) -> None:
    """Prints what stopped a pipeline before any of its tables; the others go on."""
    print_sentence(err, f"pipeline {pipeline}", name="failed", colour="bold red")
    print_error(error, as_json=False)


def by_schema(rows: "Iterable[tuple[TableName, Sequence[str]]]", pipelines: Iterable[str] = repeat("")) -> list[Group]:
    """Returns the rows of tables by pipeline and schema, which the title then names once; each row begins with the name of the table."""
    groups: dict[tuple[str, str], list[Sequence[str]]] = {}
    for (table, cells), pipeline in zip(rows, pipelines, strict=False):
        groups.setdefault((pipeline, table.schema), []).append((escape(table.name), *cells))
    labels = {key: ", ".join(f"{what} {name}" for what, name in zip(("pipeline", "schema"), key, strict=True) if name) for key in groups}
    return [Group(label=labels[key], prefix=f"{key[1]}." if key[1] else "", rows=rows) for key, rows in groups.items()]


def print_plans(pipeline: str, plans: "Sequence[tuple[TableName, TablePlan | CdcError]]") -> None:
    """Shows what a run would do; what there is to say about a table stands below, on lines of their own."""
    rows: list[tuple[TableName, tuple[str, ...]]] = []
    notes: list[tuple[TableName, str]] = []
    for name, plan in plans:
        if isinstance(plan, CdcError):
            rows.append((name, ("[red]refused[/]", "", "", "")))
            notes.append((name, str(plan)))
            continue
        method = escape(plan.method)
        rows += [(name, (*cells, "" if number else method)) for number, cells in enumerate(_plan_rows(plan))]
        notes += [(name, text) for text in (plan.alert, plan.new.how, *plan.warnings) if text and text != plan.new.idle]
    columns = ("table", "what", "reads", "rows", "method")
    details = frozenset({"reads", "method"})
    show_grid(out, Grid(title=f"Plan of {pipeline}", columns=columns, groups=[*map(_named_once, by_schema(rows))], below=details))
    for names, text in _said_once((str(name), text) for name, text in notes):
        print_sentence(out, text, name=names)


def _said_once(notes: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yields names and what is said of them, in order; what is the same of several tables is said once, with the names of some."""
    names = dict[str, list[str]]()
    for name, text in notes:
        names.setdefault(text, []).append(name)
    yield from ((some_of(found), text) for text, found in names.items())


def _named_once(group: Group) -> Group:
    """Leaves a table's name out of its second row and those that follow."""
    rows = group.rows
    return replace(group, rows=[("", *row[1:]) if number and rows[number - 1][0] == row[0] else row for number, row in enumerate(rows)])


def _plan_rows(plan: "TablePlan") -> list[tuple[str, ...]]:
    from cdc_ops.core.operation.reads import ArchiveRead, ChunkRead, WindowRead

    if not plan.operations:
        return [("[dim]idle[/]", escape(plan.new.idle), "")]
    rows: list[tuple[str, ...]] = []
    if len(plan.new.operations) > MANY and all(operation.kind.is_snapshot for operation in plan.new.operations) and not plan.unfinished:
        slices, whole = (
            sum(len(operation.slices) for operation in plan.new.operations),
            sum(operation.expected_rows for operation in plan.new.operations),
        )
        return [(f"snapshot in {len(plan.new.operations):,} parts", f"{slices:,} slices", f"{whole:,}")]
    for operation in plan.operations:
        interrupted = ", interrupted" if operation in plan.unfinished else ""
        cut = f"{len(operation.slices)} slices" if len(operation.slices) > 1 else ""
        archived = isinstance(operation.read, ArchiveRead)
        window = str(operation.window) if operation.window else operation.extent if archived else cut
        method = operation.read.bound_method if isinstance(operation.read, WindowRead | ChunkRead) else ""
        reads = ", ".join(filter(None, (window, f"bound by {method}" if method else "")))
        rows.append((f"{operation.words}{interrupted}", escape(reads), "" if archived else f"{operation.expected_rows:,}"))
    return rows


def print_report(pipeline: str, report: "RunReport", spark_log: str = "") -> None:
    """Shows what a run did, and where Spark's log is if a table failed."""
    from cdc_ops.state.table_run import TableRunStatus
    from cdc_ops.steps.reporting.warned_before import unchanged_text

    columns = ("table", "what", "status", "read", "inserted", "updated", "deleted", "version", "window")
    groups = by_schema((run.table, run_row(run)) for run in report.runs)
    show_grid(
        out, Grid(title=f"Run of {pipeline}", columns=columns, groups=groups, spare=frozenset({"version"}), below=frozenset({"window"}))
    )
    for run in report.runs:
        if run.status is TableRunStatus.IDLE:
            print_sentence(out, run.messages.message.split("; ")[0], name=str(run.table), colour="dim")
    warnings = (*report.warnings, *(report.unchanged if is_verbose() else ()))
    print_warnings(f"{name}: {text}" if name else text for name, text in _said_once(map(_of_table, warnings)))
    if text := unchanged_text(0 if is_verbose() else len(report.unchanged), "-v shows them"):
        print_sentence(err, text, colour="dim")
    failed: dict[str, list[TableFailure]] = {}
    for failure in report.failures:
        failed.setdefault(str(failure.error), []).append(failure)
    for failures in failed.values():  # what stopped several tables is said once
        names = [str(failure.config.table) for failure in failures]
        if not all(name in failures[0].error.what for name in names):
            print_sentence(err, ", ".join(names), name="failed", colour="bold red")
        print_error(failures[0].error, as_json=False)
    if report.failures and spark_log:
        show_line(f"Spark's log: {spark_log}")


def _of_table(warning: str) -> tuple[str, str]:
    """Returns the name in front of a warning, "" without one, and what it says."""
    name, mark, text = warning.partition(": ")
    return (name, text) if mark else ("", warning)


def print_warnings(warnings: Iterable[str]) -> None:
    """Shows what the operator should know."""
    for warning in warnings:
        print_sentence(err, warning, name="warning")


def run_row(run: "TableRun") -> tuple[str, ...]:
    """Returns what is said of one table in one run: kind, status, rows read, inserted, updated and deleted, version, window; as markup."""
    from cdc_ops.state.table_run import TableRunStatus

    colour = _COLOURS.get(run.status, "yellow")
    result, done = run.result, run.result.counts
    counts = (done.read, done.inserted, done.updated, done.deleted)
    shown = [f"{count:,}" if run.status is TableRunStatus.COMMITTED else "" for count in counts]
    version = str(result.delta_version) if result.delta_version is not None else ""
    window = escape(str(result.window)) if result.window else ""
    return (run.kind.words, f"[{colour}]{run.status}[/]", *shown, version, window)


def report_data(report: "RunReport") -> dict[str, Any]:
    """Returns a report as JSON data; that of a run that was ended has the key `stopped` besides."""
    not_begun = [str(name) for name in report.not_begun]
    return {
        "tables": [json_codec.to_data(run) for run in report.runs],
        "failures": [{"table": str(f.config.table), "retryable": f.error.retryable, **f.error.to_payload()} for f in report.failures],
        "warnings": list(report.warnings),
        "unchanged_warnings": list(report.unchanged),
        **({"stopped": {"by": report.stopped_by, "not_begun": not_begun}} if report.stopped_by else {}),
    }


def print_status(rows: "Sequence[TableOverview]") -> None:
    """Shows every table that the ledger knows."""
    if not rows:
        out.print("The ledger has no tables yet. Next: cdc-ops run")
        return
    columns = ("table", "phase", "watermark", "fresh", "version", "files", "last run", "result", "at", "held by")
    groups = by_schema(((row.state.table, _status_row(row)) for row in rows), (row.state.pipeline for row in rows))
    spare = frozenset({"phase", "version", "files", "last run", "at"})
    grid = Grid(title="Tables", columns=columns, groups=groups, spare=spare, below=frozenset({"held by"}))
    whole = show_grid(out, grid.without_empty())
    for row in rows:
        if row.max_lag is not None and row.is_over_max_lag(datetime.now(UTC)):
            print_sentence(
                out, f"further behind than its max_lag, {span_text(row.max_lag.total_seconds())}", name=str(row.state.table), colour="red"
            )
        if row.state.missing_since is not None:
            since = f"no longer at the source, or not visible to the user; first noticed {minute_text(row.state.missing_since)}"
            print_sentence(out, since, name=str(row.state.table), colour="red")
        for text in (*row.last_run.notices, *row.last_run.messages.schema_changes) if row.last_run else ():
            print_sentence(out, text, name=str(row.state.table))
    if not whole:
        out.print("[dim]A wider terminal shows more; --json shows all.[/]")


def print_questions(questions: "Iterable[ApprovalRecord]") -> None:
    """Shows the questions that runs in Airflow wait for an answer to."""
    for one in questions:
        print_sentence(out, question_text(one), name=one.subject, colour="yellow")


def _status_row(row: "TableOverview") -> tuple[str, ...]:
    state, run = row.state, row.last_run
    colour = _COLOURS.get(run.status, "yellow") if run else "dim"
    return (
        _phase(state),
        _reached(state),
        age(state),
        str(state.delta_version if state.delta_version is not None else ""),
        f"{row.stats.files:,}" if row.stats else "",
        run.kind.words if run else "",
        f"[{colour}]{run.status}[/]" if run else "",
        f"{run.timing.started_at:%m-%d %H:%M:%S}" if run else "",
        escape(row.lease.holder_name) if row.lease else "",
    )


def _reached(state: "TableState") -> str:
    """Returns the watermark; of a table without cursor, whose watermark stays at its first load, when it was last compared."""
    if state.compared_at is not None:
        return f"none, compared {state.compared_at:%Y-%m-%d %H:%M:%S}"
    return escape(str(state.progress.watermark or ""))


def _phase(state: "TableState") -> str:
    if state.missing_since is not None:
        return "[red]missing[/]"
    return f"{state.phase} {state.progress.snapshot.done}/{state.progress.snapshot.total}" if state.progress.snapshot else str(state.phase)


def age(state: "TableState", now: datetime | None = None) -> str:
    """Returns how long ago a table was last known to be complete, e.g. `42 s`; `` if never."""
    lag = state.lag(now or datetime.now(UTC))
    if lag is None:
        return ""
    seconds = int(lag.total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
