"""Ctrl-C and SIGTERM for commands that work: a real signal to the group of a real process, as a terminal and a supervisor send it.

Each command is held where it works by a lock on a table of the source, so that the moment is no matter of luck.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import RunStoppedError, Stopped
from cdc_ops.state.lease import Lease
from cdc_ops.state.sql import open_reader
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.runs.run import RunStopped
from tests.integration.test_killed_jvm import PATIENCE, environment, java_children, landing_has_begun, merge_is_next, wait_for
from tests.stores import at
from tests.world import ORDERS, World

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
ITEMS = ORDERS.replace("orders", "items")


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_5000")
    return world


class Command:
    """A command of `cdc-ops` at work.

    Args:
        world: The source, and where ledger and lake are.
        variables: Its environment.
        arguments: What is called.
    """

    def __init__(self, world: World, variables: dict[str, str], *arguments: str) -> None:
        self._ledger = world.ledger
        self._out, self._err = world.folder / "stdout", world.folder / "stderr"
        with self._out.open("wb") as stdout, self._err.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cdc_ops.cli", *arguments],
                env=variables,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return self._out.read_text("utf-8")

    @property
    def told(self) -> str:
        return self._err.read_text("utf-8")

    def wait_for(self, moment: Callable[[], object]) -> None:
        """Waits for a moment of the command's work."""
        wait_for(lambda: bool(moment()) or self.process.poll() is not None)
        assert self.process.poll() is None, self.out + self.told

    def stop(self, number: signal.Signals) -> None:
        """Ends it by a signal to its group, and makes sure that it ended by itself, and its JVM with it."""
        os.killpg(self.process.pid, number)
        assert self.process.wait(PATIENCE) == CODES[number], self.out + self.told
        assert "the process was ended" not in self.out + self.told
        assert "Traceback" not in self.out + self.told
        assert "Py4J" not in self.out + self.told
        wait_for(lambda: not left_processes(self._ledger))


def left_processes(ledger: str) -> list[str]:
    """Processes that were started with a ledger in their environment, as a command and all below it are."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if ledger.encode() in environ.read_bytes():
                found.append(environ.parent.name)
    return found


@pytest.fixture(autouse=True)
def ctrl_c_is_heard() -> None:
    """A shell starts what works in the background without Ctrl-C, and so would be what is started here."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def started(world: World, jars: Path, *arguments: str, tables: str = "orders") -> Iterator[Command]:
    variables = environment(world, jars)
    if tables != "orders":
        file = Path(variables["CDC_OPS_PIPELINES"]) / "shop.yaml"
        file.write_text(file.read_text().replace(f"{world.database}.orders:", f"{world.database}.{tables}:"))
    command = Command(world, variables, *arguments)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            os.killpg(command.process.pid, signal.SIGKILL)
            command.process.wait()


@contextmanager
def locked(world: World, table: str) -> Iterator[Callable[[], object]]:
    """Keeps everybody from a table; yields what says whether somebody waits for it."""
    server = world.server
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    with closing(pymysql.connect(**login, database=world.database)) as connection, connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {table} WRITE")
        yield lambda: world.sql(f"SELECT 1 FROM information_schema.processlist WHERE state LIKE '%lock%' AND info LIKE '%{table}%'")


def leases(world: World) -> list[Lease]:
    with open_reader(world.ledger) as ledger:
        return [row.lease for row in ledger.overview() if row.lease is not None]


