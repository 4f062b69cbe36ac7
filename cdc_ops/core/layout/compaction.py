"""Which files OPTIMIZE writes again, so that the bytes of maintenance stay in proportion to those of the batches. Pure.

Small files are put together in steps, as a log-structured merge tree does it: files join only if the result is `GROWTH` times as large as
the largest of them. So a row is written again only when its file grows that much, not with every batch:

    8 files of a batch each       -> 1 file of 8         3 such files and 8 new ones  -> 1 file of 32

Large files are left alone until enough of their rows are deleted, in the whole table at least as many bytes of them as opening a file is
worth. Which files OPTIMIZE takes is set by its session: those below a size,
and those above a share of deleted rows; what it will do with them is computed here as Delta 4.4 does it (`OptimizeTableCommand`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cdc_ops.core.layout.data_files import OPEN_BYTES, DataFile
from cdc_ops.core.text import quoted, size_text

GROWTH: Final = 4
"""How much larger than the largest of them files become together, at least. A row is written again log4(target / batch) times at most."""

OPEN_SHARE: Final = 0.1
"""Small files are worth it when opening them costs a scan of the table this share more."""

MOST_TIMES: Final = 32
"""How many times `min_small_files` are worth it at the most, however large the table is: a merge has to open them too."""

MOST_STATEMENTS: Final = 20
"""Partitions of a table that one run maintains."""

NEVER: Final = 1.0
"""No file has a larger share of deleted rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteLimits:
    """When files are worth to be written again.

    Args:
        min_small_files: So many small files are worth it, at least.
        target_bytes: Size of the files that are made.
        max_deleted_share: Files with a larger share of deleted rows are worth it, of whatever size they are.
        max_bytes: Bytes that are written again in one run, at most; 0 = no limit.
    """

    min_small_files: int
    target_bytes: int
    max_deleted_share: float
    max_bytes: int = 0

    @property
    def growth(self) -> int:
        """How much larger than the largest of them files become together, at least; less where fewer files are worth it."""
        return min(GROWTH, self.min_small_files)

    @property
    def small_bytes(self) -> int:
        """Files below this are small: larger ones could not become `GROWTH` times as large."""
        return self.target_bytes // GROWTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One OPTIMIZE of a table, or of one of its partitions.

    Args:
        where: The partition as a condition of Spark SQL; "" = the whole table.
        small_below: Files smaller than this are put together (`optimize.minFileSize`).
        deleted_above: Files with a larger share of deleted rows are written again (`optimize.maxDeletedRowsRatio`).
        file_bytes: Files are put together up to this size (`optimize.maxFileSize`).
        cube_bytes: For clustered tables: clustered parts that are larger stay as they are; 0 for other tables.
        files: Files that are written again.
        bytes: Their size.
        live_bytes: About how much of it is left, and written.
        small_files: Of the files, those that are written again because they are small.
    """

    where: str = ""
    small_below: int = 0
    deleted_above: float = NEVER
    file_bytes: int
    cube_bytes: int = 0
    files: int = 0
    bytes: int = 0
    live_bytes: int = 0
    small_files: int = 0

    @property
    def words(self) -> str:
        """What it does, e.g. `34 files of 5.1 MiB, 34 of them small`."""
        kinds = f"{self.small_files} of them small" if self.small_files else "many of their rows deleted"
        return f"{self.files} files of {size_text(self.bytes)}, {kinds}{f', where {self.where}' if self.where else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """How a table is divided: its partition columns, name and Spark SQL type each, or the columns that it is clustered by."""

    partition_by: tuple[tuple[str, str], ...] = ()
    cluster_by: tuple[str, ...] = ()

    def condition(self, values: Sequence[str | None]) -> str:
        """Returns the condition of one partition.

        >>> Partitioning(partition_by=(("day", "date"),)).condition(("2026-01-31",))
        "`day` = CAST('2026-01-31' AS date)"
        """
        parts = []
        for (name, kind), value in zip(self.partition_by, values, strict=True):
            escaped = None if value is None else value.replace("\\", "\\\\").replace("'", "\\'")
            parts.append(f"{quoted(name)} IS NULL" if escaped is None else f"{quoted(name)} = CAST('{escaped}' AS {kind})")
        return " AND ".join(parts)


def plan_rewrites(files: Sequence[DataFile], limits: RewriteLimits, divided: Partitioning) -> tuple[Rewrite, ...]:
    """Returns the statements that are worth it, those of the newest partitions first; () if none is.

    Args:
        files: All files of the table.
        limits: When files are worth it.
        divided: How the table is divided.
    """
    if 0 < sum(file.size - file.live_bytes for file in files if file.deleted_share > limits.max_deleted_share) < OPEN_BYTES:
        limits = replace(limits, max_deleted_share=NEVER)  # to read past them costs a scan less than to open one file
    if divided.cluster_by:
        found = _clustering(files, limits)
        return (found,) if found else ()
    left, rewrites = limits.max_bytes, list[Rewrite]()
    groups: dict[tuple[str | None, ...], list[DataFile]] = {}
    for file in sorted(files, key=lambda one: -one.modified):  # the newest file's partition comes first
        groups.setdefault(file.partition, []).append(file)
    # A table of many partitions collects small files in each of them.
    crowded = len(groups) > 1 and sum(one.size < limits.small_bytes for one in files) >= MOST_TIMES * limits.min_small_files
    for values, group in groups.items():
        own = replace(limits, max_bytes=left, min_small_files=GROWTH if crowded else limits.min_small_files)
        found = _compaction(group, own, divided.condition(values) if divided.partition_by else "")
        if found is not None:
            rewrites.append(found)
            left -= found.bytes if limits.max_bytes else 0
        if len(rewrites) == MOST_STATEMENTS or (limits.max_bytes and left <= 0):
            break
    return tuple(rewrites)


def joining(sizes: Iterable[int], limits: RewriteLimits) -> int:
    """Returns how many of the smallest files join, 0 if that is not worth it.

    >>> limits = RewriteLimits(min_small_files=4, target_bytes=1000, max_deleted_share=0.2)
    >>> joining([1, 1, 1, 1], limits), joining([1, 1, 1, 1, 9], limits), joining([1, 1, 1, 1, 4, 4, 4], limits)
    (4, 4, 7)

    Args:
        sizes: Sizes of all files, small ones first.
        limits: When small files are worth it.
    """
    ordered = list(sizes)
    worth = int(sum(ordered) * OPEN_SHARE / OPEN_BYTES)
    worth = min(max(worth, limits.min_small_files, 2), max(MOST_TIMES * limits.min_small_files, 2))
    best = total = 0
    for count, size in enumerate(ordered, 1):
        total += size
        if size >= limits.small_bytes or (limits.max_bytes and total > limits.max_bytes):
            break
        tied = count < len(ordered) and ordered[count] == size
        if count >= worth and not tied and total >= limits.growth * size:
            best = count
    return best


def _compaction(files: Sequence[DataFile], limits: RewriteLimits, where: str) -> Rewrite | None:
    """Returns the OPTIMIZE of files that share a partition, None if it would not be worth it."""
    ordered = sorted(files, key=lambda file: file.size)
    count = joining((file.size for file in ordered), limits)
    small = ordered[:count]
    left = limits.max_bytes - sum(file.size for file in small) if limits.max_bytes else 0
    above = _deleted_above(ordered[count:], limits, left)
    below = small[-1].size + 1 if small else 0
    chosen = [file for file in ordered if _is_taken(file, below, above)]
    if len(chosen) < 2:
        return None
    file_bytes = _file_bytes(chosen, below, limits)
    written = [file for part in _parts(chosen, file_bytes) if len(part) > 1 for file in part]
    if not written:
        return None
    return Rewrite(
        where=where,
        small_below=below,
        deleted_above=above,
        file_bytes=file_bytes,
        files=len(written),
        bytes=sum(file.size for file in written),
        live_bytes=sum(file.live_bytes for file in written),
        small_files=sum(file.size < below for file in written),
    )


def _file_bytes(chosen: Sequence[DataFile], below: int, limits: RewriteLimits) -> int:
    """Returns up to which size files are put together: more than is meant if a large file would have no other, and stay as it is."""
    largest = [file.size for file in chosen[-2:]]
    for size in (limits.target_bytes, max(sum(largest), limits.target_bytes)):
        if all(len(part) > 1 or part[0].size < below for part in _parts(chosen, size)):
            return size
    return limits.target_bytes + largest[-1]


def _deleted_above(files: Sequence[DataFile], limits: RewriteLimits, budget: int) -> float:
    """Returns the share of deleted rows above which files are written again: the limit, or more if that would exceed the budget."""
    taken = 0
    for file in sorted(files, key=lambda one: -one.deleted_share):
        if file.deleted_share <= limits.max_deleted_share:
            return limits.max_deleted_share
        taken += file.size
        if limits.max_bytes and taken > budget:
            return file.deleted_share
    return limits.max_deleted_share


def _is_taken(file: DataFile, below: int, above: float) -> bool:
    """True for a file that OPTIMIZE takes (`filterCandidateFileList`)."""
    return file.size < below or (file.vector and file.rows is None) or file.deleted_share > above


def _parts(chosen: Sequence[DataFile], file_bytes: int) -> list[list[DataFile]]:
    """Returns the files that OPTIMIZE puts into one each (`groupFilesIntoBins`)."""
    parts: list[list[DataFile]] = [[]]
    for file in sorted(chosen, key=lambda one: one.size):
        if sum(one.size for one in parts[-1]) + file.size > file_bytes:
            parts.append([])
        parts[-1].append(file)
    return [part for part in parts if part]


def _clustering(files: Sequence[DataFile], limits: RewriteLimits) -> Rewrite | None:
    """Returns the OPTIMIZE of a clustered table, None if it would not be worth it.

    Delta clusters all new files, and with them clustered parts ("cubes") below a size, by default 100 GB: a smaller table is written
    as a whole each time. Here a part joins only if the result is `GROWTH` times as large, or if many of its rows are deleted.
    """
    new, cubes = [file for file in files if not file.cube], dict[str, list[DataFile]]()
    for file in files:
        if file.cube:
            cubes.setdefault(file.cube, []).append(file)
    ordered = sorted(cubes.values(), key=_live)
    total, count = _live(new), 0
    for number, cube in enumerate(ordered, 1):
        total += _live(cube)
        if limits.max_bytes and total > limits.max_bytes:
            break
        rows, deleted = sum(file.rows or 0 for file in cube), sum(file.deleted for file in cube)
        if total >= limits.growth * _live(cube) or (rows and deleted / rows > limits.max_deleted_share):
            count = number
    joined = ordered[:count]
    if len(new) < limits.min_small_files and len(joined) < 2:
        return None
    chosen = [*new, *(file for cube in joined for file in cube)]
    largest = _live(joined[-1]) if joined else 0
    return Rewrite(
        file_bytes=limits.target_bytes,
        cube_bytes=max(largest + 1, 1),
        files=len(chosen),
        bytes=sum(file.size for file in chosen),
        live_bytes=_live(chosen),
        small_files=len(new),
    )


def _live(files: Iterable[DataFile]) -> int:
    return sum(file.live_bytes for file in files)
