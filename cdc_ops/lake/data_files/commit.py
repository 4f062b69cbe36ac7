"""Makes data files that were written outside Spark a part of their table, in one commit of Delta's own transaction. Runs in Spark's driver.

The transaction is the one that Delta's writer uses: it checks for conflicts, knows the table's log store, and writes checkpoints. The
commit carries transaction id and record as every other commit of an operation. PySpark has no public way to it, hence a session with its
JVM in the same machine: `can_commit` says whether there is one. How the classes are called is checked by the tests of the pinned version.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files as resources
from typing import Any, Final

import numpy as np
from pyspark.sql import SparkSession

from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.lake.data_files.key_search import Numbers
from cdc_ops.lake.data_files.writer import DataFile
from cdc_ops.lake.log.delta_log import LogState
from cdc_ops.lake.log.statistics_text import statistics_beside_deleted_rows
from cdc_ops.lake.spark import connect
from cdc_ops.lake.spark.jvm.java import converters, new_instance, scala_object

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

_HARMLESS: Final = frozenset(("comment", "delta.typeChanges"))
"""What the log may say of a column beside its type. More may ask something of values, as a generated column does."""
_DELETED_ROWS: Final = resources(__package__) / "DeletedRows.java"


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
    if other:
        return f"it has the property {other[0]}"
    fields = json.loads(metadata.get("schemaString") or '{"fields": []}')["fields"]
    strict = (field["name"] for field in fields if not field["nullable"] or field["metadata"].keys() - _HARMLESS)
    return next((f"its column {name!r} asks more than its type" for name in strict), "")


class FileTransaction:
    """A transaction on an operation's table, begun at the version that it reads: Delta's own.

    Args:
        session: Whose JVM commits.
        operation: The frozen operation, whose table exists.
    """

    def __init__(self, session: SparkSession, operation: Operation) -> None:
        self._session, self._operation = session, operation
        self._jvm: Any = session._jvm
        assert self._jvm is not None
        self._none = scala_object(self._jvm.scala, "None$")
        self._delta = self._jvm.org.apache.spark.sql.delta
        log = self._delta.DeltaLog.forTable(session._jsparkSession, operation.target.path)
        self._transaction = log.startTransaction(self._none, self._none)
        self._application = app_id(operation.pipeline, operation.table)
        self.number_taken = _number_of(self._transaction, self._application) >= operation.op_seq
        self._actions: Any = self._jvm.java.util.ArrayList()
        self._added: list[DataFile] = []
        self._from_json = self._delta.actions.Action.fromJson

    @property
    def version(self) -> int:
        """The version that it reads."""
        return int(self._transaction.readVersion())

    def read_all(self) -> None:
        """Says that it has read the whole table: whoever removes rows meanwhile is a conflict."""
        self._transaction.readWholeTable()

    def add(self, files: Sequence[DataFile]) -> None:
        """Adds files, each in the table's folder."""
        now = int(time.time() * 1000)
        self._added += files
        for file in files:
            self._act({"add": _added(file, now)})

    def delete_rows(self, files: Sequence[tuple[Mapping[str, Any], Numbers, int]]) -> int:
        """Deletes rows of files, by deletion vectors; returns how many of them were there until now.

        Args:
            files: Of each file its entry in the log, the numbers of the rows, from 0 on, and how many rows it has, deleted ones included:
                Delta wants that to be known of a file with deleted rows.
        """
        if not files:
            return 0
        told = [{**file, "stats": statistics_beside_deleted_rows(file.get("stats") or "", of)} for file, _, of in files]
        entries = "\n".join(json.dumps({"add": one}) for one in told)
        numbers = np.concatenate([part for _, rows, _ in files for part in ([len(rows)], rows)]).astype(">i8").tobytes()
        hadoop = self._session._jsparkSession.sessionState().newHadoopConf()
        deleted = new_instance(self._jvm, _DELETED_ROWS, beside=self._transaction)
        deleted.delete(self._operation.target.path, hadoop, entries, numbers)
        self._actions.addAll(deleted.actions())
        return int(deleted.count())

    def commit_append(self, record: str) -> int:
        """Commits, as a writer that appends; returns the version."""
        return self._commit(_write(self._jvm, self._none, record), {})

    def commit_replace(self, record: str, condition: str, deleted: int) -> int:
        """Commits, as a writer that replaces the rows of a condition.

        Args:
            record: The commit record, as the text that the commit carries.
            condition: By what the rows were found, as the history of the table shows it.
            deleted: How many rows were.
        """
        return self._commit(_write(self._jvm, self._none, record, condition), {"numDeletedRows": deleted, "numCopiedRows": 0})

    def _commit(self, operation: Any, others: Mapping[str, int]) -> int:
        number = {"appId": self._application, "version": self._operation.op_seq, "lastUpdated": int(time.time() * 1000)}
        counts = {
            "numFiles": len(self._added),
            "numOutputRows": sum(file.rows for file in self._added),
            "numOutputBytes": sum(file.size for file in self._added),
            **others,
        }
        self._transaction.registerSQLMetrics(self._session._jsparkSession, _metrics(self._jvm, self._session, counts))
        self._act({"txn": number})
        return int(self._transaction.commit(converters(self._jvm).asScala(self._actions).toSeq(), operation))

    def _act(self, content: Mapping[str, Any]) -> None:
        self._actions.add(self._from_json(json.dumps(content)))


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
    transaction = FileTransaction(session, operation)
    if transaction.number_taken:
        return None
    transaction.add(files)
    return transaction.commit_append(record)