def assert_the_next_run_finishes(world: World, *tables: str) -> None:
    assert leases(world) == []
    assert not world.run().failures
    for table in tables:
        assert world.lake(table) == world.source(table)
        commits = world.data_commits(table)
        assert commits == list(range(1, len(commits) + 1))


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_signal_in_a_first_load_says_what_was_committed_and_gives_the_leases_back(
    world: World, jar_folder: Path, number: signal.Signals
) -> None:
    world.sql(ITEMS, "INSERT INTO items (customer, amount) VALUES ('i', 1)")
    with started(world, jar_folder, "run", "--pipeline", "shop", tables="*") as command:
        command.wait_for(lambda: "starting Spark" in command.told)
        with locked(world, "orders") as waits:
            command.wait_for(lambda: list(at(world.path("items")).glob("_delta_log/*1.json")) and waits())
            assert [lease.table.name for lease in leases(world)] == ["items", "orders"]
            command.stop(number)
    db, by = world.schema, WORDS[number]
    assert command.told.splitlines()[-2:] == [
        f"Stopped by {by}: {db}.items was committed; {db}.orders was not: what is left is planned, and the next run finishes it.",
        "Next: cdc-ops run --pipeline shop",
    ]
    with open_reader(world.ledger) as ledger:
        lines = {run.table.name: run for run in ledger.table_runs("shop")}
    assert {name: run.status for name, run in lines.items()} == {"items": TableRunStatus.COMMITTED, "orders": TableRunStatus.FAILED}
    assert f"{by} stopped the run before {db}.orders was committed." in lines["orders"].messages.message
    assert_the_next_run_finishes(world, "orders", "items")


@pytest.mark.long
@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("moment", [landing_has_begun, merge_is_next])
def test_a_signal_in_an_increment_leaves_one_document_and_no_lease(
    world: World, jar_folder: Path, moment: Callable[[World], bool], number: signal.Signals
) -> None:
    assert not world.run().failures
    world.sql("INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_60000", "UPDATE orders SET amount = 1")
    with started(world, jar_folder, "run", "--json") as command:
        command.wait_for(lambda: moment(world))
        command.stop(number)
    report = json.loads(command.out)["shop"]
    stopped = {"by": WORDS[number], "not_begun": [], "pipelines_not_begun": [], "next": "cdc-ops run --json"}
    assert report["stopped"] == stopped
    if report["failures"]:  # a signal in the middle of the merge may come behind its commit
        assert [failure["error"] for failure in report["failures"]] == ["RunStoppedError"]
    assert command.told == ""
    assert_the_next_run_finishes(world, "orders")


@pytest.mark.long
@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("arguments", [("plan",), ("run",)])
def test_a_signal_ends_a_plan_that_waits_for_the_source(
    world: World, jar_folder: Path, arguments: tuple[str, ...], number: signal.Signals
) -> None:
    with started(world, jar_folder, *arguments) as command, locked(world, "orders") as waits:
        command.wait_for(waits)
        command.stop(number)
    assert command.told.splitlines()[-1].endswith(f"cdc-ops {arguments[0]}")
    assert_the_next_run_finishes(world, "orders")


@pytest.mark.long
@pytest.mark.parametrize("number", CODES)
def test_a_signal_ends_a_comparison_of_source_and_lake(world: World, jar_folder: Path, number: signal.Signals) -> None:
    assert not world.run().failures
    with started(world, jar_folder, "verify", "--json") as command:
        command.wait_for(lambda: java_children(command.process.pid))
        with locked(world, "orders") as waits:
            command.wait_for(waits)
            command.stop(number)
    error = json.loads(command.out)["error"]
    assert (error["data"], error["next"]) == ("0 tables were compared before. No table was changed.", "cdc-ops verify --json")
    assert_the_next_run_finishes(world, "orders")


@pytest.mark.long
@pytest.mark.local_store
@pytest.mark.parametrize("number", CODES)
def test_a_signal_ends_the_archiver_and_leaves_whole_files_only(world: World, jar_folder: Path, number: signal.Signals) -> None:
    world.sql("INSERT INTO orders (customer, amount) SELECT REPEAT('x', 40), seq FROM seq_1_to_400000")
    world.server.execute("FLUSH BINARY LOGS")
    archive = world.folder / "archive"
    archive.mkdir()
    variables = environment(world, jar_folder)
    file = Path(variables["CDC_OPS_PIPELINES"]) / "shop.yaml"
    file.write_text(f"{file.read_text()}archive: {{url: {archive}, layout: binlog, copy: {{connection: shop_db, server: db1}}}}\n")
    command = Command(world, variables, "archive", "--pipeline", "shop", "--json")
    command.wait_for(lambda: list(archive.rglob(".*.tmp")))
    command.stop(number)
    error = json.loads(command.out)["error"]
    assert (error["error"], error["next"]) == ("RunStoppedError", "cdc-ops archive --pipeline shop --json")
    assert list(archive.rglob(".*.tmp")) == []
    call = [sys.executable, "-m", "cdc_ops.cli", "archive", "--pipeline", "shop"]
    subprocess.run(call, env=variables, capture_output=True, check=True)
    copies = [copy for copy in archive.rglob("*") if copy.is_file()]
    assert copies
    assert [copy.name for copy in copies if copy.read_bytes() != (world.server.data / copy.name).read_bytes()] == []


