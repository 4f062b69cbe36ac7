"""Tasks of Spark that write a batch's rows as data files of the table themselves, and what they say of it. Runs in Spark's driver."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.errors import CdcError, from_payload
from cdc_ops.lake.data_files.writer import CODECS, DataFile, remove_data_files

_SHAPE: Final = "file string, why string, failure string"


class NotWrittenError(Exception):
    """Tasks cannot write these rows; nothing of them is in the table, and the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    """Another way into the table for rows that Spark could write.

    Args:
        rows: The rows, as Spark reads them.
        columns: Their names, in the order of the table.
        folder: The table.
        task: Receives the numbers of slices, one column, and yields what `written` or `refused` returns for each of them.
        slices: How many there are.
        check: Receives what was written before it is committed; what it raises removes it.
    """

    rows: DataFrame
    columns: tuple[str, ...]
    folder: str
    task: Callable[[Iterator[Any]], Iterator[Any]]
    slices: int
    check: Callable[[list[DataFile]], None] = field(default=lambda files: None)

    def write(self) -> list[DataFile]:
        """Writes the files: an action.

        What the others have written is removed if one task fails.

        Raises:
            NotWrittenError: a task cannot write its rows.
            CdcError: a task failed as it says, or what was written is not to be committed.
        """
        slices = self.rows.sparkSession.range(0, self.slices, 1, self.slices)
        answers = slices.mapInArrow(self.task, _SHAPE).collect()
        files = [DataFile(**json.loads(row["file"])) for row in answers if row["file"]]
        failures = [str(row["failure"]) for row in answers if row["failure"]]
        whys = [str(row["why"]) for row in answers if row["why"]]
        if failures or whys:
            remove_data_files(self.folder, [file.name for file in files])
        if failures:
            raise from_payload(json.loads(failures[0]))
        if whys:
            raise NotWrittenError(whys[0])
        try:
            self.check(files)
        except BaseException:
            remove_data_files(self.folder, [file.name for file in files])
            raise
        return files


def codec_of(spark: SparkSession) -> str | None:
    """Returns how a session compresses its Parquet files, None if tasks cannot do it so."""
    codec = str(spark.conf.get("spark.sql.parquet.compression.codec", "snappy")).lower()
    return codec if codec in CODECS else None


def written(file: DataFile | None) -> pa.RecordBatch:
    """Returns what a task says of a slice that it has written; None = the slice has no rows."""
    return _answer(file=json.dumps(asdict(file)) if file else None)


def refused(why: str) -> pa.RecordBatch:
    """Returns what a task says of a slice that it cannot write, but Spark may."""
    return _answer(why=why)


def failed(error: CdcError) -> pa.RecordBatch:
    """Returns what a task says of a slice at which the operation fails."""
    return _answer(failure=json.dumps(error.to_payload()))


def _answer(file: str | None = None, why: str | None = None, failure: str | None = None) -> pa.RecordBatch:
    answer = {"file": file, "why": why, "failure": failure}
    return pa.RecordBatch.from_pydict({name: pa.array([text], pa.string()) for name, text in answer.items()})
