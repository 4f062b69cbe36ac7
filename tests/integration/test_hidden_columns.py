"""What a login may not see is never taken for absent: columns without a grant stop a table, unless the pipeline leaves them out."""

import contextlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.base import open_source

PASSWORD = "few-rights-9"
Look = Callable[..., TableSchema]


@pytest.fixture(params=["mariadb", "mysql", "postgres"])
def grant(request: pytest.FixtureRequest) -> Callable[[str], Look]:
    """Grants a new login something of a table with a secret last, and returns how it sees that table."""
    server: DatabaseServer = request.getfixturevalue(request.param)
    database, user = f"hidden_{uuid.uuid4().hex[:8]}", f"few_{uuid.uuid4().hex[:6]}"
    postgres = request.param == "postgres"
    server.create_database(database)
    table = TableName(schema="public" if postgres else database, name="t")
    account = user if postgres else f"'{user}'@'%'"

    def granted(what: str) -> Look:
        server.execute(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, secret INT)",
            f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'" if postgres else f"CREATE USER {account} IDENTIFIED BY '{PASSWORD}'",
            f"GRANT {what} ON t TO {account}",
            database=database,
        )
        url = ConnectionUrl.from_parts("postgresql" if postgres else "mysql", server.host, server.port, user, PASSWORD, database)

        def look(**settings: Any) -> TableSchema:
            with contextlib.closing(open_source(SourceConfig(kind=SourceKind(request.param), connection="x"), url.render())) as source:
                assert source.tables() == (table,)
                assert source.shared((table,), source.parts.session, source.parts.probe).schema(table, columns=("id",)).columns  # type: ignore[attr-defined]
                return source.schema(table, **settings)

        return look

    return granted


def test_columns_that_the_login_may_not_read_stop_the_table_unless_they_are_left_out(grant: Callable[[str], Look]) -> None:
    look = grant("SELECT (id, v, updated_at)")
    with pytest.raises(SourceTableError, match="may not read all columns of") as caught:
        look()
    assert "GRANT SELECT" in caught.value.next
    assert [column.name for column in look(columns=("id", "v")).columns] == ["id", "v"]


def test_what_the_server_names_may_be_left_out_by_name(grant: Callable[[str], Look], request: pytest.FixtureRequest) -> None:
    look = grant("SELECT (id, v, updated_at)")
    if "postgres" in request.node.name:
        assert [column.name for column in look(except_columns=("secret",)).columns] == ["id", "v", "updated_at"]
        return
    # MySQL and MariaDB name no column that is hidden, so others might be left out with it.
    with pytest.raises(SourceTableError, match=r"may not read all columns of") as caught:
        look(except_columns=("secret",))
    assert "columns: [id, v, updated_at]" in caught.value.next


def test_a_column_that_may_be_written_and_not_read_stops_the_table(grant: Callable[[str], Look]) -> None:
    look = grant("SELECT (id, v, updated_at), UPDATE (secret)")
    with pytest.raises(SourceTableError, match="may not read all columns of"):
        look(columns=("id", "secret"))


def test_grants_of_every_column_one_by_one_are_as_good_as_one_of_the_table(grant: Callable[[str], Look]) -> None:
    assert len(grant("SELECT (id, v, updated_at, secret)")().columns) == 4