@pytest.mark.long
def test_ctrl_c_while_the_jvm_starts(world: World, jar_folder: Path) -> None:
    with started(world, jar_folder, "run", "--pipeline", "shop") as command:
        command.wait_for(lambda: java_children(command.process.pid))
        command.stop(signal.SIGINT)
    assert "orders was not committed: what is left is planned, and the next run finishes it." in command.told
    assert_the_next_run_finishes(world, "orders")


@pytest.mark.long
def test_a_second_ctrl_c_ends_a_run_at_once_and_its_lease_is_taken_over_by_the_next_command(world: World, jar_folder: Path) -> None:
    with started(world, jar_folder, "run", "--pipeline", "shop") as command:
        command.wait_for(lambda: "starting Spark" in command.told)
        with locked(world, "orders") as waits:
            command.wait_for(waits)
            [machine] = java_children(command.process.pid)
            os.kill(machine, signal.SIGSTOP)  # now it does not end when it is told to
            os.killpg(command.process.pid, signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                command.process.wait(1)
            os.killpg(command.process.pid, signal.SIGINT)
            assert command.process.wait(PATIENCE) == 130
    assert "A second Ctrl-C ended it at once." in command.told
    assert "they run out by 20" in command.told
    assert [lease.table.name for lease in leases(world)] == ["orders"]
    again = subprocess.run(
        [sys.executable, "-m", "cdc_ops.cli", "run"], env=command_environment(world, jar_folder), capture_output=True, text=True, check=True
    )
    assert "was taken over by this run" in again.stderr
    assert_the_next_run_finishes(world, "orders")


def command_environment(world: World, jars: Path) -> dict[str, str]:
    """The environment of a second command, with the file of the first."""
    (world.folder / "pipelines" / "shop.yaml").unlink()
    (world.folder / "pipelines").rmdir()
    return environment(world, jars)


def stopped_by(stop: Stopped) -> Callable[[JobSpec], StepResult]:
    def execute(job: JobSpec) -> StepResult:
        raise stop

    return execute


def test_a_lease_stays_while_spark_may_still_commit_and_the_text_says_until_when(world: World) -> None:
    with pytest.raises(RunStopped) as caught:
        world.run(execute_with=stopped_by(Stopped("SIGTERM", may_commit=True)))
    [lease] = leases(world)
    [failure] = caught.value.report.failures
    assert isinstance(failure.error, RunStoppedError)
    assert failure.error.held_until == lease.expires_at
    assert f"it runs out at {lease.expires_at:%Y-%m-%d %H:%M:%S} UTC" in failure.error.data
    with open_reader(world.ledger) as ledger:
        [line] = ledger.table_runs("shop")
    assert line.status is TableRunStatus.PLANNED


@pytest.mark.long
def test_what_spark_has_committed_before_the_end_is_settled_and_the_upkeep_gives_its_leases_back(world: World) -> None:
    world.sql(ITEMS, "INSERT INTO items (customer, amount) VALUES ('i', 1)")

    def committed_first(job: JobSpec) -> StepResult:
        world.execute(job)
        raise Stopped("Ctrl-C")

    with pytest.raises(RunStopped) as caught:
        world.run(execute_with=committed_first)
    report: Any = caught.value.report
    assert ({run.status for run in report.runs}, report.failures) == ({TableRunStatus.COMMITTED}, ())
    assert (report.stopped_by, report.not_begun) == ("Ctrl-C", ())
    assert_the_next_run_finishes(world, "orders", "items")
