"""MySQL's default password plugin, from Python and from Spark with both drivers: with and without TLS, the first login included."""

from typing import TYPE_CHECKING

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import MySQLServer
from cdc_ops.errors import ConfigError, SourceAccessError
from cdc_ops.sources.mysql.source import MySQLSource
from cdc_ops.steps.query.jdbc_rows import read_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DB = "login_tests"
TABLE = TableName(schema=DB, name="one")
SECRET = "p@ss:w/ö€ rd%"


@pytest.fixture(scope="module")
def server(mysql: MySQLServer) -> MySQLServer:
    mysql.create_database(DB)
    mysql.execute(
        "CREATE TABLE one (id INT PRIMARY KEY)",
        "INSERT INTO one VALUES (1)",
        "DROP USER IF EXISTS shy@'127.0.0.1'",
        f"CREATE USER shy@'127.0.0.1' IDENTIFIED WITH caching_sha2_password BY '{SECRET}'",
        f"GRANT SELECT ON `{DB}`.* TO shy@'127.0.0.1'",
        database=DB,
    )
    return mysql


def source_with(server: MySQLServer, driver: str, tls: str, password: str = SECRET) -> MySQLSource:
    options = {"": "", "verify_ca": f"?ssl_mode=verify_ca&ssl_ca={server.data / 'ca.pem'}"}.get(tls, f"?ssl_mode={tls}")
    url = ConnectionUrl.from_parts("mysql", server.host, server.port, "shy", password, DB).render() + options
    return MySQLSource(SourceConfig(kind=SourceKind.MYSQL, connection="test", jdbc_driver=driver), url)


WAYS = [(driver, tls) for driver in ("mariadb", "mysql") for tls in ("", "disabled", "required")]


@pytest.mark.parametrize(("driver", "tls"), [*WAYS, ("mariadb", "verify_ca")])
def test_a_password_that_the_server_has_not_cached_logs_in(server: MySQLServer, spark: "SparkSession", driver: str, tls: str) -> None:
    source = source_with(server, driver, tls)
    server.execute("FLUSH PRIVILEGES")  # forgets the passwords: the next login is the long one, which needs TLS or the server's key
    schema = source.schema(TABLE)
    server.execute("FLUSH PRIVILEGES")
    assert [row["id"] for row in read_source(spark, source.jdbc_read(schema, ("",)), schema).collect()] == [1]
    source.close()


def test_a_driver_that_cannot_check_the_certificate_is_refused_and_the_other_is_named(server: MySQLServer) -> None:
    source = source_with(server, "mysql", "verify_ca")
    with pytest.raises(ConfigError, match="jdbc_driver: mariadb"):
        source.jdbc_read(source.schema(TABLE), ("",))
    source.close()


@pytest.mark.parametrize("tls", ["", "disabled", "required"])
def test_a_wrong_password_is_refused_and_shown_nowhere(server: MySQLServer, tls: str) -> None:
    source = source_with(server, "mariadb", tls, "wrong-one")
    with pytest.raises(SourceAccessError, match="refuses the login of user 'shy'") as caught:
        source.tables()
    assert "wrong-one" not in str(caught.value)


def test_without_encryption_where_the_server_demands_it_the_error_says_what_to_set(server: MySQLServer) -> None:
    server.execute("ALTER USER shy@'127.0.0.1' REQUIRE SSL")
    try:
        with pytest.raises(SourceAccessError):
            source_with(server, "mariadb", "disabled").tables()
        assert source_with(server, "mariadb", "required").count(TABLE, "", 5) == 1
    finally:
        server.execute("ALTER USER shy@'127.0.0.1' REQUIRE NONE")
