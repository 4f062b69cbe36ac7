"""Notifies the receivers of a pipeline of what is new to them, and writes down what they were notified of.

It is written down after a receiver has taken the message: whoever dies in between sends it again. So do two that look at the same time.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from cdc_ops.alerts import words
from cdc_ops.alerts.channels import Channel
from cdc_ops.alerts.conditions import Verdict, judge
from cdc_ops.alerts.due import Change, due
from cdc_ops.alerts.first_run import is_expected
from cdc_ops.alerts.host import Host
from cdc_ops.alerts.messages import Message, messages_of
from cdc_ops.alerts.words import Condition
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.pipeline.receivers import AlertKind, Receiver
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, ConfigError, NotDeliveredError
from cdc_ops.state.base import StateStore
from cdc_ops.state.notices.alerts import Finding, NotifiedAlert, Subject

FindChannel = Callable[[Receiver], Channel | None]
"""Returns how to reach a receiver; None if this process cannot. Raises ConfigError if its connection is missing or wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of notifying the receivers of a pipeline.

    Args:
        conditions: What is wrong, or new.
        notified: Receivers with the messages that they have taken.
        left_out: Receivers that this process cannot reach, and that have something to be told.
        errors: Why others were not told, or not at all of their addresses.
    """

    conditions: tuple[Condition, ...]
    notified: tuple[tuple[str, Message], ...] = ()
    left_out: tuple[str, ...] = ()
    errors: tuple[CdcError, ...] = ()


def notify_receivers(pipeline: Pipeline, store: StateStore, find_channel: FindChannel, host: Host | None = None) -> Delivery:
    """Tells each receiver what is new to it; one that cannot be told does not keep the others from it.

    Args:
        pipeline: With its receivers.
        store: The ledger.
        find_channel: Says how to reach a receiver.
        host: What this process knows besides.

    Raises:
        LedgerUnavailableError: the ledger does not answer.
    """
    _note_first_look(pipeline, store)
    verdict, known = judge(store, pipeline, host or Host()), store.notified_alerts(pipeline.name)
    names = {receiver.name for receiver in pipeline.notify}
    if orphans := tuple(one for one in known if one.receiver not in names or _has_left(one.subject, verdict.tables)):
        store.forget_notified(orphans)
        known = tuple(one for one in known if one not in orphans)
    return _notify_each(pipeline.name, pipeline.notify, verdict, known, store, find_channel)


def notify_of_broken_file(
    pipeline: str, receivers: Sequence[Receiver], error: ConfigError, store: StateStore, find_channel: FindChannel
) -> Delivery:
    """Tells what is wrong with a pipeline file that cannot be used; once it is right, `notify_receivers` says that this is over.

    Args:
        pipeline: Its name, as far as it can be made out.
        receivers: Whom the file says to tell.
        error: What is wrong with it.
        store: The ledger.
        find_channel: Says how to reach a receiver.

    Raises:
        LedgerUnavailableError: the ledger does not answer.
    """
    known = tuple(one for one in store.notified_alerts(pipeline) if one.subject.kind is AlertKind.PIPELINE_FILE)
    return _notify_each(pipeline, receivers, Verdict(conditions=(words.broken_file(pipeline, error),)), known, store, find_channel)


def _notify_each(
    pipeline: str,
    receivers: Sequence[Receiver],
    verdict: Verdict,
    known: Sequence[NotifiedAlert],
    store: StateStore,
    find_channel: FindChannel,
) -> Delivery:
    """Tells each receiver what is new to it, of what was told to it before."""
    notified: list[tuple[str, Message]] = []
    left_out, errors = list[str](), list[CdcError]()
    for receiver in receivers:
        mine = tuple(one for one in known if one.receiver == receiver.name)
        news = due(receiver, verdict.conditions, mine, store.now(), verdict.undecided)
        if news.forgotten:
            store.forget_notified(news.forgotten)
        if not (messages := messages_of(pipeline, news, _answers(store, news.over))):
            continue
        try:
            if (channel := find_channel(receiver)) is None:
                left_out.append(receiver.name)
                continue
            for message in messages:
                refused = channel(message)
                _remember(store, receiver, message, mine)
                errors += [refused] if refused else []
                notified.append((receiver.name, message))
        except CdcError as error:
            errors.append(error)
        except Exception as error:  # whatever a receiver's connection or server brings up, the others are told
            errors.append(_unforeseen(receiver, error))
    return Delivery(conditions=verdict.conditions, notified=tuple(notified), left_out=tuple(left_out), errors=tuple(errors))


def _answers(store: StateStore, over: Sequence[NotifiedAlert]) -> dict[Subject, str]:
    """Returns how the questions have ended that are over."""
    asked = [one for one in over if one.subject.kind is AlertKind.APPROVAL]
    runs = {(one.subject.pipeline, one.subject.table, one.run_id) for one in asked}
    records = (record for name, table, run_id in runs for record in store.approvals(name, table, run_id=run_id))
    return {words.subject_of(record): words.answered(record) for record in records}


def _note_first_look(pipeline: Pipeline, store: StateStore) -> None:
    """Notes since when a pipeline is known that has never run and should; forgets that once it has."""
    subject = Subject(pipeline=pipeline.name, table=None, kind=AlertKind.NO_RUN)
    known = any(one.subject == subject for one in store.findings(pipeline.name))
    has_run = bool(store.table_runs(pipeline.name, limit=1))
    if known and (has_run or not is_expected(pipeline)):
        store.drop_findings(pipeline.name, None, AlertKind.NO_RUN)
    elif not known and not has_run and is_expected(pipeline):
        store.put_finding(Finding(subject=subject, text="No run is known.", found_at=store.now()))


def _has_left(subject: Subject, tables: Container[TableName]) -> bool:
    """True for a table that the pipeline file or the ledger does not have any more: nobody knows whether it is well."""
    return subject.table is not None and subject.table not in tables


def _unforeseen(receiver: Receiver, error: Exception) -> NotDeliveredError:
    """Returns the error without the text of its cause, which may show a login."""
    return NotDeliveredError(
        f"The receiver {receiver.name!r} was not told.",
        why=f"{type(error).__name__}.",
        data="Runs and tables are not concerned. The ledger remembers that it has not been told.",
        next="Correct the receiver or its connection: the next look tells it. At once: cdc-ops alerts --notify",
    )


def _remember(store: StateStore, receiver: Receiver, message: Message, before: tuple[NotifiedAlert, ...]) -> None:
    if message.change is Change.OVER:
        store.forget_notified(message.over)
        return
    now, first = store.now(), {one.subject: one.first_at for one in before}
    store.put_notified(
        NotifiedAlert(
            receiver=receiver.name,
            subject=one.subject,
            what=one.what.partition("\n")[0],
            first_at=first.get(one.subject, now),
            last_at=now,
            run_id=one.run_id,
        )
        for one in message.conditions
    )
