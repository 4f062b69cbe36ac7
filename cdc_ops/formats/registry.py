"""The formats of change events by name."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from cdc_ops.core.formats.catalog import format_spec, is_own_format
from cdc_ops.formats.feed.format import Format

_FORMATS: Final[dict[str, str]] = {
    "debezium-mysql": "cdc_ops.formats.debezium.json_events:debezium_mysql",
    "debezium-postgres": "cdc_ops.formats.debezium.json_events:debezium_postgres",
    "debezium-sqlserver": "cdc_ops.formats.debezium.sqlserver_oracle:debezium_sqlserver",
    "debezium-oracle": "cdc_ops.formats.debezium.sqlserver_oracle:debezium_oracle",
    "debezium-mongodb": "cdc_ops.formats.debezium.mongodb:debezium_mongodb",
    "debezium-mysql-unwrapped": "cdc_ops.formats.debezium.unwrapped:debezium_mysql_unwrapped",
    "debezium-postgres-unwrapped": "cdc_ops.formats.debezium.unwrapped:debezium_postgres_unwrapped",
    "debezium-sqlserver-unwrapped": "cdc_ops.formats.debezium.unwrapped:debezium_sqlserver_unwrapped",
    "debezium-oracle-unwrapped": "cdc_ops.formats.debezium.unwrapped:debezium_oracle_unwrapped",
    "debezium-mongodb-unwrapped": "cdc_ops.formats.debezium.mongodb_unwrapped:debezium_mongodb_unwrapped",
    "debezium-mysql-avro": "cdc_ops.formats.debezium.avro:debezium_mysql_avro",
    "debezium-postgres-avro": "cdc_ops.formats.debezium.avro:debezium_postgres_avro",
    "debezium-sqlserver-avro": "cdc_ops.formats.debezium.avro:debezium_sqlserver_avro",
    "debezium-oracle-avro": "cdc_ops.formats.debezium.avro:debezium_oracle_avro",
    "debezium-mongodb-avro": "cdc_ops.formats.debezium.avro:debezium_mongodb_avro",
    "debezium-mysql-unwrapped-avro": "cdc_ops.formats.debezium.avro:debezium_mysql_unwrapped_avro",
    "debezium-postgres-unwrapped-avro": "cdc_ops.formats.debezium.avro:debezium_postgres_unwrapped_avro",
    "debezium-sqlserver-unwrapped-avro": "cdc_ops.formats.debezium.avro:debezium_sqlserver_unwrapped_avro",
    "debezium-oracle-unwrapped-avro": "cdc_ops.formats.debezium.avro:debezium_oracle_unwrapped_avro",
    "dts-json": "cdc_ops.formats.dts.json_records:dts_json",
    "dts-avro": "cdc_ops.formats.dts.avro:dts_avro",
    "maxwell": "cdc_ops.formats.maxwell:maxwell",
    "canal": "cdc_ops.formats.canal:canal",
    "ticdc-canal": "cdc_ops.formats.canal:ticdc_canal",
    "aws-dms-csv": "cdc_ops.formats.dms:aws_dms_csv",
    "aws-dms-parquet": "cdc_ops.formats.dms:aws_dms_parquet",
    "goldengate-json": "cdc_ops.formats.goldengate:goldengate_json",
    "hudi-cdc": "cdc_ops.formats.hudi:hudi_cdc",
    "mysql-binlog": "cdc_ops.formats.mysql_binlog:mysql_binlog",
}


def format_names() -> tuple[str, ...]:
    """Returns the names of all formats that can be read."""
    return tuple(_FORMATS)


def open_format(name: str) -> Format:
    """Returns the format of that name; `module:callable` names a third party's format.

    Raises:
        ConfigError: there is no format of that name.
    """
    place = name if is_own_format(name) else _FORMATS[format_spec(name).name]
    module, _, factory = place.partition(":")
    make: Callable[[], Format] = getattr(import_module(module), factory)
    return make()
