"""The commands of `cdc-ops`; each loads pipelines, asks the steps, and shows the answer."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_ops.cli import stopping
from cdc_ops.cli.chosen.pipeline_names import Names, One, Tables, one_name, pipeline_argument
from cdc_ops.cli.help_format import WHICH_COMMAND, Application, Program
from cdc_ops.cli.one_run import run_one
from cdc_ops.cli.output import render
from cdc_ops.cli.output.phases import print_phases
from cdc_ops.cli.output.stopped import print_stopped_run
from cdc_ops.cli.output.verbosity import is_verbose, verbose_option
from cdc_ops.cli.session import chosen_pipelines, new_request, opened
from cdc_ops.cli.trial import Trial, print_trial, try_pipelines
from cdc_ops.core import json_codec
from cdc_ops.core.instants import parse_instant
from cdc_ops.core.operation.run_request import Accepts, AskedComparison, ResyncMode, RunKind, RunRequest
from cdc_ops.core.reconcile.diff import CompareLevel, parse_accepted
from cdc_ops.core.text import split_list
from cdc_ops.errors import CdcError, ConfigError, EnvironmentSetupError, LakeError, RequestError, SourceError, StateError
from cdc_ops.steps.reporting.stopwatch import note_imports

if TYPE_CHECKING:
    from cdc_ops.core.pipeline.pipeline import Pipeline
    from cdc_ops.core.schema.tables import TableName
    from cdc_ops.steps.plan import TablePlan
    from cdc_ops.steps.runs.run import RunReport

app = Application(
    cls=Program,
    name="cdc-ops",
    help="Keeps Delta Lake tables equal to operational database tables, in batches.",
    epilog="Exit codes: 0 done, 2 usage, configuration or request, 3 source, 4 ledger or lake, 5 tables failed, 6 try again,"
    " 7 no table failed, but one waits at a gap in its archive, 130 ended by Ctrl-C, 143 ended by SIGTERM, 1 unknown error.",
    pretty_exceptions_enable=False,
)
state_app = Application(help="The ledger: a cache of what the commits of the Delta tables record.")
app.add_typer(state_app, name="state")

Folder = Annotated[
    Path | None,
    typer.Option("--pipelines", metavar="FOLDER", help="Folder of the pipeline files. Default: CDC_OPS_PIPELINES, else dags/pipelines."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]
AcceptCost = Annotated[bool, typer.Option("--accept-cost", help="Run although the estimate is above max_cost.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors and alerts only to standard error; the result stays.")]
Since = Annotated[str, typer.Option(metavar="TIME", help="Start of the range (included), e.g. 2026-01-31T00:00:00Z.")]
Until = Annotated[str, typer.Option(metavar="TIME", help="End of the range (excluded), e.g. 2026-02-01T00:00:00Z.")]

TABLES_FAILED, TRY_AGAIN, ARCHIVE_GAP = 5, 6, 7


def main() -> None:
    """Entry point of the `cdc-ops` command."""
    note_imports()
    with stopping.handled(render.print_error):
        app()


def exit_code(error: CdcError) -> int:
    """Returns the documented exit code of an error."""
    match error:
        case ConfigError() | RequestError() | EnvironmentSetupError():
            return 2
        case _ if error.retryable:
            return TRY_AGAIN
        case SourceError():
            return 3
        case LakeError() | StateError():
            return 4
        case _:
            return TABLES_FAILED


def common_exit_code(errors: Iterable[CdcError]) -> int:
    """Returns the exit code of tables that failed: the one that all of them have, else that somebody has to look at them."""
    codes = {exit_code(error) for error in errors}
    return codes.pop() if len(codes) == 1 else TABLES_FAILED


@contextmanager
def guarded(as_json: bool, stopped: Callable[[], str] = lambda: "What is committed stays.") -> Iterator[None]:
    """Turns an error of the package into its text and its exit code, and so Ctrl-C and SIGTERM.

    Args:
        as_json: Whether the command shows JSON.
        stopped: Says what it means for the data that the command was ended.
    """
    stopping.shows(as_json=as_json)
    try:
        yield
    except typer.Exit:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if stopping.requested() or isinstance(error, KeyboardInterrupt):  # an error may be only what the end of the JVM has made of it
            by = stopping.by(error)
            stopping.has_said()
            render.print_error(stopping.stopped_error(by, stopped()), as_json)
            raise typer.Exit(stopping.CODES[by]) from None
        if not isinstance(error, CdcError):
            raise
        render.print_error(error, as_json)
        raise typer.Exit(exit_code(error)) from None


@contextmanager
def isolated_errors(name: str, pipelines: "Sequence[Pipeline]", stopped: dict[str, CdcError], as_json: bool) -> Iterator[None]:
    """Keeps an error that stops a whole pipeline from the pipelines beside it; of a single pipeline it is the command's own error.

    Args:
        name: The pipeline.
        pipelines: All that the command works on.
        stopped: Receives the error, by the pipeline's name.
        as_json: Whether the error is shown by the caller, in its one document.
    """
    try:
        yield
    except CdcError as error:
        if len(pipelines) == 1 or stopping.requested():
            raise
        stopped[name] = error
        if not as_json:
            render.print_stopped(name, error)


@app.command()
@pipeline_argument
def validate(pipeline: Names = None, folder: Folder = None, as_json: Json = False) -> None:
    """Check the pipeline files. Connects to nothing.

    All files of the folder are read; with a pipeline, only that one is shown.
    """
    from cdc_ops.config.expressions.table_conditions import check_conditions

    with guarded(as_json):
        pipelines = chosen_pipelines(folder, pipeline or [])
        for one in pipelines:
            check_conditions(one)
    if as_json:
        render.print_json([{"pipeline": p.name, "file": p.origin, "entries": len(p.tables), "schedule": p.schedule} for p in pipelines])
        return
    for one in pipelines:
        render.out.print(f"[green]ok[/] {one.name}: {len(one.tables)} table entries, {one.origin}", soft_wrap=True)


@app.command()
@pipeline_argument
def plan(folder: Folder = None, pipeline: Names = None, table: Tables = None, as_json: Json = False) -> None:
    """Show what `run` would do now, and what it is estimated to cost. Reads source, lake and ledger; writes no row; starts no Spark.

    It makes the ledger if there is none, and brings it to this version.
    """
    from cdc_ops.cli.output.costs import print_costs, refusals

    with guarded(as_json, lambda: "Nothing was written."):
        request = new_request(tables=tuple(table or ()))
        documents, errors = list[dict[str, Any]](), list[CdcError]()
        stopped: dict[str, CdcError] = {}
        pipelines = chosen_pipelines(folder, pipeline or [])
        for chosen in pipelines:
            with isolated_errors(chosen.name, pipelines, stopped, as_json):
                plans, warnings = _plans(chosen, request)
                errors += [item for _, item in plans if isinstance(item, CdcError)]
                documents.append({"pipeline": chosen.name, "tables": [{"table": str(name), **_plan_data(item)} for name, item in plans]})
                refused = refusals(chosen, plans)
                errors += refused
                documents[-1] |= {"warnings": list(warnings), "refused": [error.to_payload() for error in refused]}
                if not as_json:
                    render.print_plans(chosen.name, plans)
                    print_costs(chosen, plans)
                    render.print_warnings(warnings)
                    for error in refused:
                        render.print_error(error, as_json=False)
    if as_json:
        render.print_json([*documents, *({"pipeline": name, "tables": [], **_stop_data(error)} for name, error in stopped.items())])
    if errors or stopped:
        raise typer.Exit(common_exit_code([*errors, *stopped.values()]))


@app.command()
@verbose_option
@pipeline_argument
def run(  # noqa: PLR0913, PLR0917  a command line has as many parameters as it has options
    folder: Folder = None,
    pipeline: Names = None,
    table: Tables = None,
    limit: Annotated[
        int,
        typer.Option("--limit", "--sample", help="A trial: read at most this number of rows of each table into a separate folder.", min=0),
    ] = 0,
    into: Annotated[str, typer.Option(help="Folder of a trial, which must not exist. Default: a temporary folder.")] = "",
    accept_cost: AcceptCost = False,
    accept_server: Annotated[
        bool, typer.Option("--accept-server", help="Go on under the watermark of another server than the one that answers now.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Copy tables to the lake: all rows at first (snapshot), then what has changed (increments).

    With --limit it only tries them: ledger, lake and watermark stay as they are.
    """
    with guarded(as_json):
        names, tables = pipeline or [], tuple(table or ())
        if limit:
            _try(try_pipelines(folder, names, tables, limit, into, quiet or as_json), as_json)
            return
        if into:
            raise RequestError("--into is the folder of a trial.", data="Nothing was read.", next="Add --limit 100, or remove --into.")
        run_all(folder, names, new_request(tables=tables, accepts=Accepts(cost=accept_cost, server=accept_server)), as_json, quiet)


