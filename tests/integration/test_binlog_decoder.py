"""The decoder of binlogs against the servers' own tools and against the tables, over rows of every type, on MariaDB and MySQL."""

import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest

from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.dev.databases import debian, mariadb_binlog
from cdc_ops.dev.databases.mysql import MySQLServer
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.errors import BinlogMetadataError, EnvironmentSetupError
from cdc_ops.events.binlog.decoder import BinlogFile, Definition, RowChange
from cdc_ops.events.binlog.files import open_binlog
from cdc_ops.events.binlog.temporal import OddDate
from tests.binlog_rows import MARIADB_ESCAPES, MYSQL_ESCAPES, Tool

DB: Final = "binlog_types"
SPLITS: Final = 3
"""How often the rows of the wide table are doubled."""
NARROW_ROWS: Final = int(os.environ.get("CDC_OPS_BINLOG_ROWS", "4000"))
"""With 24,000 the tests compare over 100,000 row events."""

# Name, type, and four values as literals; None leaves the column out.
TYPES: Final[list[tuple[str, str, tuple[str | None, str | None, str | None]]]] = [
    ("i1", "TINYINT", ("-128", "0", "5")),
    ("u1", "TINYINT UNSIGNED", ("255", "0", "5")),
    ("i2", "SMALLINT", ("-32768", "1", None)),
    ("y", "YEAR", ("2155", "0", "1901")),
    ("u2", "SMALLINT UNSIGNED", ("65535", "0", None)),
    ("i3", "MEDIUMINT", ("-8388608", "-1", "8388607")),
    ("u3", "MEDIUMINT UNSIGNED", ("16777215", "0", None)),
    ("i4", "INT", ("-2147483648", "-1", "7")),
    ("u4", "INT UNSIGNED ZEROFILL", ("4294967295", "0", None)),
    ("i8", "BIGINT", ("-9223372036854775808", "0", None)),
    ("u8", "BIGINT UNSIGNED", ("18446744073709551615", "0", None)),
    ("d1", "DECIMAL(10,2)", ("-12345678.90", "0", "0.01")),
    ("d2", "DECIMAL(65,30)", ("-12345678901234567890123456789012345.000000000000000000000000000001", "0.5", None)),
    ("d3", "DECIMAL(5,5)", ("0.00001", "-0.99999", None)),
    ("d4", "DECIMAL(18,0)", ("-999999999999999999", "5", None)),
    ("f", "FLOAT", ("1.5e-38", "0", "0.1")),
    ("db", "DOUBLE", ("1.7976931348623157e308", "-0.1", None)),
    ("b1", "BIT(1)", ("b'1'", "b'0'", None)),
    ("b7", "BIT(7)", ("b'1010101'", "b'0'", None)),
    ("b64", "BIT(64)", ("b'1000000000000000000000000000000000000000000000000000000000000001'", "b'0'", None)),
    ("dt", "DATE", ("'9999-12-31'", "'0000-00-00'", "'2024-04-31'")),
    ("t0", "TIME", ("'-838:59:59'", "'838:59:59'", None)),
    ("t1", "TIME(1)", ("'-00:00:00.1'", "'00:00:00'", None)),
    ("t3", "TIME(3)", ("'12:34:56.789'", "'-00:00:00.001'", None)),
    ("t6", "TIME(6)", ("'-838:59:58.999999'", "'00:00:00.000001'", None)),
    ("dt0", "DATETIME", ("'0000-00-00'", "'2024-01-00'", "'2024-02-29 12:00:00'")),
    ("dt2", "DATETIME(2)", ("'2024-02-30 23:59:59.99'", "'0000-00-00'", None)),
    ("dt4", "DATETIME(4)", ("'1000-01-01 00:00:00.0001'", None, None)),
    ("dt6", "DATETIME(6)", ("'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00.000001'", None)),
    ("ts0", "TIMESTAMP NULL", ("'2038-01-19 11:14:07'", "0", None)),
    ("ts1", "TIMESTAMP(1) NULL", ("'1970-01-01 08:00:01.5'", None, None)),
    ("ts3", "TIMESTAMP(3) NULL", ("'0000-00-00'", None, None)),
    ("ts6", "TIMESTAMP(6) NULL", ("'2024-03-01 07:59:59.999999'", None, None)),
    ("c1", "CHAR(10)", ("'abc  '", "''", None)),
    ("c2", "CHAR(255) CHARACTER SET utf8mb4", ("REPEAT('é',255)", "'a'", None)),
    ("c3", "CHAR(5) CHARACTER SET latin1", ("'ÿ€'", None, None)),
    ("v1", "VARCHAR(20)", ("''", "' x '", "'plain'")),
    ("v2", "VARCHAR(3000)", ("REPEAT('x',3000)", None, None)),
    ("v3", "VARCHAR(30) CHARACTER SET latin1", ("_latin1 x'8182838D8F909DFF'", None, None)),
    ("v4", "VARCHAR(30) CHARACTER SET utf16", ("'😀a'", None, None)),
    ("v5", "VARCHAR(30) CHARACTER SET cp1251", ("'Привет'", None, None)),
    ("v6", "VARCHAR(30) CHARACTER SET cp932", ("'日本'", None, None)),
    ("v7", "VARCHAR(30) CHARACTER SET gbk", ("'中文'", None, None)),
    ("v8", "VARCHAR(20) CHARACTER SET ascii", ("'q''\"\\\\\\n'", None, None)),
    ("bi", "BINARY(4)", ("x'6100'", "x'00'", None)),
    ("vb", "VARBINARY(20)", ("x'00ff00'", "x''", None)),
    ("vb2", "VARBINARY(300)", ("REPEAT(x'fe',300)", None, None)),
    ("tb", "TINYBLOB", ("x''", None, None)),
    ("bl", "BLOB", ("REPEAT(x'0d0a27',20)", "''", None)),
    ("mb", "MEDIUMBLOB", ("REPEAT('m',7000)", None, None)),
    ("lb", "LONGBLOB", ("REPEAT(x'5c',10)", None, None)),
    ("tt", "TINYTEXT", ("'t'", None, None)),
    ("te", "TEXT", ("'line\\nbreak\\r\\t'", "''", None)),
    ("mt", "MEDIUMTEXT CHARACTER SET latin1", ("'ü'", None, None)),
    ("lt", "LONGTEXT", ("'𝄞'", None, None)),
    ("en", "ENUM('a','b,c','ü''x')", ("'b,c'", "'a'", "'ü''x'")),
    ("en2", "ENUM('x','ä') CHARACTER SET latin1", ("'ä'", None, None)),
    ("se", "SET('p','q','r','s','t','u','v','w','y')", ("'p,y'", "''", "'p,q,r,s,t,u,v,w,y'")),
    ("js", "JSON", ("""'{"b": [1, 2.5, null, true, "x\\\\n"], "a": {"k": 18446744073709551615}}'""", "'[]'", "'null'")),
]
UNPRINTED: Final = {
    "mariadb": [
        ("ge", "GEOMETRY", "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')"),
        ("uu", "UUID", "'f2eb8eec-e540-11f1-8c32-02fc00000000'"),
        ("i6", "INET6", "'::1'"),
        ("vc", "VARCHAR(100) COMPRESSED", "REPEAT('compress ',11)"),
        ("tc", "TEXT COMPRESSED", "REPEAT('z',4000)"),
        ("bc", "BLOB COMPRESSED", "REPEAT(x'00',500)"),
        ("ve", "VARBINARY(50) COMPRESSED", "REPEAT('v',50)"),
    ],
    "mysql": [
        ("ge", "GEOMETRY", "ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')"),
        ("po", "POINT", "ST_GeomFromText('POINT(1 2)', 4326)"),
        ("g", "INT GENERATED ALWAYS AS (id + 1) VIRTUAL", ""),
    ],
}
"""Types that the tools do not print, or print packed: compared with the tables only."""
JSON_VALUES: Final = """JSON_OBJECT('dec', CAST(1.50 AS DECIMAL(10,2)), 'dt', CAST('2020-01-02 03:04:05.123' AS DATETIME(3)),
  'd', CAST('2020-01-02' AS DATE), 't', CAST('-12:00:01.5' AS TIME(1)), 'bin', CAST(x'00ff' AS BINARY), 'f', 1e100, 'g', 0.1, 'h', 1e15,
  'h2', 123456789012345678.0e0, 'k', 1e-5, 'l', 1e-15, 'm', 1e-14, 'n', -0e0, 'u', 18446744073709551615, 'i', -9223372036854775808,
  'i16', -32768, 'u16', 65535, 'i32', -2147483648, 's', 'é"\\n\\\\\\x01/\x7f', 'big', REPEAT('y', 70000),
  'nest', JSON_ARRAY(JSON_OBJECT('x', 1), JSON_ARRAY()))"""


