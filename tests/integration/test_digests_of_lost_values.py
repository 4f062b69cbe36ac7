"""Checksums at the source of values that no stored type holds: they are those of NULL, which the lake has in their place."""

from typing import Any

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.reconcile.key_buckets import Buckets
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, PostgresServer
from cdc_ops.sources.base import DigestQuery, open_source

DB = "lost_values"
COLUMNS = ("id", "d", "w", "t")


def digest(server: DatabaseServer, kind: SourceKind, schema: str, table: str, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    scheme = "postgresql" if kind is SourceKind.POSTGRES else "mysql"
    url = ConnectionUrl.from_parts(scheme, server.host, server.port, server.user, server.password, DB).render()
    source = open_source(SourceConfig(kind=kind, connection="test"), url)
    found = source.schema(TableName(schema=schema, name=table))
    query = DigestQuery(schema=found, columns=columns, buckets=Buckets(keys=("id",), count=1, low=0, width=100), slices=("",))
    [relation] = source.digest_read(query).relations
    source.close()
    return [tuple(row) for row in server.execute(f"SELECT * FROM {relation}", database=DB)]


def test_a_zero_date_of_mysql_has_the_checksum_of_null(mariadb: MariaDBServer) -> None:
    mariadb.create_database(DB)
    kinds = "id INT PRIMARY KEY, d DATE, w DATETIME(6), t TIMESTAMP NULL"
    mariadb.execute(
        "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
        *(f"CREATE OR REPLACE TABLE {name} ({kinds})" for name in ("zero", "empty", "real_one")),
        "INSERT INTO zero VALUES (1, '0000-00-00', '2024-02-31 01:02:03', '0000-00-00'), (2, '2024-00-15', '0000-00-00', NULL)",
        "INSERT INTO empty VALUES (1, NULL, NULL, NULL), (2, NULL, NULL, NULL)",
        "INSERT INTO real_one VALUES (1, '1970-01-01', NULL, NULL), (2, NULL, NULL, NULL)",
        database=DB,
    )
    zero, empty, real = (digest(mariadb, SourceKind.MARIADB, DB, table, COLUMNS) for table in ("zero", "empty", "real_one"))
    assert zero == empty
    assert zero[0][:2] == (0, 2)
    assert real != empty


def test_an_infinite_date_and_nan_of_postgres_have_the_checksum_of_null(postgres: PostgresServer) -> None:
    postgres.create_database(DB)
    kinds = "id int PRIMARY KEY, d date, w timestamp, t timestamptz, n numeric(9,2)"
    postgres.execute(
        *(f"CREATE TABLE {name} ({kinds})" for name in ("zero", "empty", "real_one")),
        "INSERT INTO zero VALUES (1, 'infinity', '-infinity', 'infinity', 'NaN'), (2, '-infinity', '294276-12-31', NULL, NULL)",
        "INSERT INTO empty VALUES (1, NULL, NULL, NULL, NULL), (2, NULL, NULL, NULL, NULL)",
        "INSERT INTO real_one VALUES (1, '1970-01-01', NULL, NULL, NULL), (2, NULL, NULL, NULL, NULL)",
        database=DB,
    )
    tables = ("zero", "empty", "real_one")
    zero, empty, real = (digest(postgres, SourceKind.POSTGRES, "public", table, (*COLUMNS, "n")) for table in tables)
    assert zero == empty
    assert real != empty
