"""Makes data files that were written outside Spark a part of their table, in one commit of Delta's own transaction. Runs in Spark's driver.

The transaction is the one that Delta's writer uses: it checks for conflicts, knows the table's log store, and writes checkpoints. The
commit carries transaction id and record as every other commit of an operation. PySpark has no public way to it, hence a session with its
JVM in the same machine: `can_commit` says whether there is one. How the classes are called is checked by the tests of the pinned version.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import SparkSession

from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.lake.data_files.writer import DataFile
from cdc_ops.lake.log.delta_log import LogState
from cdc_ops.lake.spark import connect

_UNDERSTOOD: Final = frozenset(
    (
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.deletedFileRetentionDuration",
        "delta.enableChangeDataFeed",
        "delta.enableDeletionVectors",
        "delta.enableTypeWidening",
        "delta.logRetentionDuration",
        "delta.setTransactionRetentionDuration",
    )
)
"""Properties of a table that ask nothing of a data file. Others may, e.g. column mapping, constraints and Iceberg's compatibility."""


def can_commit(spark: SparkSession) -> bool:
    """True if the session's JVM can be asked, which a Spark Connect server's cannot."""
    return not connect.is_connected(spark)


def why_not_plain(state: LogState) -> str:
    """Returns what of a table asks more of a data file than that it has the table's columns, "" if nothing does."""
    metadata = state.metadata or {}
    if metadata.get("partitionColumns"):
        return "it is partitioned"
    names: Mapping[str, str] = metadata.get("configuration") or {}
    other = sorted(name for name in names if name.lower().startswith("delta.") and name not in _UNDERSTOOD)
    return f"it has the property {other[0]}" if other else ""


def commit_files(session: SparkSession, operation: Operation, files: Sequence[DataFile], record: str) -> int | None:
    """Adds files to an operation's table, under the operation's number and with its record.

    Args:
        session: Whose JVM commits.
        operation: The frozen operation, whose table exists.
        files: What is added; each is in the table's folder.
        record: The commit record, as the text that the commit carries.

    Returns:
        The version; None if the table has the operation's number already, or a later one: nothing is committed then.

    Raises:
        PySparkException: Delta found a conflict (`lake.table.create.translated_conflicts`).
    """
    jvm: Any = session._jvm
    none = _object(jvm.scala, "None$")
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session._jsparkSession, operation.target.path)
    transaction = log.startTransaction(none, none)
    application = app_id(operation.pipeline, operation.table)
    if _number_of(transaction, application) >= operation.op_seq:
        return None
    now = int(time.time() * 1000)
    actions = [{"add": _added(file, now)} for file in files]
    actions.append({"txn": {"appId": application, "version": operation.op_seq, "lastUpdated": now}})
    parsed = [jvm.org.apache.spark.sql.delta.actions.Action.fromJson(json.dumps(action)) for action in actions]
    counts = {
        "numFiles": len(files),
        "numOutputRows": sum(file.rows for file in files),
        "numOutputBytes": sum(file.size for file in files),
    }
    transaction.registerSQLMetrics(session._jsparkSession, _metrics(jvm, session, counts))
    return int(transaction.commit(_sequence(jvm, parsed), _append(jvm, none, record)))


def _number_of(transaction: Any, application: str) -> int:
    """Returns the last number of an application that the table has, -1 if it has none; a later one by another writer is a conflict then.

    Delta's own way to ask (`txnVersion`) computes the table's state by a job of Spark, where the checksum of its version mostly tells.
    """
    checksum = transaction.snapshot().checksumOpt()
    known = checksum.get().setTransactions() if checksum.isDefined() else checksum
    if not known.isDefined():
        return int(transaction.txnVersion(application))
    transaction.readTxn().addOne(application)
    found = known.get().iterator()
    while found.hasNext():
        one = found.next()
        if one.appId() == application:
            return int(one.version())
    return -1


def _added(file: DataFile, now: int) -> dict[str, Any]:
    return {
        "path": file.name,
        "partitionValues": {},
        "size": file.size,
        "modificationTime": now,
        "dataChange": True,
        "stats": file.statistics,
    }


def _append(jvm: Any, none: Any, record: str) -> Any:
    """Returns what the commit says that it did: an append by a writer, without partitions."""
    write = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Write")
    mode, partitions = jvm.org.apache.spark.sql.SaveMode.Append, jvm.scala.Some(_sequence(jvm, []))
    return write(mode, partitions, none, jvm.scala.Some(record), none, none, none, none, none)


def _metrics(jvm: Any, session: SparkSession, counts: Mapping[str, int]) -> Any:
    found = jvm.java.util.HashMap()
    for name, value in counts.items():
        metric = jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric(session._jsparkSession.sparkContext(), name)
        metric.set(value)
        found.put(name, metric)
    immutable = _object(jvm.scala.collection.immutable, "Map$")
    return getattr(immutable, "from")(_converters(jvm).asScala(found))


def _sequence(jvm: Any, items: Sequence[Any]) -> Any:
    found = jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return _converters(jvm).asScala(found).toSeq()


def _converters(jvm: Any) -> Any:
    return jvm.scala.jdk.javaapi.CollectionConverters


def _object(package: Any, name: str) -> Any:
    """Returns one of Scala's singletons."""
    return getattr(getattr(package, name), "MODULE$")
