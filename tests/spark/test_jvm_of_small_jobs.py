"""The JVM of a small job: its options, the archive of classes that it writes and reads, and its end when a large job comes. Real JVMs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PIPELINE = """
pipeline: shop
source: {kind: mariadb, connection: shop_db}
target: {root: /tmp/lake, staging: /tmp/staging}
spark: {driver_memory: 1g, conf: {spark.driver.extraJavaOptions: "-XX:ReservedCodeCacheSize=64m"}}
tables: {shop.orders: {cursor: id}}
"""
SCRIPT = """
import json, sys
from pathlib import Path
from cdc_ops.cli.session import LocalSpark
from cdc_ops.config.loading import load_pipeline

told = []
with LocalSpark(load_pipeline(Path(sys.argv[1]))) as spark:
    for small in json.loads(sys.argv[2]):
        session = spark.session(small=small)
        bean = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
        total = session.range(100).selectExpr("sum(id)").first()[0]
        told.append({"jvm": bean.getName(), "options": list(bean.getInputArguments()), "sum": total})
    log = spark.log
print(json.dumps({"told": told, "log": Path(log).read_text()}))
"""


class Machine:
    """Processes that share a home."""

    def __init__(self, folder: Path, jars: Path) -> None:
        self.folder, self.classes = folder, folder / "home" / "classes"
        (folder / "shop.yaml").write_text(PIPELINE)
        own = {"CDC_OPS_HOME": str(folder / "home"), "CDC_OPS_JARS": str(jars), "CDC_OPS_CONN_SHOP_DB": "mariadb://u:p4ssword@h/shop"}
        dropped = {"CDC_OPS_CLASSES", "SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"}
        self.environ = {name: value for name, value in os.environ.items() if name not in dropped} | own | {"SPARK_LOCAL_IP": "127.0.0.1"}

    def run(self, *small: bool) -> list[dict[str, Any]]:
        """Asks for sessions one after the other in a new process; returns what is known of their JVMs."""
        command = [sys.executable, "-c", SCRIPT, str(self.folder / "shop.yaml"), json.dumps(small)]
        process = subprocess.run(command, env=self.environ, cwd=self.folder, capture_output=True, text=True, check=False)
        assert (process.returncode, process.stderr) == (0, "")
        said = json.loads(process.stdout)
        assert "cds" not in said["log"]
        assert [one["sum"] for one in said["told"]] == [4950] * len(small)
        return list(said["told"])

    def archives(self) -> list[Path]:
        return sorted(self.classes.glob("*.jsa"))


@pytest.fixture
def machine(tmp_path: Path, jar_folder: Path) -> Machine:
    return Machine(tmp_path, jar_folder)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_small_job_writes_the_archive_that_others_read_and_a_damaged_one_disturbs_nobody(machine: Machine) -> None:
    [first] = machine.run(True)
    assert {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"} <= set(first["options"])
    assert machine.archives() == []
    machine.run(True)
    [archive] = machine.archives()
    assert list(machine.classes.glob("*.part")) == []
    [third] = machine.run(True)
    assert f"-XX:SharedArchiveFile={archive}" in third["options"]
    size = archive.stat().st_size
    archive.chmod(0o600)
    archive.write_text("no classes")
    os.truncate(archive, size)
    machine.run(True)
    os.truncate(archive, size // 2)
    [last] = machine.run(False)
    assert not [option for option in last["options"] if "Archive" in option]
    assert machine.archives() == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_large_job_does_not_run_in_the_jvm_of_a_small_one_and_a_small_one_may_run_in_a_large_ones(machine: Machine) -> None:
    small, large, again = machine.run(True, False, True)
    assert small["jvm"] != large["jvm"] == again["jvm"]
    assert "-XX:+UseParallelGC" in large["options"]
    assert not {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"} & set(large["options"])
    assert "-XX:ReservedCodeCacheSize=64m" in large["options"]
