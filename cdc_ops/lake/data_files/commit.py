"""Makes data files that were written outside Spark a part of their table, in one commit of Delta's own transaction. Runs in Spark's driver.

The transaction is the one that Delta's writer uses: it checks for conflicts, knows the table's log store, and writes checkpoints. The
commit carries transaction id and record as every other commit of an operation. PySpark has no public way to it, hence a session with its
JVM in the same machine: `can_commit` says whether there is one. How the classes are called is checked by the tests of the pinned version.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from cdc_ops.lake.spark.conf import USER_METADATA
from cdc_ops.lake.spark.jvm.java import active_session, converters, new_instance, scala_object
from cdc_ops.lake.spark.session import private_session

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
Flags = np.ndarray[Any, np.dtype[np.bool_]]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRows:
    """Rows of a batch, and what became of the table's by them.

    Args:
        read: Rows of the batch.
        inserted: Rows that the table had not.
        updated: Rows of the table that became others.
        deleted: Rows of the table that went.
    """

    read: int
    inserted: int
    updated: int
    deleted: int


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
        self.folder = operation.target.path
        self.number_taken = _number_of(self._transaction, self._application) >= operation.op_seq
        self._actions: Any = self._jvm.java.util.ArrayList()
        self._added: list[DataFile] = []
        self._deleted: Any = None
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

    def look_at_rows(self, files: Sequence[tuple[Mapping[str, Any], Numbers, int]]) -> Flags:
        """Returns which rows of files are there; others are deleted already.

        Args:
            files: Of each file its entry in the log, the numbers of the rows, from 0 on, and how many rows it has, deleted ones included:
                Delta wants that to be known of a file with deleted rows.
        """
        told = [{**file, "stats": statistics_beside_deleted_rows(file.get("stats") or "", of)} for file, _, of in files]
        entries = "\n".join(json.dumps({"add": one}) for one in told)
        numbers = np.concatenate([part for _, rows, _ in files for part in ([len(rows)], rows)]).astype(">i8").tobytes()
        hadoop = self._session._jsparkSession.sessionState().newHadoopConf()
        self._deleted = new_instance(self._jvm, _DELETED_ROWS, beside=self._transaction)
        return np.frombuffer(bytes(self._deleted.look(self._operation.target.path, hadoop, entries, numbers)), bool)

    def delete_rows(self, chosen: Flags) -> None:
        """Deletes those that are chosen of the rows that were looked at, by deletion vectors."""
        self._deleted.delete(chosen.tobytes())
        self._actions.addAll(self._deleted.actions())

    def commit_append(self, record: str) -> int:
        """Commits, as a writer that appends; returns the version."""
        counts = {
            "numFiles": len(self._added),
            "numOutputRows": sum(file.rows for file in self._added),
            "numOutputBytes": sum(file.size for file in self._added),
        }
        return self._commit(_append(self._jvm, self._none, record), counts)

    def commit_merge(self, record: str, condition: str, rows: MergedRows) -> int:
        """Commits, as a MERGE that changes rows by their keys; returns the version.

        Args:
            record: The commit record, as the text that the commit carries.
            condition: By what the rows were found, as the history of the table shows it: Spark SQL.
            rows: How many there were.
        """
        found = self._session._jsparkSession.sessionState().sqlParser().parseExpression(condition)
        clauses = [converters(self._jvm).asScala(self._jvm.java.util.ArrayList()).toSeq()] * 3
        kind = getattr(self._delta, "DeltaOperations$Merge")
        merge = kind(self._jvm.scala.Some(found), self._none, self._none, self._none, *clauses)
        counts = {
            "numSourceRows": rows.read,
            "operationNumSourceRows": rows.read,  # Delta takes it for the first if that is not known
            "numTargetRowsInserted": rows.inserted,
            "numTargetRowsUpdated": rows.updated,
            "numTargetRowsMatchedUpdated": rows.updated,
            "numTargetRowsDeleted": rows.deleted,
            "numTargetRowsMatchedDeleted": rows.deleted,
            "numTargetRowsCopied": 0,
            "numOutputRows": sum(file.rows for file in self._added),
            "numTargetFilesAdded": len(self._added),
            "numTargetBytesAdded": sum(file.size for file in self._added),
        }
        with private_session(self._session, {USER_METADATA: record}) as own, active_session(own):  # of a MERGE Delta takes it from there
            return self._commit(merge, counts)

    def _commit(self, operation: Any, counts: Mapping[str, int]) -> int:
        number = {"appId": self._application, "version": self._operation.op_seq, "lastUpdated": int(time.time() * 1000)}
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


def _append(jvm: Any, none: Any, record: str) -> Any:
    """Returns what the commit says that it did: it added rows."""
    write = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Write")
    partitions = jvm.scala.Some(converters(jvm).asScala(jvm.java.util.ArrayList()).toSeq())
    return write(jvm.org.apache.spark.sql.SaveMode.Append, partitions, none, jvm.scala.Some(record), none, none, none, none, none)


def _metrics(jvm: Any, session: SparkSession, counts: Mapping[str, int]) -> Any:
    found = jvm.java.util.HashMap()
    for name, value in counts.items():
        metric = jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric(session._jsparkSession.sparkContext(), name)
        metric.set(value)
        found.put(name, metric)
    immutable = scala_object(jvm.scala.collection.immutable, "Map$")
    return getattr(immutable, "from")(converters(jvm).asScala(found))
