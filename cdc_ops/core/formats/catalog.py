"""The formats of change events by name, each with its declared properties. Pure, without Spark.

`cdc_ops.events.formats` reads the records, by these facts.
"""

from typing import Final

from cdc_ops.core.events.format_spec import FormatSpec
from cdc_ops.core.formats.binlog import MYSQL_BINLOG
from cdc_ops.core.formats.debezium import ORACLE, SQL_SERVER, mysql_spec, postgres_spec
from cdc_ops.core.formats.debezium_flat import MYSQL_UNWRAPPED, ORACLE_UNWRAPPED, POSTGRES_UNWRAPPED, SQL_SERVER_UNWRAPPED, in_avro
from cdc_ops.core.formats.dms import DMS_CSV, DMS_PARQUET
from cdc_ops.core.formats.mongodb import MONGODB, MONGODB_AVRO, MONGODB_UNWRAPPED
from cdc_ops.core.formats.tools import CANAL, DTS_AVRO, DTS_JSON, GOLDENGATE, HUDI, MAXWELL, TICDC
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError

_RELATIONAL: Final = (mysql_spec("debezium-mysql"), postgres_spec("debezium-postgres"), SQL_SERVER, ORACLE)
_UNWRAPPED: Final = (MYSQL_UNWRAPPED, POSTGRES_UNWRAPPED, SQL_SERVER_UNWRAPPED, ORACLE_UNWRAPPED)

FORMAT_SPECS: Final[dict[str, FormatSpec]] = {
    spec.name: spec
    for spec in (
        *_RELATIONAL,
        MONGODB,
        *_UNWRAPPED,
        MONGODB_UNWRAPPED,
        *(in_avro(spec) for spec in _RELATIONAL),
        MONGODB_AVRO,
        *(in_avro(spec) for spec in _UNWRAPPED),
        *(DTS_JSON, DTS_AVRO, MAXWELL, CANAL, TICDC, DMS_CSV, DMS_PARQUET, GOLDENGATE, HUDI, MYSQL_BINLOG),
    )
}
"""The declared properties of each supported format."""


def is_own_format(name: str) -> bool:
    """True for `module:callable`: a third-party format, which only the job that reads the records can load."""
    return ":" in name


def format_spec(name: str) -> FormatSpec:
    """Returns the declared properties of a format.

    Raises:
        ConfigError: there is none of that name.
    """
    if name in FORMAT_SPECS:
        return FORMAT_SPECS[name]
    raise ConfigError(
        f"Format {name!r} does not exist. {did_you_mean(name, FORMAT_SPECS)}",
        why="A custom format is named as 'module:callable'.",
        data="Nothing was read or written.",
        next="Correct the name of the format; 'cdc-ops formats list' shows all formats.",
    )
