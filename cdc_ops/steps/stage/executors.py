"""Whether Spark's executors can read and fold change events: their Python has the same cdc-ops, and what it needs. Runs in Spark."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

import cdc_ops
from cdc_ops.lake.spark.error_text import failure_of_task
from cdc_ops.lake.spark.session import sibling_session
from cdc_ops.lake.staging.shared_folder import has_remote_executors

logger = logging.getLogger("cdc_ops.archive")

_TASKS: Final = 8
"""With more tasks than executors, each of a small cluster is asked; what one of a large cluster lacks, its scan tells."""

_found: Final[dict[str, str]] = {}
_one_asks: Final = threading.Lock()


def do_the_work(spark: SparkSession, size: int, *, least: int, instead: str = "") -> bool:
    """Returns whether tasks of Spark read and fold so many bytes of events, and not this process.

    Args:
        spark: The session.
        size: Bytes of the work.
        least: Up to so many bytes this process is done before a job of Spark would have begun.
        instead: What this process does in their place, for the warning that executors cannot; "" = the run has said it before.
    """
    if size <= least:
        return False
    if not (missing := why_not(spark)):
        return True
    if instead:
        logger.warning(f"{instead}, because Spark's executors cannot: {missing}")
    return False


def why_not(spark: SparkSession) -> str:
    """Returns why a session's executors cannot read change events, "" if they can; they are asked once in an application.

    Executors within this machine's processes have this process' Python, and are not asked.
    """
    if not has_remote_executors(spark):
        return ""
    application = spark.conf.get("spark.app.id", None) or ""
    with _one_asks:
        if application not in _found:
            _found[application] = _asked(sibling_session(spark))
    return _found[application]


def _asked(spark: SparkSession) -> str:
    try:
        answers = spark.range(0, _TASKS, 1, _TASKS).mapInArrow(_question(cdc_ops.__version__), "answer string").collect()
    except Exception as error:  # whatever it is, executors without Python fail in many ways
        return f"of Spark's executors: {failure_of_task(error)}"
    return next((f"of Spark's executors: {row['answer']}" for row in answers if row["answer"]), "")


def _question(version: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns what executors run. It is sent as code, because they may have no cdc-ops that it could be found in."""

    def answers(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for _ in batches:
            try:
                import cdc_ops as theirs
                import cdc_ops.events.scan.scan

                same = theirs.__version__ == version
                said = "" if same else f"their cdc-ops is {theirs.__version__}, this one is {version}"
            except ImportError as error:
                said = str(error)
            yield pyarrow.record_batch({"answer": pyarrow.array([said], pyarrow.string())})

    return answers
