"""Receivers that fail in part, or in a way that nobody foresaw: who has the message is not told again, and no other goes without it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from cdc_ops.alerts.addresses import MailAddress
from cdc_ops.alerts.channels import Channel, mail_message
from cdc_ops.alerts.messages import Message
from cdc_ops.alerts.notify import Delivery, notify_receivers
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.pipeline.receivers import AlertKind, Receiver
from cdc_ops.errors import NotDeliveredError
from cdc_ops.state.sql import SqlStateStore, open_store
from tests.alert_case import HOOK, Wrong, write_file
from tests.receivers import Mailbox, mail_server

TEAM = "  team: {mail: mails, to: [good@example.com, dead@example.com], sender: cdc@example.com}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStateStore]:
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


@pytest.fixture
def box() -> Iterator[Mailbox]:
    with mail_server() as served:
        yield served


def look(store: SqlStateStore, folder: Path, box: Mailbox) -> Delivery:
    """Looks at the pipeline of a folder, and sends its mails to a server."""

    def channel(receiver: Receiver) -> Channel:
        return partial(mail_message, receiver, MailAddress(connection="mails", host="127.0.0.1", port=box.port))

    return notify_receivers(load_pipeline(write_file(folder, TEAM) / "shop.yaml"), store, channel)


def test_an_address_that_the_server_refuses_has_the_others_told_once_and_is_an_error_of_that_look(
    store: SqlStateStore, box: Mailbox, tmp_path: Path
) -> None:
    Wrong(store).make(AlertKind.FAILURE)
    box.refused = ("dead@example.com",)
    first, second = look(store, tmp_path, box), look(store, tmp_path, box)
    assert len(box.mails) == 1
    [error] = first.errors
    assert "1 of 2 addresses: dead@example.com" in error.why
    assert [receiver for receiver, _ in first.notified] == ["team"]
    assert (second.notified, second.errors) == ((), ())


def test_a_mail_says_when_it_was_written_and_has_an_id_of_its_own(store: SqlStateStore, box: Mailbox, tmp_path: Path) -> None:
    wrong = Wrong(store)
    for kind in (AlertKind.FAILURE, AlertKind.GAP):
        wrong.make(kind)
        look(store, tmp_path, box)
    first, second = box.mails
    assert first["Message-ID"] != second["Message-ID"]
    for mail in (first, second):
        sender = mail["From"].addresses[0].domain
        assert mail["Message-ID"].endswith(f"@{sender}>")
        assert abs(mail["Date"].datetime - datetime.now(UTC)) < timedelta(hours=1)


def test_a_mail_that_no_address_has_taken_is_sent_again(store: SqlStateStore, box: Mailbox, tmp_path: Path) -> None:
    Wrong(store).make(AlertKind.FAILURE)
    box.refused = ("good@example.com", "dead@example.com")
    assert [len(look(store, tmp_path, box).errors) for _ in range(2)] == [1, 1]
    assert (box.mails, store.notified_alerts("shop")) == ([], ())
    box.refused = ()
    assert look(store, tmp_path, box).errors == ()
    assert len(box.mails) == 1


@pytest.mark.parametrize("goodbye", ["250 once more", "421 too busy", "no number"])
def test_what_a_mail_server_says_at_the_end_does_not_undo_a_mail_that_it_has_taken(
    goodbye: str, store: SqlStateStore, box: Mailbox, tmp_path: Path
) -> None:
    Wrong(store).make(AlertKind.FAILURE)
    box.goodbye = goodbye
    assert [look(store, tmp_path, box).errors for _ in range(2)] == [(), ()]
    assert len(box.mails) == 1


def test_a_receiver_that_fails_in_any_way_keeps_no_other_from_being_told(store: SqlStateStore, tmp_path: Path) -> None:
    pipeline = load_pipeline(write_file(tmp_path, f"{TEAM}\n{HOOK}") / "shop.yaml")
    Wrong(store).make(AlertKind.FAILURE)
    heard: list[Message] = []

    def channel(receiver: Receiver) -> Channel:
        if receiver.mail:
            raise LookupError("hunter2")
        return heard.append

    done = notify_receivers(pipeline, store, channel)
    assert len(heard) == 1
    [error] = done.errors
    assert isinstance(error, NotDeliveredError)
    assert "'team'" in str(error)
    assert "LookupError" in error.why
    assert "hunter2" not in str(error), "the text of such an error may show a login"
    assert {one.receiver for one in store.notified_alerts("shop")} == {"on_call"}


@pytest.mark.parametrize(
    ("sender", "address"),
    [
        ("cdc@example.com", MailAddress(connection="mails", host="mail..example.com", port=25)),
        ("cdc\n@example.com", MailAddress(connection="mails", host="127.0.0.1", port=9)),
    ],
)
def test_a_mail_that_cannot_be_written_or_whose_server_has_no_such_name_is_not_delivered(
    sender: str, address: MailAddress, store: SqlStateStore, tmp_path: Path
) -> None:
    pipeline = load_pipeline(write_file(tmp_path, TEAM) / "shop.yaml")
    Wrong(store).make(AlertKind.FAILURE)
    heard: list[Message] = []
    notify_receivers(pipeline, store, lambda _: heard.append)
    receiver = Receiver(name="team", mail="mails", to=("a@example.com",), sender=sender)
    with pytest.raises(NotDeliveredError, match="'team'"):
        mail_message(receiver, address, heard[0])
