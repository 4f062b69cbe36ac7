"""Writes what a scan of one file finds: plain rows by the bucket of their key, and what is left to the exact way. Spark-free.

    <folder>/part-plain-<file>-<try>-<n>.parquet    plain events, one row group for each bucket of keys that has some
    <folder>/part-marked-<file>-<try>-<n>.parquet   records for the exact way, with their numbers

Which of them count, only the results of the tasks say: a task that ran twice leaves files that nobody reads.
"""

import uuid
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cdc_ops.decode.compiler import Int64s
from cdc_ops.decode.plain_rows import HASH, MOMENT, PlainRows
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.steps.log.plain.file_scan import FileTask, MarkedPart, PlainPart, ScanTask, Seen
from cdc_ops.steps.log.plain.fold import fold_rows
from cdc_ops.steps.log.plain.seen import SeenSoFar

_ROWS_OF_A_PART: Final = 400_000
_BYTES_OF_A_PART: Final = 128 * 2**20
_MARKED_BYTES: Final = 64 * 2**20
_HASH_BITS: Final = np.uint64(40)
_WRITTEN: Final[dict[str, Any]] = {"compression": "snappy", "use_dictionary": False, "write_statistics": False}


class FileParts:
    """What one file comes to for one table.

    Args:
        task: What is wanted of the table.
        file: The file.
        form: How its rows are read.
        ordered: True if the places of the file's events are all different, so that of a key only the last one needs to be kept.
    """

    def __init__(self, task: ScanTask, file: FileTask, form: PlainRows, *, ordered: bool) -> None:
        self._task, self._file, self._form = task, file, form
        self._early = task.early and ordered
        self._tables: list[pa.Table] = []
        self._marked = _Records()
        self._seen = SeenSoFar(file.newest)
        self._name = f"{uuid.uuid5(uuid.NAMESPACE_URL, file.path).hex[:12]}-{uuid.uuid4().hex[:12]}"
        self.plain: list[PlainPart] = []
        self.marked: list[MarkedPart] = []

    def add(self, table: pa.Table) -> None:
        """Takes plain rows."""
        if table.num_rows:
            self._seen.add(table, self._form.parts + 1)
            self._tables.append(table.drop_columns([MOMENT]))
        if sum(one.num_rows for one in self._tables) >= _ROWS_OF_A_PART or sum(one.nbytes for one in self._tables) >= _BYTES_OF_A_PART:
            self.write_plain()

    def add_marked(self, text: bytes, number: int) -> None:
        """Takes a record for the exact way, with its number."""
        self._marked.add(text, number)

    def is_full(self) -> bool:
        """True if the records for the exact way are to be written."""
        return self._marked.size >= _MARKED_BYTES

    def seen(self) -> Seen:
        """Returns what the plain rows have shown."""
        return self._seen.told()

    def finish(self) -> None:
        """Writes what is left."""
        self.write_plain()
        self.write_marked()

    def write_plain(self) -> None:
        """Writes the plain rows."""
        if not self._tables:
            return
        table = pa.concat_tables(self._tables).combine_chunks()
        self._tables = []
        hashes = table[HASH].to_numpy()
        if self._early and _distinct(hashes) < 0.8 * len(hashes):
            table, _ = fold_rows(table, self._form)
            hashes = table[HASH].to_numpy()
        buckets = bucket_of(hashes, self._task.buckets)
        order = np.argsort(buckets, kind="stable")
        table, buckets = table.take(pa.array(order)), buckets[order]
        found, begins = np.unique(buckets, return_index=True)
        name = f"part-plain-{self._name}-{len(self.plain)}.parquet"
        with _writing(self._task.folder, name) as out, pq.ParquetWriter(out.file, table.schema, **_WRITTEN) as writer:
            for begin, end in zip(begins, [*begins[1:], len(buckets)], strict=True):
                writer.write_table(table.slice(begin, end - begin), row_group_size=2**31)
        self.plain.append(PlainPart(name=name, size=out.size(), buckets=tuple(found.tolist())))

    def write_marked(self) -> None:
        """Writes the records for the exact way."""
        if not self._marked.texts:
            return
        file = self._file
        count = len(self._marked.texts)
        offsets = [file.start_offset + number if file.start_offset >= 0 else None for number in self._marked.numbers]
        table = pa.table(
            {
                "value": pa.array(self._marked.texts, pa.binary()),
                "file": pa.array([file.path] * count, pa.string()),
                "line": pa.array(self._marked.numbers, pa.int64()),
                "offset": pa.array(offsets, pa.int64()),
            }
        )
        name = f"part-marked-{self._name}-{len(self.marked)}.parquet"
        with _writing(self._task.folder, name) as out:
            pq.write_table(table, out.file, compression="snappy", use_dictionary=["file"], write_statistics=False)
        self.marked.append(MarkedPart(name=name, size=out.size(), lines=count))
        self._marked = _Records()


@dataclass(slots=True)
class _Records:
    """Records that are not plain, until they are written."""

    texts: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    size: int = 0

    def add(self, text: bytes, number: int) -> None:
        """Keeps one."""
        self.texts.append(text)
        self.numbers.append(number)
        self.size += len(text)


class _writing:
    """Writes a file of the staging area; `size` tells its bytes once it is written."""

    def __init__(self, folder: str, name: str) -> None:
        self._filesystem, inner = open_filesystem(folder)
        self._path = f"{inner}/{name}"

    def __enter__(self) -> "_writing":
        self.file = self._filesystem.open(self._path, "wb")
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def size(self) -> int:
        """Returns the size of the file."""
        return int(self._filesystem.size(self._path))


def _distinct(hashes: Int64s) -> int:
    in_order = np.sort(hashes)  # some times as fast as `np.unique`
    return 1 + int((in_order[1:] != in_order[:-1]).sum())


def bucket_of(hashes: Int64s, buckets: int) -> Int64s:
    """Returns the bucket of each key by its hash."""
    return ((hashes.view(np.uint64) >> _HASH_BITS) % np.uint64(buckets)).astype(np.int64)
