"""Whatever a server, an account or a database sets for new sessions, a read gives the same rows and texts.

Each setting alone, at the plan's session and the native reader's; `test_worst_settings` has all at once, through a run of each reader.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pymysql
import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Reader, SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from cdc_ops.errors import SourceError
from cdc_ops.sources.base import open_source
from cdc_ops.sources.mysql.session import Address, MySQLSession, connect
from cdc_ops.sources.mysql.settings import SESSION_SETTINGS, SHOWN, unheld
from cdc_ops.sources.postgres.native_reader.wire import read_batches
from cdc_ops.sources.postgres.session import PostgresAddress, PostgresSession
from cdc_ops.sources.postgres.settings import SESSION_SETTINGS as SESSION_SETTINGS_OF_POSTGRES
from cdc_ops.sources.postgres.settings import TRANSACTION_SETTINGS

PASSWORD: Final = "few-rights-9"
USER: Final = "few_settings"
DATABASE: Final = "session_settings"
ALL: Final = str(2**64 - 1)

BOTH: Final = {
    "time_zone": ("'+05:00'", "+00:00"),
    "timestamp": ("1000000000", "real"),
    "sql_mode": ("'ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES'", ""),
    "sql_select_limit": ("4", ALL),
    "autocommit": ("0", "1"),
    "completion_type": ("'CHAIN'", "NO_CHAIN"),
    "sql_auto_is_null": ("1", "0"),
    "character_set_client": ("latin1", "utf8mb4"),
    "character_set_results": ("latin1", "utf8mb4"),
    "character_set_connection": ("latin1", "utf8mb4"),
    "group_concat_max_len": ("8", "4294967295"),
    "div_precision_increment": ("0", "4"),
    "max_sort_length": ("64", "1024"),
    "lc_time_names": ("'de_DE'", "en_US"),
    "default_week_format": ("3", "0"),
    "max_join_size": ("1", ALL),
    "sql_big_selects": ("0", "1"),
    "wait_timeout": ("5", "28800"),
    "net_read_timeout": ("5", "3600"),
    "net_write_timeout": ("5", "3600"),
    "lock_wait_timeout": ("1", "86400"),
}
MARIADB: Final = BOTH | {
    "old_mode": ("'ZERO_DATE_TIME_CAST'", ""),
    "tx_isolation": ("'READ-UNCOMMITTED'", "REPEATABLE-READ"),
    "tx_read_only": ("0", "1"),
    "system_versioning_asof": ("'2020-01-01'", "DEFAULT"),
    "max_statement_time": ("5", "0.0"),
    "idle_transaction_timeout": ("5", "0"),
    "idle_readonly_transaction_timeout": ("5", "0"),
}
MYSQL: Final = BOTH | {
    "transaction_isolation": ("'READ-UNCOMMITTED'", "REPEATABLE-READ"),
    "transaction_read_only": ("0", "1"),
    "show_gipk_in_create_table_and_information_schema": ("OFF", "1"),
    "use_secondary_engine": ("FORCED", "OFF"),
    "information_schema_stats_expiry": ("86400", "0"),
    "max_execution_time": ("5000", "0"),
}
"""Of each variable: its worst value, and what it is in a session of ours."""

POSTGRES: Final = {
    "default_transaction_isolation": ("serializable", "read committed"),
    "default_transaction_deferrable": ("on", "off"),
    "default_transaction_read_only": ("off", "on"),
    "row_security": ("on", "off"),
    "transform_null_equals": ("on", "off"),
    "search_path": ("session_own, public, pg_catalog", "pg_catalog, public"),
    "client_encoding": ("LATIN1", "UTF8"),
    "TimeZone": ("Asia/Karachi", "UTC"),
    "DateStyle": ("German", "ISO, MDY"),
    "IntervalStyle": ("iso_8601", "postgres"),
    "bytea_output": ("escape", "hex"),
    "extra_float_digits": ("-15", "1"),
    "standard_conforming_strings": ("off", "on"),
    "quote_all_identifiers": ("on", "off"),
    "xmlbinary": ("hex", "base64"),
    "xmloption": ("document", "content"),
    "statement_timeout": ("5s", "0"),
    "lock_timeout": ("1s", "0"),
    "idle_in_transaction_session_timeout": ("5s", "0"),
    "idle_session_timeout": ("5s", "0"),
}
NOT_GLOBAL: Final = ("timestamp", "use_secondary_engine")
LOGIN_OF_MYSQL: Final = (
    f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
    f"GRANT SELECT ON {DATABASE}.* TO '{USER}'@'%'",
)
LOGIN_OF_POSTGRES: Final = (f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'", f"CREATE SCHEMA session_own AUTHORIZATION {USER}")


def shown(name: str) -> str:
    """What a session says of a variable of MySQL's."""
    return "IF(NOW() > '2020-01-01', 'real', 'fixed')" if name == "timestamp" else f"@@session.{name}"


@dataclass(frozen=True)
class Few:
    """A login without administrator's rights, for whom `init_connect` runs."""

    server: DatabaseServer

    @property
    def url(self) -> str:
        scheme = "postgresql" if isinstance(self.server, PostgresServer) else "mysql"
        return ConnectionUrl.from_parts(scheme, self.server.host, self.server.port, USER, PASSWORD, DATABASE).render()


