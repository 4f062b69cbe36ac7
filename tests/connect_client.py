"""What a process does on a Spark Connect server, for tests: a process has either sessions of a JVM of its own, or of a server.

`python -m tests.connect_client WHAT SERVER FOLDER` prints a JSON object.
"""

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.errors import CdcError
from cdc_ops.lake.spark.conf import USER_METADATA
from cdc_ops.lake.spark.connect import Versions, open_connected
from cdc_ops.lake.spark.session import (
    close_session,
    idempotent_write,
    pinned,
    private_session,
    shared_view,
    sibling_session,
    table_session,
)

LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"


def settings(server: str, folder: Path) -> dict[str, Any]:
    """Two operations at once, one opened inside the other; each must have its own settings, and commit."""
    spark = open_connected(server, {})
    places, seen = [f"{folder}/{name}" for name in ("a", "b")], dict[str, Any]()
    for place in places:
        spark.sql(f"CREATE TABLE delta.`{place}` (id BIGINT) USING delta")
    together = threading.Barrier(len(places), timeout=60)

    def operate(number: int, place: str) -> None:
        with table_session(spark) as own, shared_view(own.range(3)) as view:
            for version in (1, 2):
                conf = {**idempotent_write(f"app-{number}", version), USER_METADATA: f"operation {version} of {number}"}
                with private_session(own, conf) as session:
                    together.wait()
                    rows = session.sql(
                        f"MERGE INTO delta.`{place}` t USING {view} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
                    ).collect()
                    committed = session.conf.get(LAST_COMMIT, None)
                    with private_session(session, {}) as inner:  # inherits nothing, or its statement would be skipped
                        leaked = [name for name in (*conf, LAST_COMMIT) if inner.conf.get(name, None) is not None]
                        inner.sql(f"DELETE FROM delta.`{place}` WHERE id = {version}").collect()
                    seen[f"{number}.{version}"] = [len(rows), committed, leaked]

    workers = [threading.Thread(target=operate, args=(number, place)) for number, place in enumerate(places)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    history = {
        place: [row["userMetadata"] for row in spark.sql(f"DESCRIBE HISTORY delta.`{place}`").orderBy("version").collect()]
        for place in places
    }
    left = [row["viewName"] for row in spark.sql("SHOW VIEWS IN global_temp").collect()]
    close_session(spark)
    return {"seen": seen, "history": list(history.values()), "views": left}


def versions(server: str, folder: Path) -> dict[str, Any]:
    """A server with another Spark, or another Delta."""
    ours = Versions.ours()
    spark = _refusal(lambda: open_connected(server, {}, Versions(spark="4.1.0", delta=ours.delta)))
    delta = _refusal(lambda: open_connected(server, {}, Versions(spark=ours.spark, delta="4.3.0")))
    close_session(open_connected(server, {}, ours))
    return {"spark": spark, "delta": delta, "ours": [ours.spark, ours.delta]}


def chosen(server: str, folder: Path) -> dict[str, Any]:
    """Settings of a pipeline file: those of a session, of the server, of Hadoop; and those that nobody may choose."""
    refused = _refusal(lambda: open_connected(server, {"spark.driver.memory": "7g", "spark.sql.warehouse.dir": "/elsewhere"}))
    conf = {"spark.sql.shuffle.partitions": "3", "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1", "spark.sql.ansi.enabled": "false"}
    spark = open_connected(server, conf)
    beside = sibling_session(spark)
    names = (
        "spark.sql.shuffle.partitions",
        "fs.s3a.endpoint",
        "spark.sql.ansi.enabled",
        "spark.sql.session.timeZone",
    )
    found = [beside.conf.get(name, None) for name in names]
    try:
        beside.sql("SELECT CAST('x' AS INT)").collect()
        strict = False
    except Exception as error:
        strict = "CAST_INVALID_INPUT" in str(error)
    close_session(spark)
    return {"refused": refused, "found": found, "strict": strict}


def vanished(server: str, folder: Path) -> dict[str, Any]:
    """Files that vanish after they were found, when the server looks at a plan again: as if its cache had dropped each."""
    spark = open_connected(server, {})
    spark.range(4).repartition(2).write.parquet(str(folder / "landed"))
    loose = spark.read.parquet(str(folder / "landed"))
    kept = pinned(spark.read.parquet(str(folder / "landed")))
    before = [loose.count(), kept.count()]
    max(folder.glob("landed/part-*"), key=lambda file: file.stat().st_size).unlink()  # one that has rows
    spark.conf.set("spark.connect.session.planCache.enabled", "false")  # which plans other reads drive out of it is the server's affair
    failed = False
    try:
        kept.agg(F.sum("id")).collect()
    except Exception as error:
        failed = "FILE_NOT_EXIST" in str(error)
    answer = {"before": before, "loose": loose.where("id >= 0").count(), "failed": failed}
    close_session(spark)
    return answer


def leftover(server: str, folder: Path) -> dict[str, Any]:
    """Views that killed clients left: the old one goes with the next start, one of today may be in use."""
    spark = open_connected(server, {})
    names = ("cdc_ops_20200101000000_a", "cdc_ops_29990101000000_b", "others")
    for name in names:
        spark.range(1).createGlobalTempView(name)
    close_session(spark)
    again = open_connected(server, {})
    left = sorted(row["viewName"] for row in again.sql("SHOW VIEWS IN global_temp").collect())
    for name in left:
        again.catalog.dropGlobalTempView(name)
    close_session(again)
    return {"left": left}


def loaders(server: str, folder: Path) -> dict[str, Any]:
    """The class loader of a task in three sessions of two applications: Spark keeps the code that it has generated for each of them."""
    query = "SELECT java_method('org.apache.spark.util.Utils', 'getContextOrSparkClassLoader') FROM range(1)"
    found = []
    for _ in range(2):
        spark = open_connected(server, {})
        found += [str(session.sql(query).collect()[0][0]) for session in (spark, sibling_session(spark))]
        close_session(spark)
    return {"found": found}


def _refusal(action: Callable[[], SparkSession]) -> list[str]:
    try:
        close_session(action())
    except CdcError as error:
        return [type(error).__name__, str(error.retryable), str(error)]
    return []


if __name__ == "__main__":
    what, where, place = sys.argv[1:]
    print(json.dumps(globals()[what](where, Path(place))))
