"""One whole run of a pipeline in a Spark session that is there, as `cdc-ops run` does it: from the pipeline file to the ledger."""

import json
import logging
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.jobs import execute
from cdc_ops.sources.base import open_source
from cdc_ops.state.sql import open_store
from cdc_ops.steps.context import Context
from cdc_ops.steps.reporting.log_output import shown_by
from cdc_ops.steps.runs.run import run_pipeline


def run_described(spark: SparkSession, place: Path, described: dict[str, Any]) -> None:
    """Writes a pipeline file into a folder, and runs it with a ledger beside it; its tables are declared in it."""
    (place / "pipeline.yaml").write_text(json.dumps(described), "utf-8")
    pipeline = load_pipeline(place / "pipeline.yaml", {})
    request = RunRequest(run_id="bench", trigger="bench", holder="bench").checked()
    with closing(open_store(f"sqlite:///{place / 'ledger.db'}")) as store, closing(open_source(pipeline.source, "")) as source:
        context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, ""))
        with shown_by(logging.StreamHandler(sys.stdout)):
            report = run_pipeline(context, source, request, lambda job: execute(spark, job, ""))
    assert not report.failures, report.failures
