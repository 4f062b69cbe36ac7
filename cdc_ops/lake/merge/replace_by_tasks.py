"""Changes the rows of a batch without a job that opens the table: key columns are searched, Delta's own classes delete and commit.

    the rows of the batch --+-- those that are not deleted --> one data file ------------------------+
                            +-- keys and places --key_search--> rows of the table that have them ----+--> one commit
                                                   those that are not newer --> deletion vectors ----+

What a MERGE does with whole rows, deletes and an order. Plain tables and small batches only; what is very small the driver does by itself.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.scd import POSITION_TYPE
from cdc_ops.core.operation.merging.statement import MOST_FILES
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.text import quoted
from cdc_ops.lake.data_files.commit import FileTransaction, Flags, MergedRows, can_commit, why_not_plain
from cdc_ops.lake.data_files.key_search import (
    FoundRows,
    KeySearch,
    NotSearchedError,
    Numbers,
    answers_here,
    answers_of,
    as_stream,
    candidates,
    find_rows,
    key_type,
)
from cdc_ops.lake.data_files.task_files import codec_of
from cdc_ops.lake.data_files.writer import DataFile, remove_data_files, write_data_file
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.log.delta_log import DeltaLog, LogVersion
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.spark.conf import REPLACE_BY_TASKS
from cdc_ops.lake.staging.shared_folder import has_remote_executors
from cdc_ops.lake.table.create import indexed_columns

_MOST_ROWS: Final = 100_000
_MOST_BYTES: Final = 64 * 2**20
"""Rows and bytes of a landed batch up to which it is taken: one task writes it, and its keys pass through the driver."""
_LOCAL_ROWS: Final = 10_000
_LOCAL_BYTES: Final = 4 * 2**20
"""Rows and bytes up to which the driver writes it: a task in Python would take longer to start."""
_MOST_STORED: Final = 8 * 2**30
"""Bytes of a table up to which tasks were seen to be faster than literals: 100 M rows of 12 columns are 4 GB."""

_PLAIN: Final = frozenset(
    ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "timestamp", "timestamp_ntz", "string", "binary"),
)
"""Types whose values Spark and Arrow write alike, besides decimals and positions of events."""
_UNORDERED: Final = frozenset(("float", "double"))
"""Those of them whose order Python does not know as Spark does: to Spark, NaN is the largest number."""
_STATISTICS: Final = "delta.checkpoint.writeStatsAsJson"
"""Without it a checkpoint has the statistics of files in a form that is not read here; a file with deleted rows would lose them."""
_SHAPE: Final = "rows binary, file string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Rows that replace those with their keys.

    Args:
        rows: One for each key, with the table's columns.
        keys: The key columns, as the table has them, and their types.
        columns: Name and type of the table's columns, of which the batch has all.
        version: Of the table, when that was looked at.
        codec: How data files are compressed.
        condition: By what rows are found, as Spark SQL.
        deleted_flag: Column of the batch that is true for rows that are only deleted, "" if none is.
        sequence: Column of the table and of the batch: where the table's row is newer, it stays. "" = the batch is always newer.
        local: The driver writes the rows.
    """

    rows: DataFrame
    keys: pa.Schema
    columns: tuple[tuple[str, str], ...]
    version: int
    codec: str
    condition: str
    deleted_flag: str
    sequence: str
    local: bool


