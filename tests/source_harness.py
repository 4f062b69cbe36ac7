"""The harnesses of the conformance suite for the sources of this package."""

from typing import Any, Final

import psycopg
import pymysql
import pymysql.cursors

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.sources.base import Source, open_source
from cdc_ops.testing.source_harness import SuiteStatements

DATABASE: Final = "source_suite"
_KEYS: Final = ("plain", "it''s", 'a"b', "back\\slash", "per%cent", "col:on", "é", "x''; DROP TABLE keyed; -- ", "{brace}", "")


def _keyed(quote_backslash: str, binary: str) -> str:
    rows = (f"('{key.replace(chr(92), quote_backslash)}', {index}.50, {binary}, '2024-01-01')" for index, key in enumerate(_KEYS))
    return f"INSERT INTO keyed (t, n, b, d) VALUES {', '.join(rows)}"


MYSQL: Final = SuiteStatements(
    tables=(
        "DROP TABLE IF EXISTS numbers, events, keyed",
        "CREATE TABLE numbers (id BIGINT NOT NULL PRIMARY KEY, v INT, u DATETIME(6) NOT NULL, KEY (u))",
        "CREATE TABLE events (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT,"
        " at TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at))",
        "CREATE TABLE keyed (t VARCHAR(40) COLLATE utf8mb4_bin, n DECIMAL(10,2), b VARBINARY(4), d DATE NOT NULL, PRIMARY KEY (t, n, b))",
        _keyed("\\\\", "X'00ff'"),
    ),
    types=(
        *(("TINYINT(1)", "tinyint"), ("SMALLINT UNSIGNED", "int"), ("INT UNSIGNED", "bigint"), ("BIGINT UNSIGNED", "bigint")),
        *(("DECIMAL(38,10)", "decimal(38,10)"), ("DECIMAL(65,30)", "string"), ("FLOAT", "float"), ("DOUBLE", "double")),
        *(("DATE", "date"), ("DATETIME(6)", "timestamp_ntz"), ("TIMESTAMP(6) NULL", "timestamp"), ("TIME(6)", "string")),
        *(("VARCHAR(20)", "string"), ("ENUM('x','y')", "string"), ("SET('p','q')", "string"), ("JSON", "string")),
        *(("VARBINARY(10)", "binary"), ("LONGBLOB", "binary"), ("GEOMETRY", "binary"), ("YEAR", "smallint"), ("BIT(64)", "decimal(20,0)")),
    ),
    not_orderable="BLOB",
    touch="UPDATE events SET v = v + 1 WHERE id = {id}",
    shown="DATE_FORMAT({column}, '%Y-%m-%d %H:%i:%s.%f')",
    moment="'{text}'",
    prepare=("XA START '{name}'", ("XA END '{name}'", "XA PREPARE '{name}'")),
    rollback_prepared="XA ROLLBACK '{name}'",
    readers_hold=False,
    quote="`",
)

POSTGRES: Final = SuiteStatements(
    tables=(
        "DROP TABLE IF EXISTS numbers, events, keyed",
        "CREATE TABLE numbers (id bigint NOT NULL PRIMARY KEY, v int, u timestamp NOT NULL)",
        "CREATE INDEX ON numbers (u)",
        "CREATE TABLE events (id bigserial PRIMARY KEY, v int, at timestamptz NOT NULL DEFAULT now())",
        "CREATE INDEX ON events (at)",
        "CREATE TABLE keyed (t text, n numeric(10,2), b bytea, d date NOT NULL, PRIMARY KEY (t, n, b))",
        _keyed("\\", "'\\x00ff'"),
    ),
    types=(
        *(("smallint", "smallint"), ("bigint", "bigint"), ("numeric(38,10)", "decimal(38,10)"), ("numeric", "string"), ("real", "float")),
        *(("double precision", "double"), ("date", "date"), ("timestamp", "timestamp_ntz"), ("timestamptz", "timestamp")),
        *(
            ("boolean", "boolean"),
            ("uuid", "string"),
            ("jsonb", "string"),
            ("text[]", "string"),
            ("bytea", "binary"),
            ("interval", "string"),
        ),
    ),
    not_orderable="bytea",
    touch="UPDATE events SET v = v + 1, at = now() WHERE id = {id}",
    shown="to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
    moment="TIMESTAMP'{text}'",
    prepare=("BEGIN", ("PREPARE TRANSACTION '{name}'",)),
    rollback_prepared="ROLLBACK PREPARED '{name}'",
    readers_hold=True,  # now() is the start of the transaction
    quote='"',
)


class MySQLApplication:
    """A connection to MySQL or MariaDB."""

    def __init__(self, server: DatabaseServer) -> None:
        self._server = server
        self._connection: pymysql.Connection[pymysql.cursors.Cursor] = pymysql.connect(
            host=server.host, port=server.port, user=server.user, password=server.password, database=DATABASE, autocommit=True
        )

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
        return rows

    def is_running(self) -> bool:
        found = self._server.execute(f"SELECT INFO FROM information_schema.processlist WHERE ID = {self._connection.thread_id()}")
        return bool(found and found[0][0])

    @property
    def label(self) -> str:
        return f"connection {self._connection.thread_id()}"

    def close(self) -> None:
        if self._connection.open:
            self._connection.close()


class PostgresApplication:
    """A connection to Postgres."""

    def __init__(self, server: DatabaseServer, url: str) -> None:
        self._server = server
        self._connection = psycopg.connect(url, autocommit=True)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            cursor = self._connection.execute(statement)  # type: ignore[arg-type]
            rows = cursor.fetchall() if cursor.description else []
        return rows

    def is_running(self) -> bool:
        pid = self._connection.info.backend_pid
        return bool(self._server.execute(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'"))

    @property
    def label(self) -> str:
        return f"connection {self._connection.info.backend_pid}"

    def close(self) -> None:
        self._connection.close()


class ServerHarness:
    """The suite on one of this package's servers."""

    def __init__(self, server: DatabaseServer) -> None:
        server.create_database(DATABASE)
        self._server = server
        self._kind = SourceKind(server.name.lower())
        self.statements = POSTGRES if self._kind is SourceKind.POSTGRES else MYSQL

    def table(self, name: str) -> TableName:
        return TableName(schema="public" if self._kind is SourceKind.POSTGRES else DATABASE, name=name)

    def open_source(self, *, password: str = "", port: int = 0) -> Source:
        return open_source(SourceConfig(kind=self._kind, connection="suite"), self._url(password=password, port=port))

    def connect(self) -> MySQLApplication | PostgresApplication:
        if self._kind is SourceKind.POSTGRES:
            return PostgresApplication(self._server, self._url())
        return MySQLApplication(self._server)

    @property
    def secret(self) -> str:
        return self._server.password

    def _url(self, *, password: str = "", port: int = 0) -> str:
        server = self._server
        scheme = "postgresql" if self._kind is SourceKind.POSTGRES else "mysql"
        return ConnectionUrl.from_parts(
            scheme, server.host, port or server.port, server.user, password or server.password, DATABASE
        ).render()
