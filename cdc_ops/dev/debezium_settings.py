"""Settings of Debezium's connectors for servers for tests: those of docs/formats/debezium.md, and no wait longer than it has to be."""

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cdc_ops.dev.database_server import DatabaseServer
from cdc_ops.errors import EnvironmentSetupError

PREFIX: Final = "cdc"
"""How the topics' names begin."""
MARKS: Final = "cdc_ops_marks"
"""A table beside the captured ones, whose rows tell how far the engine is; it is not archived."""


def connector_settings(server: DatabaseServer, tables: Sequence[str], folder: Path, snapshot_mode: str) -> dict[str, str]:
    """Returns the settings of a connector; creates the table by which the engine is followed.

    Args:
        server: What is captured.
        tables: `database.table`, all of one database; of Postgres those in its schema `public`.
        folder: Where the engine keeps its files.
        snapshot_mode: As Debezium names it.
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
        "cdc-ops.database": database,  # ours; connectors pass over what they do not know
        "name": "cdc-ops",
        "topic.prefix": PREFIX,
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.flush.interval.ms": "0",  # an engine that lost its place would read all tables anew
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
        # Each reader of a binlog has to have a number of its own, or the server cuts one of them off.
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
                # Only the owner of the tables, or an administrator, may publish them.
                "database.user": server.admin,
                "database.password": server.admin_password,
                "plugin.name": "pgoutput",
                "publication.name": f"cdc_ops_{number}",
                "publication.autocreate.mode": "filtered",
                "slot.name": f"cdc_ops_{number}",
                # The server takes a moment to notice that an engine which was killed is gone.
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