def replacement_of(batch: Batch, now: LogVersion, *, literals: bool) -> Replacement | None:
    """Returns how tasks replace the rows of a batch, if `choose_statement` chooses a REPLACE; None if they cannot.

    Args:
        batch: The batch, prepared.
        now: Its table, by which the statement was chosen.
        literals: Spark would find its keys as literals, and skip pages of the key column, which tasks read as a whole.
    """
    spark, landed = batch.rows.sparkSession, batch.manifest.landed if batch.manifest else None
    if spark.conf.get(REPLACE_BY_TASKS, "true") != "true" or not can_commit(spark) or has_remote_executors(spark):
        return None
    rows = max(landed.rows, batch.differences) if landed else 0
    if landed is None or rows > _MOST_ROWS or landed.bytes > _MOST_BYTES:
        return None
    if now.size is None or now.size[0] > MOST_FILES or (literals and now.size[1] > _MOST_STORED):
        return None
    columns, codec = now.state.columns(), codec_of(spark)
    keys = _key_columns(batch.plan.keys, columns)
    unsupported = [kind for _, kind in columns if not _is_plain(kind)]
    if keys is None or unsupported or codec is None or now.state.property(_STATISTICS).lower() == "false" or why_not_plain(now.state):
        return None
    sequence, order = next((one for one in columns if one[0].lower() == batch.plan.sequence.lower()), ("", ""))
    if order in _UNORDERED or bool(sequence) != bool(batch.plan.sequence):
        return None
    return Replacement(
        rows=batch.rows,
        keys=keys,
        columns=columns,
        version=now.version,
        codec=codec,
        condition=replace(batch.plan, prune=()).condition,
        deleted_flag=batch.plan.deleted_flag,
        sequence=sequence,
        local=rows <= _LOCAL_ROWS and landed.bytes <= _LOCAL_BYTES,
    )


def _is_plain(kind: str) -> bool:
    return kind in _PLAIN or kind == POSITION_TYPE or kind.startswith("decimal(")


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
    batch, file = _written(operation, wanted)
    try:
        rows, left_out = _search(spark, transaction, wanted, batch)
        if file and bool((left_out & ~batch.deleted).any()):
            file = _without(operation, wanted, file, left_out[~batch.deleted])
    except BaseException:
        remove_data_files(operation.target.path, [file.name] if file else [])
        raise
    transaction.add([file] if file else [])
    return transaction.commit_merge(record, wanted.condition, rows)


@dataclass(frozen=True, slots=True)
class _BatchRows:
    """Of each row of a batch the key, whether it is only deleted, and its place in the order of changes; None = there is no order."""

    keys: pa.Table
    deleted: Flags
    places: pa.ChunkedArray | None


def _search(spark: SparkSession, transaction: FileTransaction, wanted: Replacement, batch: _BatchRows) -> tuple[MergedRows, Flags]:
    """Deletes the rows of the table that the batch's replace, or delete; returns what became of all, and which of the batch's are older."""
    search = KeySearch(folder=transaction.folder, keys=batch.keys, other=wanted.sequence)
    names = search.keys.column_names
    if any(part.null_count for part in search.keys.columns) or search.keys.group_by(names).aggregate([]).num_rows != len(search.keys):
        raise NotSearchedError("a key is NULL, or has several rows")
    files = candidates(search, list(DeltaLog(search.folder).adds(transaction.version))) if len(batch.keys) else []
    found = [(file, rows) for file, rows in zip(files, find_rows(spark, search, files), strict=True) if len(rows.numbers)]
    older, met = np.zeros(len(batch.keys), bool), np.zeros(len(batch.keys), np.int64)
    if found:
        there = transaction.look_at_rows([(file, rows.numbers, rows.of) for file, rows in found])
        of_key = np.concatenate([rows.keys for _, rows in found])
        met = np.bincount(of_key[there], minlength=len(met))
        if bool((met[~batch.deleted] > 1).any()) or (batch.places is not None and bool((met > 1).any())):
            raise NotSearchedError("the table has several rows of a key")
        if batch.places is not None:
            older[of_key[there]] = _are_older(batch.places, [rows for _, rows in found], there, of_key)
        transaction.delete_rows(there & ~older[of_key])
    new, gone = ~batch.deleted, batch.deleted & ~older
    counts = MergedRows(
        read=len(met),
        inserted=int((new & (met == 0)).sum()),
        updated=int(met[new & ~older].sum()),
        deleted=int(met[gone].sum()),
    )
    return counts, older


