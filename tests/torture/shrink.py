"""The smallest case that fails in the same way: tables, steps, changes, columns and settings are left out as long as it does."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.torture.model import Case, Delete, Insert, Transaction, Update
from tests.torture.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Smallest:
    case: Case
    outcome: Outcome
    tries: int


def smallest(case: Case, outcome: Outcome, play: Callable[[Case], Outcome], *, say: Callable[[str], None], seconds: float) -> Smallest:
    """Returns the smallest case found that still shows one of the kinds of failure of the first.

    Args:
        case: A case that failed.
        outcome: How.
        play: Plays a case.
        say: Receives one line for each step that made it smaller.
        seconds: When to be content with what is found.
    """
    wanted, tries, end = outcome.signature, 0, time.monotonic() + seconds
    smaller = True
    while smaller and time.monotonic() < end:
        smaller = False
        for candidate in candidates(case):
            if time.monotonic() > end:
                break
            tries += 1
            found = play(candidate)
            if found.signature & wanted:
                case, outcome, smaller = candidate, found, True
                say(f"{size(case)} after {tries} tries")
                break
    return Smallest(case=case, outcome=outcome, tries=tries)


def size(case: Case) -> str:
    """Returns how large a case is, in words."""
    changes = sum(len(step.changes) for step in case.steps if isinstance(step, Transaction))
    columns = sum(len(table.columns) for table in case.tables)
    return f"{len(case.tables)} tables, {columns} columns, {len(case.steps)} steps, {changes} changes"


def candidates(case: Case) -> Iterator[Case]:
    """Yields cases that are smaller by one thing, the largest things first."""
    for table in case.tables if len(case.tables) > 1 else ():
        yield _without_table(case, table.name)
    yield from _halves(case)
    for number in range(len(case.steps) - 1, -1, -1):
        yield replace(case, steps=case.steps[:number] + case.steps[number + 1 :])
    yield from _fewer_changes(case)
    for table in case.tables:
        for column in table.columns:
            if column.name not in table.keys and column.name not in _names_in_settings(table.settings):
                yield _without_column(case, table.name, column.name)
        for name, _ in table.settings:
            if name not in ("method", "cursor", "max_delete_ratio"):
                yield case.with_table(replace(table, settings=tuple(pair for pair in table.settings if pair[0] != name)))
        if table.after or table.tail:
            yield case.with_table(replace(table, after=(), tail="", features=()))


def _names_in_settings(settings: tuple[tuple[str, object], ...]) -> set[str]:
    return {str(one) for _, value in settings for one in (value if isinstance(value, list) else [value])}


def _without_table(case: Case, name: str) -> Case:
    steps = (
        replace(step, changes=tuple(one for one in step.changes if getattr(one, "table", "") != name))
        if isinstance(step, Transaction)
        else step
        for step in case.steps
    )
    kept = tuple(step for step in steps if not (isinstance(step, Transaction) and not step.changes))
    return replace(case, tables=tuple(table for table in case.tables if table.name != name), steps=kept)


def _halves(case: Case) -> Iterator[Case]:
    half = len(case.steps) // 2
    if half > 1:
        yield replace(case, steps=case.steps[half:])
        yield replace(case, steps=case.steps[:half])


def _fewer_changes(case: Case) -> Iterator[Case]:
    for number, step in enumerate(case.steps):
        if not isinstance(step, Transaction) or len(step.changes) < 2:
            continue
        count = len(step.changes)
        size = count // 2
        while size:
            for start in range(0, count, size):
                fewer = replace(step, changes=step.changes[:start] + step.changes[start + size :])
                yield replace(case, steps=(*case.steps[:number], fewer, *case.steps[number + 1 :]))
            size //= 2


def _without_column(case: Case, table: str, column: str) -> Case:
    found = case.table(table)
    assert found is not None

    def changed(step: object) -> object:
        if not isinstance(step, Transaction):
            return step
        return replace(step, changes=tuple(_stripped(one, table, column) for one in step.changes))

    smaller = case.with_table(replace(found, columns=tuple(one for one in found.columns if one.name != column)))
    return replace(smaller, steps=tuple(changed(step) for step in case.steps))  # type: ignore[arg-type]


def _stripped(change: object, table: str, column: str) -> object:
    if isinstance(change, Insert) and change.table == table:
        return replace(change, values=tuple(pair for pair in change.values if pair[0] != column))
    if isinstance(change, Update) and change.table == table:
        kept = tuple(pair for pair in change.values if pair[0] != column)
        return replace(change, values=kept) if kept else Delete(table=table, key=(("1", "2"),))
    return change
