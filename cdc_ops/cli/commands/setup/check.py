"""The connection test: check. It tries whatever a run needs, and changes nothing."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from cdc_ops.cli.chosen.pipeline_names import Names, pipeline_argument
from cdc_ops.cli.commands.pipelines import Folder, Json, app, exit_code, guarded
from cdc_ops.cli.environment import used_env_file
from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import print_sentence
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.output.verbosity import verbose_option
from cdc_ops.cli.session import LocalSpark, chosen_pipelines, connect
from cdc_ops.config.settings import load_settings
from cdc_ops.core import json_codec
from cdc_ops.core.findings import Finding, Verdict, failed, ok, warning
from cdc_ops.errors import CdcError, UnforeseenJobError

if TYPE_CHECKING:
    from cdc_ops.core.pipeline.pipeline import Pipeline
    from cdc_ops.steps.check import Surroundings

_COLOURS = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.FAILED: "red"}


@app.command()
@verbose_option
@pipeline_argument
def check(
    folder: Folder = None,
    pipeline: Names = None,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark, and read a row of each pipeline's first table.")] = False,
    as_json: Json = False,
) -> None:
    """Try what a run needs, from ledger and source to target and archive; exits with the code of the first failure."""
    from cdc_ops.steps.check import Surroundings

    with guarded(as_json):
        settings = load_settings(os.environ)
        chosen = chosen_pipelines(folder, pipeline or [])
        around = Surroundings(
            ledger=settings.ledger,
            jars=settings.jars,
            connect=lambda pipeline: connect(pipeline.source),
            code=exit_code,
            environ=os.environ,
        )
    with progress(as_json or not spark):
        findings = list(_findings(around, chosen, reads=spark))
    if as_json:
        render.print_json([json_codec.to_data(finding) for finding in findings])
    else:
        _print(findings)
    code = next((finding.code for finding in findings if finding.verdict is Verdict.FAILED), 0)
    if code:
        raise typer.Exit(code)


def _findings(around: "Surroundings", chosen: "tuple[Pipeline, ...]", *, reads: bool) -> Iterator[Finding]:
    from cdc_ops.steps.check import check_machine, check_pipeline

    if read := used_env_file():
        yield ok("variables", f"from {read.words}")
    yield from check_machine(around)
    for pipeline in chosen:
        findings = list(check_pipeline(around, pipeline))
        yield from findings
        yield from (replace(finding, pipeline=pipeline.name) for finding in _receivers(pipeline))
        if reads and not pipeline.source.is_declared:
            yield replace(_read_by_spark(pipeline), pipeline=pipeline.name)


def _receivers(pipeline: "Pipeline") -> Iterator[Finding]:
    """Yields whether the connections of the receivers of alerts can be meant; nothing is sent, and no run fails without them."""
    from cdc_ops.cli.commands.alerts import find_channel

    for receiver in pipeline.notify:
        what = f"receiver {receiver.name}"
        try:
            channel = find_channel(receiver)
        except CdcError as error:
            yield warning(what, " ".join(error.what.split()), error.next)
        else:
            yield ok(what, "its connection is set" if channel else "a notifier of Airflow; only Airflow can look at it")


def _read_by_spark(pipeline: "Pipeline") -> Finding:
    """Starts Spark and reads one row, as a run would."""
    from cdc_ops.steps.trial import read_first_row

    spark = LocalSpark(pipeline)
    try:
        with closing(connect(pipeline.source)) as source, spark:
            return ok("Spark", read_first_row(spark.session(), pipeline, source))
    except CdcError as error:
        return replace(failed("Spark", error), code=exit_code(error))
    except Exception as error:  # the border to Spark: whatever it is, it is what the check found
        why = str(error).strip().partition("\n")[0]
        problem = UnforeseenJobError(f"Spark failed with {type(error).__name__}.", why=why, next=f"See Spark's log: {spark.log}")
        return replace(failed("Spark", problem), code=exit_code(problem))


def _print(findings: list[Finding]) -> None:
    """Shows a table for what all share, and one for each pipeline; below each, what is to be done."""
    for pipeline in dict.fromkeys(finding.pipeline for finding in findings):
        table = Table(title=f"Check of {pipeline}" if pipeline else "Check", title_justify="left", header_style="bold")
        for column in ("what", "", "seen"):
            table.add_column(column, overflow="fold")
        found = [finding for finding in findings if finding.pipeline == pipeline]
        for finding in found:
            table.add_row(escape(finding.what), f"[{_COLOURS[finding.verdict]}]{finding.verdict}[/]", escape(finding.seen))
        render.out.print(table)
        for finding in found:
            if finding.next:  # below the table, where a command can be copied
                print_sentence(render.out, finding.next, name=finding.what, colour=_COLOURS[finding.verdict])
    counted = {verdict: sum(finding.verdict is verdict for finding in findings) for verdict in Verdict}
    render.out.print(", ".join(f"{number} {verdict}" for verdict, number in counted.items() if number), highlight=False)
