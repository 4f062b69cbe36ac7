"""All settings of a server at their worst at once: a run of each reader gives the same rows, and JDBC sessions have none of them."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy
from pyspark.sql import SparkSession

from cdc_ops.core.operation.run_request import ResyncMode
from cdc_ops.core.pipeline.pipeline import Reader
from cdc_ops.dev.servers import PostgresServer
from cdc_ops.steps.query.jdbc_rows import read_rows
from tests.integration.test_session_settings import MARIADB, MYSQL, NOT_GLOBAL, POSTGRES, shown
from tests.world import ORDERS, World

SPELLED: Final = {"on": "1", "ON": "1", "off": "0", "OFF": "0", "0.000000": "0", "0.0": "0"}
"""How else servers spell a value, by version and protocol."""
ORDERS_OF_POSTGRES: Final = """CREATE TABLE orders (id bigserial PRIMARY KEY, customer varchar(40) NOT NULL, amount numeric(12,2) NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now())"""
ROLLED_BACK: Final = "INSERT INTO orders (customer, amount) VALUES ('never there', 1)"


@contextlib.contextmanager
def writing(world: World) -> Iterator[Callable[[str], Any]]:
    """A session of the application that has written a row and not committed it."""
    engine = sqlalchemy.create_engine(world.server.url(world.database, as_admin=True), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql(ROLLED_BACK)
        yield connection.exec_driver_sql
    engine.dispose()


@contextlib.contextmanager
def at_their_worst(world: World) -> Iterator[dict[str, tuple[str, str]]]:
    """Sets everything at once for all new sessions of a world's database; yields the cases."""
    if isinstance(world.server, PostgresServer):
        quoted = {name: ", ".join(f"'{one.strip()}'" for one in worst.split(",")) for name, (worst, _) in POSTGRES.items()}
        world.sql("CREATE SCHEMA session_own", "CREATE FUNCTION session_own.lower(varchar) RETURNS text LANGUAGE sql AS $$SELECT 'no'$$")
        world.sql(*(f"ALTER DATABASE {world.database} SET {name} = {value}" for name, value in quoted.items()))
        try:
            yield POSTGRES
        finally:
            world.server.execute(*(f"ALTER DATABASE {world.database} RESET {name}" for name in quoted))
        return
    cases = MARIADB if world.server.name == "MariaDB" else MYSQL
    names = [name for name in cases if name not in NOT_GLOBAL]
    before = {name: world.server.execute(f"SELECT @@global.{name}")[0][0] for name in names}
    try:
        for name in names:
            world.server.execute(f"SET GLOBAL {name} = {cases[name][0]}")
        yield cases
    finally:
        limits = "SET SESSION sql_select_limit = DEFAULT, max_join_size = DEFAULT"
        for name in names:
            value = before[name] if name != "system_versioning_asof" else "DEFAULT"
            quoted_value = f"'{value}'" if isinstance(value, str) and value != "DEFAULT" else value
            world.server.execute(limits, f"SET GLOBAL {name} = {quoted_value}")


def over_jdbc(world: World, expressions: list[str]) -> list[str]:
    """What a JDBC session of a run says of its own settings."""
    source = world._connect(world.pipeline.source)
    try:
        read = source.jdbc_read(source.schema(world.name("orders")), ("",))
    finally:
        source.close()
    select = ", ".join(f"CAST({one} AS CHAR(60)) AS c{number}" for number, one in enumerate(expressions))
    carried = ", ".join(f"c{number} string" for number in range(len(expressions)))
    asked = replace(read, relations=(f"(SELECT {select}) AS cdc_slice",), properties=read.properties | {"customSchema": carried})
    [row] = read_rows(world.spark, asked).collect()
    return [SPELLED.get(str(value).strip(), str(value).strip()) for value in row]


@pytest.mark.parametrize("kind", ["mariadb", "mysql", "postgres"])
def test_settings_at_their_worst_change_no_row_of_any_reader(
    kind: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(request.getfixturevalue(kind), tmp_path, spark)
    postgres = kind == "postgres"
    world.sql(ORDERS_OF_POSTGRES if postgres else ORDERS)
    rows = ", ".join(f"('customer {number}', {number}.25)" for number in range(200))
    world.sql(f"INSERT INTO orders (customer, amount) VALUES {rows}")
    expected = sorted(world.sql("SELECT id, customer, amount FROM orders"))
    with writing(world) as write, at_their_worst(world) as cases:
        for reader in (Reader.JDBC, Reader.NATIVE):
            world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, reader=reader))
            report = world.run() if reader is Reader.JDBC else world.resync(ResyncMode.FULL)
            assert not report.failures, [str(failure.error) for failure in report.failures]
            assert world.lake("orders", "id, customer, amount") == expected
        names = [name for name in cases if name not in NOT_GLOBAL]
        asked = [f"current_setting('{name}')" if postgres else shown(name) for name in names]
        isolation = ["current_setting('transaction_isolation')"] if postgres else []
        found = over_jdbc(world, asked + isolation)
        write("ROLLBACK")
    wanted = [SPELLED.get(cases[name][1], cases[name][1]) for name in names] + ["read committed"] * len(isolation)
    assert dict(zip([*names, "isolation"], found, strict=False)) == dict(zip([*names, "isolation"], wanted, strict=False))
