"""How a message gets to a receiver: JSON by POST, or mail by SMTP. Each raises NotDeliveredError, whose text shows no URL and no login."""

import json
import smtplib
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from email import policy
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid, parseaddr
from http.client import HTTPException
from typing import IO, Any, Final

from cdc_ops.alerts.addresses import MailAddress, WebhookAddress
from cdc_ops.alerts.messages import Message
from cdc_ops.core.pipeline.receivers import Receiver
from cdc_ops.errors import NotDeliveredError

PATIENCE: Final = 15.0
"""Seconds that a receiver may take for an answer."""

_WHOLE_LINES: Final = policy.default.clone(max_line_length=990)
"""A subject stays on its line: Python would begin a long one on the next, and servers hand it on with a blank before it. SMTP takes 998."""

Channel = Callable[[Message], NotDeliveredError | None]
"""Delivers a message, or raises NotDeliveredError or ConfigError. Returns an error if only some of a receiver's addresses have it."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET that delivers nothing, at an address that nobody chose."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> None:
        return None


def post_message(receiver: Receiver, address: WebhookAddress, message: Message) -> None:
    """Posts a message as a JSON document; any answer of 2xx means that it was taken.

    Raises:
        NotDeliveredError: the receiver did not take it.
    """
    body = json.dumps(message.payload(escaped=address.is_slack), ensure_ascii=False).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "cdc-ops"}
    headers |= {"Authorization": address.authorization} if address.authorization else {}
    request = urllib.request.Request(address.url, data=body, headers=headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=PATIENCE):
            pass
    except urllib.error.HTTPError as error:
        with error:
            raise _not_delivered(receiver, address.connection, f"it answered {error.code}") from None
    except urllib.error.URLError as error:
        raise _not_delivered(receiver, address.connection, _reason(error.reason)) from None
    except (OSError, HTTPException, ValueError) as error:
        raise _not_delivered(receiver, address.connection, _reason(error)) from None


def mail_message(receiver: Receiver, address: MailAddress, message: Message) -> NotDeliveredError | None:
    """Sends a message as a plain mail. A password goes to an encrypted connection only.

    Returns:
        Which addresses the server refused, if it took the mail for others: those must not get it again.

    Raises:
        NotDeliveredError: the server took it for no address.
    """
    try:
        mail = _mail(receiver, message)
        with closing(_connected(address)) as server:
            refused = server.send_message(mail)
            with suppress(OSError, smtplib.SMTPException):  # the server has taken the mail, whatever it says to this
                server.quit()
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise _not_delivered(receiver, address.connection, _reason(error)) from None
    return _refused(receiver, address.connection, tuple(refused)) if refused else None


def _mail(receiver: Receiver, message: Message) -> EmailMessage:
    mail = EmailMessage(_WHOLE_LINES)
    subject, text = (part.encode("utf-8", "replace").decode("utf-8") for part in (message.subject, message.text))
    mail["Subject"], mail["From"], mail["To"] = f"[cdc-ops] {' '.join(subject.split())}", receiver.sender, ", ".join(receiver.to)
    # Without these, a server that passes the mail on may add its own, or take it for spam.
    _, address = parseaddr(receiver.sender)
    mail["Date"], mail["Message-ID"] = format_datetime(datetime.now(UTC)), make_msgid("cdc-ops", address.rpartition("@")[2] or "localhost")
    mail.set_content(text)
    return mail


def _connected(address: MailAddress) -> smtplib.SMTP:
    secure = ssl.create_default_context()
    if address.tls:
        server: smtplib.SMTP = smtplib.SMTP_SSL(address.host, address.port, timeout=PATIENCE, context=secure)
    else:
        server = smtplib.SMTP(address.host, address.port, timeout=PATIENCE)
    try:
        server.ehlo()
        encrypted = address.tls
        if not encrypted and server.has_extn("starttls"):
            server.starttls(context=secure)
            server.ehlo()
            encrypted = True
        if address.user:
            if not encrypted:
                raise smtplib.SMTPNotSupportedError("it offers no encryption (STARTTLS), and a password is not sent without")
            server.login(address.user, address.password)
    except BaseException:
        server.close()
        raise
    return server


def _reason(error: object) -> str:
    """Returns the cause without what a server may have echoed of a login or an address."""
    match error:
        case smtplib.SMTPNotSupportedError():
            return str(error)
        case smtplib.SMTPResponseException():
            return f"the server answered {error.smtp_code}"
        case UnicodeError():
            return "its host, user or password has characters that the protocol cannot carry"
        case OSError() if error.strerror:
            return error.strerror
        case _:
            return type(error).__name__


def _refused(receiver: Receiver, connection: str, addresses: tuple[str, ...]) -> NotDeliveredError:
    return NotDeliveredError(
        f"The receiver {receiver.name!r} (connection {connection!r}) was not told at all of its addresses.",
        why=f"The server refused {len(addresses)} of {len(receiver.to)} addresses: {', '.join(addresses)}.",
        data="Runs and tables are not concerned. The other addresses have the message, so it is not sent again.",
        next=f"Correct 'to' of the receiver {receiver.name!r}, or have the mail server take these addresses.",
    )


def _not_delivered(receiver: Receiver, connection: str, why: str) -> NotDeliveredError:
    return NotDeliveredError(
        f"The receiver {receiver.name!r} (connection {connection!r}) was not told.",
        why=f"{why[:1].upper()}{why[1:]}.",
        data="Runs and tables are not concerned. The ledger remembers that it has not been told.",
        next="Correct the connection or the receiver: the next look tells it. At once: cdc-ops alerts --notify",
    )
