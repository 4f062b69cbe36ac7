"""Which line of a table's runs says how the table is: one of a run that has ended, or that was ended without a word."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_ops.state.base import StateReader, TableOverview
from cdc_ops.state.table_run import TableRun

LINES: Final = 20
"""Newest lines of a table among which one has come to an end, unless more runs than that are at work at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A table as the ledger has it.

    Args:
        overview: State, newest line and lease.
        finished: Its newest line that has come to an end: while a run works, what the one before found still holds. A run of which the
            line has not ended, and that cannot go on, has come to an end too. A wrong request says nothing of the table, nor does
            a run that a person has stopped.
        undecided: A run has come to the table since, and is at work: what it finds is not known.
    """

    overview: TableOverview
    finished: TableRun | None
    undecided: bool = False


def see(reader: StateReader, one: TableOverview, is_at_work: Callable[[str], bool | None], unattended: datetime) -> Seen:
    """Finds the line of a table that says how it is.

    Args:
        reader: The ledger.
        one: The table.
        is_at_work: Whether a run has not ended, by its id; None where it cannot be told.
        unattended: A line from before that instant, UTC, that has not ended and that nobody works on was left by a run that is over.
    """
    if one.last_run is None:
        return Seen(overview=one, finished=None)
    lines, is_newest, undecided = _lines(reader, one, one.last_run), True, False
    for line in lines:
        if line.wrong_request or line.stopped_by_hand:
            continue
        if line.status.is_good or (_is_over(line, one, unattended, is_newest=is_newest) and not is_at_work(line.run_id)):
            return Seen(overview=one, finished=line, undecided=undecided)
        is_newest, undecided = False, True
    return Seen(overview=one, finished=None, undecided=True)


def _lines(reader: StateReader, one: TableOverview, newest: TableRun) -> Iterator[TableRun]:
    yield newest
    older = reader.history(one.state.pipeline, one.state.table, limit=LINES)
    yield from (line for line in older if line.run_id != newest.run_id)


def _is_over(line: TableRun, one: TableOverview, unattended: datetime, *, is_newest: bool) -> bool:
    """True if a line has ended, or its run was ended without a word; behind another run's line, any has."""
    return line.status.has_ended or not is_newest or (one.lease is None and line.timing.started_at < unattended)
