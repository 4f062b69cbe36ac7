"""Runs in Airflow whose Spark is a server: tasks without spark-submit, and without a Spark connection."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cdc_ops.dev.connect_server import ConnectServer
from cdc_ops.dev.processes import wait_until
from cdc_ops.dev.servers import MariaDBServer
from tests.airflow.stage import LINES, SALES, Stage
from tests.conftest import SMALL_SERVER

SPARK = """spark:
  driver_memory: 1g
  conf:
    spark.sql.shuffle.partitions: "2"
    spark.databricks.delta.snapshotPartitions: "2"
    spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1"  # these JVMs end before better machine code would have paid
"""


@pytest.mark.long
def test_a_run_works_on_the_server_and_a_lost_server_is_a_retry(
    mariadb: MariaDBServer, jar_folder: Path, tmp_path: Path, metadata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(server=mariadb, folder=tmp_path, patch=monkeypatch)
    stage.set_up(execution="fused")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    file = tmp_path / "pipelines" / "shop.yaml"
    with ConnectServer(tmp_path / "server", jars=jar_folder, conf=SMALL_SERVER) as server:
        text = file.read_text()
        assert SPARK in text
        file.write_text(text.replace(SPARK, f"spark: {{connect: '{server.url}'}}\n"))
        first = stage.run()
        assert first.state == "success"
        assert stage.statuses(first) == {SALES: "committed", LINES: "committed"}
        before = stage.watermarks()
        stage.change()
        assert stage.run().state == "success"
        assert all(stage.watermarks()[table] > before[table] for table in (SALES, LINES))
        assert mariadb.password not in server.log.read_text()
    stage.change()
    broken = stage.run()
    assert broken.state == "failed"
    assert stage.statuses(broken) == {SALES: "failed", LINES: "failed"}


def test_the_output_of_a_job_is_logged_and_its_end_told() -> None:
    from airflow.sdk.exceptions import AirflowException

    from cdc_ops.airflow.spark.client_process import ClientProcess

    lines: list[str] = []
    ClientProcess(lines.append).run([sys.executable, "-c", "import os; print(os.environ['GIVEN'])"], {"GIVEN": "ä b", "PYTHONUTF8": "1"})
    assert lines == ["ä b"]
    with pytest.raises(AirflowException, match=r"(?s)exit code 3.*last words"):
        ClientProcess(lines.append).run([sys.executable, "-c", "import sys; print('last words'); sys.exit(3)"], os.environ)


def test_a_task_that_is_cleared_ends_its_job() -> None:
    from airflow.sdk.exceptions import AirflowException

    from cdc_ops.airflow.spark.client_process import ClientProcess

    lines: list[str] = []
    process = ClientProcess(lines.append)
    script = "import sys, threading; print('ready', flush=True); threading.Event().wait()"
    killer = threading.Thread(target=lambda: (wait_until(lambda: lines, 60), process.stop()))
    killer.start()
    with pytest.raises(AirflowException, match=f"exit code -{signal.SIGTERM.value}"):
        process.run([sys.executable, "-c", script], os.environ)
    killer.join()
    assert lines == ["ready"]
    assert isinstance(process._process, subprocess.Popen)
    process.stop()  # it has ended already
