"""The data files of a Delta table, as its log describes them. Pure; `lake.log.data_files` reads them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

Bound = int | float | str | None
"""A smallest or largest value as the log's JSON has it; None if it has none."""

OPEN_BYTES: Final = 4 << 20
"""What opening a file costs a scan, in bytes that it could read instead: Spark's `spark.sql.files.openCostInBytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file.

    Args:
        size: Its bytes.
        rows: Rows that it holds, deleted ones included; None if the log does not tell.
        deleted: Of them, those that its deletion vector leaves out.
        vector: Whether it has a deletion vector.
        vector_bytes: The bytes of that.
        partition: Values of the partition columns as the log writes them, in the table's order; None is NULL.
        modified: When it was written, in milliseconds since 1970.
        cube: The OPTIMIZE that clustered it (liquid clustering); "" if none did.
        bounds: Smallest and largest value of each column that was asked for.
    """

    size: int
    rows: int | None = None
    deleted: int = 0
    vector: bool = False
    vector_bytes: int = 0
    partition: tuple[str | None, ...] = ()
    modified: int = 0
    cube: str = ""
    bounds: tuple[tuple[Bound, Bound], ...] = ()

    @property
    def deleted_share(self) -> float:
        """The share of its rows that are deleted, 0 if its rows are not known."""
        return self.deleted / self.rows if self.rows else 0.0

    @property
    def live_bytes(self) -> int:
        """About how many of its bytes belong to rows that are not deleted."""
        return round(self.size * (1 - self.deleted_share))


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """Files of about the same size: how many, and their bytes together."""

    files: int
    bytes: int

    @property
    def mean(self) -> int:
        """The size of one of them."""
        return self.bytes // self.files if self.files else 0


def size_classes(files: Iterable[DataFile]) -> tuple[SizeClass, ...]:
    """Returns the files by size, small ones first; a class reaches from one power of two to the next.

    >>> size_classes([DataFile(size=100), DataFile(size=90), DataFile(size=5000)])
    (SizeClass(files=2, bytes=190), SizeClass(files=1, bytes=5000))
    """
    found: dict[int, tuple[int, int]] = {}
    for file in files:
        count, total = found.get(file.size.bit_length(), (0, 0))
        found[file.size.bit_length()] = count + 1, total + file.size
    return tuple(SizeClass(files=count, bytes=total) for _, (count, total) in sorted(found.items()))
