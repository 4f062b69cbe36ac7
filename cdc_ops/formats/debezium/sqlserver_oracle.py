"""Debezium's change events of SQL Server and Oracle; inside Spark.

    SQL Server   commit_lsn, change_lsn, event_serial_no   hexadecimal numbers such as 00000027:00000758:0005
    Oracle       commit_scn, and the number of the change within its transaction

Field layouts: Debezium's documentation of the two connectors.
"""

from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import functions as F

from cdc_ops.core.events.change_feed import LANDED_NUMBER
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.formats.debezium import LSN_TYPE, SCN_TYPE
from cdc_ops.formats.debezium.json_events import DebeziumJson
from cdc_ops.formats.feed.envelopes import kafka_offset
from cdc_ops.formats.feed.format import Format

_LSN: Final = r"^[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{4}$"


def _lsn(text: Expr) -> Expr:
    """Returns the number of a SQL Server LSN: 80 bits, written in hexadecimal digits."""
    digits = F.translate(F.when(text.rlike(_LSN), text), ":", "")
    high, low = (F.conv(F.substring(digits, start, length), 16, 10).cast("decimal(20,0)") for start, length in ((1, 16), (17, 4)))
    return (high * F.lit(65536).cast("decimal(5,0)") + low).cast(LSN_TYPE)


def sql_server_position(commit: Expr, change: Expr, serial: Expr, streamed: Expr) -> Expr:
    """Returns the position of an event of SQL Server. A NULL field makes the event bad.

    Args:
        commit: LSN of the commit, as text.
        change: LSN of the change, as text; ignored for rows of a snapshot.
        serial: Number of the event within its change, NULL if the change has one event.
        streamed: True if the event was streamed, False if a snapshot read it.
    """
    none = F.lit(LANDED_NUMBER)
    return F.struct(
        _lsn(commit).alias("commit_lsn"),
        streamed.cast("tinyint").alias("streamed"),
        F.when(streamed, _lsn(change)).otherwise(none.cast(LSN_TYPE)).alias("change_lsn"),
        F.coalesce(serial, none).cast("bigint").alias("event_serial_no"),
        kafka_offset().alias("offset"),
    )


def oracle_position(commit: Expr, scn: Expr, number: Expr, streamed: Expr) -> Expr:
    """Returns the position of an event of Oracle. A NULL field makes the event bad.

    Args:
        commit: SCN of the commit, as text; NULL for rows of a snapshot.
        scn: SCN of the change, or the SCN of the snapshot, as text.
        number: Number of the change in its transaction, NULL if the record has none: then its offset in Kafka is used.
        streamed: True if the event was streamed, False if a snapshot read it.
    """
    return F.struct(
        F.when(streamed, commit).otherwise(F.coalesce(commit, scn)).try_cast(SCN_TYPE).alias("commit_scn"),
        streamed.cast("tinyint").alias("streamed"),
        F.when(streamed, F.coalesce(number, F.col("offset"))).otherwise(F.lit(LANDED_NUMBER)).cast("bigint").alias("number"),
        kafka_offset().alias("offset"),
    )


def _sql_server_place(body: Expr, streamed: Expr) -> Expr:
    source = body["source"]
    return sql_server_position(source["commit_lsn"], source["change_lsn"], source["event_serial_no"], streamed)


def _oracle_place(body: Expr, streamed: Expr) -> Expr:
    source = body["source"]
    number = F.coalesce(body["transaction"]["total_order"], source["txSeq"])
    return oracle_position(source["commit_scn"], source["scn"], number, streamed)


def debezium_sqlserver() -> Format:
    """The format `debezium-sqlserver`."""
    return DebeziumJson(spec=format_spec("debezium-sqlserver"), place=_sql_server_place)


def debezium_oracle() -> Format:
    """The format `debezium-oracle`."""
    return DebeziumJson(spec=format_spec("debezium-oracle"), place=_oracle_place)
