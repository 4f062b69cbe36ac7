"""Compares source and lake in a process with an open Spark session, so that each comparison takes a few seconds.

    python -m cdc_ops.demo.check ROOT PIPELINE

The process answers each line on its standard input, the name of a pipeline, with one line of JSON. It compares by the package's own
`verify` step.
"""

import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_ops.core.pipeline.tables.table_matching import resolve_tables
from cdc_ops.demo import jvm
from cdc_ops.demo.layout import PIPELINE, Layout
from cdc_ops.demo.services import Service
from cdc_ops.errors import JobError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
    from cdc_ops.dev.databases.mariadb import MariaDBServer
    from cdc_ops.sources.base import Source
    from cdc_ops.steps.planning.reconcile import VerifyPlan

COMPARE_TIMEOUT, STOP_TIMEOUT, ARCHIVE_TIMEOUT = 300.0, 10.0, 120.0
REHEARSE = "rehearse"
SMALL = {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """The differences between a table's source and lake.

    Args:
        table: `schema.table`.
        rows_source, rows_lake: Number of rows on each side.
        only_in_source, only_in_lake, different: Number of keys that differ, by kind.
        duplicates: Number of rows with a key that another row of the same side has.
        samples: Some of the keys that differ, each with its kind.
    """

    table: str
    rows_source: int
    rows_lake: int
    only_in_source: int
    only_in_lake: int
    different: int
    duplicates: int
    samples: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """True if both sides have the same rows."""
        return not (self.only_in_source or self.only_in_lake or self.different or self.duplicates)


class Checker:
    """Starts the comparing process, and sends it requests."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._service = Service("check", layout.services, layout.logs)
        self._partial = layout.root / "spark-classes.jsa"
        # `_rehearse` needs the tables of the first demo.
        self.archives = layout.pipeline == PIPELINE and not jvm.archive(layout).exists()

    def start(self, environment: Mapping[str, str]) -> None:
        """Starts the process without waiting for its Spark session."""
        command = [sys.executable, "-m", "cdc_ops.demo.check", str(self._layout.root), self._layout.pipeline]
        if self.archives:
            environment = {**environment, "SPARK_SUBMIT_OPTS": jvm.archiving_options(self._partial)}
            command.append(REHEARSE)
        self._service.start(command, environment, self._layout.root, piped=True)

    def finish(self) -> None:
        """Stops the process. The first process writes the archive of classes for later demos."""
        ended = self._service.finish(ARCHIVE_TIMEOUT if self.archives else STOP_TIMEOUT)
        if self.archives and ended and self._partial.exists():
            self._partial.replace(jvm.archive(self._layout))
        self._partial.unlink(missing_ok=True)

    def compare(self, pipeline: str) -> dict[str, TableCheck]:
        """Compares all tables of a pipeline in their current state.

        Args:
            pipeline: Its name.

        Raises:
            JobError: the comparison failed; the error has the end of its log.
        """
        answer = json.loads(self._service.ask(pipeline, COMPARE_TIMEOUT) or "{}")
        if "tables" not in answer:
            raise JobError(
                "source and lake cannot be compared",
                why=answer.get("error") or self._service.log_tail(),
                data="the comparison reads only",
                next=f"read {self._service.log}",
            )
        return {one["table"]: TableCheck(**{**one, "samples": tuple(one["samples"])}) for one in answer["tables"]}


def main(arguments: list[str]) -> int:
    """Answers requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other output, also Spark's, goes to the log
    layout = replace(Layout.default(arguments[1]), root=Path(arguments[0]))
    from cdc_ops.config.loading import load_pipelines
    from cdc_ops.lake.spark.session import build_session

    spark = build_session("cdc-ops demo check", extra_conf=SMALL)
    pipelines = {one.name: one for one in load_pipelines(layout.pipelines)}
    for line in sys.stdin:
        print(json.dumps(_answer(spark, pipelines[line.strip()], layout)), file=answers, flush=True)
    if REHEARSE in arguments:
        _rehearse(spark, pipelines[layout.pipeline], layout)
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.proc.stdin.close()  # the JVM ends when its input is closed
    return int(gateway.proc.wait())


def _rehearse(spark: "SparkSession", pipeline: "Pipeline", layout: Layout) -> None:
    """Loads the small table into a separate lake and merges one key, so that the archive has the classes of these steps too."""
    from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
    from cdc_ops.demo.shop import source_url
    from cdc_ops.jobs import execute
    from cdc_ops.sources.base import open_source
    from cdc_ops.state.sql import open_store
    from cdc_ops.steps.context import Context
    from cdc_ops.steps.reporting.log_output import shown_by
    from cdc_ops.steps.runs.run import run_pipeline

    folder, url = layout.root / "rehearsal", source_url(_server(layout))
    target = replace(pipeline.target, root=str(folder / "lake"), staging=str(folder / "staging"))
    pipeline = replace(pipeline, target=target)
    tables = ("shop.sales",)
    first = RunRequest(run_id="rehearsal 1", trigger="cli", holder="rehearsal", tables=tables)
    second = replace(first, run_id="rehearsal 2", kind=RunKind.RESYNC, mode=ResyncMode.KEYS, keys=(("1",), ("2",)))
    folder.mkdir()
    store = open_store(f"sqlite:///{folder}/ledger.db")
    source = open_source(pipeline.source, url)
    try:
        context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, url))
        for request in (first, second):
            with shown_by(logging.StreamHandler(sys.stdout)):
                run_pipeline(context, source, request.checked(), lambda job: execute(spark, job, url))
    finally:
        source.close()
        store.close()


