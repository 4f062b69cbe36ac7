"""Pipelines over archived binlogs of real servers: a snapshot, then files that are copied as the server closes them."""

import gzip
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pymysql
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.pipeline.archive_config import ArchiveConfig, InitialLoad
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.state.sql import open_store
from tests.world import World

ITEMS = """CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(40) CHARACTER SET latin1, amount DECIMAL(12,2), at DATETIME(6),
    seen TIMESTAMP(3) NULL, big BIGINT UNSIGNED, raw VARBINARY(9), took TIME(2), share DOUBLE,
    born DATE, kind ENUM('new','paid'), doc JSON)"""
ROW = "'Zoë€', -12.30, '2024-02-29 23:59:59.000001', '2024-03-31 01:30:00.123', 18446744073709551615, X'00FF', '-25:00:00.5', 0.1"
REST = "'2024-01-31', 'paid', '{\"a\": [1, 2.5]}'"


class Archive:
    """The binlogs of a server, copied to a folder as far as they are closed; every second one packed."""

    def __init__(self, server: DatabaseServer, folder: Path) -> None:
        self.server, self.folder = server, folder
        self._copied: set[str] = set()
        folder.mkdir()
        self.flush()
        self.first = self._names()[-1]

    def flush(self) -> None:
        self.server.execute("FLUSH BINARY LOGS")

    def copy(self) -> list[Path]:
        """Closes the newest file, copies all that are closed, and returns all copies."""
        self.flush()
        for name in self._names()[:-1]:
            plain, packed = self.folder / name, self.folder / f"{name}.gz"
            if name < self.first or name in self._copied:
                continue
            self._copied.add(name)
            source = self.server.data / name
            if int(name.rpartition(".")[2]) % 2:
                packed.write_bytes(gzip.compress(source.read_bytes(), 1))
            else:
                shutil.copyfile(source, plain)
        return sorted(self.folder.iterdir())

    def active(self) -> str:
        """The file that the server is writing."""
        return self._names()[-1]

    def skip(self, name: str) -> None:
        """Takes a file for copied."""
        self._copied.add(name)

    def _names(self) -> list[str]:
        return [str(row[0]) for row in self.server.execute("SHOW BINARY LOGS")]


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def world(server: DatabaseServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(server, tmp_path, spark)
    world.configure(method=Method.LOG, cursor=())
    archive = ArchiveConfig.of(
        url=str(tmp_path / "binlogs"),
        format="mysql-binlog",
        layout="binlog",
        initial_load=InitialLoad.SNAPSHOT,
        min_file_age=timedelta(0),
        full_listing_interval=timedelta(0),
    )
    world.pipeline = replace(world.pipeline, archive=archive)
    return world


def run(world: World) -> None:
    report = world.run()
    assert not report.failures, [str(failure.error) for failure in report.failures]


def failure(world: World) -> str:
    report = world.run()
    assert report.failures
    return str(report.failures[0].error)


COLUMNS = (
    "id, name, amount, cast(at as char(26)), cast(unix_timestamp(seen) * 1000 as signed), big, hex(raw), share, cast(born as char(10)),"
    " kind, cast(took as char(12))"
)
OURS = (
    "id, name, amount, date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), unix_millis(seen), big, hex(raw), share, cast(born as string),"
    " kind, took"
)


def assert_equal(world: World, columns: str = COLUMNS, ours: str = OURS) -> None:
    theirs = world.source("items", columns)
    assert theirs
    assert world.lake("items", ours) == theirs


class Workload:
    """Changes by two sessions at once, until it is stopped."""

    def __init__(self, world: World) -> None:
        self._world, self._stopped = world, threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(2)]
        self.rounds = 0

    def __enter__(self) -> "Workload":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        server = self._world.server
        login = {"user": server.admin, "password": server.admin_password, "database": self._world.database, "autocommit": False}
        connection = pymysql.connect(host=server.host, port=server.port, **login)
        step: Callable[[str], object] = connection.cursor().execute
        at = 1000 * (number + 1)
        while not self._stopped.is_set() and at < 1000 * (number + 1) + 900:
            step(f"INSERT INTO items (id, name, amount) VALUES ({at}, 'w', {at}.25), ({at + 1}, 'x', 0)")
            step(f"UPDATE items SET amount = amount + 1, share = {at} / 3 WHERE id IN ({at}, 1, 2)")
            connection.commit()
            step(f"UPDATE items SET name = 'never' WHERE id = {at}")
            connection.rollback()
            step(f"DELETE FROM items WHERE id = {at + 1}" if at % 4 else f"UPDATE items SET id = id + 100000 WHERE id = {at + 1}")
            connection.commit()
            at += 2
            self.rounds += 1
        connection.close()