@pytest.fixture(scope="module")
def few(request: pytest.FixtureRequest) -> Callable[[str], Few]:
    """Makes the login on a server, once."""
    made: dict[str, Few] = {}

    def login(kind: str) -> Few:
        if kind not in made:
            server: DatabaseServer = request.getfixturevalue(kind)
            server.create_database(DATABASE)
            server.execute(*(LOGIN_OF_POSTGRES if kind == "postgres" else LOGIN_OF_MYSQL), database=DATABASE)
            made[kind] = Few(server)
        return made[kind]

    return login


@contextlib.contextmanager
def first(few: Few, statement: str) -> Iterator[None]:
    """What the server runs first in each session of a plain user."""
    few.server.execute(f"""SET GLOBAL init_connect = "{statement}" """)
    try:
        yield
    finally:
        few.server.execute("SET GLOBAL init_connect = ''")


@pytest.mark.parametrize(("kind", "name"), [*(("mariadb", name) for name in MARIADB), *(("mysql", name) for name in MYSQL)])
def test_no_session_on_mysql_or_mariadb_keeps_a_setting_that_changes_what_is_read(few: Callable[[str], Few], kind: str, name: str) -> None:
    login, (worst, wanted) = few(kind), (MARIADB if kind == "mariadb" else MYSQL)[name]
    question, set_worst = f"SELECT {shown(name)} AS value", f"SET SESSION {name} = {worst}"

    def asked(cursor: Any, *statements: str) -> str:
        for statement in (*statements, question):
            cursor.execute(statement)
        return str(cursor.fetchall()[0][0])

    address = Address(login.url)
    with first(login, set_worst):
        session, native = MySQLSession(address), connect(address)
        with contextlib.closing(session), native, native.cursor() as cursor:
            assert (str(session.row(question)["value"]), asked(cursor)) == (wanted, wanted)
    server = login.server
    with pymysql.connect(host=server.host, port=server.port, user=USER, password=PASSWORD) as other, other.cursor() as cursor:
        assert asked(cursor, set_worst) != wanted, "the case tests nothing"
        assert asked(cursor, SESSION_SETTINGS) == wanted


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_limit_of_the_server_that_no_session_can_lift_is_refused(few: Callable[[str], Few], kind: str) -> None:
    assert unheld({"sql_select_limit": "40", "autocommit": "ON", "of_a_later_version": "1"}) == ("sql_select_limit = 40",)
    with contextlib.closing(MySQLSession(Address(few(kind).url))) as session:
        rows = {str(row["variable_name"]): str(row["value"]) for row in session.rows(SHOWN)}
        assert {"sql_select_limit", "autocommit", "completion_type"} < set(rows)
        assert not unheld(rows)


@pytest.mark.parametrize("name", POSTGRES)
def test_no_session_on_postgres_keeps_a_setting_that_changes_what_is_read(few: Callable[[str], Few], name: str) -> None:
    login, (worst, wanted) = few("postgres"), POSTGRES[name]
    question, value = f"SELECT current_setting('{name}') AS value", ", ".join(f"'{one.strip()}'" for one in worst.split(","))
    value = value if name == "search_path" else f"'{worst}'"
    login.server.execute(f"ALTER ROLE {USER} SET {name} = {value}")
    try:
        with psycopg.connect(login.url, autocommit=True) as bare:
            found = [str(bare.execute(question).fetchall()[0][0])]
            bare.execute(TRANSACTION_SETTINGS)
            bare.execute(SESSION_SETTINGS_OF_POSTGRES)
            found.append(str(bare.execute(question).fetchall()[0][0]))
        assert found[0] != wanted, "the case tests nothing"
        assert found[1] == wanted
        with contextlib.closing(PostgresSession(PostgresAddress(login.url))) as session:
            assert session.row(question)["value"] == wanted
    finally:
        login.server.execute(f"ALTER ROLE {USER} RESET {name}")


@pytest.mark.parametrize(("name", "value"), [("zero_damaged_pages", "on"), ("ignore_checksum_failure", "on"), ("lc_monetary", "'C.utf8'")])
def test_a_setting_that_no_session_can_mend_is_refused(few: Callable[[str], Few], name: str, value: str) -> None:
    login = few("postgres")
    login.server.execute(f"ALTER ROLE {USER} SET {name} = {value}")
    try:
        with contextlib.closing(PostgresSession(PostgresAddress(login.url))) as session, pytest.raises(SourceError, match=name):
            session.rows("SELECT 1")
    finally:
        login.server.execute(f"ALTER ROLE {USER} RESET {name}")


def test_a_database_without_an_encoding_gives_its_utf_8_exactly_and_refuses_other_bytes(postgres: PostgresServer) -> None:
    name = "session_ascii"
    postgres.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    login = (postgres.host, postgres.port, postgres.admin, postgres.admin_password)
    url = ConnectionUrl.from_parts("postgresql", *login, name).render()
    config = SourceConfig(kind=SourceKind.POSTGRES, connection="x", reader=Reader.NATIVE)
    with contextlib.closing(open_source(config, url)) as source, psycopg.connect(url, autocommit=True) as application:
        application.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, E'\\xc3\\xa9')")
        native = source.jdbc_read(source.schema(TableName(schema="public", name="t")), ("",)).native
        assert native is not None

        def values() -> list[dict[str, Any]]:
            batches = read_batches(native.url, native.statements[0], native.columns)
            return [row for batch in batches for row in batch.to_pylist()]

        assert values() == [{"c1": 1, "c2": "é"}]
        application.execute("INSERT INTO t VALUES (2, E'\\xe9')")
        with pytest.raises(SourceError, match="text that is not UTF-8"):
            values()
