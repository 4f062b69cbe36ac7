"""Where alerts go: the URL of a webhook, the login of a mail server. Both are secrets: no `repr` and no message shows any of it."""

import base64
import urllib.parse
from dataclasses import dataclass, field
from typing import Final

from cdc_ops.errors import ConfigError

_DATA: Final = "No alert was sent; runs and tables are not concerned."
WEBHOOK_FORM: Final = "https://host/path"
MAIL_FORM: Final = "smtp://user:password@host:587 or smtps://user:password@host:465"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAddress:
    """A URL that takes JSON by POST.

    Args:
        connection: Its name, for messages.
        url: Without login.
        authorization: Value of the header of that name, "" for none.
    """

    connection: str
    url: str = field(repr=False)
    authorization: str = field(default="", repr=False)

    @property
    def is_slack(self) -> bool:
        """True for a webhook of Slack itself."""
        return urllib.parse.urlsplit(self.url).hostname == "hooks.slack.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailAddress:
    """A mail server.

    Args:
        connection: Its name, for messages.
        host, port: The server.
        user, password: "" for none.
        tls: Whether the connection is encrypted from its beginning; else it is by STARTTLS, where the server offers that.
    """

    connection: str
    host: str = field(repr=False)
    port: int
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    tls: bool = False


def webhook_address(connection: str, url: str) -> WebhookAddress:
    """Reads the URL of a webhook; a login in it becomes a header. As with mail, no login goes without encryption.

    Raises:
        ConfigError: it is no URL of HTTP, or it has a login and no encryption.
    """
    parts = _parts(connection, url, ("http", "https"), WEBHOOK_FORM)
    if parts.scheme == "http" and (parts.username or parts.password):
        raise ConfigError(
            f"The connection {connection!r} would send the login of its webhook without encryption.",
            why="Its URL has a user or a password, and begins with http://, so that everybody on the way can read both.",
            data=_DATA,
            next=f"Write it as https://user:password@host/path, or as {WEBHOOK_FORM} without a login.",
        )
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    place = parts._replace(netloc=f"{host}:{parts.port}" if parts.port else host, fragment="")
    login = f"{urllib.parse.unquote(parts.username or '')}:{urllib.parse.unquote(parts.password or '')}"
    basic = "" if login == ":" else f"Basic {base64.b64encode(login.encode()).decode('ascii')}"
    return WebhookAddress(connection=connection, url=place.geturl(), authorization=basic)


def mail_address(connection: str, url: str) -> MailAddress:
    """Reads the URL of a mail server.

    Raises:
        ConfigError: it is no URL of SMTP.
    """
    parts = _parts(connection, url, ("smtp", "smtps"), MAIL_FORM)
    tls = parts.scheme == "smtps"
    return MailAddress(
        connection=connection,
        host=str(parts.hostname),
        port=parts.port or (465 if tls else 587),
        user=urllib.parse.unquote(parts.username or ""),
        password=urllib.parse.unquote(parts.password or ""),
        tls=tls,
    )


def _parts(connection: str, url: str, schemes: tuple[str, ...], form: str) -> urllib.parse.SplitResult:
    text = url.strip()
    try:
        parts = urllib.parse.urlsplit(text)
        known = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        known = False
    if not known or any(sign <= " " for sign in text):
        # `from None`: a traceback must not carry the text either.
        raise ConfigError(
            f"The connection {connection!r} is no {'mail server' if 'smtp' in schemes else 'webhook'}.",
            why="Its URL cannot be read.",
            data=_DATA,
            next=f"Write it as {form}, with special characters of user and password percent-encoded.",
        ) from None
    return parts