def _are_older(of_batch: pa.ChunkedArray, found: list[FoundRows], there: Flags, of_key: Numbers) -> Flags:
    """Returns for each row of the table that is there whether the batch's row of its key is older, as a MERGE asks it."""
    try:
        places = of_batch.to_pylist()
        stored = [value for rows in found if rows.others is not None for value in rows.others.to_pylist()]
        pairs = zip(stored, there, of_key, strict=True)
        return np.array([value is not None and _is_older(places[key], value) for value, is_there, key in pairs if is_there], bool)
    except (TypeError, ValueError, OverflowError, pa.ArrowException) as error:  # e.g. a date that Python has not
        raise NotSearchedError(f"the order of changes: {error}") from error


def _is_older(place: Any, stored: Any) -> bool:
    return place is None or bool(stored > place)


def _without(operation: Operation, wanted: Replacement, file: DataFile, left_out: Flags) -> DataFile | None:
    """Writes a file once more without some of its rows; those of a batch are seldom older than the table's."""
    folder, indexed = operation.target.path, frozenset(indexed_columns(operation))
    filesystem, root = open_filesystem(folder)
    with filesystem.open(f"{root}/{file.name}", "rb") as stream:
        rows = pq.ParquetFile(stream).read(use_threads=False)
    written = write_data_file(folder, rows.filter(pa.array(~left_out)).to_batches(), indexed, wanted.codec)
    remove_data_files(folder, [file.name])
    return written


def _written(operation: Operation, wanted: Replacement) -> tuple[_BatchRows, DataFile | None]:
    """Writes the batch as one data file; returns what is to be searched for, and the file, None if no row is to be written.

    The columns travel by number: PySpark takes the names of what goes to a task apart, and fails at a backtick.
    """
    numbered = [F.col(quoted(name)).cast(kind).alias(f"c{number}") for number, (name, kind) in enumerate(wanted.columns)]
    flag = F.col(quoted(wanted.deleted_flag)) if wanted.deleted_flag else F.lit(False)
    rows = wanted.rows.select(*numbered, flag.alias("deleted"))
    names, indexed = tuple(name for name, _ in wanted.columns), frozenset(indexed_columns(operation))
    columns = _Columns(names=names, keys=wanted.keys, sequence=wanted.sequence, indexed=indexed)
    task = partial(_write, folder=operation.target.path, columns=columns, codec=wanted.codec)
    answers = answers_here(task, rows.toArrow().to_batches()) if wanted.local else answers_of(rows.coalesce(1).mapInArrow(task, _SHAPE))
    if not answers:
        return _BatchRows(wanted.keys.empty_table(), np.zeros(0, bool), None), None
    [answer] = answers
    found = pa.ipc.open_stream(answer["rows"]).read_all()
    deleted, *places = found.columns[len(wanted.keys) :]
    keys = found.select(range(len(wanted.keys)))
    file = DataFile(**json.loads(answer["file"])) if answer["file"] else None
    return _BatchRows(keys, deleted.to_numpy().astype(bool), places[0] if places else None), file


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Names of the columns that a task gets, the keys among them with their types, the place in the order, and those with bounds."""

    names: tuple[str, ...]
    keys: pa.Schema
    sequence: str
    indexed: frozenset[str]


def _write(batches: Iterator[pa.RecordBatch], folder: str, columns: _Columns, codec: str) -> Iterator[pa.RecordBatch]:
    seen = list[pa.Table]()

    def living() -> Iterator[pa.RecordBatch]:
        for numbered in batches:
            batch, deleted = pa.RecordBatch.from_arrays(numbered.columns[:-1], columns.names), numbered.column(len(columns.names))
            told = pa.Table.from_batches([batch]).select(columns.keys.names).cast(columns.keys).append_column("deleted", deleted)
            seen.append(told.append_column("place", batch.column(columns.sequence)) if columns.sequence else told)
            if deleted.null_count:
                raise ValueError("a row does not say whether it is deleted")
            yield batch.filter(pc.invert(deleted))

    file = write_data_file(folder, living(), columns.indexed, codec)
    if sum(map(len, seen)):
        rows, text = as_stream(pa.concat_tables(seen)), json.dumps(asdict(file)) if file else None
        yield pa.record_batch({"rows": pa.array([rows], pa.binary()), "file": pa.array([text], pa.string())})
