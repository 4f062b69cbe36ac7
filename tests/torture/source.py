"""The server's side: sessions that work, and the server's own text of what a table holds."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import psycopg
import pymysql
import pymysql.cursors

_MYSQL_SESSION: Final = (
    "SET SESSION sql_select_limit = 18446744073709551615, time_zone = '+00:00', sql_mode = '', autocommit = 1",
    "SET SESSION group_concat_max_len = 1048576, lc_time_names = 'en_US', completion_type = 'NO_CHAIN'",
    "SET SESSION innodb_lock_wait_timeout = 2, lock_wait_timeout = 4",
    "SET NAMES utf8mb4",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
_POSTGRES_SESSION: Final = (
    "SET search_path = public, pg_catalog",
    "SET lock_timeout = '3s'",
    "SET timezone = 'UTC'",
    "SET datestyle = 'ISO, YMD'",
    "SET intervalstyle = 'postgres'",
    "SET extra_float_digits = 1",
    "SET bytea_output = 'hex'",
    "SET standard_conforming_strings = on",
    "SET quote_all_identifiers = off",
    "SET default_transaction_read_only = off",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
)


class Address(Protocol):
    """Where a server is, and its logins."""

    host: str
    port: int
    user: str
    password: str
    admin: str
    admin_password: str


class Session:
    """A connection of a fixed behaviour, whatever the server's defaults are; statements that the server refuses are counted, not raised.

    Args:
        server: postgres, mysql or mariadb.
        address: Where it is.
        database: The database.
        statements: Settings of this session, over the fixed ones.
    """

    def __init__(self, server: str, address: Any, database: str, statements: Sequence[str] = ()) -> None:
        self.postgres = server == "postgres"
        self.errors: list[str] = []
        login = {"host": address.host, "port": address.port, "user": address.admin, "password": address.admin_password}
        if self.postgres:
            options = {"autocommit": True, "client_encoding": "utf8"}
            self._connection: Any = psycopg.connect(dbname=database, **login, **options)
        else:
            self._connection = pymysql.connect(database=database, charset="utf8mb4", autocommit=True, **login)
        for statement in (*(_POSTGRES_SESSION if self.postgres else _MYSQL_SESSION), *statements):
            self.rows(statement)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs a statement and returns its rows.

        Raises:
            Exception: what the driver says.
        """
        cursor = self._connection.cursor()
        cursor.execute(sql.encode() if self.postgres else sql)
        found = cursor.fetchall() if cursor.description else []
        cursor.close()
        return [tuple(row) for row in found]

    def does(self, sql: str) -> bool:
        """Runs a statement that may fail; says whether it did what it says."""
        try:
            self.rows(sql)
        except (psycopg.Error, pymysql.Error) as error:
            self.errors.append(f"{sql[:200]}: {error}")
            return False
        return True

    def close(self) -> None:
        try:
            self._connection.close()
        except (psycopg.Error, pymysql.Error):
            return

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
