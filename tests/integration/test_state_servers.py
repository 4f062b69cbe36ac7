"""The ledger on Postgres, MariaDB and MySQL: the contract, and what only a server can do to it."""

import inspect
import traceback
import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.errors import CdcError, ConfigError, LedgerUnavailableError, StateError
from cdc_ops.state.db import schema
from cdc_ops.state.sql import SqlStateStore, open_reader, open_store
from tests.state_contract import StateContract
from tests.state_values import fresh, make_operation, run, take


@pytest.fixture(params=["postgres", "mariadb", pytest.param("mysql", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def ledgers() -> Iterator[dict[str, SqlStateStore]]:
    """One migrated ledger on each server, for all tests that ask for no database of their own."""
    opened: dict[str, SqlStateStore] = {}
    yield opened
    for store in opened.values():
        store.close()


@pytest.fixture
def url(request: pytest.FixtureRequest, server: DatabaseServer, ledgers: dict[str, SqlStateStore]) -> str:
    """An empty database of a test's own if it names this fixture; else that of a ledger without rows, which other tests had before."""
    if "url" in inspect.signature(request.function).parameters:
        return new_database(server)
    if server.name not in ledgers:
        ledgers[server.name] = open_store(new_database(server))
    shared = ledgers[server.name]._database
    with shared.write() as connection:
        for table in reversed(schema.metadata.sorted_tables):
            connection.execute(sa.delete(table))
    return server.url(shared.name)


def new_database(server: DatabaseServer) -> str:
    name = f"ledger_{uuid.uuid4().hex[:12]}"
    server.create_database(name)
    return server.url(name)


class TestServers(StateContract):
    pass


def test_nobody_else_may_migrate_before_a_migration_is_committed(server: DatabaseServer, url: str) -> None:
    if url.startswith("postgres"):
        question = "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted)"
    else:
        question = f"SELECT IS_FREE_LOCK(CONCAT('cdc_ops:', LEFT(SHA2('{sa.make_url(url).database}', 256), 32)))"
    seen: list[bool] = []

    def ask(_: sa.Connection) -> None:
        seen.append(bool(server.execute(question)[0][0]))

    sa.event.listen(sa.Engine, "commit", ask)
    try:
        open_store(url).close()
    finally:
        sa.event.remove(sa.Engine, "commit", ask)
    assert len(seen) > 1
    assert not all(seen), "another process could have begun the same migration"


def forms(error: CdcError) -> str:
    """All that is shown of an error, and what its own cause would show."""
    return "".join([str(error), repr(error), str(error.to_payload()), *traceback.format_exception(error), str(error.__context__)])


def test_a_wrong_login_or_database_is_a_configuration_error_without_the_password(server: DatabaseServer, url: str) -> None:
    right = sa.make_url(url)
    for wrong in (right.set(password="not-this-one"), right.set(username="nobody"), right.set(database="nowhere")):
        text = wrong.render_as_string(hide_password=False)
        for opened in (open_store, lambda url: open_reader(url).overview()):
            with pytest.raises(ConfigError, match="refuses the login") as caught:
                opened(text)
            assert str(wrong.password) not in forms(caught.value)
            assert wrong.render_as_string(hide_password=True) in str(caught.value)


def test_a_statement_that_fails_shows_no_password_and_no_value(server: DatabaseServer, url: str) -> None:
    statement, given = sa.text("UPDATE nowhere SET nothing = :given"), {"given": "a value of a row"}
    with open_store(url) as store:
        with pytest.raises(StateError, match="refused a statement") as caught, store._database.write() as connection:
            connection.execute(statement, given)
        said = forms(caught.value) + repr(store)
        assert "nowhere" in said, "the error tells what the server said"
        assert server.password not in said
        assert given["given"] not in said


def test_a_table_locked_by_somebody_else_makes_the_ledger_unavailable(url: str) -> None:
    with open_store(url) as store, open_store(url, patience=timedelta(seconds=1)) as hasty:
        lease = take(store)
        with store._database.write() as connection:
            connection.execute(sa.text("UPDATE cdc_tables SET purpose = 'busy'"))
            with pytest.raises(LedgerUnavailableError) as caught:
                hasty.freeze(lease, fresh(), (make_operation(1),))
            assert caught.value.retryable
        hasty.freeze(lease, fresh(), (make_operation(1),))


def test_a_store_goes_on_after_its_connections_were_cut(server: DatabaseServer, url: str) -> None:
    with open_store(url) as store:
        store.record(run("run-1"))
        _cut(server, store)
        store.record(run("run-2"))
        assert len(store.table_runs()) == 2


def _cut(server: DatabaseServer, store: SqlStateStore) -> None:
    with store._database.read() as connection:
        postgres = store._database.kind == "postgresql"
        number = connection.scalar(sa.text("SELECT pg_backend_pid()" if postgres else "SELECT CONNECTION_ID()"))
    server.execute(f"SELECT pg_terminate_backend({number})" if postgres else f"KILL {number}")


def test_a_ledger_shares_its_database_with_strangers(url: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('airflow-1')")
    with open_store(url) as store:
        store.record(run("run-1"))
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == "airflow-1"
    engine.dispose()
