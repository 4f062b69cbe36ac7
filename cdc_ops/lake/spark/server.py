"""A Spark Connect server that cdc-ops works on: the command that becomes one. `cdc-ops spark-connect` runs it, services run that."""

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cdc_ops.core.pipeline.connect_address import PORT
from cdc_ops.lake.spark.conf import server_conf, store_conf
from cdc_ops.lake.spark.jars import jar_list

MEMORY: Final = "2g"
"""What its JVM gets, unless somebody says otherwise."""

_APPLICATION: Final = Path(__file__).with_name("server_application.py")


def server_command(
    folder: Path, jars: Path, *, port: int = PORT, memory: str = MEMORY, conf: Mapping[str, str] = {}, properties: Path | None = None
) -> list[str]:
    """Returns the command of a server on the loopback address, which stays in the foreground.

    Args:
        folder: Holds its warehouse; absolute.
        jars: Folder of the jars (`cdc_ops.lake.spark.jars`).
        port: Where it listens.
        memory: Memory of its JVM.
        conf: Settings over those that cdc-ops needs; whoever may see processes sees them.
        properties: File with more settings, under those, such as secrets.
    """
    settings = {
        **server_conf(conf),
        **store_conf(os.environ),
        "spark.master": "local[*]",
        "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **conf,
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    more = ("--properties-file", str(properties)) if properties else ()
    submit = str(spark_home() / "bin" / "spark-submit")
    return [submit, "--name", "cdc-ops server", "--driver-memory", memory, "--jars", jar_list(jars), *more, *options, str(_APPLICATION)]


def spark_home() -> Path:
    """Returns the folder of the Spark that PySpark has brought."""
    found = importlib.util.find_spec("pyspark")  # finds the folder without importing Spark
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
