"""How Airflow reaches the receivers of a pipeline: their connections are Airflow's, and any of its notifiers will do."""

import urllib.parse
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from airflow.sdk import BaseNotifier, Connection, get_current_context
from airflow.sdk.log import mask_secret
from airflow.sdk.module_loading import import_string  # type: ignore[attr-defined]  # Airflow's own modules take it from there

from cdc_ops.airflow.connections import extras, find_connection
from cdc_ops.alerts.addresses import MailAddress, WebhookAddress, mail_address, webhook_address
from cdc_ops.alerts.channels import Channel, mail_message, post_message
from cdc_ops.alerts.messages import Message
from cdc_ops.core.pipeline.receivers import Receiver
from cdc_ops.errors import ConfigError, NotDeliveredError

VARIABLE: Final = "alert"
"""Name under which a notifier's templates find the message: `{{ alert.text }}`, `{{ alert.subject }}`."""

_LONG: Final = 8
"""Characters of a path from which on it may be a secret: a shorter one would be masked in texts that have nothing to do with it."""

_SLACK: Final = "https://hooks.slack.com/services"


def find_channel(receiver: Receiver) -> Channel:
    """Returns how to reach a receiver.

    Raises:
        ConfigError: the connection is missing, or is not of that kind; the notifier cannot be made.
    """
    if receiver.webhook:
        return partial(post_message, receiver, _webhook(receiver.webhook))
    if receiver.mail:
        return partial(mail_message, receiver, _mail(receiver.mail))
    _notifier(receiver)
    return partial(_notify, receiver)


def _webhook(name: str) -> WebhookAddress:
    """Returns the URL of a connection: of type `slackwebhook` as Slack's own hook makes it, else that of its parts."""
    connection = find_connection(name, f"airflow connections add {name} --conn-uri 'https://host/path'")
    if connection.password:
        mask_secret(connection.password)
    kind, host = (connection.conn_type or "").lower(), connection.host or ""
    if kind == "slackwebhook":
        return _masked(name, f"{host or _SLACK}".rstrip("/") + f"/{connection.password or ''}")
    if kind not in ("http", "https", "generic"):
        raise _wrong_kind(name, kind, "http, https and slackwebhook")
    scheme, path = "https" if kind == "https" else "http", connection.schema or ""
    if path in ("http", "https"):  # where Airflow's form of an HTTP connection has the scheme
        scheme, path = path, ""
    base = host if "://" in host else f"{scheme}://{host}"
    base += f":{connection.port}" if connection.port else ""
    query = urllib.parse.urlencode(extras(connection)) if "://" not in host and path else ""
    url = f"{base.rstrip('/')}/{path.lstrip('/')}" if path else base
    return _masked(name, f"{url}?{query}" if query else url, _login(connection))


def _login(connection: Connection) -> str:
    if not connection.login and not connection.password:
        return ""
    return f"{_quoted(connection.login)}:{_quoted(connection.password)}@"


def _masked(name: str, url: str, login: str = "") -> WebhookAddress:
    mask_secret(url)
    if len(path := urllib.parse.urlsplit(url).path) >= _LONG:
        mask_secret(path)
    scheme, _, rest = url.partition("://")
    return webhook_address(name, f"{scheme}://{login}{rest}")


def _mail(name: str) -> MailAddress:
    """Returns a mail server, by the same extras as Airflow's own hook: encrypted from the beginning unless `disable_ssl` is set."""
    connection = find_connection(name, f"airflow connections add {name} --conn-type smtp --conn-host host --conn-port 465")
    if connection.password:
        mask_secret(connection.password)
    kind, extra = (connection.conn_type or "").lower(), extras(connection)
    if kind not in ("smtp", "smtps", "email", "generic"):
        raise _wrong_kind(name, kind, "smtp")
    scheme = "smtp" if _is_set(extra, "disable_ssl") else "smtps"
    port = f":{connection.port}" if connection.port else ""
    return mail_address(name, f"{scheme}://{_login(connection)}{connection.host or ''}{port}")


def _notifier(receiver: Receiver) -> BaseNotifier:
    try:
        made = import_string(receiver.notifier)(**dict(receiver.arguments))
    except Exception as error:  # third parties' code
        raise ConfigError(
            f"The notifier {receiver.notifier} of the receiver {receiver.name!r} cannot be made.",
            why=f"{type(error).__name__}: {error}",
            data="No alert was sent; runs and tables are not concerned.",
            next="Correct 'notifier' and 'arguments', or install the provider that has it.",
        ) from error
    if not isinstance(made, BaseNotifier):
        raise ConfigError(
            f"{receiver.notifier} of the receiver {receiver.name!r} is no notifier of Airflow.",
            why="It is not derived from airflow.sdk.BaseNotifier.",
            data="No alert was sent; runs and tables are not concerned.",
            next="Give the import path of a notifier.",
        )
    return made


def _notify(receiver: Receiver, message: Message) -> None:
    """Lets a notifier send a message; a new one each time, because it renders its arguments in place."""
    notifier, context = _notifier(receiver), {**get_current_context(), VARIABLE: message}
    try:
        notifier(context)
    except Exception as error:  # third parties' code
        raise NotDeliveredError(
            f"The receiver {receiver.name!r} ({receiver.notifier}) was not told.",
            why=f"{type(error).__name__}; the task's log has more.",
            data="Runs and tables are not concerned. The ledger remembers that it has not been told.",
            next="Correct the notifier or its connection: the next look tells it.",
        ) from error


def _is_set(extra: Mapping[str, Any], name: str) -> bool:
    return str(extra.get(name, "")).lower() in ("true", "1")


def _quoted(text: str | None) -> str:
    return urllib.parse.quote(text or "", safe="")


def _wrong_kind(name: str, kind: str, valid: str) -> ConfigError:
    return ConfigError(
        f"The Airflow connection {name!r} has type {kind!r}, which is not one that alerts can go to.",
        why=f"Valid types are: {valid}.",
        data="No alert was sent; runs and tables are not concerned.",
        next="Correct the connection's type, or the receiver.",
    )
