"""Replaces the rows of a batch without a job that opens the table: tasks read its key column, Delta's own classes delete and commit.

    the rows of the batch --a task--> one data file, and their keys --------------------------+--> one commit
    the keys --key_search--> rows of the table's files that have them --> deletion vectors ---+

What a REPLACE by Spark does: rows with a key of the batch are deleted, and the batch's rows are there. Plain tables and small batches only.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.statement import MOST_FILES
from cdc_ops.core.text import quoted
from cdc_ops.lake.data_files.commit import FileTransaction, can_commit, why_not_plain
from cdc_ops.lake.data_files.key_search import KEY_TYPES, KeySearch, NotSearchedError, answers_of, candidates, find_rows
from cdc_ops.lake.data_files.task_files import codec_of
from cdc_ops.lake.data_files.writer import DataFile, remove_data_files, write_data_file
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.conf import REPLACE_BY_TASKS
from cdc_ops.lake.staging.shared_folder import works_elsewhere
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
_VECTORS: Final = "delta.enableDeletionVectors"
_STATISTICS: Final = "delta.checkpoint.writeStatsAsJson"
"""Without it a checkpoint has the statistics of files in a form that is not read here; a file with deleted rows would lose them."""
_SAID_OF_ROWS: Final = ("delta.enableChangeDataFeed", "delta.enableRowTracking")
"""Properties by which an update has to be one."""
_SHAPE: Final = "keys binary, file string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Rows that replace those with their keys.

    Args:
        rows: One for each key, with the table's columns.
        key: The key column, as the table has it.
        kind: Its type, one of `KEY_TYPES`.
        columns: Name and type of the table's columns, of which the batch has all.
        version: Of the table, when that was looked at.
        codec: How data files are compressed.
    """

    rows: DataFrame
    key: str
    kind: str
    columns: tuple[tuple[str, str], ...]
    version: int
    codec: str


def replacement_of(operation: Operation, batch: Batch, *, literals: bool) -> Replacement | None:
    """Returns how a batch that may enter its table by a REPLACE does so by tasks; None if Spark is to do it.

    Args:
        operation: The frozen operation, whose table exists.
        batch: The batch, prepared.
        literals: Spark would find its keys as literals, and skip pages of the key column, which tasks read as a whole.
    """
    spark, landed = batch.rows.sparkSession, batch.manifest.landed if batch.manifest else None
    if spark.conf.get(REPLACE_BY_TASKS, "true") != "true" or batch.plan.mode is not ApplyMode.MERGE:
        return None
    if landed is None or len(batch.plan.keys) != 1:
        return None
    if landed.rows > _MOST_ROWS or landed.bytes > _MOST_BYTES or not can_commit(spark) or works_elsewhere(spark):
        return None
    log = DeltaLog(operation.target.path)
    version = log.newest() or 0
    state, size, codec = log.state(version), log.size(version), codec_of(spark)
    columns = state.columns()
    keys = [(name, kind) for name, kind in columns if name.lower() == batch.plan.keys[0].lower() and kind in KEY_TYPES]
    too_many = size is None or size[0] > MOST_FILES or (literals and size[1] > _MOST_STORED)
    asked = {name: state.property(name).lower() for name in (*_SAID_OF_ROWS, _VECTORS, _STATISTICS)}
    if any(asked[name] == "true" for name in _SAID_OF_ROWS) or asked[_VECTORS] != "true" or asked[_STATISTICS] == "false":
        return None
    strange = [kind for _, kind in columns if kind not in _PLAIN and not kind.startswith("decimal(")]
    if not keys or too_many or strange or codec is None or why_not_plain(state):
        return None
    [(key, kind)] = keys
    return Replacement(rows=batch.rows, key=key, kind=kind, columns=columns, version=version, codec=codec)


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
        deleted = _delete(spark, transaction, KeySearch(folder=operation.target.path, column=wanted.key, kind=wanted.kind, keys=keys))
    except NotSearchedError:
        remove_data_files(operation.target.path, [file.name] if file else [])
        raise
    transaction.add([file] if file else [])
    return transaction.commit_replace(record, f"{quoted(wanted.key)} is a key of the batch", deleted)


def _delete(spark: SparkSession, transaction: FileTransaction, search: KeySearch) -> int:
    """Deletes the rows with the keys, and returns how many there were."""
    if search.keys.null_count or len(pc.unique(search.keys)) != len(search.keys):
        raise NotSearchedError("a key is NULL, or has several rows")
    files = candidates(search, list(DeltaLog(search.folder).adds(transaction.version)))
    found = zip(files, find_rows(spark, search, files), strict=True)
    return transaction.delete_rows([(file, rows.numbers, rows.of) for file, rows in found if len(rows.numbers)])


def _written(operation: Operation, wanted: Replacement) -> tuple[pa.Array, DataFile | None]:
    """Writes the batch as one data file, in a task; returns the keys of its rows, and the file, None if there are no rows."""
    indexed = frozenset(indexed_columns(operation))
    task = partial(_write, folder=operation.target.path, key=wanted.key, kind=wanted.kind, indexed=indexed, codec=wanted.codec)
    rows = wanted.rows.select(*(F.col(quoted(name)).cast(kind).alias(name) for name, kind in wanted.columns))
    answers = answers_of(rows.coalesce(1).mapInArrow(task, _SHAPE))
    if not answers:
        return pa.array([], KEY_TYPES[wanted.kind]), None
    [answer] = answers
    keys = pa.ipc.open_stream(answer["keys"]).read_all()["key"].combine_chunks()
    return keys, DataFile(**json.loads(answer["file"]))


def _write(
    batches: Iterator[pa.RecordBatch], folder: str, key: str, kind: str, indexed: frozenset[str], codec: str
) -> Iterator[pa.RecordBatch]:
    keys = list[pa.Array]()

    def passing() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            keys.append(batch[key].cast(KEY_TYPES[kind]))
            yield batch

    if file := write_data_file(folder, passing(), indexed, codec):
        sink = pa.BufferOutputStream()
        table = pa.table({"key": pa.chunked_array(keys, KEY_TYPES[kind])})
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        yield pa.record_batch({"keys": pa.array([sink.getvalue().to_pybytes()]), "file": pa.array([json.dumps(asdict(file))])})
