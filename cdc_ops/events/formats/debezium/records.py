"""Opens the formats of Debezium: events of its connectors, or flat records, as JSON or from Avro files."""

from collections.abc import Callable
from typing import Final

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec
from cdc_ops.events.format import Format
from cdc_ops.events.formats.debezium import events, flat
from cdc_ops.events.formats.debezium.mongodb import events as mongodb_events
from cdc_ops.events.formats.debezium.mongodb import flat as mongodb_flat
from cdc_ops.events.formats.debezium.specs import SPECS

_OPENED: Final[dict[str, Callable[[FormatSpec, FormatOptions], Format]]] = {
    "debezium-mysql": events.mysql,
    "debezium-postgres": events.postgres,
    "debezium-sqlserver": events.sqlserver,
    "debezium-oracle": events.oracle,
    "debezium-mongodb": mongodb_events.mongodb,
    "debezium-mysql-unwrapped": flat.mysql,
    "debezium-postgres-unwrapped": flat.postgres,
    "debezium-sqlserver-unwrapped": flat.sqlserver,
    "debezium-oracle-unwrapped": flat.oracle,
    "debezium-mongodb-unwrapped": mongodb_flat.mongodb,
}
"""By the names of the formats as JSON; the same records from Avro files are read alike."""


def open_format(options: FormatOptions) -> Format:
    """Opens a format of Debezium."""
    spec = next(spec for spec in SPECS if spec.name == options.name)
    return _OPENED[spec.name.removesuffix("-avro")](spec, options)