class Session:
    """One session of the server, in a zone other than UTC, with dates that no calendar has."""

    def __init__(self, server: DatabaseServer) -> None:
        self.server = server
        login = {"user": server.admin, "password": server.admin_password, "charset": "utf8mb4", "autocommit": True}
        self._connection = pymysql.connect(host=server.host, port=server.port, **login)
        self.run("SET sql_mode = 'ALLOW_INVALID_DATES'", "SET time_zone = '+08:00'", "SET NAMES utf8mb4")

    def run(self, *statements: str) -> list[dict[str, Any]]:
        with self._connection.cursor(pymysql.cursors.DictCursor) as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def begin_file(self) -> None:
        self.run("FLUSH BINARY LOGS")

    def end_file(self) -> Path:
        """Returns the file that was begun, closed."""
        name = self.run("SHOW BINARY LOGS")[-1]["Log_name"]
        self.run("FLUSH BINARY LOGS")
        return self.server.data / str(name)


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def session(request: pytest.FixtureRequest) -> Session:
    session = Session(request.getfixturevalue(request.param))
    session.run(f"DROP DATABASE IF EXISTS {DB}", f"CREATE DATABASE {DB} CHARACTER SET utf8mb4", f"USE {DB}")
    return session


@pytest.fixture(scope="module")
def tool(session: Session) -> Tool:
    if isinstance(session.server, MySQLServer):
        base = session.server.ensure_installed().parents[1]
        installed = shutil.which("mysqlbinlog", path=str(base / "bin"))
        command = [installed] if installed and not (base / "lib64").exists() else debian.linked_command(base.parent, "usr/bin/mysqlbinlog")
        return Tool([*command, "--no-defaults"], MYSQL_ESCAPES)
    try:
        return Tool(mariadb_binlog.command(), MARIADB_ESCAPES)
    except EnvironmentSetupError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no mariadb-binlog on this machine: {error}")