def commit_statistics(session: SparkSession, path: str, corrected: Callable[[int], Sequence[Mapping[str, Any]]]) -> int:
    """Commits files' entries again that differ in their statistics alone, as Delta's own computation of statistics does; no row changes.

    Args:
        session: Whose JVM commits.
        path: The table.
        corrected: Returns the entries, for the version that the transaction reads; with none nothing is committed.

    Returns:
        Of how many files.

    Raises:
        PySparkException: Delta found a conflict. A file that somebody has removed meanwhile must not come back.
    """
    jvm: Any = session._jvm
    delta, none = jvm.org.apache.spark.sql.delta, scala_object(jvm.scala, "None$")
    transaction = delta.DeltaLog.forTable(session._jsparkSession, path).startTransaction(none, none)
    transaction.readWholeTable()
    entries = corrected(int(transaction.readVersion()))
    if entries:
        actions = jvm.java.util.ArrayList()
        for entry in entries:
            actions.add(delta.actions.Action.fromJson(json.dumps({"add": entry})))
        nothing = converters(jvm).asScala(jvm.java.util.ArrayList()).toSeq()
        operation = getattr(delta, "DeltaOperations$ComputeStats")(nothing)  # by its name Delta does not count these files twice
        transaction.commit(converters(jvm).asScala(actions).toSeq(), operation)
    return len(entries)


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


def _write(jvm: Any, none: Any, record: str, replaced: str = "") -> Any:
    """Returns what the commit says that it did: it added rows, or replaced those of a condition."""
    write = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Write")
    partitions, some = jvm.scala.Some(converters(jvm).asScala(jvm.java.util.ArrayList()).toSeq()), jvm.scala.Some
    mode = jvm.org.apache.spark.sql.SaveMode.Overwrite if replaced else jvm.org.apache.spark.sql.SaveMode.Append
    return write(mode, partitions, none, some(record), none, none, none, some(replaced) if replaced else none, none)


def _metrics(jvm: Any, session: SparkSession, counts: Mapping[str, int]) -> Any:
    found = jvm.java.util.HashMap()
    for name, value in counts.items():
        metric = jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric(session._jsparkSession.sparkContext(), name)
        metric.set(value)
        found.put(name, metric)
    immutable = scala_object(jvm.scala.collection.immutable, "Map$")
    return getattr(immutable, "from")(converters(jvm).asScala(found))
