"""SIGKILL for the Spark JVM in the middle of a run of `cdc-ops`; the next run makes the same table, with one data commit per batch.

These JVMs talk as much as a JVM can, and on standard output: nothing of it may stand beside the JSON there.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.maintenance import Maintenance, MaintenancePolicy
from cdc_ops.core.operation.job import JobSpec, Step, StepResult
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import JobLostError
from cdc_ops.state.sql import open_reader
from tests.stores import at
from tests.world import ORDERS, World

TRY_AGAIN = 6
PATIENCE = 240
LOUD = "-XX:TieredStopAtLevel=1 -XX:+PrintCompilation -Xlog:gc*:stdout -Xlog:class+load:stdout"
LOUD_SIGNS = ("[gc", "java.lang.Object source: shared objects file", "java.lang.Object::<init>")


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_60000")
    assert not world.run().failures
    world.sql("UPDATE orders SET amount = amount + 1 WHERE id > 10000", "INSERT INTO orders (customer, amount) VALUES ('new', 1)")
    return world


def staging_files(world: World, pattern: str) -> list[Path]:
    return list(at(world.pipeline.target.staging).glob(pattern))


def landing_has_begun(world: World) -> bool:
    return bool(staging_files(world, "shop/*/2-*/*/*")) and not staging_files(world, "shop/*/2-*/manifest.json")


def merge_is_next(world: World) -> bool:
    return bool(staging_files(world, "shop/*/2-*/manifest.json"))


def rows_are_committed(world: World) -> bool:
    logs = sorted(at(world.path("orders")).glob("_delta_log/*.json"))
    return '"op_seq\\":2' in logs[-1].read_text()


def upkeep_is_at_work(world: World) -> bool:
    """True if there are commits after that of the rows, or data files that no commit names: those of an OPTIMIZE."""
    folder = at(world.path("orders"))
    logs = [log.read_text() for log in sorted(folder.glob("_delta_log/*.json"))]
    data = [log for log in logs if '"op_seq\\":2' in log]
    return bool(data) and (data[-1] != logs[-1] or any(file.name not in "".join(logs) for file in folder.glob("*.parquet")))


def killed(world: World, variables: dict[str, str], moment: Callable[[World], bool]) -> tuple[int, str, str]:
    """Runs `cdc-ops run`, kills its JVM at a moment, and returns exit code, output and messages."""
    out, err = world.folder / "stdout", world.folder / "stderr"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        call = [sys.executable, "-m", "cdc_ops.cli", "run", "--json"]
        command = subprocess.Popen(call, env=variables, stdout=stdout, stderr=stderr)
        try:
            wait_for(lambda: moment(world) or command.poll() is not None)
            for pid in java_children(command.pid):
                os.kill(pid, signal.SIGKILL)
            command.wait(timeout=PATIENCE)
        finally:
            command.kill()
    return command.returncode, out.read_text("utf-8"), err.read_text("utf-8")


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(landing_has_begun, marks=pytest.mark.long),
        merge_is_next,
        pytest.param(rows_are_committed, marks=pytest.mark.long),
    ],
)
def test_a_killed_jvm_costs_a_retry_and_no_row(world: World, jar_folder: Path, moment: Callable[[World], bool]) -> None:
    code, output, told = killed(world, environment(world, jar_folder), moment)
    assert code in ({TRY_AGAIN} if moment is not rows_are_committed else {0, TRY_AGAIN}), output + told
    report = json.loads(output)["shop"]
    spark_log = Path(report["spark_log"]).read_text("utf-8")
    assert all(sign in spark_log for sign in LOUD_SIGNS), spark_log[:5000]
    for failure in report["failures"]:
        assert (failure["error"], failure["what"]) == ("JobLostError", f"Table {world.name('orders')} failed: the JVM of Spark is gone.")
        ended, *last_lines = failure.pop("why").splitlines()
        assert ended.startswith("It was killed by signal 9 (SIGKILL), mostly by the memory killer"), ended
        assert "The driver had 1g of heap ('driver_memory')" in ended
        assert last_lines[-1].strip() in spark_log
    assert not any(sign in json.dumps(report) + told for sign in LOUD_SIGNS)
    assert world.server.password not in output + told + spark_log
    assert not world.run().failures
    assert world.lake("orders") == world.source("orders")
    assert world.data_commits("orders") == [1, 2]


@pytest.mark.long
def test_a_jvm_killed_in_upkeep_costs_no_row_and_the_next_run_does_the_upkeep(world: World, jar_folder: Path) -> None:
    variables = environment(world, jar_folder)
    file = Path(variables["CDC_OPS_PIPELINES"]) / "shop.yaml"
    policy = "maintenance: {min_small_files: 2, optimize_every: 0s, purge_every: 1s, vacuum_every: 0s}"
    file.write_text(file.read_text().replace("lookback: 0s", f"lookback: 0s, {policy}"))
    code, output, told = killed(world, variables, upkeep_is_at_work)
    report = json.loads(output)["shop"]
    assert (code, [line["status"] for line in report["tables"]], report["failures"]) == (0, ["committed"], []), output + told
    assert [text for text in report["warnings"] if "orders: The maintenance failed and stays due" in text], report["warnings"]
    assert upkeep(world) is None
    assert world.lake("orders") == world.source("orders")

    short = timedelta(seconds=1)
    world.configure(maintenance=MaintenancePolicy(min_small_files=2, optimize_every=short, purge_every=short, vacuum_every=short))

    def without_upkeep(job: JobSpec) -> StepResult:
        if job.step is Step.MAINTAIN:
            raise JobLostError("There is no other JVM.")
        return world.execute(job)

    world.sql("UPDATE orders SET amount = amount + 1 WHERE id < 10")
    ran = world.run(execute_with=without_upkeep)
    assert (ran.failures, upkeep(world)) == ((), None)
    assert [text for text in ran.warnings if text.endswith("rows are complete. There is no other JVM.")], ran.warnings
    world.sql("UPDATE orders SET amount = amount + 1 WHERE id < 10")
    assert not world.run().failures
    done = upkeep(world)
    assert done is not None
    assert ("PURGE" in done.did, "VACUUM" in done.did) == (True, True), done
    assert world.lake("orders") == world.source("orders")
    assert world.data_commits("orders") == [1, 2, 3, 4]


def upkeep(world: World) -> Maintenance | None:
    """What the ledger says that maintenance did last."""
    with open_reader(world.ledger) as ledger:
        stats = ledger.stats("shop", world.name("orders"))
    assert stats is not None
    return stats.upkeep.last_upkeep


def environment(world: World, jars: Path) -> dict[str, str]:
    """What a shell would set: the pipeline's folder, ledger, jars and the source's URL."""
    folder = world.folder / "pipelines"
    folder.mkdir()
    (folder / "shop.yaml").write_text(
        f"""
