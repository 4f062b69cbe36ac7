"""Settings of Debezium, of its transformations and of Kafka Connect's converters that lose values or events. Pure.

Names, defaults and meaning are those of Debezium 3.6.1 and Kafka Connect 4.3 (`MySqlConnector.config()`, `ExtractNewRecordState.config()`,
`JsonConverter.config()`), and of Confluent's AvroConverter as documented. docs/format-settings.md lists those that lose nothing, too.
"""

from typing import Final

from cdc_ops.core.events.format_spec import ColumnFilter, LossySetting, Where
from cdc_ops.core.schema.logical_types import LogicalType

DECIMAL_MODE: Final = "decimal.handling.mode"
UNSIGNED_MODE: Final = "bigint.unsigned.handling.mode"
TIME_MODE: Final = "time.precision.mode"
BINARY_MODE: Final = "binary.handling.mode"
SCHEMAS: Final = "schemas.enable"
META_DATA: Final = "connect.meta.data"
"""What says in Avro files what `schemas.enable` says in JSON."""
SKIPPED: Final = "skipped.operations"
KEY_COLUMNS: Final = "message.key.columns"
PLACEHOLDER: Final = "__debezium_unavailable_value"
"""What the connectors write for a value that the log does not have because it did not change."""

FINE_TIMES: Final = ("adaptive", "adaptive_time_microseconds", "microseconds", "nanoseconds", "isostring")
_DECIMALS: Final = (LogicalType.DECIMAL, LogicalType.DECIMAL_TEXT)
NEED_SCHEMAS: Final = (*_DECIMALS, LogicalType.WALL_CLOCK, LogicalType.MOMENT_TEXT, LogicalType.TIME)
"""What cannot be read without knowing the column as it was when the record was written."""

OF_ALL: Final = (
    LossySetting(
        name=SKIPPED,
        safe=("none",),
        default="t",
        loses="The connector skips events of this kind. Debezium's default skips TRUNCATE, so truncated rows would stay in the lake.",
        remedy="Set skipped.operations=none in the connector.",
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="event.converting.failure.handling.mode",
        safe=("fail",),
        default="warn",
        loses="A value that the connector cannot convert becomes NULL or the column's default; only the connector's log shows it.",
        remedy="Set event.converting.failure.handling.mode=fail in the connector.",
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="converter.replace.null.with.default",
        safe=("false",),
        default="true",
        loses="By default, JsonConverter writes a column's default in place of NULL.",
        remedy="Set value.converter.replace.null.with.default=false in the connector.",
        where=Where.CONVERTER,
        written="value.converter.replace.null.with.default",
    ),
    LossySetting(
        name=DECIMAL_MODE,
        safe=("precise", "string"),
        default="precise",
        loses="Decimals are rounded to binary numbers of 53 bits.",
        remedy="Set decimal.handling.mode=string (or precise with schemas.enable=true).",
        families=_DECIMALS,
        seen=True,
        where=Where.CONNECTOR,
        stated_without=SCHEMAS,
    ),
    LossySetting(
        name="converter.decimal.format",
        safe=("BASE64",),
        default="BASE64",
        loses="JsonConverter writes decimals as numbers, and digits without a point look like the base64 of other ones.",
        remedy="Leave value.converter.decimal.format at its default, BASE64.",
        families=(*_DECIMALS, LogicalType.UNSIGNED_BIGINT),
        where=Where.CONVERTER,
        written="value.converter.decimal.format",
    ),
    LossySetting(
        name=SCHEMAS,
        safe=("true",),
        default="true",
        loses="Without schemas a record does not say the scale of its decimals, nor the unit of its times: those of the columns as they are"
        " today are taken, also for records from before an ALTER.",
        remedy="Set value.converter.schemas.enable=true in the connector.",
        families=NEED_SCHEMAS,
        seen=True,
        where=Where.CONVERTER,
        written="value.converter.schemas.enable",
    ),
    LossySetting(
        name=BINARY_MODE,
        safe=("bytes", "base64", "base64-url-safe", "hex"),
        default="bytes",
        loses="cdc-ops cannot read this encoding of bytes.",
        remedy="Set binary.handling.mode=bytes in the connector.",
        families=(LogicalType.BINARY,),
        seen=True,
        where=Where.CONNECTOR,
        stated_without=SCHEMAS,
    ),
    LossySetting(
        name="event.processing.failure.handling.mode",
        safe=("fail",),
        default="fail",
        loses="The connector skips events at which it fails.",
        remedy="Leave event.processing.failure.handling.mode at its default, fail.",
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="errors.tolerance",
        safe=("none",),
        default="none",
        loses="Kafka Connect skips records at which a transformation or a converter fails.",
        remedy="Leave errors.tolerance at its default, none, in the connector and in the sink.",
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="column.mask.",
        safe=("",),
        default="",
        loses="The connector masks the values of these columns.",
        remedy="Exclude such columns ('except_column_list'), or do not mask them.",
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="column.truncate.",
        safe=("",),
        default="",
        loses="The connector truncates texts of these columns.",
        remedy="Exclude such columns ('except_column_list'), or do not truncate them.",
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="converters",
        safe=("",),
        default="",
        loses="Custom converters may change values: Debezium's converter for TINYINT(1) writes 2 to 127 as true.",
        remedy="Use no converters, or exclude their columns ('except_column_list').",
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="post.processors",
        safe=("",),
        default="",
        loses="Post processors change rows after they were read: the reselect processor reads values of a later time.",
        remedy="Use no post processors.",
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="snapshot.select.statement.overrides",
        safe=("",),
        default="",
        loses="The snapshot lacks rows that the statement does not select.",
        remedy="Use no statement of your own for a snapshot, or begin with 'initial_load: snapshot'.",
        where=Where.CONNECTOR,
    ),
)