def changes(file: Path) -> Iterator[RowChange | Definition]:
    for change in BinlogFile.open(file.name, open_binlog(str(file))).changes(lambda database, _table: database == DB):
        assert isinstance(change, RowChange | Definition)
        yield change


def folded(file: Path, table: str) -> dict[int, dict[str, Any]]:
    """Returns the rows of a table after its changes, by `id`."""
    rows: dict[int, dict[str, Any]] = {}
    for change in changes(file):
        if isinstance(change, RowChange) and change.table.table == table:
            old = rows.pop(change.before["id"], {}) if change.before is not None else {}  # type: ignore[call-overload]
            if change.after is not None:
                new = old | dict(change.after)
                rows[new["id"]] = new
    return rows


def assert_as_table(session: Session, file: Path, table: str) -> None:
    session.run("SET time_zone = '+00:00'")
    stored = {row["id"]: row for row in session.run(f"SELECT * FROM {table}")}
    session.run("SET time_zone = '+08:00'")
    rows = folded(file, table)
    assert stored
    assert stored.keys() == rows.keys()
    for key, row in stored.items():
        assert {name: plain(name, value) for name, value in rows[key].items()} == {name: plain(name, value) for name, value in row.items()}


def plain(name: str, value: Any) -> Any:
    """Returns a value of a table, or a decoded one, in a form in which both can be compared."""
    match value:
        case OddDate():
            return value.text
        case datetime():
            return value.replace(tzinfo=None)
        case bytes() if name in ("b1", "b7", "b64"):
            return int.from_bytes(value, "big")
        case float() if name == "f":
            return float(f"{value:.6g}")  # MySQL shows 6 digits
        case bytes() if name == "uu":
            digits = value.hex()
            return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        case bytes() if name == "i6":
            return "::1" if value == (1).to_bytes(16, "big") else value
        case _:
            return value


