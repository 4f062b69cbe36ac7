"""Generates the settings for a tool and for the pipeline file with which a format loses no data. Pure."""

from collections.abc import Mapping
from typing import Final, TypeVar

from cdc_ops.core.events.format_spec import Container, FormatSpec, LossySetting, Where
from cdc_ops.core.formats.debezium_flat import FIELDS

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
_TABLE_FIELDS: Final = {"debezium-mysql": ("source.db", "source.table", "source.connector"), "debezium-mongodb": ("db", "collection")}
_NAMED: Final = ("source.schema", "source.table")


def advised(item: LossySetting, spec: FormatSpec) -> str:
    """Returns a value of a setting that loses no data; empty if there is none."""
    if item.name == FIELDS:
        return ",".join((*(_qualified(name) for name in item.needs), *_of_family(spec, _TABLE_FIELDS, _NAMED)))
    if item.where is Where.NOWHERE:
        return ""
    return item.advised or next(iter(item.safe), "")


def demanded(spec: FormatSpec) -> tuple[LossySetting, ...]:
    """Returns the settings that must be set and stated because the tool's default loses data."""
    return tuple(item for item in spec.lossy if item.loses_at(item.default) and not item.only.declared)


def only_accepted(spec: FormatSpec) -> tuple[LossySetting, ...]:
    """Returns the losses that no setting prevents; they can only be accepted."""
    return tuple(item for item in demanded(spec) if not advised(item, spec))


def for_some_types(spec: FormatSpec) -> tuple[LossySetting, ...]:
    """Returns the settings that only tables with certain column types need."""
    return tuple(item for item in spec.lossy if item.loses_at(item.default) and item.only.declared)


def left_at_default(spec: FormatSpec) -> tuple[LossySetting, ...]:
    """Returns the settings whose default loses no data, while other values do."""
    return tuple(item for item in spec.lossy if not item.loses_at(item.default))


def archive_settings(spec: FormatSpec) -> dict[str, str]:
    """Returns the settings to state in `archive.settings`."""
    return {item.name: advised(item, spec) for item in demanded(spec) if advised(item, spec)}


def tool_settings(spec: FormatSpec) -> dict[str, str]:
    """Returns the settings of the tool, by its own names; for Kafka Connect the whole configuration without the login."""
    found = {item.written or item.name: advised(item, spec) for item in demanded(spec) if item.where is not Where.SINK}
    kept = {name: value for name, value in found.items() if value}
    connector = _of_family(spec, _CLASSES, "")
    if not connector:
        return kept
    flat = (
        {"transforms": "unwrap", "transforms.unwrap.type": _TRANSFORMATIONS.get(spec.name, _FLATTEN)} if "-unwrapped" in spec.name else {}
    )
    avro = spec.files.container is Container.AVRO
    return {
        "connector.class": connector,
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


def sink_settings(spec: FormatSpec) -> dict[str, str]:
    """Returns the configuration of Confluent's S3 sink for such records; empty for tools outside Kafka Connect."""
    if not _of_family(spec, _CLASSES, ""):
        return {}
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


def _qualified(name: str) -> str:
    return name if name == "op" or "." in name else f"source.{name}"


def _of_family(spec: FormatSpec, by_prefix: Mapping[str, Value], otherwise: Value) -> Value:
    return next((value for prefix, value in by_prefix.items() if spec.name.startswith(prefix)), otherwise)
