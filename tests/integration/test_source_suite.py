"""The conformance suite for sources, on every source of this package; and that it fails for a source that is wrong."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.dev.servers import MariaDBServer, MySQLServer, PostgresServer
from cdc_ops.testing.source_harness import Application, SourceHarness
from cdc_ops.testing.source_suite import SourceSuite
from tests.source_harness import ServerHarness


class TestMariaDB(SourceSuite):
    @pytest.fixture
    def harness(self, mariadb: MariaDBServer) -> SourceHarness:
        return ServerHarness(mariadb)


class TestMySQL(SourceSuite):
    @pytest.fixture
    def harness(self, mysql: MySQLServer) -> SourceHarness:
        return ServerHarness(mysql)


class TestPostgres(SourceSuite):
    @pytest.fixture
    def harness(self, postgres: PostgresServer) -> SourceHarness:
        return ServerHarness(postgres)


# --------------------------------------------------------------------------------------------------- the suite itself can fail


class Broken:
    """A harness with the suite's tables, and a source to break; closes all connections, also those of a test that failed."""

    def __init__(self, server: MariaDBServer) -> None:
        self.harness = ServerHarness(server)
        self.source = self.harness.open_source()
        self.opened: list[Application] = []
        self.tables = self.connect()
        self.tables.run(*self.harness.statements.tables, "INSERT INTO events (v) VALUES (1), (2), (3)")

    def connect(self) -> Application:
        self.opened.append(self.harness.connect())
        return self.opened[-1]

    def close(self) -> None:
        self.source.close()
        for application in self.opened:
            application.close()


@pytest.fixture
def broken(mariadb: MariaDBServer) -> Iterator[Broken]:
    made = Broken(mariadb)
    yield made
    made.close()


def test_a_source_that_takes_its_clock_as_the_bound_fails_the_suite(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    harness, source = broken.harness, broken.source
    safe = source.safe_bound

    def clock(*asked: Any) -> SafeBound:
        bound = safe(*asked)
        return replace(bound, value=bound.clock)

    monkeypatch.setattr(source, "safe_bound", clock)
    for columns in (("at",), ("at", "id")):
        with pytest.raises(AssertionError):
            SourceSuite().test_a_late_commit_is_read_by_the_next_window(harness, source, broken.connect, columns)
    with pytest.raises(AssertionError):
        SourceSuite().test_an_open_writer_holds_the_bound_until_it_ends(harness, source, broken.connect, "COMMIT")


def test_a_source_whose_windows_overlap_fails_the_suite(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    harness, tables, source = broken.harness, broken.tables, broken.source
    right = source.window_predicate
    monkeypatch.setattr(source, "window_predicate", lambda cursor, window: right(cursor, window).replace("< ", "<= "))
    with pytest.raises(AssertionError):
        SourceSuite().test_windows_tile_the_axis(harness, source, tables)
    with pytest.raises(AssertionError):
        SourceSuite().test_a_window_reads_what_the_reference_says(harness, source, tables)