def _try(trial: Trial, as_json: bool) -> None:
    if as_json:
        render.print_json(trial.data())
    else:
        print_trial(trial)
    if trial.refused:
        raise typer.Exit(TRY_AGAIN if all(error.retryable for error in trial.refused.values()) else TABLES_FAILED)


@app.command(epilog=WHICH_COMMAND)
@verbose_option
@pipeline_argument
def backfill(  # noqa: PLR0913, PLR0917  a command line has as many parameters as it has options
    pipeline: One = "",
    since: Since = "",
    until: Until = "",
    table: Tables = None,
    columns: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS",
            help="Fill only these columns, separated by commas, in the rows of the lake. Without a range: in all rows."
            " Put a name with a comma or outer blanks in double quotes.",
        ),
    ] = "",
    folder: Folder = None,
    accept_cost: AcceptCost = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read a time range again and merge it, or fill single columns. The watermark does not move."""
    with guarded(as_json):
        request = new_request(
            kind=RunKind.BACKFILL,
            tables=tuple(table or ()),
            since=parse_instant(since, "since") if since else None,
            until=parse_instant(until, "until") if until else None,
            columns=tuple(filter(None, split_list(columns))),
            accepts=Accepts(cost=accept_cost),
        )
        run_all(folder, [one_name(folder, pipeline)], request, as_json, quiet)


@app.command(epilog=WHICH_COMMAND)
@verbose_option
@pipeline_argument
def resync(  # noqa: PLR0913, PLR0917  a command line has as many parameters as it has options
    mode: Annotated[ResyncMode, typer.Option(metavar="MODE", help="What to read again: keys, range, full, replay or quarantine.")],
    pipeline: One = "",
    table: Tables = None,
    since: Since = "",
    until: Until = "",
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Key of a row. Separate parts of a composite key by commas; put a part with a comma or outer blanks in double"
            " quotes. May be repeated.",
        ),
    ] = None,
    folder: Folder = None,
    accept_cost: AcceptCost = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read keys, a time range or whole tables again. The watermark does not move.

    Modes keys and full also delete rows that are gone at the source.
    """
    with guarded(as_json):
        request = new_request(
            kind=RunKind.RESYNC,
            mode=mode,
            tables=tuple(table or ()),
            since=parse_instant(since, "since") if since else None,
            until=parse_instant(until, "until") if until else None,
            keys=tuple(map(split_list, key or ())),
            accepts=Accepts(cost=accept_cost),
        )
        run_all(folder, [one_name(folder, pipeline)], request, as_json, quiet)