def _answer(spark: "SparkSession", pipeline: "Pipeline", layout: Layout) -> dict[str, Any]:
    try:
        return {"tables": [asdict(one) for one in compare_all(spark, pipeline, layout)]}
    except Exception as error:  # last handler of the process: the log gets the traceback, the screen the reason
        traceback.print_exc()
        return {"error": "\n".join(str(error).splitlines()[:8])}


def compare_all(spark: "SparkSession", pipeline: "Pipeline", layout: Layout) -> list[TableCheck]:
    """Compares every table of the pipeline with its Delta table."""
    from cdc_ops.demo.shop import source_url
    from cdc_ops.sources.base import open_source

    source = open_source(pipeline.source, source_url(_server(layout)))
    try:
        questions = [(config, _question(pipeline, source, config)) for config in resolve_tables(pipeline, source.tables())]
    finally:
        source.close()
    with ThreadPoolExecutor() as pool:  # the session waits for the database half of the time
        return list(pool.map(lambda question: _compare(spark, source, *question), questions))


def _server(layout: Layout) -> "MariaDBServer":
    from cdc_ops.dev.databases.mariadb import MariaDBServer

    server = MariaDBServer.attach(layout.mariadb)
    if server is None:
        raise JobError("the database server does not run", next=f"read {layout.mariadb}/server.log")
    return server


def _question(pipeline: "Pipeline", source: "Source", config: "TableConfig") -> "VerifyPlan":
    from cdc_ops.steps.planning.reconcile import plan_verification
    from cdc_ops.steps.table.source_table import read_source_table

    return plan_verification(source, read_source_table(pipeline, source, config), 2)


def _compare(spark: "SparkSession", source: "Source", config: "TableConfig", question: "VerifyPlan") -> TableCheck:
    from cdc_ops.steps.verify import verify

    found = verify(spark, source, question)
    return TableCheck(
        table=str(config.table),
        rows_source=found.rows_source,
        rows_lake=found.rows_lake,
        only_in_source=found.only_in_source,
        only_in_lake=found.only_in_lake,
        different=found.different,
        duplicates=found.duplicates,
        samples=tuple(f"{kind}: {', '.join(key)}" for kind, key in found.samples),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
