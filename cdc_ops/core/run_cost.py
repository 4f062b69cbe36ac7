"""What a run costs: the estimate of a plan with what each figure comes from, and the limits that a pipeline sets. Pure."""

import enum
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_ops.core.text import size_text, span_text


class CostBasis(enum.StrEnum):
    """What a figure comes from, as messages say it."""

    COUNTED = "counted"
    """By the plan, at the source."""
    STATISTICS = "the source's statistics"
    RUNS = "earlier runs of the table"
    OTHERS = "earlier runs of other tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of an estimate.

    Args:
        value: The estimate, None if nothing tells.
        bases: What it comes from; empty if nothing tells.
        at_least: The value is a lower bound: counting stopped there, or a part of it is not known.
    """

    value: float | None = None
    bases: tuple[CostBasis, ...] = ()
    at_least: bool = False


UNKNOWN: Final = Figure()


def figure(value: float, basis: CostBasis, *, at_least: bool = False) -> Figure:
    """Returns a figure that comes from one thing."""
    return Figure(value=value, bases=(basis,), at_least=at_least)


def added_figures(figures: Iterable[Figure]) -> Figure:
    """Returns the sum of figures; with an unknown one among them it is a lower bound.

    >>> added_figures([figure(3, CostBasis.COUNTED), UNKNOWN]).value
    3
    >>> added_figures([figure(3, CostBasis.COUNTED), UNKNOWN]).at_least
    True
    """
    found = tuple(figures)
    values = [item.value for item in found if item.value is not None]
    if not values:
        return UNKNOWN
    bases = tuple(basis for basis in CostBasis if any(basis in item.bases for item in found))
    return Figure(value=sum(values), bases=bases, at_least=len(values) < len(found) or any(item.at_least for item in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What the work on a table, or on all tables of a run, is estimated to cost.

    Args:
        rows: Rows that are read, or compared, at the source; events that are read from an archive.
        written_bytes: Bytes that are written to the lake.
        seconds: Time of the work itself, without the start of Spark and without waiting for connections.
        connections: JDBC connections that are open at the same time, at most.
        files: Files of the Delta tables in which the MERGE looks for keys, at most; None if nothing tells.
        file_bytes: The size of these files, in bytes.
        archive_bytes: Bytes of the archived files that are read.
    """

    rows: Figure = UNKNOWN
    written_bytes: Figure = UNKNOWN
    seconds: Figure = UNKNOWN
    connections: int = 0
    files: int | None = None
    file_bytes: int | None = None
    archive_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """The price of a table's plan.

    Args:
        all: Of all that the run would do.
        new: Of what it would begin, which limits are about; None if it only finishes what an earlier run began.
    """

    all: RunCost
    new: RunCost | None = None