@pytest.mark.parametrize("server", ["mariadb", pytest.param("mysql", marks=pytest.mark.long)], indirect=True)
def test_a_table_that_begins_with_a_snapshot_and_follows_binlogs_is_as_the_source_at_the_archived_position(
    world: World, tmp_path: Path
) -> None:
    world.sql(ITEMS, f"INSERT INTO items VALUES (1, {ROW}, {REST}), (2, {ROW}, {REST}), (3, {ROW}, {REST})")
    archive = Archive(world.server, tmp_path / "binlogs")
    world.sql("UPDATE items SET amount = 1 WHERE id = 1")
    archive.copy()
    with Workload(world) as workload:
        run(world)  # the snapshot, while rows change
        archive.copy()
        run(world)  # files from during the snapshot
    assert workload.rounds > 20
    archive.copy()
    run(world)
    assert_equal(world)

    world.sql("UPDATE items SET id = 50, doc = '[]' WHERE id = 2", "DELETE FROM items WHERE id = 3")
    archive.copy()
    world.sql("UPDATE items SET took = '00:00:01' WHERE id = 50", f"INSERT INTO items VALUES (4, {ROW}, {REST})")
    archive.copy()
    run(world)  # two files at once
    assert_equal(world)

    world.sql("TRUNCATE TABLE items", f"INSERT INTO items VALUES (7, {ROW}, {REST})")
    archive.copy()
    run(world)
    assert_equal(world)
    assert len(world.lake("items", "id")) == 1

    # Rows from before an ALTER have NULL in a new column until they are written again: no event says what the default made of them.
    world.sql("ALTER TABLE items ADD COLUMN added VARCHAR(9) DEFAULT 'é'", "INSERT INTO items (id, added) VALUES (8, 'new')")
    world.sql("UPDATE items SET amount = 9 WHERE id = 7")
    archive.copy()
    run(world)
    assert_equal(world, "id, added", "id, added")
    run(world)
    commits = world.data_commits("items")
    run(world)  # nothing new
    assert world.data_commits("items") == commits


@pytest.mark.parametrize("server", ["mariadb", pytest.param("mysql", marks=pytest.mark.long)], indirect=True)
def test_a_file_that_is_missing_swapped_or_of_another_server_stops_the_table(world: World, tmp_path: Path) -> None:
    world.sql(ITEMS, f"INSERT INTO items VALUES (1, {ROW}, {REST})")
    archive = Archive(world.server, tmp_path / "binlogs")
    world.sql("UPDATE items SET amount = 1")
    archive.copy()
    run(world)  # the snapshot
    run(world)
    for amount in (2, 3, 4):
        world.sql(f"UPDATE items SET amount = {amount}")
        files = archive.copy()
    middle, last, _ = files[-3:]  # a newest file that is wrong would wait, as one that is still written
    held, right = middle.read_bytes(), last.read_bytes()
    middle.unlink()
    assert "gap" in failure(world)
    middle.write_bytes(held)

    for wrong, why in ((right[:-40], "ends too early"), (held, "does not follow"), (right[:60] + b"?" + right[61:], "damaged")):
        last.write_bytes(wrong)
        assert why in failure(world)
    last.write_bytes(right)
    run(world)
    assert_equal(world)


@pytest.fixture
def without_gtids(mysql: DatabaseServer) -> Iterator[DatabaseServer]:
    """A MySQL as it is before 9.x gives GTIDs by default."""
    modes = ("ON", "ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")
    before = str(mysql.execute("SELECT @@gtid_mode")[0][0])
    for mode in modes[modes.index(before) + 1 :]:
        mysql.execute(f"SET GLOBAL gtid_mode = {mode}")
    yield mysql
    for mode in modes[modes.index(before) : -1][::-1]:
        mysql.execute(f"SET GLOBAL gtid_mode = {mode}")


