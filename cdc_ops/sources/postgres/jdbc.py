"""How Spark reads a Postgres table: URL, driver and options that give every value exactly.

The types that Spark would guess are not used: `customSchema` names the type in which each column travels, and an expression of Spark's
makes the stored value of it. Nothing depends on the time zones of the server, the JVMs or the Spark session.
"""

from typing import Final
from urllib.parse import quote, urlencode

from cdc_ops.core.pipeline.pipeline import Reader
from cdc_ops.core.schema.server_types.mysql_types import COLUMN, TypeMapping
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.sources.base import JdbcRead
from cdc_ops.sources.postgres.native_reader.native import native_read
from cdc_ops.sources.postgres.session import APPLICATION, PostgresAddress
from cdc_ops.sources.postgres.settings import IN_A_TRANSACTION
from cdc_ops.sources.sql.dialect import Dialect
from cdc_ops.sources.sql.selected import Selected

_OPTIONS: Final = {"connectTimeout": "10", "tcpKeepAlive": "true", "ApplicationName": APPLICATION}
_BITS: Final = 62
"""Of a number that both sides know."""
_FETCH_SIZE: Final = "10000"
"""Above zero the driver reads in pieces of so many rows, as Spark turns autocommit off for it; else it holds the whole result."""


def build_read(reader: Reader, address: PostgresAddress, dialect: Dialect, schema: TableSchema, slices: tuple[str, ...]) -> JdbcRead:
    """Builds the read of some slices of a table; opens no connection."""
    mappings = tuple(postgres_mapping(column.source_type, schema.types.for_column(column.name)) for column in schema.columns)
    # Spark does not double quotes within names, so columns travel under names of ours.
    names = tuple(f"c{number}" for number in range(1, len(mappings) + 1))
    flags = _Flags(dialect, schema, mappings)
    columns = ", ".join([*(f"{column.expression} AS {name}" for column, name in zip(schema.columns, names, strict=True)), *flags.columns])
    carried = [*(f"{name} {mapping.carried_as}" for mapping, name in zip(mappings, names, strict=True)), *flags.carried]
    unstorable = (mapping.is_unstorable(name) for mapping, name in zip(mappings, names, strict=True))
    select = f"SELECT {columns} FROM {dialect.table(schema.table)}"
    database = quote(address.database, safe="")
    native = None
    if reader is Reader.NATIVE:
        named = zip(names, schema.columns, mappings, strict=True)
        selected = tuple(Selected(name=n, column=column, mapping=mapping, quoted=dialect.name(column.name)) for n, column, mapping in named)
        native = native_read(address, dialect.table(schema.table), selected, slices, tuple(flags.columns))
    return JdbcRead(
        url=f"jdbc:postgresql://{address.place}/{database}?{urlencode(_OPTIONS | address.ssl_options(), safe='/')}",
        driver="org.postgresql.Driver",
        relations=tuple(f"({select}{f' WHERE {where}' if where else ''}) AS cdc_slice" for where in slices or ("",)),
        decoders=tuple(mapping.decoded(name) for mapping, name in zip(mappings, names, strict=True)),
        unstorable=tuple(flags.conditions[number] or condition for number, condition in enumerate(unstorable)),
        properties={
            "user": address.user,
            "password": address.password,
            "fetchsize": _FETCH_SIZE,
            "customSchema": ", ".join(carried),
        },
        session_init=IN_A_TRANSACTION,
        native=native,
    )


class _Flags:
    """Columns of bits, one bit for each column whose travelling type has no room to say that its value cannot be stored.

    Args:
        dialect, schema, mappings: The table.
    """

    def __init__(self, dialect: Dialect, schema: TableSchema, mappings: tuple[TypeMapping, ...]) -> None:
        # What travels besides the columns has a name of ours, about which the server cannot be asked.
        flagged = [n for n, mapping in enumerate(mappings) if mapping.flag and not schema.columns[n].name.startswith("__cdc_")]
        self.columns: list[str] = []
        self.carried: list[str] = []
        self.conditions = [""] * len(mappings)
        for index, start in enumerate(range(0, len(flagged), _BITS)):
            part = flagged[start : start + _BITS]
            flags = (mappings[number].flag.replace(COLUMN, dialect.name(schema.columns[number].name)) for number in part)
            bits = (f"CASE WHEN {flag} THEN {1 << bit}::bigint ELSE 0 END" for bit, flag in enumerate(flags))
            self.columns.append(f"NULLIF({' + '.join(bits)}, 0) AS f{index}")
            self.carried.append(f"f{index} bigint")
            for bit, number in enumerate(part):
                self.conditions[number] = f"(f{index} & {1 << bit}L) <> 0"
