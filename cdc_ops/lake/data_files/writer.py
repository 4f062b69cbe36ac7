"""Writes rows as one data file of a Delta table: Parquet, by pyarrow, in a task of Spark or anywhere else. Spark-free.

No reader sees the file until a commit names it; what no commit names, VACUUM removes.
"""

import uuid
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc_ops.lake.data_files.statistics import file_statistics
from cdc_ops.lake.file_io import CALENDAR, open_filesystem

_GROUP_BYTES: Final = 64 * 2**20
"""Bytes of rows that are kept until they are written as a row group."""
_SAMPLE: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file that is complete.

    Args:
        name: In the table's folder.
        size: Bytes.
        rows: How many.
        statistics: What Delta's log says of it, as JSON.
    """

    name: str
    size: int
    rows: int
    statistics: str


CODECS: Final = {"snappy": "snappy", "zstd": "zstd", "gzip": "gzip", "none": "none", "uncompressed": "none"}
"""Spark's names of compressions (`spark.sql.parquet.compression.codec`), with those of pyarrow."""


def write_data_file(folder: str, batches: Iterable[pa.RecordBatch], indexed: Collection[str], codec: str = "snappy") -> DataFile | None:
    """Writes rows as one file; None if there are none. A failure leaves no file behind, unless the store refuses to remove it.

    Args:
        folder: The table, a path or URI.
        batches: The rows, all with the same schema.
        indexed: Names of the columns whose bounds are told.
        codec: One of `CODECS`.
    """
    filesystem, inner = open_filesystem(folder)
    name = f"part-00000-{uuid.uuid4()}-c000.{'' if CODECS[codec] == 'none' else f'{codec}.'}parquet"
    path = f"{inner}/{name}"
    writer = _Groups(filesystem, path, CODECS[codec])
    try:
        for batch in batches:
            writer.add(batch)
        footer = writer.close()
    except BaseException:
        writer.abandon()
        raise
    if footer is None:
        return None
    size = int(filesystem.info(path)["size"])
    return DataFile(name=name, size=size, rows=footer.num_rows, statistics=file_statistics(footer, indexed))


def remove_data_files(folder: str, names: Iterable[str]) -> None:
    """Removes files that no commit names; what cannot be removed VACUUM removes."""
    filesystem, inner = open_filesystem(folder)
    for name in names:
        with suppress(OSError):
            filesystem.rm_file(f"{inner}/{name}")


class _Groups:
    """Collects batches, and writes them as row groups; the file is opened with the first of them."""

    def __init__(self, filesystem: Any, path: str, compression: str) -> None:
        self._compression = compression
        self._filesystem = filesystem
        self._path = path
        self._kept: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: Any = None
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._kept.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _GROUP_BYTES:
            self._write()

    def close(self) -> pq.FileMetaData | None:
        """Writes the rest; returns the footer, None if there were no rows."""
        if self._kept:
            self._write()
        if self._writer is None:
            return None
        self._writer.close()
        self._file.close()
        [footer] = self._footers
        return footer

    def abandon(self) -> None:
        if self._file is None:
            return
        with suppress(Exception):
            if self._writer is not None:
                self._writer.close()
            self._file.close()
        with suppress(OSError):
            self._filesystem.rm_file(self._path)

    def _write(self) -> None:
        rows = pa.Table.from_batches(self._kept)
        if self._writer is None:
            self._file = self._filesystem.open(self._path, "wb")
            self._writer = pq.ParquetWriter(
                self._file,
                rows.schema.with_metadata(CALENDAR),
                version="2.6",
                compression=self._compression,
                use_dictionary=_repeated(rows),
                store_schema=False,
                store_decimal_as_integer=True,
                metadata_collector=self._footers,
            )
        self._writer.write_table(rows.replace_schema_metadata(CALENDAR), row_group_size=rows.num_rows)
        self._kept, self._bytes = [], 0


def _repeated(rows: pa.Table) -> list[str]:
    """Returns the columns whose first values repeat: a dictionary of others costs time, and is given up once it is large."""
    first = rows.slice(0, _SAMPLE)
    plain = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    return [name for name in plain if 2 * len(pc.unique(first[name])) <= first.num_rows]
