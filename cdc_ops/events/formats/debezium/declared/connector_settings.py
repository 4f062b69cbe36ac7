"""Generates the configuration of Debezium's connectors, and of a sink behind them, with which nothing is lost. Pure."""

from collections.abc import Mapping
from typing import Final, TypeVar

from cdc_ops.core.events.format_spec import Container, FormatSpec
from cdc_ops.core.formats.demanded_settings import Configuration, tool_settings

Value = TypeVar("Value")

_CLASSES: Final = {
    "debezium-mysql": "io.debezium.connector.mysql.MySqlConnector",
    "debezium-postgres": "io.debezium.connector.postgresql.PostgresConnector",
    "debezium-sqlserver": "io.debezium.connector.sqlserver.SqlServerConnector",
    "debezium-oracle": "io.debezium.connector.oracle.OracleConnector",
    "debezium-mongodb": "io.debezium.connector.mongodb.MongoDbConnector",
}
"""Of the formats whose names begin so, the connector; that of MariaDB writes the same as MySQL's."""

_OF_SOURCE: Final = {"debezium-postgres": {"publish.via.partition.root": "true"}}
"""Settings of the source connector that decide what the server sends it: here, changes of partitions under their table's name."""

_TRANSFORMATIONS: Final = {
    "debezium-mongodb-unwrapped": "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState",
}
_FLATTEN: Final = "io.debezium.transforms.ExtractNewRecordState"
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"


def configuration(spec: FormatSpec) -> Configuration:
    """Returns the whole configuration of the source connector, and that of Confluent's S3 sink for its records."""
    return Configuration(tool=_source_connector(spec), sink=_sink_connector(spec))


def _source_connector(spec: FormatSpec) -> dict[str, str]:
    kept = tool_settings(spec)
    flat = (
        {"transforms": "unwrap", "transforms.unwrap.type": _TRANSFORMATIONS.get(spec.name, _FLATTEN)} if "-unwrapped" in spec.name else {}
    )
    avro = spec.files.container is Container.AVRO
    return {
        "connector.class": _of_family(spec, _CLASSES, ""),
        "topic.prefix": "cdc",
        # A record without value would be a hole in the archive's offsets; deletes have records of their own.
        "tombstones.on.delete": "false",
        **_of_family(spec, _OF_SOURCE, {}),
        **{name: value for name, value in kept.items() if not name.startswith(("value.", "transforms."))},
        **flat,
        **{name: value for name, value in kept.items() if name.startswith("transforms.")},
        "key.converter": _AVRO if avro else _JSON,
        "value.converter": _AVRO if avro else _JSON,
        **({} if avro else {"value.converter.schemas.enable": "true"}),
        **{name: value for name, value in kept.items() if name.startswith("value.")},
    }


def _sink_connector(spec: FormatSpec) -> dict[str, str]:
    common = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics.regex": r"cdc\..*",
        "s3.bucket.name": "archive",
        "s3.region": "eu-central-1",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "flush.size": "1000",
        "rotate.schedule.interval.ms": "60000",
        "timezone": "UTC",
        "schema.compatibility": "NONE",
        "behavior.on.null.values": "ignore",
        "errors.tolerance": "none",
        "key.converter": _BYTES,
    }
    if spec.files.container is Container.AVRO:
        nulls = {"value.converter.ignore.default.for.nullables": "true", "ignore.default.for.nullables": "true"}
        avro = {"format.class": "io.confluent.connect.s3.format.avro.AvroFormat", "value.converter": _AVRO, "connect.meta.data": "true"}
        return {**common, **avro, **nulls}
    # The bytes of Kafka as they are, a line each: nothing is read and written again on the way.
    lines = {"format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat", "format.bytearray.extension": ".json"}
    return {**common, **lines, "value.converter": _BYTES}


def _of_family(spec: FormatSpec, by_prefix: Mapping[str, Value], otherwise: Value) -> Value:
    return next((value for prefix, value in by_prefix.items() if spec.name.startswith(prefix)), otherwise)
