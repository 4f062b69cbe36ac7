"""Settings of Debezium's connectors for test servers: those of docs/formats/debezium.md, with the shortest waits."""

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cdc_ops.dev.databases.database_server import DatabaseServer
from cdc_ops.errors import EnvironmentSetupError

PREFIX: Final = "cdc"
"""Prefix of the topics' names."""
MARKS: Final = "cdc_ops_marks"
"""A table beside the captured ones, whose rows show the engine's progress; it is not archived."""


def connector_settings(server: DatabaseServer, tables: Sequence[str], folder: Path, snapshot_mode: str) -> dict[str, str]:
    """Returns the settings of a connector; creates the table of marks.

    Args:
        server: The captured server.
        tables: `database.table`, all in one database; for Postgres, tables of its schema `public`.
        folder: The folder for the engine's files.
        snapshot_mode: Debezium's `snapshot.mode`.
    """
    databases = {table.partition(".")[0] for table in tables}
    if len(databases) != 1:
        raise EnvironmentSetupError(
            f"An engine captures tables of one database, not of {', '.join(sorted(databases)) or 'none'}.",
            why="the rows that show its progress are in that database",
            data="nothing was started",
            next="Start an engine for each database.",
        )
    [database] = databases
    server.execute(f"CREATE TABLE IF NOT EXISTS {MARKS} (id BIGINT PRIMARY KEY)", database=database)
    schema = "public" if server.name == "Postgres" else database
    captured = [f"{schema}.{name}" for name in (*(table.partition(".")[2] for table in tables), MARKS)]
    return {
        "cdc-ops.database": database,  # a setting of cdc-ops; connectors ignore unknown settings
        "name": "cdc-ops",
        "topic.prefix": PREFIX,
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.flush.interval.ms": "0",  # an engine that lost its offset would read all tables again
        "offset.storage.file.filename": str(folder / "offsets.dat"),
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "table.include.list": ",".join(re.escape(name) for name in captured),
        "snapshot.mode": snapshot_mode,
        "poll.interval.ms": "50",
        "heartbeat.interval.ms": "0",
        # What docs/formats/debezium.md asks for.
        "skipped.operations": "none",
        "event.converting.failure.handling.mode": "fail",
        "converter.replace.null.with.default": "false",
        "converter.schemas.enable": "true",
        "decimal.handling.mode": "precise",
        "tombstones.on.delete": "true",
        **_of_kind(server, database, folder),
    }


def _of_kind(server: DatabaseServer, database: str, folder: Path) -> dict[str, str]:
    number = 10_000 + zlib.crc32(str(folder).encode()) % 1_000_000
    common = {
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(folder / "schemas.jsonl"),
        "schema.history.internal.store.only.captured.tables.ddl": "true",
        # Each reader of a binlog needs a unique server id, or the server disconnects one of them.
        "database.server.id": str(number),
        "database.include.list": re.escape(database),
        "include.schema.changes": "true",
        "enable.time.adjuster": "false",
        "snapshot.locking.mode": "minimal",
    }
    match server.name:
        case "MariaDB":
            return {**common, "connector.class": "io.debezium.connector.mariadb.MariaDbConnector", "database.ssl.mode": "disable"}
        case "MySQL":
            return {**common, "connector.class": "io.debezium.connector.mysql.MySqlConnector"}
        case "Postgres":
            return {
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "database.dbname": database,
                # Only the tables' owner, or an administrator, can publish them.
                "database.user": server.admin,
                "database.password": server.admin_password,
                "plugin.name": "pgoutput",
                "publication.name": f"cdc_ops_{number}",
                "publication.autocreate.mode": "filtered",
                "slot.name": f"cdc_ops_{number}",
                # After a kill of an engine, the server needs a moment to free its slot.
                "slot.max.retries": "100",
                "slot.retry.delay.ms": "200",
            }
        case _:
            raise EnvironmentSetupError(
                f"There are no settings for {server.name}.",
                why="MariaDB, MySQL and Postgres are captured",
                data="nothing was started",
                next="Start DebeziumEngine with your own settings.",
            )
