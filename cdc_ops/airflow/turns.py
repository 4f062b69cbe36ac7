"""When a task comes that waits for a table of another run, without a worker slot: it ends, and Airflow starts it again.

A task that waited in its slot would hold it against the run that it waits for: with as many plans waiting as slots, nobody goes on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cdc_ops.steps.runs.table_groups import IfHeld

FIRST_PAUSE: Final = timedelta(seconds=5)
"""Before the second turn; each further pause is twice as long as the one before."""

LONGEST_PAUSE: Final = timedelta(seconds=30)
"""A live run that waits has to come again before others cease to stand back for it (`state.db.leases.LIVE_WAIT`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One of the starts of a try that waits.

    Args:
        is_later: Whether it is not the first.
        until: Until when the tables are waited for, UTC.
        next_at: When the next turn is, UTC, if there is need of one.
        if_held: What is done in this turn at a table that is held: the last one fails.
    """

    is_later: bool
    until: datetime
    next_at: datetime
    if_held: IfHeld


def turn_of(begun: datetime, now: datetime, number: int, wait: timedelta) -> Turn:
    """Returns what a turn may do.

    Args:
        begun: When the first turn of the try began, UTC.
        now: The present, UTC.
        number: How many turns were before this one.
        wait: How long tables are waited for, the pipeline's `lease_wait`.
    """
    until = begun + wait
    pause = min(FIRST_PAUSE * 2 ** min(number, 10), LONGEST_PAUSE)
    if_held = IfHeld.HAND_BACK if now < until else IfHeld.FAIL
    return Turn(is_later=number > 0, until=until, next_at=max(min(now + pause, until), now), if_held=if_held)


def this_turn(airflow: Mapping[str, Any], wait: timedelta) -> Turn:
    """Returns the turn of a task by Airflow's context.

    Args:
        airflow: Airflow's context of the task.
        wait: The pipeline's `lease_wait`.
    """
    now = datetime.now(UTC)
    begun = airflow["ti"].get_first_reschedule_date(airflow)
    return turn_of(begun or now, now, airflow.get("task_reschedule_count") or 0, wait)
