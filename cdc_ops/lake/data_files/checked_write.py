"""Delta's own write of a DataFrame, stopped between its files and its commit: what was written is looked at first. Runs in Spark's driver.

    rows --Delta's writer--> data files and their entries of the log --check--> one commit: entries, number, record

The same classes as behind `DataFrame.write`, so layout, statistics, constraints and names of columns are Delta's. They are called one after
the other, hence a session with its JVM in the same machine (`lake.data_files.commit.can_commit`).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.lake.data_files.writer import remove_data_files
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.log.data_files import physical_names
from cdc_ops.lake.spark.jvm.java import active_session, converters, scala_object

COUNTED: Final = {"spark.databricks.delta.stats.collect": "true"}
"""The setting of a session by which Delta's writer counts the rows of each file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A data file that no commit names yet.

    Args:
        name: In the table's folder.
        rows: How many.
        partition: The values of the partition columns that all of its rows have, as Delta's log keeps them: text, None = NULL.
    """

    name: str
    rows: int
    partition: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """Rows that are written and not committed.

    Args:
        folder: The table.
        files: Where they are.
        names: The names that columns have in files, by those that they have in the table.
        frame: Returns them as Spark reads them.
    """

    folder: str
    files: tuple[WrittenFile, ...]
    names: Mapping[str, str]
    frame: Callable[[], DataFrame]

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(file.rows for file in self.files)

    def parts(self, file: WrittenFile, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yields some columns of a file, row group by row group; of those that the table is partitioned by, the text that the log keeps."""
        inner = {name.lower(): of_file for name, of_file in self.names.items()}
        asked = [inner[name.lower()] for name in names]
        filesystem, root = open_filesystem(self.folder)
        with filesystem.open(f"{root}/{file.name}", "rb") as stream:
            parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
            for number in range(parquet.num_row_groups):
                count = parquet.metadata.row_group(number).num_rows
                stored = [name for name in asked if name not in file.partition]
                found = parquet.read_row_group(number, columns=stored, use_threads=False)
                texts = {name: pa.repeat(pa.scalar(text, pa.string()), count) for name, text in file.partition.items()}
                yield pa.table([texts[name] if name in texts else found[name] for name in asked], list(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenVersion:
    """A version of a table that has not the transaction id of the rows yet; a commit behind it that writes rows is a conflict.

    Args:
        version: Its number.
        application: Of the transaction id.
    """

    version: int
    application: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedWrite:
    """What is written, and what must be true of it.

    Args:
        rows: The rows; their session carries the transaction id, the commit record, and `COUNTED`.
        folder: The table, which exists.
        overwrites: They replace all rows of the table.
        partition_by: What a table is partitioned by that they replace with its columns; None = its columns stay.
        check: Receives what was written; what it raises removes it.
        at: What the table was when the rows were made for it; None = it does not matter.
    """

    rows: DataFrame
    folder: str
    overwrites: bool
    partition_by: tuple[str, ...] | None
    check: Callable[[WrittenRows], None]
    at: SeenVersion | None = None

    def run(self) -> bool:
        """Writes, checks and commits; does nothing if the table has the session's transaction id already, or a later one.

        Returns:
            False if the table is not at the version any more; nothing was written.

        Raises:
            PySparkException: Delta found a conflict, or the table does not take the rows.
        """
        session: Any = self.rows.sparkSession
        jvm, own = session._jvm, session._jsparkSession
        with active_session(session):
            none = scala_object(jvm.scala, "None$")
            command, operation = _write_of(self, jvm, own)
            transaction = command.deltaLog().startTransaction(none, none)
            if self.at is not None:
                if int(transaction.readVersion()) != self.at.version:
                    return False
                transaction.readWholeTable()
                transaction.readTxn().addOne(self.at.application)
            elif command.hasBeenExecuted(transaction, own, jvm.scala.Some(command.options())):
                return True
            data = command.writeAndReturnCommitData(transaction, own, none, False)
            written = self._written(session, transaction, command.deltaLog(), data.actions())
            try:
                self.check(written)
            except BaseException:
                remove_data_files(self.folder, [file.name for file in written.files])
                raise
            transaction.commitIfNeeded(data.actions(), operation, data.stringTags())
            return True

    def _written(self, session: SparkSession, transaction: Any, log: Any, actions: Any) -> WrittenRows:
        """Returns what was written, by the entries of the commit to be."""
        jvm: Any = session._jvm
        entries = [action for action in converters(jvm).asJava(actions) if action.getClass().getSimpleName() == "AddFile"]

        def frame() -> DataFrame:
            added = jvm.java.util.ArrayList()
            for entry in entries:
                added.add(entry)
            none, delta = scala_object(jvm.scala, "None$"), jvm.org.apache.spark.sql.delta
            to_be = delta.DummySnapshot(log.logPath(), log, transaction.metadata(), none, jvm.scala.Some(transaction.protocol()))
            return DataFrame(log.createDataFrame(to_be, converters(jvm).asScala(added).toSeq(), False, none), session)

        metadata = {"schemaString": transaction.metadata().schemaString()}
        found = tuple(_file_of(json.loads(entry.json())["add"]) for entry in entries)
        return WrittenRows(folder=self.folder, files=found, names=physical_names(metadata), frame=frame)


def _file_of(entry: Mapping[str, Any]) -> WrittenFile:
    rows = json.loads(entry["stats"])["numRecords"]
    return WrittenFile(name=unquote(entry["path"]), rows=rows, partition=entry.get("partitionValues") or {})


def _write_of(write: CheckedWrite, jvm: Any, own: Any) -> tuple[Any, Any]:
    """Returns Delta's command, and what its commit says that it did: both as `DataFrame.write` makes them."""
    delta, some, none = jvm.org.apache.spark.sql.delta, jvm.scala.Some, scala_object(jvm.scala, "None$")
    options = {"path": write.folder, "overwriteSchema": str(write.partition_by is not None).lower()}
    immutable = getattr(scala_object(jvm.scala.collection.immutable, "Map$"), "from")
    settings = delta.DeltaOptions(immutable(converters(jvm).asScala(jvm.java.util.HashMap(options))), own.sessionState().conf())
    mode = jvm.org.apache.spark.sql.SaveMode.Overwrite if write.overwrites else jvm.org.apache.spark.sql.SaveMode.Append
    columns = converters(jvm).asScala(jvm.java.util.ArrayList(list(write.partition_by or ()))).toSeq()
    nothing = immutable(converters(jvm).asScala(jvm.java.util.HashMap()))
    log = delta.DeltaLog.forTable(own, write.folder)
    command = delta.commands.WriteIntoDelta(log, mode, settings, columns, nothing, write.rows._jdf, none, none, False)
    told = some(False), some(settings.canOverwriteSchema()), some(settings.canMergeSchema())
    operation = getattr(delta, "DeltaOperations$Write")(mode, some(columns), none, none, *told, none, none)
    return command, operation
