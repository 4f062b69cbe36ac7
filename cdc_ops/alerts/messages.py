"""Conditions as messages: plain text that reads well in a chat and in a mail, and the document that a webhook gets. Pure."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from cdc_ops.alerts.due import Change, Due
from cdc_ops.alerts.words import Condition
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.text import joined, minute_text
from cdc_ops.state.notices.alerts import NotifiedAlert, Subject

IN_FULL: Final = 5
"""Tables that a message tells in full; of further ones it has the names."""
NAMED: Final = 30
LONGEST: Final = 1_500
"""Characters of a part of an error: a driver's text can be of any length."""

_HEADS: Final = {
    AlertKind.FAILURE: "{tables} failed",
    AlertKind.PIPELINE_FILE: "the pipeline file has errors",
    AlertKind.LAG: "{tables} behind max_lag",
    AlertKind.GAP: "{tables} waiting at a gap in the archive",
    AlertKind.DELETES: "deletes over the guard in {tables}",
    AlertKind.VERIFICATION: "verification found differences in {tables}",
    AlertKind.RUN_ALERT: "{alerts} about {tables}",
    AlertKind.CATALOG: "{tables} not registered in the catalog",
    AlertKind.NO_RUN: "no run yet",
    AlertKind.APPROVAL: "somebody has to decide about {tables}",
    AlertKind.SPACE: "{disks} nearly full",
    AlertKind.LATE_ROWS: "late rows in {tables}",
    AlertKind.SCHEMA_CHANGE: "columns changed in {tables}",
}
_ENDS: Final = {
    AlertKind.FAILURE: "{tables} no longer failing",
    AlertKind.PIPELINE_FILE: "the pipeline file is right again",
    AlertKind.LAG: "{tables} within max_lag again",
    AlertKind.GAP: "no gap any more in the archive of {tables}",
    AlertKind.DELETES: "no deletes over the guard any more in {tables}",
    AlertKind.VERIFICATION: "no differences any more in {tables}",
    AlertKind.RUN_ALERT: "{alerts} about {tables}",
    AlertKind.CATALOG: "{tables} registered in the catalog",
    AlertKind.NO_RUN: "the first run has come",
    AlertKind.APPROVAL: "no question any more about {tables}",
    AlertKind.SPACE: "enough room again on {disks}",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a receiver is told at once: all tables of a pipeline with which the same is wrong.

    Args:
        pipeline: Of the tables.
        kind, change: What is wrong or new; whether it began, still holds or is over.
        subject: One line.
        text: All of it, beginning with that line.
        conditions: What holds, empty if it is over.
        over: What is over.
    """

    pipeline: str
    kind: AlertKind
    change: Change
    subject: str
    text: str
    conditions: tuple[Condition, ...] = ()
    over: tuple[NotifiedAlert, ...] = ()

    def payload(self, *, escaped: bool = False) -> dict[str, Any]:
        """Returns the document that a webhook gets; `text` is what Slack and Mattermost show.

        Args:
            escaped: For Slack, which reads `<...>` in a text as a link or a mention: an error's text has neither.
        """
        about = [_entry(one.subject, one.what, one.run_id, one.since) for one in self.conditions]
        about += [_entry(one.subject, one.what, one.run_id, one.first_at) for one in self.over]
        for entry, one in zip(about, self.conditions, strict=False):
            entry |= {"why": one.why, "data": one.data, "next": one.next}
        head = {"pipeline": self.pipeline, "kind": self.kind.value, "change": self.change.value, "subject": self.subject}
        text = self.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") if escaped else self.text
        return {"text": text, **head, "alerts": about}


def messages_of(pipeline: str, due: Due, ends: Mapping[Subject, str] | None = None) -> tuple[Message, ...]:
    """Returns what a receiver is to be told, most urgent first; what is over comes last.

    Args:
        pipeline: The pipeline's name.
        due: What is new, still holds and is over.
        ends: How some of what is over has ended, in a sentence.
    """
    told = [*_messages_of_change(pipeline, Change.NEW, due.new), *_messages_of_change(pipeline, Change.STILL, due.still)]
    over = _by_kind(due.over, lambda one: one.subject.kind)
    return (*told, *(_over(pipeline, kind, group, ends or {}) for kind, group in over))


def condition_text(condition: Condition) -> str:
    """Returns a condition as a paragraph: where and what, then why, data, next and run on lines of their own."""
    since = minute_text(condition.since) if condition.since else ""
    lines = {"why": condition.why, "data": condition.data, "next": condition.next, "run": condition.run_id, "since": since}
    name = str(condition.subject.table or "")
    what = _short(condition.what)
    head = what if not name or name in what.partition("\n")[0] else f"{name}: {what}"
    return "\n".join((head, *(f"  {label + ':':6} {_short(text)}" for label, text in lines.items() if text)))


def _messages_of_change(pipeline: str, change: Change, conditions: Iterable[Condition]) -> Iterator[Message]:
    for kind, group in _by_kind(conditions, lambda one: one.subject.kind):
        still = "still: " if change is Change.STILL else ""
        head = f"{pipeline}: {still}{_filled(_HEADS[kind], [one.subject for one in group])}"
        text = "\n\n".join((head, *map(condition_text, group[:IN_FULL]), *_rest([one.subject for one in group[IN_FULL:]])))
        yield Message(pipeline=pipeline, kind=kind, change=change, subject=head, text=text, conditions=group)


def _over(pipeline: str, kind: AlertKind, group: tuple[NotifiedAlert, ...], ends: Mapping[Subject, str]) -> Message:
    head = f"{pipeline}: over: {_filled(_ENDS[kind], [one.subject for one in group])}"
    lines = [" ".join((f"{one.subject.table or one.subject.pipeline}:", *_sentences(ends.get(one.subject, ""), one))) for one in group]
    text = "\n\n".join((head, *lines[:IN_FULL], *_rest([one.subject for one in group[IN_FULL:]])))
    return Message(pipeline=pipeline, kind=kind, change=Change.OVER, subject=head, text=text, over=group)


def _sentences(end: str, one: NotifiedAlert) -> Iterator[str]:
    if end:
        yield end
    yield f"{'Told' if end else 'told'} first at {minute_text(one.first_at)}. It was: {_short(one.what)}"


def _filled(head: str, subjects: list[Subject]) -> str:
    """Returns a head with what it is about: the table or the number of tables, and runs as a whole; each table counts once."""
    tables, many = _names(subjects), len(subjects) > 1
    counted = [f"{len(tables)} tables" if len(tables) > 1 else tables[0]] if tables else []
    runs = len({one.detail for one in subjects if one.table is None})
    counted += ["a run" if runs == 1 else f"{runs} runs"] if runs else []
    return head.format(tables=joined(counted), alerts="alerts" if many else "alert", disks="disks" if many else "a disk")


def _names(subjects: Iterable[Subject]) -> list[str]:
    return list(dict.fromkeys(str(one.table) for one in subjects if one.table))


def _rest(subjects: list[Subject]) -> tuple[str, ...]:
    if not subjects:
        return ()
    names = _names(subjects) or ["the pipeline"]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (f"The same with {', '.join(names[:NAMED])}{more}.",)


def _by_kind(items: Iterable[T], kind_of: Callable[[T], AlertKind]) -> Iterator[tuple[AlertKind, tuple[T, ...]]]:
    order = list(AlertKind)
    ranked = sorted(items, key=lambda one: order.index(kind_of(one)))
    for kind, group in itertools.groupby(ranked, kind_of):
        yield kind, tuple(group)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


def _entry(subject: Subject, what: str, run_id: str, since: datetime | None) -> dict[str, Any]:
    table = str(subject.table) if subject.table else None
    return {"table": table, "what": what, "run_id": run_id or None, "since": since.isoformat() if since else None}
