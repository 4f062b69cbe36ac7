"""An application on a Spark cluster, for tests: a process of its own that runs jobs while it tells what the executors do.

`python -m tests.cluster_client CONF.json` opens a session as a job does, and answers each line of standard input with one JSON line:
`{"start": [JOB.json, URL OF ITS SOURCE]}` begins a job, `{"look": 0}` tells how far it is, `{"rows": [PATH, COLUMNS]}` reads a Delta table.
"""

import json
import logging
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdc_ops.core import json_codec
from cdc_ops.core.operation.job import JobSpec
from cdc_ops.jobs import execute
from cdc_ops.lake.file_io import write_text
from cdc_ops.lake.spark.session import build_session


class Client:
    """One application, with at most one job at a time."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.job: threading.Thread | None = None
        self.error = ""
        context: Any = spark.sparkContext
        self.scala = context._jsc.sc()

    def start(self, what: list[str]) -> dict[str, Any]:
        path, url = what

        def run() -> None:
            try:
                spec = json_codec.loads(JobSpec, Path(path).read_text())
                result = execute(self.spark, spec, url)
                write_text(spec.result_path, json_codec.dumps(result))
            except BaseException:
                self.error = traceback.format_exc()

        self.error, self.job = "", threading.Thread(target=run)
        self.job.start()
        return self.look(0)

    def look(self, _: int) -> dict[str, Any]:
        running = self.scala.taskScheduler().runningTasksByExecutors().iterator()  # the pages' own numbers are some time late
        each = [running.next() for _ in iter(running.hasNext, False)]
        return {
            "done": self.job is None or not self.job.is_alive(),
            "error": self.error,
            "jobs": self.scala.dagScheduler().numTotalJobs(),
            "tasks": {one._1(): one._2() for one in each},
            "parallelism": self.scala.defaultParallelism(),
        }

    def rows(self, what: list[str]) -> dict[str, Any]:
        path, columns = what
        found = self.spark.sql(f"SELECT {columns} FROM delta.`{path}`").collect()
        return {"rows": sorted([str(value) for value in row] for row in found)}


def main(path: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    logging.basicConfig(format="%(message)s")
    logging.getLogger("cdc_ops").setLevel(logging.INFO)
    client = Client(build_session("cdc-ops cluster test", extra_conf=json.loads(Path(path).read_text())))
    for line in sys.stdin:
        [(command, given)] = json.loads(line).items()
        print(json.dumps(getattr(client, command)(given)), file=answers, flush=True)
    client.spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