pipeline: shop
source: {{kind: mariadb, connection: shop_db}}
target: {{root: {world.pipeline.target.root}, staging: {world.pipeline.target.staging}}}
spark:
  driver_memory: 1g
  conf:
    spark.master: "local[2]"
    spark.sql.shuffle.partitions: "2"
    spark.driver.extraJavaOptions: "{LOUD}"
tables:
  {world.database}.orders: {{cursor: [updated_at, id], lookback: 0s}}
"""
    )
    places = {"CDC_OPS_PIPELINES": str(folder), "CDC_OPS_LEDGER": world.ledger, "CDC_OPS_JARS": str(jars)}
    return {**os.environ, **places, "CDC_OPS_LOGS": str(world.folder / "logs"), "CDC_OPS_CONN_SHOP_DB": world.url}


def wait_for(condition: Callable[[], bool]) -> None:
    """Looks often: the moment may be short."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the moment never came"
        time.sleep(0.002)


def java_children(parent: int) -> list[int]:
    """Pids of the JVMs below a process."""
    parents: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, rest = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue
            parents[int(folder.name)] = (int(rest.split()[1]), name)
    below, grown = {parent}, True
    while grown:
        found = {pid for pid, (above, _) in parents.items() if above in below} - below
        below, grown = below | found, bool(found)
    return [pid for pid in below if parents.get(pid, (0, ""))[1] == "java"]
