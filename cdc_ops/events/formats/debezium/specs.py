"""The declared properties of Debezium's formats, and the configuration of its connectors. Pure."""

from typing import Final

from cdc_ops.core.events.format_spec import FormatSpec
from cdc_ops.core.formats.demanded_settings import Configuration
from cdc_ops.events.formats.debezium.declared import connector_settings
from cdc_ops.events.formats.debezium.declared.flat import UNWRAPPED, in_avro
from cdc_ops.events.formats.debezium.declared.mongodb import MONGODB, MONGODB_AVRO, MONGODB_UNWRAPPED
from cdc_ops.events.formats.debezium.declared.relational import RELATIONAL

SPECS: Final = (
    *RELATIONAL,
    MONGODB,
    *UNWRAPPED,
    MONGODB_UNWRAPPED,
    *map(in_avro, RELATIONAL),
    MONGODB_AVRO,
    *map(in_avro, UNWRAPPED),
)


def configuration(spec: FormatSpec) -> Configuration:
    """Returns the configuration of source connector and sink."""
    return connector_settings.configuration(spec)
