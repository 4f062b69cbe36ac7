"""Which of the conditions a receiver is to be told now: new ones, those that still hold after `repeat`, and those that are over. Pure."""

import enum
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import datetime

from cdc_ops.alerts.words import Condition
from cdc_ops.core.pipeline.receivers import AlertKind, Receiver
from cdc_ops.state.notices.alerts import NotifiedAlert, Subject


class Change(enum.StrEnum):
    """What there is to say of a condition."""

    NEW = "new"
    STILL = "still"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What there is to do for a receiver.

    Args:
        new: Conditions that it has not been told.
        still: Conditions that it was told longer ago than its `repeat`.
        over: What it was told and holds no more.
        forgotten: What it was told and need not be remembered: news that are old, and kinds that it does not want any more.
    """

    new: tuple[Condition, ...] = ()
    still: tuple[Condition, ...] = ()
    over: tuple[NotifiedAlert, ...] = ()
    forgotten: tuple[NotifiedAlert, ...] = ()


def due(
    receiver: Receiver,
    conditions: Iterable[Condition],
    told: Iterable[NotifiedAlert],
    now: datetime,
    undecided: Container[Subject] = frozenset(),
) -> Due:
    """Compares what holds with what a receiver was told.

    Args:
        receiver: With the kinds that it wants.
        conditions: What holds now.
        told: What it was told, and not yet told to be over.
        now: The ledger's clock, UTC.
        undecided: Of this it is not said that it is over.
    """
    wanted = {one.subject: one for one in conditions if one.subject.kind in receiver.events}
    known = {one.subject: one for one in told}
    gone = [one for subject, one in known.items() if subject not in wanted]
    gone = [one for one in gone if one.subject not in undecided or one.subject.kind not in receiver.events]
    over = tuple(one for one in gone if one.subject.kind.lasts and one.subject.kind in receiver.events)
    return Due(
        new=tuple(one for subject, one in wanted.items() if subject not in known),
        still=tuple(one for subject, one in wanted.items() if subject in known and _again(receiver, one, known[subject], now)),
        over=over,
        forgotten=tuple(one for one in gone if one not in over),
    )


def _again(receiver: Receiver, condition: Condition, told: NotifiedAlert, now: datetime) -> bool:
    if not receiver.repeat or now - told.last_at < receiver.repeat:
        return False
    kind = condition.subject.kind
    if kind is AlertKind.APPROVAL:
        return False  # who is asked twice the same looks for two questions
    # Late rows of another run are other rows. A change of columns is the same one in each run that leaves it out (`freeze`).
    return kind.lasts or (kind is AlertKind.LATE_ROWS and condition.run_id != told.run_id)
