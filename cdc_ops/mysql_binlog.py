"""`spark.read.format("mysql_binlog")`: the changes of one table in binlogs on disk, as typed columns.

    spark.dataSource.register(BinlogDataSource)
    spark.read.format("mysql_binlog").schema("id BIGINT, name STRING, _op STRING").option("table", "shop.orders").load("/archive/binlog.*")

Files are scanned where the plan is made, and decoded in tasks; large ones are cut between transactions. Only committed transactions
come out. Tasks need this package, and see the files under the same paths.
"""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cdc_ops.core.binlog.events import MAGIC
from cdc_ops.decode import is_available
from cdc_ops.decode.program import Field, Program
from cdc_ops.errors import RequestError
from cdc_ops.events.binlog.decoder import BinlogFile
from cdc_ops.events.binlog.files import open_binlog
from cdc_ops.events.fast_binlog.change_batches import Changes, Target
from cdc_ops.events.fast_binlog.exact_changes import exact_changes
from cdc_ops.events.fast_binlog.mapped_files import is_packed, mapped_content
from cdc_ops.events.fast_binlog.metadata_columns import BEFORE, METADATA, Metadata

__all__ = ["BinlogDataSource"]

SPLIT_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """A part of a file that begins and ends between transactions."""

    file: BinlogFile
    start: int
    end: int


class RangePartition(InputPartition):
    """The range that a task reads."""

    def __init__(self, value: Range) -> None:
        super().__init__(value)
        self.value: Range = value


class BinlogDataSource(DataSource):
    """Options: `path`, `table`, `splitBytes`, `from` and `to` (file:offset), `afterGtids`."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return "mysql_binlog"

    def schema(self) -> str:
        """Refuses to guess: types of a log do not tell how a column is to be stored."""
        raise _wrong("a schema is missing", "name the columns and their types with .schema(...)")

    def reader(self, schema: StructType) -> "BinlogReader":
        """Returns what plans the tasks, and reads in them."""
        return BinlogReader(schema, dict(self.options))


class BinlogReader(DataSourceReader):
    """Plans the tasks, and reads in them.

    Args:
        schema: Columns of the table, and those of `metadata_columns`.
        options: See `BinlogDataSource`.
    """

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        database, _, table = self._options.get("table", "").partition(".")
        if not database or not table:
            raise _wrong("the option `table` is missing", 'name it with its database: .option("table", "shop.orders")')
        types = {field.name: field.dataType.simpleString() for field in schema.fields}
        self._metadata = Metadata(tuple(types))
        columns = _columns(types)
        program = Program.of([Field.of(name, ddl) for name, ddl in columns.items()])
        self._target = Target(database=database, table=table, program=program, images=BEFORE in types)

    def partitions(self) -> Sequence[InputPartition]:
        """Scans the files, and cuts them between transactions.

        Raises:
            BinlogError: a file cannot be read, or has what cannot be followed.
        """
        split = int(self._options.get("splitbytes", SPLIT_BYTES))
        first, last = _position(self._options.get("from", "")), _position(self._options.get("to", ""))
        found = []
        for path in _paths(self._options.get("path", "")):
            file = self._scanned(path)
            whole = is_packed(path) or not is_available()
            found += [RangePartition(one) for one in _cut(file, split=0 if whole else split, first=first, last=last)]
        return found

    def _scanned(self, path: str) -> BinlogFile:
        if not is_available():
            return BinlogFile.open(path, open_binlog(path))
        from cdc_ops.events.fast_binlog.quick_scan import scan_content

        with mapped_content(path, open_binlog(path)) as (data, _):
            return BinlogFile(name=path, open_file=open_binlog(path), scan=scan_content(path, data))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the changes of a range."""
        own: Range = partition.value
        with mapped_content(own.file.name, own.file.open_file) as (data, open_again):
            file = replace(own.file, open_file=open_again)
            columns = self._metadata.of_file(file, data, self._options.get("aftergtids", ""))
            for changes in self._changes(replace(own, file=file), data):
                yield from columns.batches(changes)

    def _changes(self, own: Range, data: npt.NDArray[np.uint8]) -> Iterator[Changes]:
        if not is_available():
            return exact_changes(own.file, self._target, own.start, own.end)
        from cdc_ops.events.fast_binlog.changes import TableChanges

        return TableChanges(own.file.name, data, own.file.scan, self._target).read(own.start, own.end)


def _columns(types: dict[str, str]) -> dict[str, str]:
    """Returns the columns of the table among those of a schema, once the types of the others are checked."""
    columns = {name: ddl for name, ddl in types.items() if name not in METADATA and name != BEFORE}
    before = "struct<" + ",".join(f"{name}:{ddl}" for name, ddl in columns.items()) + ">"
    for name, ddl in types.items():
        expected = {**METADATA, BEFORE: before, **columns}[name]
        if ddl != expected:
            raise _wrong(f"the column {name} is {ddl}", f"write it as {name} {expected.upper() if name != BEFORE else expected}")
    return columns


def _cut(file: BinlogFile, *, split: int, first: tuple[str, int] | None, last: tuple[str, int] | None) -> Iterator[Range]:
    """Yields the ranges of a file; with a split of 0 there is one."""
    start = _within(file, first, 0)
    end = min(file.scan.complete_to, _within(file, last, file.scan.complete_to))
    # The kernels need not know where transactions end; the reference decoder, which is given one range, does.
    slim = replace(file, scan=replace(file.scan, ends=()) if split else file.scan)
    begin = max(start, len(MAGIC))
    for border in file.scan.ends:
        if split and begin < border < end and border - begin >= split:
            yield Range(slim, begin, border)
            begin = border
    if begin < end:
        yield Range(slim, begin, end)


def _within(file: BinlogFile, position: tuple[str, int] | None, otherwise: int) -> int:
    """Returns the offset of a position in a file: all of it, or nothing, if the position is in another one."""
    if position is None:
        return otherwise
    name, offset = position
    own = _number(Path(file.name).name)
    if _number(name) == own:
        return offset
    return 0 if own > _number(name) and otherwise == 0 else (file.scan.size if own < _number(name) else 0)


def _number(name: str) -> int:
    """Returns the number of a file: names are compared by it, not as texts."""
    digits = name.split(".")[1] if "." in name else ""
    if not digits.isdecimal():
        raise _wrong(f"{name} has no number", "positions are written as binlog.000042:4, and need files named like this")
    return int(digits)


def _position(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    name, _, offset = text.rpartition(":")
    if not name or not offset.isdecimal():
        raise _wrong(f"{text!r} is no position", "write it as binlog.000042:4")
    return name, int(offset)


def _paths(text: str) -> list[str]:
    found: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        place = part.removeprefix("file://")
        if "://" in place:
            raise _wrong(f"{part} is not on a disk", "copy the files to a disk that all tasks see, or use a pipeline")
        found += sorted(glob.glob(place) if not Path(place).is_dir() else (str(one) for one in Path(place).iterdir() if one.is_file()))
    if not found:
        raise _wrong("there are no files below `path`", "give files, folders or patterns, with commas between them")
    return found


def _wrong(what: str, advice: str) -> RequestError:
    return RequestError(f"mysql_binlog: {what}.", why="The options say what to read.", data="Nothing was read.", next=advice)
