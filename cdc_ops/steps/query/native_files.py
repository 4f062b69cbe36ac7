"""Tasks that read a source natively and write the table's data files themselves: the rows never reach the JVM.

What they write is what Spark would write of the same read (`steps.query.native_rows`). A value that is not plain, which only Spark's
expressions store right or refuse with its row's key, ends the attempt: its files are removed, and Spark reads and writes all rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from cdc_ops.core.operation.operation import Operation
from cdc_ops.decode.stored import NotPlainError, stored_values
from cdc_ops.errors import CdcError
from cdc_ops.lake.data_files.task_files import TaskFiles, codec_of, failed, refused, written
from cdc_ops.lake.data_files.writer import write_data_file
from cdc_ops.lake.table.create import indexed_columns
from cdc_ops.sources.base import NativeColumn, NativeRead
from cdc_ops.steps.query.native_rows import Reading, reading_of
from cdc_ops.steps.query.unique_keys import with_whole_keys


def files_of(read: NativeRead | None, operation: Operation, rows: DataFrame) -> TaskFiles | None:
    """Returns how tasks write the rows of a read themselves; None if they cannot.

    Args:
        read: What is read, None if it is not read natively.
        operation: The frozen operation.
        rows: The same rows, as Spark reads them.
    """
    if read is None or not all(column.finish for column in read.columns):
        return None
    codec = codec_of(rows.sparkSession)
    if codec is None:
        return None
    columns = operation.full_schema.names
    folder = operation.target.path
    indexed = frozenset(indexed_columns(operation))
    keys = () if operation.apply.stored_as.keeps_versions else operation.apply.keys
    task = _FileTask(
        reading=reading_of(read), names=columns, folder=folder, indexed=indexed, codec=codec, keys=keys, table=str(operation.table)
    )
    return TaskFiles(rows=rows, columns=columns, folder=folder, task=task, slices=len(read.statements))


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileTask:
    """What a task does: it writes a file for each of the slices whose numbers it is given."""

    reading: Reading
    names: tuple[str, ...]
    folder: str
    indexed: frozenset[str]
    codec: str
    keys: tuple[str, ...]
    table: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield self._written(number)

    def _written(self, number: int) -> pa.RecordBatch:
        try:
            rows = with_whole_keys(map(self._stored, self.reading.batches(number)), self.keys, self.table)
            return written(write_data_file(self.folder, rows, self.indexed, self.codec))
        except (NotPlainError, OSError, pa.ArrowException) as error:
            return refused(str(error)[:300] or type(error).__name__)
        except CdcError as error:
            return failed(error)

    def _stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        names = [*self.names, *(column.name for column in self.reading.columns[len(self.names) :])]
        arrays = list(map(_finished, batch.columns, self.reading.columns, names))
        return pa.RecordBatch.from_arrays(arrays[: len(self.names)], names=list(self.names))


def _finished(values: pa.Array, column: NativeColumn, name: str) -> pa.Array:
    try:
        return stored_values(values, column.finish, column.stored)
    except NotPlainError as error:
        raise NotPlainError(f"column {name!r} has {error}") from None
