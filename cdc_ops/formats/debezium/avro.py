"""Debezium's change events in Avro files, as Kafka Connect's sinks write them (`format.class` AvroFormat); inside Spark.

    topics/shop.orders/partition=0/shop.orders+0+0000000000.avro

Each file has its own schema with Kafka Connect's types, so each record has the same types as one that JsonConverter writes with
`schemas.enable=true`. `formats.files.avro` makes such JSON of it; the rest is the same as for JSON.
"""

from dataclasses import replace

from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.formats.debezium import json_events, sqlserver_oracle, unwrapped
from cdc_ops.formats.debezium.json_events import DebeziumJson
from cdc_ops.formats.debezium.mongodb import DebeziumMongoDb
from cdc_ops.formats.debezium.unwrapped import DebeziumUnwrapped
from cdc_ops.formats.feed.format import Format


def _of(form: Format) -> Format:
    if not isinstance(form, DebeziumJson | DebeziumUnwrapped):
        raise TypeError(f"{form!r} is none of Debezium's formats")
    return replace(form, spec=format_spec(f"{form.spec.name}-avro"))


def debezium_mysql_avro() -> Format:
    """The format `debezium-mysql-avro`."""
    return _of(json_events.debezium_mysql())


def debezium_postgres_avro() -> Format:
    """The format `debezium-postgres-avro`."""
    return _of(json_events.debezium_postgres())


def debezium_sqlserver_avro() -> Format:
    """The format `debezium-sqlserver-avro`."""
    return _of(sqlserver_oracle.debezium_sqlserver())


def debezium_oracle_avro() -> Format:
    """The format `debezium-oracle-avro`."""
    return _of(sqlserver_oracle.debezium_oracle())


def debezium_mongodb_avro() -> Format:
    """The format `debezium-mongodb-avro`; documents are text in Avro too, so neither the converter nor the sink changes them."""
    return DebeziumMongoDb(spec=format_spec("debezium-mongodb-avro"))


def debezium_mysql_unwrapped_avro() -> Format:
    """The format `debezium-mysql-unwrapped-avro`."""
    return _of(unwrapped.debezium_mysql_unwrapped())


def debezium_postgres_unwrapped_avro() -> Format:
    """The format `debezium-postgres-unwrapped-avro`."""
    return _of(unwrapped.debezium_postgres_unwrapped())


def debezium_sqlserver_unwrapped_avro() -> Format:
    """The format `debezium-sqlserver-unwrapped-avro`."""
    return _of(unwrapped.debezium_sqlserver_unwrapped())


def debezium_oracle_unwrapped_avro() -> Format:
    """The format `debezium-oracle-unwrapped-avro`."""
    return _of(unwrapped.debezium_oracle_unwrapped())