def total_cost(costs: Iterable[RunCost], side_by_side: int, most_connections: int = 0) -> RunCost:
    """Returns the cost of several tables.

    Args:
        costs: Theirs.
        side_by_side: Tables of one Spark application that are worked on at the same time.
        most_connections: Connections that the source allows; 0 = no limit.
    """
    found = tuple(costs)
    connections = sum(sorted((item.connections for item in found), reverse=True)[:side_by_side])
    return RunCost(
        rows=added_figures(item.rows for item in found),
        written_bytes=added_figures(item.written_bytes for item in found),
        seconds=added_figures(item.seconds for item in found),
        connections=min(connections, most_connections) if most_connections else connections,
        files=_sum(item.files for item in found),
        file_bytes=_sum(item.file_bytes for item in found),
        archive_bytes=sum(item.archive_bytes for item in found),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    found = tuple(numbers)
    known = [number for number in found if number is not None]
    return sum(known) if known and len(known) == len(found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxCost:
    """Limits on what a run may begin, by its estimate: for all its tables together, or in `defaults` and `tables` for each table alone.

    `0` = no limit.

    Args:
        rows: Largest number of rows that are read or compared at the source.
        written_bytes: Largest number of bytes that are written to the lake.
        duration: Longest time of the work itself, the tables one after the other, without the start of Spark.
        refuse_unknown: Refuse also where nothing tells one of the figures that have a limit, e.g. the time of a pipeline's first run.
    """

    rows: int = 0
    written_bytes: int = 0
    duration: timedelta = timedelta(0)
    refuse_unknown: bool = False

    @property
    def is_set(self) -> bool:
        """True if there is any limit."""
        return bool(self.rows or self.written_bytes or self.duration)

    def raised_to(self, granted: RunCost) -> "MaxCost":
        """Returns limits that let a granted estimate through, and a tenth more, because the source goes on while somebody thinks.

        >>> MaxCost(rows=1_000, written_bytes=500).raised_to(RunCost(rows=figure(2_000, CostBasis.COUNTED)))
        MaxCost(rows=2200, written_bytes=500, duration=datetime.timedelta(0), refuse_unknown=False)
        """
        more = (
            figure.value * 1.1 if figure.value is not None else 0.0 for figure in (granted.rows, granted.written_bytes, granted.seconds)
        )
        rows, written, seconds = more
        return MaxCost(
            rows=max(self.rows, math.ceil(rows)) if self.rows else 0,
            written_bytes=max(self.written_bytes, math.ceil(written)) if self.written_bytes else 0,
            duration=max(self.duration, timedelta(seconds=seconds)) if self.duration else timedelta(0),
            refuse_unknown=False,  # that a figure is not known was in the question
        )


NO_LIMIT: Final = MaxCost()


def excesses(cost: RunCost, limits: MaxCost) -> tuple[str, ...]:
    """Returns a sentence for each limit that an estimate does not keep; empty if it keeps all.

    >>> excesses(RunCost(rows=figure(1200, CostBasis.STATISTICS)), MaxCost(rows=1000))
    ("max_cost.rows is 1,000, and the estimate is 1,200 (the source's statistics).",)
    >>> excesses(RunCost(), MaxCost(rows=1000))
    ()
    >>> excesses(RunCost(), MaxCost(rows=1000, refuse_unknown=True))
    ('max_cost.rows is 1,000, and nothing tells the figure (max_cost.refuse_unknown).',)
    """
    return tuple(_excesses(cost, limits))


def _excesses(cost: RunCost, limits: MaxCost) -> Iterator[str]:
    seconds = limits.duration.total_seconds()
    for name, limit, found, text in (
        ("rows", limits.rows, cost.rows, count_text),
        ("written_bytes", limits.written_bytes, cost.written_bytes, size_text),
        ("duration", seconds, cost.seconds, span_text),
    ):
        if not limit:
            continue
        if found.value is not None and found.value > limit:
            least = "at least " if found.at_least else ""
            yield f"max_cost.{name} is {text(limit)}, and the estimate is {least}{text(found.value)} ({' and '.join(found.bases)})."
        elif limits.refuse_unknown and (found.value is None or found.at_least):
            yield f"max_cost.{name} is {text(limit)}, and nothing tells the figure (max_cost.refuse_unknown)."


def count_text(number: float) -> str:
    """Returns a number of rows.

    >>> count_text(1234567.0)
    '1,234,567'
    """
    return f"{round(number):,}"


def rows_figure_text(found: Figure) -> str:
    """Returns a number of rows in words, with `+` behind a lower bound.

    >>> rows_figure_text(figure(200_000, CostBasis.COUNTED, at_least=True)), rows_figure_text(UNKNOWN)
    ('200,000+', 'unknown')
    """
    return "unknown" if found.value is None else count_text(found.value) + ("+" if found.at_least else "")


def size_figure_text(found: Figure) -> str:
    """Returns a size in words, with `+` behind a lower bound."""
    return "unknown" if found.value is None else size_text(found.value) + ("+" if found.at_least else "")


def span_figure_text(found: Figure) -> str:
    """Returns a time in words, with `+` behind a lower bound."""
    return "unknown" if found.value is None else span_text(found.value) + ("+" if found.at_least else "")


def files_text(cost: RunCost) -> str:
    """Returns the files that are searched, with their size."""
    return f"{cost.files:,} ({size_text(cost.file_bytes or 0)})" if cost.files else "0"


def cost_text(cost: RunCost) -> str:
    """Returns an estimate as a sentence, with what each figure comes from."""
    start = " without the start of Spark" if cost.seconds.value is not None else ""
    count = f"up to {cost.connections} connection{'s' if cost.connections != 1 else ''} to the source"
    files = "" if cost.files is None else f", {files_text(cost)} files to search"
    return (
        f"{rows_words(cost.rows)}{_from(cost.rows)}, {size_words(cost.written_bytes)}{_from(cost.written_bytes)},"
        f" {span_words(cost.seconds)}{start}{_from(cost.seconds)}, {count}{files}"
    )


def rows_words(found: Figure) -> str:
    """Returns a number of rows for a sentence."""
    return "rows unknown" if found.value is None else f"{rows_figure_text(found)} rows"


def size_words(found: Figure) -> str:
    """Returns bytes that are written for a sentence."""
    return "bytes unknown" if found.value is None else f"{size_figure_text(found)} written"


def span_words(found: Figure) -> str:
    """Returns a time for a sentence."""
    return "time unknown" if found.value is None else f"{span_figure_text(found)} of work"


def _from(found: Figure) -> str:
    return f" ({' and '.join(found.bases)})" if found.bases else ""
