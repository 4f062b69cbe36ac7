"""Columns in which the server holds texts for equal that differ: the catalogs know them, and the servers agree."""

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import MariaDBServer, MySQLServer, PostgresServer
from cdc_ops.sources.base import open_source
from cdc_ops.sources.mysql.catalog import normal_text

MYSQL = {
    "ci": ("VARCHAR(20) COLLATE utf8mb4_general_ci", True),
    "uca": ("VARCHAR(20) COLLATE utf8mb4_unicode_ci", True),
    "latin": ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci", True),
    "padded": ("VARCHAR(20) COLLATE utf8mb4_bin", True),
    "exact": ("VARCHAR(20) COLLATE utf8mb4_nopad_bin", False),
    "fixed": ("CHAR(20) COLLATE utf8mb4_bin", False),
    "bytes": ("VARBINARY(20)", False),
    "n": ("INT", False),
}
POSTGRES = {
    "ci": ("citext", True),
    "nd": ("text COLLATE loose", True),
    "exact": ("text", False),
    "fixed": ("character(9)", False),
    "free": ("numeric", True),
    "n": ("numeric(9,2)", False),
}


def test_collations_of_mariadb_are_known_for_loose_or_exact(mariadb: MariaDBServer) -> None:
    mariadb.create_database("loose")
    columns = ", ".join(f"{name} {declared}" for name, (declared, _) in MYSQL.items())
    mariadb.execute(f"CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, {columns})", database="loose")
    url = ConnectionUrl.from_parts("mysql", mariadb.host, mariadb.port, mariadb.user, mariadb.password).render()
    source = open_source(SourceConfig(kind=SourceKind.MARIADB, connection="test"), url)
    schema = source.schema(TableName(schema="loose", name="t"))
    source.close()
    assert {column.name: bool(column.loose) for column in schema.columns[1:]} == {name: loose for name, (_, loose) in MYSQL.items()}
    for name, (declared, loose) in MYSQL.items():
        if declared.startswith("VARCHAR"):
            mariadb.execute(f"REPLACE INTO t (id, {name}) VALUES (1, 'a')", database="loose")
            [(equal,)] = mariadb.execute(f"SELECT {name} = 'a ' FROM t WHERE id = 1", database="loose")
            assert bool(equal) == loose, name


def test_types_and_collations_of_postgres_are_known_for_loose_or_exact(postgres: PostgresServer) -> None:
    postgres.create_database("loose")
    columns = ", ".join(f"{name} {declared}" for name, (declared, _) in POSTGRES.items())
    postgres.execute(
        "CREATE EXTENSION IF NOT EXISTS citext",
        "CREATE COLLATION IF NOT EXISTS loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        f"CREATE TABLE t (id int PRIMARY KEY, {columns})",
        database="loose",
    )
    url = ConnectionUrl.from_parts("postgresql", postgres.host, postgres.port, postgres.user, postgres.password, "loose").render()
    source = open_source(SourceConfig(kind=SourceKind.POSTGRES, connection="test"), url)
    schema = source.schema(TableName(schema="public", name="t"))
    source.close()
    assert {column.name: bool(column.loose) for column in schema.columns[1:]} == {name: loose for name, (_, loose) in POSTGRES.items()}


@pytest.mark.parametrize("text", ["a ", "A"])
def test_postgres_holds_citext_for_equal_by_case_alone(postgres: PostgresServer, text: str) -> None:
    postgres.create_database("loose_citext")
    postgres.execute("CREATE EXTENSION IF NOT EXISTS citext", database="loose_citext")
    [(equal,)] = postgres.execute(f"SELECT 'a'::citext = '{text}'::citext", database="loose_citext")
    assert equal == (text == "A")


SPELLINGS = ["a", "A", "a ", " a", "ä", "á", "ae", "ss", "ß", "", " ", "a\t", "a\u00a0", "e\u0301", "é", "ﬁ", "fi", "a\u3000", "1", "ñ"]
SPELLINGS += [filling * 19 + end for filling, ends in (("ß", "ab"), ("\ufdfa", "ab"), ("a", "bBc")) for end in ends]
COLLATIONS = ["utf8mb4_general_ci", "utf8mb4_bin", "latin1_swedish_ci", "latin1_german2_ci"]
COLLATIONS_OF = {
    "mariadb": [*COLLATIONS, "utf8mb4_unicode_ci", "utf8mb4_uca1400_ai_ci", "utf8mb4_uca1400_nopad_as_cs"],
    "mysql": [*COLLATIONS, "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs"],
}


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_the_normal_text_of_a_key_is_the_same_for_what_the_server_holds_for_equal_and_for_nothing_else(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server: MariaDBServer | MySQLServer = request.getfixturevalue(kind)
    server.create_database("spelled")
    for collation in COLLATIONS_OF[kind]:
        storable = [text for text in SPELLINGS if collation.startswith("utf8mb4") or all(ord(sign) < 256 for sign in text)]
        values = ", ".join(f"({number}, '{text}')" for number, text in enumerate(storable))
        normal = normal_text("varchar(20)", collation, "s", mariadb=kind == "mariadb")
        assert normal, collation
        server.execute(
            "DROP TABLE IF EXISTS t",
            f"CREATE TABLE t (i INT, s VARCHAR(20) COLLATE {collation})",
            f"INSERT INTO t VALUES {values}",
            database="spelled",
        )
        texts = {row[0]: row[1] for row in server.execute(f"SELECT i, {normal} FROM t", database="spelled")}
        equal = {tuple(row) for row in server.execute("SELECT a.i, b.i FROM t a JOIN t b ON a.s = b.s", database="spelled")}
        assert {(one, other) for one in texts for other in texts if texts[one] == texts[other]} == equal, collation
