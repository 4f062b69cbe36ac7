"""What a format has to offer, and the registry of formats; inside Spark, expressions only.

A format reads records in two steps, so that a topic with many tables is parsed once: `envelopes` takes each record apart without knowing
any table, `reading` turns the text of one value into what a column stores. `formats.feed.canonical` puts the two together for one table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame

from cdc_ops.core.events.format_spec import EventFormat, FormatFacts
from cdc_ops.core.formats.catalog import facts_of, is_own_format
from cdc_ops.core.schema.tables import Column

ENVELOPE: Final = (
    ("kind", "string"),
    ("op", "string"),
    ("snapshot", "boolean"),
    ("table", "struct<schema: string, name: string>"),
    ("before", "map<string, string>"),
    ("after", "map<string, string>"),
    ("types", "map<string, struct<type: string, name: string, scale: int>>"),
    ("transaction", "string"),
    ("source_time", "timestamp"),
    ("ddl", "string"),
    ("reason", "string"),
    ("raw", "string"),
    ("file", "string"),
    ("line", "bigint"),
)
"""What `envelopes` returns, with `position` beside it. The images hold each value as the record spells it; a column that is not in an image
is not there, one that is NULL is there. `types` says how a value is written, where records say so themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the text of one value becomes what its column stores.

    Args:
        value: The stored value; NULL for text that cannot be read.
        unstorable: True for values of the source that no stored type holds, such as the date 0000-00-00; None = there are none.
        untyped: Why text of a record without `types` cannot be read, and what to do about it, for people; empty = that does not matter.
    """

    value: Expr
    unstorable: Expr | None = None
    untyped: str = ""


class Format(Protocol):
    """A format of change records."""

    @property
    def facts(self) -> FormatFacts:
        """What the format declares of itself."""
        ...

    def envelopes(self, records: DataFrame, chosen: EventFormat) -> DataFrame:
        """Takes records apart.

        Args:
            records: Columns as in `core.events.change_feed.RECORD_COLUMNS`.
            chosen: What the pipeline file says of the format.

        Returns:
            Columns as in `ENVELOPE`, and `position` of the type that the facts declare; at least one row per record.
        """
        ...

    def reading(self, column: Column, text: Expr, kind: Expr, chosen: EventFormat) -> Reading:
        """Reads one value.

        Args:
            column: Whose value; the stored value is of its stored type.
            text: The value as the record spells it, NULL for NULL.
            kind: What the record says of how it is written: a struct of type, name and scale, NULL if it says nothing.
            chosen: What the pipeline file says of the format.
        """
        ...


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
}


def format_names() -> tuple[str, ...]:
    """Returns the names of all formats that can be read."""
    return tuple(_FORMATS)


def open_format(name: str) -> Format:
    """Returns the format of that name; `module:callable` names one of somebody else.

    Raises:
        ConfigError: there is none.
    """
    place = name if is_own_format(name) else _FORMATS[facts_of(name).name]
    module, _, factory = place.partition(":")
    make: Callable[[], Format] = getattr(import_module(module), factory)
    return make()
