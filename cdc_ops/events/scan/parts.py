"""Writes what a scan finds of one table in one file: files of Parquet that no other try writes.

    <changes>/part-changes-<file>-<try>-<n>.parquet   changes, one row group for each bucket of keys that has some
    <feed>/part-feed-<file>-<try>-<n>.parquet         rows of the feed: what is set aside, or all of them

Which of them count, only the facts of the tasks say: a task that ran twice leaves files that nobody reads.
"""

import uuid
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdc_ops.events.fold import bucket_of
from cdc_ops.events.scan.facts import Part
from cdc_ops.lake.file_io import CALENDAR, open_filesystem

_ROWS: Final = 400_000
_BYTES: Final = 128 * 2**20
_WRITTEN: Final[dict[str, Any]] = {"compression": "snappy", "use_dictionary": False, "write_statistics": False}


class Parts:
    """Files of one folder with rows of one archived file.

    Args:
        folder: Where they go.
        kind: `changes` or `feed`.
        path: The archived file.
        neighbours: Tables that are read at once, this one with them: each holds so much less in memory.
    """

    def __init__(self, folder: str, kind: str, path: str, neighbours: int = 1) -> None:
        self._folder, self._kind = folder, kind
        self._name = f"{uuid.uuid5(uuid.NAMESPACE_URL, path).hex[:12]}-{uuid.uuid4().hex[:12]}"
        self._tables: list[pa.Table] = []
        self._rows = self._bytes = 0
        self._most_rows, self._most_bytes = _ROWS // neighbours, _BYTES // neighbours
        self.written: list[Part] = []

    def add(self, table: pa.Table) -> None:
        """Takes rows."""
        if not table.num_rows:
            return
        self._tables.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._rows >= self._most_rows or self._bytes >= self._most_bytes:
            self.flush()

    def flush(self) -> None:
        """Writes what was taken."""
        if not self._tables:
            return
        table = pa.concat_tables(self._tables).combine_chunks()
        self._tables, self._rows, self._bytes = [], 0, 0
        self.write(table)

    def write(self, table: pa.Table) -> None:
        """Writes rows as one file."""
        self._write([(table, 0)])

    def _write(self, groups: list[tuple[pa.Table, int]]) -> None:
        name = f"part-{self._kind}-{self._name}-{len(self.written)}.parquet"
        filesystem, inner = open_filesystem(self._folder)
        path = f"{inner}/{name}"
        schema = groups[0][0].schema.with_metadata(CALENDAR)
        with filesystem.open(path, "wb") as file, pq.ParquetWriter(file, schema, **_WRITTEN) as writer:
            for rows, _ in groups:
                writer.write_table(rows.replace_schema_metadata(CALENDAR), row_group_size=2**31)
        buckets = tuple(bucket for _, bucket in groups)
        self.written.append(Part(name=name, size=int(filesystem.size(path)), buckets=buckets))


class ChangeParts(Parts):
    """Files of changes, split by the bucket of their key.

    Args:
        folder: Where they go.
        path: The archived file.
        buckets: How many buckets there are.
        neighbours: As in `Parts`.
    """

    def __init__(self, folder: str, path: str, buckets: int, neighbours: int = 1) -> None:
        super().__init__(folder, "changes", path, neighbours)
        self._buckets = buckets

    def write(self, table: pa.Table) -> None:
        """Writes rows, a row group for each bucket."""
        if self._buckets == 1:
            self._write([(table, 0)])
            return
        buckets = bucket_of(table["key"].combine_chunks(), self._buckets)
        order = np.argsort(buckets, kind="stable")
        table, buckets = table.take(pa.array(order)), buckets[order]
        found, begins = np.unique(buckets, return_index=True)
        ends = [*begins[1:], len(buckets)]
        self._write([(table.slice(begin, end - begin), int(bucket)) for bucket, begin, end in zip(found, begins, ends, strict=True)])
