"""The ledger on SQLite: the contract, and what only a file can do to it."""

import logging
import signal
import sqlite3
import traceback
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from cdc_ops.errors import ConfigError, LedgerUnavailableError, StateError
from cdc_ops.state.sql import open_reader, open_store
from tests.state_contract import StateContract
from tests.state_values import ORDERS, PIPELINE, fresh, make_operation, python, race, run, take


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a folder/100% #1?.db".replace("?", "%3F")


class TestSqlite(StateContract):
    pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def test_a_file_is_created_with_its_folders_in_wal_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "ledger.db"
    with open_store(f"sqlite:///{path}"):
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()


def test_a_reader_creates_no_file(tmp_path: Path) -> None:
    with open_reader(f"sqlite:///{tmp_path}/folder/ledger.db") as reader:
        assert reader.overview() == ()
        reader.now()
    assert list(tmp_path.iterdir()) == []


def test_a_reader_notices_that_the_file_was_removed_and_created_again(path: Path) -> None:
    url = f"sqlite:///{path}"
    with open_reader(url) as reader:
        with open_store(url) as store:
            store.record(run("run-1"))
        assert len(reader.table_runs()) == 1
        path.unlink()
        with open_store(url) as store:
            assert reader.table_runs() == ()
            store.record(run("run-2"))
        assert [item.run_id for item in reader.table_runs()] == ["run-2"]


def test_a_process_killed_in_the_middle_of_a_write_leaves_the_ledger_usable(path: Path) -> None:
    url = f"sqlite:///{path}"
    with open_store(url) as store:
        store.record(run("run-1"))
    code = (
        "import signal; from cdc_ops.state.sql import open_store\n"
        "with open_store(url)._database.write() as connection:\n"
        "    connection.exec_driver_sql('DELETE FROM cdc_table_runs')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = python(code, url)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    with open_store(url, patience=timedelta(milliseconds=50)) as store:
        assert len(store.table_runs()) == 1
        store.freeze(take(store), fresh(), (make_operation(1),))
        assert store.open_operations(PIPELINE, ORDERS) == (make_operation(1),)


def test_a_ledger_locked_by_somebody_else_is_unavailable_for_writing_and_readable(path: Path) -> None:
    url = f"sqlite:///{path}"
    with open_store(url, patience=timedelta(milliseconds=50)) as store, open_reader(url) as reader:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailableError, match="locked") as caught:
            store.record(run("run-1"))
        assert caught.value.retryable
        assert reader.overview() == ()
        other.execute("ROLLBACK")
        other.close()
        store.record(run("run-1"))


def test_processes_write_at_once_and_lose_nothing(path: Path) -> None:
    url = f"sqlite:///{path}"
    imports = "from cdc_ops.state.sql import open_store; from tests.state_values import run"
    race(3, imports, "store = open_store(url)\nfor index in range(25): store.record(run(f'{os.getpid()}-{index}'))", url)
    with open_store(url) as store:
        assert len(store.table_runs(limit=1000)) == 75


def test_foreign_keys_are_kept(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store:
        take(store)
        with pytest.raises(StateError, match="FOREIGN KEY"), store._database.write() as connection:
            connection.exec_driver_sql("INSERT INTO cdc_lease_waiters VALUES ('no', 'such', 'table', 'w', 'h', '2026-01-01')")


def test_a_file_that_is_no_database_is_named(path: Path) -> None:
    path.write_bytes(b"not a database " * 1000)
    with pytest.raises(StateError, match="not a database") as caught:
        open_store(f"sqlite:///{path}")
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"not a database " * 1000


def test_a_statement_that_fails_shows_no_value(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sqlalchemy.engine")  # as an operator may set it who looks for something else
    with open_store(f"sqlite:///{path}") as store:
        with pytest.raises(StateError, match="no such table") as caught, store._database.write() as connection:
            connection.execute(sa.text("INSERT INTO cdc_leases_of_nobody VALUES (:given)"), {"given": "a value of a row"})
        said = "".join([str(caught.value.to_payload()), *traceback.format_exception(caught.value)])
        assert "cdc_leases_of_nobody" in said
        assert "INSERT INTO cdc_leases_of_nobody" in caplog.text
        said += caplog.text + repr(caught.value.__context__) + str(caught.value.__context__)
        assert "a value of a row" not in said


def test_a_folder_that_cannot_be_made_makes_the_ledger_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerUnavailableError, match=r"file/folder/ledger\.db"):
        open_store(f"sqlite:///{tmp_path}/file/folder/ledger.db")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ledger.db",
        "sqlite://",
        "sqlite:///:memory:",
        "oracle://u:hidden@h/x",
        "postgresql://u:hidden@h:port/x",
        "mysql://u:hid@den@h/x",
        "postgresql+nodriver://u:hidden@h/x",
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_with_an_example(url: str) -> None:
    for opened in (open_store, open_reader):
        with pytest.raises(ConfigError, match=r"sqlite:////path/ledger\.db") as caught:
            opened(url)
        assert not any(part in str(caught.value) for part in ("hidden", "hid@", "den@"))


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "mysql", "mariadb", "mariadb+pymysql"])
def test_a_server_that_does_not_answer_is_named_without_its_password(scheme: str) -> None:
    with open_reader(f"{scheme}://me:hidden@127.0.0.1:1/ledger?connect_timeout=2") as reader:
        assert "hidden" not in repr(reader)
        with pytest.raises(LedgerUnavailableError, match=r"://me:\*\*\*@127\.0\.0\.1:1/ledger") as caught:
            reader.overview()
        assert "hidden" not in str(caught.value)


def test_store_and_reader_are_different_types() -> None:
    assert not {name for name in ("acquire", "freeze", "settle", "record") if hasattr(open_reader("sqlite:///x.db"), name)}


def test_an_option_that_the_driver_does_not_know_is_named() -> None:
    for scheme in ("mysql", "postgresql"):
        with open_reader(f"{scheme}://me:hidden@127.0.0.1:1/ledger?no_such=hidden") as reader:
            with pytest.raises(ConfigError, match="no_such") as caught:
                reader.overview()
            assert "hidden" not in str(caught.value)
