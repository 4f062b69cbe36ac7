"""What steps log stands in the log of the task that they work for: nothing is handed down to them, and Airflow's own settings show it."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import io, json, logging
from airflow.sdk.log import configure_logging
from cdc_ops.steps.archive import copy_binlogs
from cdc_ops.steps.runs import table_groups
output = io.BytesIO()
configure_logging(json_output=True, output=output)  # as a task's process does
table_groups.logger.info("waiting: somebody holds shop.orders")
table_groups.logger.debug("left out")
copy_binlogs.logger.info("db/binlog.000001: 1 MB, 100% of it")
logging.getLogger("cdc_ops.airflow").warning("a task's own line")
lines = [json.loads(line) for line in output.getvalue().splitlines()]
print(*(f"{line['level']} {line['logger']} {line['event']}" for line in lines), sep="\\n")
"""


def test_the_log_of_a_task_has_what_steps_log_by_airflows_own_settings(tmp_path: Path) -> None:
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=300, check=True)
    assert done.stdout.splitlines()[-3:] == [
        "info cdc_ops.plan waiting: somebody holds shop.orders",
        "info cdc_ops.archive db/binlog.000001: 1 MB, 100% of it",
        "warning cdc_ops.airflow a task's own line",
    ]