@app.command(epilog=WHICH_COMMAND)
@verbose_option
@pipeline_argument
def reconcile(  # noqa: PLR0913, PLR0917  a command line has as many parameters as it has options
    pipeline: Names = None,
    table: Tables = None,
    rows: Annotated[bool, typer.Option("--rows", help="Compare all columns, also of tables with a cursor; without it their keys.")] = False,
    accept_deletes: Annotated[
        str,
        typer.Option(
            metavar="NUMBER|SHARE", help="Delete up to so many rows of one table (500), or this share (30%), above its limits too."
        ),
    ] = "",
    folder: Folder = None,
    accept_cost: AcceptCost = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare source and lake by checksums, delete rows that are gone at the source, and merge rows that differ.

    The watermark does not move.
    """
    with guarded(as_json):
        number, ratio = parse_accepted(accept_deletes)
        request = new_request(
            kind=RunKind.RECONCILE,
            tables=tuple(table or ()),
            compare=AskedComparison(strength=CompareLevel.ROWS if rows else None),
            accepts=Accepts(deletes=number, delete_ratio=ratio, cost=accept_cost),
        )
        run_all(folder, pipeline or [], request, as_json, quiet)


@app.command()
def schema() -> None:
    """Print the JSON Schema of pipeline files, for editors."""
    from cdc_ops.config.fields.json_schema import json_schema

    render.print_json(json_schema())


def _plans(chosen: "Pipeline", request: RunRequest) -> "tuple[list[tuple[TableName, TablePlan | CdcError]], tuple[str, ...]]":
    from cdc_ops.steps.discovery import discover_all
    from cdc_ops.steps.plan import plan_table

    plans: list[tuple[TableName, TablePlan | CdcError]] = []
    with opened(chosen) as (context, source):
        discovery = discover_all(context, source, request)
        for config in discovery.tables:
            try:
                plans.append((config.table, plan_table(context, source, request, config)))
            except CdcError as error:
                plans.append((config.table, error))
    return plans, discovery.warnings


def _plan_data(item: "TablePlan | CdcError") -> dict[str, Any]:
    if isinstance(item, CdcError):
        return {"error": item.to_payload()}
    return {
        "idle": item.new.idle,
        "unfinished": len(item.unfinished),
        "warnings": list(item.warnings),
        "how": item.new.how,
        "alert": item.alert,
        "missing_since": json_codec.to_data(item.missing_since),
        "method": item.method,
        "cost": json_codec.to_data(item.cost),
        "operations": json_codec.to_data(item.operations),
    }


def run_all(folder: Path | None, names: list[str], request: RunRequest, as_json: bool, quiet: bool = False) -> None:
    """Does what a request asks for with each of some pipelines, and says what became of it; `quiet` leaves warnings out."""
    from cdc_ops.cli.output.costs import print_actual_costs

    reports: dict[str, RunReport] = {}
    logs: dict[str, str] = {}
    stopped: dict[str, CdcError] = {}
    pipelines = chosen_pipelines(folder, names)
    for pipeline in pipelines:
        with isolated_errors(pipeline.name, pipelines, stopped, as_json):
            report, log = run_one(pipeline, request, as_json=as_json, quiet=quiet)
            reports[pipeline.name], logs[pipeline.name] = report, log
            if report.stopped_by:
                names_left = [one.name for one in pipelines if one.name not in reports and one.name not in stopped]
                raise typer.Exit(_show_stopped(reports, stopped, names_left, request, as_json))
            if not as_json:
                render.print_report(pipeline.name, report.only_alerts if quiet else report, log)
                if not quiet:
                    print_phases(report)
                if is_verbose():
                    print_actual_costs(report)
    if as_json:
        done = {name: {**render.report_data(report), "spark_log": logs[name]} for name, report in reports.items()}
        render.print_json(done | _without_report(stopped))
    _exit_after(reports, stopped.values())


def _show_stopped(
    reports: "dict[str, RunReport]", stopped: dict[str, CdcError], left: list[str], request: RunRequest, as_json: bool
) -> int:
    """Shows what became of runs of which the last one was ended, and returns the exit code.

    Args:
        reports: Of the runs, by pipeline.
        stopped: Errors that stopped whole pipelines.
        left: Pipelines that were not begun.
        request, as_json: As for `run_all`.
    """
    name, ended = next(reversed(reports.items()))
    planned = bool(ended.runs) and not ended.not_begun and not left  # asked for again, it would be done twice
    follow_up = f"cdc-ops run --pipeline {name}" if planned and request.kind is not RunKind.INCREMENT else stopping.same_command()
    stopping.has_said()
    if as_json:
        done = {one: {**render.report_data(report), "spark_log": ""} for one, report in reports.items()}
        done[name]["stopped"] |= {"pipelines_not_begun": left, "next": follow_up}
        render.print_json(done | _without_report(stopped))
    else:
        print_stopped_run(name, ended, left, follow_up)
    return stopping.CODES[ended.stopped_by]


def _without_report(stopped: dict[str, CdcError]) -> dict[str, Any]:
    return {name: {"tables": [], "failures": [], **_stop_data(error)} for name, error in stopped.items()}


def _stop_data(error: CdcError) -> dict[str, Any]:
    return {"error": error.to_payload(), "retryable": error.retryable}


def _exit_after(reports: "dict[str, RunReport]", stopped: Iterable[CdcError] = ()) -> None:
    errors = [*stopped, *(failure.error for report in reports.values() for failure in report.failures)]
    if errors:
        raise typer.Exit(common_exit_code(errors))
    if any(run.waits_for_somebody for report in reports.values() for run in report.runs):
        raise typer.Exit(ARCHIVE_GAP)
