"""Connections outside Airflow: the URL of a named connection, from the environment or a file that it names."""

import os
from collections.abc import Mapping
from typing import Final

from cdc_ops.config.secret_files import SUFFIX, secret_value
from cdc_ops.core.pipeline.connections import FORM, PREFIX, ConnectionUrl, variable_name
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError

_EXAMPLE: Final = "mysql://user:password@host:3306/database"


def connection_url(connection_id: str, environ: Mapping[str, str] = os.environ) -> str:
    """Returns the URL of a connection, checked and in its canonical form.

    Args:
        connection_id: The name that the pipeline file gives, e.g. `shop_db`; "" for a source that is declared, which has no URL.
        environ: Where `CDC_OPS_CONN_SHOP_DB` is looked up, or `CDC_OPS_CONN_SHOP_DB_FILE`, which names a file.

    Raises:
        ConfigError: the variable is not set, or is no connection URL; the message shows nothing of its value.
    """
    if not connection_id:
        return ""
    text = connection_text(connection_id, _EXAMPLE, environ)
    try:
        return ConnectionUrl.parse(text).render()
    except ConfigError as error:
        variable = variable_name(connection_id)
        raise ConfigError(
            f"{variable} (connection {connection_id!r}): {error.what}",
            why=error.why,
            data="Nothing was read or written; the watermark stays.",
            next=error.next or f"Write it as {FORM}.",
        ) from None


def connection_text(connection_id: str, example: str, environ: Mapping[str, str] = os.environ) -> str:
    """Returns what the variable of a connection holds, unchecked.

    Args:
        connection_id: The name that the pipeline file gives.
        example: Such a value, for the message.
        environ: Where the variable is looked up.

    Raises:
        ConfigError: the variable is not set, or the file that it names cannot be read.
    """
    variable = variable_name(connection_id)
    text = secret_value(variable, environ)
    if not text.strip():
        near = _near(variable, environ)
        misspelled = "Correct 'connection' in the pipeline file, or: " if near.startswith("Did you mean") else ""
        raise ConfigError(
            f"The connection {connection_id!r} is missing: the environment variable {variable} is {_state(variable, environ)}.",
            why=near,
            data="Nothing was read or written; the watermark stays.",
            next=f"{misspelled}export {variable}='{example}'   # special characters of the password percent-encoded;"
            f" or {variable}{SUFFIX} names a file that has the URL",
        )
    return text


def _state(variable: str, environ: Mapping[str, str]) -> str:
    return "set, but empty" if variable in environ else "not set"


def _near(variable: str, environ: Mapping[str, str]) -> str:
    """Says which other variables are set: one of them may be meant."""
    others = [name for name, value in environ.items() if name.startswith(PREFIX) and value.strip()]
    if others:
        return did_you_mean(variable, others)
    if variable in environ:
        return "Its value is empty or white space. A missing secret often leaves such a variable."
    return f"No variable {PREFIX}<ID> is set at all."
