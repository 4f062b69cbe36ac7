"""How Spark reads a MySQL or MariaDB table: URL, driver and options with which both drivers give every value exactly.

The types that Spark would guess are not used: `customSchema` names the type in which each column travels, and an expression of Spark's
makes the stored value of it.
Nothing depends on the time zones of the server, the JVMs or the Spark session.
"""

from typing import Final
from urllib.parse import urlencode

from cdc_ops.core.pipeline.pipeline import Reader, SourceConfig
from cdc_ops.core.schema.server_types.mysql_types import TypeMapping, mysql_mapping
from cdc_ops.core.schema.server_types.unsigned_bigints import is_unsigned, jdbc_mapping
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError
from cdc_ops.sources.base import JdbcRead
from cdc_ops.sources.mysql.native import native_read, why_not_native
from cdc_ops.sources.mysql.session import Address
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.selected import Selected

_DRIVERS: Final = {"mariadb": "org.mariadb.jdbc.Driver", "mysql": "com.mysql.cj.jdbc.Driver"}

_SHARED_OPTIONS: Final = {
    # The binary protocol is exact for FLOAT and quicker to decode.
    "useServerPrepStmts": "true",
    "tinyInt1isBit": "false",
    "yearIsDateType": "false",
    "connectTimeout": "10000",
    "tcpKeepAlive": "true",
}
_OPTIONS: Final = {
    # Only for `jdbc:mysql:` does Spark quote names as these servers do; with `jdbc:mariadb:` it reads the names as values.
    "mariadb": {"permitMysqlScheme": "true", "timezone": "UTC", "transformedBitIsBoolean": "false"},
    "mysql": {
        "connectionTimeZone": "UTC",
        "forceConnectionTimeZoneToSession": "true",
        "zeroDateTimeBehavior": "CONVERT_TO_NULL",
        "characterEncoding": "UTF-8",
        # Else the driver sets net_write_timeout to ten minutes before it streams.
        "netTimeoutForStreamingResults": "0",
    },
}
_FETCH_SIZES: Final = {
    "mariadb": "10000",  # streams without a cursor
    "mysql": "-2147483648",  # the driver's sign for streaming; with any other number it holds the whole result in memory
}
_SSL_MODES: Final = {
    "mariadb": {"disabled": "disable", "required": "trust", "verify_ca": "verify-ca", "verify_identity": "verify-full"},
    "mysql": {"disabled": "DISABLED", "required": "REQUIRED", "verify_ca": "VERIFY_CA", "verify_identity": "VERIFY_IDENTITY"},
}


def build_read(config: SourceConfig, address: Address, dialect: Dialect, schema: TableSchema, slices: tuple[str, ...]) -> JdbcRead:
    """Builds the read of some slices of a table; opens no connection.

    Raises:
        ConfigError: the source names a driver that does not exist.
    """
    driver = config.jdbc_driver
    if driver not in _DRIVERS:
        raise ConfigError(f"jdbc_driver {driver!r} does not exist.", why=did_you_mean(driver, _DRIVERS), next="Correct the pipeline file.")
    # These servers cut spaces off at the beginning of an alias, so columns travel under names of ours.
    mappings = tuple((f"c{number}", _mapping(schema, column)) for number, column in enumerate(schema.columns, 1))
    columns = ", ".join(f"{column.expression} AS {name}" for column, (name, _) in zip(schema.columns, mappings, strict=True))
    select = f"SELECT {columns} FROM {dialect.table(schema.table)}"
    selected = _selected(dialect, schema, mappings)
    is_native = config.reader is Reader.NATIVE
    why_not = why_not_native(selected) if is_native else ""
    return JdbcRead(
        url=f"jdbc:mysql://{address.place}/?{urlencode(_SHARED_OPTIONS | _OPTIONS[driver] | _security(driver, address), safe='/')}",
        driver=_DRIVERS[driver],
        relations=tuple(f"({select}{f' WHERE {where}' if where else ''}) AS cdc_slice" for where in slices or ("",)),
        decoders=tuple(mapping.decoded(name) for name, mapping in mappings),
        unstorable=tuple(mapping.is_unstorable(name) for name, mapping in mappings),
        properties={
            "user": address.user,
            "password": address.password,
            "fetchsize": _FETCH_SIZES[driver],
            "customSchema": ", ".join(f"{name} {mapping.carried_as}" for name, mapping in mappings),
            "preferTimestampNTZ": "true",
        },
        session_init=address.session_settings,
        native=native_read(address, dialect.table(schema.table), selected, slices) if is_native and not why_not else None,
        over_jdbc=why_not,
    )


def _selected(dialect: Dialect, schema: TableSchema, mappings: tuple[tuple[str, TypeMapping], ...]) -> tuple[Selected, ...]:
    return tuple(
        Selected(name=name, column=column, mapping=mapping, quoted=dialect.name(column.name))
        for column, (name, mapping) in zip(schema.columns, mappings, strict=True)
    )


def _security(driver: str, address: Address) -> dict[str, str]:
    if address.ssl_ca and driver == "mysql":
        raise ConfigError(
            "MySQL Connector/J cannot check the server's certificate with 'ssl_ca'.",
            why="The driver reads certificates only from Java key stores, and 'ssl_ca' is a PEM file.",
            data="Nothing was read or written.",
            next="Use 'jdbc_driver: mariadb', which also reads from MySQL.",
        )
    options = {"sslMode": _SSL_MODES[driver][address.ssl_mode]} if address.ssl_mode else {}
    if address.ssl_mode in ("", "disabled"):
        # Without TLS the server's key encrypts the password of caching_sha2_password, the default of MySQL 8 and later.
        options["allowPublicKeyRetrieval"] = "true"
    return options | ({"serverSslCert": address.ssl_ca} if address.ssl_ca else {})


def _mapping(schema: TableSchema, column: Column) -> TypeMapping:
    if is_unsigned(column):
        return jdbc_mapping(column)
    return mysql_mapping(column.source_type, schema.types.for_column(column.name)) or TypeMapping(delta_type=column.delta_type)