def fill_wide(session: Session) -> None:
    """A table with every type that the tools print: rows of edges, doubled, updated, deleted, with all kinds of row images."""
    names = ", ".join(f"`{name}`" for name, _, _ in TYPES)
    session.run(f"CREATE TABLE wide (id INT AUTO_INCREMENT PRIMARY KEY, {', '.join(f'`{name}` {kind}' for name, kind, _ in TYPES)})")
    for at in range(3):
        values = ", ".join(literals[at] or "NULL" for _, _, literals in TYPES)
        session.run(f"INSERT INTO wide ({names}) VALUES ({values})")
    session.run("INSERT INTO wide () VALUES ()", "UPDATE wide SET i4 = i4 + 1, v1 = CONCAT(v1, '+') WHERE id <> 3")
    for _ in range(SPLITS):
        session.run(f"INSERT INTO wide ({names}) SELECT {names} FROM wide")
    session.run("UPDATE wide SET id = id + 1000 WHERE id % 3 = 0", "DELETE FROM wide WHERE id = 2")
    for image in ("MINIMAL", "NOBLOB", "FULL"):
        session.run(f"SET binlog_row_image = {image}", "UPDATE wide SET v1 = 'image' WHERE id IN (1, 4)", "DELETE FROM wide WHERE id = 4")


def fill_narrow(session: Session) -> None:
    """Many rows of the types that tables have most often."""
    session.run(
        "CREATE TABLE narrow (id INT PRIMARY KEY, a BIGINT, b VARCHAR(40), c DECIMAL(12,2), d DATETIME(6), e TIMESTAMP(3) NULL, f DOUBLE,"
        " g CHAR(8), h DATE, i TEXT)",
        "CREATE TABLE digit (n INT PRIMARY KEY)",
        "INSERT INTO digit VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)",
    )
    number = "p.n + 10*q.n + 100*r.n + 1000*s.n + 10000*t.n"
    session.run(
        f"INSERT INTO narrow SELECT x, x*100003, CONCAT('row ', x), x/7, '2024-01-01' + INTERVAL x*1000001 MICROSECOND,"
        f" IF(x % 5, '2024-06-01' + INTERVAL x SECOND, NULL), x/3, HEX(x), '2000-01-01' + INTERVAL x % 9000 DAY, REPEAT('t', x % 50)"
        f" FROM (SELECT {number} AS x FROM digit p, digit q, digit r, digit s, digit t) AS n WHERE x < {NARROW_ROWS}",
        "UPDATE narrow SET a = -a, b = CONCAT(b, ' new')",
        "DELETE FROM narrow WHERE id % 4 = 0",
    )


def fill_partly_undone(session: Session) -> None:
    """A table `t` in transactions of every kind, of which some are undone, as a whole or from a savepoint on."""
    session.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    session.run("BEGIN", "INSERT INTO t VALUES (3, 'c')", "SAVEPOINT s", "INSERT INTO t VALUES (4, 'no')", "ROLLBACK TO s", "COMMIT")
    session.run("BEGIN", "INSERT INTO t VALUES (5, 'no')", "ROLLBACK")
    session.run("CREATE TEMPORARY TABLE apart (a INT)", "INSERT INTO apart VALUES (1)", "BEGIN", "INSERT INTO t VALUES (6, 'd')")
    session.run(
        "SAVEPOINT q",
        "INSERT INTO t VALUES (7, 'no')",
        "INSERT INTO apart VALUES (2)",
        "ROLLBACK TO q",
        "COMMIT",
        "DROP TEMPORARY TABLE apart",
    )
    for name, decision in (("yes", "COMMIT"), ("no", "ROLLBACK")):
        key = 8 if name == "yes" else 9
        session.run(f"XA START '{name}'", f"INSERT INTO t VALUES ({key}, '{name}')", f"XA END '{name}'", f"XA PREPARE '{name}'")
        session.run(f"XA {decision} '{name}'")
    session.run("XA START 'one'", "INSERT INTO t VALUES (10, 'one')", "XA END 'one'", "XA COMMIT 'one' ONE PHASE")
    session.run("INSERT INTO t VALUES (1, 'z') ON DUPLICATE KEY UPDATE v = 'z'", "REPLACE INTO t VALUES (2, 'r')")
    session.run("CREATE TABLE copied AS SELECT * FROM t", "UPDATE t SET id = 100 WHERE id = 10", "ALTER TABLE t ADD n INT DEFAULT 5")


def test_rows_of_every_type_equal_what_the_servers_own_tool_prints_and_what_the_tables_hold(session: Session, tool: Tool) -> None:
    session.begin_file()
    fill_wide(session)
    fill_narrow(session)
    file = session.end_file()
    seen = 0
    for printed, decoded in tool.pairs(file, DB):
        assert decoded == printed
        seen += 1
    assert seen > 2 * NARROW_ROWS
    assert_as_table(session, file, "wide")
    assert_as_table(session, file, "narrow")


