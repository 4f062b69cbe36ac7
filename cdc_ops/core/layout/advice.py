"""Advice about the layout of a table: what its files are like, which layout would pay, and which setting to write. Pure.

`steps.advise` collects what is known; nothing here asks a source or a lake.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.layout.data_files import OPEN_BYTES, Bound, DataFile

FEW_FILES: Final = 8
"""Tables of fewer files are read as a whole in any case."""

OVERLAPPING: Final = 0.5
"""Where a key lies in the range of at least this share of the files, statistics skip little."""

PARTITIONED: Final = 100 << 30
"""Tables below this have no use for partitions: a folder each for a few files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What the files of a table are like.

    Args:
        files, bytes: How many files, and their size.
        small_files, small_bytes: Of them, those that maintenance would put together.
        rows: Rows that the files hold, deleted ones included; None if the log does not tell.
        deleted_rows: Of them, those that deletion vectors leave out.
        vector_files: Files with a deletion vector.
        depth: In how many files' ranges the smallest key of a file lies on average; None without statistics of it.
    """

    files: int
    bytes: int
    small_files: int
    small_bytes: int
    rows: int | None
    deleted_rows: int
    vector_files: int
    depth: float | None

    @property
    def deleted_share(self) -> float:
        """The share of deleted rows."""
        return self.deleted_rows / self.rows if self.rows else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing to do, or not to do.

    Args:
        text: What, and why, as a sentence.
        setting: The line of the pipeline file; "" = nothing is to be written.
    """

    text: str
    setting: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutFacts:
    """What is known of a table besides its files.

    Args:
        keys: Key columns with their Spark SQL types.
        dates: Columns of type DATE.
        cluster_by, partition_by: How it is divided already.
    """

    keys: tuple[tuple[str, str], ...]
    dates: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()


def profile(files: Sequence[DataFile], small_bytes: int) -> Profile:
    """Returns what files are like; the first of their `bounds` are those of the first key column.

    Args:
        files: All files of the table.
        small_bytes: Files below this are small.
    """
    small = [file for file in files if file.size < small_bytes]
    rows = [file.rows for file in files]
    return Profile(
        files=len(files),
        bytes=sum(file.size for file in files),
        small_files=len(small),
        small_bytes=sum(file.size for file in small),
        rows=None if None in rows else sum(row or 0 for row in rows),
        deleted_rows=sum(file.deleted for file in files),
        vector_files=sum(file.vector for file in files),
        depth=depth([file.bounds[0] for file in files if file.bounds]),
    )


def depth(ranges: Sequence[tuple[Bound, Bound]]) -> float | None:
    """Returns in how many ranges the start of one lies on average: 1 = no two overlap. None if one is not known.

    The start, because texts have no middle; of ranges that all overlap, half contain it.

    >>> depth([(0, 9), (10, 19), (20, 29)]), depth([(0, 29), (1, 28), (2, 27)]), depth([(0, None)])
    (1.0, 2.0, None)
    """
    known = [(low, high) for low, high in ranges if low is not None and high is not None]
    if not ranges or len(known) < len(ranges) or len({type(low) for low, _ in known}) > 1:
        return None
    starts = [low for low, _ in known]
    hits = sum(low <= start <= high for start in starts for low, high in known)  # type: ignore[operator]
    return hits / len(starts)


def layout_advice(found: Profile, facts: LayoutFacts) -> tuple[Advice, ...]:
    """Returns which layout would pay, most useful first; it always says something.

    Args:
        found: What the files are like.
        facts: What else is known.
    """
    advice = []
    if facts.partition_by and found.bytes < PARTITIONED and found.files and found.bytes / found.files < OPEN_BYTES:
        text = f"Partitions by {', '.join(facts.partition_by)} cut the table into files smaller than what opening one costs."
        advice.append(Advice(text=f"{text} Remove 'partition_by' and run cdc-ops resync --mode full.", setting="partition_by: []"))
    if not facts.cluster_by and not facts.partition_by:
        advice += _clustering(found, facts)
        advice += _partitions(found, facts)
    if advice:
        return tuple(advice)
    return (Advice(text="No other layout would pay: the table is small, or statistics of its keys skip most files already."),)


def _clustering(found: Profile, facts: LayoutFacts) -> list[Advice]:
    if not facts.keys or found.depth is None or found.files < FEW_FILES or found.depth < OVERLAPPING * found.files:
        return []
    name, kind = facts.keys[0]
    share = f"a key lies in the range of {found.depth:.0f} of {found.files:,} files"
    if kind == "string":
        text = (
            f"{share}: lookups of single keys read them all, which clustering by {name} ends. A batch of many random keys meets all files"
        )
        return [Advice(text=f"{text} in any layout, so do it for readers that look up keys.", setting=f"cluster_by: [{name}]")]
    return [Advice(text=f"{share}: clustering by {name} lets batches and lookups skip the others.", setting=f"cluster_by: [{name}]")]


def _partitions(found: Profile, facts: LayoutFacts) -> list[Advice]:
    if found.bytes < PARTITIONED or not facts.dates:
        return []
    text = f"The table is large and has a date: where queries and deletes go by {facts.dates[0]}, partitions by it can be kept up alone."
    return [
        Advice(text=f"{text} Set it before a full resync; 'cluster_by' is cheaper to try.", setting=f"partition_by: [{facts.dates[0]}]")
    ]
