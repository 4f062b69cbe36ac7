"""A run of one pipeline in this process, and the question to a person whether it may cost more than its limit."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.session import LocalSpark, opened
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.errors import CostRefusedError
from cdc_ops.steps.reporting.stopwatch import noted_imports

if TYPE_CHECKING:
    from cdc_ops.core.pipeline.pipeline import Pipeline
    from cdc_ops.steps.runs.run import RunReport


def run_one(pipeline: "Pipeline", request: RunRequest, *, as_json: bool, quiet: bool) -> "tuple[RunReport, str]":
    """Does what a request asks for with one pipeline; at a terminal, a person may accept a cost above its limit.

    Returns:
        What became of it, and where Spark's log is.
    """
    with noted_imports():
        from cdc_ops.steps.runs.run import run_pipeline

    try:
        with progress(as_json or quiet) as say, opened(pipeline) as (context, source), LocalSpark(pipeline, say) as spark:
            return run_pipeline(context, source, request, spark.execute, say), spark.log
    except CostRefusedError as error:
        if as_json or quiet or not (sys.stdin.isatty() and render.err.is_terminal):
            raise
        if not typer.confirm(f"{error.what} {error.why}\nRun it anyway?", err=True):
            raise
    return run_one(pipeline, replace(request, accept_cost=True), as_json=as_json, quiet=quiet)
