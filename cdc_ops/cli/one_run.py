"""A run of one pipeline in this process, and the question to a person whether it may cost more than its limit."""

import os
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from cdc_ops.cli import stopping
from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.session import LocalSpark, opened
from cdc_ops.config.settings import load_settings
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.errors import CdcError, CostRefusedError
from cdc_ops.steps.reporting.stopwatch import noted_imports

if TYPE_CHECKING:
    from cdc_ops.core.pipeline.pipeline import Pipeline
    from cdc_ops.steps.runs.run import RunReport


def run_one(pipeline: "Pipeline", request: RunRequest, *, as_json: bool, quiet: bool) -> "tuple[RunReport, str]":
    """Does what a request asks for with one pipeline; at a terminal, a person may accept a cost above its limit.

    Returns:
        What became of it, also if the process was told to end meanwhile, and where Spark's log is.
    """
    with noted_imports():
        from cdc_ops.steps.context import LEASE_TTL
        from cdc_ops.steps.reporting.findings import note_failed_run
        from cdc_ops.steps.runs.run import RunReport, RunStopped, run_pipeline

    stopping.takes_leases(LEASE_TTL)
    report = RunReport(runs=(), failures=())
    try:
        with progress(as_json or quiet), opened(pipeline) as (context, source), LocalSpark(pipeline) as spark:
            report = run_pipeline(context, source, request, spark.execute)
            note_failed_run(context.store, pipeline.name, request, began=True)
            return report, spark.log
    except RunStopped as stop:
        return stop.report, ""
    except KeyboardInterrupt as error:  # before the first table, or behind the last one
        return replace(report, stopped_by=stopping.by(error)), ""
    except CdcError as error:
        accepted = None if as_json or quiet else _answer(error)
        if accepted is None:
            _note(pipeline, request, error)
        if not accepted:
            raise
    return run_one(pipeline, replace(request, accepts=replace(request.accepts, cost=True)), as_json=as_json, quiet=quiet)


def _answer(error: CdcError) -> bool | None:
    """Returns whether the person at the terminal wants a run although its cost was refused; None if there is nobody or nothing to ask."""
    if not isinstance(error, CostRefusedError) or not (sys.stdin.isatty() and render.err.is_terminal):
        return None
    return typer.confirm(f"{error.what} {error.why}\nRun it anyway?", err=True)


def _note(pipeline: "Pipeline", request: RunRequest, error: CdcError) -> None:
    """Notes for `cdc-ops alerts` why a run ended before any table could tell; a command that asks for what there is not is no failure."""
    from cdc_ops.state.sql import open_store
    from cdc_ops.steps.reporting.findings import note_failed_run

    if request.is_wrong_by(error):
        return
    with suppress(CdcError), open_store(load_settings(os.environ).ledger) as store:  # it may be the ledger that is away
        note_failed_run(store, pipeline.name, request, str(error))
