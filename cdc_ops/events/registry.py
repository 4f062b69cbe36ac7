"""The formats of change records by name."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec
from cdc_ops.core.formats.catalog import format_spec, is_own_format
from cdc_ops.events.format import Format

_FORMATS: Final[dict[str, str]] = {
    "debezium-mysql": "cdc_ops.events.formats.debezium.events:mysql",
    "debezium-postgres": "cdc_ops.events.formats.debezium.events:postgres",
    "debezium-sqlserver": "cdc_ops.events.formats.debezium.events:sqlserver",
    "debezium-oracle": "cdc_ops.events.formats.debezium.events:oracle",
    "debezium-mongodb": "cdc_ops.events.formats.debezium.mongodb:mongodb",
    "debezium-mysql-unwrapped": "cdc_ops.events.formats.debezium.flat:mysql",
    "debezium-postgres-unwrapped": "cdc_ops.events.formats.debezium.flat:postgres",
    "debezium-sqlserver-unwrapped": "cdc_ops.events.formats.debezium.flat:sqlserver",
    "debezium-oracle-unwrapped": "cdc_ops.events.formats.debezium.flat:oracle",
    "debezium-mongodb-unwrapped": "cdc_ops.events.formats.debezium.mongodb_flat:mongodb",
    "dts-json": "cdc_ops.events.formats.dts:json_records",
    "dts-avro": "cdc_ops.events.formats.dts:avro_records",
    "maxwell": "cdc_ops.events.formats.maxwell:maxwell",
    "canal": "cdc_ops.events.formats.canal:canal",
    "ticdc-canal": "cdc_ops.events.formats.canal:canal",
    "aws-dms-csv": "cdc_ops.events.formats.dms:dms",
    "aws-dms-parquet": "cdc_ops.events.formats.dms:dms",
    "goldengate-json": "cdc_ops.events.formats.goldengate:goldengate",
    "hudi-cdc": "cdc_ops.events.formats.hudi:hudi",
    "mysql-binlog": "cdc_ops.events.formats.binlog:binlog",
}
_AVRO: Final = "-avro"


def open_format(options: FormatOptions) -> Format:
    """Opens a format with its options; the name `module:callable` is that of a third party's format.

    Raises:
        ConfigError: there is no format of that name.
    """
    name = options.name
    if is_own_format(name):
        place = name
    else:
        known = format_spec(name).name
        place = _FORMATS.get(known) or _FORMATS[known.removesuffix(_AVRO)]
    module, _, factory = place.partition(":")
    make: Callable[[FormatOptions], Format] = getattr(import_module(module), factory)
    return make(options)


def spec_of(options: FormatOptions) -> FormatSpec:
    """Returns what a format declares of itself, a third party's too.

    Raises:
        ConfigError: there is no format of that name.
    """
    return open_format(options).spec if is_own_format(options.name) else format_spec(options.name)
