"""Replaces the rows of a batch without a job that opens the table: tasks read its key columns, Delta's own classes delete and commit.

    the rows of the batch --a task--> one data file, and their keys --------------------------+--> one commit
    the keys --key_search--> rows of the table's files that have them --> deletion vectors ---+

What a REPLACE by Spark does: rows with a key of the batch are deleted, and the batch's rows are there. Plain tables and small batches only.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.operation.merging.statement import MOST_FILES
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.text import quoted
from cdc_ops.lake.data_files.commit import FileTransaction, can_commit, why_not_plain
from cdc_ops.lake.data_files.key_search import KeySearch, NotSearchedError, answers_of, candidates, find_rows, key_type
from cdc_ops.lake.data_files.task_files import codec_of
from cdc_ops.lake.data_files.writer import DataFile, remove_data_files, write_data_file
from cdc_ops.lake.log.delta_log import DeltaLog, LogVersion
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.conf import REPLACE_BY_TASKS
from cdc_ops.lake.staging.shared_folder import has_remote_executors
from cdc_ops.lake.table.create import indexed_columns

_MOST_ROWS: Final = 100_000
_MOST_BYTES: Final = 64 * 2**20
"""Rows and bytes of a landed batch up to which it is taken: one task writes it, and its keys pass through the driver."""
_MOST_STORED: Final = 8 * 2**30
"""Bytes of a table up to which tasks were seen to be faster than literals: 100 M rows of 12 columns are 4 GB."""

_PLAIN: Final = frozenset(
    ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz", "string", "binary"),
)
"""Types whose values Spark and Arrow write alike, besides decimals."""
_STATISTICS: Final = "delta.checkpoint.writeStatsAsJson"
"""Without it a checkpoint has the statistics of files in a form that is not read here; a file with deleted rows would lose them."""
_SHAPE: Final = "keys binary, file string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Rows that replace those with their keys.

    Args:
        rows: One for each key, with the table's columns.
        keys: The key columns, as the table has them, and their types.
        columns: Name and type of the table's columns, of which the batch has all.
        version: Of the table, when that was looked at.
        codec: How data files are compressed.
    """

    rows: DataFrame
    keys: pa.Schema
    columns: tuple[tuple[str, str], ...]
    version: int
    codec: str


def replacement_of(batch: Batch, now: LogVersion, *, literals: bool) -> Replacement | None:
    """Returns how tasks replace the rows of a batch for which `choose_statement` chose a REPLACE; None if Spark is to do it.

    Args:
        batch: The batch, prepared.
        now: Its table, by which the statement was chosen.
        literals: Spark would find its keys as literals, and skip pages of the key column, which tasks read as a whole.
    """
    spark, landed = batch.rows.sparkSession, batch.manifest.landed if batch.manifest else None
    if spark.conf.get(REPLACE_BY_TASKS, "true") != "true" or not can_commit(spark) or has_remote_executors(spark):
        return None
    if landed is None or landed.rows > _MOST_ROWS or landed.bytes > _MOST_BYTES:
        return None
    if now.size is None or now.size[0] > MOST_FILES or (literals and now.size[1] > _MOST_STORED):
        return None
    columns, codec = now.state.columns(), codec_of(spark)
    keys = _key_columns(batch.plan.keys, columns)
    unsupported = [kind for _, kind in columns if kind not in _PLAIN and not kind.startswith("decimal(")]
    if keys is None or unsupported or codec is None or now.state.property(_STATISTICS).lower() == "false" or why_not_plain(now.state):
        return None
    return Replacement(rows=batch.rows, keys=keys, columns=columns, version=now.version, codec=codec)


def _key_columns(keys: Sequence[str], columns: Sequence[tuple[str, str]]) -> pa.Schema | None:
    """Returns the key columns as the table has them, None if one cannot be searched for."""
    stored = {name.lower(): (name, key_type(kind)) for name, kind in columns}
    found = [stored.get(key.lower(), (key, None)) for key in keys]
    return pa.schema(found) if found and all(kind is not None for _, kind in found) else None


def replace_by_tasks(spark: SparkSession, operation: Operation, wanted: Replacement, record: str) -> int | None:
    """Replaces the rows, in one commit; returns its version, None if the table has the operation's number already.

    Raises:
        NotSearchedError: tasks cannot do it; nothing was written.
        PySparkException: Delta found a conflict.
    """
    transaction = FileTransaction(spark, operation)
    if transaction.number_taken:
        return None
    if transaction.version != wanted.version:
        raise NotSearchedError("somebody has changed the table meanwhile")
    transaction.read_all()
    keys, file = _written(operation, wanted)
    try:
        deleted = _delete(spark, transaction, KeySearch(folder=operation.target.path, keys=keys))
    except NotSearchedError:
        remove_data_files(operation.target.path, [file.name] if file else [])
        raise
    transaction.add([file] if file else [])
    names = ", ".join(map(quoted, wanted.keys.names))
    return transaction.commit_replace(record, f"{names if len(wanted.keys) == 1 else f'({names})'} is a key of the batch", deleted)


def _delete(spark: SparkSession, transaction: FileTransaction, search: KeySearch) -> int:
    """Deletes the rows with the keys, and returns how many there were."""
    names = search.keys.column_names
    if any(part.null_count for part in search.keys.columns) or search.keys.group_by(names).aggregate([]).num_rows != len(search.keys):
        raise NotSearchedError("a key is NULL, or has several rows")
    files = candidates(search, list(DeltaLog(search.folder).adds(transaction.version)))
    found = zip(files, find_rows(spark, search, files), strict=True)
    return transaction.delete_rows([(file, rows.numbers, rows.of) for file, rows in found if len(rows.numbers)])


def _written(operation: Operation, wanted: Replacement) -> tuple[pa.Table, DataFile | None]:
    """Writes the batch as one data file, in a task; returns the keys of its rows, and the file, None if there are no rows.

    The columns travel by number: PySpark takes the names of what goes to a task apart, and fails at a backtick.
    """
    indexed, names = frozenset(indexed_columns(operation)), [name for name, _ in wanted.columns]
    task = partial(_write, folder=operation.target.path, names=names, keys=wanted.keys, indexed=indexed, codec=wanted.codec)
    numbered = (F.col(quoted(name)).cast(kind).alias(f"c{number}") for number, (name, kind) in enumerate(wanted.columns))
    rows = wanted.rows.select(*numbered)
    answers = answers_of(rows.coalesce(1).mapInArrow(task, _SHAPE))
    if not answers:
        return wanted.keys.empty_table(), None
    [answer] = answers
    return pa.ipc.open_stream(answer["keys"]).read_all(), DataFile(**json.loads(answer["file"]))


def _write(
    batches: Iterator[pa.RecordBatch], folder: str, names: list[str], keys: pa.Schema, indexed: frozenset[str], codec: str
) -> Iterator[pa.RecordBatch]:
    written = list[pa.Table]()

    def passing() -> Iterator[pa.RecordBatch]:
        for numbered in batches:
            batch = numbered.rename_columns(names)
            written.append(pa.Table.from_batches([batch]).select(keys.names).cast(keys))
            yield batch

    if file := write_data_file(folder, passing(), indexed, codec):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, keys) as stream:
            stream.write_table(pa.concat_tables(written))
        yield pa.record_batch({"keys": pa.array([sink.getvalue().to_pybytes()]), "file": pa.array([json.dumps(asdict(file))])})
