"""The declared properties of the formats of Debezium's relational connectors. Pure."""

from typing import Final

from cdc_ops.core.events.format_spec import MYSQL, EventMarks, FormatSpec, OrderField, RowImage
from cdc_ops.core.schema.declared_tables import TypeDialect
from cdc_ops.core.schema.logical_types import LogicalType
from cdc_ops.events.formats.debezium.declared.losses import (
    OF_ALL,
    OF_MYSQL,
    OF_ORACLE,
    OF_POSTGRES,
    ROUNDED,
    SKIPPED,
    UNSIGNED_MODE,
    time_precision,
)

STREAMED: Final = OrderField(name="streamed", type="tinyint", meaning="0 for rows of a snapshot: older than changes at the same place")
TOTAL_ORDER: Final = OrderField(
    name="total_order", type="bigint", meaning="number within the transaction, from 'provide.transaction.metadata'; -1 without"
)
OFFSET: Final = OrderField(
    name="offset", type="bigint", meaning="offset in Kafka, where the archive keeps it; -1 without", of_delivery=True
)

MYSQL_ORDER: Final = (
    OrderField(name="file_no", type="bigint", meaning="number at the end of the binlog file's name"),
    OrderField(name="pos", type="bigint", meaning="where the event begins in that file; of MariaDB from 11.4 on, its transaction"),
    STREAMED,
    OrderField(
        name="total_order",
        type="bigint",
        meaning="number within the transaction, from 'provide.transaction.metadata'; without, of MariaDB the offset in Kafka, else -1",
    ),
    OrderField(name="row", type="bigint", meaning="number of the row in the event"),
    OFFSET,
)
POSTGRES_ORDER: Final = (
    OrderField(name="commit_lsn", type="bigint", meaning="LSN of the last commit before the transaction: LSNs of changes alone interleave"),
    OrderField(name="lsn", type="bigint", meaning="LSN of the change"),
    STREAMED,
    TOTAL_ORDER,
    OFFSET,
)


_MYSQL_UNREADABLE: Final = {
    LogicalType.VECTOR: "Debezium writes a VECTOR as numbers; cdc-ops cannot restore its bytes.",
    LogicalType.UUID: "Debezium moves zero bytes at the end of a UUID of MariaDB to its beginning, and events do not show which ones.",
}
_POSTGRES_UNREADABLE: Final = {
    LogicalType.INTERVAL: "Debezium writes intervals as microseconds or as ISO 8601, not as the server prints them.",
    LogicalType.MONEY: "Debezium writes money as a decimal, without the currency that the server prints.",
    LogicalType.VARBIT: "Debezium does not write the leading zeros of a bit string.",
    LogicalType.SHAPE: "Debezium writes geometric types as objects, not as the server prints them.",
    LogicalType.ZONED_TIME: "Debezium writes times of day in UTC, without the offset that the server prints.",
    LogicalType.BENT_ARRAY: "Debezium writes the elements of such arrays in its own encoding, or not at all.",
    LogicalType.INTERNAL: "Debezium writes values of this type as NULL, in another form, or not at all.",
}

MYSQL_EVENTS: Final = FormatSpec(
    name="debezium-mysql",
    tool="Debezium",
    order=MYSQL_ORDER,
    images=RowImage.PARTIAL,
    marks=EventMarks(
        snapshot="op r, or source.snapshot",
        delete="op d with the row before; a tombstone may follow",
        key_change="a delete of the old key and an insert of the new one",
        truncate="op t, if skipped.operations=none",
        ddl="records with 'ddl' in the topic of schema changes",
        statements=MYSQL,
    ),
    dialect=TypeDialect.MYSQL,
    lossy=(*OF_ALL, *OF_MYSQL, time_precision("adaptive_time_microseconds"), ROUNDED),
    settings={UNSIGNED_MODE: "long"},
    unreadable=_MYSQL_UNREADABLE,
)
POSTGRES: Final = FormatSpec(
    name="debezium-postgres",
    tool="Debezium",
    order=POSTGRES_ORDER,
    images=RowImage.PARTIAL,
    marks=EventMarks(
        snapshot="op r, or source.snapshot",
        delete="op d with the old key, or the whole row under REPLICA IDENTITY FULL; a tombstone may follow",
        key_change="a delete of the old key and an insert of the new one",
        truncate="op t, if skipped.operations=none",
        ddl="not at all: only the columns of later events differ",
        hidden_keys="unless the table has REPLICA IDENTITY FULL, Postgres logs no row before the change",
    ),
    dialect=TypeDialect.POSTGRES,
    lossy=(*OF_ALL, *OF_POSTGRES, time_precision("adaptive")),
    unreadable=_POSTGRES_UNREADABLE,
)

LSN_TYPE: Final = "decimal(25,0)"
SCN_TYPE: Final = "decimal(20,0)"
_NOT_AS_PRINTED: Final = dict.fromkeys(
    (LogicalType.VECTOR, LogicalType.GEOMETRY, LogicalType.SHAPE, LogicalType.INTERVAL, LogicalType.MONEY, LogicalType.VARBIT),
    "Debezium does not write values of this type as the server prints them.",
)

SQL_SERVER: Final = FormatSpec(
    name="debezium-sqlserver",
    tool="Debezium",
    order=(
        OrderField(name="commit_lsn", type=LSN_TYPE, meaning="LSN of the commit"),
        STREAMED,
        OrderField(name="change_lsn", type=LSN_TYPE, meaning="LSN of the change; -1 for rows of a snapshot"),
        OrderField(name="event_serial_no", type="bigint", meaning="number of the event of a change that makes several; -1 without"),
        OFFSET,
    ),
    images=RowImage.PARTIAL,
    marks=EventMarks(
        snapshot="op r, or source.snapshot",
        delete="op d with the row before; a tombstone may follow",
        key_change="a delete of the old key and an insert of the new one",
        truncate="not at all: SQL Server refuses TRUNCATE of a captured table",
        ddl="records with 'ddl' in the topic of schema changes",
    ),
    dialect=TypeDialect.SQLSERVER,
    lossy=(*(item for item in OF_ALL if item.name != SKIPPED), time_precision("adaptive")),
    unreadable=_NOT_AS_PRINTED,
)
ORACLE: Final = FormatSpec(
    name="debezium-oracle",
    tool="Debezium",
    order=(
        OrderField(name="commit_scn", type=SCN_TYPE, meaning="SCN of the commit; of a snapshot, the one that it was read at"),
        STREAMED,
        OrderField(
            name="number",
            type="bigint",
            meaning="number of the change in its transaction: total_order, txSeq, or the offset in Kafka; -1 for rows of a snapshot",
        ),
        OFFSET,
    ),
    images=RowImage.PARTIAL,
    marks=EventMarks(
        snapshot="op r, or source.snapshot",
        delete="op d with the row before; a tombstone may follow",
        key_change="a delete of the old key and an insert of the new one",
        truncate="op t, if skipped.operations=none",
        ddl="records with 'ddl' in the topic of schema changes",
    ),
    dialect=TypeDialect.ORACLE,
    lossy=(*OF_ALL, *OF_ORACLE, time_precision("adaptive")),
    unreadable=_NOT_AS_PRINTED,
)

RELATIONAL: Final = (MYSQL_EVENTS, POSTGRES, SQL_SERVER, ORACLE)
