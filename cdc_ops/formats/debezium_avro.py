"""Debezium's change events in Avro files, as Kafka Connect's sinks write them (`format.class` AvroFormat); inside Spark.

    topics/shop.orders/partition=0/shop.orders+0+0000000000.avro

Each file has its own schema, with Kafka Connect's types in it, so that a record says how its values are written as one of JsonConverter
with `schemas.enable` does. Nothing else differs from JSON: see `formats.avro_files`.
"""

from dataclasses import replace
from typing import Final

from cdc_ops.core.events import Container, FormatFacts, LossySetting
from cdc_ops.formats import debezium, debezium_mongodb, debezium_servers, debezium_unwrapped
from cdc_ops.formats.base import Format
from cdc_ops.formats.debezium import DebeziumJson
from cdc_ops.formats.debezium_mongodb import DebeziumMongoDb
from cdc_ops.formats.debezium_unwrapped import DebeziumUnwrapped
from cdc_ops.formats.debezium_values import META_DATA, NEED_SCHEMAS, SCHEMAS

_OF_JSON: Final = (SCHEMAS, "converter.replace.null.with.default")
_OF_AVRO: Final = (
    LossySetting(
        name="ignore.default.for.nullables",
        safe=("true",),
        default="false",
        loses="Avro's converters, and the sink itself, write a column's default in place of NULL, unless they are told otherwise.",
        remedy="Set value.converter.ignore.default.for.nullables=true in the connector and in the sink, and"
        " ignore.default.for.nullables=true in the sink. Versions that do not know it always replace NULL.",
    ),
    LossySetting(
        name=META_DATA,
        safe=("true",),
        default="true",
        loses="Without Kafka Connect's types in its schema a file does not say the scale of its decimals, nor the unit of its times: those"
        " of the columns as they are today are taken, also for records from before an ALTER.",
        remedy="Set connect.meta.data=true in the sink.",
        families=NEED_SCHEMAS,
        seen=True,
    ),
    LossySetting(
        name="schema.compatibility",
        safe=("NONE",),
        default="NONE",
        loses="The sink makes records of an older schema look like those of the newest one: a column that they do not speak of becomes NULL"
        " or its default.",
        remedy="Set schema.compatibility=NONE in the sink: it begins a new file for each schema then.",
    ),
)


def in_avro(facts: FormatFacts) -> FormatFacts:
    """Returns what is declared of the same events in Avro files."""
    return replace(
        facts,
        name=f"{facts.name}-avro",
        lossy=(*(item for item in facts.lossy if item.name not in _OF_JSON), *_OF_AVRO),
        container=Container.AVRO,
        column_names="[A-Za-z_][A-Za-z0-9_]*",
    )


def _of(form: Format) -> Format:
    if not isinstance(form, DebeziumJson | DebeziumUnwrapped):
        raise TypeError(f"{form!r} is none of Debezium's formats")
    return replace(form, facts=in_avro(form.facts))


def debezium_mysql_avro() -> Format:
    """The format `debezium-mysql-avro`."""
    return _of(debezium.debezium_mysql())


def debezium_postgres_avro() -> Format:
    """The format `debezium-postgres-avro`."""
    return _of(debezium.debezium_postgres())


def debezium_sqlserver_avro() -> Format:
    """The format `debezium-sqlserver-avro`."""
    return _of(debezium_servers.debezium_sqlserver())


def debezium_oracle_avro() -> Format:
    """The format `debezium-oracle-avro`."""
    return _of(debezium_servers.debezium_oracle())


def debezium_mongodb_avro() -> Format:
    """The format `debezium-mongodb-avro`: documents are texts in Avro too, so that neither converter nor sink changes what they say."""
    return DebeziumMongoDb(facts=replace(debezium_mongodb.FACTS, name="debezium-mongodb-avro", container=Container.AVRO))


def debezium_mysql_unwrapped_avro() -> Format:
    """The format `debezium-mysql-unwrapped-avro`."""
    return _of(debezium_unwrapped.debezium_mysql_unwrapped())


def debezium_postgres_unwrapped_avro() -> Format:
    """The format `debezium-postgres-unwrapped-avro`."""
    return _of(debezium_unwrapped.debezium_postgres_unwrapped())


def debezium_sqlserver_unwrapped_avro() -> Format:
    """The format `debezium-sqlserver-unwrapped-avro`."""
    return _of(debezium_unwrapped.debezium_sqlserver_unwrapped())


def debezium_oracle_unwrapped_avro() -> Format:
    """The format `debezium-oracle-unwrapped-avro`."""
    return _of(debezium_unwrapped.debezium_oracle_unwrapped())