@pytest.mark.usefixtures("without_gtids")
@pytest.mark.parametrize("server", ["mysql"], indirect=True)
def test_without_gtids_an_early_copy_is_a_gap_and_files_of_a_reset_server_are_refused(world: World, tmp_path: Path) -> None:
    world.sql("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(9))", "INSERT INTO items VALUES (1, 'a')")
    archive = Archive(world.server, tmp_path / "binlogs")
    world.sql("UPDATE items SET name = 'b'")
    archive.copy()
    run(world)  # the snapshot
    run(world)
    world.sql("UPDATE items SET name = 'c'")
    early = archive.active()
    (tmp_path / "binlogs" / early).write_bytes((world.server.data / early).read_bytes())  # copied while it is open
    world.sql("INSERT INTO items VALUES (2, 'x')", "UPDATE items SET name = 'd' WHERE id = 1")
    archive.flush()
    archive.skip(early)
    world.sql("INSERT INTO items VALUES (3, 'y')")
    archive.copy()
    report = world.run()
    assert not report.failures
    assert "has a gap" in report.runs[0].messages.alert
    assert world.lake("items", "id, name") == [(1, "c")]
    (tmp_path / "binlogs" / early).write_bytes((world.server.data / early).read_bytes())
    run(world)
    run(world)
    assert world.lake("items", "id, name") == world.source("items", "id, name")

    for path in (tmp_path / "binlogs").iterdir():
        path.rename(path.with_name(path.name.removesuffix(".gz")))  # told by their first bytes
    run(world)
    world.server.execute("RESET BINARY LOGS AND GTIDS")
    world.sql("UPDATE items SET name = 'lost'", "INSERT INTO items VALUES (4, 'z')", "DELETE FROM items WHERE id = 2")
    archive.flush()
    for name in ("binlog.000001", early):  # numbers begin anew
        shutil.copyfile(world.server.data / "binlog.000001", tmp_path / "binlogs" / name)
    assert "was replaced by a binlog of another sequence" in failure(world)


@pytest.mark.parametrize("server", ["mysql", pytest.param("mariadb", marks=pytest.mark.long)], indirect=True)
def test_a_statement_about_a_table_stops_that_table_only_until_somebody_accepts_it(world: World, tmp_path: Path) -> None:
    parts = "PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (100))"
    world.sql("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(9))", "INSERT INTO items VALUES (1, 'a')")
    world.sql(f"CREATE TABLE parted (id INT PRIMARY KEY, name VARCHAR(9)) {parts}", "INSERT INTO parted VALUES (1, 'a'), (11, 'b')")
    archive = Archive(world.server, tmp_path / "binlogs")
    world.sql("UPDATE items SET name = 'b'", "UPDATE parted SET name = 'c'")
    archive.copy()
    run(world)  # the snapshots
    archive.copy()
    run(world)
    world.sql("UPDATE items SET name = 'c'", "UPDATE parted SET name = 'd'", "ALTER TABLE parted DROP PARTITION p1")
    archive.copy()
    world.sql("INSERT INTO items VALUES (2, 'x')", "INSERT INTO parted VALUES (12, 'x')")
    archive.copy()

    store = open_store(world.ledger)
    for _ in range(2):  # the same in each run, until somebody decides
        report = world.run()
        assert world.lake("items", "id, name") == world.source("items", "id, name")
        [gap] = store.archive_gaps("shop")
        assert gap.table == world.name("parted")
        told = "; ".join([*(item.messages.alert for item in report.runs), *(str(item.error) for item in report.failures)])
        assert "was changed by a statement and no rows: ALTER TABLE parted DROP PARTITION p1" in told
        assert world.lake("parted", "id, name") == [(1, "c"), (11, "c")]
    store.accept_gap("shop", gap.gap_id, who="somebody", why="compared by hand")
    run(world)
    run(world)
    assert world.lake("parted", "id, name") == [(1, "d"), (11, "d"), (12, "x")]  # what the statement took away is the loss
    assert not world.run().failures
    store.close()
