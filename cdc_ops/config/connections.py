"""Connections outside Airflow: the URL of a named connection, from the environment."""

import os
from collections.abc import Mapping
from typing import Final

from cdc_ops.core.connections import FORM, PREFIX, ConnectionUrl, variable_name
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError

_EXAMPLE: Final = "mysql://user:password@host:3306/database"


def connection_url(connection_id: str, environ: Mapping[str, str] = os.environ) -> str:
    """Returns the URL of a connection, checked and in its canonical form.

    Args:
        connection_id: The name that the pipeline file gives, e.g. `shop_db`; "" for a source that is declared, which has no URL.
        environ: Where `CDC_OPS_CONN_SHOP_DB` is looked up.

    Raises:
        ConfigError: the variable is not set, or is no connection URL; the message shows nothing of its value.
    """
    if not connection_id:
        return ""
    variable = variable_name(connection_id)
    text = environ.get(variable, "")
    if not text.strip():
        others = [name for name in environ if name.startswith(PREFIX)]
        raise ConfigError(
            f"The connection {connection_id!r} is not there: the environment variable {variable} is not set.",
            why=did_you_mean(variable, others) if others else f"No variable {PREFIX}<ID> is set at all.",
            data="Nothing was read or written; the watermark stays.",
            next=f"export {variable}='{_EXAMPLE}'   (special characters of the password percent-encoded)",
        )
    try:
        return ConnectionUrl.parse(text).render()
    except ConfigError as error:
        raise ConfigError(
            f"{variable} (connection {connection_id!r}): {error.what}",
            why=error.why,
            data="Nothing was read or written; the watermark stays.",
            next=error.next or f"Write it as {FORM}.",
        ) from None