def test_types_that_the_tools_do_not_print_equal_what_the_tables_hold(session: Session) -> None:
    columns = UNPRINTED["mysql" if isinstance(session.server, MySQLServer) else "mariadb"]
    session.begin_file()
    session.run(f"CREATE TABLE rare (id INT PRIMARY KEY, {', '.join(f'`{name}` {kind}' for name, kind, _ in columns)})")
    values = {name: literal for name, _, literal in columns if literal}
    session.run(f"INSERT INTO rare (id, {', '.join(values)}) VALUES (1, {', '.join(values.values())})", "INSERT INTO rare (id) VALUES (2)")
    assert_as_table(session, session.end_file(), "rare")


def test_json_of_mysql_is_the_text_that_mysql_shows_after_partial_updates_too_and_in_compressed_transactions(session: Session) -> None:
    if not isinstance(session.server, MySQLServer):
        pytest.skip("JSON is a text on MariaDB")
    session.begin_file()
    session.run("CREATE TABLE documents (id INT PRIMARY KEY, d JSON)", f"INSERT INTO documents VALUES (1, {JSON_VALUES})")
    session.run("SET binlog_transaction_compression = ON", "SET binlog_row_value_options = 'PARTIAL_JSON'")
    session.run(
        "INSERT INTO documents"
        " SELECT id, JSON_OBJECT('i', id, 'v', b, 'l', JSON_ARRAY(a, c), 'p', REPEAT('p', 200)) FROM narrow WHERE id BETWEEN 2 AND 999"
    )
    for change in (
        "JSON_SET(d, '$.i', 12345678, '$.l[0]', 'x')",
        "JSON_ARRAY_INSERT(d, '$.l[0]', JSON_OBJECT('z', NULL))",
        "JSON_ARRAY_APPEND(d, '$.l', 1.25)",
        "JSON_INSERT(d, '$.\"a key\"', JSON_OBJECT('p', 1))",
        "JSON_REMOVE(JSON_SET(d, '$.\"a key\".p', 2), '$.v')",
    ):
        session.run(f"UPDATE documents SET d = {change}")
    session.run("SET binlog_row_value_options = ''", "SET binlog_transaction_compression = OFF")
    file = session.end_file()
    events = [change for change in changes(file) if isinstance(change, RowChange)]
    assert max(change.place.inner for change in events) > 1
    assert len({(change.place, change.table.table) for change in events}) == len(events) > 4000
    rows = folded(file, "documents")
    stored = {row["id"]: row["d"] for row in session.run("SELECT id, CAST(d AS CHAR) AS d FROM documents")}
    assert {key: row["d"] for key, row in rows.items()} == stored


def test_only_what_was_committed_comes_out(session: Session) -> None:
    session.begin_file()
    fill_partly_undone(session)
    file = session.end_file()
    assert_as_table(session, file, "copied")
    assert {key: row["v"] for key, row in folded(file, "t").items()} == {row["id"]: row["v"] for row in session.run("SELECT * FROM t")}
    assert [change.sql for change in changes(file) if isinstance(change, Definition)][-1] == "ALTER TABLE t ADD n INT DEFAULT 5"
    transactions = {change.transaction.start: change.transaction for change in changes(file)}
    assert all(transaction.start < transaction.end for transaction in transactions.values())
    moved = [change for change in changes(file) if isinstance(change, RowChange) and change.op is EventOperation.UPDATE][-1]
    assert (moved.before or {})["id"] != (moved.after or {})["id"]


def test_changes_as_statements_are_noted_and_rows_without_names_refused(session: Session) -> None:
    session.begin_file()
    session.run("CREATE TABLE refused (id INT UNSIGNED PRIMARY KEY)", "SET GLOBAL binlog_row_metadata = MINIMAL")
    session.run("INSERT INTO refused VALUES (1)", "SET GLOBAL binlog_row_metadata = FULL")
    file = session.end_file()
    with pytest.raises(BinlogMetadataError, match=rf"{file.name} has, at byte \d+, rows of {DB}.refused without the names"):
        list(changes(file))
    session.run("SET SESSION binlog_format = STATEMENT", "UPDATE refused SET id = id + 1", "SET SESSION binlog_format = ROW")
    opened = BinlogFile.open("f", open_binlog(str(session.end_file())))
    assert [change.sql for change in opened.scan.unfollowed] == ["UPDATE refused SET id = id + 1"]
    assert not list(opened.changes())