OF_MYSQL: Final = (
    LossySetting(
        name="enable.time.adjuster",
        safe=("false",),
        default="true",
        loses="The connector reads years below 100 as two-digit years: 0001-01-01 becomes 2001-01-01, and year 0 becomes 2000.",
        remedy="Set enable.time.adjuster=false in the connector.",
        families=(LogicalType.DATE, LogicalType.WALL_CLOCK, LogicalType.MOMENT_TEXT, LogicalType.YEAR),
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="event.deserialization.failure.handling.mode",
        safe=("fail",),
        default="fail",
        loses="The connector skips binlog events that it cannot read.",
        remedy="Leave event.deserialization.failure.handling.mode at its default, fail.",
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="inconsistent.schema.handling.mode",
        safe=("fail",),
        default="fail",
        loses="The connector skips events of tables whose columns it does not know.",
        remedy="Leave inconsistent.schema.handling.mode at its default, fail.",
        where=Where.CONNECTOR,
    ),
    *(
        LossySetting(
            name=f"gtid.source.{which}",
            safe=("",),
            default="",
            loses="The connector skips transactions of other servers (gtid.source.filter.dml.events, true by default).",
            remedy=f"Do not set gtid.source.{which}.",
            where=Where.CONNECTOR,
        )
        for which in ("includes", "excludes")
    ),
)
_UNAVAILABLE: Final = LossySetting(
    name="unavailable.value.placeholder",
    safe=(PLACEHOLDER,),
    default=PLACEHOLDER,
    loses="The lake would store the placeholder of an unchanged large value as the value.",
    remedy=f"Leave unavailable.value.placeholder at its default, {PLACEHOLDER}.",
    where=Where.CONNECTOR,
)
OF_POSTGRES: Final = (
    _UNAVAILABLE,
    LossySetting(
        name="slot.drop.on.stop",
        safe=("false",),
        default="false",
        loses="Changes that happen while the connector is stopped have no event.",
        remedy="Leave slot.drop.on.stop at its default, false.",
        where=Where.CONNECTOR,
    ),
)
OF_ORACLE: Final = (
    _UNAVAILABLE,
    LossySetting(
        name="lob.enabled",
        safe=("true",),
        default="false",
        loses="Events lack large object columns, or have their earlier values.",
        remedy="Set lob.enabled=true.",
        families=(LogicalType.TEXT, LogicalType.OTHER, LogicalType.BINARY),
        only=ColumnFilter(declared=("clob", "nclob", "blob", "xmltype")),
        where=Where.CONNECTOR,
    ),
    LossySetting(
        name="log.mining.transaction.retention.ms",
        safe=("0",),
        default="0",
        loses="The connector abandons longer transactions and does not write their events.",
        remedy="Leave log.mining.transaction.retention.ms at its default, 0.",
        where=Where.CONNECTOR,
    ),
)
ROUNDED: Final = LossySetting(
    name="snapshot.mode",
    safe=("no_data", "schema_only", "never", "recovery", "schema_only_recovery"),
    default="initial",
    loses="The snapshot reads FLOAT as text, which has six digits: 16777217 becomes 16777200.",
    remedy="Let cdc-ops read the rows that are there (archive: 'initial_load: snapshot') and set snapshot.mode=no_data in the connector.",
    families=(LogicalType.FLOAT,),
    only=ColumnFilter(declared=("float",)),
    where=Where.CONNECTOR,
)
OF_KEYS: Final = LossySetting(
    name=KEY_COLUMNS,
    safe=("",),
    default="",
    loses="An update of the table's key, if it leaves the message's key as it is, is no delete and insert; flat records have no row before"
    " the change, so that the row of the old key stays in the lake.",
    remedy="Leave message.key.columns unset.",
    where=Where.CONNECTOR,
)
OF_TRANSFORMATION: Final = (
    LossySetting(
        name="replace.null.with.default",
        safe=("false",),
        default="true",
        loses="By default, ExtractNewRecordState writes a column's default in place of NULL; the converter's setting of the same"
        " name applies too late.",
        remedy="Set transforms.<name>.replace.null.with.default=false in the connector.",
        where=Where.TRANSFORMATION,
        written="transforms.unwrap.replace.null.with.default",
    ),
    LossySetting(
        name="drop.fields.header.name",
        safe=("",),
        default="",
        loses="The transformation drops columns that a header of the record names.",
        remedy="Do not set transforms.<name>.drop.fields.header.name.",
        where=Where.TRANSFORMATION,
        written="transforms.unwrap.drop.fields.header.name",
    ),
)


def time_precision(default: str) -> LossySetting:
    """Returns the loss of a connector whose `time.precision.mode` has that default."""
    return LossySetting(
        name=TIME_MODE,
        safe=FINE_TIMES,
        default=default,
        loses="The connector truncates times to milliseconds.",
        remedy="Leave time.precision.mode at its default.",
        families=(LogicalType.WALL_CLOCK, LogicalType.TIME, LogicalType.MOMENT_TEXT),
        seen=True,
        where=Where.CONNECTOR,
        stated_without=SCHEMAS,
    )
